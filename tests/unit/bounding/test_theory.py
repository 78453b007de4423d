"""The exact theory of capping, against quadrature, simulation and brute force."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from steelyard.bounding._laws import LAWS, mean_error, mean_noise
from steelyard.bounding._theory import (
    Tradeoff,
    bound_cap,
    capped_sum,
    capping_bias,
    error_bound,
    expected_error,
    optimal_cap,
    tradeoff,
)
from steelyard.documents import decode
from steelyard.errors import InvalidTask

TOTALS = st.lists(st.integers(0, 10_000), min_size=0, max_size=40)
LEVELS = st.floats(0.02, 8.0)
LAW = st.sampled_from(LAWS)


def staircase_density(level: float, point: float) -> float:
    gamma, fall = 1 / (1 + math.exp(level / 2)), math.exp(-level)
    height = (1 - fall) / (2 * (gamma + fall * (1 - gamma)))
    return height * fall ** math.floor(abs(point) + 1 - gamma)


def by_quadrature(law: str, level: float, bias: float) -> float:
    """E|X - bias| at sensitivity one, from the density alone."""

    def density(x: float) -> float:
        if law == "staircase":
            return staircase_density(level, x)
        return float((stats.laplace if law == "laplace" else stats.norm).pdf(x, scale=1 / level))

    gamma = 1 / (1 + math.exp(level / 2))
    steps = [s * (gamma + k) for k in range(int(40 / level) + 2) for s in (-1, 1)]
    points = sorted({0.0, bias, *steps}) if law == "staircase" else [-50 / level, 0.0, bias, 50 / level + bias]
    return math.fsum(integrate.quad(lambda x: abs(x - bias) * density(x), a, b)[0] for a, b in pairwise(points))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("level", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("bias", [0.0, 0.1, 1.3, 7.0])
def test_the_mean_error_is_the_integral_of_the_density(law: str, level: float, bias: float) -> None:
    assert float(mean_error(bias, 1.0, level, law)) == pytest.approx(by_quadrature(law, level, bias), rel=1e-6)


@pytest.mark.parametrize("level", [0.1, 1.0, 3.0, 10.0])
def test_the_staircase_constant_is_the_published_one_and_never_above_laplace(level: float) -> None:
    assert float(mean_error(0.0, 1.0, level, "staircase")) == pytest.approx(mean_noise(level, "staircase"), rel=1e-12)
    assert mean_noise(level, "staircase") < mean_noise(level, "laplace")


def test_the_staircase_keeps_the_ratio_of_densities_within_e_to_the_epsilon() -> None:
    points, shifts = np.linspace(-6, 6, 601), np.linspace(-1, 1, 81)
    ratios = [staircase_density(1.3, x) / staircase_density(1.3, x + s) for x in points for s in shifts]
    assert max(ratios) <= math.exp(1.3) * (1 + 1e-12)
    wide = [staircase_density(1.3, x) / staircase_density(1.3, x + 2.05) for x in points]
    assert max(wide) > math.exp(1.3) * 1.5  # the broken twin: twice the declared sensitivity must be noticed


def test_the_exact_error_agrees_with_simulation() -> None:
    generator = np.random.default_rng(3)
    totals, cap, epsilon = generator.pareto(1.5, 300) * 10, 40.0, 0.3
    answers = capped_sum(totals, cap) + generator.laplace(scale=cap / epsilon, size=400_000)
    simulated = np.abs(answers - totals.sum()).mean()
    assert expected_error(totals, cap, epsilon) == pytest.approx(simulated, rel=0.01)


@given(TOTALS, st.integers(1, 20_000), LEVELS, LAW)
def test_the_exact_error_lies_between_half_the_papers_bound_and_the_bound(
    totals: list[int], cap: int, level: float, law: str
) -> None:
    exact, bound = expected_error(totals, cap, level, law), error_bound(totals, cap, level, law)
    assert bound / 2 * (1 - 1e-9) <= exact <= bound * (1 + 1e-9)


@given(TOTALS, LEVELS, LAW, st.floats(1.0, 9_000.0), st.floats(1.0, 9_000.0), st.floats(0.0, 1.0))
def test_the_expected_error_is_convex_in_the_cap(
    totals: list[int], level: float, law: str, low: float, high: float, at: float
) -> None:
    middle = expected_error(totals, low * at + high * (1 - at), level, law)
    chord = at * expected_error(totals, low, level, law) + (1 - at) * expected_error(totals, high, level, law)
    assert middle <= chord * (1 + 1e-9) + 1e-9


@settings(max_examples=60)
@given(TOTALS, LEVELS, LAW)
def test_no_cap_on_a_fine_grid_beats_the_optimal_cap(totals: list[int], level: float, law: str) -> None:
    best = optimal_cap(totals, level, law)
    grid = np.concatenate([np.linspace(0, max([*totals, 1]) * 1.2, 3000), np.geomspace(1e-3, 2e4, 2000)])
    errors = mean_error(capping_bias(totals, grid), grid, level, law)
    assert expected_error(totals, best, level, law) <= errors.min() * (1 + 1e-9) + 1e-9


@given(TOTALS, LEVELS, LAW)
def test_the_ceil_th_largest_total_minimises_the_papers_bound(totals: list[int], level: float, law: str) -> None:
    chosen = error_bound(totals, bound_cap(totals, level, law), level, law)
    others = [error_bound(totals, cap, level, law) for cap in {0, *totals, *(t + 0.5 for t in totals)}]
    assert chosen <= min(others) * (1 + 1e-12) + 1e-9


def test_the_rank_is_that_of_the_paper() -> None:
    totals = np.arange(1.0, 101.0)
    assert bound_cap(totals, 0.1) == 91.0  # the 10th largest
    assert bound_cap(totals, 0.3) == 97.0  # the 4th largest
    assert bound_cap([5.0, 6.0], 0.1) == 0.0  # fewer users than 1/epsilon


@pytest.mark.parametrize("law", LAWS)
def test_degenerate_tables_have_sensible_caps(law: str) -> None:
    assert optimal_cap([], 1.0, law) == 0.0
    assert optimal_cap([0, 0, 0], 1.0, law) == 0.0
    assert optimal_cap([9.0] * 500, 1.0, law) == pytest.approx(9.0, rel=1e-4)
    assert 0 < optimal_cap([10.0], 0.05, law) < 10.0
    assert expected_error([], 0.0, 1.0, law) == 0.0
    assert expected_error([3.0, 4.0], 0.0, 1.0, law) == 7.0


def test_the_tradeoff_is_the_u_curve_with_the_optimum_in_it() -> None:
    totals = np.random.default_rng(1).pareto(1.7, 2000) * 20
    curve = tradeoff(totals, 0.2)
    assert curve.best.cap == pytest.approx(optimal_cap(totals, 0.2))
    assert curve.best.error == min(curve.error)
    assert curve.best.noise == pytest.approx(curve.best.cap / 0.2)
    assert list(curve.bias) == sorted(curve.bias, reverse=True)
    assert list(curve.noise) == sorted(curve.noise)
    assert curve.error[0] > 2 * curve.best.error
    assert curve.error[-1] > 2 * curve.best.error
    assert decode(Tradeoff, curve.to_json(), "curve") == curve


def test_a_tradeoff_can_be_asked_at_chosen_caps() -> None:
    curve = tradeoff([1.0, 5.0, 9.0], 1.0, "gaussian", caps=[9.0, 1.0])
    assert curve.caps == (1.0, 9.0)
    assert curve.bias == (12.0, 0.0)


@pytest.mark.parametrize("totals", [[-1.0], [math.inf], [math.nan]])
def test_totals_that_are_not_finite_and_positive_are_refused(totals: list[float]) -> None:
    with pytest.raises(InvalidTask, match="not negative"):
        optimal_cap(totals, 1.0)


@pytest.mark.parametrize(
    ("level", "law"), [(0.0, "laplace"), (-1.0, "gaussian"), (math.nan, "laplace"), (1.0, "cauchy")]
)
def test_a_law_or_level_that_makes_no_sense_is_refused(level: float, law: str) -> None:
    with pytest.raises(InvalidTask):
        mean_noise(level, law)
    with pytest.raises(InvalidTask):
        tradeoff([1.0], level, law)


def test_a_cap_below_zero_and_an_empty_list_of_caps_are_refused() -> None:
    with pytest.raises(InvalidTask):
        expected_error([1.0], -1.0, 1.0)
    with pytest.raises(InvalidTask):
        tradeoff([1.0], 1.0, caps=[])
