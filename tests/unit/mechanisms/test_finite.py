"""Finite mechanisms: what is checked is what is drawn, as fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from steelyard.accounting import price
from steelyard.errors import InvalidTask
from steelyard.mechanisms._finite import Finite
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Loss, Neighbours, Terms, labels
from unit.mechanisms.trees import law

TABLE = Finite(((6, 2, 1), (2, 5, 2), (1, 2, 6)))
TERMS = Terms(labels("y"), Loss.pure(10), Fraction(10))


@pytest.mark.parametrize("row", [0, 1, 2])
def test_each_row_is_drawn_with_exactly_its_probabilities(row: int) -> None:
    found, left = law(lambda noise: TABLE.release([row], noise)[0], 1e-9)
    assert left == 0
    assert found == {j: Fraction(w, sum(TABLE.weights[row])) for j, w in enumerate(TABLE.weights[row])}


def keeps(table: Finite, micro: int) -> bool:
    """Whether no two rows differ by more than this many micro-epsilon, by brute force."""
    shares = [[w / sum(row) for w in row] for row in table.weights]
    return all(a[j] <= math.exp(micro / MICRO) * b[j] for a in shares for b in shares for j in range(len(a)))


def test_the_price_is_the_log_of_the_largest_ratio_rounded_up() -> None:
    micro = price(TABLE.event, TERMS).amount
    assert TABLE.ratio == 6
    assert keeps(TABLE, micro)
    assert not keeps(TABLE, micro - 1)


def test_one_weight_too_large_is_caught() -> None:
    twin = Finite(((7, 2, 1), *TABLE.weights[1:]))
    assert not keeps(twin, price(TABLE.event, TERMS).amount)
    assert price(twin.event, TERMS).amount > price(TABLE.event, TERMS).amount


def test_rows_of_different_totals_are_compared_as_probabilities() -> None:
    assert Finite(((1, 1), (30, 10))).ratio == 2


def test_an_index_off_the_table_counts_as_the_nearest_row() -> None:
    certain = Finite(((10**9, 1), (1, 10**9)), Neighbours.REPLACE)
    assert certain.release([-5, 0, 1, 10**30], TestNoise(1)) == [0, 0, 1, 1]


@pytest.mark.parametrize("weights", [(), ((),), ((1, 2), (1,)), ((1, 0), (1, 1)), ((0, 0), (0, 0)), ((1, -1), (1, 1))])
def test_tables_that_give_the_input_away_or_are_no_tables_are_refused(weights: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(InvalidTask):
        Finite(weights)


def test_a_table_that_shows_how_many_units_there_are_is_refused() -> None:
    with pytest.raises(InvalidTask):
        Finite(TABLE.weights, Neighbours.ADD_REMOVE)
