"""The words of `nightbench.evidence`, where alerts are spoken of."""

from nightbench.evidence import Cause, CauseKind, Confirmation, Outcome

__all__ = ["Cause", "CauseKind", "Confirmation", "Outcome"]
