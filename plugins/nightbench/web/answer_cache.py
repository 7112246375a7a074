"""Answers that many readers share, so that few of them ask the warehouse."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from threading import Lock
from time import monotonic
from typing import Any, Generic, TypeVar

from fastapi import Request, Response

from nightbench.warehouse.pages import OpenPages
from nightbench.web.api_model import ApiModel

T = TypeVar("T")

KEPT = 256
LIVES_S = 60.0
"""Answers also say how long ago something was."""


@dataclass
class _Slot(Generic[T]):
    """An answer, with the stamp of its data."""

    lock: Lock = field(default_factory=Lock)
    begun_s: float = float("-inf")
    stamp: Hashable = None
    answer: T | None = None


class AnswerCache(Generic[T]):
    """Keeps answers by question; those who ask at the same time wait for one answer.

    An answer is for all requests with the same stamp, and for requests from before it was
    begun: it is equal to an answer of their own.
    """

    def __init__(self, lives_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._lives_s = lives_s
        self._clock = clock
        self._lock = Lock()
        self._slots: OrderedDict[Hashable, _Slot[T]] = OrderedDict()

    def get(self, key: Hashable, stamp: Hashable, ask: Callable[[], T]) -> T:
        """Return the answer to a question, from `ask` if none is known that serves."""
        asked_s = self._clock()
        with self._lock:
            slot = self._slots.pop(key, None) or _Slot()
            self._slots[key] = slot
            while len(self._slots) > KEPT:
                self._slots.popitem(last=False)
        with slot.lock:
            is_same = slot.stamp == stamp and self._clock() - slot.begun_s < self._lives_s
            if slot.answer is not None and (is_same or slot.begun_s > asked_s):
                return slot.answer
            begun_s = self._clock()
            answer = ask()
            slot.begun_s, slot.stamp, slot.answer = begun_s, stamp, answer
            return answer


Handler = Callable[..., Any]


def shared_answers(open_repository: OpenPages) -> Callable[[Handler], Handler]:
    """Return what makes handlers answer from a cache while the warehouse is as it was.

    The stamp is the warehouse's snapshot: where it is the same, every statement reads the same
    rows. So nothing that was loaded, judged or changed is ever missing. A handler must read the
    warehouse and nothing else.
    """
    cache = AnswerCache[str](LIVES_S)

    def share(handler: Handler) -> Handler:
        @wraps(handler)
        def shared(**given: Any) -> Any:
            if given.get("format") == "csv":
                return handler(**given)
            named = {
                name: value.url.query if isinstance(value, Request) else value
                for name, value in given.items()
            }
            with open_repository() as repository:
                snapshot = repository.snapshot()

            def ask() -> str:
                answer: ApiModel = handler(**given)
                return answer.model_dump_json()

            text = cache.get(repr((handler.__qualname__, named)), snapshot, ask)
            return Response(text, media_type="application/json")

        # FastAPI before 0.118, as under Airflow 3.1, looks names of types up in this module.
        shared.__signature__ = signature(handler, eval_str=True)  # type: ignore[attr-defined]
        return shared

    return share
