"""The draws against their laws: chi-square, second opinions, privacy computed exactly, and time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from steelyard.noise import ExactNoise, TestNoise
from steelyard.noise._stream import SeededStream
from unit.noise import cks
from unit.noise.exactly import p_value
from unit.noise.opendp_noise import OpenDPNoise

SCALES = [Fraction(1, 2), Fraction(1), Fraction(10, 3), Fraction(100), Fraction(10**6), Fraction(10**6 << 20)]
SCALES += [Fraction(1 << 40), Fraction(10**6, 7)]
KINDS = ["laplace", "normal"]


def draws_of(noise: ExactNoise | TestNoise, kind: str, scale: Fraction, size: int) -> NDArray[np.int64]:
    return noise.laplace_array(scale, size) if kind == "laplace" else noise.normal_array(scale, size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_bulk_draws_follow_the_law(kind: str, scale: Fraction) -> None:
    draws = draws_of(TestNoise(f"law {kind}"), kind, scale, 400_000)
    assert p_value(draws, kind, float(scale)) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_ten_million_secure_draws_follow_the_law(kind: str, scale: Fraction) -> None:
    threshold = 0.01 / (len(KINDS) * len(SCALES))
    runs = (p_value(draws_of(ExactNoise(), kind, scale, 10_000_000), kind, float(scale)) for _ in range(2))
    assert any(p > threshold for p in runs)  # one unlucky run is repeated, once


@pytest.mark.parametrize("kind", KINDS)
def test_the_chi_square_catches_a_scale_two_per_cent_off(kind: str) -> None:
    draws = draws_of(TestNoise(5), kind, Fraction(100), 400_000)
    assert p_value(draws, kind, 98.0) < 1e-6


def test_the_chi_square_tells_the_rounded_normal_from_the_discrete_gaussian() -> None:
    stream = SeededStream(bytes(32))
    twin = np.array([cks.discrete_gaussian(stream.below, Fraction(1)) for _ in range(20_000)])
    assert p_value(twin, "normal", 1.0) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_byte_of_a_wide_draw_is_uniform(kind: str) -> None:
    low = draws_of(TestNoise(f"low {kind}"), kind, Fraction(1 << 40), 400_000) & 255
    assert stats.chisquare(np.bincount(low, minlength=256)).pvalue > 1e-4


@pytest.mark.parametrize("scale", [Fraction(10, 3), Fraction(1000)], ids=str)
def test_scalar_draws_agree_with_the_oracle(scale: Fraction) -> None:
    stream = SeededStream(bytes(32))
    theirs = [cks.laplace(stream.below, scale) for _ in range(8_000)]
    noise = TestNoise(f"oracle {scale}")
    ours = [noise.laplace(scale, 1)[0] for _ in range(8_000)]
    assert stats.ks_2samp(theirs, ours).pvalue > 1e-4


@pytest.mark.parametrize("scale", [Fraction(1000), Fraction(1 << 40)], ids=str)
def test_bulk_draws_agree_with_opendp(scale: Fraction) -> None:
    theirs = OpenDPNoise().laplace(scale, 10_000)
    assert stats.ks_2samp(theirs, TestNoise(f"opendp {scale}").laplace(scale, 100_000)).pvalue > 1e-5


def gaussian_cost(upper_tail: Callable[[int], mpmath.mpf], shift: int, reach: int) -> mpmath.mpf:
    """The exact mu of symmetric log-concave integer noise under a shift: the largest rise of the normal quantile."""

    def height(n: int) -> mpmath.mpf:
        tail = upper_tail(max(n, 1 - n))
        root = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * tail)
        return root if n >= 1 - n else -root

    return max(height(n) - height(n - shift) for n in range(-reach, reach + 1))


def rounded_normal_tail(sigma: Fraction) -> Callable[[int], mpmath.mpf]:
    return lambda n: mpmath.erfc((mpmath.mpf(n) - 0.5) * sigma.denominator / sigma.numerator / mpmath.sqrt(2)) / 2


def discrete_gaussian_tail(sigma: Fraction) -> Callable[[int], mpmath.mpf]:
    weight = [mpmath.exp(-mpmath.mpf(n * n) * sigma.denominator**2 / (2 * sigma.numerator**2)) for n in range(60)]
    total = 2 * sum(weight) - 1
    return lambda n: sum(weight[n:]) / total


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(10, 3)], ids=str)
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_rounded_normal_costs_exactly_shift_over_sigma(sigma: Fraction, shift: int) -> None:
    with mpmath.workprec(300):
        cost = gaussian_cost(rounded_normal_tail(sigma), shift, 4)
        assert abs(cost - mpmath.mpf(shift) * sigma.denominator / sigma.numerator) < 1e-20


def test_the_same_computation_convicts_the_discrete_gaussian() -> None:
    with mpmath.workprec(300):
        cost = gaussian_cost(discrete_gaussian_tail(Fraction(1)), 1, 4)
    assert cost > 1.045


@pytest.mark.parametrize(("scale", "shift"), [(Fraction(1), 1), (Fraction(10, 3), 3), (Fraction(10**6, 7), 7)])
def test_discrete_laplace_costs_exactly_shift_over_scale(scale: Fraction, shift: int) -> None:
    with mpmath.workprec(300):
        q = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
        floors = [(1 - q) * q**n for n in range(60)]  # the law of floor(scale * Exp(1))
        both = {n: floors[abs(n)] / 2 for n in range(-50, 51)}  # a fair sign, and (-, 0) thrown away
        total = sum(both.values())
        losses = [abs(mpmath.log(both[n] / total) - mpmath.log(both[n - shift] / total)) for n in range(-40, 41)]
        assert abs(max(losses) - mpmath.mpf(shift) * scale.denominator / scale.numerator) < 1e-20


def time_and_noise(draw: Callable[[], int], count: int) -> tuple[float, float]:
    """Spearman correlation of the time of a draw with its size, and its p-value."""
    took, size = np.empty(count), np.empty(count)
    clock = time.perf_counter_ns
    gc.disable()
    try:
        for i in range(count):
            start = clock()
            value = draw()
            took[i], size[i] = clock() - start, abs(value)
    finally:
        gc.enable()
    result = stats.spearmanr(took, size)
    return float(result.statistic), float(result.pvalue)


def bulk_once(kind: str) -> Callable[[], int]:
    noise, scale = ExactNoise(), Fraction(10**6)
    draw = noise.laplace_array if kind == "laplace" else noise.normal_array
    draw(scale, 1)
    return lambda: int(draw(scale, 1)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_time_of_a_bulk_draw_says_nothing_about_it(kind: str) -> None:
    assert any(abs(time_and_noise(bulk_once(kind), 8_000)[0]) < 0.03 for _ in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_time_of_a_hundred_thousand_bulk_draws_says_nothing_about_them(kind: str) -> None:
    assert any(abs(time_and_noise(bulk_once(kind), 100_000)[0]) < 0.02 for _ in range(2))


def test_the_time_check_catches_the_oracle() -> None:
    stream = SeededStream(bytes(32))
    assert time_and_noise(lambda: cks.laplace(stream.below, Fraction(10**6)), 4_000)[0] > 0.1
