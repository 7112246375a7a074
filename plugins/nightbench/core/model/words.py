"""The words of messages and data: strategies, kinds of runs and verdicts, states."""

import hashlib
import json
import re
from enum import StrEnum
from typing import Any

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
"""Pattern of names that become a path component on a node."""


class Strategy(StrEnum):
    """How the work of a step is spread over processes."""

    SINGLE = "single"
    COLLECTIVE = "collective"
    PARAMETER_SERVER = "parameter_server"


class RunKind(StrEnum):
    """Why a run was made; only `nightly` feeds baselines."""

    NIGHTLY = "nightly"
    ON_DEMAND = "on_demand"
    CONFIRM = "confirm"
    BACKFILL = "backfill"
    DRILL = "drill"
    ACCEPTANCE = "acceptance"
    """Every configuration of the lines is tested on a cluster: `nightbench accept`."""


class VerdictKind(StrEnum):
    """The verdict of a run on a series."""

    OK = "ok"
    WATCHED = "watched"
    """Far off the baseline, and not reported as a change: a single night may be an outlier."""
    REGRESSED = "regressed"
    IMPROVED = "improved"
    INSUFFICIENT_DATA = "insufficient_data"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    """A node cannot have the framework: there is nothing to measure."""
    MISSING = "missing"
    TRAINING_CHANGED = "training_changed"
    """Only of alerts: the case trains differently from before; see `TrainingKind`."""


class TrainingKind(StrEnum):
    """The verdict of a run's losses: whether a series still trains as before."""

    SAME = "same"
    CHANGED = "changed"
    NOT_COMPARABLE = "not_comparable"
    """Too few nights with the same definition, or no losses; the sentence says which."""


class Severity(StrEnum):
    """`fail` quarantines a result, `warn` is recorded next to it."""

    FAIL = "fail"
    WARN = "warn"


class CaseStatus(StrEnum):
    """How the measurement of a case ended."""

    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"
    """A node can neither find nor build the framework's environment; the reason says what to do."""
    LEFT_OUT = "left_out"
    """The night had no room for it: neither failed nor missing; the reason says what ended it."""


def digest_of(document: Any) -> str:
    """The sha256 of a JSON document in canonical form: sorted keys, no blanks."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def differ(one: str | None, other: str | None) -> bool:
    """Return whether two names or digests are known and differ."""
    return one != other and bool(one) and bool(other)
