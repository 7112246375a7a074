"""What the ranks really talked over, held against what the cluster declares.

A transport is written `backend`, `backend/network` or `backend/network/interface`, as `gloo`,
`nccl/ib` or `gloo/socket/eth0`; what is declared has to be where the found one begins.
InfiniBand that falls back to sockets is the commonest wrong number of a cluster.
"""

from __future__ import annotations

from nightbench.checks.expectation import CheckContext
from nightbench.core.model import Strategy


def declared(context: CheckContext) -> bool:
    """Whether there is something to compare: gradients travel between nodes, and it is said how."""
    case = context.case
    between = case.strategy is Strategy.COLLECTIVE and case.nodes > 1
    return between and context.transport is not None


def wrong_transport(expected: str | None, found: str | None) -> str:
    """What is wrong with a rank's transport; empty where nothing is."""
    if expected is None:
        return ""
    if found is None:
        return f"expected {expected}, found nothing that tells what was used"
    wanted, had = expected.split("/"), found.split("/")
    if had[: len(wanted)] == wanted:
        return ""
    why = ""
    if wanted[:2] == ["nccl", "ib"] and had[:2] == ["nccl", "socket"]:
        why = ": InfiniBand fell back to sockets"
    elif wanted[0] == "nccl" and had[0] == "gloo":
        why = ": the GPUs' own library was not used"
    elif wanted[:2] == had[:2]:
        why = ": another network interface was used"
    return f"expected {expected}, found {found}{why}"
