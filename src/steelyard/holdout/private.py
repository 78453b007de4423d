"""Answers that are private and valid at once, for holdouts whose rows are people.

Each answer is the score with noise: rounded normal noise charged answer by answer, or bounded noise charged for all
planned questions before the first. The charge buys privacy; by the transfer theorem the same noise also bounds how far
the population can be from any answer, however the questions were chosen, and that is the interval.
Law: charged before the labels are read, stored before it is told, told again for nothing; the number of questions is
fixed at the start and a refusal is for good. Proof: docs/proofs/private_holdout.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from steelyard.accounting.gaussian import epsilon_of, mu_request
from steelyard.accounting.prices import price
from steelyard.accounting.pure import pure_to_mu
from steelyard.bounding.amounts import sigma_for
from steelyard.errors import BudgetExceeded, InsecureNoise, InvalidTask
from steelyard.holdout.answer import NO_MORE, PAID, Answer
from steelyard.holdout.bounded import design, half_width
from steelyard.holdout.modes import Frame, Question
from steelyard.holdout.record import Record
from steelyard.holdout.widths import account_distance, check_rows, normal_design, normal_width
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian
from steelyard.mechanisms.bounded import BoundedNoise
from steelyard.noise import ExactNoise, Noise
from steelyard.privacy import MICRO, Event, Loss, Neighbours, Number, Terms, Unit, positive, probability

PLANNED = "planned"
_COVERED = Event("answer_of_a_plan", {}, Neighbours.REPLACE)  # has no price of its own: the plan has paid for it


class Scheme(Protocol):
    """A kind of noise: what is charged when, and how wide the intervals are."""

    @property
    def first(self) -> Event | None:
        """What is charged once, before the first answer; None when each answer pays for itself."""

    @property
    def each(self) -> Event | None:
        """What each answer is charged for; None when all were paid for at the start."""

    def terms(self) -> dict[str, Any]:
        """The caps of an account that pays for exactly this."""

    def width(self, terms: Terms) -> float:
        """The half-width of every answer on an account with these terms."""

    def noised(self, total: int, noise: Noise) -> int:
        """A total with its noise."""


@dataclass(frozen=True)
class Normal:
    """Rounded normal noise; ``epsilon`` at ``delta`` is shared evenly by the questions."""

    frame: Frame
    questions: int
    epsilon: Fraction
    delta: Fraction

    @lazy
    def mechanism(self) -> Gaussian:
        """The noise of one answer."""
        share = mu_request(self.epsilon, self.delta) ** 2 // self.questions
        if share < 1:
            raise InvalidTask(
                f"epsilon {float(self.epsilon):g} is too little to share among {self.questions} questions."
            )
        return Gaussian(self.frame.scale, sigma_for(self.frame.scale**2, share), Neighbours.REPLACE)

    @property
    def first(self) -> None:
        """Nothing."""
        return None

    @property
    def each(self) -> Event:
        """One Gaussian release."""
        return self.mechanism.event

    def terms(self) -> dict[str, Any]:
        """A Gaussian account."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def width(self, terms: Terms) -> float:
        """Noise, half a step of rounding, and the account's distance."""
        whole, beta = self.frame.whole, float(self.frame.beta)
        sigma = float(self.mechanism.sigma) / whole
        return 0.5 / whole + normal_width(sigma, self.questions, beta, lambda rest: account_distance(terms, rest))

    def noised(self, total: int, noise: Noise) -> int:
        """A total with rounded normal noise."""
        return self.mechanism.release([total], noise)[0]

    @classmethod
    def narrowest(cls, frame: Frame, questions: int, delta: Fraction, most: Fraction | None = None) -> Normal:
        """The epsilon (of at most ``most``) with the narrowest intervals: with less noise one overfits sooner."""
        best, _ = normal_design(frame.rows, questions, float(frame.beta), float(delta))
        epsilon = Fraction(max(1, math.ceil(epsilon_of(best, float(delta)) * 10**6)), 10**6)
        return cls(frame, questions, epsilon if most is None else min(epsilon, most), delta)


