"""Near the best: which levels a ridge path visits for an excess, what is certified for nothing, and when a look is paid for.

A plan on made-up data (every eigenvalue at its public floor, where the question is hardest) says at which level the
free certificate will pass; the path starts far below it. At each level the released statistics are copied with fresh
made-up noise to guess how good the model is and what a paid look would cost, now or later. ``NearBest`` judges an excess by
the free certificate, or by a look at its root, never by a loss. Decided from public and released numbers alone.
Law: nothing here reads a row; the levels are fixed before the first of them is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steelyard.models.accuracy._certificate import Rated, RootExcess, certify, residual_square
from steelyard.models.accuracy._designs import Array, Design, Noisy, Ridge, best_weight
from steelyard.models.accuracy._family import Ending, Step, Told
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._losses import Looking, gaussian_of, looked
from steelyard.models.accuracy._quantiles import largest_eigenvalue, normal_quantile
from steelyard.privacy import MICRO

FREE = ((0.6, 0.16), (0.78, 0.2), (1.0, 0.28), (1.12, 0.1), (1.3, 0.06))
"""Levels with a free certificate: the multiple of the planned mu, and the share of their failure probability."""

BELOW, RATIO, EARLY = 14, 1.15, 0.2
"""How many stops lie below those, their ratio, and the share of the failure probability for free certificates there."""

COPIES = 10
AHEAD = 5
"""How many later stops a paid look is weighed against."""

_HOPE = 0.85  # the length of the made-up best model, as a share of its bound
_EASE = 1.0  # how many standard deviations of the check's noise a model should pass by
FLOORS = (0.0, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Failure:
    """How a question's share of the failure probability is divided among the events that its promise rests on.

    ``total`` is that share. A target rests on the size of the labels and on its looks; an excess on the size of the labels,
    which bounds the best model's length, on its free certificates and on two looks (docs/proofs/accuracy_first_paths.md).
    """

    total: float

    @property
    def label(self) -> float:
        """That the mean of y squared is above what was released."""
        return 0.05 * self.total

    @property
    def looks(self) -> float:
        """That any look of a target passes a model it should not."""
        return 0.95 * self.total

    @property
    def free(self) -> float:
        """That any free certificate is wrong."""
        return 0.5 * self.total

    def check(self, index: int) -> float:
        """That a paid look of an excess passes a model it should not."""
        return (0.35, 0.1)[index] * self.total


@dataclass(frozen=True)
class Level:
    """One stop: the path's mu in millionths, and the failure probability of its free certificate (0: none)."""

    micro: int
    failure: float = 0.0


def levels(ridge: Ridge, norm: float, alpha: float, failure: Failure) -> list[Level]:
    """The whole schedule, from public numbers and the bound on the best model's length."""
    planned = planned_mu(ridge, norm, alpha, failure.free * FREE[2][1])
    sure = sure_mu(ridge, norm, alpha, failure.free * FREE[-1][1])
    free = [planned * multiple for multiple, _ in FREE]
    free[-1] = max(free[-1], sure)
    below = [free[0] / RATIO**k for k in range(BELOW, 0, -1)]
    stops = [Level(max(1, round(mu * MICRO)), failure.free * EARLY / BELOW) for mu in below]
    stops += [Level(max(1, round(mu * MICRO)), failure.free * share) for mu, (_, share) in zip(free, FREE, strict=True)]
    return [stop for i, stop in enumerate(stops) if all(stop.micro > before.micro for before in stops[:i])]


def planned_mu(ridge: Ridge, norm: float, alpha: float, failure: float) -> float:
    """The mu at which the free certificate is expected to pass on data with no help from its features."""
    design = Design(1, ridge.width, best_weight(norm))
    draws = np.random.default_rng(1)  # made-up noise for a plan, no part of any release
    truth = np.zeros(ridge.width)
    truth[0] = _HOPE * norm
    noises = [(_symmetric(ridge.width, draws), draws.standard_normal(ridge.width)) for _ in range(5)]

    def passes(mu: float) -> bool:
        variance = design.variance(round(mu**2 * MICRO**2) or 1)
        scale = math.sqrt(variance)
        found = []
        for matrix, vector in noises:
            noisy_matrix = ridge.floor * np.eye(ridge.width) + scale * matrix
            noisy_vector = ridge.floor * truth + scale / math.sqrt(design.weight) * vector
            noisy = Noisy(noisy_matrix, noisy_vector, variance, design.weight)
            found.append(certify(ridge, noisy, norm, failure).excess)
        return float(np.median(found)) <= alpha

    return _smallest(passes)


