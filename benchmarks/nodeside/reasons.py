"""Why a repeat failed or was disturbed, as data: the `reasons` of result.json and state.json."""

from __future__ import annotations

from typing import Any, Dict

PROCESS_EXITED = "process_exited"
PROCESS_KILLED = "process_killed"
EXCEPTION = "exception"
OUT_OF_MEMORY = "out_of_memory"
LOSS_NOT_FINITE = "loss_not_finite"
NO_RANK_FILE = "no_rank_file"
NO_PROGRESS = "no_progress"
REPEAT_TOO_LONG = "repeat_too_long"
PROCESSES_STUCK = "processes_stuck"
FOREIGN_CPU = "foreign_cpu"
FOREIGN_GPU = "foreign_gpu"
DEVICE_THROTTLED = "device_throttled"
NODE_IN_USE = "node_in_use"
NO_GO = "no_go"
GO_WITHOUT_PORT = "go_without_port"
AGENT_DIED = "agent_died"
AGENT_SIGNALLED = "agent_signalled"
NODE_REBOOTED = "node_rebooted"
LEASE_EXPIRED = "lease_expired"
STOPPED = "stopped"
AGENT_ERROR = "agent_error"

Reason = Dict[str, Any]
"""Keys: code, node, subject, observed, expected."""


def reason(
    code: str,
    node: str | None = None,
    subject: str | None = None,
    observed: str = "",
    expected: str = "",
) -> Reason:
    """Return one reason as in contract/result.schema.json.

    Args:
        code: one of the constants above.
        node: the node that it is about.
        subject: the process or device that it is about.
        observed: what was found, with its unit.
        expected: what was expected, with its unit.
    """
    return {
        "code": code,
        "node": node,
        "subject": subject,
        "observed": observed,
        "expected": expected,
    }
