"""Routes of the API that have another path now: they answer 410 with it."""

from collections.abc import Mapping

FORMER: Mapping[str, str] = {
    "experiments/ab/{name}": "experiments/{name}",
    "experiments/bisects/{name}": "experiments/{name}",
}
"""Former path -> path now, below `/nightbench/api`."""