def sure_mu(ridge: Ridge, norm: float, alpha: float, failure: float) -> float:
    """A mu at which the free certificate passes whatever the data, unless the noise is larger than it may be."""
    design = Design(1, ridge.width, best_weight(norm))
    edge = largest_eigenvalue(ridge.width, failure / 2)

    def passes(mu: float) -> bool:
        variance = design.variance(round(mu**2 * MICRO**2) or 1)
        push = math.sqrt(variance) * edge
        if push >= ridge.floor:
            return False
        noisy = Noisy(np.zeros((1, 1)), np.zeros(1), variance, design.weight)
        radius = residual_square(ridge.width, noisy, norm, failure / 2)
        return ridge.floor / (ridge.floor - push) ** 2 * radius <= 2 * ridge.n * alpha

    return _smallest(passes)


def _smallest(passes: Callable[[float], bool]) -> float:
    low, high = -16.0, 8.0  # powers of two
    for _ in range(14):  # to a thousandth
        middle = (low + high) / 2
        low, high = (low, middle) if passes(2.0**middle) else (middle, high)
    return float(2.0**high)


def _symmetric(width: int, draws: np.random.Generator) -> Array:
    square = draws.standard_normal((width, width))
    return (square + square.T) / 2


def guess(ridge: Ridge, noisy: Noisy, norm: float, variance: float) -> Rated:
    """The best of a few models and its likely excess, were the statistics measured with this variance.

    The truth is taken to be the released statistics; each copy adds fresh noise and is solved again.
    """
    values, basis = np.linalg.eigh(noisy.matrix)
    values = np.maximum(values, ridge.floor)
    likely = _shortened(basis @ (basis.T @ noisy.vector / _lifted(values, ridge, noisy.variance, 0.5)), norm)
    matrix = (basis * values) @ basis.T
    moment = matrix @ likely
    draws = np.random.default_rng(2)
    misses: list[list[float]] = [[float(likely @ moment)] * COPIES, *([] for _ in FLOORS)]
    for _ in range(COPIES):
        copy = matrix + math.sqrt(variance) * _symmetric(ridge.width, draws)
        vector = moment + math.sqrt(variance / noisy.weight) * draws.standard_normal(ridge.width)
        for i, model in enumerate(_models(ridge, copy, vector, norm, variance)):
            off = model - likely
            misses[i + 1].append(float(off @ matrix @ off))
    typical = [float(np.quantile(miss, 0.75)) / (2 * ridge.n) for miss in misses]
    best = int(np.argmin(typical))
    chosen = np.zeros(ridge.width)
    if best:
        chosen = _models(ridge, noisy.matrix, noisy.vector, norm, noisy.variance)[best - 1]
    return Rated(chosen, typical[best])


def _models(ridge: Ridge, matrix: Array, vector: Array, norm: float, variance: float) -> list[Array]:
    values, basis = np.linalg.eigh(matrix)
    seen = basis.T @ vector
    return [_shortened(basis @ (seen / _lifted(values, ridge, variance, floor)), norm) for floor in FLOORS]


def _lifted(values: Array, ridge: Ridge, variance: float, floor: float) -> Array:
    return np.maximum(values, ridge.floor + floor * math.sqrt(2 * ridge.width * variance))


def _shortened(model: Array, norm: float) -> Array:
    length = float(np.linalg.norm(model))
    return model * min(1.0, norm / length) if length > 0 else model


def look_cost(sensitivity: float, allowed: float, expected: float, failure: float) -> float:
    """The mu of a paid look that a model of this expected value should pass; infinite where it cannot."""
    room = allowed - expected
    return math.inf if room <= 0 else sensitivity * (normal_quantile(failure) + _EASE) / room


