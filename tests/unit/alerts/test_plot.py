"""The plot that goes with a message."""

import io
from datetime import UTC, datetime, timedelta

from PIL import Image

from nightbench.alerts import picture
from nightbench.core.model import HistoryPoint

START = datetime(2026, 3, 1, 1, tzinfo=UTC)
BLUE, RED = (11, 107, 203), (198, 40, 40)


def nights(*values):
    return [HistoryPoint(START + timedelta(days=k), value) for k, value in enumerate(values)]


def opened(plot):
    return Image.open(io.BytesIO(plot.data)).convert("RGB")


def close_to(image, colour, box):
    """How many pixels of a box have about that colour."""
    part = image.crop(box)
    return sum(
        all(abs(a - b) < 40 for a, b in zip(pixel, colour, strict=True))
        for pixel in part.get_flattened_data()
    )


def test_bad_nights_are_red_and_below_and_good_ones_are_not():
    points = nights(*[100.0] * 20, *[80.0] * 10)
    image = opened(picture("a on b", points, "images", points[20].at, 100.0))
    upper, lower = (80, 60, 560, 180), (640, 180, 880, 310)
    assert close_to(image, BLUE, upper) > 100
    assert close_to(image, RED, upper) == 0
    assert close_to(image, RED, lower) > 100
    assert close_to(image, BLUE, lower) == 0


def test_without_an_event_nothing_is_red():
    image = opened(picture("a", nights(3.0, 3.1, 2.9)))
    assert close_to(image, RED, (0, 0, *image.size)) == 0


def test_size_does_not_grow_with_the_history_and_one_night_is_no_plot():
    few, many = (picture("a", nights(*[1.0, 1.1] * n)) for n in (60, 2000))
    assert len(few.data) < 60_000
    assert abs(len(many.data) - len(few.data)) < 10_000
    assert picture("a", nights(1.0)) is None
    assert picture("a/b c\n", nights(1.0, 1.0)).name == "a-b-c-.png"
