"""What a change is put down to, by evidence, and which changes have one cause. Pure."""

from nightbench.causes.explaining import Explanation, explain
from nightbench.causes.facts import ControlSeries, Facts, NightFacts, Peer, PreflightFacts
from nightbench.causes.groups import Member, grouped

__all__ = [
    "ControlSeries",
    "Explanation",
    "Facts",
    "Member",
    "NightFacts",
    "Peer",
    "PreflightFacts",
    "explain",
    "grouped",
]
