"""Finds the cause of a change by evidence, and groups changes of one cause. Pure."""

from nightbench.causes.explanation import Explanation, Member, explain, grouped
from nightbench.causes.facts import CauseFacts, ControlSeries, NightFacts, Peer, PreflightFacts
