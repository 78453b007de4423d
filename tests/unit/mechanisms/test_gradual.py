"""Paths: the refinement's exact law, what a whole path gives away, and its broken twins."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from steelyard.errors import InvalidTask, OurBug
from steelyard.mechanisms import LaplacePath
from steelyard.mechanisms._coins import exp_coin, two_sided
from steelyard.mechanisms._gradual import kept, ratio_coin, refined
from steelyard.noise import Noise, TestNoise
from steelyard.privacy import Loss, Terms, rows
from unit.mechanisms.fit import fits
from unit.mechanisms.twins import pmf

FINE, COARSE = 1.5, 4.0
REACH = range(-140, 141)
TERMS = Terms(rows(), Loss.mu(100), Fraction(100), Fraction(1, 10**6))
Atom = Callable[[int], float]


def chance_kept(old: int, fine: float = FINE, coarse: float = COARSE) -> float:
    """The chance that refining leaves the noise as it is, for integers."""
    ratio = math.expm1(-2 / coarse) / math.expm1(-2 / fine)
    return ratio * math.exp(-(abs(old) + 1) * (1 / fine - 1 / coarse))


def chance_kept_on_the_line(old: int) -> float:
    """The twin: the chance that is right for continuous noise."""
    return FINE / COARSE * math.exp(-abs(old) * (1 / FINE - 1 / COARSE))


def refinement(new: int, old: int, atom: Atom) -> float:
    """The law of the finer noise given the coarser."""
    slope = [math.exp(-abs(x) / FINE - abs(old - x) / COARSE) for x in REACH]
    rest = math.exp(-abs(new) / FINE - abs(old - new) / COARSE) / math.fsum(slope)
    return atom(old) * (new == old) + (1 - atom(old)) * rest


def makes_finer_noise(atom: Atom) -> bool:
    """Whether refining coarse noise gives exactly the fine law."""
    wide = range(-100, 101)
    return all(
        abs(math.fsum(pmf(old, COARSE) * refinement(new, old, atom) for old in wide) - pmf(new, FINE)) < 1e-9
        for new in (0, 1, -3, 7)
    )


def test_refining_coarse_noise_gives_exactly_the_finer_law() -> None:
    assert makes_finer_noise(chance_kept)


def test_the_refinement_of_continuous_noise_on_integers_is_caught() -> None:
    assert not makes_finer_noise(chance_kept_on_the_line)


@pytest.mark.parametrize("old", [0, 3, -9])
def test_the_refinement_is_drawn_from_its_law(old: int) -> None:
    noise = TestNoise(old)
    sample = [refined(old, Fraction(4), Fraction(3, 2), noise) for _ in range(4000)]
    assert fits(sample, lambda new: refinement(new, old, chance_kept), range(-40, 41))
    if old == 0:
        assert not fits(sample, lambda new: refinement(new, old, lambda _: 0.0), range(-40, 41))


@pytest.mark.parametrize("old", [0, -2])
def test_noise_is_kept_with_exactly_its_chance(old: int) -> None:
    noise = TestNoise(3)
    sample = [kept(old, Fraction(4), Fraction(3, 2), noise) for _ in range(12_000)]
    right = chance_kept(old)
    # The twin forgets the squares in (1 - p^2)/(1 - q^2).
    wrong = right * math.expm1(-1 / COARSE) / math.expm1(-1 / FINE) / (math.expm1(-2 / COARSE) / math.expm1(-2 / FINE))
    assert fits(sample, lambda up: right if up else 1 - right, (True, False))
    assert not fits(sample, lambda up: wrong if up else 1 - wrong, (True, False))


@pytest.mark.parametrize(("coarse", "fine"), [("3", "2"), ("10", "1/3"), ("1000000", "999999/2")])
def test_theratio_coin_has_its_probability(coarse: str, fine: str) -> None:
    noise, big, small = TestNoise(1), Fraction(coarse), Fraction(fine)
    sample = [ratio_coin(big, small, noise) for _ in range(3000)]
    heads = math.expm1(-1 / float(big)) / math.expm1(-1 / float(small))
    assert fits(sample, lambda up: heads if up else 1 - heads, (True, False))
    assert not fits(sample, lambda up: math.sqrt(heads) if up else 1 - math.sqrt(heads), (True, False))


def coarser(fine_noise: int, fine: Fraction, coarse: Fraction, noise: Noise) -> int:
    """A second derivation: the walk from fine to coarse, which adds nothing or coarse noise.

    Nothing with probability exp(-(1/fine - 1/coarse)) ((1 - exp(-1/coarse)) / (1 - exp(-1/fine)))^2.
    """
    if exp_coin(1 / fine - 1 / coarse, noise) and all(ratio_coin(coarse, fine, noise) for _ in range(2)):
        return fine_noise
    return fine_noise + two_sided(coarse, noise)


def test_the_walk_outwards_and_the_refinement_inwards_are_one_law() -> None:
    noise = TestNoise(8)
    fine, coarse = Fraction(1), Fraction(2)
    outwards = [two_sided(fine, noise) for _ in range(3000)]
    sample = [(coarser(x, fine, coarse, noise), x) for x in outwards]
    inwards = [(old, refined(old, coarse, fine, noise)) for old in (two_sided(coarse, noise) for _ in range(3000))]
    atom = math.exp(-0.5) * (math.expm1(-0.5) / math.expm1(-1)) ** 2

    def joint(pair: tuple[int, int]) -> float:
        return pmf(pair[1], 1) * (atom * (pair[0] == pair[1]) + (1 - atom) * pmf(pair[0] - pair[1], 2))

    pairs = [(a, b) for a in range(-9, 10) for b in range(-6, 7)]
    assert fits(sample, joint, pairs)
    assert fits(inwards, joint, pairs)


def path_loss(second: Callable[[int, int, int], float]) -> float:
    """The largest loss of a pair of releases when the value moves from 0 to 1."""
    return max(
        abs(math.log(pmf(a, COARSE) * second(b, a, 0) / (pmf(a - 1, COARSE) * second(b - 1, a - 1, 1))))
        for a in range(-12, 13)
        for b in range(-12, 13)
    )


def test_two_releases_of_a_path_cost_the_level_of_the_second() -> None:
    assert path_loss(lambda new, old, _: refinement(new, old, chance_kept)) <= 1 / FINE + 1e-9
    path = LaplacePath(1, (Fraction(4), Fraction(3, 2)))
    assert path.epsilon_at(1) == Fraction(2, 3)
    assert path.event.parameters["scale_numerator"] == 3
    assert path.event_at(0).parameters["scale_numerator"] == 4


def test_fresh_noise_instead_of_refinement_is_caught() -> None:
    assert path_loss(lambda new, old, _: pmf(new, FINE)) > 1 / FINE + 0.2


def test_a_step_alone_costs_more_than_the_difference_of_levels() -> None:
    alone = max(
        abs(math.log(refinement(b, a, chance_kept) / refinement(b - 1, a - 1, chance_kept)))
        for a in range(-8, 9)
        for b in range(-8, 9)
    )
    assert alone > 1 / FINE - 1 / COARSE + 0.3


def test_each_release_of_a_path_has_the_law_of_its_scale() -> None:
    path, noise = LaplacePath(1, (Fraction(8), Fraction(4), Fraction(1))), TestNoise(2)
    values = [100] * 1500
    released = path.release(values, noise)
    for step in (1, 2):
        released = path.refine(values, released, step, noise)
    assert fits([x - 100 for x in released], lambda x: pmf(x, 1), range(-30, 31))


def test_no_value_can_make_a_path_fail() -> None:
    path, noise = LaplacePath(1, (Fraction(8), Fraction(1))), TestNoise(2)
    values = [10**60, -(10**60), 0]
    assert len(path.refine(values, path.release(values, noise), 1, noise)) == 3


def test_paths_that_do_not_fall_are_refused() -> None:
    for scales in ((), (Fraction(1), Fraction(1)), (Fraction(1), Fraction(2)), (Fraction(0),)):
        with pytest.raises(InvalidTask):
            LaplacePath(1, scales)
    path = LaplacePath(1, (Fraction(2), Fraction(1)))
    for step, released in ((0, [1]), (2, [1]), (1, [1, 2])):
        with pytest.raises(OurBug):
            path.refine([1], released, step, TestNoise(1))
