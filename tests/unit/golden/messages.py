"""All sentences of a subject with sample data, for the golden file `messages.txt`.

To write the file again: PYTHONPATH=plugins:benchmarks python -m tests.unit.golden.messages
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from tests.unit.nodes.conftest import healthy_document
from tests.unit.nodes.test_findings import SPOILED

from nightbench.alerts import AlertItem, EndedAlert, Links, message
from nightbench.alerts.message import AGAIN, DRIFTS, NOISE
from nightbench.alerts.notes import confirmation_notes, drift_notes, noise_notes
from nightbench.core.model import (
    THROUGHPUT,
    ClockOffset,
    HistoryPoint,
    PairNight,
    Reason,
    ReasonCode,
    Run,
    RunKind,
    Verdict,
    VerdictKind,
)
from nightbench.core.model.alerts import (
    Cause,
    CauseEvidence,
    CauseKind,
    Confirmation,
    ConfirmationResult,
)
from nightbench.core.model.metrics import METRICS
from nightbench.core.model.reasons import EXPLAINED_BY_THE_NEXT
from nightbench.core.sentences import sentences
from nightbench.detection import Change
from nightbench.detection import verdict_sentences as said
from nightbench.detection.control_shift import ControlShift
from nightbench.detection.drift import Drift
from nightbench.detection.factors import Factor, FactorKind, SharedChange
from nightbench.detection.node_modes import Modes
from nightbench.detection.noise import Variation
from nightbench.experiments.paired_statistics import estimate
from nightbench.nodes import NodePreflight, findings

GOLDEN = Path(__file__).with_name("messages.txt")

SINCE = datetime(2026, 9, 13, 1, tzinfo=UTC)
DROP = Change(
    40, 43, -0.115, -0.125, -0.107, 14.23, 0.013, 2.5, excursions=0, after=3, reference=56
)
OLD = HistoryPoint(SINCE, 14.25, "night-40", fingerprint_id="a", framework_version="2.13.0")
NEW = HistoryPoint(SINCE, 12.61, "night-41", fingerprint_id="a", framework_version="2.14.0")
CONTROL = ControlShift(-0.118, -0.124, -0.111, share=0.97, remains=0.004, before=40, since=3)
SHARED = SharedChange(
    Factor(FactorKind.NODE, "gpu03"),
    date(2026, 9, 13),
    *(-0.041, -0.047, -0.036),
    {"resnet50": -0.041, "bert": -0.04},
    series=16,
    controls=(3, 4),
    score=5.0,
)
OK = Verdict("resnet50", "lab", "night-43", VerdictKind.OK, "Unchanged: the baseline is 14.23.")


def verdicts() -> Iterator[tuple[str, str]]:
    """Yield what each sentence is about, and the sentence."""
    size = said.level_change(DROP, SINCE, "14.23") + said.tonight(12.47, 14.23, THROUGHPUT)
    yield "a drop", size
    yield "one of `detect`", said.level_change(DROP, SINCE)
    yield "excursions before", said.level_change(replace(DROP, excursions=1), SINCE)
    yield "more of them", said.level_change(replace(DROP, excursions=3), SINCE)
    memory = METRICS["peak_resident_bytes"]
    yield "more memory", said.tonight(1.25e9, 1e9, memory)
    yield "a prior", said.log_odds(2.5, 1.0, "new version")
    yield "a new version", said.coincidence(OLD, NEW)
    yield "new hardware too", said.coincidence(OLD, replace(NEW, fingerprint_id="b"))
    for name, share in (("explained", 0.97), ("in part", 0.4), ("not explained", 0.0)):
        yield f"control measurements, {name}", said.controls(replace(CONTROL, share=share))
    yield "no change", said.unchanged(12.7, 12.74, THROUGHPUT, 21, 0.006)
    yield "repeats", said.noisy_repeats(0.041)
    yield "one night", said.WATCHED
    yield "other nodes", said.pending(-0.039, SINCE, "gpu01", "gpu02", 3)
    yield "a drift", said.drifting(Drift(0, 60, -0.05, 0.002))
    yield "a young series", said.too_few(9, 10)
    yield "a shared change", said.with_shared(OK, [SHARED]).sentence
    yield "a version", said.not_of_the_version(date(2026, 9, 13), 0, 5, "paddle3")
    yield "shown by others", said.shown_by_others(95.9, 100.0, SHARED, -0.041)
    pairs = PairNight("night-43", "pytorch-2.13.0", 0.951, 0.01, 5, 100.0, 0.944, 0.958)
    yield "a reference", said.with_pairs(OK, pairs, None, None).sentence
    yield "a changed reference", said.with_pairs(OK, pairs, -0.062, SINCE).sentence
    yield "a noisy series", f"Noisy: {Variation(0.12, 0.2).sentence(0.1)}."
    yield "two levels", said.with_levels(OK, Modes([], {"gpu01": 94.1, "gpu02": 97.9})).sentence


def comparisons() -> Iterator[tuple[str, str]]:
    """Yield each verdict on a comparison of B with A, and what follows from it."""
    for name, ratios in (
        ("slower", (0.970, 0.971, 0.969, 0.970)),
        ("faster", (1.030, 1.031, 1.029, 1.030)),
        ("same", (1.000, 1.001, 0.999, 1.000)),
        ("slower, by an unclear size", (0.985, 0.995, 0.988, 0.993)),
        ("unclear", (0.97, 1.03, 0.99, 1.02)),
        ("near the limit", (0.989, 0.991, 0.990, 0.990)),
        ("noisy", (0.3, 1.7, 0.5, 2.0)),
        ("too few rounds", (0.97,)),
    ):
        yield name, estimate(ratios, 0.01).sentence


REASONS: dict[ReasonCode, tuple[str, str, str]] = {
    ReasonCode.PROCESS_EXITED: ("rank 1", "code 1", ""),
    ReasonCode.PROCESS_KILLED: ("rank 1", "SIGKILL", ""),
    ReasonCode.OUT_OF_MEMORY: ("rank 1", "the kernel's log", ""),
    ReasonCode.LOSS_NOT_FINITE: ("rank 1", "", ""),
    ReasonCode.NO_RANK_FILE: ("rank 1", "", ""),
    ReasonCode.NO_PROGRESS: (
        "rank 1",
        'last seen in phase "window", step 12',
        "a step within 300 s",
    ),
    ReasonCode.REPEAT_TOO_LONG: ("", "", "30 min"),
    ReasonCode.PROCESSES_STUCK: ("", "4711, 4712", ""),
    ReasonCode.FOREIGN_CPU: ("", "42% of the cores: train (pid 7, user anna)", "10% at most"),
    ReasonCode.FOREIGN_GPU: ("", "train (pid 7, user anna)", "none"),
    ReasonCode.DEVICE_THROTTLED: ("GPU 0", "hw_thermal_slowdown in 12 samples", "in no sample"),
    ReasonCode.NODE_IN_USE: ("", "600 s", ""),
    ReasonCode.NO_GO: ("", "", "60 s"),
    ReasonCode.GO_WITHOUT_PORT: ("", "master", ""),
    ReasonCode.AGENT_DIED: ("", "", ""),
    ReasonCode.AGENT_SIGNALLED: ("", "SIGTERM", ""),
    ReasonCode.NODE_REBOOTED: ("", "", ""),
    ReasonCode.LEASE_EXPIRED: ("", "120 s", ""),
    ReasonCode.STOPPED: ("", "", ""),
    ReasonCode.NODE_UNREACHABLE: ("", "connection refused", ""),
    ReasonCode.AGENT_GONE: ("", "it is dead", ""),
    ReasonCode.NODE_NOT_READY: ("", "", "60 s"),
    ReasonCode.NODE_NOT_STARTED: ("", "", "10 s"),
    ReasonCode.NO_RESULT: ("", "", ""),
    ReasonCode.CANCELLED: ("", "by anna", ""),
    ReasonCode.LAUNCHES_FAILED: ("", "3 of 5 launches", ""),
    ReasonCode.DISTURBED_TOO_OFTEN: ("", "3 repeats", "2 at most"),
    ReasonCode.STEPS_DIFFER: ("rank 1", "300 s", ""),
    ReasonCode.BATCH_JOB_ENDED: ("Slurm job 17", "TIMEOUT", ""),
    ReasonCode.TIME_LIMIT: ("", "", "2 h"),
    ReasonCode.NO_OUTCOME: ("", "", ""),
    ReasonCode.WINDOW_ENDED: ("2026-09-13 06:00 UTC", "2 good of 5 repeats", "5 good repeats"),
    ReasonCode.NOT_BEGUN: ("2026-09-13 06:00 UTC", "takes about 30 min", ""),
    ReasonCode.TIME_UNKNOWN: ("", "2 h", "1 h"),
    ReasonCode.NIGHT_TOO_SHORT: ("", "about 1 h 30 min", "1 h (the hours 22-06)"),
    ReasonCode.NIGHT_FULL: (
        "",
        "about 30 min",
        "20 min until 2026-09-13 06:00 UTC (the hours 22-06)",
    ),
    ReasonCode.NODE_LEFT_OUT: ("", "", ""),
    ReasonCode.TOO_FEW_NODES: ("", "1 of 2", ""),
    ReasonCode.NO_TRAINER: ("", "3 trainers", "4"),
    ReasonCode.NO_STEPS: ("rank 1", "", ""),
    ReasonCode.BAD_WINDOW: ("rank 1", "-1 s", ""),
    ReasonCode.BAD_FIGURE: ("the throughput", "nan", ""),
    ReasonCode.NO_CLOCK_OFFSET: ("", "", ""),
    ReasonCode.NO_COMMON_INTERVAL: ("", "0.3 s", ""),
    ReasonCode.NO_GOOD_REPEAT: ("", "", ""),
    ReasonCode.ENDED_AS: ("", "timeout", ""),
    ReasonCode.CHECK_FAILED: (
        "loss_falls",
        "the loss of the first batch is higher by 0.015 after the window",
        "training lowers the loss",
    ),
    ReasonCode.PREFLIGHT_FAILED: ("disk", "0 free", "5 GB"),
    ReasonCode.PREFLIGHT_CLEAN: ("", "", ""),
    ReasonCode.FAULTS_IN_A_ROW: ("resnet50/g0", "2 faults", ""),
    ReasonCode.QUARANTINED: ("", "2026-09-12 01:00 UTC", ""),
    ReasonCode.NIGHT_MEASURED_ON: ("", "gpu01", ""),
    ReasonCode.UNREADABLE: ("", "{'kind': 'no_answer'}", ""),
    ReasonCode.POD_UNSCHEDULABLE: ("", "0/4 nodes are available", "10 min"),
    ReasonCode.POD_IMAGE: ("", "reg/torch: not found", ""),
    ReasonCode.POD_NOT_STARTED: ("", "CreateContainerConfigError", ""),
    ReasonCode.POD_OUT_OF_MEMORY: ("", "OOMKilled", ""),
    ReasonCode.POD_EVICTED: ("", "the node was low on memory", ""),
    ReasonCode.POD_PREEMPTED: ("", "by a pod of a higher priority", ""),
    ReasonCode.POD_DELETED: ("", "by another client", ""),
    ReasonCode.POD_ENDED: ("", "exit code 1", ""),
    ReasonCode.MACHINE_LOST: ("", "NodeLost", ""),
    ReasonCode.QUOTA_EXCEEDED: ("", "requests.cpu", ""),
    ReasonCode.API_FORBIDDEN: ("", "cannot create pods", ""),
    ReasonCode.API_REFUSED: ("", "422", ""),
}
"""Code -> subject, observed and expected; codes without words of their own are left out."""


def reasons() -> Iterator[tuple[str, str]]:
    """Yield each code with its sentence, and some together."""
    why = [Reason(ReasonCode.PROCESS_EXITED, "n1", "rank 1", "code 1")]
    for code, (subject, observed, expected) in REASONS.items():
        told = [Reason(code, "n1", subject, observed, expected)]
        yield code, sentences(told + why * (code in EXPLAINED_BY_THE_NEXT))
    yield (
        "together",
        sentences(
            [
                Reason(ReasonCode.LAUNCHES_FAILED, None, None, "3 of 5 launches"),
                Reason(ReasonCode.PROCESS_EXITED, "n1", "rank 1", "code 1"),
                Reason(ReasonCode.EXCEPTION, "n1", "rank 1", "ValueError: no data (train.py:7)"),
            ]
        ),
    )


def node_findings() -> Iterator[tuple[str, str]]:
    """Yield level and title of each finding of `doctor`, and its sentence with the fix."""
    at = "2026-09-13T01:00:00+00:00"
    for change, cluster, *_ in SPOILED:
        document = copy.deepcopy(healthy_document())
        change(document)
        seen = NodePreflight(
            "n1", "n1.test:22", at, document=document, reachable=True, clock=ClockOffset(0, 0.001)
        )
        for each in findings(seen, cluster):
            text = f"found: {each.found}\nexpected: {each.expected}\n-> {each.advice}"
            yield f"{each.level}, {each.title}", text


RUN = Run(
    "demo-20260913T010000-0000", "demo", "lab", RunKind.NIGHTLY, SINCE,
    dag_id="nightly_demo", dag_run_id="scheduled__2026-09-13",
)  # fmt: skip
ALERT = AlertItem(
    Verdict(
        "resnet50", "lab", RUN.run_id, VerdictKind.REGRESSED, "Level change -11.5%.",
        12.47, 14.23, -0.123, 56, level_change=-0.115, low=-0.125, high=-0.107, since=SINCE,
    ),
    unit="images",
    alert_id=7,
    first_bad=NEW,
    last_good=OLD,
    changes=("pytorch: 2.13.0 -> 2.14.0", "kernel: 6.17 -> 6.18 (on gpu01, gpu02)"),
    cause=Cause(
        CauseKind.FRAMEWORK_VERSION,
        "The version of pytorch changed from 2.13.0 to 2.14.0.",
        (
            CauseEvidence("other frameworks on the same nodes were steady (4 series)"),
            CauseEvidence("2 other series of pytorch were steady", is_against=True),
        ),
    ),
    confirmation=Confirmation(
        ConfirmationResult.CONFIRMED, "2.14.0 compared with 2.13.0 on gpu01.", 0.887, 0.88, 0.894, 7
    ),
    reproduce="nightbench compare pytorch=2.13.0 pytorch=2.14.0 --suite demo --case resnet50",
)  # fmt: skip
FAILED = AlertItem(
    Verdict("ctr_dnn", "lab", RUN.run_id, VerdictKind.FAILED, "n2: unreachable: no answer"),
    error="Traceback\nValueError: no data",
)


def alerts() -> Iterator[tuple[str, str]]:
    """Yield messages, each with its title."""
    links = Links("http://airflow.example.org")
    group = replace(ALERT.cause, group="g") if ALERT.cause else None
    one = replace(ALERT, cause=group)
    other = replace(one, verdict=replace(ALERT.verdict, case_id="bert", change=-0.2))
    noise = {
        "case_id": "vgg16", "cluster": "lab", "what": "noisy",
        "sentence": "its night-to-night noise is 12.0%; the limit is 10.0%",
    }  # fmt: skip
    drift = {"case_id": "vgg16", "cluster": "lab", "change": -0.05, "error": 0.002, "nights": 60}
    pending = {"requested_by": "nightbench", "verdict": None, "state": "cancelled"}
    ended = {
        **pending, "state": "done", "verdict": "confirmed", "requested_at": SINCE,
        "ended_at": SINCE + timedelta(minutes=14),
        "result": {"low": 0.88, "high": 0.888}, "request": {"low": -0.15, "high": -0.09},
    }  # fmt: skip
    notes = {
        NOISE: noise_notes([noise, {**noise, "case_id": "gpt2", "what": "steady"}]),
        DRIFTS: drift_notes([drift]),
        AGAIN: confirmation_notes([{**pending, "requested_at": SINCE}, ended]),
    }
    resolved = [EndedAlert("llama", "Unchanged: the baseline is 14.23.", 5)]
    untried = replace(ALERT, untried="pytorch was never run on ROCm", confirmation=None)
    shared = replace(ALERT, shared=SHARED.sentence, members=SHARED.members)
    for name, items, more in (
        ("one alert", [ALERT], {"links": links}),
        ("a failure", [FAILED], {"is_urgent": True}),
        ("one cause", [one, other], {"links": links}),
        ("grown", [replace(ALERT, grown_from=-0.05, changes=())], {}),
        ("untried, measured again", [replace(untried, is_awaited=True, changes=None)], {}),
        ("a shared change", [shared], {}),
        ("resolved, and notes", [], {"resolved": resolved, "links": links, "notes": notes}),
    ):
        found = message(RUN, "benchmarks", items, **more)  # type: ignore[arg-type]
        yield name, f"{found.title}\n{found.body}"


def text() -> str:
    """Return the golden file."""
    parts = []
    for title, found in (
        ("Verdicts", verdicts()),
        ("Comparisons", comparisons()),
        ("Reasons", reasons()),
        ("Findings of doctor", node_findings()),
        ("Messages of alerts", alerts()),
    ):
        parts += [f"# {title}\n", *(f"[{name}]\n{each.strip()}\n" for name, each in found)]
    return "\n".join(parts)


if __name__ == "__main__":
    GOLDEN.write_text(text(), encoding="utf-8")
