"""Sampling audits: no false alarm on sound mechanisms, and narrow noise, float noise and broken sparse vectors caught."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.twins import NarrowGaussian, NarrowLaplace
from steelyard.accounting._gaussian import delta_of
from steelyard.audit import Epsilon, audit, certify
from steelyard.audit._probes import Effort, probe
from steelyard.audit._sampling import Bound
from steelyard.audit._verdict import Mu
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, KeyThreshold, Laplace
from steelyard.noise import ExactNoise
from unit.mechanisms.test_key_threshold import LooksAtMoreForNothing
from unit.mechanisms.twins import BROKEN, SOUND, SparseVector

NOISE = ExactNoise()
MILLION = Fraction(10**6)
Batch = Callable[[int], NDArray[np.int64]]


def laplace(value: int, scale: Fraction = MILLION) -> Batch:
    return lambda size: value + NOISE.laplace_array(scale, size)


def normal(value: int, sigma: Fraction = MILLION) -> Batch:
    return lambda size: value + NOISE.normal_array(sigma, size)


def pair(make: Callable[[int], Batch], claim: Epsilon | Mu, samples: int, alpha: float = 1e-5) -> Bound:
    return certify(make(0), make(10**6), claim, samples=samples, alpha=alpha)


def test_correct_noise_raises_no_alarm_in_many_audits() -> None:
    for _ in range(60):
        assert not pair(laplace, Epsilon(1.0), 8_000).broken
        assert not pair(normal, Mu(1.0), 8_000).broken


@pytest.mark.slow
def test_correct_noise_raises_no_alarm_in_a_thousand_audits() -> None:
    for _ in range(500):
        assert not pair(laplace, Epsilon(1.0), 100_000).broken
        assert not pair(normal, Mu(1.0), 100_000).broken


def test_false_alarms_stay_below_alpha_even_when_the_claim_is_exact_and_alpha_large() -> None:
    alarms = sum(pair(laplace, Epsilon(1.0), 4_000, alpha=0.2).broken for _ in range(150))
    assert alarms <= 150 * 0.2


def test_the_bound_comes_close_to_the_truth() -> None:
    assert 0.97 < pair(laplace, Epsilon(1.0), 1_000_000).shown <= 1.0
    assert 0.97 < pair(normal, Mu(1.0), 1_000_000).shown <= 1.0


def test_laplace_noise_two_per_cent_too_narrow_is_proved_by_four_million_samples() -> None:
    narrow = MILLION * Fraction(98, 100)
    bound = pair(partial(laplace, scale=narrow), Epsilon(1.0), 4_000_000)
    assert bound.broken, bound
    assert bound.shown < 1 / 0.98


def test_gaussian_noise_four_per_cent_too_narrow_is_proved() -> None:
    bound = pair(partial(normal, sigma=MILLION * Fraction(96, 100)), Mu(1.0), 1_500_000)
    assert bound.broken, bound
    assert bound.shown < 1 / 0.96


def test_narrow_mechanisms_are_caught_by_their_width_and_by_sampling() -> None:
    narrow = NarrowLaplace(10**6, MILLION, narrower=Fraction(9, 10))
    checks = {check.name: check for check in probe(narrow, Effort(samples=400_000))}
    assert not checks["noise width"].ok
    assert not checks["sampling, one entry moved"].ok
    slim = NarrowGaussian(10**6, MILLION, narrower=Fraction(9, 10))
    assert [check.ok for check in probe(slim, Effort(samples=400_000))] == [False, False]


def test_keys_that_a_unit_lifts_over_the_least_number_are_sampled() -> None:
    def appear(kind: type[KeyThreshold]) -> bool:
        found = {check.name: check.ok for check in probe(kind(2, Fraction(4), Fraction(1, 1000), 9), Effort(samples=1))}
        return found["sampling, keys of one unit appear"]

    assert appear(KeyThreshold)
    assert not appear(LooksAtMoreForNothing)


def test_two_per_cent_is_seen_at_once_in_the_window() -> None:
    verdict = audit(NarrowLaplace(10**6, MILLION), samples=2_000)
    assert not verdict.ok
    assert "noise width" in verdict.findings[0]


def test_an_approximate_claim_needs_its_delta() -> None:
    sigma = Fraction(10**6)
    delta = delta_of(1.0, 1.0)
    assert not pair(partial(normal, sigma=sigma), Epsilon(1.0, delta), 400_000).broken
    assert pair(partial(normal, sigma=sigma), Epsilon(1.0, delta / 2), 400_000).broken
    assert pair(partial(normal, sigma=sigma), Epsilon(1.0), 400_000).broken


def test_noise_added_in_floating_point_gives_itself_away() -> None:
    draw = np.random.default_rng(5).laplace
    bound = certify(lambda n: draw(0, 1, n), lambda n: 1 + draw(0, 1, n), Epsilon(1.0), samples=20_000)
    assert bound.broken
    assert "lowest set bit" in bound.event


def test_not_a_number_as_an_answer_is_an_event_too() -> None:
    draw = np.random.default_rng(6).normal
    leaky = lambda n: np.where(draw(0, 1, n) > 1, np.nan, 0.0)  # noqa: E731
    assert certify(leaky, lambda n: np.zeros(n), Mu(1.5), samples=20_000).broken


def spread(centre: NDArray[np.int64]) -> Batch:
    return lambda size: centre + NOISE.laplace_array(MILLION, 4 * size).reshape(size, 4)


def test_vectors_moved_in_many_coordinates_are_told_apart() -> None:
    move = np.array([1, -1, 1, -1]) * 250_000
    still, moved = spread(0 * move), spread(move)
    bound = certify(still, moved, Epsilon(0.5), samples=400_000)
    assert bound.broken, bound
    assert not certify(still, moved, Epsilon(1.0), samples=400_000).broken


def sparse(variant: SparseVector, samples: int) -> Bound:
    generator = np.random.default_rng(7)
    sides = [partial(_sample, variant, values, generator) for values in (variant.first, variant.second)]
    return certify(sides[0], sides[1], Epsilon(variant.epsilon), samples=samples)


def _sample(
    variant: SparseVector, values: tuple[int, ...], generator: np.random.Generator, size: int
) -> NDArray[np.int64]:
    return variant.sample(values, size, generator)


@pytest.mark.parametrize("variant", BROKEN, ids=lambda variant: str(variant.name))
def test_the_four_published_broken_sparse_vectors_are_caught(variant: SparseVector) -> None:
    bound = sparse(variant, 1_000_000)
    assert bound.broken, bound


def test_the_sound_sparse_vector_is_not() -> None:
    assert not sparse(SOUND, 400_000).broken


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(InvalidTask, match="at least 100"):
        certify(laplace(0), laplace(1), Epsilon(1.0), samples=10)


def test_a_verdict_reads_as_sentences() -> None:
    text = str(audit(Laplace(2, Fraction(4)), samples=4_000))
    assert "no violation found" in text
    assert "claimed epsilon 0.5; 4,000 samples a side prove" in text
    assert "mu 0.5" in str(audit(Gaussian(2, Fraction(4)), samples=4_000))
