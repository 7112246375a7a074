"""Ranks that meet over TCP, as threads of one process on loopback."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from rendezvous import Rendezvous


@pytest.fixture
def address() -> tuple[str, int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1", probe.getsockname()[1]


def test_everybody_gets_rank_0s_number(address: tuple[str, int]) -> None:
    def rank(number: int) -> list[float]:
        meeting = Rendezvous(number, 3, address, patience_s=20)
        meeting.barrier()
        answers = [meeting.agree(10 * turn + number) for turn in (1, 2)]
        meeting.close()
        return answers

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(rank, [2, 1, 0])) == [[10, 20]] * 3


def test_nobody_passes_before_the_last_has_come(address: tuple[str, int]) -> None:
    arrived: list[int] = []

    def rank(number: int) -> list[int]:
        meeting = Rendezvous(number, 2, address, patience_s=20)
        arrived.append(number)
        meeting.barrier()
        seen = sorted(arrived)
        meeting.close()
        return seen

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(rank, [0, 1])) == [[0, 1], [0, 1]]


def test_everybody_gets_the_least_number_and_the_port_is_free_again(
    address: tuple[str, int],
) -> None:
    def rank(number: int) -> float:
        meeting = Rendezvous(number, 3, address, patience_s=20)
        least = meeting.least([7, 5, 9][number])
        meeting.close()
        return least

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(rank, [2, 1, 0])) == [5, 5, 5]
    with socket.socket() as again:
        again.bind(address)  # without SO_REUSEADDR: no connection of it lingers


def test_a_rank_that_leaves_fails_the_others(address: tuple[str, int]) -> None:
    def leave() -> None:
        Rendezvous(1, 2, address, patience_s=20).close()

    def stay() -> None:
        meeting = Rendezvous(0, 2, address, patience_s=20)
        try:
            meeting.barrier()
        finally:
            meeting.close()

    with ThreadPoolExecutor(2) as pool:
        gone, left = pool.submit(leave), pool.submit(stay)
        gone.result()
        with pytest.raises((RuntimeError, ConnectionError)):
            left.result()
