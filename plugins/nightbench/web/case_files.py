"""Files of a repeat that the spool still has: samples of its nodes, and the ends of its logs."""

import re
from collections.abc import Mapping, Sequence

from fastapi import HTTPException

from nightbench.core.errors import ItemErrors
from nightbench.core.printable import without_controls
from nightbench.core.sentences import retention_text
from nightbench.spool import CaseStore, Spool, SpoolError
from nightbench.web.case_views import Sample
from nightbench.web.run_models import RepeatLog

LOG_BYTES = 48 * 1024
LOG_LINES = 400
MOST_PROCESSES = 500

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class RepeatFiles:
    """The files of one repeat; reading a file that is gone finds nothing."""

    def __init__(
        self, spool: Spool, run_id: str, case_id: str, generation: int, repeat: int
    ) -> None:
        try:
            self._run = spool.run(run_id)
            self._store: CaseStore = self._run.case(case_id, generation)
        except SpoolError:
            raise HTTPException(
                404, f"There is no case {case_id[:200]} in a run {run_id[:200]}."
            ) from None
        self._repeat = repeat

    @property
    def why_gone(self) -> str:
        """The sentence for a file that is not there."""
        if self._run.folder.exists():
            return "The spool has no such file of this repeat."
        return (
            "The files of this run were removed from the spool, where they are "
            f"{retention_text('spool_days')}."
        )

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Node -> what was sampled on it."""
        found, errors = {}, ItemErrors()
        for node in self._store.nodes(self._repeat):
            with errors.of(f"samples of {node}"):
                result = self._store.result(self._repeat, node) or {}
                found[node] = (result.get("telemetry") or {}).get("samples") or []
        return found

    def log(self, process: str) -> RepeatLog:
        """The end of the log of a process; an empty name chooses one that failed, or the first."""
        logs = self._store.logs(self._repeat)
        reasons = (self._store.repeat(self._repeat) or {}).get("reasons") or []
        blamed = [reason.get("subject") for reason in reasons]
        # trainer-10 stands after trainer-9.
        names = sorted(logs, key=lambda name: (name not in blamed, len(name), name))
        chosen = process or next(iter(names), "")
        text, is_cut, sentence = "", False, None
        if chosen not in logs:
            of = f" of {process[:200]}" if process else ""
            sentence = f"There is no log{of}. {self.why_gone}"
        else:
            content = bytes(logs[chosen].read_bytes())
            lines = content[-LOG_BYTES:].decode(errors="replace").splitlines()
            is_cut = len(content) > LOG_BYTES or len(lines) > LOG_LINES
            text = without_controls(_COLOURS.sub("", "\n".join(lines[-LOG_LINES:])))
        return RepeatLog(
            processes=names[:MOST_PROCESSES],
            process=chosen or None,
            text=text,
            is_cut=is_cut,
            sentence=sentence,
        )
