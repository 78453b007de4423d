"""The ways of answering behind ``Holdout(mode=...)``, what each gets, and what it gives.

A mode is made from the public facts (a ``Frame``) and its own options; it never sees a label. For each question it gets
the question's name, the guess, and a function that computes the exact score; it keeps whatever it must remember as
entries of the ``Record``, the one place that charges and stores. Law: whatever a mode returns was charged and stored
first, or is a function of the guess and of what was stored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

from steelyard.errors import CurrencyMismatch, InvalidTask
from steelyard.holdout._answer import Answer
from steelyard.holdout._intervals import Rounding, half_width, nats_allowed, read_whole
from steelyard.holdout._links import Link
from steelyard.noise import ExactNoise, Noise
from steelyard.privacy import MICRO, Currency, Number, Terms, decimal_text, exact, holdout

if TYPE_CHECKING:
    from steelyard.holdout._questions import Counter
    from steelyard.holdout._record import Record

MODES = {
    "certified": "certified.CertifiedMode",
    "classic": "thresholdout.ClassicMode",
    "ladder": "ladder.LadderMode",
    "private": "private.PrivateMode",
    "rounds": "rounds.RoundsMode",
}
"""Where each mode lives: module and class."""

HIDING = ("classic", "private")
"""The modes that promise privacy: nothing but the noisy answers may depend on a label, errors included."""

Span = tuple[Fraction, Fraction]
EVERY: Span = (Fraction(0), Fraction(1))
"""All scores, as shares of the range."""

_UP = Context(prec=4, rounding=ROUND_CEILING)
_ROUNDS_ONLY = "best_of and finish belong to mode='rounds'; this holdout answers single questions, with check."


@dataclass(frozen=True)
class Frame:
    """What is public about a holdout. Scores and tolerance are in [0, 1]; times ``upper`` they are the metric's own.

    The exact score is total / (rows * scale), with a whole total: the sum of one number in 0..scale for each row; with a
    ``link`` the score is a function of that.
    """

    name: str
    rows: int
    scale: int
    upper: Fraction
    tolerance: Fraction
    confidence: Fraction
    higher_is_better: bool = True
    link: Link | None = None

    @property
    def whole(self) -> int:
        """The largest total."""
        return self.rows * self.scale

    @property
    def beta(self) -> Fraction:
        """The chance that any certificate is wrong."""
        return 1 - self.confidence

    def promise(self, span: Span = EVERY) -> str:
        """How near an answer is, for scores in a span (shares of the range); others have a wider interval."""
        least, most = (decimal_text(end * self.upper, 6) for end in span)
        told = "" if span == EVERY else f" for scores between {least} and {most}"
        return (
            f"± {decimal_text(self.tolerance * self.upper, 6)}{told} with confidence {decimal_text(self.confidence, 6)}"
        )

    def reach(self, width: float) -> str:
        """A half-width in the metric's own unit, rounded up: a printed interval is no narrower than the true one."""
        return f"± {_UP.create_decimal_from_float(width * float(self.upper)):f}"

    def answer(self, value: Fraction | float, low: Fraction | float, high: Fraction | float, kind: str) -> Answer:
        """An answer in the metric's own unit; the interval is cut at the ends of the range."""
        least, most = max(Fraction(0), Fraction(low)), min(Fraction(1), Fraction(high))
        mean = Fraction(value) * self.upper
        return Answer(float(mean), float(least * self.upper), float(most * self.upper), kind)


@dataclass(frozen=True)
class Query:
    """One question: a name that only the same predictions and guess have, the guess in [0, 1], and the exact total.

    ``total()`` reads the labels: a private mode calls it only after it has charged.
    """

    name: str
    guess: Fraction | None
    total: Callable[[], int]


class Mode(ABC):
    """A way of answering."""

    kinds: tuple[str, ...]
    """The kinds of entries it makes on the record, the most frequent first."""
    source: Noise
    """What its noise is drawn from."""
    counter: Counter | None = None
    """The question numbers it holds, in a mode that numbers questions, once it was asked one."""

    def __init__(self, frame: Frame, source: Noise | None = None) -> None:
        self.frame = frame
        self.source = ExactNoise() if source is None else source

    @abstractmethod
    def terms(self) -> dict[str, Any]:
        """What ``open_account`` needs for an account that this mode can use in full: unit, and nats or epsilon."""

    @abstractmethod
    def admit(self, terms: Terms) -> None:
        """Refuse an account on which this mode cannot keep its promise."""

    @abstractmethod
    def check(self, query: Query, record: Record) -> Answer:
        """Answer a question; called by one thread at a time."""

    @abstractmethod
    def promise(self, record: Record) -> str:
        """How near its answers are, and with which confidence: the one promise of accuracy that is printed."""

    @abstractmethod
    def forecast(self, record: Record) -> int:
        """How many more answers are certain to be affordable, from public facts alone."""

    @abstractmethod
    def describe(self, record: Record) -> list[tuple[str, str]]:
        """Lines for a person, from public facts alone."""

    def best_of(self, batch: Sequence[Query], record: Record) -> int:
        """The place of the best of a batch; rounds alone can tell it."""
        raise InvalidTask(_ROUNDS_ONLY)

    def finish(self, query: Query, record: Record) -> Answer:
        """The last answer, which closes the holdout; rounds alone end so."""
        raise InvalidTask(_ROUNDS_ONLY)


