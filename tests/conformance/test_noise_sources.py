"""One suite for every source of noise."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from steelyard.errors import InsecureNoise, InvalidTask
from steelyard.noise import ExactNoise, Noise, TestNoise
from unit.noise.exactly import p_value
from unit.noise.opendp_noise import OpenDPNoise, float_above

SOURCES: list[Callable[[], Noise]] = [ExactNoise, TestNoise, OpenDPNoise]


@pytest.fixture(params=SOURCES, ids=lambda source: source.__name__)
def noise(request: pytest.FixtureRequest) -> Noise:
    made: Noise = request.param()
    return made


def has_normal(noise: Noise) -> bool:
    return not isinstance(noise, OpenDPNoise)


def test_a_source_says_its_name_and_whether_it_may_be_trusted(noise: Noise) -> None:
    assert isinstance(noise, Noise)
    assert noise.name
    assert noise.secure is not isinstance(noise, TestNoise)


@pytest.mark.parametrize("size", [0, 1, 5, 8, 9, 100])
def test_as_many_python_integers_come_as_were_asked_for(noise: Noise, size: int) -> None:
    draws = noise.laplace(Fraction(10, 3), size)
    if has_normal(noise):
        draws += noise.normal(Fraction(10, 3), size)
    assert len(draws) == size * (2 if has_normal(noise) else 1)
    assert all(type(draw) is int for draw in draws)


def test_arrays_are_int64(noise: Noise) -> None:
    assert noise.laplace_array(Fraction(5), 7).dtype == np.int64
    if has_normal(noise):
        assert noise.normal_array(Fraction(5), 7).dtype == np.int64


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 3), Fraction(10**6)], ids=str)
def test_laplace_noise_follows_its_law(noise: Noise, scale: Fraction) -> None:
    runs = (p_value(noise.laplace_array(scale, 10_000), "laplace", float(scale)) for _ in range(2))
    assert any(p > 1e-4 for p in runs)


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(7, 3), Fraction(10**6)], ids=str)
def test_normal_noise_follows_its_law_or_is_refused(noise: Noise, sigma: Fraction) -> None:
    if not has_normal(noise):
        with pytest.raises(InsecureNoise, match="discrete Gaussian"):
            noise.normal(sigma, 1)
        with pytest.raises(InsecureNoise, match="discrete Gaussian"):
            noise.normal_array(sigma, 1)
        return
    runs = (p_value(noise.normal_array(sigma, 10_000), "normal", float(sigma)) for _ in range(2))
    assert any(p > 1e-4 for p in runs)


def test_uniform_draws_stay_below_their_bound(noise: Noise) -> None:
    assert {noise.below(3) for _ in range(200)} == {0, 1, 2}
    assert noise.below(1) == 0
    assert 0 <= noise.below(10**40) < 10**40


def test_bits_are_words(noise: Noise) -> None:
    words = noise.bits(1000)
    assert words.dtype == np.uint64
    assert len(set(words.tolist())) == 1000
    assert 300 < int((words & np.uint64(1)).sum()) < 700


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), 0.5, True])
def test_a_scale_that_is_not_exact_and_positive_is_refused(noise: Noise, scale: Fraction) -> None:
    with pytest.raises(InvalidTask):
        noise.laplace(scale, 1)


def test_a_negative_size_is_refused(noise: Noise) -> None:
    with pytest.raises(InvalidTask):
        noise.laplace(Fraction(1), -1)


def test_arrays_refuse_scales_that_need_python_integers(noise: Noise) -> None:
    with pytest.raises(InvalidTask, match="Python integers"):
        noise.laplace_array(Fraction(1 << 48), 1)


def test_two_draws_are_not_the_same(noise: Noise) -> None:
    assert noise.laplace(Fraction(10**9), 4) != noise.laplace(Fraction(10**9), 4)


@pytest.mark.parametrize("source", [ExactNoise, TestNoise])
def test_scales_of_any_size_are_drawn_exactly(source: Callable[[], Noise]) -> None:
    noise = source()
    huge = Fraction(10**60, 7)
    for draws in (noise.laplace(huge, 400), noise.normal(huge, 400)):
        assert sum(abs(draw) for draw in draws) / 400 / float(huge) == pytest.approx(0.9, abs=0.3)
        assert {draw % 2 for draw in draws} == {0, 1}  # the last digit of a huge draw is drawn too
    assert set(noise.laplace(Fraction(1, 10**60), 100) + noise.normal(Fraction(1, 10**60), 100)) == {0}


@pytest.mark.parametrize("source", [ExactNoise, TestNoise])
def test_few_and_many_draws_share_one_law(source: Callable[[], Noise]) -> None:
    noise = source()
    few = np.array([draw for _ in range(1000) for draw in noise.laplace(Fraction(20), 8)])
    assert p_value(few, "laplace", 20.0) > 1e-5


def test_test_noise_repeats_itself_and_its_seeds_differ() -> None:
    def story(noise: Noise) -> list[int]:
        return [*noise.laplace(Fraction(100), 30), *noise.normal(Fraction(100), 3), noise.below(1000)]

    assert story(TestNoise(3)) == story(TestNoise(3)) != story(TestNoise(4))
    assert TestNoise.__test__ is False


def test_the_exact_source_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(ExactNoise())).secure  # noqa: S301 - our own bytes


def test_opendp_scales_are_never_rounded_down() -> None:
    for scale in (Fraction(1, 3), Fraction(2, 3), Fraction(10**6, 7), Fraction(1)):
        assert Fraction(float_above(scale)) >= scale
    assert float_above(Fraction(1)) == 1.0
