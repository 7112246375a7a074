"""Compares the transport that ranks used with the one that the cluster declares.

A transport is written `backend`, `backend/network` or `backend/network/interface`, as `gloo`,
`nccl/ib` or `gloo/socket/eth0`; the declared one must be a prefix of the one found. InfiniBand that
falls back to sockets is the most common cause of wrong figures on a cluster.
"""

from __future__ import annotations

from nightbench.checks.expectation import CheckContext
from nightbench.core.model import Strategy


def declared(context: CheckContext) -> bool:
    """Return whether gradients travel between nodes, and the cluster declares a transport."""
    case = context.case
    between = case.strategy is Strategy.COLLECTIVE and case.nodes > 1
    return between and context.transport is not None


def wrong_transport(expected: str | None, found: str | None) -> str:
    """Return what is wrong with a rank's transport; empty where nothing is."""
    if expected is None:
        return ""
    if found is None:
        return f"expected {expected}, found nothing that names the one in use"
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
