"""What an attacker hears: a score from any leaderboard function, or an answer with its interval from a holdout.

An attacker is pointed at a function ``predictions -> score``, or at anything with ``check(predictions, guess=...)``
that answers with a value and perhaps an interval. It never sees a label. Law: what is kept of a run is what was said,
beside the truth, so that an interval that misses is counted whatever the attacker does next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import BudgetExceeded, InvalidTask

Predictions = NDArray[Any]
Score = Callable[[Predictions], float]
_BLOCK = 512


class HoldoutChecker(Protocol):
    """Anything that checks predictions against a guess."""

    def check(self, predictions: Any, *, guess: Any) -> Any:
        """A value, perhaps with ``low``, ``high`` and ``kind``."""


@dataclass(frozen=True)
class Heard:
    """One answer: a value, its interval where one is certified, and whether it was the guess handed back."""

    value: float
    low: float | None = None
    high: float | None = None
    echo: bool = False


@dataclass(frozen=True)
class Attacked:
    """How one attack went: what was reported of the attacker's last predictor, and the truth about it.

    ``truth`` is its expected score on fresh rows; ``holdout`` its score on these rows, where the labels are known.
    ``certified`` counts the intervals given on the way, ``missed`` those that did not hold the truth.
    """

    attack: str
    predictor: Predictions = field(repr=False)
    asked: int
    answered: int
    reported: float | None
    low: float | None
    high: float | None
    holdout: float | None
    truth: float
    certified: int
    missed: int

    @property
    def fooled(self) -> float:
        """How far above the truth the report lies; 0 where nothing was reported."""
        return 0.0 if self.reported is None else self.reported - self.truth

    def to_json(self) -> dict[str, Any]:
        """Everything but the predictor, as plain numbers."""
        return {name: value for name, value in self.__dict__.items() if name != "predictor"}


class Ear:
    """Puts questions to an oracle until they are used up or refused, and keeps the tally."""

    def __init__(
        self,
        oracle: Score | HoldoutChecker,
        n: int,
        questions: int,
        labels: Predictions | None = None,
        rate: float = 0.5,
    ) -> None:
        if n < 2 or questions < 1:
            raise InvalidTask(f"an attack needs n >= 2 rows and at least one question; got {n} and {questions}.")
        if labels is not None and len(labels) != n:
            raise InvalidTask(f"there are {len(labels)} labels for n = {n} rows.")
        self._check = getattr(oracle, "check", None)
        self._score: Any = oracle
        self._labels = None if labels is None else np.asarray(labels)
        self._rate = rate if labels is None else float(np.mean(self._labels == 1))
        self.n, self.left = n, questions
        self.asked = self.answered = self.certified = self.missed = 0

    def ask(self, predictions: Predictions, guess: float) -> Heard | None:
        """One question; None once the questions are used up or the oracle has refused."""
        if self.left == 0:
            return None
        self.left -= 1
        self.asked += 1
        heard = self._hear(predictions, guess)
        if heard is None:
            self.left = 0
            return None
        self.answered += 1
        if heard.low is not None and heard.high is not None:
            self.certified += 1
            self.missed += not heard.low <= self.truth(predictions) <= heard.high
        return heard

    def _hear(self, predictions: Predictions, guess: float) -> Heard | None:
        if self._check is None:
            return Heard(float(self._score(predictions)))
        try:
            answer = self._check(predictions, guess=guess)
        except BudgetExceeded:
            return None
        value, kind = getattr(answer, "value", None), str(getattr(answer, "kind", "paid"))
        if value is None or kind == "refused":
            return None
        low, high = _end(answer, "low"), _end(answer, "high")
        if (low, high) == (0.0, 1.0):  # any accuracy lies there: nothing is certified
            low = high = None
        return Heard(float(value), low, high, kind == "free")

    def truth(self, predictions: Predictions) -> float:
        """The expected accuracy on fresh rows: the attacker's choices know nothing of their labels."""
        ones = float(np.mean(predictions == 1))
        return ones * self._rate + (1 - ones) * (1 - self._rate)

    def finish(self, attack: str, predictor: Predictions, guess: float) -> Attacked:
        """Ask for the score of the last predictor, and sum up."""
        self.left += self.answered == self.asked
        heard = self.ask(predictor, guess)
        value, low, high = (None, None, None) if heard is None else (heard.value, heard.low, heard.high)
        real = None if self._labels is None else float(np.mean(predictor == self._labels))
        truth, certified = self.truth(predictor), self.certified
        return Attacked(
            attack, predictor, self.asked, self.answered, value, low, high, real, truth, certified, self.missed
        )


def _end(answer: Any, name: str) -> float | None:
    value = getattr(answer, name, None)
    return None if value is None else float(value)


def coin_flips(rng: np.random.Generator, n: int, count: int) -> Iterator[NDArray[np.int8]]:
    """``count`` random 0/1 predictors of n rows, made a block at a time."""
    for start in range(0, count, _BLOCK):
        words = rng.integers(0, 256, (min(_BLOCK, count - start), -(-n // 8)), dtype=np.uint8)
        yield from np.unpackbits(words, axis=1, count=n).view(np.int8)
