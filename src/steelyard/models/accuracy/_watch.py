"""A watch over released models: AboveThreshold asks of one after the other whether it is good enough.

The question about a model is how much room it leaves below its limit, counted so that a replaced row or user moves it
by 2^16 steps whatever the model. The threshold lies so far above no room at all that a model which is not good enough
passes with less than the allowed probability, over all questions together; only that direction is paid for.
All that is ever released under a key costs the watches and the levels, whatever was answered (docs/proofs/pure_paths.md).
Law: charged in full before its threshold is drawn; the threshold lives in one call of one process, and whoever did not
draw it buys a watch of his own; each bit is stored before it is told.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Charge
from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, InvalidTask, KeyConflict
from steelyard.mechanisms import AboveThreshold, Questions
from steelyard.models.accuracy._family import CHECK, Act, Judge, Look, Taken, Told
from steelyard.models.accuracy._goal import Goal, share_of
from steelyard.models.accuracy._transcript import WATCH, Transcript
from steelyard.noise import Noise
from steelyard.plan import Outcome
from steelyard.privacy import MICRO, Neighbours
from steelyard.tables import Table

STEPS = 2**16
"""How far a replaced row or user moves the answer to any question."""

QUESTIONS, MOST_WATCHES = 32, 12
"""What a watch may be asked; and how many under a key have a failure probability that doubles can tell from none."""

_FOR_A_TARGET, _FOR_AN_EXCESS = (3, 4.0, 4), (MOST_WATCHES, math.inf, 2)
"""How many watches one call may buy; how many times the last one a level may cost before a sharper one is bought; how much sharper.

