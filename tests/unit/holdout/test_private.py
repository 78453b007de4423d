"""PrivateMode checks: charged first, told once, within their intervals whoever asks, refused for good."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.accounting._prices import price
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InsecureNoise, InvalidTask, TableError, UnitMismatch
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._metrics import AbsoluteError, Accuracy, LogLoss
from steelyard.holdout._modes import Frame, Query
from steelyard.holdout._modes._private import BoundedAnswers, NormalAnswers, PrivateMode
from steelyard.holdout._record import Record
from steelyard.holdout._transfer import account_distance
from steelyard.ledger import Account, Ledger, open_account
from steelyard.mechanisms._observe import observing
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Terms, rows

NUMBER = count()
Labels = np.ndarray[Any, np.dtype[np.int8]]


def frame(n: int, tolerance: str = "0.1", scale: int = 1) -> Frame:
    return Frame("h", n, scale, Fraction(1), Fraction(tolerance), Fraction("0.95"))


def private(n: int, questions: int, tolerance: str = "0.1", **given: Any) -> PrivateMode:
    given = {"source": TestNoise(next(NUMBER)), **given}
    return PrivateMode(frame(n, tolerance), questions, **given)


def opened(mode: PrivateMode, where: str | Path = ":memory:", **terms: Any) -> Record:
    account = open_account(where, f"private-{next(NUMBER)}", **(terms or mode.terms()))
    return bound(mode, account)


def bound(mode: PrivateMode, account: Account) -> Record:
    record = Record(account, "h", b"labels", mode)
    record.open({"holdout": "h", "rows": mode.frame.rows, "mode": "private"})
    return record


def asked(name: str, total: int) -> Query:
    return Query(name, None, lambda: total)


def never() -> int:
    raise AssertionError("the labels were read")


KINDS = pytest.mark.parametrize("noise", ["gaussian", "bounded"])


@KINDS
def test_answers_lie_near_the_score_and_repeat_for_nothing(noise: str) -> None:
    mode = private(50_000, 5, noise=noise, delta="1e-4")
    record = opened(mode)
    first = mode.check(asked("a", 40_000), record)
    assert first.kind == "paid"
    assert float(first.low or 1) < 0.8 < float(first.high or 0)
    spent = record.account.spent
    assert mode.check(Query("a", None, never), record) == first
    assert record.account.spent == spent


@KINDS
def test_after_the_planned_questions_everything_is_refused_for_good(noise: str) -> None:
    mode = private(50_000, 3, noise=noise, delta="1e-4")
    record = opened(mode)
    kinds = [mode.check(asked(str(i), 100), record).kind for i in range(5)]
    assert kinds == ["paid"] * 3 + ["refused"] * 2
    assert mode.check(Query("x", None, never), record).value is None
    assert mode.check(Query("1", None, never), record).kind == "paid"
    assert mode.forecast(record) == 0


@KINDS
def test_the_charge_is_on_the_ledger_before_the_labels_are_read(noise: str) -> None:
    mode = private(50_000, 2, noise=noise, delta="1e-4")
    record = opened(mode)
    seen: list[Loss] = []

    def total() -> int:
        seen.append(record.account.spent)
        return 7

    mode.check(Query("a", None, total), record)
    assert seen == [record.account.spent]
    assert seen[0].amount > 0


@KINDS
def test_answers_survive_a_restart_and_another_process_adds_to_them(noise: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"noise": noise, "delta": "1e-4", "source": None}
    mode = private(50_000, 3, **given)
    record = opened(mode, tmp_path / "ledger.db")
    first = mode.check(asked("a", 30_000), record)
    again = private(50_000, 3, **given)
    other = bound(again, record.account)
    assert again.check(Query("a", None, never), other) == first
    second = again.check(asked("b", 10_000), other)
    assert mode.check(Query("b", None, never), record) == second
    assert [mode.check(asked(name, 1), record).kind for name in "cd"] == ["paid", "refused"]
    assert again.check(asked("e", 1), other).kind == "refused"


def test_a_charge_without_an_answer_uses_up_a_question() -> None:
    mode = private(50_000, 2)
    record = opened(mode)
    with pytest.raises(AssertionError):
        mode.check(Query("a", None, never), record)
    assert [mode.check(asked(name, 5), record).kind for name in "ab"] == ["paid", "refused"]


@KINDS
def test_an_answer_that_fails_uses_its_question_up_and_tells_no_reason(noise: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"noise": noise, "delta": "1e-4", "source": None}
    mode = private(50_000, 2, **given)
    record = opened(mode, tmp_path / "ledger.db")
    with pytest.raises(TableError) as refusal:
        mode.check(Query("a", None, never), record)
    assert "labels were read" not in str(refusal.value)
    assert refusal.value.__cause__ is refusal.value.__context__ is None
    again = private(50_000, 2, **given)
    other = bound(again, record.account)
    assert [again.check(asked(name, 5), other).kind for name in "ab"] == ["paid", "refused"]
    assert mode.check(Query("a", None, never), record).kind == "paid"


def test_normal_answers_cost_their_share_and_the_noise_is_what_was_charged() -> None:
    mode = private(50_000, 7)
    record = opened(mode)
    with observing() as seen:
        mode.check(asked("a", 123), record)
    assert [each.values for each in seen] == [(123,)]
    assert record.account.spent == price(seen[0].event, record.account.terms)
    cap = record.account.terms.cap.amount
    assert cap - 8 * 7 - math.isqrt(cap) <= 7 * record.account.spent.amount <= cap


def test_bounded_answers_are_paid_for_whole_before_the_first() -> None:
    mode = private(50_000, 4, noise="bounded", delta="1e-4")
    record = opened(mode)
    with observing() as seen:
        mode.check(asked("a", 123), record)
    cap = record.account.terms.cap
    assert record.account.spent == cap
    cost = price(seen[0].event, record.account.terms)
    assert cost <= cap
    assert cap.amount <= cost.amount * 1.02
    assert Ledger(record.account.location).verify().ok


def test_bounded_noise_refuses_an_account_it_would_not_fill() -> None:
    mode = private(50_000, 4, noise="bounded", delta="1e-4")
    record = opened(mode, **{**mode.terms(), "epsilon": 1})
    with pytest.raises(InvalidTask, match="takes its account whole"):
        mode.check(Query("a", None, never), record)
    small = opened(mode, **{**mode.terms(), "epsilon": "0.001"})
    with pytest.raises(BudgetExceeded):
        mode.check(Query("a", None, never), small)


def test_more_answers_than_the_tolerance_allows_are_refused_before_a_charge() -> None:
    mode = private(10_000, 10, "0.05")
    record = opened(mode)
    with pytest.raises(InvalidTask, match="Plan fewer questions"):
        mode.check(Query("a", None, never), record)
    assert record.account.spent.amount == 0


def test_accounts_of_another_unit_or_currency_are_refused() -> None:
    mode = private(50_000, 2)
    for unit in (rows(), rows(neighbours="replace", n=49_999)):
        record = opened(mode, unit=unit, epsilon="0.1", delta="1e-6")
        with pytest.raises(UnitMismatch):
            mode.check(Query("a", None, never), record)
    pure = opened_pure(mode)
    with pytest.raises(CurrencyMismatch):
        mode.check(Query("a", None, never), pure)


def opened_pure(mode: PrivateMode) -> Record:
    unit = rows(neighbours="replace", n=50_000)
    return bound(mode, open_account(":memory:", f"pure-{next(NUMBER)}", unit=unit, epsilon="0.01"))


def test_test_noise_may_not_spend_a_durable_account(tmp_path: Path) -> None:
    mode = private(50_000, 2)
    with pytest.raises(InsecureNoise):
        mode.check(Query("a", None, never), opened(mode, tmp_path / "ledger.db"))


def test_epsilon_is_a_ceiling_and_the_best_is_below_it() -> None:
    free, capped = NormalAnswers.narrowest(frame(100_000), 20, Fraction(1, 10**6)), private(100_000, 20, epsilon="0.01")
    assert Fraction(1, 100) < free.epsilon < 1
    assert capped.terms()["epsilon"] == Fraction(1, 100)
    assert private(100_000, 20, epsilon=1).terms()["epsilon"] == free.epsilon


def test_bounded_noise_is_narrower_for_many_questions_on_many_rows() -> None:
    n, questions, delta = 300_000, 1000, Fraction(1, 1000)
    unit = rows(neighbours="replace", n=n)
    normal, bounded = (
        NormalAnswers.narrowest(frame(n), questions, delta),
        BoundedAnswers.narrowest(frame(n), questions, delta),
    )
    account = open_account(":memory:", "normal", unit=unit, **normal.terms())
    assert bounded.width(account.terms) < normal.width(account.terms) < 0.1


def test_a_distance_covers_what_the_account_may_ever_spend() -> None:
    unit = rows(neighbours="replace", n=10)
    tight = open_account(":memory:", "tight", unit=unit, epsilon="0.1", delta="1e-6").terms
    loose = open_account(":memory:", "loose", unit=unit, epsilon="0.1", delta="0.01", additive_delta="0.001").terms
    assert account_distance(tight, 0.05) < account_distance(loose, 0.05)
    pure = Terms(unit, Loss.pure("0.1"), Fraction(1, 10))
    assert account_distance(pure, 0.05) == pytest.approx(math.tanh(0.025))


def hostile(check: Callable[[str, int], tuple[float, float] | None], labels: Labels, seed: int) -> bool:
    """Whether an interval missed 1/2 for a vote of lucky predictors, each told before it was weighted."""
    rng = np.random.default_rng(seed)
    votes = np.zeros(labels.size)
    for turn in count():
        last = rng.random() < 0.02
        predictor = votes > 0 if last else rng.integers(0, 2, labels.size) == 1
        told = check(f"{turn}", int(np.count_nonzero(predictor == (labels == 1))))
        if told is None:
            return False
        low, high = told
        if not low <= 0.5 <= high:
            return True
        votes += ((low + high) / 2 - 0.5) * (2 * predictor - 1)
    return False


def climbed(make: Callable[[int], Callable[[str, int], tuple[float, float] | None]], runs: int, n: int) -> int:
    missed = 0
    for seed in range(runs):
        labels = np.random.default_rng([seed, 9]).integers(0, 2, n).astype(np.int8)
        missed += hostile(make(seed), labels, seed)
    return missed


def ours(seed: int) -> Callable[[str, int], tuple[float, float] | None]:
    mode = private(4_000, 60, "0.3", source=TestNoise(seed))
    record = opened(mode)

    def check(name: str, total: int) -> tuple[float, float] | None:
        answer = mode.check(asked(name, total), record)
        return None if answer.low is None or answer.high is None else (answer.low, answer.high)

    return check


def without_noise(seed: int) -> Callable[[str, int], tuple[float, float] | None]:
    """The twin: exact scores, each with an interval that holds for one question, and no end."""
    return lambda name, total: None if int(name) > 3_000 else (total / 4_000 - 0.03, total / 4_000 + 0.03)


def test_no_interval_misses_under_attack_and_the_twin_without_noise_or_budget_is_caught() -> None:
    assert climbed(ours, 4, 4_000) == 0
    assert climbed(without_noise, 4, 4_000) >= 3


def test_fresh_noise_on_a_replay_is_caught() -> None:
    mode = private(50_000, 400, "0.4")
    record = opened(mode)
    same = {mode.check(asked("a", 25_000), record).value for _ in range(50)}
    assert len(same) == 1
    twin = {mode.check(asked(f"a{i}", 25_000), record).value for i in range(50)}  # a replay under a new name is paid
    assert len(twin) > 1
    assert mode.forecast(record) == 400 - 51


@KINDS
@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_one_changed_label_moves_what_is_noised_by_the_declared_sensitivity(noise: str, metric: str) -> None:
    """The audit of the mode: neighbouring labels, the same predictions, the integers before noise."""
    rng = np.random.default_rng(2)
    labels, chances = rng.integers(0, 2, 3_000), rng.random(3_000)
    predictions = (chances > 0.5).astype(int) if metric == "accuracy" else chances
    found = []
    for flip in (0, 1):
        held = labels.copy()
        held[0] ^= flip
        given: dict[str, Any] = {
            "source": TestNoise(1),
            "noise": noise,
            "questions": 2,
            "delta": "0.01",
            "classes": [0, 1],
        }
        with observing() as seen:
            Holdout(held, tolerance=0.6, mode="private", metric=metric, **given).check(predictions)
        assert len(seen) == 1
        found.append(seen[0])
    left, right = found
    assert left.event == right.event
    moved = abs(left.values[0] - right.values[0])
    assert moved <= int(str(left.event.parameters["sensitivity"]))
    assert moved > 0 or (noise, metric) == ("bounded", "brier")  # there totals are rounded to whole rows first


@pytest.mark.parametrize("mode", ["private", "classic"])
@pytest.mark.parametrize("metric", ["accuracy", "error", "brier", LogLoss(Fraction(3))])
def test_where_labels_are_hidden_the_classes_must_be_declared(mode: str, metric: Any) -> None:
    with pytest.raises(InvalidTask, match=r"declare what they may be, such as classes=\[0, 1\]"):
        Holdout([0, 1] * 500, tolerance=0.6, mode=mode, metric=metric)
    assert Holdout([0, 1] * 500, tolerance=0.6, mode=mode, metric=metric, classes=[0, 1]).rows == 1000


def heard(labels: Any, predictions: Any, mode: str = "private", **given: Any) -> str:
    """What an analyst sees of one question, errors included, with the noise of one seed."""
    noise: dict[str, Any] = {"source": TestNoise(1)} if mode == "private" else {}
    try:
        hold = Holdout(labels, tolerance=0.6, mode=mode, **given, **noise)
        answer = hold.check(predictions)
        return str(None if answer.low is None else "answered")
    except InvalidTask as error:
        return str(error)


ODD = {"nan": float("nan"), "inf": float("inf"), "-1": -1, "7": 7, "huge": 10**400, "none": None, "text": "cat"}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("metric", ["accuracy", "brier", AbsoluteError(Fraction(5))])
def test_no_error_depends_on_a_hidden_label_whatever_it_is(odd: Any, metric: Any) -> None:
    """One label of neighbouring holdouts is odd; the same check finds the difference where labels decide (the twin)."""
    declared: dict[str, Any] = {} if isinstance(metric, AbsoluteError) else {"classes": [0, 1]}
    usual = np.array([0, 1] * 500, dtype=object)
    strange = usual.copy()
    strange[0] = odd
    for predictions in ([1] * 1000, [1] * 999 + [7]):
        ours = [heard(labels, predictions, metric=metric, **declared) for labels in (usual, strange)]
        assert ours[0] == ours[1]
    if odd != -1 and odd != 7:
        twin = [heard(labels, [1] * 1000, mode="certified", metric=metric, **declared) for labels in (usual, strange)]
        assert twin[0] != twin[1]


def test_classes_are_declared_once_and_for_classes_only() -> None:
    with pytest.raises(InvalidTask, match=r"own classes are \[0, 1\]"):
        Holdout([0, 1] * 500, metric=Accuracy((0, 1)), classes=[0, 2])
    with pytest.raises(InvalidTask, match="compares numbers"):
        Holdout([0, 1] * 500, metric=AbsoluteError(Fraction(1)), classes=[0, 1])
    assert Holdout([0, 1] * 5000, metric=Accuracy((0, 1)), classes=[0, 1]).metric == Accuracy((0, 1))


def test_a_description_says_what_is_left() -> None:
    mode = private(50_000, 3)
    record = opened(mode)
    mode.check(asked("a", 1), record)
    told = dict(mode.describe(record))
    assert "2 of 3 planned questions left" in told["answers"]
    assert "95%" in told["interval"]


def test_options_that_make_no_sense_are_refused() -> None:
    odd: list[dict[str, Any]] = [{"questions": 0}, {"questions": True}, {"noise": "magic"}]
    for given in [*odd, {"noise": "bounded", "epsilon": 1}]:
        with pytest.raises(InvalidTask):
            PrivateMode(frame(1000), **{"questions": 2, **given})
    with pytest.raises(InvalidTask, match="gives a row away"):
        PrivateMode(frame(1000), 500, noise="bounded")
