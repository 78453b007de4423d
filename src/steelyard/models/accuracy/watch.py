"""A watch over released models: AboveThreshold asks of one after the other whether it is good enough.

The question about a model is how much room it leaves below its limit, counted so that a replaced row or user moves it
by 2^16 steps whatever the model. The threshold lies so far above no room at all that a model which is not good enough
passes with less than the allowed probability, over all questions together; only that direction is paid for.
Law: charged in full before its threshold is drawn; the threshold lives in one call of one process, and whoever did not
draw it buys a watch of his own (docs/proofs/pure_paths.md).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Charge
from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, InvalidTask, KeyConflict
from steelyard.mechanisms import AboveThreshold, Questions
from steelyard.models.accuracy.rising import read_back
from steelyard.models.accuracy.steps import stored
from steelyard.models.accuracy.transcript import Transcript
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Neighbours
from steelyard.release import Outcome
from steelyard.tables import Table

STEPS = 2**16
"""How far a replaced row or user moves the answer to any question."""

PATIENCE = 4
"""A path that costs so many times what its watch did is better looked at by a sharper one."""

QUESTIONS, SHARPER = 32, 4
_RATIOS = [Fraction(k, 8) for k in range(6, 25)]  # of the questions' noise to the threshold's
_CELLS, _FAR = 40, 50  # cells in one scale of the threshold's noise, and how many scales are looked at
_MOST = 10**15  # millionths of epsilon; no account has as much
_OUTWARD, _ROUNDING = 1 + 1e-6, 1e-15  # cells telescope, so doubles err by less


class Asked(Protocol):
    """A whole number about one model: at or below its limit the model is good enough."""

    @property
    def moves(self) -> int:
        """By how many steps one replaced row or user moves the number."""

    def limit(self) -> float:
        """At or below this many steps the model is good enough."""


def room(asked: Asked, value: int) -> int:
    """How much room a number leaves below its limit, in steps of which a replaced row moves 2^16; below zero, none."""
    return (math.floor(asked.limit()) - 1 - value) * STEPS // asked.moves


@dataclass(frozen=True)
class Watch:
    """The public parameters of a watch: its noise, and the threshold that its failure probability needs."""

    mechanism: AboveThreshold
    threshold: int

    @property
    def micro(self) -> int:
        """What it costs, in millionths of epsilon, exactly."""
        return int(self.mechanism.epsilon * MICRO)

    @classmethod
    def of(cls, needs: float, failure: float) -> Watch:
        """The cheapest watch that models with this much room (a replaced row moves one) are expected to pass."""
        ratio, distance = _shape(failure)
        micro = max(1, min(math.ceil(distance / needs * MICRO), _MOST))
        mechanism = _mechanism(ratio, micro)
        return cls(mechanism, threshold_for(mechanism, failure))


def _mechanism(ratio: Fraction, micro: int) -> AboveThreshold:
    scale = STEPS * (1 + 2 / ratio) * MICRO / micro
    return AboveThreshold(STEPS, scale, ratio * scale, neighbours=Neighbours.REPLACE)


@lru_cache(maxsize=64)
def _shape(failure: float) -> tuple[Fraction, float]:
    """The ratio of noises with the nearest threshold, and that threshold at an epsilon of one, in moves of a row."""
    found = {ratio: threshold_for(_mechanism(ratio, MICRO), failure) / STEPS for ratio in _RATIOS}
    best = min(found, key=lambda ratio: found[ratio])
    return best, found[best]


@lru_cache(maxsize=256)
def threshold_for(mechanism: AboveThreshold, failure: float) -> int:
    """The least threshold at which models without room pass with at most this probability, all questions together."""
    low, high = 0, math.ceil(float(mechanism.question_scale) * 64)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(mechanism, middle) <= failure else (middle + 1, high)
    if passes(mechanism, low) > failure:
        raise InvalidTask(
            "so many watches were bought under this key that no failure probability is left; use a new key."
        )
    return low


def passes(mechanism: AboveThreshold, threshold: int) -> float:
    """At most the chance that any of the questions passes a model whose room is below zero.

    It passes if N >= threshold + 1 + R for its own noise N. Given R the questions are independent, and the chance falls
    as R grows: in each cell of R the left end counts.
    """
    first, far = float(mechanism.threshold_scale), math.ceil(mechanism.threshold_scale * _FAR)
    width = max(1, math.floor(first / _CELLS))
    edges = np.arange(-far, far + width, width, dtype=np.float64)
    reached = tail(edges, first)
    cells = reached - np.append(reached[1:], 0.0)
    each = tail(threshold + 1 + edges, float(mechanism.question_scale))
    some = -np.expm1(QUESTIONS * np.log1p(-np.minimum(each, 1 - 1e-16)))
    return float(cells @ some + (1 - reached[0])) * _OUTWARD + _ROUNDING


def tail(levels: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """P[X >= level] at whole levels, X with P[X = x] proportional to exp(-|x|/scale)."""
    ratio = math.exp(-1 / scale)
    up = np.exp(-np.maximum(levels, 1) / scale) / (1 + ratio)
    down = 1 - np.exp(-np.maximum(1 - levels, 0) / scale) / (1 + ratio)
    return np.where(levels >= 1, up, down)


@dataclass(frozen=True)
class Told:
    """One answered question: the stored facts of its model, and whether it passed."""

    facts: Mapping[str, Any]
    passed: bool


@dataclass(frozen=True)
class Kept:
    """A watch that is on the ledger: for which question, for how much, after how many levels, and what it answered.

    ``index`` says which watch under the key it was, and so how much failure probability it had.
    """

    index: int
    name: str
    micro: int
    levels: int
    told: tuple[Told, ...]


def kept(desk: Desk) -> list[Kept]:
    """All watches under the desk's key, in order, read back for nothing."""
    found: list[Kept] = []
    for index in Transcript.of(desk).numbers("watch"):
        first = stored(desk, _named(index))
        if first is None:
            continue  # its threshold was never drawn
        start, *answers = read_back(desk, desk.charge(first.event, _named(index)), first.event)
        told = tuple(Told(release.point, bool(release.value)) for release in answers)
        point = start.point
        found.append(Kept(index, str(point["target"]), int(point["micro"]), int(point["levels"]), told))
    return found