A target may lie closer to the best loss than was expected. An excess comes down to any room by its last level, so it takes as many as it
may; those levels leave more room than was expected, so a watch that refused them had much noise itself.
"""

_RATIOS = [Fraction(k, 8) for k in range(6, 25)]  # of the questions' noise to the threshold's
_CELLS, _FAR = 40, 50  # cells in one scale of the threshold's noise, and how many scales are looked at
_MOST = 10**15  # millionths of epsilon; no account has as much
_OUTWARD, _ROUNDING = 1 + 1e-6, 1e-15  # cells telescope, so doubles err by less


def room(look: Any, value: int) -> int:
    """How much room a number leaves below its limit, in steps of which a replaced row moves 2^16; below zero, none."""
    limit: float = look.limit()
    return (math.floor(limit) - 1 - value) * STEPS // int(look.moves)


@dataclass(frozen=True)
class Watch:
    """The public parameters of a watch: its noise, the threshold, and how many questions its confidence is for, if any."""

    mechanism: AboveThreshold
    threshold: int
    questions: int | None = QUESTIONS

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
        raise InvalidTask("no failure probability is left that doubles can tell from none; use a new key.")
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


class Watching:
    """A watch that was drawn here: it can be asked, and it ends with the call, and the process, that bought it.

    ``made`` says which watch the one of a number is: the later it is bought under a key, the less failure probability may
    be left for it. ``facts`` are told with it.
    """

    def __init__(self, desk: Desk, made: Callable[[int], Watch], index: int, facts: Mapping[str, Any]) -> None:
        self._desk, self._made, self.index, self._facts = desk, made, index, facts
        self.watch = made(index)
        self._running: Questions | None = None
        self._holder, self._asked, self._process = secrets.token_hex(16), 0, os.getpid()
        self._charge = self._bought()

    @property
    def left(self) -> bool:
        """Whether another question may be asked: the confidence is for so many."""
        return self.watch.questions is None or self._asked < self.watch.questions

    def ask(self, value: Callable[[Table], int], facts: Mapping[str, Any]) -> bool:
        """Whether a value reaches the threshold, both noised; the bit is stored before it is told.

        A forked child is refused before anything is stored: a failure there would be the parent's answer.
        """
        running, event = self._running, self.watch.mechanism.event
        if os.getpid() != self._process:
            raise KeyConflict(
                "this watch belongs to the process that paid for it; ask again here, and another is bought."
            )
        if running is None or not self.left:
            raise BudgetExceeded("this watch has answered all it was paid for; buy a new one.")
        self._asked += 1

        def answer(table: Table, noise: Noise) -> Outcome:
            return Outcome(running.above(value(table)), None, facts)

        return bool(self._desk.answer(self._charge, event, answer, step=self._asked).value)

    def _bought(self) -> Charge:
        """Charge the first free number and draw its threshold; a watch that somebody else holds is passed over.

        Never a number twice: two watches of one rank would share its failure probability.
        """
        while True:
            event = self.watch.mechanism.event
            try:
                charge = self._desk.charge(event, f"{WATCH} {self.index}")
                start = self._desk.answer(charge, event, lambda _, noise: self._start(noise))
                if start.value == self._holder:
                    self.guarantee = start.guarantee
                    return charge
            except KeyConflict:  # bought for another question, and not drawn yet
                pass
            self.index += 1
            self.watch = self._made(self.index)

    def _start(self, noise: Noise) -> Outcome:
        self._running = self.watch.mechanism.start(self.watch.threshold, noise)
        return Outcome(self._holder, None, {**self._facts, "micro": self.watch.micro})


class Watched(Judge):
    """A goal on a pure account: each model is asked about once, and sharper watches are bought where that may help.

    A watch is sharper than the one before; one is bought where the next level would cost many times what the last watch
    did, and where the levels are at an end. Questions are paid for, so a last level may take all that is left.
    """

    sharpens = (Fraction(1),)

    def __init__(self, goal: Goal, family: Any, transcript: Transcript) -> None:
        super().__init__(goal, family)
        self._transcript, self._bought = transcript, list[Watching]()
        self._most, self._patience, self._sharper = _FOR_AN_EXCESS if goal.kind == "excess" else _FOR_A_TARGET
        self._asked, self._bought_at, self._nothing = False, 0, False

    def next(self) -> Taken | None:
        """A watch; then a question about each model; then a level, or a sharper watch."""
        if not self._bought:
            return Act(self.buy)
        look = self.look()
        if look is not None:
            return look
        ahead, more = self.family.ahead(), self._more()
        if ahead and not (more and self._dear(ahead[0])):
            return self.family.level(ahead[0])  # type: ignore[no-any-return]
        return Act(self.buy) if more else None

    def _more(self) -> bool:
        """Whether a further watch may be bought in this call."""
        return len(self._bought) < self._most and self._bought[-1].index + 1 < MOST_WATCHES

    def _dear(self, level: int) -> bool:
        """Whether a level costs so much that a sharper watch over the present model is bought first."""
        return 0 < self.family.levels != self._bought_at and level > self._patience * self._bought[-1].watch.micro

    def look(self) -> Taken | None:
        """The question about the present model, once for each watch; the model that predicts nothing is asked about once."""
        if self._asked or not self._bought[-1].left:
            return None
        self._asked = True
        look = self.family.candidate() if self.family.levels else self.family.nobody()
        if look is None or (self._nothing and not any(look.model)):
            return None
        self._nothing = self._nothing or not any(look.model)
        return Act(partial(self.ask, look))

    def final(self, left: int) -> Taken | None:
        """The watch that there is may yet be asked about a last level."""
        return self.look() if self._bought else None

    def buy(self) -> Told:
        """Charge and draw another watch."""
        stored = self._transcript.watches
        index = self._bought[-1].index + 1 if self._bought else stored[-1].index + 1 if stored else 0
        if index >= MOST_WATCHES:
            raise InvalidTask(
                "so many watches were bought under this key that no failure probability is left; use a new key."
            )
        needs = self.family.needs() / self._sharper ** len(self._bought)
        levels, goal = self.family.levels, self.goal

        def made(number: int) -> Watch:
            return Watch.of(needs, goal.failure * share_of(number))

        watching = Watching(self._transcript.desk, made, index, {"goal": goal.name, "levels": levels})
        self._bought.append(watching)
        self._asked, self._bought_at = False, levels
        facts = {"goal": goal.name, "level": levels, "index": watching.index}
        return Told("watch", watching.watch.micro, [], facts)

    def ask(self, look: Look) -> Told:
        """Ask the last watch about a model."""
        facts = {"model": [str(k) for k in look.model], "reach": look.reach, "level": self.family.levels}
        value = lambda table: room(look, look.value(self._transcript.rows(table, CHECK)))  # noqa: E731
        passed = self._bought[-1].ask(value, facts)
        return Told("question", 0, [int(passed)], {"goal": self.goal.name, **facts})

    def measured(self, told: Told) -> None:
        """A new model has not been asked about."""
        super().measured(told)
        self._asked = False

    def judged(self, told: Told) -> None:
        """A model that passed is good enough; asking costs nothing beyond the watch."""
        if told.kind == "watch":
            self.write(f"watch {told.facts['index']}", told.cost, told)
            return
        level, passed = int(told.facts["level"]), bool(told.values[0])
        step = f"question at level {level - 1}" if level else "question about no model"
        self.write(step, 0, told, passed=passed)
        if passed:
            steps = tuple(int(k) for k in told.facts["model"])
            self.verdict = self.family.passed(steps, int(told.facts["reach"]), self.goal.amount)
