"""The controller's commands: files under control/, each with the epoch of its writer."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Iterable

from nodeside.files import EventLog, read_json, read_text

_EPOCH = re.compile(r"epoch-(\d+)\Z")
_COMMAND = re.compile(r"(prepare|go|drain|finish|abort|release)-(\d+)\.json\Z")


def highest_epoch(names: Iterable[str]) -> int:
    """Return the highest epoch that a controller has claimed in a folder with these names, or 0."""
    return max((int(found.group(1)) for found in map(_EPOCH.match, names) if found), default=0)


class CommandFolder:
    """Reads commands and lease; commands with an epoch below the highest one are ignored."""

    def __init__(self, folder: str, log: EventLog) -> None:
        self._folder = folder
        self._log = log
        self._lease: str | None = None
        self._renewed_s = time.monotonic()
        self._ignored: set[tuple[str, int]] = set()
        self.epoch = 0
        self.commands: dict[tuple[str, int], dict[str, Any]] = {}
        """(verb, repeat) -> document; stop is ("stop", 0), release has the agent's pid."""

    def read_new(self) -> None:
        """Read epochs, commands and lease again."""
        names = sorted(os.listdir(self._folder))
        self.epoch = max(self.epoch, highest_epoch(names))
        for name in names:
            found = _COMMAND.match(name)
            if found:
                self._read(name, (found.group(1), int(found.group(2))))
            elif name == "stop.json":
                self._read(name, ("stop", 0))
        lease = read_text(os.path.join(self._folder, "lease"))
        if lease is not None and lease != self._lease:
            self._lease = lease
            self._renewed_s = time.monotonic()

    def _read(self, name: str, key: tuple[str, int]) -> None:
        if key in self.commands:
            return
        document = read_json(os.path.join(self._folder, name))
        if document is None:
            return
        epoch = document.get("epoch")
        if not isinstance(epoch, int) or epoch < self.epoch:
            # An epoch that is no number is treated like an old one.
            seen = (name, epoch if isinstance(epoch, int) else -1)
            if seen not in self._ignored:
                self._ignored.add(seen)
                self._log.write("refused", command=name, epoch=epoch, current=self.epoch)
            return
        self.commands[key] = document

    def command(self, verb: str, number: int = 0) -> dict[str, Any] | None:
        """Return a command; None if the controller has not written it."""
        return self.commands.get((verb, number))

    def prepared(self) -> list[int]:
        """Return the repeats that are to be prepared, in order."""
        return sorted(repeat for verb, repeat in self.commands if verb == "prepare")

    def lease_age_s(self) -> float:
        """Return the seconds since the lease was renewed, or since the agent's start."""
        return time.monotonic() - self._renewed_s
