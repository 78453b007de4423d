"""Clopper-Pearson bounds against scipy, and their coverage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from steelyard.audit._sampling import incomplete_beta, lower_bound, upper_bound


@given(st.floats(0.001, 0.999), st.floats(0.5, 1e6), st.floats(0.5, 1e6))
def test_the_incomplete_beta_function_agrees_with_scipy(x: float, a: float, b: float) -> None:
    assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("trials", [1, 10, 1000, 10**5, 2 * 10**6, 10**7])
@pytest.mark.parametrize("error", [0.05, 1e-5, 1e-9])
def test_bounds_are_those_of_scipy_and_never_tighter(trials: int, error: float) -> None:
    for hits in {0, 1, 3, trials // 1000, trials // 3, trials // 2, trials - 1, trials}:
        if not 0 <= hits <= trials:
            continue
        low = stats.beta.ppf(error, hits, trials - hits + 1) if hits else 0.0
        high = stats.beta.isf(error, hits + 1, trials - hits) if hits < trials else 1.0
        assert low * (1 - 3e-6) <= lower_bound(hits, trials, error) <= low * (1 + 1e-12)
        assert high * (1 - 1e-12) <= upper_bound(hits, trials, error) <= high * (1 + 3e-6)


@pytest.mark.parametrize("truth", [0.001, 0.03, 0.5, 0.999])
def test_the_bounds_fail_no_more_often_than_allowed(truth: float) -> None:
    trials, error = 120, 0.05
    chances = stats.binom.pmf(range(trials + 1), trials, truth)
    missed_low = sum(c for hits, c in enumerate(chances) if lower_bound(hits, trials, error) > truth)
    missed_high = sum(c for hits, c in enumerate(chances) if upper_bound(hits, trials, error) < truth)
    assert missed_low <= error
    assert missed_high <= error


def test_a_normal_approximation_would_fail_the_same_check() -> None:
    trials, error, truth = 400, 0.05, 0.001
    chances = stats.binom.pmf(range(trials + 1), trials, truth)
    rough = [h / trials + 1.645 * (h / trials * (1 - h / trials) / trials) ** 0.5 for h in range(trials + 1)]
    assert sum(c for top, c in zip(rough, chances, strict=True) if top < truth) > error
