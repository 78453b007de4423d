"""Thresholdout: the exact loss of its rows of answers, the order of its draws, and the twins that circulate."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from papers.thresholdout_theory import certified_answers
from steelyard.accounting._gaussian import mu_cap
from steelyard.accounting._prices import price
from steelyard.accounting._pure import pure_to_mu
from steelyard.errors import (
    BudgetExceeded,
    InsecureNoise,
    InvalidTask,
    NeighbourMismatch,
    OurBug,
    TableError,
    UnitMismatch,
)
from steelyard.holdout._modes import Frame, Query
from steelyard.holdout._modes._thresholdout import ClassicMode, Thresholdout, noise_bound
from steelyard.holdout._record import Record
from steelyard.ledger import Account, open_account
from steelyard.mechanisms import AboveThreshold, Laplace
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import Loss, Neighbours, Terms, rows

PLAN = Thresholdout(100, budget=2, threshold="0.04", sigma="0.02")  # in steps: level 4, scales 4, 8 and 2
FREE = None
Shown = int | None


@dataclass
class Recorder:
    """Test noise that writes down the scale of every Laplace draw."""

    inner: TestNoise = field(default_factory=lambda: TestNoise(5))
    scales: list[Fraction] = field(default_factory=list)
    name: str = "recorder"
    secure: bool = False

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        self.scales += [scale] * size
        return self.inner.laplace(scale, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Twin:
    """Thresholdout written out once more, with what circulates as an option."""

    def __init__(self, plan: Thresholdout, noise: Any, *, refresh: str = "redraw", budget: bool = True) -> None:
        self.plan, self.noise, self.refresh, self.left = plan, noise, refresh, plan.budget
        self.budget = budget
        self.secret = plan.level + noise.laplace(2 * plan.scale, 1)[0]

    def answer(self, total: int, guess: int) -> tuple[int, bool]:
        if self.left == 0 and self.budget:
            raise BudgetExceeded("gone")
        if abs(total - guess) + self.noise.laplace(4 * self.plan.scale, 1)[0] < self.secret:
            return guess, False
        self.left -= 1
        shown = total + self.noise.laplace(self.plan.scale, 1)[0]
        if self.refresh == "redraw" and (self.left or not self.budget):
            self.secret = self.plan.level + self.noise.laplace(2 * self.plan.scale, 1)[0]
        elif self.refresh == "zero":
            self.secret = self.plan.level
        return min(max(shown, 0), self.plan.n), True


def draws(start: Callable[[Any], Any]) -> tuple[list[bool], list[Fraction]]:
    """Ask far questions until refused (at most eight); which were paid, and every scale that was drawn."""
    noise = Recorder()
    running, paid = start(noise), []
    for _ in range(8):
        try:
            paid.append(running.answer(90, 0)[1])
        except BudgetExceeded:
            break
    return paid, noise.scales


def in_order(paid: list[bool], scales: list[Fraction]) -> bool:
    """A threshold before the first question and after each paid answer but the last; refused after the budget."""
    plan, expected, used = PLAN, [2 * PLAN.scale], 0
    for each in paid:
        expected.append(4 * plan.scale)
        if each:
            used += 1
            expected.append(plan.scale)
            expected += [2 * plan.scale] if used < plan.budget else []
    return scales == expected and used <= plan.budget


def test_thresholds_comparisons_and_answers_are_drawn_as_proved() -> None:
    assert in_order(*draws(PLAN.start))
    assert in_order(*draws(lambda noise: Twin(PLAN, noise)))


@pytest.mark.parametrize("broken", [{"refresh": "zero"}, {"refresh": "reuse"}, {"budget": False}])
def test_a_zero_or_reused_threshold_and_a_missing_budget_are_caught(broken: dict[str, Any]) -> None:
    assert not in_order(*draws(lambda noise: Twin(PLAN, noise, **broken)))


def mass(x: int, scale: float) -> float:
    r = math.exp(-1 / scale)
    return (1 - r) / (1 + r) * r ** abs(x)


def tail(x: int, scale: float) -> float:
    """P[noise >= x]."""
    r = math.exp(-1 / scale)
    return r**x / (1 + r) if x >= 1 else 1 - r ** (1 - x) / (1 + r)


def chance(plan: Thresholdout, gaps: tuple[int, ...], shown: tuple[Shown, ...], *, zero: bool = False) -> float:
    """The exact probability of a row of answers (None: free; a number: the value shown, before it is held in range).

    ``zero``: the threshold has no noise from the second on, as in one published implementation.
    """
    scale, at, total, first = float(plan.scale), 0, 1.0, True
    while at < len(shown):
        end = next((i for i in range(at, len(shown)) if shown[i] is not FREE), len(shown) - 1)
        span = [0] if zero and not first else range(-math.ceil(40 * scale), math.ceil(40 * scale) + 1)
        total *= math.fsum(
            (1.0 if zero and not first else mass(r, 2 * scale))
            * math.prod(step(plan, gaps[i], shown[i], plan.level + r) for i in range(at, end + 1))
            for r in span
        )
        at, first = end + 1, False
    return total


def step(plan: Thresholdout, gap: int, shown: Shown, secret: int) -> float:
    above = tail(secret - abs(gap), 4 * float(plan.scale))
    return 1 - above if shown is None else above * mass(shown - gap, float(plan.scale))


def loss(plan: Thresholdout, moves: tuple[int, ...], base: tuple[int, ...], rows_of: Any, **twin: bool) -> float:
    """The largest log-ratio over rows of answers when one row moves each question's total by ``moves``."""
    moved = tuple(b + m for b, m in zip(base, moves, strict=True))
    ratios = [(chance(plan, base, shown, **twin), chance(plan, moved, shown, **twin)) for shown in rows_of]
    return max(abs(math.log(a / b)) for a, b in ratios if min(a, b) > 0)