def look_now(now: float, spent: float, later: Sequence[tuple[float, float]]) -> bool:
    """Whether to pay for a look now: no later stop (its mu, the look's mu there) is expected to cost less in all."""
    return math.isfinite(now) and all(now**2 <= mu**2 - spent**2 + look**2 for mu, look in later)


class NearBest(Looking):
    """An excess over the best risk there is: the free certificate at each stop, and as many looks as ``looks`` at its root."""

    def __init__(self, goal: Goal, family: Any, failure: Failure, looks: int = 2) -> None:
        super().__init__(goal, family)
        self.failure, self.looks = failure, looks

    def measured(self, told: Told) -> None:
        """See what the statistics alone certify, where the stop has a failure probability for it."""
        super().measured(told)
        stop: Level | None = self.family.stop() if told.kind == "level" else None
        if stop is None or not stop.failure:
            return
        found = certify(self.family.ridge, self.family.noisy, self.family.norm, stop.failure)
        self.history[-1] = replace(self.history[-1], bound=found.excess)
        if found.excess <= self.goal.amount:
            self.verdict = Ending(found.model, found.excess)

    def look(self) -> Step | None:
        """A look at the root of the excess, when ending here is expected to be cheapest: one at each level at most."""
        family, count = self.family, len(self.seen)
        if not family.levels or count >= self.looks or (self.seen and self.seen[-1].level == family.levels):
            return None
        here, ask = self._here()
        failure = self.failure.check(count)
        now = look_cost(ask.sensitivity, math.sqrt(self.goal.amount), math.sqrt(here.excess), failure)
        if not look_now(now, math.sqrt(family.paid) / MICRO, self._later(now, ask.sensitivity, failure)):
            return None
        return self._once(ask, math.ceil(now * MICRO) ** 2, failure)

    def _here(self) -> tuple[Rated, RootExcess]:
        """The present model, how good it is expected to be, and the question about it."""
        family = self.family
        here = guess(family.ridge, family.noisy, family.norm, family.noisy.variance)
        return here, family.candidate(here.model)

    def _later(self, now: float, sensitivity: float, failure: float) -> list[tuple[float, float]]:
        """What ending at later stops would cost: the path's mu, and that of a look there, none where it is certified."""
        family, found = self.family, list[tuple[float, float]]()
        spent, root = math.sqrt(family.paid) / MICRO, math.sqrt(self.goal.amount)
        for index, stop in enumerate(stop for stop in family.stops if stop.micro**2 > family.paid):
            mu = stop.micro / MICRO
            if mu**2 - spent**2 > now**2:
                break
            if stop.failure >= 0.2 * self.failure.free or self._passes(stop):
                found.append((mu, 0.0))
                break
            if index < AHEAD:
                there = guess(family.ridge, family.noisy, family.norm, family.design.variance(stop.micro**2))
                found.append((mu, look_cost(sensitivity, root, math.sqrt(there.excess), failure)))
        return found

    def _passes(self, stop: Level) -> bool:
        """Whether the free certificate would pass at this stop, were the statistics as they are and only less noisy."""
        sharper = replace(self.family.noisy, variance=self.family.design.variance(stop.micro**2))
        return certify(self.family.ridge, sharper, self.family.norm, stop.failure).excess <= self.goal.amount

    def final(self, left: int) -> Step | None:
        """A look that is as sharp as the budget allows, where one may yet be made and a model as good as expected passes it."""
        family = self.family
        if not family.levels or len(self.seen) >= self.looks or left < 1:
            return None
        here, ask = self._here()
        found = self._once(ask, left, self.failure.check(len(self.seen)), alone=True)
        return found if found.facts["limit"] > math.sqrt(here.excess) / float(ask.step) else None

    def _once(self, ask: RootExcess, cost: int, failure: float, *, alone: bool = False) -> Step:
        """A look of this cost that stands for itself."""
        limit = ask.limit() - normal_quantile(failure) * float(gaussian_of(ask, cost).sigma) - 2
        return looked(ask, cost, limit, self.family.levels, alone=alone)
