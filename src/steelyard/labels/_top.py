"""Randomized response among each record's own most likely classes, and the label vectors that its answers stand for.

A record's prior is public or follows from what was released before, and owes nothing to its own label (RRWithPrior in stages:
Ghazi et al., "Deep learning with label differential privacy", 2021). A label outside its record's classes answers at random
among them; what the prior said of such labels is put back into the vector. docs/proofs/label_classes.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.labels._baselines import uniform
from steelyard.labels._classes import event_of
from steelyard.labels._mechanism import growth_below, read_epsilon
from steelyard.mechanisms import show
from steelyard.noise import Noise
from steelyard.privacy import Event

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_WORD = 1 << 64


def share_of(epsilon: Fraction, top: int) -> int:
    """The words of 2^64 that tell the truth among ``top`` classes, rounded towards more privacy."""
    growth = growth_below(epsilon)
    return math.floor(_WORD * growth / (growth + top - 1))


@dataclass(frozen=True)
class TopSampler:
    """One mechanism for each record: the classes in the order of its prior, and how many of them are answered with."""

    epsilon: Fraction
    prior: Floats
    order: Ints
    tops: Ints

    @classmethod
    def of(cls, prior: Floats, epsilon: Any, least: int = 1) -> TopSampler:
        """For each record as many classes as tell the truth most often, and no fewer than ``least``."""
        level = read_epsilon(epsilon)
        order = np.argsort(-prior, axis=1, kind="stable")
        covered = np.cumsum(np.take_along_axis(prior, order, axis=1), axis=1)
        truth = covered / (float(growth_below(level)) + np.arange(prior.shape[1]))
        tops = np.maximum(np.argmax(truth, axis=1) + 1, min(least, prior.shape[1]))
        return cls(level, prior, order, tops)

    @property
    def event(self) -> Event:
        """What a pass is charged for: the dearest record, which no record of any prior is above."""
        return top_event(self.epsilon)

    def draw(self, labels: Any, noise: Noise) -> Ints:
        """The class that each record answers with. *Privacy:* as ``event`` says; total, and words owe nothing to labels."""
        places = np.clip(np.asarray(labels).astype(np.int64), 0, self.prior.shape[1] - 1)
        if not noise.secure:
            show(self.event, places.tolist(), noise)
        found = np.empty(len(places), dtype=np.int64)
        for top in np.unique(self.tops).tolist():
            here = np.flatnonzero(self.tops == top)
            found[here] = self._answers(top, self.order[here, :top], places[here], noise)
        return found

    def _answers(self, top: int, known: Ints, places: Ints, noise: Noise) -> Ints:
        size, rows = len(places), np.arange(len(places))
        if top == 1:
            return known[:, 0]
        honest = noise.bits(size) < np.uint64(share_of(self.epsilon, top))
        other, any_ = uniform(top - 1, size, noise), uniform(top, size, noise)
        among = known == places[:, None]
        own = np.argmax(among, axis=1)
        told = np.where(honest, own, other + (other >= own))
        return np.asarray(known[rows, np.where(among.any(axis=1), told, any_)])

    def vectors(self, drawn: Ints) -> Floats:
        """Label vectors: no bias for labels among a record's classes, and the prior's word for the others."""
        size, rows = self.prior.shape[1], np.arange(len(drawn))
        out = np.where(np.arange(size) < self.tops[:, None], 0.0, 1.0)
        outside = np.empty_like(self.prior)
        outside[rows[:, None], self.order] = out
        own = np.array([share_of(self.epsilon, top) / _WORD if top > 1 else 1.0 for top in range(1, size + 1)])
        told = own[self.tops - 1]
        other = np.where(self.tops > 1, (1 - told) / np.maximum(self.tops - 1, 1), 0.0)
        vector = -(other / (told - other))[:, None] * (1 - outside)
        vector[rows, drawn] += 1 / (told - other)
        lost = (self.prior * outside).sum(axis=1, keepdims=True)
        return np.asarray(vector + self.prior * outside - (1 - outside) * lost / self.tops[:, None])


def top_event(epsilon: Fraction) -> Event:
    """What any pass of such mechanisms is charged for: e^epsilon rounded down, which no ratio of theirs exceeds."""
    return event_of(growth_below(epsilon))
