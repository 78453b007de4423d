"""The parts of a search: a ``Step`` to be paid for, what was ``Told``, a ``Family`` of models, a ``Look``, and a ``Judge``.

A family knows what was released of its models (or of its total) and what it would buy next; a judge says whether the
present one is good enough, and what to pay to find out. Both hold released numbers only, so they are rebuilt from stored
answers after a crash, or taken up later for a tighter goal. How steps are charged and stored is the transcript's business
(``transcript``), in which order is the search's (``search``).
Law: a step's price is fixed before it is drawn; a model that did not pass is never said to have passed.
"""

from __future__ import annotations

import base64
import binascii
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.models.accuracy._goal import MET, NULL, Goal, Stop
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Neighbours

if TYPE_CHECKING:
    from steelyard.models.accuracy._transcript import Transcript
    from steelyard.plan import Outcome
    from steelyard.release import Release

Integers = Sequence[int] | NDArray[Any]
LOSS_BITS = 20
WHOLE = 1 << LOSS_BITS
"""Steps in a loss of one, and in a prediction of one."""

SCANT = 100
"""Less than one part in so many of what the levels have cost is nothing to go on with."""

TRAIN, CHECK = PARTS = ("train", "check")
"""The part of the rows that a step reads; where they are not divided, both are all of them."""


@dataclass(frozen=True)
class Told:
    """A step that is stored: its kind, what it cost, the integers it released, and the facts beside them.

    ``paid`` is what the account had paid for all steps by then, where their own costs do not say so.
    """

    kind: str
    cost: int
    values: Integers
    facts: Mapping[str, Any] = field(default_factory=dict)
    release: Release | None = None
    paid: int | None = None

    @property
    def goal(self) -> str:
        """The name of the goal that it was bought for."""
        return str(self.facts.get("goal", ""))


class Noised(Protocol):
    """What adds noise at a known price."""

    @property
    def event(self) -> Event:
        """What is charged for it."""


