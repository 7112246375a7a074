"""Drawings as SVG: what a text may hold, and whose colours they have."""

from xml.etree import ElementTree

import pytest

from nightbench.core.drawing import Drawing
from nightbench.core.plots import scaling_plot, sparkline

HOSTILE = "</title><script>\"'&"


def drawn() -> Drawing:
    drawing = Drawing(20, 10, HOSTILE)
    drawing.dot((5, 5), "bad", 2, title=HOSTILE)
    drawing.write((0, 9), HOSTILE, 8)
    return drawing


@pytest.mark.parametrize("themed", [True, False])
def test_a_text_is_never_markup(themed: bool) -> None:
    svg = ElementTree.fromstring(drawn().svg(themed))
    assert svg.attrib["aria-label"] == HOSTILE
    assert [each.text for each in svg.iter() if each.text] == [HOSTILE, HOSTILE]


def test_a_page_gives_its_colours_and_a_file_has_its_own() -> None:
    assert 'fill="var(--bad)"' in drawn().svg()
    assert "var(" not in drawn().svg(themed=False)


def test_plots_of_one_value_and_of_equal_values_have_a_size() -> None:
    assert "nan" not in sparkline([3.0]) + sparkline([0.0, 0.0])
    assert "nan" not in scaling_plot([("a", [(1, 1.0), (4, 4.0)])])
