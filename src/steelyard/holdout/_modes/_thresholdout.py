"""Thresholdout as it is proved: a guess is handed back unless the holdout, noisily compared, contradicts it.

The guess plays the part of the training mean. A secret noisy threshold is drawn; each question's distance from its
guess is compared with it under fresh noise; when it is beyond, the holdout's own value is given under a third noise,
one of ``budget`` paid answers is used up and a new threshold is drawn (Dwork et al. 2015). All in whole numbers.
Law: charged in full before the first question. The thresholds live in this process alone: a restart ends the row of
answers, and a new row is a new charge. Proof: docs/proofs/thresholdout.md.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock
from typing import Any, NoReturn

from steelyard.accounting import price
from steelyard.errors import BudgetExceeded, InvalidTask, OurBug
from steelyard.holdout import _theorems as theorems
from steelyard.holdout._answer import FREE, NO_MORE, PAID, Answer
from steelyard.holdout._intervals import read_size, read_whole
from steelyard.holdout._modes import Frame, NoisyMode, Query
from steelyard.holdout._record import HoldoutEntry, Record
from steelyard.holdout._transfer import account_distance, check_rows, shared_width
from steelyard.mechanisms import AboveThreshold, Laplace, Questions
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Neighbours, Number, Terms, Unit, positive, probability

_ROW = "row"


@dataclass(frozen=True)
class Thresholdout:
    """The public parameters: n rows, each worth 0 to ``steps`` steps, and noise in parts of the whole score.

    ``sigma`` is the scale of a paid answer's noise; a threshold's is twice, a comparison's four times as wide. What the
    published theorems say of these parameters is asked of them, too; the tau and beta there are ``tolerance`` and
    ``beta``.

    >>> Thresholdout(10_000, budget=5, threshold="0.04", sigma="0.01").epsilon
    Fraction(1, 10)
    >>> round(Thresholdout.rows_needed(budget=1, questions=10_000, tolerance=0.05, beta=0.05) / 1e6, 2)
    8.35
    """

    n: int
    budget: int
    threshold: Number
    sigma: Number
    steps: int = 1

    def __post_init__(self) -> None:
        for name in ("n", "budget", "steps"):
            read_whole(getattr(self, name), name)
        for name in ("threshold", "sigma"):
            object.__setattr__(self, name, read_size(getattr(self, name), name))

    @classmethod
    def published(
        cls, n: int, budget: int, questions: int, tolerance: Number, beta: Number, steps: int = 1
    ) -> Thresholdout:
        """Theorem 3.3's threshold, 3/4 of the tolerance, and its noise, the tolerance over 96 ln(4 questions/beta)."""
        wanted = read_size(tolerance, "tolerance")
        divisor = theorems.noise_divisor(read_whole(questions, "questions"), _read_goal(wanted, beta)[1])
        return cls(n, budget, wanted * 3 / 4, wanted / Fraction(divisor).limit_denominator(1000), steps)

    @staticmethod
    def rows_needed(budget: int, questions: int, tolerance: Number, beta: Number) -> float:
        """Theorem 3.3: the rows at which all answers are within the tolerance, fewer than ``budget`` guesses being off."""
        counts = read_whole(budget, "budget"), read_whole(questions, "questions")
        return theorems.rows_needed(*counts, *_read_goal(tolerance, beta))

    def rows_pure(self, tolerance: Number, beta: Number) -> float:
        """n0, by Lemma 3.2 (1) and Corollary 2.3.1: the rows for this budget and noise, whatever n is."""
        return theorems.rows_pure(self.budget, float(self.sigma), *_read_goal(tolerance, beta))

    def rows_approximate(self, tolerance: Number, beta: Number) -> float:
        """n1, by Lemma 3.2 (2) and Theorem 2.4: the rows for this budget and noise, whatever n is."""
        return theorems.rows_approximate(self.budget, float(self.sigma), *_read_goal(tolerance, beta))

    @property
    def scale(self) -> Fraction:
        """The scale of a paid answer's noise, in steps."""
        return Fraction(self.sigma) * self.n * self.steps

    @property
    def level(self) -> int:
        """The threshold, in steps."""
        return round(Fraction(self.threshold) * self.n * self.steps)

    @property
    def comparison(self) -> AboveThreshold:
        """The comparisons up to one paid answer."""
        return AboveThreshold(self.steps, 2 * self.scale, 4 * self.scale, 1, neighbours=Neighbours.REPLACE)

    @property
    def reply(self) -> Laplace:
        """The noise of one paid answer."""
        return Laplace(self.steps, self.scale, Neighbours.REPLACE)

    @property
    def epsilon(self) -> Fraction:
        """The exact pure epsilon of the whole row of answers: 2 steps/scale for each paid one."""
        return self.budget * (self.comparison.epsilon + self.reply.epsilon)

    def epsilon_at(self, delta: Number) -> float:
        """Lemma 3.2 (2): sqrt(32 B ln(2/delta)) / (sigma n) at this delta, or ``epsilon`` where that is less.

        It holds where B (2 / (sigma n))^2 <= 8 ln(2/delta), which the lemma does not ask. Gaussian accounts pay less.
        """
        depth = math.log(2) - theorems.logarithm(positive(probability(delta, "delta"), "delta"))
        step = 2 / (float(self.sigma) * self.n)
        covered = step**2 * self.budget <= 8 * depth
        return min(float(self.epsilon), math.sqrt(8 * self.budget * depth) * step if covered else math.inf)

    @property
    def event(self) -> Event:
        """What the whole row of answers is charged for, before the first."""
        return Event.of(
            "thresholdout", Neighbours.REPLACE, sensitivity=self.steps, scale=self.scale, budget=self.budget
        )

    def start(self, noise: Noise) -> ThresholdoutAnswers:
        """Draw the first threshold and wait for questions."""
        return ThresholdoutAnswers(self, noise)