@dataclass(frozen=True)
class Bounded:
    """Noise that never exceeds its radius; all questions are paid for before the first."""

    frame: Frame
    law: BoundedNoise
    delta: Fraction

    @property
    def first(self) -> Event:
        """The whole conversation."""
        return self.law.event

    @property
    def each(self) -> None:
        """Nothing."""
        return None

    def terms(self) -> dict[str, Any]:
        """A Gaussian account that sets the failure aside."""
        return {"epsilon": self._promised, "delta": self.delta, "additive_delta": self.law.failure}

    @lazy
    def _promised(self) -> Fraction:
        """The epsilon of that account at its delta."""
        parameters = self.law.event.parameters
        epsilon = Fraction(int(str(parameters["epsilon_numerator"])), int(str(parameters["epsilon_denominator"])))
        rest = self.delta - self.law.failure
        mu = Fraction(pure_to_mu(epsilon), MICRO)
        return Fraction(math.ceil(epsilon_of(mu, float(rest)) * 10**6 + 1), 10**6)

    def width(self, terms: Terms) -> float:
        """The radius, and the distance that the conversation's own loss curve leaves (it takes the account whole)."""
        rounding = 0.0 if self.frame.scale == 1 else 1 / self.frame.rows
        return min(1.0, half_width(self.law, float(self.frame.beta)) + rounding)

    def noised(self, total: int, noise: Noise) -> int:
        """A total, rounded down to whole rows (which a row moves by at most one), with bounded noise."""
        return self.law.release([total // self.frame.scale], noise)[0] * self.frame.scale

    @classmethod
    def narrowest(cls, frame: Frame, questions: int, delta: Fraction) -> Bounded:
        """The radius and power with the narrowest intervals."""
        found = design(frame.rows, questions, float(frame.beta), float(delta / 2))
        if found is not None:
            return cls(frame, replace(found.noise, failure=delta / 2), delta)
        raise InvalidTask(
            f"bounded noise for {questions} questions on {frame.rows} rows gives a row away with more than delta "
            f"{float(delta):g}; allow a larger delta, or use noise='gaussian'."
        )


class Private:
    """The mode "private": ``questions`` answers that reveal little about any row and are valid for the population.

    ``noise`` is "gaussian" (pays as it goes) or "bounded" (pays at the start, narrower on many rows). What all answers
    cost together is chosen for the narrowest intervals; with "gaussian", ``epsilon`` is the most it may be at ``delta``.
    """

    kinds: tuple[str, ...] = (PAID, PLANNED)

    def __init__(
        self,
        frame: Frame,
        questions: int = 10,
        epsilon: Number | None = None,
        delta: Number = "1e-6",
        noise: str = "gaussian",
        source: Noise | None = None,
    ) -> None:
        if isinstance(questions, bool) or not isinstance(questions, int) or questions < 1:
            raise InvalidTask(f"questions must be a whole number of at least 1; got {questions!r}.")
        self.frame, self.questions = frame, questions
        self._source: Noise = ExactNoise() if source is None else source
        self._scheme = _scheme(frame, questions, epsilon, probability(delta, "delta"), noise)
        self._told: dict[str, int] = {}
        self._read = 0

    def terms(self) -> dict[str, Any]:
        """An account of this holdout's rows, large enough for every planned question."""
        return {"unit": Unit("rows", None, Neighbours.REPLACE, self.frame.rows), **self._scheme.terms()}

    def width(self, terms: Terms) -> float:
        """The half-width of every answer, in [0, 1]; public, and refused where it exceeds the tolerance."""
        check_rows(terms, self.frame.rows)
        return self._scheme.width(terms)

    def check(self, question: Question, record: Record) -> Answer:
        """Charge, answer with noise, store, tell; a question asked before is told again for nothing."""
        width = self._allowed(record)
        while True:
            self._catch_up(record)
            if question.name in self._told:
                return self._answer(self._told[question.name], width)
            if self._used(record) >= self.questions:
                return NO_MORE
            if self._scheme.first is not None and not any(entry.kind == PLANNED for entry in record.entries):
                self._plan(self._scheme.first, record)
                continue
            try:
                held = self._pay_and_tell(question, record)
            except BudgetExceeded:
                return NO_MORE
            if held is not None and held["question"] == question.name:
                return self._answer(int(held["total"]), width)

    def promise(self, record: Record) -> str:
        """The tolerance; a wider plan is refused."""
        return self.frame.promise()

    def forecast(self, record: Record) -> int:
        """How many planned questions are left."""
        return max(0, self.questions - self._used(record))

    def describe(self, record: Record) -> list[tuple[str, str]]:
        """The plan, the width, the price."""
        width = self.width(record.account.terms)
        return [
            ("answers", f"private, {self.forecast(record)} of {self.questions} planned questions left"),
            ("interval", f"{self.frame.reach(width)} around every answer, {float(self.frame.confidence):.0%} for all"),
            ("privacy", f"{record.account.spent} of {record.account.terms.cap} spent"),
        ]

    def _allowed(self, record: Record) -> float:
        """The half-width, once everything public has been checked."""
        if not self._source.secure and record.account.durable:
            raise InsecureNoise(f"{self._source.name} protects nobody and may only spend an account on ':memory:'.")
        return self.admit(record.account.terms)

    def admit(self, terms: Terms) -> float:
        """The half-width on such an account; refused where it is more than the tolerance."""
        width = self.width(terms)
        if width > self.frame.tolerance:
            raise InvalidTask(
                f"{self.questions} private answers on {self.frame.rows} rows are certain to within ±{width:.4g} only, and "
                f"the tolerance is {float(self.frame.tolerance):.4g}. Plan fewer questions or a wider tolerance; and give "
                "this holdout an account of its own: what an account may spend on other things widens the interval."
            )
        return width

    def _pay_and_tell(self, question: Question, record: Record) -> Mapping[str, Any] | None:
        """One entry, charged and claimed; None when someone else's entry came first."""
        terms, event = record.account.terms, self._scheme.each
        loss = Loss.zero(terms.currency) if event is None else price(event, terms)
        entry = record.add(PAID, loss, event or _COVERED)
        if entry is None:
            record.refresh()
            return None
        noised = self._scheme.noised(question.total(), self._source)
        total = min(max(noised, 0), self.frame.whole)
        return record.claim(entry, {"question": question.name, "total": total})

    def _plan(self, event: Event, record: Record) -> None:
        """Pay for all questions with the whole account, so that nothing else is ever told about these rows by it."""
        terms = record.account.terms
        cost = price(event, terms)
        if not 50 * (terms.cap.amount - cost.amount) <= cost.amount:
            raise InvalidTask(
                f"bounded noise takes its account whole, or its intervals would not hold: this account has {terms.cap} "
                f"and the answers cost {cost}. Open one for this holdout alone, or use noise='gaussian'."
            )
        entry = record.add(PLANNED, terms.cap if cost <= terms.cap else cost, event)
        if entry is None:
            record.refresh()
        else:
            record.claim(entry, {"planned": self.questions})

    def _catch_up(self, record: Record) -> None:
        if not record.current():
            record.refresh()
            self._read = 0
        for entry in record.entries[self._read :]:
            if entry.kind == PAID and entry.held is not None:
                self._told[str(entry.held["question"])] = int(entry.held["total"])
        self._read = len(record.entries)

    def _used(self, record: Record) -> int:
        return sum(entry.kind == PAID for entry in record.entries)

    def _answer(self, total: int, width: float) -> Answer:
        value = total / self.frame.whole
        return self.frame.answer(value, value - width, value + width, PAID)


def _scheme(frame: Frame, questions: int, epsilon: Number | None, delta: Fraction, noise: str) -> Scheme:
    if noise == "gaussian":
        return _normal(frame, questions, delta, None if epsilon is None else positive(epsilon, "epsilon"))
    if noise != "bounded":
        raise InvalidTask(f"noise must be 'gaussian' or 'bounded'; got {noise!r}.")
    if epsilon is not None:
        raise InvalidTask("bounded noise is chosen by the tolerance, and its epsilon follows; leave epsilon out.")
    return _bounded(frame, questions, delta)


_normal = lru_cache(maxsize=64)(Normal.narrowest)
_bounded = lru_cache(maxsize=64)(Bounded.narrowest)
