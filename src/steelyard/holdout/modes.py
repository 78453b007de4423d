"""What a way of answering gets and gives: the protocol behind ``Holdout(mode=...)``.

A mode is made from the public facts (a ``Frame``) and its own options; it never sees a label. For each question it gets
the question's name, the guess, and a function that computes the exact score; it keeps whatever it must remember as
entries of the ``Record``, the one place that charges and stores. Law: whatever a mode returns was charged and stored
first, or is a function of the guess and of what was stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from importlib import import_module
from inspect import signature
from typing import Any, Protocol, cast

from steelyard.errors import InvalidTask
from steelyard.holdout.answer import Answer
from steelyard.holdout.record import Record
from steelyard.privacy import decimal_text

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


_UP = Context(prec=4, rounding=ROUND_CEILING)
EVERY = (Fraction(0), Fraction(1))
"""All scores, as shares of the range."""


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

    def promise(self, span: tuple[Fraction, Fraction] = EVERY) -> str:
        """How near an answer is, for scores in a span (shares of the range); others have a wider interval."""
        least, most = (decimal_text(end * self.upper, 6) for end in span)
        told = "" if span == EVERY else f" for scores between {least} and {most}"
        return (
            f"± {decimal_text(self.tolerance * self.upper, 6)}{told} with confidence {decimal_text(self.confidence, 6)}"
        )

    def reach(self, width: float) -> str:
        """A half-width in the metric's own unit as text, rounded up: a printed interval is no narrower than the true one."""
        return f"± {_UP.create_decimal_from_float(width * float(self.upper)):f}"

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

    def promise(self, record: Record) -> str:
        """How near its answers are, and with which confidence: the one promise of accuracy that is printed."""

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
