"""Integer norms that hold whatever is in a row, and square roots that are never too small."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from steelyard.noise._norms import fit_norm, sqrt_above


@given(square=st.fractions(min_value=Fraction(1, 10**9), max_value=10**30))
def test_a_sigma_taken_from_a_variance_is_never_too_small(square: Fraction) -> None:
    sigma = sqrt_above(square)
    assert sigma**2 >= square
    assert float(sigma**2 / square) - 1 < 2.0**-50


def norm_is_kept(fitted: NDArray[np.int64], sensitivity: int, norm: int) -> bool:
    return all(sum(abs(k) ** norm for k in row) <= sensitivity**norm for row in fitted.tolist())


@settings(max_examples=200, deadline=None)
@given(
    rows=st.integers(1, 5).flatmap(
        lambda d: st.lists(
            st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=d, max_size=d), min_size=1, max_size=6
        )
    ),
    sensitivity=st.integers(1, 1 << 40),
    norm=st.sampled_from([1, 2]),
)
def test_no_row_ever_weighs_more_than_the_sensitivity(rows: list[list[int]], sensitivity: int, norm: int) -> None:
    values = np.array(rows, dtype=np.int64)
    fitted = fit_norm(values, sensitivity, norm)
    assert norm_is_kept(fitted, sensitivity, norm)
    assert ((fitted == 0) | (np.sign(fitted) == np.sign(values))).all()
    alone = [fit_norm(values[i : i + 1], sensitivity, norm)[0].tolist() for i in range(len(rows))]
    assert fitted.tolist() == alone  # a row's integers depend on that row alone


def test_the_norm_check_catches_rounding_alone_and_clipping_in_floats() -> None:
    halves = np.rint(np.full((1, 100), 0.5 + 1e-9)).astype(np.int64)  # L1 norm 50, but every coordinate rounds up
    assert not norm_is_kept(halves, 50, 1)
    assert norm_is_kept(fit_norm(halves, 50, 1), 50, 1)
    long = np.array([[3.0e9, 4.0e9]])
    clipped = np.rint(long * (5.0e9 / np.linalg.norm(long)) * (1 + 1e-9)).astype(np.int64)
    assert not norm_is_kept(clipped, 5 * 10**9, 2)
    assert norm_is_kept(fit_norm(clipped, 5 * 10**9, 2), 5 * 10**9, 2)


def test_a_row_that_fits_is_left_as_it_was() -> None:
    assert fit_norm(np.array([[1, -1, 0]]), 10, 1).tolist() == [[1, -1, 0]]


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