def _named(index: int) -> str:
    return f"watch {index}"


class Watching:
    """A watch that was drawn here: it can be asked, and it ends with the call that bought it.

    ``make`` is the watch of a rank: the later one is bought, the less failure probability is left for it.
    """

    def __init__(self, desk: Desk, make: Callable[[int], Watch], index: int, name: str, levels: int = 0) -> None:
        self._desk, self._make, self.index = desk, make, index
        self._name, self._levels, self.watch = name, levels, make(index)
        self._running: Questions | None = None
        self._holder, self._asked = secrets.token_hex(16), 0
        self._charge = self._bought()

    @property
    def left(self) -> bool:
        """Whether another question may be asked: the confidence is for so many."""
        return self._asked < QUESTIONS

    def ask(self, compute: Callable[[Table], int], facts: Mapping[str, Any]) -> bool:
        """Whether a model's room reaches the threshold, both noised; the bit is stored before it is told."""
        running, event = self._running, self.watch.mechanism.event
        if running is None or not self.left:
            raise BudgetExceeded("this watch has answered all it was paid for; buy a new one.")
        self._asked += 1
        answer = lambda table, noise: Outcome(running.above(compute(table)), None, facts)  # noqa: E731
        return bool(self._desk.answer(self._charge, event, answer, step=self._asked).value)

    def _bought(self) -> Charge:
        """Charge the first free name and draw its threshold; a watch that somebody else holds is passed over.

        Never under a second name of the same index: two watches of one rank would share its failure probability.
        """
        while True:
            event = self.watch.mechanism.event
            try:
                charge = self._desk.charge(event, _named(self.index))
                start = self._desk.answer(charge, event, lambda _, noise: self._start(noise))
                if start.value == self._holder:
                    return charge
            except KeyConflict:  # bought for another question, and not drawn yet
                pass
            self.index += 1
            self.watch = self._make(self.index)

    def _start(self, noise: Noise) -> Outcome:
        self._running = self.watch.mechanism.start(self.watch.threshold, noise)
        facts = {"target": self._name, "micro": self.watch.micro, "levels": self._levels}
        return Outcome(self._holder, None, facts)


def passed(watches: list[Kept], name: str) -> Told | None:
    """The model that a watch for this very question has passed before, if any."""
    return next((told for each in watches if each.name == name for told in each.told if told.passed), None)
