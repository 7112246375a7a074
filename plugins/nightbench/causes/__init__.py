"""Finds the cause of a change by evidence, and groups changes of one cause. Pure."""

from nightbench.causes.explanation import Explanation, explain
from nightbench.causes.facts import CauseFacts, ControlSeries, NightFacts, Peer, PreflightFacts
from nightbench.causes.groups import Member, grouped

__all__ = [
    "CauseFacts",
    "ControlSeries",
    "Explanation",
    "Member",
    "NightFacts",
    "Peer",
    "PreflightFacts",
    "explain",
    "grouped",
]
