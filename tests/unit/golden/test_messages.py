"""Every change of the wording of a message shows in the diff of one reviewed file."""

from tests.unit.golden import messages

from nightbench.core.model import ReasonCode


def test_all_messages_are_those_of_the_golden_file() -> None:
    again = "PYTHONPATH=plugins:benchmarks python -m tests.unit.golden.messages"
    assert messages.text() == messages.GOLDEN.read_text(encoding="utf-8"), f"to write it: {again}"


def test_every_reason_with_words_of_its_own_is_in_it() -> None:
    assert {code for code in ReasonCode if code.words != "{observed}"} == set(messages.REASONS)