@dataclass(frozen=True)
class Step:
    """One step to be paid for: what it is, what makes its noise, how integers are computed with that from rows, and public facts."""

    kind: str
    making: Callable[[], Noised]
    drawing: Callable[[Any, Any, Noise], Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    part: str = TRAIN
    tell: Callable[[Any], Outcome] | None = None
    """How what was computed becomes an outcome; integers are packed without one."""

    @lazy
    def made(self) -> Noised:
        """What adds the noise, made once, when the step is bought."""
        return self.making()

    @property
    def event(self) -> Event:
        """What is charged."""
        return self.made.event

    def compute(self, rows: Any, noise: Noise) -> Any:
        """Its integers, from rows."""
        return self.drawing(self.made, rows, noise)

    def take(self, transcript: Transcript, goal: Goal) -> Told:
        """Charge it, draw it, store it, and read it back."""
        return transcript.buy(self, goal)


@dataclass(frozen=True)
class Rise:
    """One release of a Laplace path: the entry rises to ``micro`` millionths of epsilon, and refines the last release."""

    micro: int
    sensitivity: int
    neighbours: Neighbours
    values: Callable[[Any], Sequence[int]]
    measured: Callable[[Release], Sequence[int] | NDArray[Any]]
    tell: Callable[[list[int]], Outcome]

    def take(self, transcript: Transcript, goal: Goal) -> Told:
        """Raise the entry, draw, store, and read back."""
        return transcript.rise(self, goal)


@dataclass(frozen=True)
class Act:
    """What a judge does itself: it charges, stores and reads back on its own."""

    work: Callable[[], Told]

    def take(self, transcript: Transcript, goal: Goal) -> Told:
        """Do it."""
        transcript.reread()
        return self.work()


class Taken(Protocol):
    """Whatever a judge may want done next."""

    def take(self, transcript: Transcript, goal: Goal) -> Told:
        """Do it, and tell what is stored."""


class Look(Protocol):
    """A question to the rows about one released model, answered by one whole number."""

    @property
    def moves(self) -> int:
        """By how many steps one unit, replaced or added as neighbours are, moves the number."""

    @property
    def model(self) -> tuple[int, ...]:
        """The model in whole steps."""

    @property
    def reach(self) -> int:
        """What the model's predictions, or log-odds, are clipped to, in whole steps."""

    def value(self, rows: Any) -> int:
        """The integer to be noised."""

    def limit(self) -> float:
        """At or below this many steps the model is good enough."""


@dataclass(frozen=True)
class Ending:
    """A model that may be handed out with a promise: where its predictions are clipped, and what it was answered by."""

    model: NDArray[np.float64] | None
    bound: float
    reason: str = MET
    clips: Mapping[str, Any] = field(default_factory=dict)
    release: Release | None = None


class Family(ABC):
    """A kind of models on given terms: what is known of them, all of it released, and what would be bought next."""

    goal: Goal
    levels = 0
    """How many levels there are."""

    paid = 0
    """What they have cost, in the ledger's smallest units."""

    scale = float(MICRO**2)
    """How many of these units make one of the currency's own."""

    least = 10**4
    """What buys nothing worth having, in these units."""

    unit = 1.0
    """What a goal's amount is a part of, in losses."""

    checked = 1.0
    """About how many units are looked at."""

    secret = False
    """Whether only a part of them is: how many there are is then a guess."""

    def __init__(self) -> None:
        self._spent = [0]

    def spent_at(self, levels: int) -> int:
        """What the first so many levels cost."""
        return self._spent[levels]

    def rise(self, cost: int) -> None:
        """Count one more level at this price."""
        self.paid, self.levels = self.paid + cost, self.levels + 1
        self._spent.append(self.paid)

    def size(self) -> Step | None:
        """A count that has to be bought before anything else."""
        return None

    @abstractmethod
    def ahead(self) -> Sequence[int]:
        """What the levels may yet have cost in all."""

    @abstractmethod
    def level(self, cost: int) -> Taken:
        """The step after which all levels have cost about this much."""

    def rest(self, left: int) -> Taken | None:
        """A level for as much of what is left as it can use; None where that buys none."""
        return self.level(self.paid + left)

    @abstractmethod
    def learn(self, told: Told) -> None:
        """Take a stored count or level into account."""

    @abstractmethod
    def candidate(self) -> Look:
        """The model to look at, once there is a level."""

    @abstractmethod
    def again(self, model: tuple[int, ...], reach: int) -> Look:
        """A model that was looked at before."""

    @abstractmethod
    def weights(self, steps: Sequence[int]) -> NDArray[np.float64]:
        """Whole steps as the weights they stand for."""

    @abstractmethod
    def clips(self, reach: int) -> dict[str, float]:
        """Where the handed-out model clips, as it did when it was looked at."""

    def hopeless(self) -> bool:
        """Whether released numbers rule the candidate out."""
        return False

    def excess(self, paid: int) -> float:
        """About how far above the best a model's loss would be whose levels had cost so much; a guess."""
        return 0.0

    def null(self) -> Ending | None:
        """The model that predicts nothing and what it is certainly good for, where that is known."""
        return None

    def passed(self, steps: Sequence[int], reach: int, bound: float) -> Ending:
        """What may be said of a model that a look or a watch has passed."""
        return Ending(self.weights(steps), bound, MET if any(steps) else NULL, self.clips(reach))


class Judge(ABC):
    """Whether the present model of a family answers a goal, and what to pay to find out."""

    sharpens: tuple[Fraction, ...] = (Fraction(2, 3), Fraction(1))
    """When the account would not pay for the next step: how much of what is left last levels take, the others being for a look."""

    def __init__(self, goal: Goal, family: Any) -> None:
        self.goal, self.family = goal, family
        self.history: list[Stop] = []
        self.verdict: Ending | None = None
        self._sharpened = 0

    @property
    def end(self) -> str:
        """Why a search ends that has nothing left to try."""
        return self.goal.end

    def next(self) -> Taken | None:
        """What to pay for next: a count, a look at the present model, or a level; None when nothing is left to try."""
        size: Step | None = self.family.size()
        if size is not None:
            return size
        look = self.look()
        ahead = [] if look is not None or self.over() else self.family.ahead()
        return self.family.level(ahead[0]) if ahead else look

    def learn(self, told: Told) -> None:
        """Take a stored step into account; looks for another goal say nothing here."""
        if told.kind in ("size", "level"):
            self.family.learn(told)
            index = sum(stop.step.startswith(told.kind) for stop in self.history)
            self.write(f"{told.kind} {index}", self.family.paid if told.kind == "level" else told.cost, told)
            self.measured(told)
        elif told.goal == self.goal.name:
            self.judged(told)

    def write(self, step: str, cost: int, told: Told, **said: Any) -> None:
        """One more line of the history, in the currency's own units."""
        scale = self.family.scale
        paid = None if told.paid is None else told.paid / scale
        self.history.append(Stop(step, cost / scale, paid=paid, **said))

    def measured(self, told: Told) -> None:
        """Take note of a count or a level; the model that predicts nothing may already be good enough."""
        null: Ending | None = self.family.null() if told.kind == "size" else None
        if null is not None and null.bound <= self.goal.amount:
            self.verdict = null

    @abstractmethod
    def judged(self, told: Told) -> None:
        """Take note of what was said of a model."""

    @abstractmethod
    def look(self) -> Taken | None:
        """A look at the present model that is worth its price."""

    def last(self, left: int) -> Taken | None:
        """Before the search gives up: a look where one may pass; else what is left goes into the model that is handed out.

        Most of it first, so that the sharper model can be looked at, and then whatever no look could use.
        """
        look = self.final(left)
        if (
            look is not None
            or self._sharpened == len(self.sharpens)
            or left < max(self.family.least, self.family.paid // SCANT)
        ):
            return look
        share, self._sharpened = self.share(left), self._sharpened + 1
        return self.family.rest(self.training(math.floor(left * share)))  # type: ignore[no-any-return]

    def scarce(self, left: int) -> bool:
        """Whether what is left had better be divided between a last level and a last look than buy the next level."""
        return False

    def share(self, left: int) -> Fraction:
        """How much of what is left the next of the last levels takes."""
        return self.sharpens[self._sharpened]

    def training(self, left: int) -> int:
        """What a level may cost where so much more may be paid."""
        return left

    def final(self, left: int) -> Taken | None:
        """A look at the present model with all that is left, where it may pass."""
        return None

    def over(self) -> bool:
        """Whether no further level can be judged."""
        return False

    def guess(self) -> Ending | None:
        """The best model there is, of which nothing is promised: what all levels together give."""
        family = self.family
        return Ending(family.weights(family.candidate().model), math.inf) if family.levels else None


def packed(values: Integers) -> list[str] | str:
    """Integers as they are stored: one text of 64-bit words where many fit, else each as decimal digits."""
    try:
        if len(values) >= 8:
            return base64.b64encode(np.asarray(values, dtype="<i8").data).decode("ascii")
    except OverflowError:  # of released numbers
        pass
    return [str(value) for value in values]


def unpacked(stored: Sequence[str] | str) -> Integers:
    """What ``packed`` was given: words as an array that cannot be written to, digits as a list."""
    if not isinstance(stored, str):
        return [int(value) for value in stored]
    return np.frombuffer(binascii.a2b_base64(stored), dtype="<i8")
