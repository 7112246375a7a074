"""Values with units, and what is said of those that are none."""

from __future__ import annotations

from typing import Any

import pytest

from nightbench.core.model.values import duration


def test_a_duration_has_up_to_three_parts() -> None:
    assert [duration(text) for text in ("900s", "15m", "1h30m", "0s")] == [900, 900, 5400, 0]


@pytest.mark.parametrize(
    ("value", "found"), [(0, "0"), (900, "900"), ("", '""'), ("9", '"9"'), ([], "a list")]
)
def test_what_is_no_duration_is_shown_as_it_was_found(value: Any, found: str) -> None:
    with pytest.raises(ValueError, match="expected a duration with its unit") as error:
        duration(value)
    assert found in str(error.value)
