"""Sentences of reasons and evidence for people: command line, pages, messages.

No program parses them.
"""

from collections.abc import Iterable
from itertools import zip_longest

from nightbench.core.model import Reason, ReasonCode
from nightbench.core.model.alerts import CauseEvidence, CauseKind
from nightbench.core.model.reasons import EXPLAINED_BY_THE_NEXT

R = ReasonCode

KEPT_DAYS = 90
"""Days for which the DAG nightbench_maintenance keeps the spool and the steps of ranks, if it is
not told otherwise."""

STACK = ": stack]"
"""Ends the line above a stack, which names node and process."""

_SENTENCES = {
    R.PROCESS_EXITED: "{subject} exited with {observed}",
    R.PROCESS_KILLED: "{subject} was ended by {observed}",
    R.OUT_OF_MEMORY: "the kernel killed {subject}: out of memory (by {observed})",
    R.LOSS_NOT_FINITE: "{subject}: the loss is not finite",
    R.NO_RANK_FILE: "{subject} exited with code 0 but left no rank.json",
    R.NO_PROGRESS: "{subject} made no progress: {observed}, expected {expected}",
    R.REPEAT_TOO_LONG: "the repeat took longer than {expected}",
    R.PROCESSES_STUCK: "processes {observed} cannot be ended",
    R.FOREIGN_CPU: "foreign work took {observed}, expected {expected}",
    R.FOREIGN_GPU: "another process computes on a GPU: {observed}",
    R.DEVICE_THROTTLED: "{subject} was slowed down: {observed}",
    R.NODE_IN_USE: "the node is in use, waited for it {observed}",
    R.NO_GO: "no go within {expected} after ready",
    R.GO_WITHOUT_PORT: "the go names no port for {observed}",
    R.AGENT_DIED: "the agent died while the repeat ran",
    R.AGENT_SIGNALLED: "the agent was ended by {observed}",
    R.NODE_REBOOTED: "the node rebooted while the job ran",
    R.LEASE_EXPIRED: "no controller renewed the lease for {observed}",
    R.STOPPED: "stopped by the controller",
    R.NODE_UNREACHABLE: "unreachable: {observed}",
    R.AGENT_GONE: "the agent serves no more: {observed}",
    R.NODE_NOT_READY: "was not ready within {expected}",
    R.NODE_NOT_STARTED: "did not start within {expected} after the go",
    R.NO_RESULT: "no result came back",
    R.CANCELLED: "cancelled: {observed}",
    R.LAUNCHES_FAILED: "{observed} failed, the last one because",
    R.DISTURBED_TOO_OFTEN: "{observed} were disturbed, expected {expected}, the last one because",
    R.STEPS_DIFFER: (
        "{subject} was still in its window after {observed}: did ranks run as many steps each?"
    ),
    R.BATCH_JOB_ENDED: "{subject} ended: {observed}",
    R.TIME_LIMIT: "not measured within {expected}, waiting for nodes included",
    R.NO_OUTCOME: "no outcome was recorded: whoever steered the gang was ended from outside",
    R.WINDOW_ENDED: "the window ended at {subject} after {observed}, expected {expected}",
    R.NOT_BEGUN: "not begun: the night ends at {subject}, and a repeat {observed}",
    R.TIME_UNKNOWN: (
        "nobody knows yet how long a repeat takes, and the time limit of one (with preparing: "
        "{observed}) is longer than the night ({expected}): measure it once by hand, or lower "
        "timeouts.repeat"
    ),
    R.NIGHT_TOO_SHORT: "takes {observed}, and a whole night has {expected}",
    R.NIGHT_FULL: "takes {observed}; what comes before it leaves {expected}",
    R.NODE_LEFT_OUT: "takes no part",
    R.TOO_FEW_NODES: "too few nodes: {observed}",
    R.NO_TRAINER: "{observed} reported, expected {expected}",
    R.NO_STEPS: "{subject} reported no steps",
    R.BAD_WINDOW: "{subject} reported a window of {observed}",
    R.BAD_FIGURE: "{subject} came out as {observed}",
    R.NO_CLOCK_OFFSET: "no clock offset: windows cannot be compared",
    R.NO_COMMON_INTERVAL: "the last trainer opened its window {observed} after the first closed",
    R.NO_GOOD_REPEAT: "no repeat passed its checks",
    R.ENDED_AS: "the repeat ended as {observed}",
    R.CHECK_FAILED: "{subject}: {observed}, expected {expected}",
    R.PREFLIGHT_FAILED: "preflight: {subject}: {observed}, expected {expected}",
    R.PREFLIGHT_CLEAN: "a clean preflight",
    R.FAULTS_IN_A_ROW: "{observed} in a row, the last of {subject}",
    R.NIGHT_MEASURED_ON: "the night measured on {observed}",
    R.QUARANTINED: "in quarantine since {observed}",
}
"""A code that is not here says what was observed, and no more."""

CAUSE_LABELS = {
    CauseKind.THERMAL: "heat or clocks",
    CauseKind.DRIVER: "driver, firmware or hardware",
    CauseKind.NEIGHBOUR: "a neighbour",
    CauseKind.NODE: "a slow node",
    CauseKind.NETWORK: "the network",
    CauseKind.FRAMEWORK_VERSION: "the framework's version",
    CauseKind.BENCHMARK_CODE: "the benchmarks' code",
}


def evidence_sentence(evidence: CauseEvidence) -> str:
    """Return one observation as a sentence with its full stop."""
    rival = f"{CAUSE_LABELS[evidence.rival]}: " if evidence.rival else ""
    against = "against it: " if evidence.is_against else ""
    text = f"{rival}{against}{evidence.text}."
    return f"{text[0].upper()}{text[1:]}"


def sentence(reason: Reason) -> str:
    """One reason as a sentence without its full stop, the node in front."""
    text = _without_node(reason)
    return f"{reason.node}: {text}" if reason.node else text


def _without_node(reason: Reason) -> str:
    return _SENTENCES.get(reason.code, "{observed}").format(
        subject=reason.subject or "?", observed=reason.observed or "?", expected=reason.expected
    )


def sentences(reasons: Iterable[Reason]) -> str:
    """All reasons in one line, in their order; empty where there is none.

    A node is named once before what explains it.
    """
    text, named = "", None
    found = list(dict.fromkeys(reasons))
    for reason, following in zip_longest(found, found[1:]):
        text += _without_node(reason) if reason.node == named else sentence(reason)
        explained = reason.code in EXPLAINED_BY_THE_NEXT or (
            following is not None and following.code is R.EXCEPTION
        )
        text += ": " if explained else "; "
        named = (reason.node or named) if explained else None
    return text.removesuffix("; ").removesuffix(": ")


def kept_unless(param: str) -> str:
    """Return how long something is kept for which a parameter of the maintenance DAG says."""
    return (
        f"kept for {KEPT_DAYS} days unless {param} of the DAG nightbench_maintenance says otherwise"
    )


def percent(value: float | None, digits: int = 1, *, signed: bool = False) -> str:
    """Return a fraction as a percentage: `1.5 %`, or `+1.5 %` where it is `signed`."""
    if value is None:
        return "-"
    return f"{value * 100:{'+' if signed else ''}.{digits}f} %"
