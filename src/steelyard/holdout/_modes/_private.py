"""Answers that are private and valid at once, for holdouts whose rows are people.

Each answer is the score with noise: rounded normal noise charged answer by answer, or bounded noise charged for all
planned questions before the first. The charge buys privacy; by the transfer theorem the same noise also bounds how far
the population can be from any answer, however the questions were chosen, and that is the interval.
Law: charged before the labels are read, stored before it is told, told again for nothing; the number of questions is
fixed at the start and a refusal is for good. Proof: docs/proofs/private_holdout.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from steelyard.accounting import epsilon_of, mu_request, price, pure_to_mu
from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.holdout._answer import NO_MORE, PAID, Answer
from steelyard.holdout._modes import Frame, NoisyMode, Query
from steelyard.holdout._record import Record
from steelyard.holdout._transfer import account_distance, check_rows, design, noise_width, normal_design, normal_width
from steelyard.lazy import lazy
from steelyard.mechanisms import BoundedNoise, Gaussian, sigma_for
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Loss, Neighbours, Number, Terms, Unit, positive, probability

PLANNED = "planned"
_COVERED = Event("answer_of_a_plan", {}, Neighbours.REPLACE)  # has no price of its own: the plan has paid for it


@dataclass(frozen=True)
class NormalAnswers:
    """Rounded normal noise; ``epsilon`` at ``delta`` is shared evenly by the questions, and each pays for itself."""

    frame: Frame
    questions: int
    epsilon: Fraction
    delta: Fraction
    ahead = False

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
    def event(self) -> Event:
        """What one answer is charged for."""
        return self.mechanism.event

    def terms(self) -> dict[str, Any]:
        """The caps of an account that pays for exactly this."""
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
    def narrowest(cls, frame: Frame, questions: int, delta: Fraction, most: Fraction | None = None) -> NormalAnswers:
        """The epsilon (of at most ``most``) with the narrowest intervals: with less noise one overfits sooner."""
        best, _ = normal_design(frame.rows, questions, float(frame.beta), float(delta))
        epsilon = Fraction(max(1, math.ceil(epsilon_of(best, float(delta)) * 10**6)), 10**6)
        return cls(frame, questions, epsilon if most is None else min(epsilon, most), delta)


@dataclass(frozen=True)
class BoundedAnswers:
    """Noise that never exceeds its radius; all questions are paid for before the first."""

    frame: Frame
    law: BoundedNoise
    delta: Fraction
    ahead = True

    @property
    def event(self) -> Event:
        """What the whole conversation is charged for."""
        return self.law.event

    def terms(self) -> dict[str, Any]:
        """A Gaussian account that sets the failure aside."""
        return {"epsilon": self._promised, "delta": self.delta, "additive_delta": self.law.failure}

    @lazy
    def _promised(self) -> Fraction:
        """The epsilon of that account at its delta."""
        rest = self.delta - self.law.failure
        mu = Fraction(pure_to_mu(self.law.event.fraction("epsilon")), MICRO)
        return Fraction(math.ceil(epsilon_of(mu, float(rest)) * 10**6 + 1), 10**6)

    def width(self, terms: Terms) -> float:
        """The radius, and the distance that the conversation's own loss curve leaves (it takes the account whole)."""
        rounding = 0.0 if self.frame.scale == 1 else 1 / self.frame.rows
        return min(1.0, noise_width(self.law, float(self.frame.beta)) + rounding)

    def noised(self, total: int, noise: Noise) -> int:
        """A total, rounded down to whole rows (which a row moves by at most one), with bounded noise."""
        return self.law.release([total // self.frame.scale], noise)[0] * self.frame.scale

    @classmethod
    def narrowest(cls, frame: Frame, questions: int, delta: Fraction) -> BoundedAnswers:
        """The radius and power with the narrowest intervals."""
        found = design(frame.rows, questions, float(frame.beta), float(delta / 2))
        if found is not None:
            return cls(frame, replace(found.noise, failure=delta / 2), delta)
        raise InvalidTask(
            f"bounded noise for {questions} questions on {frame.rows} rows gives a row away with more than delta "
            f"{float(delta):g}; allow a larger delta, or use noise='gaussian'."
        )


class PrivateMode(NoisyMode):
    """The mode "private": ``questions`` answers that reveal little about any row and are valid for the population.

    ``noise`` is "gaussian" (pays as it goes) or "bounded" (pays at the start, narrower on many rows). What all answers
    cost together is chosen for the narrowest intervals; with "gaussian", ``epsilon`` is the most it may be at
    ``delta``.
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
        super().__init__(frame, questions, source)
        self._scheme = _scheme(frame, questions, epsilon, probability(delta, "delta"), noise)
        self._told: dict[str, int] = {}
        self._read = 0

    def terms(self) -> dict[str, Any]:
        """An account of this holdout's rows, large enough for every planned question."""
        return {"unit": Unit("rows", None, Neighbours.REPLACE, self.frame.rows), **self._scheme.terms()}

    def width(self, terms: Terms) -> float:
        """Refused where the account hides anything but one of these rows."""
        check_rows(terms, self.frame.rows)
        return self._scheme.width(terms)

    def admit(self, terms: Terms) -> None:
        """Refuse an account on which the half-width is more than the tolerance."""
        self._allowed(terms)

    def check(self, query: Query, record: Record) -> Answer:
        """Charge, answer with noise, store, tell; a question asked before is told again for nothing."""
        width = self._allowed(record.account.terms)
        while True:
            self._catch_up(record)
            if query.name in self._told:
                return self._answer(self._told[query.name], width, PAID)
            if self._used(record) >= self.questions:
                return NO_MORE
            if self._scheme.ahead and not any(entry.kind == PLANNED for entry in record.entries):
                self._plan(record)
                continue
            try:
                self._pay(query, record)
            except BudgetExceeded:
                return NO_MORE

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
            self._price_told(record),
        ]

    def _allowed(self, terms: Terms) -> float:
        width = self.width(terms)
        if width > self.frame.tolerance:
            raise InvalidTask(
                f"{self.questions} private answers on {self.frame.rows} rows are certain to within ±{width:.4g} only, and "
                f"the tolerance is {float(self.frame.tolerance):.4g}. Plan fewer questions or a wider tolerance; and give "
                "this holdout an account of its own: what an account may spend on other things widens the interval."
            )
        return width

    def _pay(self, query: Query, record: Record) -> None:
        """One entry, charged and claimed, unless someone else's entry came first."""
        terms, scheme = record.account.terms, self._scheme
        entry = (
            record.add(PAID, Loss.zero(terms.currency), _COVERED)
            if scheme.ahead
            else record.add(PAID, price(scheme.event, terms), scheme.event)
        )

        def noised(noise: Noise) -> dict[str, Any]:
            total = scheme.noised(query.total(), noise)
            return {"question": query.name, "total": min(max(total, 0), self.frame.whole)}

        if entry is not None:
            record.claim(entry, noised)

    def _plan(self, record: Record) -> None:
        """Pay for all questions with the whole account, so that nothing else is ever told about these rows by it."""
        terms, event = record.account.terms, self._scheme.event
        cost = price(event, terms)
        if not 50 * (terms.cap.amount - cost.amount) <= cost.amount:
            raise InvalidTask(
                f"bounded noise takes its account whole, or its intervals would not hold: this account has {terms.cap} "
                f"and the answers cost {cost}. Open one for this holdout alone, or use noise='gaussian'."
            )
        entry = record.add(PLANNED, terms.cap if cost <= terms.cap else cost, event)
        if entry is not None:
            record.claim(entry, {"planned": self.questions})

    def _catch_up(self, record: Record) -> None:
        """Learn what was told, by whichever process; an answer that failed is told to nobody."""
        if not record.current():
            record.refresh()
            self._read = 0
        for entry in record.entries[self._read :]:
            if entry.kind == PAID and entry.held is not None and "question" in entry.held:
                self._told[str(entry.held["question"])] = int(entry.held["total"])
        self._read = len(record.entries)

    def _used(self, record: Record) -> int:
        return sum(entry.kind == PAID for entry in record.entries)


def _scheme(
    frame: Frame, questions: int, epsilon: Number | None, delta: Fraction, noise: str
) -> NormalAnswers | BoundedAnswers:
    if noise == "gaussian":
        return _normal(frame, questions, delta, None if epsilon is None else positive(epsilon, "epsilon"))
    if noise != "bounded":
        raise InvalidTask(f"noise must be 'gaussian' or 'bounded'; got {noise!r}.")
    if epsilon is not None:
        raise InvalidTask("bounded noise is chosen by the tolerance, and its epsilon follows; leave epsilon out.")
    return _bounded(frame, questions, delta)


_normal = lru_cache(maxsize=64)(NormalAnswers.narrowest)
_bounded = lru_cache(maxsize=64)(BoundedAnswers.narrowest)
