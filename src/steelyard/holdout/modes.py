"""What a way of answering gets and gives: the protocol behind ``Holdout(mode=...)``.

A mode is made from the public facts (a ``Frame``) and its own options; it never sees a label. For each question it gets
the question's name, the guess, and a function that computes the exact score; it keeps whatever it must remember as
entries of the ``Record``, the one place that charges and stores. Law: whatever a mode returns was charged and stored
first, or is a function of the guess and of what was stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from inspect import signature
from typing import Any, Protocol, cast

from steelyard.errors import InvalidTask
from steelyard.holdout.answer import Answer
from steelyard.holdout.record import Record

MODES = {
    "certified": "certified.Certified",
    "classic": "thresholdout.Classic",
    "ladder": "ladder.Ladder",
    "private": "private.Private",
    "rounds": "rounds.Rounds",
}
"""Where each mode lives: module and class."""

HIDING = ("classic", "private")
"""The modes that promise privacy: nothing but the noisy answers may depend on a label, errors included."""


@dataclass(frozen=True)
class Frame:
    """What is public about a holdout. Scores and tolerance are in [0, 1]; times ``upper`` they are the metric's own.

    The exact score is total / (rows * scale), with a whole total: the sum of one number in 0..scale for each row.
    """

    name: str
    rows: int
    scale: int
    upper: Fraction
    tolerance: Fraction
    confidence: Fraction
    higher_is_better: bool = True

    @property
    def whole(self) -> int:
        """The largest total."""
        return self.rows * self.scale

    @property
    def beta(self) -> Fraction:
        """The chance that any certificate is wrong."""
        return 1 - self.confidence

    def answer(self, value: Fraction | float, low: Fraction | float, high: Fraction | float, kind: str) -> Answer:
        """An answer in the metric's own unit; the interval is cut at the ends of the range."""
        least, most = max(Fraction(0), Fraction(low)), min(Fraction(1), Fraction(high))
        mean = Fraction(value) * self.upper
        return Answer(float(mean), float(least * self.upper), float(most * self.upper), kind)


@dataclass(frozen=True)
class Question:
    """One question: a name that only the same predictions and guess have, the guess in [0, 1], and the exact total.

    ``total()`` reads the labels: a private mode calls it only after it has charged.
    """

    name: str
    guess: Fraction | None
    total: Callable[[], int]


class Mode(Protocol):
    """A way of answering."""

    kinds: tuple[str, ...]
    """The kinds of entries it makes on the record, the most frequent first."""

    def terms(self) -> dict[str, Any]:
        """What ``open_account`` needs for an account that this mode can use in full: unit, and nats or epsilon."""

    def check(self, question: Question, record: Record) -> Answer:
        """Answer a question; called by one thread at a time."""

    def forecast(self, record: Record) -> int:
        """How many more answers are certain to be affordable, from public facts alone."""

    def describe(self, record: Record) -> list[tuple[str, str]]:
        """Lines for a person, from public facts alone."""


def make_mode(name: str, frame: Frame, options: dict[str, Any]) -> Mode:
    """The mode of this name, made from public facts."""
    if name not in MODES:
        raise InvalidTask(f"mode must be one of {', '.join(sorted(MODES))}; got {name!r}.")
    module, _, kind = MODES[name].partition(".")
    made = getattr(import_module(f"steelyard.holdout.{module}"), kind)
    known = list(signature(made).parameters)[1:]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidTask(f"mode {name!r} takes {', '.join(known) or 'no options'}; got {', '.join(unknown)}.")
    return cast(Mode, made(frame, **options))
