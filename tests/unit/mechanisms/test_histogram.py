"""Histograms: the distance one unit can move the counts, by trying every small table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

import pytest

from steelyard.errors import InvalidTask, OurBug
from steelyard.mechanisms import Gaussian, Laplace, NoisyCounts
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours

BINS = 4
Counts = tuple[int, ...]


def one_bin(units: tuple[int, ...]) -> Counts:
    return tuple(sum(bin_ == unit for unit in units) for bin_ in range(BINS))


def two_bins(units: tuple[int, ...]) -> Counts:
    """The twin: a unit also stands in the next bin."""
    return tuple(sum(bin_ in (unit, (unit + 1) % BINS) for unit in units) for bin_ in range(BINS))


def neighbours(relation: Neighbours) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for units in product(range(BINS), repeat=3):
        if relation is Neighbours.ADD_REMOVE:
            yield units, units[:-1]
        else:
            yield from ((units, (*units[:-1], other)) for other in range(BINS))


def farthest(count: Callable[[tuple[int, ...]], Counts], relation: Neighbours) -> tuple[int, int]:
    """The largest L1 and squared L2 distances between neighbours' counts."""
    moves = [
        [a - b for a, b in zip(count(first), count(second), strict=True)] for first, second in neighbours(relation)
    ]
    return max(sum(map(abs, m)) for m in moves), max(sum(x * x for x in m) for m in moves)


@pytest.mark.parametrize("relation", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
def test_the_declared_distances_are_the_true_ones(relation: Neighbours) -> None:
    l1, squared_l2 = farthest(one_bin, relation)
    laplace = NoisyCounts.laplace(BINS, Fraction(2), relation).mechanism
    gaussian = NoisyCounts.gaussian(BINS, Fraction(2), relation).mechanism
    assert isinstance(laplace, Laplace)
    assert isinstance(gaussian, Gaussian)
    assert (laplace.sensitivity, gaussian.square) == (l1, squared_l2)


@pytest.mark.parametrize("relation", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
def test_units_that_stand_in_two_bins_are_caught(relation: Neighbours) -> None:
    mechanism = NoisyCounts.laplace(BINS, Fraction(2), relation).mechanism
    assert farthest(two_bins, relation)[0] > (mechanism.sensitivity or 0)


def test_a_replace_histogram_at_the_add_remove_distance_cannot_be_made() -> None:
    with pytest.raises(OurBug):
        NoisyCounts(4, Laplace(1, Fraction(2), Neighbours.REPLACE))
    with pytest.raises(OurBug):
        NoisyCounts(4, Gaussian(None, Fraction(2), Neighbours.ADD_REMOVE, squared_sensitivity=2))
    with pytest.raises(InvalidTask):
        NoisyCounts.laplace(0, Fraction(2))


def test_counts_come_back_near_the_truth_and_in_order() -> None:
    released = NoisyCounts.laplace(3, Fraction(1, 4)).release([10, 2000, 300_000], TestNoise(1))
    assert all(abs(a - b) < 10 for a, b in zip(released, [10, 2000, 300_000], strict=True))
    with pytest.raises(OurBug):
        NoisyCounts.laplace(3, Fraction(1)).release([1, 2], TestNoise(1))
