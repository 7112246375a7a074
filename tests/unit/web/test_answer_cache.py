"""Answers are shared for some seconds, and asked for once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from nightbench.web.answer_cache import KEPT, AnswerCache


def test_an_answer_is_asked_for_anew_when_it_is_old() -> None:
    now = [0.0]
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        return len(asked)

    cache = AnswerCache(10.0, lambda: now[0])
    assert [cache.get("morning", ask), cache.get("morning", ask)] == [1, 1]
    assert cache.get("axes", ask) == 2
    now[0] = 10.0
    assert cache.get("morning", ask) == 3
    cache.clear()
    assert cache.get("morning", ask) == 4


def test_readers_at_the_same_time_ask_once() -> None:
    cache = AnswerCache(10.0)
    together = Barrier(10)
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        return 7

    def read(_: int) -> int:
        together.wait(timeout=10)
        return cache.get("morning", ask)

    with ThreadPoolExecutor(10) as readers:
        assert list(readers.map(read, range(10))) == [7] * 10
    assert len(asked) == 1


def test_a_failure_is_not_kept_and_the_cache_stays_small() -> None:
    cache = AnswerCache(10.0)
    for number in range(3 * KEPT):
        assert cache.get(number, lambda: 1) == 1
    assert len(cache._answers) <= KEPT

    def fails() -> int:
        raise OSError

    for _ in range(2):
        try:
            cache.get("x", fails)
        except OSError:
            continue
        raise AssertionError
    assert cache.get("x", lambda: 2) == 2
