"""Odometers against an analyst who stops when it looks worst, and the curve that does not survive him."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from steelyard.accounting._gaussian import epsilon_of
from steelyard.accounting._odometers import LinearOdometer, MixtureOdometer
from steelyard.errors import InvalidTask
from steelyard.privacy import Loss

TIMES = np.geomspace(1e-3, 30, 120)


def crossings(bound: Callable[[float], float], runs: int, seed: int) -> float:
    """The share of Gaussian transcripts whose true loss ever exceeds the bound at some stop."""
    line = np.array([bound(float(v)) for v in TIMES])
    steps = np.diff(TIMES, prepend=0.0)
    generator = np.random.default_rng(seed)
    crossed = 0
    for _ in range(runs // 10_000):
        walk = np.cumsum(generator.normal(size=(10_000, len(steps))) * np.sqrt(steps), axis=1)
        crossed += int(np.any(TIMES / 2 + walk > line, axis=1).sum())
    return crossed / runs


def limit(delta: float, runs: int) -> float:
    return delta + 5 * math.sqrt(delta / runs)


@pytest.mark.parametrize("delta", [0.05, 0.01])
def test_a_stop_chosen_from_the_data_stays_under_the_odometer(delta: float) -> None:
    for odometer in (LinearOdometer(delta, 1.0), MixtureOdometer(delta, 1e-3), MixtureOdometer(delta, 0.1)):
        assert crossings(odometer.epsilon, 40_000, 1) <= limit(delta, 40_000)


def fixed_time(delta: float) -> Callable[[float], float]:
    """The twin: the level a normal loss exceeds with probability delta at one time fixed in advance."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * math.erfc(middle / math.sqrt(2)) > delta else (low, middle)
    return lambda v: v / 2 + high * math.sqrt(v)


@pytest.mark.parametrize("delta", [0.05, 0.01])
def test_the_fixed_time_curve_at_a_chosen_stop_is_caught(delta: float) -> None:
    assert crossings(fixed_time(delta), 40_000, 1) > 5 * limit(delta, 40_000)


@pytest.mark.slow
def test_odometers_hold_at_a_thousandth_on_a_million_paths() -> None:
    for odometer in (LinearOdometer(1e-3, 1.0), MixtureOdometer(1e-3, 1e-3)):
        assert crossings(odometer.epsilon, 1_000_000, 2) <= limit(1e-3, 1_000_000)
    assert crossings(fixed_time(1e-3), 1_000_000, 2) > 5e-3


def test_an_odometer_is_never_below_the_filters_epsilon() -> None:
    for v in (1e-4, 1e-2, 1.0, 9.0):
        optimum = epsilon_of(math.sqrt(v), 1e-6)
        assert LinearOdometer(1e-6, v).epsilon(v) > optimum
        assert optimum < MixtureOdometer(1e-6, 1e-4).epsilon(v) < 1.65 * optimum


def test_the_half_in_the_mixture_is_enough() -> None:
    # The exact boundary y solves e^(y^2/2) P[Z <= y] = A; ours must lie at or above it.
    for level in np.geomspace(0.51, 1e12, 200):
        y = math.sqrt(2 * math.log(level + 0.5))
        assert math.exp(y * y / 2) * (1 - 0.5 * math.erfc(y / math.sqrt(2))) >= level * (1 - 1e-12)


def test_an_odometer_reads_a_gaussian_loss_or_v_itself() -> None:
    odometer = MixtureOdometer(1e-6, 1e-4)
    assert odometer.epsilon(Loss.mu("0.5")) == odometer.epsilon(Fraction(1, 4)) == odometer.epsilon(0.25)
    with pytest.raises(InvalidTask):
        odometer.epsilon(Loss.pure(1))
    with pytest.raises(InvalidTask):
        odometer.epsilon(-1.0)


def test_a_nonsense_tuning_is_refused() -> None:
    for delta, tuned_at in ((0.0, 1.0), (1.0, 1.0), (0.1, 0.0)):
        with pytest.raises(InvalidTask):
            LinearOdometer(delta, tuned_at)
        with pytest.raises(InvalidTask):
            MixtureOdometer(delta, tuned_at)
