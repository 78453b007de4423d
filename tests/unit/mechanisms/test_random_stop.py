"""Random stopping: the law of K, the exact loss of the best of K runs, its price, and broken twins."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest

from steelyard.accounting import price
from steelyard.errors import InvalidTask
from steelyard.mechanisms import RandomStop
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO
from unit.bounding.remembered import terms
from unit.mechanisms.fit import fits

Law = list[float]
Generating = Callable[[float], float]


def geometric(stop: float) -> Generating:
    return lambda u: stop * u / (1 - (1 - stop) * u)


def logarithmic(stop: float) -> Generating:
    return lambda u: math.log1p(-(1 - stop) * u) / math.log(stop)


def best(law: Law, of: Generating) -> Law:
    """The law of the best of K draws, outcomes in the order of their scores; ``of`` is the generating function of K."""
    below, found = 0.0, list[float]()
    for chance in law:
        found.append(of(min(1.0, below + chance)) - of(below))
        below += chance
    return found


def loss(law: Law, other: Law) -> float:
    return max(abs(math.log(a / b)) for a, b in zip(law, other, strict=True))


def pairs(epsilon: float) -> list[tuple[Law, Law]]:
    """Pairs of laws on three outcomes that are exactly epsilon apart, in many ways."""
    found = []
    for signs, share in product(product((-1, 0, 1), repeat=3), (0.02, 0.3, 0.6)):
        law = [share, (1 - share) * 0.3, (1 - share) * 0.7]
        moved = [p * math.exp(sign * epsilon / 2) for p, sign in zip(law, signs, strict=True)]
        whole = math.fsum(moved)
        other = [p / whole for p in moved]
        if 1e-6 < loss(law, other) <= epsilon + 1e-12:
            found += [(law, other), (other, law)]
    return found


def worst(of: Generating, epsilon: float) -> float:
    """The largest loss of the best of K, as a multiple of the loss of one run."""
    return max(loss(best(law, of), best(other, of)) / loss(law, other) for law, other in pairs(epsilon))


@pytest.mark.parametrize("stop", [0.5, 0.1, 0.001])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_best_of_so_many_runs_loses_no_more_than_is_charged(stop: float, epsilon: float) -> None:
    assert worst(geometric(stop), epsilon) <= 3 + 1e-6
    assert worst(logarithmic(stop), epsilon) <= 2 + 1e-6


def test_the_price_is_needed() -> None:
    assert worst(geometric(1e-6), 0.1) > 2.3
    assert worst(logarithmic(1e-6), 0.1) > 1.6


def test_a_fixed_number_of_runs_is_caught() -> None:
    assert worst(lambda u: u**50, 0.1) > 4


def test_the_geometric_law_at_the_logarithmic_price_is_caught() -> None:
    assert worst(geometric(0.001), 0.1) > 2.1


def with_count(law: Law, stop: float, runs: int) -> Law:
    """The law of the best together with a geometric K that is shown, up to so many runs."""
    found = list[float]()
    for k in range(1, runs + 1):
        chance = stop * (1 - stop) ** (k - 1)
        found += [chance * part for part in best(law, lambda u: u**k)]  # noqa: B023
    return found


def test_a_number_of_runs_that_is_shown_is_caught() -> None:
    found = [loss(with_count(law, 0.1, 12), with_count(other, 0.1, 12)) / loss(law, other) for law, other in pairs(0.1)]
    assert max(found) > 9


@pytest.mark.parametrize("law", ["geometric", "logarithmic"])
def test_the_number_of_runs_has_the_stated_law(law: str) -> None:
    stop = RandomStop(Fraction(1, 3), Fraction(1, 5), law)
    noise = TestNoise(4)
    sample = [stop.runs(noise) for _ in range(4000)]
    weights = {k: (4 / 5) ** k / (1 if law == "geometric" else k) for k in range(1, 200)}
    whole = math.fsum(weights.values())
    assert fits(sample, lambda k: weights[k] / whole, weights)


def test_what_is_charged_is_two_or_three_runs() -> None:
    cheap, dear = (RandomStop(Fraction(1, 5), Fraction(1, 9), law) for law in ("logarithmic", "geometric"))
    assert price(cheap.event, terms(gaussian=False)).amount == 400_000
    assert price(dear.event, terms(gaussian=False)).amount == 600_000
    assert price(dear.event, terms(gaussian=True)).amount > (0.6 * MICRO) ** 2


@pytest.mark.parametrize("wrong", [(0, Fraction(1, 2)), (1, 0), (1, 1)])
def test_what_is_no_law_is_refused(wrong: tuple[Fraction, Fraction]) -> None:
    with pytest.raises(InvalidTask):
        RandomStop(Fraction(wrong[0]), Fraction(wrong[1]))
    with pytest.raises(InvalidTask, match="geometric"):
        RandomStop(Fraction(1), Fraction(1, 2), "poisson")
