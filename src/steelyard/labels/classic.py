"""The textbook label mechanisms as exact tables: randomized response, with a prior, debiased, and two outputs.

Each has two weights per column, low and high = 2**62 - (m - 1) low, with low rounded up so that high <= e^epsilon low
in integers. RRWithPrior is of Ghazi et al., "Deep learning with label differential privacy" (2021); the two-point
mechanism of Duchi, Jordan and Wainwright (2013). The law: rounding always goes towards more privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from steelyard.errors import InvalidTask

from .exact import BITS, growth_below, places, read_epsilon, read_inputs, read_prior
from .mechanism import Column, FiniteMechanism


def response_weights(epsilon: Fraction, size: int) -> tuple[int, int]:
    """The weights (low, high) of randomized response over ``size`` outputs; high + (size - 1) low = 2**62."""
    low = math.ceil((1 << BITS) / (growth_below(epsilon) + size - 1))
    return low, (1 << BITS) - (size - 1) * low


def randomized_response(inputs: Iterable[Any], epsilon: Any) -> FiniteMechanism:
    """Tell the true label with weight e^epsilon against one for each other label.

    *Privacy:* pure epsilon. *Accuracy:* biased towards the middle; ``debiased_response`` is not.
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    low, high = response_weights(level, len(labels))
    columns = tuple(_peak(z, [j], len(labels), low, high) for j, z in enumerate(labels))
    return FiniteMechanism(labels, level, columns, unbiased=False)


def debiased_response(inputs: Iterable[Any], epsilon: Any) -> FiniteMechanism:
    """Randomized response whose outputs are moved so that every label comes out right on average, exactly.

    *Accuracy:* unbiased, but the variance grows with the square of the number of labels.
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    low, high = response_weights(level, len(labels))
    outputs = [y * (1 << BITS) - low * sum(labels) for y in labels]
    columns = tuple(_peak(z / (high - low), [j], len(labels), low, high) for j, z in enumerate(outputs))
    return FiniteMechanism(labels, level, columns, unbiased=True)


def response_with_prior(
    inputs: Iterable[Any], prior: Iterable[Any], epsilon: Any, top: int | None = None
) -> FiniteMechanism:
    """Randomized response on the ``top`` most likely labels only (RRTop-k); any other label answers at random.

    Without ``top`` the number that tells the truth most often is chosen (RRWithPrior).
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    masses = read_prior(prior, len(labels))
    ranked = sorted(range(len(labels)), key=lambda i: (-masses[i], i))
    size = _best_top(sorted(masses, reverse=True), growth_below(level)) if top is None else top
    if not 1 <= size <= len(labels):
        raise InvalidTask(f"top must lie between 1 and the {len(labels)} labels; got {top}.")
    low, high = response_weights(level, size)
    base, left_over = divmod(1 << BITS, size)
    kept = sorted(ranked[:size])
    columns = []
    for number, j in enumerate(kept):
        weights = [base + (number < left_over)] * len(labels)
        for i in kept:
            weights[i] = high if i == j else low
        columns.append(Column.of(labels[j], weights))
    return FiniteMechanism(labels, level, tuple(columns), unbiased=False)


def _best_top(masses: list[int], growth: Fraction) -> int:
    """The k that maximizes e^epsilon/(e^epsilon + k - 1) times the mass of the k most likely labels."""
    best, found, covered = Fraction(-1), 1, 0
    for size, mass in enumerate(masses, 1):
        covered += mass
        chance = covered / (growth + size - 1)
        if chance > best:
            best, found = chance, size
    return found


def two_point(inputs: Iterable[Any], epsilon: Any) -> FiniteMechanism:
    """Two outputs far apart, the upper one the likelier the larger the label: unbiased, needs no prior.

    *Accuracy:* variance c^2 - t^2 on labels scaled to t in [-1, 1], c = (E + 1)/(E - 1); exactly unbiased. Labels
    must lie on a lattice (a common step) that is not absurdly fine.
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    return FiniteMechanism(labels, level, two_point_columns(labels, level, 1 << BITS), unbiased=True)


def two_point_columns(labels: tuple[Fraction, ...], epsilon: Fraction, total: int) -> tuple[Column, Column]:
    """The two outputs with rows of sum ``total``, an even number (an odd one would cost half a weight of ratio)."""
    where, _ = places(labels)
    growth = growth_below(epsilon)
    rise = math.floor(total * (growth - 1) / (growth + 1) / where[-1]) // 2 * 2
    if rise * where[-1] < total * (growth - 1) / (growth + 1) * (1 - Fraction(1, 2**16)):
        raise InvalidTask("the labels share no common step coarse enough for whole weights; round them first.")
    lowest = (total - rise * where[-1]) // 2
    upper = [lowest + rise * place for place in where]
    step = (labels[-1] - labels[0]) / (rise * where[-1])
    return (
        Column.of(labels[0] - lowest * step, [total - weight for weight in upper]),
        Column.of(labels[0] + (total - lowest) * step, upper),
    )


def _peak(output: Fraction, rows: list[int], size: int, low: int, high: int) -> Column:
    weights = [low] * size
    for row in rows:
        weights[row] = high
    return Column.of(output, weights)
