"""Views of one repeat: step times with their outliers, telemetry by metric, ends of logs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from fastapi import HTTPException

from nightbench.core.errors import ItemErrors
from nightbench.core.printable import without_controls
from nightbench.core.sentences import retention_text
from nightbench.spool import CaseStore, Spool, SpoolError
from nightbench.warehouse.repository import Row
from nightbench.web.run_models import RankSteps, RepeatLog, TelemetryMetric

STEPS_SHOWN = 40_000
"""Steps of all processes that one answer holds; those of the slowest processes."""
SAMPLES_SHOWN = 600
"""Samples of a metric that one answer holds."""
OUTLIER_DEVIATIONS = 6.0
LEAST_OUTLIER = 1.1
"""An outlier takes at least so many times the median step."""

_OF_NODE = (
    ("CPU", "%", "cpu_percent", 1.0),
    ("memory", "GB", "memory_used_bytes", 1e-9),
    ("load (1 minute)", "", "load1", 1.0),
)
_OF_GPU = (
    ("SM clock", "MHz", "sm_clock_mhz", 1.0),
    ("power", "W", "power_w", 1.0),
    ("temperature", "°C", "temperature_c", 1.0),
    ("utilization", "%", "utilization_percent", 1.0),
    ("memory", "GB", "memory_used_bytes", 1e-9),
)
NEVER_SAMPLED = "CPU clock, CPU temperature, CPU power and network traffic are not sampled."
LOG_BYTES = 48 * 1024
LOG_LINES = 400
MOST_PROCESSES = 500

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Sample = Mapping[str, Any]


# --- steps --------------------------------------------------------------------------------


def rank_steps(ranks: Sequence[Row]) -> list[RankSteps]:
    """Return the step times of processes, in their order, with arrays as far as they fit."""
    found: list[RankSteps] = []
    room = STEPS_SHOWN
    for row in ranks:
        if not row["step_seconds"]:
            continue
        seconds, warmup = _all_steps(row)
        is_shown = not found or len(seconds) <= room
        room -= len(seconds) if is_shown else room
        found.append(_rank(row, seconds if is_shown else [], warmup))
    return found


def _rank(row: Row, seconds: list[float | None], warmup: int) -> RankSteps:
    window = row["step_seconds"]
    middle = median(window)
    deviation = 1.4826 * median(abs(each - middle) for each in window)
    limit = max(LEAST_OUTLIER * middle, middle + OUTLIER_DEVIATIONS * deviation)
    return RankSteps.of(
        row,
        warmup=warmup,
        window=len(window),
        median_s=middle,
        longest_s=max(window),
        limit_s=limit,
        outliers=sum(each > limit for each in window),
        seconds=[None if each is None else round(each, 7) for each in seconds],
    )


def _all_steps(row: Row) -> tuple[list[float | None], int]:
    """Return the lengths of all steps, and how many lie before the window; not waits around it."""
    ends, window = row["step_end_s"], row["step_seconds"]
    opened = row["window_open_s"]
    before = [] if opened is None else [end for end in ends if end <= opened]
    after = ends[len(before) + len(window) :]
    laps: list[float | None] = [None] if before else []
    laps += [end - begin for begin, end in pairwise(before)]
    laps += window
    if after:
        laps += [None, *(end - begin for begin, end in pairwise(after))]
    return laps, len(before)


# --- telemetry ----------------------------------------------------------------------------


def telemetry(samples: Mapping[str, Sequence[Sample]]) -> list[TelemetryMetric]:
    """Return the metrics that were sampled, by node and device."""
    found = []
    for node, given in sorted(samples.items()):
        kept = given[:: -(-len(given) // SAMPLES_SHOWN) or 1]
        for metric, unit, key, scale in _OF_NODE:
            found.append(_metric(node, "", metric, unit, kept, [s.get(key) for s in kept], scale))
        for index in sorted({gpu["index"] for sample in kept for gpu in sample.get("gpus") or ()}):
            gpus = [_gpu(sample, index) for sample in kept]
            for metric, unit, key, scale in _OF_GPU:
                values = [gpu.get(key) for gpu in gpus]
                found.append(_metric(node, f"GPU {index}", metric, unit, kept, values, scale))
    return [metric for metric in found if metric is not None]


def missing_telemetry(samples: Mapping[str, Sequence[Sample]]) -> list[str]:
    """Return a sentence for each thing that was not recorded, or slowed a GPU."""
    said = []
    without = [
        node for node, given in sorted(samples.items()) if not any(s.get("gpus") for s in given)
    ]
    if without:
        said.append(
            f"GPU metrics were not recorded on {', '.join(without)}: nvidia-smi is missing or "
            "printed nothing."
        )
    for node, given in sorted(samples.items()):
        said += [f"{node}, GPU {index} was throttled: {what}" for index, what in _throttles(given)]
    return [*said, NEVER_SAMPLED]


def _metric(
    node: str,
    device: str,
    metric: str,
    unit: str,
    samples: Sequence[Sample],
    values: Sequence[float | None],
    scale: float,
) -> TelemetryMetric | None:
    scaled = [None if value is None else round(value * scale, 3) for value in values]
    known = [value for value in scaled if value is not None]
    if not known:
        return None
    return TelemetryMetric(
        node=node,
        device=device,
        metric=metric,
        unit=unit,
        smallest=min(known),
        median=median(known),
        largest=max(known),
        seconds=[round(sample["t_s"] - samples[0]["t_s"], 3) for sample in samples],
        values=scaled,
    )


def _gpu(sample: Sample, index: int) -> Mapping[str, Any]:
    return next((gpu for gpu in sample.get("gpus") or () if gpu["index"] == index), {})


def _throttles(samples: Sequence[Sample]) -> Iterator[tuple[int, str]]:
    """Yield each GPU's mask of reasons other than being idle, once."""
    seen = {
        (gpu["index"], gpu["throttle"])
        for sample in samples
        for gpu in sample.get("gpus") or ()
        if (gpu.get("throttle") or "").startswith("0x") and int(gpu["throttle"], 16) & ~1
    }
    yield from sorted(seen)


# --- files -------------------------------------------------------------------------------


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
