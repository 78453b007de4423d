"""Finite tables: what is drawn is what is verified, to the last unit of weight."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from steelyard.errors import InvalidTask
from steelyard.noise import ExactNoise, TestNoise
from steelyard.noise._finite import FiniteTable

FULL = 1 << 32


@st.composite
def rows(draw: st.DrawFn, total: int = FULL) -> list[list[int]]:
    outputs = draw(st.integers(1, 9))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        cuts = sorted(draw(st.lists(st.integers(0, total), min_size=outputs - 1, max_size=outputs - 1)))
        ends = [0, *cuts, total]
        made.append([b - a for a, b in itertools.pairwise(ends)])
    return made


@settings(max_examples=100, deadline=None)
@given(weights=rows())
def test_the_entries_that_are_drawn_from_hold_the_given_weights(weights: list[list[int]]) -> None:
    assert FiniteTable(weights).weights() == weights


@settings(max_examples=30, deadline=None)
@given(weights=rows(total=1 << 64))
def test_wide_tables_hold_the_given_weights_too(weights: list[list[int]]) -> None:
    assert FiniteTable(weights, width=64).weights() == weights


def test_counting_every_word_of_one_column_gives_the_weights() -> None:
    unit = FULL >> 8  # all weights are multiples of this, so the top 8 bits and the column decide
    weights = [[100 * unit, 50 * unit, 106 * unit], [unit, 200 * unit, 55 * unit]]
    table = FiniteTable(weights)
    words = (np.arange(1 << 8, dtype=np.uint32)[:, None] << np.uint32(24) | np.arange(4, dtype=np.uint32)).ravel()
    for i, row in enumerate(weights):
        drawn = Counter(table.look_up(np.full(len(words), i), words).tolist())
        assert [drawn[k] * (FULL >> 10) for k in range(3)] == row


@pytest.mark.parametrize("width", [32, 64])
def test_draws_follow_the_weights(width: int) -> None:
    full = 1 << width
    weights = [full // 2, full // 4, full // 8, full // 8]
    table = FiniteTable([weights, weights[::-1]], width=width)
    noise = TestNoise("finite")
    bulk = np.bincount(table.draw(np.ones(80_000, dtype=np.int64), noise), minlength=4)
    assert stats.chisquare(bulk, 80_000 * np.array(weights[::-1], dtype=float) / full).pvalue > 1e-4


def test_an_output_of_weight_zero_never_comes() -> None:
    table = FiniteTable([[FULL, 0, 0], [0, 0, FULL]])
    assert set(table.draw(np.array([0] * 500 + [1] * 500), ExactNoise()).tolist()) == {0, 2}


def test_the_worst_ratio_is_exact_and_notices_one_unit_of_weight() -> None:
    fair = [[3 << 30, 1 << 30], [1 << 30, 3 << 30]]
    assert FiniteTable(fair).worst_ratio() == 3
    broken = [[(3 << 30) + 1, (1 << 30) - 1], fair[1]]
    ratio = FiniteTable(broken).worst_ratio()
    assert ratio is not None
    assert ratio > 3
    assert FiniteTable([[FULL, 0], [FULL - 1, 1]]).worst_ratio() is None
    assert FiniteTable([[FULL, 0], [FULL, 0]]).worst_ratio() == Fraction(1)


def test_a_row_number_outside_the_table_is_read_as_the_nearest_row() -> None:
    table = FiniteTable([[FULL, 0], [0, FULL]])
    assert table.draw(np.array([-5, 7]), ExactNoise()).tolist() == [0, 1]
    assert table.draw(np.array([200], dtype=np.uint8), ExactNoise()).tolist() == [1]


def test_the_shape_of_the_inputs_is_kept() -> None:
    table = FiniteTable([[FULL, 0], [0, FULL]])
    inputs = np.array([[0, 1, 1], [1, 0, 1]])
    assert table.draw(inputs, ExactNoise()).tolist() == inputs.tolist()
    assert table.draw(np.empty(0, dtype=np.int64), ExactNoise()).shape == (0,)


@pytest.mark.parametrize(
    ("weights", "width"),
    [
        ([], 32),
        ([[]], 32),
        ([[FULL], [FULL // 2, FULL // 2]], 32),
        ([[FULL - 1]], 32),
        ([[-1, FULL + 1]], 32),
        ([[16]], 4),
    ],
)
def test_tables_that_are_no_law_are_refused(weights: list[list[int]], width: int) -> None:
    with pytest.raises(InvalidTask):
        FiniteTable(weights, width=width)
