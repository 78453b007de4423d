"""Quantiles of noise: never below the truth, and close to it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from steelyard.models.accuracy._quantiles import (
    chi_square,
    gamma_quantile,
    largest_eigenvalue,
    normal_quantile,
    weighted_chi_square,
)

DRAWS = np.random.default_rng(20)


@pytest.mark.parametrize(("width", "failure"), [(1, 0.05), (2, 0.02), (5, 0.1), (6, 0.01), (12, 0.02)])
def test_the_largest_eigenvalue_is_rarely_above_its_quantile_and_not_much_more_rarely(
    width: int, failure: float
) -> None:
    square = DRAWS.standard_normal((60_000, width, width))
    largest = np.linalg.eigvalsh((square + square.transpose(0, 2, 1)) / 2)[:, -1]
    above = float(np.mean(largest > largest_eigenvalue(width, failure)))
    spread = np.sqrt(failure / 60_000)
    assert above <= failure + 4 * spread
    assert above >= 0.7 * failure - 4 * spread


def test_a_matrix_with_full_variance_off_the_diagonal_is_caught() -> None:
    upper = np.triu(DRAWS.standard_normal((20_000, 6, 6)))
    twin = upper + np.triu(upper, 1).transpose(0, 2, 1)
    assert np.mean(np.linalg.eigvalsh(twin)[:, -1] > largest_eigenvalue(6, 0.01)) > 0.05


@pytest.mark.parametrize(("width", "first", "rest"), [(1, 3.0, 1.0), (4, 5.0, 1.0), (20, 0.5, 2.0), (30, 1.0, 1.0)])
def test_a_weighted_chi_square_is_above_its_quantile_as_often_as_said(width: int, first: float, rest: float) -> None:
    draws = first * DRAWS.standard_normal(200_000) ** 2
    if width > 1:
        draws += rest * DRAWS.chisquare(width - 1, 200_000)
    above = float(np.mean(draws > weighted_chi_square(width, first, rest, 0.02)))
    assert abs(above - 0.02) < 4 * np.sqrt(0.02 / 200_000)


def test_equal_weights_give_the_plain_chi_square_and_others_agree_with_tables() -> None:
    assert weighted_chi_square(9, 2.0, 2.0, 0.03) == pytest.approx(2 * chi_square(9, 0.03), rel=1e-5)
    assert chi_square(28, 0.1) == pytest.approx(37.9159, rel=1e-5)
    assert normal_quantile(0.025) == pytest.approx(1.959964, rel=1e-5)
    assert gamma_quantile(38, 0.1) == pytest.approx(46.087, rel=1e-3)


@pytest.mark.parametrize("width", [500, 741, 800, 2048])
def test_the_quantile_of_a_wide_matrix_lies_just_above_the_edge(width: int) -> None:
    edge = np.sqrt(2 * width)
    scale = width ** (-1 / 6) / np.sqrt(2)  # of the law at the edge, whose 0.99 quantile is 2.02
    assert largest_eigenvalue(width, 0.01) == pytest.approx(edge + 2.02 * scale, abs=0.1 * scale)


def test_a_wide_matrix_is_below_its_quantile() -> None:
    square = DRAWS.standard_normal((800, 800))
    assert 38.7 < np.linalg.eigvalsh((square + square.T) / 2)[-1] < largest_eigenvalue(800, 0.001)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.floats(0.5, 4), st.floats(0.5, 4), st.floats(1e-6, 0.4))
@example(2, 3.0, 1.0, 5e-5)
@example(20, 4.0, 0.5, 0.01)
def test_a_weighted_chi_square_is_above_its_quantile_no_more_often_than_said(
    width: int, first: float, rest: float, failure: float
) -> None:
    q = weighted_chi_square(width, first, rest, failure)
    end = math.sqrt(q / first)

    def others(angle: float) -> float:
        z = end * math.sin(angle)
        density = end * math.cos(angle) * math.sqrt(2 / math.pi) * math.exp(-(z**2) / 2)
        return density * float(special.chdtrc(width - 1, max(q - first * z**2, 0.0) / rest))

    cuts = np.linspace(0, math.pi / 2, 9)
    inside = sum(integrate.quad(others, a, b, epsabs=1e-15)[0] for a, b in pairwise(cuts))
    above = inside + 2 * float(special.ndtr(-end))
    assert 0.999 * failure <= above <= failure
