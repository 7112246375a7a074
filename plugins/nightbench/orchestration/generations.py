"""Which generation of a case a task instance measures. Pure.

An automatic retry goes on with the job that is there; a person's clear measures anew. Airflow
tells them apart: a clear raises `max_tries` (to the tries so far plus the retries), a retry does
not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KEY = "gang"
"""Under this key the memory lies in Airflow's task state store."""


@dataclass(frozen=True)
class Memory:
    """What a task instance remembers from one try to the next."""

    run_id: str
    generation: int
    max_tries: int

    def to_json(self) -> dict[str, Any]:
        """As the task state store takes it."""
        return {
            "run_id": self.run_id,
            "generation": self.generation,
            "max_tries": self.max_tries,
        }


def recall(stored: object, run_id: str, max_tries: int) -> Memory:
    """The memory of this try.

    Args:
        stored: what the store held, None before the first try.
        run_id: the Nightbench run that is measured now.
        max_tries: as Airflow counts them for this try.
    """
    if not isinstance(stored, Mapping) or stored.get("run_id") != run_id:
        return Memory(run_id, 0, max_tries)
    generation, before = int(stored["generation"]), int(stored["max_tries"])
    return Memory(run_id, generation + 1 if max_tries > before else generation, max_tries)