def test_no_row_of_answers_loses_more_than_the_price() -> None:
    plan = Thresholdout(20, budget=2, threshold="0.05", sigma="0.1")
    every = [row for row in product((FREE, -3, 4), repeat=3) if sum(s is not FREE for s in row) <= 2]
    worst = max(loss(plan, moves, (0, 3, -2), every) for moves in product((-1, 1), repeat=3))
    assert worst <= float(plan.epsilon) + 1e-9
    assert worst > 0.5 * float(plan.epsilon)


def test_a_threshold_without_noise_after_a_refresh_is_caught() -> None:
    plan = Thresholdout(20, budget=2, threshold="0.05", sigma="0.1")
    row: tuple[Shown, ...] = (0, *[FREE] * 30, 0)
    base, moves = (0, *[1] * 30, 0), (1, *[1] * 30, -1)
    assert loss(plan, moves, base, [row]) <= float(plan.epsilon) + 1e-9
    assert loss(plan, moves, base, [row], zero=True) > 1.5 * float(plan.epsilon)


def test_an_unbounded_question_is_caught_and_ours_is_held_in_range() -> None:
    plan = Thresholdout(20, budget=1, threshold="0.05", sigma="0.1")
    assert loss(plan, (40,), (0,), [(0,)]) > float(plan.epsilon)  # a row worth 40 steps, as x times y may be
    noise = TestNoise(1)
    assert all(0 <= plan.start(noise).answer(10**30, 0)[0] <= 20 for _ in range(50))


def test_the_price_is_two_over_the_scale_for_each_paid_answer() -> None:
    plan = Thresholdout(1000, budget=7, threshold="0.04", sigma="0.05")
    unit = rows(neighbours="replace", n=1000)
    assert plan.epsilon == 7 * Fraction(2, 50)
    assert price(plan.event, Terms(unit, Loss.pure(1), Fraction(1))) == Loss.pure("0.28")
    parts = [AboveThreshold(1, Fraction(100), Fraction(200), neighbours=Neighbours.REPLACE).epsilon]
    parts.append(Laplace(1, Fraction(50), Neighbours.REPLACE).epsilon)
    assert sum(parts) * 7 == plan.epsilon
    wide = Terms(unit, mu_cap(Fraction(1), Fraction(1, 10**6)), Fraction(1), Fraction(1, 10**6))
    assert price(plan.event, wide).amount == 7 * pure_to_mu(Fraction(1, 25)) ** 2
    with pytest.raises(NeighbourMismatch):
        price(plan.event, Terms(rows(), Loss.pure(1), Fraction(1)))


