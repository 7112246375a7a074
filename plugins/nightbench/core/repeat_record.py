"""From the documents of one repeat to its record; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nightbench.core.model import ClockOffset, RankResult, RepeatRecord, reasons_from_json

Document = Mapping[str, Any]


def repeat_record(
    said: Document, results: Mapping[str, Document], fingerprints: Mapping[str, str] | None = None
) -> RepeatRecord:
    """One launch of the gang.

    Args:
        said: what its controller wrote of it: `repeat`, `status`, `reasons`, `clocks`, ...
        results: node -> its result.json, as far as they came back.
        fingerprints: node -> fingerprint id.
    """
    ranks = [
        RankResult.from_json(node, process)
        for node, result in sorted(results.items())
        for process in result["processes"]
    ]
    tails = [r["log_tail"] for r in results.values() if r.get("log_tail")]
    started = said.get("started_at")
    return RepeatRecord(
        repeat=said["repeat"],
        status=said["status"],
        reasons=reasons_from_json(said.get("reasons")),
        ranks=tuple(sorted(ranks, key=lambda rank: (rank.role, rank.rank))),
        clocks={
            node: ClockOffset(clock["offset_s"], clock["error_s"])
            for node, clock in (said.get("clocks") or {}).items()
        },
        fingerprints=fingerprints or {},
        started_at=datetime.fromisoformat(started) if started else None,
        log_tail=said.get("log_tail") or (tails[0] if tails else None),
        error=said.get("error"),
    )
