"""Amounts become integers on a public grid: total, within the sensitivity whatever a row holds, at an exact cost."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.noise.grid import (
    LIMIT,
    Grid,
    fit,
    fit_norm,
    laplace_grid,
    normal_grid,
    quantize,
    sqrt_above,
    whole_grid,
)

NASTY = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 2.0**53, 2.0**53 + 2, 0.5, 1.5, -2.5]
numbers = st.one_of(st.sampled_from(NASTY), st.floats(allow_nan=True, allow_infinity=True), st.floats(-200, 200))


class Strange:
    """A value whose own conversion misbehaves."""

    def __float__(self) -> float:
        raise RuntimeError("data must not be able to do this")


@given(bound=st.fractions(min_value=Fraction(1, 1000), max_value=10**9), micro=st.integers(1, 10**8))
def test_a_grid_costs_exactly_the_micro_units_it_was_made_for(bound: Fraction, micro: int) -> None:
    for grid in (laplace_grid(bound, micro), normal_grid(bound, micro), whole_grid(3, micro)):
        assert grid.sensitivity / grid.scale == Fraction(micro, 10**6)
        assert grid.micro == micro
    assert laplace_grid(bound, micro).amount(laplace_grid(bound, micro).sensitivity) == bound


@given(rows=st.integers(0, 10**12))
def test_rounding_stays_below_one_per_cent_of_the_noise(rows: int) -> None:
    laplace, normal = laplace_grid(Fraction(1), 10**6, rows), normal_grid(Fraction(1), 10**6, rows)
    assert rows / 2 <= 0.01 * math.sqrt(2) * laplace.scale
    assert rows / 2 <= 0.01 * normal.scale
    assert laplace.scale <= max(2 * 36 * rows, 10**6)


def test_a_grid_of_its_own_making_rounds_its_cost_up() -> None:
    assert Grid(Fraction(1), 1, Fraction(3)).micro == 333_334


@pytest.mark.parametrize(("bound", "micro"), [(Fraction(0), 1), (Fraction(-1), 1), (Fraction(1), 0)])
def test_grids_that_make_no_sense_are_refused(bound: Fraction, micro: int) -> None:
    with pytest.raises(InvalidTask):
        laplace_grid(bound, micro)


@given(square=st.fractions(min_value=Fraction(1, 10**9), max_value=10**30))
def test_a_sigma_taken_from_a_variance_is_never_too_small(square: Fraction) -> None:
    sigma = sqrt_above(square)
    assert sigma**2 >= square
    assert float(sigma**2 / square) - 1 < 2.0**-50


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.one_of(numbers, st.none(), st.text(max_size=3), st.integers(), st.decimals()), max_size=20))
def test_quantizing_is_total_and_stays_within_its_limits(rows: list[object]) -> None:
    steps = quantize(rows, Fraction(1, 10), lower=-50, upper=70, missing=3)
    assert steps.dtype == np.int64
    assert len(steps) == len(rows)
    assert all(-50 <= k <= 70 for k in steps.tolist())
    one_by_one = [int(quantize([row], Fraction(1, 10), lower=-50, upper=70, missing=3)[0]) for row in rows]
    assert steps.tolist() == one_by_one  # a row's integer depends on that row alone


def test_what_is_no_number_becomes_the_public_missing_value() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    assert (
        quantize([math.nan, None, math.inf, -math.inf, "x", Strange(), 10**400], Fraction(1), missing=4).tolist()
        == [4] * 7
    )
    assert quantize(masked, Fraction(1), missing=7).tolist() == [7, 2]
    assert quantize(np.array([1.0, np.nan, np.inf]), Fraction(1), missing=9, upper=9).tolist() == [1, 9, 9]
    assert quantize([Decimal("2.6"), True, np.float32(1.4)], Fraction(1)).tolist() == [3, 1, 1]
    assert quantize(np.array([1 << 62, -5], dtype=np.int64), Fraction(1)).tolist() == [LIMIT, -5]
    assert quantize([], Fraction(1)).tolist() == []


def test_limits_that_do_not_contain_the_missing_value_are_refused() -> None:
    with pytest.raises(InvalidTask, match="2\\^53"):
        quantize([1.0], Fraction(1), lower=1, upper=5)


def norm_is_kept(fitted: NDArray[np.int64], sensitivity: int, norm: int) -> bool:
    return all(sum(abs(k) ** norm for k in row) <= sensitivity**norm for row in fitted.tolist())


@settings(max_examples=200, deadline=None)
@given(
    rows=st.integers(1, 5).flatmap(
        lambda d: st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=1, max_size=6)
    ),
    sensitivity=st.integers(1, 1 << 40),
    norm=st.sampled_from([1, 2]),
)
def test_no_row_ever_weighs_more_than_the_sensitivity(rows: list[list[float]], sensitivity: int, norm: int) -> None:
    values = np.array(rows)
    fitted = fit(values, Fraction(1, 7), sensitivity, norm)
    assert norm_is_kept(fitted, sensitivity, norm)
    clean = np.where(np.isfinite(values), values, 0)
    assert ((fitted == 0) | (np.sign(fitted) == np.sign(clean))).all()


def test_the_norm_check_catches_rounding_alone_and_clipping_in_floats() -> None:
    halves = np.full((1, 100), 0.5 + 1e-9)  # L1 norm 50, but every coordinate rounds up
    assert not norm_is_kept(quantize(halves, Fraction(1)), 50, 1)
    assert norm_is_kept(fit(halves, Fraction(1), 50, 1), 50, 1)
    long = np.array([[3.0e9, 4.0e9]])
    clipped = long * (5.0e9 / np.linalg.norm(long))
    assert norm_is_kept(fit(clipped, Fraction(1), 5 * 10**9, 2), 5 * 10**9, 2)
    assert not norm_is_kept(quantize(clipped * (1 + 1e-9), Fraction(1)), 5 * 10**9, 2)


def test_a_row_that_fits_is_left_as_it_was_rounded() -> None:
    assert fit(np.array([[0.6, -1.4, 0.0]]), Fraction(1), 10, 1).tolist() == [[1, -1, 0]]


@given(
    row=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=6),
    sensitivity=st.integers(0, 1 << 62),
    norm=st.sampled_from([1, 2]),
)
def test_shrinking_moves_every_coordinate_alike_and_no_further_than_needed(
    row: list[int], sensitivity: int, norm: int
) -> None:
    out = fit_norm(np.array([row], dtype=np.int64), sensitivity, norm)[0].tolist()
    assert sum(abs(k) ** norm for k in out) <= sensitivity**norm
    steps = max(abs(a) - abs(b) for a, b in zip(row, out, strict=True))
    assert out == [max(abs(k) - steps, 0) * (1 if k > 0 else -1) for k in row]
    if steps:
        assert sum(max(abs(k) - steps + 1, 0) ** norm for k in row) > sensitivity**norm


def test_empty_rows_fit() -> None:
    assert fit_norm(np.zeros((3, 0), dtype=np.int64), 5, 2).shape == (3, 0)
