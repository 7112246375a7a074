"""By how much losses may differ although training is the same, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EARLY = {"first", "third", "early"}
"""Losses of the first steps."""

_BF16 = {"first": 2e-3, "third": 5e-3, "early": 5e-3, "mean": 5e-3, "again": 1e-2}
_HALF = {figure: share / 8 for figure, share in _BF16.items()}

ROUNDING: Mapping[str, Mapping[str, float]] = {
    "fp32": {"first": 1e-6, "third": 1e-5, "early": 1e-5, "mean": 1e-5, "again": 5e-5},
    **{"tf32": _HALF, "fp16": _HALF, "bf16": _BF16},
}
"""Change of a loss if kernels add in another order (other threads, instruction sets, processors,
versions): of 1, or of the loss if that is more. `python -m tests.performance training` measures
it; docs/evaluation-losses.md has the values. Those of tf32 and fp16, which keep three bits more
than bf16, are computed from bf16."""

LOOSE = 0.05
"""Smallest value of it if the random numbers of dropout may differ, and for losses that are not
`EARLY` if version, build or nodes differ. Rounding grows with each step: between two versions, the
mean of the steps 21 to 30 of ResNet-50 differed by 0.9 %. Under conditions that are new to a
series, it is the value for all losses but the first, which are not comparable beyond it."""

SPREADS = 2.0
"""A loss may be outside of the earlier range by this many times that range."""

CHAOTIC = 0.2
"""Smallest tolerance of losses that are not `EARLY` if version, build or nodes differ and rounding
grows in the first steps already."""


@dataclass(frozen=True)
class TrainingTraits:
    """Properties of a case on which the tolerance of its losses depends."""

    precision: str
    is_asynchronous: bool = False
    has_dropout: bool = False
    warmup_steps: int = 0
    rounding_grows: bool = False
    """Whether rounding grows in the first steps already."""

    def rounding(self, figure: str, *, is_alike: bool) -> float | None:
        """Return the tolerance of a loss; None for a precision without a measurement.

        `is_alike`: version, build and nodes are the same, or dropout has the same random numbers.
        """
        shares = ROUNDING.get(self.precision, {})
        share = shares.get(figure, shares.get("again"))
        if figure == "first" and self.rounding_grows:
            share = shares.get("third")
        if share is None or is_alike:
            return share
        # Asynchronous nights have a range, which is wider than rounding.
        grows = not self.is_asynchronous and figure != "first"
        if grows and self.rounding_grows and figure not in EARLY:
            return max(share, CHAOTIC)
        is_loose = self.has_dropout or (grows and (self.rounding_grows or figure not in EARLY))
        return max(share, LOOSE) if is_loose else share
