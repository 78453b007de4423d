"""Labels that are classes: a random set of classes for each label, and the label vector without bias that the set stands for.

A set of d of the K classes holds the true one with chance m/2^64, and is uniform otherwise: randomized response for d = 1,
subset selection in general (Ye and Barg, "Optimal schemes for discrete distribution estimation", 2018). The d that makes
the error of the vector least is near K/(e^epsilon + 1), and no unbiased mechanism does better on all classes alike
(docs/proofs/label_classes.md). With a prior for each record, a response among its most likely classes (Ghazi et al., "Deep
learning with label differential privacy", 2021).
The law: chances are whole multiples of 2^-64 rounded towards more privacy, and how many words are read owes nothing to labels.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels._baselines import uniform
from steelyard.labels._mechanism import growth_below, read_epsilon
from steelyard.lazy import lazy
from steelyard.mechanisms import show
from steelyard.noise import Noise
from steelyard.privacy import Event, Neighbours, canonical

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST = 1024  # classes
_WORD = 1 << 64
_ENTRIES = 1 << 20  # of a chunk's table of classes


def event_of(ratio: Fraction) -> Event:
    """What a pass is charged for whose outputs are at most ``ratio`` times likelier under one label than under another."""
    return Event.of("finite", Neighbours.CHANGE_LABEL, ratio=ratio)


def check_size(size: int) -> None:
    """Refuse a number of classes that no mechanism here is made for."""
    if not 2 <= size <= MOST:
        raise InvalidTask(f"label mechanisms take from 2 to {MOST} classes; got {size}.")


@dataclass(frozen=True)
class ClassSampler:
    """A set of ``chosen`` classes out of ``size`` for each label; the true one is in it for ``share`` words of 2^64.

    *Privacy:* pure, the logarithm of ``ratio``. *Accuracy:* ``at`` gives vectors whose mean is one at the true class and zero
    at all others, exactly but for the rounding of two floats.

    >>> made = ClassSampler.of(10, 1)
    >>> made.chosen, round(made.error, 1), round(ClassSampler.of(10, 1, chosen=1).error, 1)
    (3, 29.1, 41.0)
    """

    size: int
    chosen: int
    share: int

    @classmethod
    def of(cls, size: int, epsilon: Any, *, chosen: int | None = None) -> ClassSampler:
        """The sampler of least error for so many classes; ``chosen=1`` is randomized response."""
        check_size(size)
        growth = growth_below(read_epsilon(epsilon))
        if chosen is None:
            chosen = min(range(1, size // 2 + 1), key=lambda d: (growth * d + size - d) ** 2 / (d * (size - d)))
        if not 1 <= chosen < size:
            raise InvalidTask(f"a set holds from 1 to {size - 1} of {size} classes; got {chosen}.")
        return cls(size, chosen, math.floor(_WORD * growth * chosen / (growth * chosen + size - chosen)))

    @lazy
    def ratio(self) -> Fraction:
        """How much likelier a set is under a class in it than under one that is not, exactly."""
        return Fraction(self.share * (self.size - self.chosen), (_WORD - self.share) * self.chosen)

    @lazy
    def event(self) -> Event:
        """What a pass is charged for."""
        return event_of(self.ratio)

    @lazy
    def ends(self) -> tuple[Fraction, Fraction]:
        """What a class outside the set and one inside it count in the label vector, exactly."""
        own = Fraction(self.share, _WORD)
        other = (self.chosen - own) / (self.size - 1)
        return -other / (own - other), (1 - other) / (own - other)

    @lazy
    def error(self) -> float:
        """The expected squared distance of a label vector from the true one, the same for every class."""
        low, high = self.ends
        return float(self.chosen * high**2 + (self.size - self.chosen) * low**2 - 1)

    @property
    def code(self) -> str:
        """How a set is stored: one bit for each class."""
        return f"V{-(-self.size // 8)}"

    @property
    def first(self) -> ClassSampler:
        """Itself: records have no groups here."""
        return self

    @lazy
    def digest(self) -> str:
        """The name of everything that decides what a label becomes."""
        return hashlib.sha256(canonical({"classes": self.size, "chosen": self.chosen, "share": self.share})).hexdigest()

    def weights(self) -> list[list[int]]:
        """The whole table, one row for each class and one column for each set, in proportion: for few classes only."""
        from itertools import combinations

        inside = self.share * math.comb(self.size - 1, self.chosen)
        outside = (_WORD - self.share) * math.comb(self.size - 1, self.chosen - 1)
        sets = [set(each) for each in combinations(range(self.size), self.chosen)]
        return [[inside if label in each else outside for each in sets] for label in range(self.size)]

    def draw(self, labels: Any, noise: Noise) -> NDArray[Any]:
        """A set for each label, which is a class's place. *Privacy:* as ``event`` says; total."""
        places = np.clip(np.asarray(labels).astype(np.int64), 0, self.size - 1)
        if not noise.secure:
            show(self.event, places.tolist(), noise)
        found = [np.packbits(self._members(places[here], noise), axis=1) for here in _chunks(len(places), self.size)]
        packed = np.concatenate([np.zeros((0, -(-self.size // 8)), dtype=np.uint8), *found])
        return np.ascontiguousarray(packed).view(self.code).reshape(-1)

    def members(self, drawn: NDArray[Any]) -> NDArray[np.bool_]:
        """Which classes each set holds, as rows."""
        width = np.dtype(self.code).itemsize
        packed = np.ascontiguousarray(drawn).view(np.uint8).reshape(-1, width)
        return np.unpackbits(packed, axis=1, count=self.size).astype(np.bool_)

    def at(self, drawn: NDArray[Any]) -> Floats:
        """The label vectors that these sets stand for, as rows."""
        low, high = (float(end) for end in self.ends)
        return np.where(self.members(drawn), high, low)

    def noisy(self, labels: Any, noise: Noise) -> Floats:
        """One label vector for each label: ``at`` of what ``draw`` gives."""
        return self.at(self.draw(labels, noise))

    def prepare(self) -> None:
        """Make what drawing needs, so that nothing is left to fail once it is paid for."""
        _ = self.event, self.ends, self.digest

    def _members(self, places: Ints, noise: Noise) -> NDArray[np.bool_]:
        """``chosen`` other classes in random order; where a word says so, the last of them gives way to the true one."""
        rows = np.arange(len(places))
        inside = noise.bits(len(places)) < np.uint64(self.share)
        picked = _without_return(self.size - 1, self.chosen, len(places), noise)
        picked += picked >= places[:, None]
        members = np.zeros((len(places), self.size), dtype=np.bool_)
        members[rows[:, None], picked] = True
        members[rows, picked[:, -1]] = ~inside
        members[rows, places] = inside
        return members


def _without_return(classes: int, chosen: int, size: int, noise: Noise) -> Ints:
    """``chosen`` different numbers below ``classes`` in uniform order, for each of ``size`` rows: the start of a shuffle."""
    order = np.broadcast_to(np.arange(classes), (size, classes)).copy()
    rows = np.arange(size)
    for place in range(chosen):
        other = place + uniform(classes - place, size, noise)
        order[rows, place], order[rows, other] = order[rows, other], order[rows, place]
    return order[:, :chosen]


def _chunks(size: int, classes: int) -> Iterator[slice]:
    step = max(64, _ENTRIES // classes)
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def simplex(values: Floats) -> Floats:
    """Each row's nearest probabilities: none below zero, and they add up to one.

    >>> simplex(np.array([[1.2, -0.1, 0.3]])).round(2).tolist()
    [[0.95, 0.0, 0.05]]
    """
    finite = np.nan_to_num(values, nan=0.0, posinf=1e9, neginf=-1e9)
    falling = -np.sort(-finite, axis=1)
    over = (np.cumsum(falling, axis=1) - 1) / np.arange(1, finite.shape[1] + 1)
    count = (falling > over).sum(axis=1)
    return np.asarray(np.maximum(finite - over[np.arange(len(finite)), count - 1][:, None], 0.0))
