"""What the results of all nodes make of a repeat."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightbench.core.model import Reason, ReasonCode
from nightbench.gang.repeat_status import LEFT, repeat_status

CRASHED = Reason(ReasonCode.PROCESS_KILLED, "n2", "trainer-1", "SIGSEGV", "code 0")
FOLLOWED = Reason(ReasonCode.EXCEPTION, "n2", "trainer-1", f"RuntimeError: {LEFT} (rendezvous.py)")
EXITED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1", "code 0")
RAISED = Reason(ReasonCode.EXCEPTION, "n1", "trainer-0", "DataError: line 6")


@pytest.mark.parametrize(
    ("heard", "own", "told"),
    [
        ((CRASHED, FOLLOWED), (EXITED, RAISED), (EXITED, RAISED)),
        ((), (EXITED, RAISED), (EXITED, RAISED)),
        ((CRASHED, FOLLOWED), (), (CRASHED, FOLLOWED)),
        ((CRASHED,), (EXITED, RAISED), (CRASHED,)),
    ],
    ids=["the cause", "nobody was heard", "the other says nothing", "a crash of its own"],
)
def test_a_rank_that_ended_as_another_left_is_not_the_reason(
    heard: tuple[Reason, ...], own: tuple[Reason, ...], told: tuple[Reason, ...]
) -> None:
    results = {
        "n1": {"status": "failed", "reasons": [each.to_json() for each in own]},
        "n2": {"status": "failed", "reasons": [each.to_json() for each in heard or (CRASHED,)]},
    }
    status, reasons = repeat_status(
        ("n1", "n2"), results, heard, (), abort_was_sent=True, counts_disturbance=False
    )
    assert (status, reasons) == ("failed", told)


def test_the_words_are_those_of_the_rendezvous() -> None:
    benchmarks = Path(__file__).parents[3] / "benchmarks"
    assert f'"{LEFT}"' in (benchmarks / "rendezvous.py").read_text()