def test_a_guess_that_is_right_is_free_and_one_that_is_wrong_is_answered() -> None:
    plan = Thresholdout(10**6, budget=3, threshold="0.04", sigma="0.0001")
    running = plan.start(TestNoise(3))
    assert [running.answer(700_000, 690_000) for _ in range(50)] == [(690_000, False)] * 50
    for left in (2, 1, 0):
        value, paid = running.answer(700_000, 500_000)
        assert paid
        assert abs(value - 700_000) < 2_000
        assert running.left == left
    with pytest.raises(BudgetExceeded):
        running.answer(700_000, 700_000)


def test_a_running_row_of_answers_can_be_neither_copied_nor_stored() -> None:
    running = PLAN.start(TestNoise(1))
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(OurBug):
            attempt(running)


def test_parameters_that_promise_nothing_are_refused() -> None:
    for given in ({"n": 0}, {"budget": 0}, {"sigma": 0}, {"threshold": -1}, {"steps": 0}, {"budget": True}):
        with pytest.raises(InvalidTask):
            Thresholdout(**{"n": 10, "budget": 1, "threshold": "0.1", "sigma": "0.1", **given})  # type: ignore[arg-type]


NUMBER = count()
MANY = 10**8


def classic(n: int = MANY, **given: Any) -> ClassicMode:
    frame = Frame("h", n, 1, Fraction(1), Fraction("0.05"), Fraction("0.95"))
    return ClassicMode(frame, **{"source": TestNoise(next(NUMBER)), **given})


def record_of(mode: ClassicMode, account: Account | None = None) -> Record:
    account = account or open_account(":memory:", f"classic-{next(NUMBER)}", **mode.terms())
    record = Record(account, "h", b"labels", mode)
    record.open({"holdout": "h", "rows": mode.frame.rows, "mode": "classic"})
    return record


def asked(name: str, score: str, guess: str, n: int = MANY) -> Query:
    return Query(name, Fraction(guess), lambda: int(Fraction(score) * n))


def test_the_mode_answers_free_or_paid_and_ends_with_its_budget() -> None:
    mode = classic(budget=2, questions=100)
    record = record_of(mode)
    kinds = [mode.check(asked(str(i), "0.8", "0.79"), record).kind for i in range(20)]
    assert kinds == ["free"] * 20
    surprise = mode.check(asked("a", "0.8", "0.5"), record)
    assert (surprise.kind, round(float(surprise.value or 0), 3)) == ("paid", 0.8)
    assert float(surprise.low or 1) < 0.8 < float(surprise.high or 0)
    assert mode.check(asked("b", "0.8", "0.5"), record).kind == "paid"
    assert mode.check(asked("c", "0.8", "0.8"), record).kind == "refused"
    assert mode.check(Query("a", Fraction(1, 2), never), record) == surprise
    assert record.account.remaining.amount == 0


def never() -> int:
    raise AssertionError("the labels were read")


def test_the_whole_price_is_charged_before_the_labels_are_read() -> None:
    mode = classic(budget=3)
    record = record_of(mode)
    seen: list[Loss] = []

    def total() -> int:
        seen.append(record.account.spent)
        return 5

    mode.check(Query("a", Fraction(0), total), record)
    assert seen == [price(mode.plan.event, record.account.terms)]


def test_a_restart_ends_the_row_and_keeps_what_was_told(tmp_path: Path) -> None:
    mode = classic(budget=3, source=None)
    account = open_account(tmp_path / "ledger.db", "classic", **mode.terms())
    record = record_of(mode, account)
    told = mode.check(asked("a", "0.8", "0.5"), record)
    again = classic(budget=3, source=None)
    other = record_of(again, account)
    assert again.check(Query("a", Fraction(1, 2), never), other) == told
    assert again.check(asked("b", "0.8", "0.8"), other).kind == "refused"
    assert again.forecast(other) == 0
    assert mode.check(asked("b", "0.8", "0.8"), record).kind == "free"


