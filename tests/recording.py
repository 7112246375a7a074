"""Experiments as a test measures them: recorded nowhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from nightbench.core.errors import WarehouseUnavailable
from nightbench.core.model.experiments import Experiment
from nightbench.experiments.record import ExperimentRecord


def away() -> NoReturn:
    """Connect to no warehouse."""
    raise WarehouseUnavailable("the warehouse is away")


class Unrecorded(ExperimentRecord):
    """The record of an experiment that a person cancels as soon as `cancelled_by` names one."""

    def __init__(
        self, experiment: Experiment, cancelled_by: Callable[[], str | None] = lambda: None
    ) -> None:
        super().__init__(experiment, away, print)
        self._cancelled_by = cancelled_by

    def note(self, result: Mapping[str, Any] | None = None) -> str | None:
        """Say whether it goes on."""
        if (who := self._cancelled_by()) is None:
            return None
        self.ends_as = "cancelled"
        return f"cancelled by {who}"
