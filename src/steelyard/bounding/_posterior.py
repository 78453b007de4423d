"""Which tail of totals a noisy histogram speaks for, and the cap that serves all plausible tails best.

A hypothesis is an edge of the grid, the number of users above it, and how survival falls beyond: exp(-a (e^(cy)-1)/c)
per half octave y, from Pareto (c = 0) over about lognormal to exponential. Each is weighed by the likelihood of the
noisy counts beyond the window's start. A cap's loss under a hypothesis is its exact expected error over the smallest
one, to the power 5/4; the cap with the least mean loss wins. Weak data leave the weights wide and the cap low.
What must not change: everything here reads the noisy counts and public numbers only, so it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steelyard.accounting import normal_tail
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._laws import Floats, mean_error

_COUNTS = 2 * 1.15 ** np.arange(29)
_FALLS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 2.0, 4.0])
_BENDS = np.array([0.0, 0.05, 0.1, 0.2, 0.35])
_WINDOW = 70.0
_SLACK = 0.2
_POWER = 1.25
_GAP = 0.6
_BOUNDED = 40.0
_OUTLIER = 8.0
_SURE = {"laplace": 10.0, "gaussian": 6.0}
_MANY = 5.0
_SHARP = 0.9
_DRAWS = 1024
_STRIDE = 633
_NEGLIGIBLE = 1e-7
_LEAST = 1e-3
_FINE = 8


@dataclass(frozen=True)
class CapSetting:
    """The public facts of a choice: the grid, how the counts were noised, and what the sum has left."""

    grid: CapGrid
    count_law: str
    count_level: float
    sum_law: str
    sum_level: float


@dataclass(frozen=True)
class TailWeights:
    """Posterior weights: a row for each edge from ``start`` on (-1 is below the grid), a column for each tail.

    ``nobody`` is the weight of there being nobody above the listed edges, and ``full`` the last bin that is sure to
    hold many more users than a good cap cuts.
    """

    start: int
    full: int
    values: Floats
    nobody: float


class Posterior:
    """The tables of one setting; ``chosen(counts)`` is a pure function of the noisy counts."""

    def __init__(self, setting: CapSetting) -> None:
        self.setting = setting
        self.grid, self.level = setting.grid, setting.count_level
        self.caps = np.array(self.grid.caps, dtype=float)
        users, falls, bends = np.meshgrid(_COUNTS, _FALLS, _BENDS, indexing="ij")
        self.users, self.falls, self.bends = users.ravel(), falls.ravel()[:, None], bends.ravel()[:, None]
        self.last = self.grid.slots
        alive = self._survival(np.arange(self.last + 3.0))
        self.beyond = self.users[:, None] * alive[:, :-1]
        self.masses = self.beyond - self.users[:, None] * alive[:, 1:]
        self.variance = _variance(setting.count_law, self.level)
        self.precision, self.end_precision = self._sharpness(self.masses), self._sharpness(self.beyond)
        self.log_precision, self.log_end_precision = np.log(self.precision), np.log(self.end_precision)
        self.calm = float(self._sharpness(np.zeros(1))[0])
        self.overshoot = self._overshoot()
        self._losses: dict[int, NDArray[np.float32]] = {}

    def chosen(self, counts: Floats) -> int:
        """Weigh every tail by the noisy counts, then every cap by the tails; the best cap's index."""
        wide, real = self.grid.spread(counts)
        weights = self.weigh(wide, real)
        if self.level < _SHARP:
            return self._least(self._mean_loss(weights), weights.full)
        return self._least(self._drawn_loss(self._drawn_bias(wide, real, weights), weights.full), weights.full)

    def chosen_for_both(self, above: Floats, below: Floats) -> int:
        """The same for signed totals: counts of positive and of negative totals, one cap for both magnitudes."""
        sides, full = [], []
        for counts in (above, below):
            wide, real = self.grid.spread(counts)
            weights = self.weigh(wide, real)
            sides.append(self._drawn_bias(wide, real, weights))
            full.append(weights.full)
        mixed = (np.arange(_DRAWS) * _STRIDE) % _DRAWS
        return self._least(self._drawn_loss(np.abs(sides[0] - sides[1][mixed]), max(full)), max(full))

    def _drawn_loss(self, bias: Floats, full: int) -> Floats:
        error = mean_error(bias, self.caps, self.setting.sum_level, self.setting.sum_law)
        allowed = np.where(self._too_low(full), np.inf, error)
        ratio = allowed / np.maximum(allowed.min(axis=1, keepdims=True), np.finfo(float).tiny)
        return np.asarray((ratio ** (1.0 if self.level >= _SHARP else _POWER)).mean(axis=0))

    def _least(self, loss: Floats, full: int) -> int:
        return int(np.where(self._too_low(full), np.inf, loss).argmin())

    def _too_low(self, full: int) -> NDArray[np.bool_]:
        """Caps that would cut into the last full bin."""
        return self.caps < (self.grid.slot_tops[full] if full >= 0 else 0)

    def weigh(self, wide: Floats, real: Floats) -> TailWeights:
        """The posterior weights of every tail at every edge; bins without an integer say nothing."""
        signal = self.level * wide
        above = np.cumsum(signal[::-1])[::-1]
        inside = np.flatnonzero(above <= _WINDOW)
        start = int(inside[0]) - 1 if inside.size else self.last
        full = self._last_full(signal, start)
        empty = real * (np.minimum(self._misfit(signal * self.calm), _OUTLIER) - math.log(self.calm))
        skipped = np.concatenate([[0.0], np.cumsum(empty[start + 1 :])])
        rows = [self._fit(signal[at + 1 :], real[at + 1 :]) - skipped[at - start] for at in self._from(start)]
        gaps = np.maximum(np.arange(len(rows)) + start - full, 0)[:, None] * (_GAP if full >= 0 else 0.0)
        logs = np.array(rows).reshape(-1, self.users.size) + np.log(self.users) - gaps
        nobody = self._log_prior_of_nobody(full) - float(skipped[-1])
        most = max(float(logs.max(initial=-np.inf)), nobody)
        values, none = np.exp(logs - most), math.exp(nobody - most)
        total = float(values.sum()) + none
        return TailWeights(start, full, values / total, none / total)

    def _last_full(self, signal: Floats, start: int) -> int:
        """Climb from the start to each bin whose count no noise explains; the further off, the more it takes."""
        needed = max(_SURE[self.setting.count_law], _MANY * self.level / self.setting.sum_level)
        full = start
        for place in range(start + 1, self.last + 1):
            if signal[place] > needed + _GAP * (place - full):
                full = place
        return full

    def _log_prior_of_nobody(self, full: int) -> float:
        """What the list of counts leaves below its smallest one, forty times over: bounded totals are common."""
        if full < 0:
            return -math.inf
        shapes, ratio = self.users.size / _COUNTS.size, float(_COUNTS[1] / _COUNTS[0])
        edges = np.exp(-_GAP * np.arange(max(1, self.last - full))).sum()
        return math.log(_BOUNDED * shapes * float(_COUNTS[0]) / (ratio - 1) * float(edges))

    def _from(self, start: int) -> range:
        return range(start, self.last)

    def _fit(self, signal: Floats, real: Floats) -> Floats:
        """The log likelihood of the bins beyond an edge; all that lies beyond the last edge is in the last bin."""
        end = signal.size - 1
        gaps = (signal[:end] - self.masses[:, :end]) * self.precision[:, :end]
        last = (signal[end] - self.beyond[:, end]) * self.end_precision[:, end]
        inside = (self.log_precision[:, :end] - self._misfit(gaps)) @ real[:end]
        return np.asarray(inside + (self.log_end_precision[:, end] - self._misfit(last)) * real[end])

    def _misfit(self, gaps: Floats) -> Floats:
        return np.abs(gaps) if self.setting.count_law == "laplace" else gaps * gaps / 2

    def _sharpness(self, masses: Floats) -> Floats:
        """How sharply a bin's count is predicted: noise, sampling, and a fifth of slack for a wrong shape."""
        spread = self.level**2 * self.variance + masses * self.level + (_SLACK * masses) ** 2
        return np.asarray(np.sqrt((2.0 if self.setting.count_law == "laplace" else 1.0) / spread))

    def _survival(self, steps: Floats) -> Floats:
        grown = np.expm1(np.minimum(self.bends * steps, 50.0))
        bent = grown / np.where(self.bends > 0, self.bends, 1.0)
        return np.asarray(np.exp(-self.falls * np.where(self.bends > 0, bent, steps)))

    def _mean_loss(self, weights: TailWeights) -> Floats:
        least = max(1, self.grid.slot_tops[max(weights.full, 0)])
        total = np.asarray(weights.nobody * (self.caps / least) ** _POWER)
        for at, row in zip(self._from(weights.start), weights.values, strict=True):
            if row.sum() > _NEGLIGIBLE:
                total += row @ self._loss(at)
        return total

    def _loss(self, at: int) -> NDArray[np.float32]:
        if at not in self._losses:
            bias = self._tail_bias(at)
            error = mean_error(bias, self.caps, self.setting.sum_level, self.setting.sum_law)
            ratio = error / np.maximum(error.min(axis=1, keepdims=True), np.finfo(float).tiny)
            self._losses[at] = np.minimum(ratio**_POWER, np.finfo(np.float32).max).astype(np.float32)
        return self._losses[at]

    def _tail_bias(self, at: int) -> Floats:
        """What each cap loses under each tail that starts at edge ``at``; fewer than half a user is nobody."""
        steps = np.arange((self.last - at) * _FINE + 1) / _FINE
        totals = self.grid.upper * 2.0 ** ((steps - (self.last - at)) / 2)
        people = (self.users / self.level)[:, None] * self._survival(steps)
        people[people < 0.5] = 0.0
        pieces = (people[:, 1:] + people[:, :-1]) / 2 * np.diff(totals)
        beyond = np.concatenate([np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1], np.zeros((people.shape[0], 1))], axis=1)
        place = np.clip(np.searchsorted(totals, self.caps, side="right") - 1, 0, totals.size - 2)
        share = np.clip((self.caps - totals[place]) / (totals[place + 1] - totals[place]), 0.0, 1.0)
        inside = beyond[:, place] * (1 - share) + beyond[:, place + 1] * share
        return np.asarray(inside + (self.users / self.level)[:, None] * np.maximum(totals[0] - self.caps, 0.0))

    def _drawn_bias(self, wide: Floats, real: Floats, weights: TailWeights) -> Floats:
        """What each cap loses under evenly spaced draws from the posterior, each corrected by the noisy counts."""
        pile = np.cumsum(weights.values)
        drawn = np.searchsorted(pile, (np.arange(_DRAWS) + 0.5) / _DRAWS)
        nobody = drawn >= pile.size
        row, tail = np.divmod(np.where(nobody, 0, drawn), self.users.size)
        place = np.arange(self.last + 1) - (row + weights.start + 1)[:, None]
        people = np.where(place >= 0, self.masses[tail[:, None], np.maximum(place, 0)], 0.0) / self.level
        people[:, -1] = self.beyond[tail, np.maximum(place[:, -1], 0)] / self.level
        people[nobody] = 0.0
        doubt = people + (_SLACK * people) ** 2
        trust = doubt / (doubt + self.variance)
        beyond = np.cumsum(people[:, ::-1], axis=1)[:, ::-1]
        users = np.where(beyond >= 0.5, people, 0.0) + trust * (wide - people)
        users[:, : weights.full + 1] = wide[: weights.full + 1]
        return np.asarray((np.maximum(users, 0.0) * real) @ self.overshoot)

    def _overshoot(self) -> Floats:
        """The mean of max(0, x - cap) for x log-uniform in each bin."""
        tops = self.grid.upper * 2.0 ** ((np.arange(self.last + 1) - self.last) / 2)
        inside = tops[:, None] * 2.0 ** (-(np.arange(32) + 0.5) / 64)
        return np.asarray(np.maximum(inside[:, None, :] - self.caps[:, None], 0.0).mean(axis=2))


@lru_cache(maxsize=4)
def posterior(setting: CapSetting) -> Posterior:
    """The tables of a setting, made once."""
    return Posterior(setting)


def _variance(law: str, level: float) -> float:
    """The variance of one count's noise: discrete Laplace at epsilon, or a rounded normal at mu."""
    if law == "laplace":
        fall = math.exp(-level)
        return max(2 * fall / (1 - fall) ** 2, _LEAST)
    if level < 1:
        return 1 / level**2 + 1 / 12
    beyond = (2 * normal_tail((k - 0.5) * level) * (2 * k - 1) for k in range(1, 12))
    return max(sum(beyond), _LEAST)