class ThresholdoutAnswers:
    """One running row of answers; like the comparisons inside it, it can be neither copied, stored nor forked."""

    def __init__(self, plan: Thresholdout, noise: Noise) -> None:
        self._plan, self._noise = plan, noise
        self._left = plan.budget
        self._lock = Lock()
        self._questions: Questions = plan.comparison.start(plan.level, noise)

    @property
    def left(self) -> int:
        """How many paid answers remain; a function of the answers given, so public."""
        return self._left

    def answer(self, total: int, guess: int) -> tuple[int, bool]:
        """The guess and False, or a noisy total and True (paid); both in steps.

        *Privacy:* all answers together are covered by the one charge made at the start.
        """
        with self._lock:
            if self._left == 0:
                raise BudgetExceeded("all paid answers are given, and with them the last free one.")
            whole = self._plan.n * self._plan.steps
            held, hoped = min(max(total, 0), whole), min(max(guess, 0), whole)
            if not self._questions.above(abs(held - hoped)):
                return hoped, False
            self._left -= 1
            noisy = self._plan.reply.release([held], self._noise)[0]
            if self._left:
                self._questions = self._plan.comparison.start(self._plan.level, self._noise)
            return min(max(noisy, 0), whole), True

    def __reduce__(self) -> NoReturn:
        raise OurBug("a running row of answers holds a secret threshold; it can be neither copied nor stored.")


def _read_goal(tolerance: Number, beta: Number) -> tuple[float, float]:
    return float(read_size(tolerance, "tolerance")), float(read_size(probability(beta, "beta"), "beta"))


def noise_bound(plan: Thresholdout, questions: int, rows: int, beta: float) -> float:
    """How far answers may be from their posterior means, all at once but for beta, over ``rows`` rows of answers.

    A free answer is off by the threshold and two noises, a paid one by its own. All noises together exceed
    level + 2s (z + ln B) + 4s (z + ln m) with probability at most 3c e^-z; the mean of the worst beta part follows.
    """
    s = float(plan.scale)
    tail = 3 * 2 / (1 + math.exp(-1 / s))
    spread = 2 * math.log(plan.budget * rows) + 4 * math.log(questions) + 6 * (math.log(tail / beta) + 1)
    return (plan.level + s * spread) / (plan.n * plan.steps) * (1 + 1e-12)


