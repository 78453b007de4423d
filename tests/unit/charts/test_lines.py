"""Lines: every point that was given is seen, and a line is named wherever others might have been."""

from __future__ import annotations

import pytest

from steelyard.charts import Line, lines


@pytest.mark.parametrize("count", [1, 2, 12, 13, 50])
def test_a_point_that_no_line_leads_to_has_a_dot(count: int) -> None:
    alone = [None] * (count - 1) + [1.0]
    svg = lines([Line("alone", list(range(count)), alone)], title="t").svg()
    assert svg.count("<title>alone: 1 at ") == 1


def test_long_lines_have_no_dots_but_where_they_break() -> None:
    heights = [1.0] * 20 + [None, 2.0, None] + [1.0] * 20
    svg = lines([Line("long", list(range(43)), heights)], title="t").svg()
    assert svg.count("<circle") == 1
    assert "<title>long: 2 at 21</title>" in svg


def test_a_line_left_alone_by_empty_ones_is_named_and_one_alone_from_the_start_is_not() -> None:
    full, empty = Line("full", [1, 2], [1, 2]), Line("empty", [1, 2], [None, None])
    assert ">full<" in lines([full, empty], title="t").svg()
    assert ">empty<" not in lines([full, empty], title="t").svg()
    assert ">full<" not in lines([full], title="t").svg()
