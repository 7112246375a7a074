"""Measures an experiment of any kind, in a DAG run's turn or at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model.experiments import Experiment, ExperimentKind
from nightbench.experiments.bisect import measure_bisect
from nightbench.experiments.compare import measure_compare
from nightbench.experiments.confirm import ended_as, measure_confirmation
from nightbench.experiments.confirm_outcome import inconclusive
from nightbench.experiments.engine import Turn
from nightbench.experiments.profiles import measure_profile
from nightbench.experiments.record import Ended, public_reason

MEASURES: Mapping[ExperimentKind, Callable[[Turn], Coroutine[Any, Any, Ended]]] = {
    ExperimentKind.COMPARE: measure_compare,
    ExperimentKind.CONFIRM: measure_confirmation,
    ExperimentKind.BISECT: measure_bisect,
    ExperimentKind.PROFILE: measure_profile,
}
"""Kind -> what measures its next turn. Reference builds are measured by their night."""


def failed(experiment: Experiment, error: UserError) -> Ended:
    """Return how an experiment ends that cannot be measured; a night's message says it as well."""
    if experiment.kind is ExperimentKind.CONFIRM:
        return ended_as(inconclusive(str(error)))
    return Ended("failed", f"{public_reason(error)}\n{error}")


def resume_command(kind: str, name: str, request: Mapping[str, Any]) -> str:
    """Return the command that continues an experiment."""
    commands = {
        ExperimentKind.COMPARE: f"nightbench compare --resume {name}",
        ExperimentKind.BISECT: f"nightbench compare bisect --resume {name}",
        ExperimentKind.CONFIRM: f"nightbench compare confirm {request.get('alert_id')}",
        ExperimentKind.PROFILE: f"nightbench compare profile {request.get('of')}",
        ExperimentKind.REFERENCE: f"clear the task `reference` of {request.get('run_id')}",
    }
    return commands[ExperimentKind(kind)]
