"""Very many steps by a transform: never below the truth, which is computed in many digits, and hardly above it."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from steelyard.accounting import _curves as module
from steelyard.accounting._curves import Curve, repeated
from steelyard.mechanisms import BoundedNoise


def binomial(times: int, chance: float) -> list[tuple[int, mp.mpf]]:
    """The chances of all likely numbers of successes, in 40 digits."""
    middle, spread = times * chance, math.ceil(14 * math.sqrt(times * chance * (1 - chance))) + 60
    first = max(0, math.floor(middle) - spread)
    p = mp.mpf(chance)
    mass = mp.binomial(times, first) * p**first * (1 - p) ** (times - first)
    found = []
    for number in range(first, min(times, math.ceil(middle) + spread) + 1):
        found.append((number, mass))
        mass *= mp.mpf(times - number) / (number + 1) * p / (1 - p)
    return found


def flips(loss: float, times: int, rare: float = 0.0, large: float = 0.0) -> tuple[Curve, list[tuple[mp.mpf, mp.mpf]]]:
    """The curve of coin flips that lose +loss or -loss, rarely a large one, and the true law of their sum."""
    chance = math.exp(loss) / (1 + math.exp(loss))
    losses, masses = np.array([loss, -loss, large]), np.array([chance, 1 - chance, rare])
    masses[:2] *= 1 - rare
    curve = repeated(losses, masses, 0.0, times)
    truth = []
    for number in range(4 if rare else 1):
        share = mp.binomial(times, number) * mp.mpf(rare) ** number * (1 - mp.mpf(rare)) ** (times - number)
        rest = times - number
        truth += [
            (number * mp.mpf(large) + (2 * j - rest) * mp.mpf(loss), share * m) for j, m in binomial(rest, chance)
        ]
    return curve, truth


def delta_of(truth: list[tuple[mp.mpf, mp.mpf]], epsilon: float) -> float:
    return float(mp.fsum(m * -mp.expm1(epsilon - loss) for loss, m in truth if loss > epsilon))


CASES = {
    "a thousand": (0.02, 1_000, 0.0, 0.0),
    "many": (0.002, 60_000, 0.0, 0.0),
    "very many": (0.0006, 410_000, 0.0, 0.0),
    "a rare large loss": (0.004, 15_000, 8e-9, 8.0),
    "a rare loss beyond what is kept": (0.004, 15_000, 2e-9, 40.0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_curve_is_never_below_the_truth_and_close_to_it_down_to_a_millionth(
    case: tuple[float, int, float, float],
) -> None:
    with mp.workdps(40):
        curve, truth = flips(*case)
        total = case[0] * math.sqrt(case[1])
        for share in (0.0, 1.0, 2.0, 3.0, 4.0, 4.6):
            exact = delta_of(truth, share * total + total**2 / 2)
            found = curve.delta(share * total + total**2 / 2)
            assert exact <= found <= exact * 1.09 + 2e-7


def test_losses_that_are_not_kept_and_not_counted_are_caught() -> None:
    with mp.workdps(40):
        curve, truth = flips(*CASES["a rare loss beyond what is kept"])
        assert curve.infinite > 1e-5
        epsilon = 2.5
        exact = delta_of(truth, epsilon)
        assert replace(curve, infinite=0.0).delta(epsilon) < exact <= curve.delta(epsilon)


@pytest.mark.parametrize("times", [3_000, 200_000])
def test_the_float_error_of_a_power_is_bounded_and_the_bound_is_small(times: int) -> None:
    law, size = np.zeros(9), 1 << 12
    law[[0, 8]] = 0.5
    found, error = module._power(law, size, times)
    with mp.workdps(40):
        exact = np.zeros(size, dtype=object)
        for number, mass in binomial(times, 0.5):
            exact[8 * number % size] += mass
        off = float(mp.fsum(abs(mp.mpf(a) - b) for a, b in zip(found.tolist(), exact, strict=True)))
    assert off <= error < 1e-6


def by_inversion(noise: BoundedNoise, epsilons: list[float]) -> list[float]:
    """The true delta of bounded noise: a damped Fourier integral over the loss of its whole weights, exact to 1e-10."""
    weights = noise.weights[noise.weights > 0].astype(np.float64)
    share, loss = weights[1:] / weights.sum(), np.log(weights[1:] / weights[:-1])
    k, found = noise.questions, np.zeros(len(epsilons))
    deviation = math.sqrt(k * float((share * loss * loss).sum()))
    for turn in range(math.ceil(10 / deviation)):
        z = complex(5, turn)
        power = np.exp(k * np.log((np.exp(z * loss) * share).sum()) - z * np.array(epsilons))
        found += (power / (z * (z + 1))).real * (0.5 if turn == 0 else 1.0)
    edge = -math.expm1(k * math.log1p(-float(weights[0] / weights.sum())))
    return [float(each) / math.pi + edge for each in found]


@pytest.mark.parametrize("noise", [BoundedNoise(2, 250, 10_000, 10), BoundedNoise(2, 24_907, 10**6, 93_100)])
def test_bounded_noise_is_accounted_a_few_per_cent_above_its_truth(noise: BoundedNoise) -> None:
    total = math.pi / noise.radius * math.sqrt(noise.questions)
    epsilons = [share * total for share in (0.5, 1.0, 2.0, 3.0, 4.0)]
    for epsilon, truth in zip(epsilons, by_inversion(noise, epsilons), strict=True):
        assert truth <= noise.delta(epsilon) <= truth * 1.09 + 3e-8
    assert noise.curve.infinite <= 2 * noise.questions * float(noise.weights[0] / noise.weights.sum()) + 1e-8
