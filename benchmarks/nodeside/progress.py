"""The progress of a process: the end of its steps.jsonl, read as it grows."""

from __future__ import annotations

import json
import os
import time
from typing import Any


class Progress:
    """Follows one steps.jsonl; of each piece it parses the last complete record only."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self.phase = "start"
        self.step = 0
        self.t_s: float | None = None
        self.changed_s = time.monotonic()
        """The agent's clock when the last new record was seen."""

    def look(self) -> None:
        """Read what was written since the last call."""
        try:
            size = os.stat(self._path).st_size
            if size <= self._offset:
                return
            with open(self._path, "rb") as handle:
                handle.seek(self._offset)
                piece = handle.read()
        except OSError:
            return
        end = piece.rfind(b"\n") + 1
        if end == 0:
            return
        self._offset += end
        self.changed_s = time.monotonic()
        record = _parse(piece[:end].rstrip(b"\n").rpartition(b"\n")[2])
        if record is None:
            return
        phase = record.get("phase")
        if isinstance(phase, str) and phase != self.phase:
            self.phase, self.step = phase, 0
        if record.get("kind") == "step":
            self.step = record.get("step", self.step)
        self.t_s = record.get("t_s", self.t_s)

    def idle_s(self) -> float:
        """Return the seconds since the last new record."""
        return time.monotonic() - self.changed_s


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line.decode())
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
