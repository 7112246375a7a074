"""The losses of one night of a series, and which of them can be compared with other nights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nightbench.core.losses import EARLY_STEPS, LONG_STEPS
from nightbench.core.model import differ

Range = tuple[float, float]
"""Lowest and highest value of the repeats that count."""

FIGURES: Mapping[str, str] = {
    "first": "first loss",
    "third": "loss of the third step",
    "early": f"mean loss of the first {EARLY_STEPS} steps",
    "mean": "mean loss of the window's first steps",
    "long": f"mean loss of the window's first {LONG_STEPS} steps",
    "whole": "mean loss of the whole window",
    "again": "loss of the first batch after the window",
}
"""Losses of `Measurement.losses` in the order of the steps -> how a sentence names them."""


@dataclass(slots=True)  # Frozen ones take three times as long: a night is compared with 150,000.
class TrainingNight:
    """Losses of one night of a series, with the versions and nodes that produced them."""

    at: datetime
    losses: Mapping[str, Range]
    """Empty if a rank recorded none, or one that is not finite."""
    version: str | None = None
    build_id: str | None = None
    fingerprint_id: str | None = None
    definition_digest: str | None = None
    is_changed: bool = False
    """Whether the verdict was `changed` and no user has accepted it."""
    run_key: int | None = None
    throughput: float | None = None
    is_false_alarm: bool = False
    """Whether a user dismissed the alert about it as a false alarm."""

    def trains_as_defined_by(self, other: TrainingNight) -> bool:
        """Return whether both have losses, of one definition and of one batch size."""
        return bool(
            self.losses
            and other.losses
            and self.losses.get("batch") == other.losses.get("batch")
            and not differ(self.definition_digest, other.definition_digest)
        )

    def has_conditions_of(self, other: TrainingNight) -> bool:
        """Return whether CPUs, threads and variables of all repeats are known and the same."""
        mine = self.losses.get("conditions")
        return mine is not None and mine == other.losses.get("conditions") and mine[0] == mine[1]

    def is_like(self, other: TrainingNight) -> bool:
        """Return whether version, build and nodes are the same, as far as both are known."""
        return not (
            differ(self.version, other.version)
            or differ(self.build_id, other.build_id)
            or differ(self.fingerprint_id, other.fingerprint_id)
        )

    def runs_as(self, other: TrainingNight) -> bool:
        """Return whether definition, batch size, conditions and steps are the same."""
        return (
            self.trains_as_defined_by(other)
            and self.losses.get("conditions") == other.losses.get("conditions")
            and self.losses.get("steps") == other.losses.get("steps")
        )


def range_of(values: Sequence[Range]) -> Range:
    """Return the lowest and the highest of all."""
    return min(low for low, _ in values), max(high for _, high in values)


def comparable(figure: str, tonight: TrainingNight, nights: Iterable[TrainingNight]) -> list[Range]:
    """Return a loss, by its key in `FIGURES`, of the nights that can be compared with tonight.

    A protocol with a minimum time has windows of more or fewer steps. Losses after the window are
    compared among windows of one length, and the mean among means of as many steps.
    """
    needs = {"again": "steps", "whole": "steps", "mean": "mean_of"}.get(figure)
    if needs is not None:
        found = tonight.losses.get(needs)
        nights = [night for night in nights if night.losses.get(needs) == found]
    return [night.losses[figure] for night in nights if figure in night.losses]
