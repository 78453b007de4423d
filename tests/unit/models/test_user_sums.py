"""What a fit per user reads off its releases: the reach, the rows beyond it, and how far to trust."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import models
from steelyard.models._user_sums import OCTAVES, Cells, Ints, Sizes, UserSum, beyond, octaves, read_sizes, sqrt_above
from steelyard.noise import TestNoise


def pareto(alpha: float, rows: int = 100_000) -> np.ndarray:
    shares = 1 / np.arange(1.0, 100_001) ** (1 + alpha)
    found = np.random.default_rng(3).multinomial(rows, shares / shares.sum())
    return np.asarray(found[found > 0], dtype=np.int64)


def looked_at(sizes: np.ndarray, micro: int, public: int | None, seed: int) -> Sizes:
    class Crowd:
        def over_sizes(self, made: Callable[[Ints], Ints], size: int) -> Ints:
            return made(sizes)

    units = micro**2 // 25
    return read_sizes(Crowd(), Cells(units), UserSum(units), micro / 1e6, public, TestNoise(seed))


def test_a_user_lies_in_the_octave_of_its_rows() -> None:
    assert octaves(np.array([1, 2, 3, 4, 7, 8, 1023, 1024]))[:11].tolist() == [1, 2, 2, 1, 0, 0, 0, 0, 0, 1, 1]
    assert octaves(np.array([2**40]))[-1] == 1


@pytest.mark.parametrize("alpha", [0.2, 0.5])
def test_rows_in_all_are_guessed_within_a_factor_of_eight_where_tails_are_even(alpha: float) -> None:
    guesses = [looked_at(pareto(alpha), 236_704, None, seed).rows for seed in range(12)]
    assert 100_000 / 8 < np.median(guesses) < 100_000 * 8


def test_no_tail_is_guessed_where_many_users_bring_one_row_each() -> None:
    found = looked_at(np.ones(100_000, dtype=np.int64), 236_704, None, 1)
    assert found.reach == 1
    assert found.blind < 0.05
    assert found.warning is None


@given(
    st.lists(st.floats(-1e4, 1e6), min_size=OCTAVES, max_size=OCTAVES), st.integers(0, OCTAVES - 1), st.floats(1, 1e4)
)
def test_no_release_can_make_the_arithmetic_fail(counts: list[float], best: int, deviation: float) -> None:
    found = beyond(np.array(counts), best, 1000.0, deviation)
    assert 0 <= found <= 15_000 + 1e-6


@given(st.floats(1, 1e9), st.floats(1, 1e12))
def test_trust_is_never_more_than_whole_and_never_lost(heard: float, rows: float) -> None:
    sizes = Sizes(10, 4, heard, heard, rows, False)
    assert 0.8 <= sizes.trust(0.2) <= sizes.trust(0.0) == 1
    assert (sizes.warning is not None) == (sizes.blind >= 0.75)
    assert sizes.middle >= heard * (1 - 1e-12)


def test_a_warning_names_where_its_guess_comes_from() -> None:
    assert "histogram" in str(Sizes(10, 4, 10, 10, 1000, True).warning)
    assert "public_rows" in str(Sizes(10, 4, 10, 10, 1000, False).warning)


def test_the_methods_are_found_by_name() -> None:
    for name in ("CappedFit", "UserDescent"):
        assert callable(getattr(models, name))


@given(square=st.fractions(min_value=Fraction(1, 10**9), max_value=10**30))
def test_a_sigma_taken_from_a_variance_is_never_too_small(square: Fraction) -> None:
    sigma = sqrt_above(square)
    assert sigma**2 >= square
    assert float(sigma**2 / square) - 1 < 2.0**-50