class NatsMode(Mode):
    """A mode that promises validity and no privacy, and spends nats; scores are shown on a grid of ``steps``."""

    nats: int
    """The micro-nats that the tolerance allows."""

    def __init__(self, frame: Frame, steps: int) -> None:
        super().__init__(frame)
        self._rounding = Rounding(frame.rows, frame.scale, steps, frame.link)

    def _allow(self, between: tuple[Number, Number], first: float) -> None:
        """Fix the scores answered within the tolerance and what may be spent; ``first``: what one question costs."""
        self._span = read_between(between, self.frame)
        self.nats = require_nats(self._rounding, self.frame, self._span, first)

    def terms(self) -> dict[str, Any]:
        """An account of as many nats as the tolerance allows."""
        return {"unit": holdout(self.frame.name), "nats": decimal_text(Fraction(self.nats, MICRO), 30)}

    def admit(self, terms: Terms) -> None:
        """Refuse an account that counts in another currency."""
        if terms.currency is not Currency.NATS:
            raise CurrencyMismatch(
                f"this mode spends nats, and the account counts in {terms.currency}. Open one "
                f"with open_account(..., unit=holdout({self.frame.name!r}), nats={self.terms()['nats']})."
            )

    def promise(self, record: Record) -> str:
        """The tolerance, for the scores that were declared."""
        return self.frame.promise(self._span)


class NoisyMode(Mode):
    """A mode whose answers are private: the score with noise, in an interval of one width for all ``questions``."""

    def __init__(self, frame: Frame, questions: int, source: Noise | None) -> None:
        super().__init__(frame, source)
        self.questions = read_whole(questions, "questions")

    @abstractmethod
    def width(self, terms: Terms) -> float:
        """The half-width of every answer on an account with these terms, as a share of the range; public."""

    def _answer(self, total: int, width: float, kind: str) -> Answer:
        value = total / self.frame.whole
        return self.frame.answer(value, value - width, value + width, kind)

    @staticmethod
    def _price_told(record: Record) -> tuple[str, str]:
        return "privacy", f"{record.account.spent} of {record.account.terms.cap} spent"


def make_mode(name: str, frame: Frame, options: dict[str, Any]) -> Mode:
    """The mode of this name, made from public facts."""
    if name not in MODES:
        raise InvalidTask(f"mode must be one of {', '.join(sorted(MODES))}; got {name!r}.")
    module, _, kind = MODES[name].partition(".")
    made = getattr(import_module(f"steelyard.holdout._modes._{module}"), kind)
    known = list(signature(made).parameters)[1:]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidTask(f"mode {name!r} takes {', '.join(known) or 'no options'}; got {', '.join(unknown)}.")
    return cast(Mode, made(frame, **options))


def read_between(between: tuple[Number, Number], frame: Frame) -> Span:
    """The declared range of scores, as shares of the metric's range."""
    low, high = (exact(end, "between") / frame.upper for end in between)
    if not 0 <= low < high <= 1:
        raise InvalidTask(f"between must be two scores, the lower first, within 0 and {frame.upper}; got {between!r}.")
    return low, high


def require_nats(rounding: Rounding, frame: Frame, span: Span, first: float) -> int:
    """The micro-nats that the tolerance allows; refused when not even one question can be certified."""
    allowed = nats_allowed(rounding, frame.tolerance, *span)
    if allowed >= first * MICRO:
        return allowed
    # Hoeffding's half-width and half a step of a tenth of it do for one question at any score.
    can = half_width(frame.rows, -first) / 0.95 * float(frame.upper)
    if frame.link is not None:
        raise InvalidTask(
            f"these {frame.rows:,} rows cannot certify a tolerance of {float(frame.tolerance * frame.upper):.4g} at every score with confidence "
            f"{float(frame.confidence):.4g}. Ask for a wider tolerance, or say with between= which scores are to be answered within it."
        )
    raise InvalidTask(
        f"{frame.rows:,} rows cannot certify a tolerance of {float(frame.tolerance * frame.upper):.4g} with confidence "
        f"{float(frame.confidence):.4g}: even one question needs {can:.3g} or more. Ask for a wider tolerance, less "
        f"confidence, or use about {math.ceil(frame.rows * (can / float(frame.tolerance * frame.upper)) ** 2):,} rows."
    )
