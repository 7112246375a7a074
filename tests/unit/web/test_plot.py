from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from nightbench.web.plot_svg import AREA, draw
from nightbench.web.views import PointView, SeriesView, ago, figure

START = datetime(2026, 11, 1, tzinfo=UTC)


def series(*values: float | None, state: str = "ok") -> SeriesView:
    points = (
        PointView(START + timedelta(days=n), f"r{n}", value, 3, 0.01, state, "", None, "nightly")
        for n, value in enumerate(values)
    )
    return SeriesView({"case_id": "c", "cluster": "l"}, tuple(points))


@given(st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=50))
def test_every_mark_lies_inside_the_frame(values: list[float]) -> None:
    plot = draw(series(*values), "images")
    assert plot is not None
    assert len(plot.marks) == len(values)
    for mark in plot.marks:
        assert AREA.left <= mark.x <= AREA.width - AREA.right
        assert AREA.top <= mark.y <= AREA.height - AREA.bottom
    assert 1 <= len(plot.y_ticks) <= 9
    assert all(AREA.top <= tick.at <= AREA.height - AREA.bottom for tick in plot.y_ticks)


def test_more_throughput_is_higher_up() -> None:
    plot = draw(series(100.0, 110.0), "images")
    assert plot is not None
    assert plot.marks[0].y > plot.marks[1].y
    assert plot.marks[0].x < plot.marks[1].x


def test_what_does_not_count_is_no_part_of_line_and_median() -> None:
    good, bad = series(100.0, 120.0), series(900.0, state="quarantined")
    both = SeriesView(good.head, (*good.points, *bad.points))
    plot = draw(both, "images")
    assert plot is not None
    assert len(plot.line.split()) == 2
    assert both.median == 110.0
    assert both.latest is good.points[-1]


def test_without_a_figure_there_is_no_plot() -> None:
    assert draw(series(None, None, state="failed"), "images") is None


def test_figures_for_people() -> None:
    assert [figure(v) for v in (None, 0.012345, 188.04, 1234.5, 123456.7)] == [
        "–",
        "0.01235",
        "188.0",
        "1234",
        "123,457",
    ]


def test_ages() -> None:
    now = START + timedelta(days=2, hours=1)
    assert ago(START, now) == "2 days ago"
    assert ago(now - timedelta(minutes=1, seconds=5), now) == "1 minute ago"
    assert ago(now, now) == "just now"
