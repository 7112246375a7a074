"""The output of `nightbench parse` for a log."""

from __future__ import annotations

import statistics
from typing import Any, Dict, Iterator, List, Mapping, Optional

from logs.lines import LogError
from logs.reading import Reading, format_named, read
from logs.records import Record

COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh")
"""First bytes of files of gzip, zstd, xz and bzip2."""


def summary(name: str, path: str, options: Mapping[str, Any], warmup: int) -> Dict[str, Any]:
    """Return the steps and values of a log, without those of the warm-up.

    Raises:
        LogError: the log cannot be read without guessing, or it ends in the warm-up.
    """
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise LogError("{}: {}".format(path, error.strerror)) from error
    if content.startswith(COMPRESSED):
        said = "{0}: found a compressed file; expected text: zcat {0} | nightbench parse {1} -"
        raise LogError(said.format(path, name))
    text = content.decode("utf-8", "replace")
    try:
        reading = read(name, text, dict({"choose": True}, **options))
    except LogError as error:
        raise LogError("{}: {}".format(path, error)) from error
    measured = reading.warmed(warmup)
    figures = {
        figure: _described([getattr(record, figure) for record in measured])
        for figure in ("throughput", "step_s")
    }
    if not any(figures.values()):
        raise LogError(
            "{}: {} lines state {}, and no value after {} steps of warm-up{}; give "
            "--warmup 0 to read them{}".format(
                path,
                len(reading.records),
                _steps(reading),
                warmup,
                "" if reading.numbered else " (each counts as one)",
                reading.earlier and ", or cut the log before them to read " + reading.earlier,
            )
        )
    names = sorted({name for record in measured for name in record.others})
    others = {
        other: _described([record.others.get(other) for record in measured]) for other in names
    }
    return dict(
        figures,
        others=others,
        format=name,
        title=format_named(name).TITLE,
        lines=len(reading.records),
        steps=_steps(reading),
        numbered=reading.numbered,
        warmup_lines=len(reading.records) - len(measured),
        unit=reading.unit,
        per_device=reading.per_device,
        left_out=reading.left_out,
        skipped=reading.skipped,
        notes=list(_notes(reading, measured)),
    )


def _notes(reading: Reading, measured: List[Record]) -> Iterator[str]:
    """Yield notes on the values, if they are not those of the whole job's training."""
    if reading.processes:
        yield "the values are those of {}; each may state only its share".format(reading.processes)
    if any(record.whole for record in measured):
        yield "the values are means over the whole training, warm-up included"
    if reading.earlier:
        yield "not read: {}".format(reading.earlier)


def _steps(reading: Reading) -> str:
    if not reading.numbered:
        return "steps without numbers"
    return "steps {} to {}".format(reading.records[0].step, reading.records[-1].step)


def _described(values: List[Optional[float]]) -> Optional[Dict[str, float]]:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {
        "median": statistics.median(known),
        "minimum": min(known),
        "maximum": max(known),
        "n": len(known),
    }
