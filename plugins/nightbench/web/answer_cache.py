"""Answers that many readers share for some seconds, so that few of them ask the warehouse."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

KEPT = 64


class AnswerCache:
    """Keeps answers for some seconds; those who ask for one at the same time wait for one query.

    It belongs to one process: what another one changes is seen when an answer has grown old.
    """

    def __init__(self, lives_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._lives_s = lives_s
        self._clock = clock
        self._lock = Lock()
        self._answers: dict[Hashable, tuple[float, Any]] = {}
        self._asking: dict[Hashable, Lock] = {}

    def get(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Return the answer to a question, from `ask` where none is known that is young enough."""
        with self._lock:
            asking = self._asking.setdefault(key, Lock())
        with asking:
            with self._lock:
                at, answer = self._answers.get(key, (float("-inf"), None))
            if self._clock() - at < self._lives_s:
                found: T = answer
                return found
            fresh = ask()
            with self._lock:
                if len(self._answers) >= KEPT:
                    self._answers.clear()
                self._answers[key] = (self._clock(), fresh)
            return fresh

    def clear(self) -> None:
        """Forget all answers: something was changed."""
        with self._lock:
            self._answers.clear()
