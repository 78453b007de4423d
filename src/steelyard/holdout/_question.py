"""``Question``: the mean of one bounded expression over private rows, with privacy and validity from one charge.

Each row gives a number between 0 and 1: whether a column has a given value, or where a numeric column lies between two
public bounds. The rows' whole numbers are added by the engine and noised once. On an account of n replaced rows the
charge that keeps rows private also bounds how far any mean can be from the population's, whatever was asked before
(docs/proofs/transfer.md), so the answer has an interval for the population and not only for these rows.
Law: bounds, value, grid and n are public; rows without a usable value count as 0. A table of another number of rows
than the account declares gets no answer: its share would be one of rows that are not there. Proof:
docs/proofs/question.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from steelyard.accounting import mu_request
from steelyard.bounding import check_range, keep_exact, noise_error
from steelyard.errors import CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.holdout._answer import PAID, Answer
from steelyard.holdout._intervals import read_confidence, read_whole
from steelyard.holdout._transfer import account_distance, laplace_width, normal_width, shared_distance_at
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome, Plan
from steelyard.privacy import MICRO, Currency, Neighbours, Number, Terms, exact, positive
from steelyard.tables import LIMIT, Capped, Quantity, Schema, Table, check_list

OTHER_ROWS = (
    "the table does not have the n rows the account declares, so a share of n rows would be wrong: nothing was released, and "
    "what was charged stays charged. Open an account with rows(neighbours='replace', n=...) of the true number, if that may "
    "be public."
)
_OTHER_ROWS = {"other_rows": True}
_STEPS = 2**20  # grid steps between the bounds: a row is rounded by less than a millionth


@dataclass(frozen=True)
class Question:
    """The share of rows where ``column`` equals a value, or the mean of a numeric column between public bounds.

    *Privacy:* one replaced row moves the total by at most one row's worth; exactly ``epsilon`` is charged. *Accuracy:*
    the population's mean lies between ``low`` and ``high`` with probability ``confidence``, also when the question was
    chosen after other answers of the same account; ``questions``: for that many such answers at once. The interval
    widens with all the account may ever spend, so an account of small epsilon gives the narrower one. The n of the
    account is compared with the table after the charge; a table of another size gets no answer, and the charge stays.
    """

    column: str
    epsilon: Number | None = None
    equals: Any = None
    lower: Number | None = None
    upper: Number | None = None
    confidence: Number = "0.95"
    questions: int = 1
    mu: Number | None = None

    def __post_init__(self) -> None:
        if (self.equals is None) == (self.lower is None) or (self.lower is None) != (self.upper is None):
            raise InvalidTask("say what a row counts: equals=value, or lower= and upper= of a numeric column.")
        if self.equals is not None:
            check_list([self.equals])
        else:
            assert self.lower is not None
            assert self.upper is not None
            low, high = check_range(self.lower, self.upper)
            if max(abs(low), abs(high)) * _STEPS > (high - low) * (LIMIT // 2):
                raise InvalidTask(
                    "lower and upper lie too close together for their size; subtract a public number first."
                )
        read_confidence(self.confidence)
        read_whole(self.questions, "questions")
        keep_exact(self, "epsilon", "mu", "lower", "upper", "confidence")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy total; the error is what its noise brings."""
        if terms.unit.kind != "rows" or terms.unit.neighbours is not Neighbours.REPLACE:
            raise UnitMismatch(
                "a question has an interval for the population where the number of rows is public: open the account "
                f"with rows(neighbours='replace', n=...). This one hides {terms.unit}; use Mean or Count there."
            )
        if self.equals is not None:
            schema.require_keys(self.column, [self.equals])
        else:
            schema.require_numeric(self.column)
        mechanism = self.mechanism(terms)
        error = noise_error(mechanism, self._span / (_rows(terms) * self._steps))
        return Plan(mechanism.event, error, partial(self._ask, mechanism, error, terms), _present)

    def _ask(self, mechanism: Gaussian | Laplace, error: Error, terms: Terms, table: Table, noise: Noise) -> Outcome:
        """Count, add up, noise, divide. The count is the same for all neighbours, and so is what it decides."""
        if table.count_units(terms.unit) != terms.unit.n:
            return Outcome(_OTHER_ROWS, None)
        whole = _rows(terms) * self._steps
        noised = mechanism.release([self._total(table, terms)], noise)[0]
        lower, span, width = float(Fraction(self.lower or 0)), float(self._span), self.width(terms)
        share = min(max(noised, 0), whole) / whole
        low, high = max(0.0, share - width), min(1.0, share + width)
        answer = Answer(lower + share * span, lower + low * span, lower + high * span, PAID)
        point = {"confidence": float(Fraction(self.confidence)), "half_width": width * span, "rows": terms.unit.n}
        return Outcome(answer.to_json(), error, point)

    def width(self, terms: Terms) -> float:
        """The half-width of the interval as a part of the range; known before anything is spent."""
        mechanism, beta = self.mechanism(terms), 1 - float(Fraction(self.confidence))
        whole = _rows(terms) * self._steps
        rounding = 0.0 if self._steps == 1 else 2 / self._steps

        def distance(rest: float) -> float:
            return account_distance(terms, rest, shared_distance_at)  # one function for all rows

        if isinstance(mechanism, Gaussian):
            width = normal_width(float(mechanism.sigma) / whole, self.questions, beta, distance) + 0.5 / whole
        else:
            width = laplace_width(mechanism.scale, whole, self.questions, beta, distance)
        return min(1.0, width + rounding)

    def mechanism(self, terms: Terms) -> Gaussian | Laplace:
        """Noise that costs exactly what was asked, derived for replaced rows."""
        if terms.currency is Currency.NATS:
            raise CurrencyMismatch("this account counts validity in nats; a private question needs epsilon.")
        if terms.currency is Currency.PURE:
            if self.mu is not None or self.epsilon is None:
                raise CurrencyMismatch("this account is pure; give epsilon (and not mu).")
            return Laplace(self._steps, Fraction(self._steps * MICRO, self._micro(self.epsilon)), Neighbours.REPLACE)
        if (self.mu is None) == (self.epsilon is None):
            raise InvalidTask("give epsilon or mu: how much this question may spend.")
        if self.mu is not None:
            micro = self._micro(self.mu)
        else:
            micro = mu_request(exact(self.epsilon or 0, "epsilon"), terms.filter_delta)
        return Gaussian(self._steps, Fraction(self._steps * MICRO, micro), Neighbours.REPLACE)

    @staticmethod
    def _micro(amount: Number) -> int:
        micro = math.floor(positive(amount, "what a question may spend") * MICRO)
        if micro < 1:
            raise InvalidTask("what a question may spend is below one millionth, the ledger's smallest step.")
        return micro

    @property
    def _steps(self) -> int:
        return 1 if self.equals is not None else _STEPS

    @property
    def _span(self) -> Fraction:
        return Fraction(1) if self.upper is None else Fraction(self.upper) - Fraction(self.lower or 0)

    def _total(self, table: Table, terms: Terms) -> int:
        """The rows' whole numbers, added up; each lies in 0.._steps."""
        if self.equals is not None:
            return table.sums_by_key(terms.unit, [Capped(Quantity(None), 1)], self.column, [self.equals])[0][0]
        step = self._span / _STEPS
        low = math.floor(Fraction(self.lower or 0) / step)
        above, _ = table.sums_by_side(terms.unit, Quantity(self.column, step), low, low + _STEPS, _STEPS)
        return above


def _rows(terms: Terms) -> int:
    assert terms.unit.n is not None
    return terms.unit.n


def _present(value: Any) -> Answer:
    """A value with its interval; or why there is none, in words that are the same for every table."""
    if value == _OTHER_ROWS:
        raise TableError(OTHER_ROWS)
    return Answer.from_json(value)
