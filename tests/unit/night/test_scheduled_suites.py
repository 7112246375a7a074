"""The suites with a schedule: one that is refused leaves the others as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.short_suite import SUITE, short_spool

from nightbench.night.scheduled_suites import scheduled_suites


@pytest.mark.parametrize("schedule", ["0 0 30 2 *", "0 0 31 4 *", "R 3 * * *"])
def test_a_schedule_without_dates_is_a_problem_of_its_suite_alone(
    schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_spool(tmp_path, monkeypatch)
    never = SUITE.format(night="").replace("suite: short", "suite: never")
    folder = tmp_path / "dags" / "suites"
    (folder / "never.yaml").write_text(never.replace("0 1 * * *", schedule))
    (folder / "more").mkdir()
    (folder / "short.yaml").rename(folder / "more" / "short.yaml")
    found = {each.suite: each for each in scheduled_suites()}
    assert found["never"].timetable is None
    assert (found["never"].problem or "").startswith(f"schedule: found '{schedule}'; expected a")
    short = found["short"]
    assert (short.timetable and short.timetable.schedule, short.problem) == ("0 1 * * *", None)
