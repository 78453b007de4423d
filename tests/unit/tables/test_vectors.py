"""Bins and sides: what they refuse, the reference they equal, and that no unit leaves its ball. On DuckDB."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.privacy import rows, users
from steelyard.tables import Bins, Capped, Quantity, read
from steelyard.tables._joint import Side

USER, STEP = users("u"), Fraction(1, 2)
QUANTITY = Quantity("x", STEP)
VALUES = st.one_of(
    st.none(),
    st.floats(-40, 40),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 2.0**53, -(2.0**63), -0.0, 5e-324]),
)
TABLES = st.lists(st.tuples(st.integers(1, 3), VALUES), min_size=1, max_size=12)
LOW, HIGH, CAP = -3, 17, 50
quick = settings(max_examples=12, deadline=None)
HEAVY: list[tuple[int, Any]] = [(1, 1e308)] * 40 + [(1, -1e308)] * 3 + [(2, 1.0)]


def table(data: list[tuple[int, Any]]) -> Any:
    import pyarrow as pa

    return read(pa.table({"u": [u for u, _ in data], "x": pa.array([x for _, x in data], pa.float64())}))


def known(data: list[tuple[int, Any]]) -> list[tuple[int, int]]:
    return [(u, QUANTITY.integer(x)) for u, x in data if x is not None and math.isfinite(x)]


def reference_sides(data: list[tuple[int, Any]]) -> tuple[int, int]:
    """What the definition says, in Python's own integers."""
    pairs: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for u, value in known(data):
        inside = max(LOW, min(HIGH, value))
        pairs[u][0] += inside - LOW
        pairs[u][1] += HIGH - inside
    kept = [[x if a + b <= CAP else x * CAP // (a + b) for x in (a, b)] for a, b in pairs.values()]
    return sum(a for a, _ in kept), sum(b for _, b in kept)


@quick
@given(TABLES)
@example(HEAVY)
def test_sides_are_what_the_definition_says(data: list[tuple[int, Any]]) -> None:
    assert table(data).sums_by_side(USER, QUANTITY, LOW, HIGH, CAP) == reference_sides(data)


@quick
@given(TABLES)
@example(HEAVY)
def test_one_unit_moves_a_pair_of_sides_by_at_most_its_cap(data: list[tuple[int, Any]]) -> None:
    more = table(data).sums_by_side(USER, QUANTITY, LOW, HIGH, CAP)
    less = table([*[each for each in data if each[0] != 1], (9, None)]).sums_by_side(USER, QUANTITY, LOW, HIGH, CAP)
    moves = [a - b for a, b in zip(more, less, strict=True)]
    assert min(moves) >= 0
    assert sum(moves) <= CAP


@quick
@given(TABLES, st.sampled_from(["l1", "l2"]), st.sampled_from([(-40, -20, 0, 20, 40), (-40, -1, 0, 3, 70)]))
@example(HEAVY, "l2", (-40, -1, 0, 3, 70))
def test_one_unit_moves_bins_by_at_most_its_cap(data: list[tuple[int, Any]], norm: str, edges: Any) -> None:
    part, bins = Capped(Quantity(None, Fraction(1, 4)), 10, norm), Bins(QUANTITY, edges)
    more = table(data).sums_by_bin(USER, part, bins)
    less = table([*[each for each in data if each[0] != 1], (9, None)]).sums_by_bin(USER, part, bins)
    moves = [a - b for a, b in zip(more, less, strict=True)]
    assert sum(moves) <= 10 if norm == "l1" else sum(move**2 for move in moves) <= 100


@quick
@given(TABLES)
def test_every_row_with_a_value_is_in_exactly_one_bin(data: list[tuple[int, Any]]) -> None:
    edges = (-40, -20, 0, 20, 40)
    counts = table(data).sums_by_bin(rows(), Capped(Quantity(None), 1), Bins(QUANTITY, edges))
    truth = [0] * 4
    for _, value in known(data):
        truth[max(0, min(3, (value + 40) // 20))] += 1
    assert counts == truth


def test_even_and_uneven_edges_agree() -> None:
    data = table([(1, float(x)) for x in range(-30, 30)])
    part = Capped(Quantity(None), 100)
    even = data.sums_by_bin(USER, part, Bins(QUANTITY, (-40, -20, 0, 20, 40)))
    uneven = data.sums_by_bin(USER, part, Bins(QUANTITY, (-41, -20, 0, 20, 40)))
    assert even == uneven == [20, 10, 10, 20]


def test_one_bin_holds_everything() -> None:
    assert table(HEAVY).sums_by_bin(rows(), Capped(Quantity(None), 1), Bins(QUANTITY, (0, 1))) == [len(HEAVY)]


def test_what_makes_no_sense_is_refused() -> None:
    one = table([(1, 1.0)])
    for cap in (0, -1, True, 1.5, 2**51):
        with pytest.raises(InvalidTask, match="joint ball"):
            one.sums_by_side(USER, QUANTITY, LOW, HIGH, cap)
    for low, high in ((3, 3), (4, 3), (0, 2**54), (-(2**54), 0)):
        with pytest.raises(InvalidTask, match="low below high"):
            one.sums_by_side(USER, QUANTITY, low, high, 5)
    with pytest.raises(InvalidTask, match="needs a column"):
        Side(Quantity(None), 0, 1, True)
    with pytest.raises(InvalidTask, match="bins are of a column"):
        Bins(Quantity(None), (0, 1))
    for edges in ((0,), (1, 0), (0, 0), (0, 2**63)):
        with pytest.raises(InvalidTask, match="edges"):
            Bins(QUANTITY, edges)


# Broken twins: the checks above must see them.


def twin_sides_clamped_on_one_side_only(data: list[tuple[int, Any]]) -> tuple[int, int]:
    return sum(min(HIGH, value) - LOW for _, value in known(data)), sum(HIGH - value for _, value in known(data))


def twin_each_side_has_a_cap_of_its_own(data: list[tuple[int, Any]]) -> tuple[int, int]:
    pairs: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for u, value in known(data):
        inside = max(LOW, min(HIGH, value))
        pairs[u][0] += inside - LOW
        pairs[u][1] += HIGH - inside
    return sum(min(a, CAP) for a, _ in pairs.values()), sum(min(b, CAP) for _, b in pairs.values())


@pytest.mark.parametrize("twin", [twin_sides_clamped_on_one_side_only, twin_each_side_has_a_cap_of_its_own])
def test_a_twin_of_the_sides_is_caught(twin: Any) -> None:
    mixed: list[tuple[int, Any]] = [(1, 1e308)] * 9 + [(1, -1e308)] * 9 + [(2, 1.0)]
    moves = [a - b for a, b in zip(twin(mixed), twin([(2, 1.0)]), strict=True)]
    assert sum(map(abs, moves)) > CAP
    assert sum(reference_sides(mixed)) - sum(reference_sides([(2, 1.0)])) <= CAP
