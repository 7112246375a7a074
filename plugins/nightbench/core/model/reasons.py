"""Why something failed, was disturbed, refused or left out, as data; see `core.sentences`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ReasonCode(StrEnum):
    """What happened. The codes up to `agent_error` are also `$defs/reason` of result/1."""

    # A node says of its processes.
    PROCESS_EXITED = "process_exited"
    PROCESS_KILLED = "process_killed"
    EXCEPTION = "exception"
    OUT_OF_MEMORY = "out_of_memory"
    LOSS_NOT_FINITE = "loss_not_finite"
    NO_RANK_FILE = "no_rank_file"
    NO_PROGRESS = "no_progress"
    REPEAT_TOO_LONG = "repeat_too_long"
    PROCESSES_STUCK = "processes_stuck"
    # A node says of itself and of its neighbours.
    FOREIGN_CPU = "foreign_cpu"
    FOREIGN_GPU = "foreign_gpu"
    DEVICE_THROTTLED = "device_throttled"
    NODE_IN_USE = "node_in_use"
    # A node says of its agent.
    NO_GO = "no_go"
    GO_WITHOUT_PORT = "go_without_port"
    AGENT_DIED = "agent_died"
    AGENT_SIGNALLED = "agent_signalled"
    NODE_REBOOTED = "node_rebooted"
    LEASE_EXPIRED = "lease_expired"
    STOPPED = "stopped"
    AGENT_ERROR = "agent_error"
    # The controller says of a node.
    NODE_ERROR = "node_error"
    NODE_UNREACHABLE = "node_unreachable"
    NOT_SSH = "not_ssh"
    HOST_KEY_REJECTED = "host_key_rejected"
    LOGIN_REFUSED = "login_refused"
    DISK_FULL = "disk_full"
    REMOTE_FAILURE = "remote_failure"
    PYTHON_UNUSABLE = "python_unusable"
    ENVIRONMENT_UNAVAILABLE = "environment_unavailable"
    AGENT_GONE = "agent_gone"
    NODE_NOT_READY = "node_not_ready"
    NODE_NOT_STARTED = "node_not_started"
    NO_RESULT = "no_result"
    # The controller says of a repeat or a case.
    CONTROLLER_ERROR = "controller_error"
    CANCELLED = "cancelled"
    LAUNCHES_FAILED = "launches_failed"
    DISTURBED_TOO_OFTEN = "disturbed_too_often"
    CODE_BROKEN = "code_broken"
    STEPS_DIFFER = "steps_differ"
    BATCH_JOB_ENDED = "batch_job_ended"
    TIME_LIMIT = "time_limit"
    NO_OUTCOME = "no_outcome"
    # The night's plan says of a case.
    WINDOW_ENDED = "window_ended"
    NOT_BEGUN = "not_begun"
    TIME_UNKNOWN = "time_unknown"
    NIGHT_TOO_SHORT = "night_too_short"
    NIGHT_FULL = "night_full"
    NODE_LEFT_OUT = "node_left_out"
    TOO_FEW_NODES = "too_few_nodes"
    # The summary and the checks say of a result.
    NO_TRAINER = "no_trainer"
    NO_STEPS = "no_steps"
    BAD_WINDOW = "bad_window"
    BAD_FIGURE = "bad_figure"
    NO_CLOCK_OFFSET = "no_clock_offset"
    NO_COMMON_INTERVAL = "no_common_interval"
    NO_GOOD_REPEAT = "no_good_repeat"
    ENDED_AS = "ended_as"
    CHECK_FAILED = "check_failed"
    # Said of a node over the nights.
    PREFLIGHT_FAILED = "preflight_failed"
    PREFLIGHT_CLEAN = "preflight_clean"
    FAULTS_IN_A_ROW = "faults_in_a_row"
    QUARANTINED = "quarantined"
    NIGHT_MEASURED_ON = "night_measured_on"
    PERSON = "person"
    # Written before reasons were data.
    PROSE = "prose"


EXPLAINED_BY_THE_NEXT = frozenset(
    {
        ReasonCode.LAUNCHES_FAILED,
        ReasonCode.DISTURBED_TOO_OFTEN,
        ReasonCode.FAULTS_IN_A_ROW,
        ReasonCode.NODE_LEFT_OUT,
        ReasonCode.NO_GOOD_REPEAT,
        ReasonCode.QUARANTINED,
    }
)
"""They say how often or since when; why stands in the reasons after them."""


@dataclass(frozen=True)
class Reason:
    """One reason. Texts are short and hold no sentence of another reason."""

    code: ReasonCode
    node: str | None = None
    subject: str | None = None
    """The process, check, device, address or case that it is about, where it is about one."""
    observed: str = ""
    """What was found, with its unit: `42% of the cores`, `code 1`."""
    expected: str = ""
    """What was expected, with its unit; empty where the code says it."""

    def to_json(self) -> dict[str, Any]:
        """As it stands in result.json, in the spool and in the warehouse."""
        return {**vars(self), "code": str(self.code)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Reason:
        """The inverse of `to_json`."""
        return cls(**{**document, "code": ReasonCode(document["code"])})


def reasons_from_json(documents: Iterable[Mapping[str, Any]] | None) -> tuple[Reason, ...]:
    """The reasons of a document; empty where it has none."""
    return tuple(Reason.from_json(document) for document in documents or ())


def reasons_to_json(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    """The inverse of `reasons_from_json`."""
    return [reason.to_json() for reason in reasons]
