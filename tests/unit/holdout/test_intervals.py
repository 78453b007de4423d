"""Intervals at tiny levels: never inside the truth, hardly outside it, checked with exact integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.holdout import _intervals as intervals
from steelyard.holdout._intervals import clopper_pearson, hoeffding, kl_chernoff

Interval = Callable[[int, int, float], tuple[float, float]]


def log_tail(x: int, n: int, p: float) -> float:
    """ln P[Binomial(n, p) >= x], from exact fractions."""
    q = Fraction(p)
    total = sum(math.comb(n, j) * q**j * (1 - q) ** (n - j) for j in range(x, n + 1))
    return float(mpmath.log(mpmath.mpf(total.numerator)) - mpmath.log(mpmath.mpf(total.denominator)))


def covers(interval: Interval, x: int, n: int, log_alpha: float) -> bool:
    """Whether both ends are refuted at half the level, exactly."""
    low, high = interval(x, n, log_alpha)
    half = log_alpha - math.log(2)
    below = low == 0 or log_tail(x, n, low) <= half
    return below and (high >= 1 or log_tail(n - x, n, 1 - high) <= half + 1e-9)


@settings(max_examples=60)
@given(st.integers(1, 60), st.data())
def test_the_binomial_interval_covers_at_any_level(n: int, data: st.DataObject) -> None:
    x = data.draw(st.integers(0, n))
    log_alpha = data.draw(st.floats(-400, -0.01))
    assert covers(clopper_pearson, x, n, log_alpha)


@pytest.mark.parametrize(("x", "n", "log_alpha"), [(80, 100, -3.0), (9500, 10_000, -30.0), (800_000, 10**6, -200.0)])
def test_the_binomial_interval_is_hardly_wider_than_the_exact_one(x: int, n: int, log_alpha: float) -> None:
    from scipy.special import betaincinv

    alpha = math.exp(log_alpha) / 2
    low, high = clopper_pearson(x, n, log_alpha)
    exact_low, exact_high = betaincinv(x, n - x + 1, alpha), 1 - betaincinv(n - x, x + 1, alpha)
    width = exact_high - exact_low
    assert exact_low - 1e-6 * width <= low <= exact_low * (1 + 1e-12)
    assert exact_high - 1e-12 <= high <= exact_high + 1e-6 * width


def one_sided(x: int, n: int, log_alpha: float) -> tuple[float, float]:
    """Broken twin: spends the whole level on each side."""
    return clopper_pearson(x, n, min(0.0, log_alpha + math.log(2)))


def rounded_inward(x: int, n: int, log_alpha: float) -> tuple[float, float]:
    """Broken twin: a thousandth too narrow."""
    low, high = clopper_pearson(x, n, log_alpha)
    return low + 1e-3 * (high - low), high - 1e-3 * (high - low)


@pytest.mark.parametrize("twin", [one_sided, rounded_inward])
def test_an_interval_that_is_too_narrow_is_caught(twin: Interval) -> None:
    assert covers(clopper_pearson, 40, 50, -20.0)
    assert not covers(twin, 40, 50, -20.0)


@pytest.mark.parametrize("log_alpha", [-1000.0, -10_000.0])
def test_levels_below_any_float_still_give_intervals(log_alpha: float) -> None:
    low, high = clopper_pearson(800_000, 10**6, log_alpha)
    kl_low, kl_high = kl_chernoff(0.8, 10**6, log_alpha)
    assert kl_low < low < 0.8 < high < kl_high
    # Chernoff's exponent is the truth up to a logarithm, so the two nearly agree here.
    assert low - kl_low < 0.001
    assert kl_high - high < 0.001


def test_all_right_and_all_wrong_have_their_closed_forms() -> None:
    low, high = clopper_pearson(100, 100, -50.0)
    assert high == 1.0
    assert low == pytest.approx(math.exp((-50 - math.log(2)) / 100), rel=1e-9)
    assert list(clopper_pearson(0, 100, -50.0)) == pytest.approx([0.0, 1 - low])


@settings(max_examples=80)
@given(st.floats(0, 1), st.integers(1, 10**9), st.floats(-10_000, 0))
def test_relative_entropy_intervals_satisfy_their_equation_and_lie_inside_hoeffdings(
    m: float, n: int, la: float
) -> None:
    low, high = kl_chernoff(m, n, la)
    wide = hoeffding(m, n, la)
    assert wide[0] <= low + 1e-12 <= m + 2e-12
    assert m - 1e-12 <= high <= wide[1] + 1e-12
    if low > 1e-12:
        kl = m * math.log(m / low) + ((1 - m) * math.log((1 - m) / (1 - low)) if m < 1 else 0.0)
        assert n * kl >= (math.log(2) - la) * (1 - 1e-9) - n * 1e-14


@settings(max_examples=40)
@given(st.integers(0, 500), st.floats(-500, -1), st.floats(0.1, 100))
def test_a_smaller_level_never_narrows_the_interval(x: int, log_alpha: float, less: float) -> None:
    low, high = clopper_pearson(x, 500, log_alpha)
    wider = clopper_pearson(x, 500, log_alpha - less)
    assert wider[0] <= low
    assert high <= wider[1]


@pytest.mark.parametrize(
    ("x", "n", "log_alpha"),
    [(1, 0, -1.0), (-1, 5, -1.0), (6, 5, -1.0), (1, 5, 0.1), (1, 5, math.nan), (1, 5, -math.inf), (True, 5, -1.0)],
)
def test_what_is_no_count_or_no_level_is_refused(x: int, n: int, log_alpha: float) -> None:
    with pytest.raises(InvalidTask):
        clopper_pearson(x, n, log_alpha)
    with pytest.raises(InvalidTask):
        kl_chernoff(1.5 if n == 5 and log_alpha == -1 else 0.5, n, log_alpha)


def test_a_mean_that_is_no_mean_is_refused() -> None:
    for mean in (math.nan, -0.1, 1.1):
        with pytest.raises(InvalidTask):
            hoeffding(mean, 10, -1.0)


def law_of(chances: list[float]) -> list[float]:
    """The chances of each number of successes among independent rows with chances of their own."""
    law = [1.0]
    for p in chances:
        law = [a * (1 - p) + b * p for a, b in zip([*law, 0.0], [0.0, *law], strict=True)]
    return law


def misses(interval: Interval, chances: list[float], log_alpha: float) -> tuple[float, float]:
    """How likely an interval lies above, and below, the mean of the rows' chances."""
    n, mean = len(chances), math.fsum(chances) / len(chances)
    ends = [interval(x, n, log_alpha) for x in range(n + 1)]
    law = law_of(chances)
    above = math.fsum(chance for chance, (low, _) in zip(law, ends, strict=True) if low > mean)
    return above, math.fsum(chance for chance, (_, high) in zip(law, ends, strict=True) if high < mean)


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1e-3, 1.0]), min_size=1, max_size=9), st.floats(-6, -0.1))
def test_rows_with_chances_of_their_own_are_covered(chances: list[float], log_alpha: float) -> None:
    assert max(misses(clopper_pearson, chances, log_alpha)) <= math.exp(log_alpha) / 2 * (1 + 1e-9)


@pytest.mark.parametrize("log_alpha", [-0.7, -3.0, -6.0])
def test_the_ends_that_are_proved_for_equal_chances_alone_are_caught(log_alpha: float) -> None:
    """One row has all the chance there is, just below the binomial's own end for one success."""

    def equal(x: int, n: int, log_alpha: float) -> tuple[float, float]:
        return intervals._lowest(x, n, log_alpha), 1.0

    n = 6
    one = n * intervals._lowest(1, n, log_alpha) * (1 - 1e-9)
    assert misses(equal, [one, *[0.0] * (n - 1)], log_alpha)[0] > math.exp(log_alpha) / 2
    assert misses(clopper_pearson, [one, *[0.0] * (n - 1)], log_alpha)[0] <= math.exp(log_alpha) / 2