def test_a_fork_takes_no_answer_from_the_row_of_its_parent(tmp_path: Path) -> None:
    mode = classic(budget=3, source=None)
    record = record_of(mode, open_account(tmp_path / "ledger.db", "classic", **mode.terms()))
    assert mode.check(asked("a", "0.8", "0.5"), record).kind == "paid"
    child = os.fork()
    if child == 0:  # no budget is left for a row of its own
        kinds = [mode.check(asked(f"child {i}", "0.8", "0.5"), record).kind for i in range(3)]
        os._exit(0 if kinds == ["refused"] * 3 and mode.forecast(record) == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [mode.check(asked(f"parent {i}", "0.8", "0.5"), record).kind for i in range(3)] == [
        "paid",
        "paid",
        "refused",
    ]


def test_a_roomier_account_pays_for_a_new_row_and_widens_the_intervals() -> None:
    mode = classic(budget=1)
    own = record_of(mode)
    unit = rows(neighbours="replace", n=MANY)
    roomy = open_account(":memory:", f"roomy-{next(NUMBER)}", unit=unit, epsilon=3 * mode.terms()["epsilon"])
    assert mode.width(own.account.terms) < mode.width(roomy.terms)
    for _ in range(3):
        restarted = classic(budget=1)
        assert restarted.check(asked(str(next(NUMBER)), "0.8", "0.5"), record_of(restarted, roomy)).kind == "paid"
    last = classic(budget=1)
    assert last.check(asked("last", "0.8", "0.5"), record_of(last, roomy)).kind == "refused"


def test_the_planned_number_of_questions_is_not_exceeded() -> None:
    mode = classic(budget=2, questions=5)
    record = record_of(mode)
    kinds = [mode.check(asked(str(i), "0.8", "0.8"), record).kind for i in range(7)]
    assert kinds == ["free"] * 5 + ["refused"] * 2


def test_an_answer_that_fails_is_stored_as_a_failure_and_tells_no_reason() -> None:
    mode = classic(budget=2, source=ExactNoise())
    record = record_of(mode)
    with pytest.raises(TableError) as refusal:
        mode.check(Query("a", Fraction(1, 2), never), record)
    assert "labels were read" not in str(refusal.value)
    assert mode.check(asked("b", "0.8", "0.8"), record).kind == "free"
    assert {"failed": True} in record.notes(record.entries[1])


def test_it_says_how_little_it_certifies() -> None:
    mode = classic(1_000, budget=1)
    record = record_of(mode)
    assert mode.promise(record).startswith("nothing about how near")
    answer = mode.check(asked("a", "0.8", "0.5", 1_000), record)
    assert (answer.low, answer.high) == (0.0, 1.0)
    counts = [certified_answers(n, 1000, 0.05, 0.05) for n in (10**4, 10**6, 10**7, 10**8)]
    assert counts[0] == 0 < counts[2] < counts[3]
    assert counts == sorted(counts)


@pytest.mark.parametrize("tolerance", ["0.01", "0.05", "0.3"])
@pytest.mark.parametrize(("budget", "questions"), [(1, 1), (1, 10_000), (50, 50), (50, 10**9)])
def test_what_the_published_theorem_promises_the_mode_promises_too(tolerance: str, budget: int, questions: int) -> None:
    n = math.ceil(Thresholdout.rows_needed(budget, questions, tolerance, "0.05"))
    mode = ClassicMode(Frame("h", n, 1, Fraction(1), Fraction(tolerance), Fraction("0.95")), budget, questions)
    assert mode.width(open_account(":memory:", f"classic-{next(NUMBER)}", **mode.terms()).terms) <= float(tolerance)


def test_the_bound_on_noise_holds_in_simulation() -> None:
    """The largest error over many answers, averaged over its worst twentieth, stays below the bound."""
    plan = Thresholdout(10_000, budget=5, threshold="0.01", sigma="0.001")
    noise, worst = TestNoise(11), []
    for _ in range(2_000):
        gamma = max(abs(x) for x in noise.laplace(2 * plan.scale, 5))
        eta = max(abs(x) for x in noise.laplace(4 * plan.scale, 50))
        worst.append((plan.level + gamma + eta) / 10_000)
    mean = sum(sorted(worst)[-100:]) / 100
    assert mean < noise_bound(plan, 50, 1, 0.05) < 2.5 * mean


def test_the_mode_refuses_what_it_cannot_answer(tmp_path: Path) -> None:
    mode = classic()
    with pytest.raises(InvalidTask, match="give guess="):
        mode.check(Query("a", None, never), record_of(mode))
    with pytest.raises(UnitMismatch):
        mode.check(
            Query("a", Fraction(0), never),
            record_of(mode, open_account(":memory:", "rows", unit=rows(), epsilon=1)),
        )
    with pytest.raises(InsecureNoise):
        mode.check(
            Query("a", Fraction(0), never),
            record_of(mode, open_account(tmp_path / "ledger.db", "durable", **mode.terms())),
        )
    with pytest.raises(InvalidTask):
        classic(questions=0)
