"""Why something failed, was disturbed, refused or left out, as data; see `core.sentences`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from nightbench.core.documents import from_document


class ReasonCode(StrEnum):
    """The kind of an event, with its words for `core.sentences`; by default the observation.

    The codes up to `agent_error` are also `$defs/reason` of result/1.
    """

    words: str

    def __new__(cls, code: str, words: str = "{observed}") -> Self:
        """Make a code of its value and its words."""
        member = str.__new__(cls, code)
        member._value_, member.words = code, words
        return member

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        """Make a code of another version: it is shown as its own word, and stays as it is."""
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        member.words = f"{value.replace('{', '{{').replace('}', '}}')}: {{observed}}"
        return member

    def __reduce_ex__(self, protocol: object, /) -> tuple[type[Self], tuple[str]]:
        """Copy and pickle by value: until Python 3.11.4 an enum does so by name."""
        return type(self), (self.value,)

    # A node says of its processes.
    PROCESS_EXITED = "process_exited", "{subject} exited with {observed}"
    PROCESS_KILLED = "process_killed", "{subject} was ended by {observed}"
    EXCEPTION = "exception"
    OUT_OF_MEMORY = (
        "out_of_memory",
        "the kernel killed {subject}: out of memory (according to {observed})",
    )
    LOSS_NOT_FINITE = "loss_not_finite", "{subject}: the loss is not finite"
    NO_RANK_FILE = "no_rank_file", "{subject} exited with code 0 but wrote no rank.json"
    NO_PROGRESS = "no_progress", "{subject} made no progress: {observed}, expected {expected}"
    REPEAT_TOO_LONG = "repeat_too_long", "the repeat took longer than {expected}"
    PROCESSES_STUCK = "processes_stuck", "processes {observed} cannot be ended"
    # A node says of itself and of its neighbours.
    FOREIGN_CPU = "foreign_cpu", "other processes used {observed}, expected {expected}"
    FOREIGN_GPU = "foreign_gpu", "another process used a GPU: {observed}"
    DEVICE_THROTTLED = "device_throttled", "{subject} was slowed down: {observed}"
    NODE_IN_USE = "node_in_use", "the node is in use; the job waited {observed} for it"
    # A node says of its agent.
    NO_GO = "no_go", "no start signal arrived within {expected} after the node was ready"
    GO_WITHOUT_PORT = "go_without_port", "the start signal has no port for {observed}"
    AGENT_DIED = "agent_died", "the agent died while the repeat ran"
    AGENT_SIGNALLED = "agent_signalled", "the agent was ended by {observed}"
    NODE_REBOOTED = "node_rebooted", "the node rebooted while the job ran"
    LEASE_EXPIRED = "lease_expired", "no controller renewed the lease for {observed}"
    STOPPED = "stopped", "the controller stopped the processes"
    AGENT_ERROR = "agent_error"
    # The controller says of a node.
    NODE_ERROR = "node_error"
    NODE_UNREACHABLE = "node_unreachable", "unreachable: {observed}"
    NOT_SSH = "not_ssh"
    HOST_KEY_REJECTED = "host_key_rejected"
    LOGIN_REFUSED = "login_refused"
    DISK_FULL = "disk_full"
    REMOTE_FAILURE = "remote_failure"
    PYTHON_UNUSABLE = "python_unusable"
    ENVIRONMENT_UNAVAILABLE = "environment_unavailable"
    MACHINES_DIFFER = "machines_differ"
    # Kubernetes says of a pod.
    POD_UNSCHEDULABLE = (
        "pod_unschedulable",
        "no Kubernetes node accepted the pod within {expected}: {observed}",
    )
    POD_IMAGE = "pod_image", "the image cannot be pulled: {observed}"
    POD_NOT_STARTED = "pod_not_started", "the pod does not start: {observed}"
    POD_OUT_OF_MEMORY = "pod_out_of_memory", "the pod exceeded its memory limit: {observed}"
    POD_EVICTED = "pod_evicted", "the pod was evicted: {observed}"
    POD_PREEMPTED = "pod_preempted", "the pod was preempted: {observed}"
    POD_DELETED = "pod_deleted", "the pod was deleted: {observed}"
    POD_ENDED = "pod_ended", "the pod ended: {observed}"
    MACHINE_LOST = "machine_lost", "the pod's Kubernetes node is lost: {observed}"
    QUOTA_EXCEEDED = "quota_exceeded", "the namespace's quota is exceeded: {observed}"
    API_FORBIDDEN = "api_forbidden", "Kubernetes forbids the request: {observed}"
    API_REFUSED = "api_refused", "Kubernetes refuses the request: {observed}"
    AGENT_GONE = "agent_gone", "the agent no longer responds: {observed}"
    NODE_NOT_READY = "node_not_ready", "the node was not ready within {expected}"
    NODE_NOT_STARTED = "node_not_started", "did not start within {expected} after the start signal"
    NO_RESULT = "no_result", "no result was returned"
    # The controller says of a repeat or a case.
    CONTROLLER_ERROR = "controller_error"
    CANCELLED = "cancelled", "cancelled: {observed}"
    LAUNCHES_FAILED = "launches_failed", "{observed} failed; the last failure"
    DISTURBED_TOO_OFTEN = (
        "disturbed_too_often",
        "{observed} were disturbed, expected {expected}; the last disturbance",
    )
    CODE_BROKEN = "code_broken"
    STEPS_DIFFER = (
        "steps_differ",
        "{subject} was still in its window after {observed}: check that all ranks run the same "
        "number of steps",
    )
    BATCH_JOB_ENDED = "batch_job_ended", "{subject} ended: {observed}"
    TIME_LIMIT = "time_limit", "no measurement within {expected}, including the wait for nodes"
    NO_OUTCOME = (
        "no_outcome",
        "no outcome was recorded: the process that controlled the gang was ended from outside",
    )
    # The night's plan says of a case.
    WINDOW_ENDED = (
        "window_ended",
        "the night's window ended at {subject} with {observed}, expected {expected}",
    )
    NOT_BEGUN = "not_begun", "not started: the night ends at {subject}, and a repeat {observed}"
    TIME_UNKNOWN = (
        "time_unknown",
        "the duration of a repeat is unknown, and its time limit including preparation "
        "({observed}) exceeds the night ({expected}): run the case once on demand, or lower "
        "`timeouts.repeat`",
    )
    NIGHT_TOO_SHORT = "night_too_short", "the case takes {observed}; the whole night has {expected}"
    NIGHT_FULL = "night_full", "the case takes {observed}; left after the earlier cases: {expected}"
    NODE_LEFT_OUT = "node_left_out", "the node is left out"
    TOO_FEW_NODES = "too_few_nodes", "too few nodes: {observed}"
    # The summary and the checks say of a result.
    NO_TRAINER = "no_trainer", "{observed} reported results, expected {expected}"
    NO_STEPS = "no_steps", "{subject} reported no steps"
    BAD_WINDOW = "bad_window", "{subject} reported a measurement window of {observed}"
    BAD_FIGURE = "bad_figure", "{subject} is {observed}"
    NO_CLOCK_OFFSET = "no_clock_offset", "unknown clock offset: nodes' windows cannot be compared"
    NO_COMMON_INTERVAL = (
        "no_common_interval",
        "the last trainer opened its window {observed} after the first trainer closed its own",
    )
    NO_GOOD_REPEAT = "no_good_repeat", "no good repeat"
    ENDED_AS = "ended_as", "the repeat ended with the status {observed}"
    CHECK_FAILED = "check_failed", "{subject}: {observed}, expected: {expected}"
    # Said of a node over the nights.
    PREFLIGHT_FAILED = "preflight_failed", "preflight: {subject}: {observed}, expected: {expected}"
    PREFLIGHT_CLEAN = "preflight_clean", "the preflight found no fault"
    FAULTS_IN_A_ROW = "faults_in_a_row", "{observed} in a row; the last fault in {subject}"
    QUARANTINED = "quarantined", "in quarantine since {observed}"
    NIGHT_MEASURED_ON = "night_measured_on", "the node is left out: the night used {observed}"
    PERSON = "person"
    UNREADABLE = "unreadable", "a reason that cannot be read: {observed}"


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
    """The process, check, device, address or case that it is about, if it is about one."""
    observed: str = ""
    """Value that was found, with its unit: `42% of the cores`, `code 1`."""
    expected: str = ""
    """Value that was expected, with its unit; empty if the code says it."""

    def to_json(self) -> dict[str, Any]:
        """As it stands in result.json, in the spool and in the warehouse."""
        return {**vars(self), "code": str(self.code)}

    @classmethod
    def from_json(cls, document: Any) -> Reason:
        """The inverse of `to_json`; JSON that is no reason is quoted in one."""
        try:
            return from_document(cls, document)
        except ValueError:
            return cls(ReasonCode.UNREADABLE, observed=f"{document!r:.100}")


def reasons_from_json(documents: Iterable[Any] | None) -> tuple[Reason, ...]:
    """The reasons of a document; empty if it has none."""
    return tuple(Reason.from_json(document) for document in documents or ())


def reasons_to_json(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    """The inverse of `reasons_from_json`."""
    return [reason.to_json() for reason in reasons]
