"""The audit's window opens on insecure noise only."""

from __future__ import annotations

from fractions import Fraction
from threading import Thread
from typing import Any

import pytest

from steelyard.mechanisms import AboveThreshold, Exponential, Finite, Gaussian, Laplace, LaplacePath, NoisyCounts
from steelyard.mechanisms._observe import observing
from steelyard.noise import ExactNoise, Noise, TestNoise
from steelyard.privacy import Event

LAPLACE = Laplace(1, Fraction(3))


def everything(noise: Noise) -> list[Event]:
    """Run every mechanism once and say which events must have been seen, in order."""
    gaussian, histogram = Gaussian(1, Fraction(3)), NoisyCounts.laplace(2, Fraction(3))
    threshold, choice = AboveThreshold(1, Fraction(3), Fraction(3)), Exponential(Fraction(1), 1)
    table, path = Finite(((2, 1), (1, 2))), LaplacePath(1, (Fraction(3), Fraction(2)))
    LAPLACE.release([1], noise)
    gaussian.release([1], noise)
    histogram.release([1, 2], noise)
    threshold.start(0, noise).above(1)
    choice.choose([1, 2], noise)
    table.release([0], noise)
    path.refine([1], path.release([1], noise), 1, noise)
    before_path = [m.event for m in (LAPLACE, gaussian, histogram, threshold, choice, table)]
    return [*before_path, path.event_at(0), path.event]


def test_the_audit_sees_every_mechanism_on_test_noise() -> None:
    with observing() as seen:
        events = everything(TestNoise(1))
    assert [one.event for one in seen] == events
    assert seen[2].values == (1, 2)


def test_a_real_release_can_never_be_tapped() -> None:
    with observing() as seen:
        everything(ExactNoise())
    assert seen == []


@pytest.mark.parametrize("secure", [True, None, 0, "no"])
def test_only_a_plain_false_opens_the_window(secure: Any) -> None:
    noise: Any = TestNoise(1)
    noise.secure = secure
    with observing() as seen:
        LAPLACE.release([1], noise)
    assert seen == []


def test_the_window_closes_and_windows_nest() -> None:
    with observing() as outer:
        with observing() as inner:
            LAPLACE.release([1], TestNoise(1))
        LAPLACE.release([2], TestNoise(1))
    LAPLACE.release([3], TestNoise(1))
    assert [one.values for one in inner] == [(1,)]
    assert [one.values for one in outer] == [(2,)]


def test_another_thread_is_another_room() -> None:
    with observing() as seen:
        thread = Thread(target=LAPLACE.release, args=([1], TestNoise(1)))
        thread.start()
        thread.join()
    assert seen == []