class ClassicMode(NoisyMode):
    """The mode "classic": Thresholdout with its published noise, and with the interval that it really certifies.

    ``budget`` paid answers among at most ``questions`` in each row of answers, and the interval covers as many rows as
    the account can pay for; ``threshold`` and ``sigma`` default to the published theorem's (3/4 of the tolerance; the
    tolerance over 96 ln(4 questions / beta)). A restart ends the row of answers for good.
    """

    kinds: tuple[str, ...] = (_ROW,)

    def __init__(
        self,
        frame: Frame,
        budget: int = 1,
        questions: int = 1000,
        threshold: Number | None = None,
        sigma: Number | None = None,
        source: Noise | None = None,
    ) -> None:
        super().__init__(frame, questions, source)
        usual = Thresholdout.published(frame.rows, budget, questions, frame.tolerance, frame.beta, frame.scale)
        level = usual.threshold if threshold is None else positive(threshold, "threshold") / frame.upper
        scale = usual.sigma if sigma is None else positive(sigma, "sigma") / frame.upper
        self.plan = replace(usual, threshold=level, sigma=scale)
        self._running: tuple[HoldoutEntry, ThresholdoutAnswers] | None = None
        self._process = os.getpid()
        self._told: dict[str, tuple[int, bool]] = {}
        self._read = 0

    def terms(self) -> dict[str, Any]:
        """A pure account of this holdout's rows that pays for one row of answers."""
        epsilon = Fraction(math.ceil(self.plan.epsilon * MICRO), MICRO)
        return {"unit": Unit("rows", None, Neighbours.REPLACE, self.frame.rows), "epsilon": epsilon}

    def admit(self, terms: Terms) -> None:
        """Refuse an account that hides anything but one of these rows; any width is taken, and told."""
        self.width(terms)

    def width(self, terms: Terms) -> float:
        """What is certified, whatever the tolerance; 1 means nothing is."""
        check_rows(terms, self.frame.rows)
        cost = price(self.plan.event, terms)
        possible = max(1, terms.cap.amount // cost.amount)
        return shared_width(
            lambda part: noise_bound(self.plan, self.questions * possible, possible, part),
            lambda part: account_distance(terms, part),
            float(self.frame.beta),
        )

    def check(self, query: Query, record: Record) -> Answer:
        """The guess, free, or the score with noise, paid; refused once the budget or the process has ended."""
        if query.guess is None:
            raise InvalidTask(
                "mode 'classic' compares a guess with the holdout; give guess=, such as a training score."
            )
        width, guess = self.width(record.account.terms), round(query.guess * self.frame.whole)
        self._catch_up(record)
        if query.name not in self._told:
            if len(self._told) >= self.questions:
                return NO_MORE
            try:
                entry, running = self._row(record)
            except BudgetExceeded:
                return NO_MORE
            if running.left == 0:
                return NO_MORE
            self._learn(record.note(entry, lambda _: _note(query.name, *running.answer(query.total(), guess))))
        total, paid = self._told[query.name]
        return self._answer(total, width, PAID if paid else FREE)

    def promise(self, record: Record) -> str:
        """The interval that is certified, which the tolerance is not: that only sets the threshold and the noise."""
        frame = self.frame
        width, sure = self.width(record.account.terms), f"with confidence {float(frame.confidence):g}"
        told = f"{frame.reach(width)} {sure}" if width < 1 else "nothing about how near answers are"
        return f"{told} (a tolerance of {float(frame.tolerance * frame.upper):.4g} sets the noise, and is not promised)"

    def forecast(self, record: Record) -> int:
        """How many paid answers are left in this process."""
        if self._running is not None and self._process == os.getpid():
            return self._running[1].left
        cost = price(self.plan.event, record.account.terms)
        return self.plan.budget if cost <= record.account.remaining else 0

    def describe(self, record: Record) -> list[tuple[str, str]]:
        """What is left, and the price."""
        told = f"Thresholdout, {self.forecast(record)} of {self.plan.budget} paid answers left"
        return [("answers", told), self._price_told(record)]

    def _catch_up(self, record: Record) -> None:
        """Learn what earlier rows of answers said, so that it is told again for nothing."""
        if not record.current():
            record.refresh()
        for entry in record.entries[self._read :]:
            for note in record.notes(entry):
                self._learn(note)
        self._read = len(record.entries)

    def _learn(self, note: Mapping[str, Any]) -> None:
        if "question" in note:  # an answer that failed is told to nobody
            self._told[str(note["question"])] = int(note["total"]), bool(note["paid"])

    def _row(self, record: Record) -> tuple[HoldoutEntry, ThresholdoutAnswers]:
        """The row of answers of this process: charged and claimed before its first threshold is drawn."""
        if self._process != os.getpid():  # a row belongs to the process that began it, and a fork begins its own
            self._running, self._process = None, os.getpid()
        while self._running is None:
            terms, token = record.account.terms, secrets.token_hex(16)
            entry = record.add(_ROW, price(self.plan.event, terms), self.plan.event)
            if entry is not None and record.claim(entry, {"row": token})["row"] == token:
                self._running = entry, self.plan.start(self.source)
            else:
                record.refresh()
        return self._running


def _note(question: str, total: int, paid: bool) -> dict[str, Any]:
    return {"question": question, "total": total, "paid": paid}
