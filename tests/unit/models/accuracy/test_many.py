"""More than two classes: what a row moves, what the grid may hide, and searches that end with the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

import steelyard as sy
from steelyard.errors import InvalidTask
from steelyard.models import AccuracyFirst, LogisticRegression
from steelyard.models._columns import SIZE
from steelyard.models._model import shared
from steelyard.models.accuracy import _many as many
from steelyard.models.accuracy._family import WHOLE
from steelyard.models.accuracy._losses import GRID, MARGIN, added
from steelyard.models.accuracy._many import LoggedAmong, ManyLook, WrongAmong
from steelyard.noise import TestNoise
from unit.models.accuracy.made_up import Array, whole

K, WIDTH = 4, 3
CLASSES = ["d", "b", "a", "c"]
DRAWS = np.random.default_rng(3)
N = 20_000
X = DRAWS.uniform(-1, 1, (N, WIDTH)) / math.sqrt(WIDTH)
Y = np.array(sorted(CLASSES))[(X @ DRAWS.standard_normal((WIDTH, K)) * 6 + DRAWS.gumbel(size=(N, K))).argmax(axis=1)]
MODEL = LogisticRegression(classes=CLASSES)
weights = st.lists(st.floats(-3, 3), min_size=K * WIDTH, max_size=K * WIDTH)
rows = st.tuples(st.lists(st.floats(-1, 1), min_size=WIDTH, max_size=WIDTH), st.integers(0, K))
kinds = st.sampled_from([WrongAmong, LoggedAmong])


@dataclass
class Rows:
    """What a look reads."""

    x: Array
    y: Any
    owners: Any = None

    @property
    def units(self) -> int:
        return len(self.y)

    def summed(self, each: Any) -> int:
        return added(each(self), self.owners)


def one(row: tuple[list[float], int]) -> Rows:
    x = np.array([row[0]]) / max(1.0, float(np.linalg.norm(row[0])))
    return Rows(whole(x), np.array([float(row[1])]))


def look(kind: type[ManyLook], model: list[float], reach: float = 2.0) -> ManyLook:
    return kind(tuple(int(k * 2**GRID) for k in model), 0.7, round(reach * 2**MARGIN), classes=K)


@settings(max_examples=200)
@given(kinds, weights, rows, rows, st.floats(0.1, 9))
def test_a_replaced_row_moves_the_sum_by_its_range_at_most(
    kind: type[ManyLook], model: list[float], row: Any, other: Any, reach: float
) -> None:
    ask = look(kind, model, reach)
    found = [ask.losses(one(row)), ask.losses(one(other))]
    assert all(ask.least <= loss <= ask.most for loss in found)
    assert abs(found[0] - found[1]) <= ask.moves
    m = ask.top / 2**MARGIN if isinstance(ask, LoggedAmong) else 0.0
    real = math.log((1 + (K - 1) * math.exp(m)) / (1 + (K - 1) * math.exp(-m))) if m else 1.0
    assert ask.moves <= real * WHOLE + 8


def lost(ask: ManyLook, x: Array, place: int) -> float:
    """The loss of a row by the model that is handed out, in doubles."""
    scores = x @ (ask.lines / 2.0**GRID).T
    if isinstance(ask, WrongAmong):
        return float(place == 0 or shared(1 / (1 + np.exp(-scores[None])))[0].argmax() != place - 1)
    chance = 1 / (1 + np.exp(-np.clip(scores, -ask.reach / 2**MARGIN, ask.reach / 2**MARGIN)))
    return math.log(K) if place == 0 else -math.log(chance[place - 1] / chance.sum())


@settings(max_examples=200)
@given(kinds, weights, rows, st.floats(0.1, 9))
def test_no_row_loses_more_than_is_added_up(kind: type[ManyLook], model: list[float], row: Any, reach: float) -> None:
    ask, data = look(kind, model, reach), one(row)
    hidden = 0.7 - ask.allowed / WHOLE if kind is LoggedAmong else 0.0
    off = data.x[0] / SIZE + np.sign(data.x[0]) / SIZE * 0.999
    for x in (data.x[0] / SIZE, off):
        assert lost(ask, x, row[1]) <= ask.losses(data) / WHOLE + hidden + 1e-12


def test_what_is_added_up_is_hardly_more_than_is_lost() -> None:
    ask = look(LoggedAmong, DRAWS.standard_normal(K * WIDTH).tolist(), 9)
    data = Rows(whole(X[:200]), DRAWS.integers(1, K + 1, 200).astype(float))
    true = sum(lost(ask, x / SIZE, int(y)) for x, y in zip(data.x, data.y, strict=True))
    assert ask.losses(data) / WHOLE - true < 200 * 5e-4


class Generous(WrongAmong):
    """The twin: a class that leads by nothing is right."""

    @property
    def hidden(self) -> int:
        return -1


class Rounded(LoggedAmong):
    """The twin: scores are rounded the other way."""

    def rounded(self, own: Any, others: Any) -> Any:
        step = SIZE << (GRID - MARGIN)
        return own // step + 1, others // step


def test_a_class_that_leads_by_nothing_is_caught() -> None:
    row = one(([0.0, 0.0, 0.0], 3))  # all scores alike: the first class is said
    twin = look(Generous, [1.0] * (K * WIDTH))
    assert lost(twin, row.x[0], 3) > twin.losses(row) / WHOLE
    assert look(WrongAmong, [1.0] * (K * WIDTH)).losses(row) == WHOLE


def kept(kind: type[LoggedAmong]) -> bool:
    """Whether 200 rows together lose no more than is added up."""
    ask = look(kind, np.random.default_rng(1).standard_normal(K * WIDTH).tolist(), 9)
    data = Rows(whole(X[:200]), 1.0 + np.arange(200) % K)
    return sum(lost(ask, x / SIZE, int(y)) for x, y in zip(data.x, data.y, strict=True)) <= ask.losses(data) / WHOLE


def test_scores_that_are_rounded_the_other_way_are_caught() -> None:
    assert kept(LoggedAmong)
    assert not kept(Rounded)


# Searches


@pytest.mark.parametrize("asked", [{"target_accuracy": 0.6}, {"target_loss": 1.0}], ids=str)
@pytest.mark.parametrize("users", [None, np.arange(N) // 4], ids=["rows", "users"])
def test_what_is_reached_is_there(asked: dict[str, Any], users: Any) -> None:
    first = AccuracyFirst(MODEL, **asked, epsilon=8, noise=TestNoise(1)).fit(X, Y, users=users)
    assert first.stopped_reason_ == "target_met"
    assert first.classes_.tolist() == sorted(CLASSES)
    assert first.coef_.shape == (K, WIDTH)
    chances = first.predict_proba(X)
    if "target_accuracy" in asked:
        assert np.mean(first.predict(X) == Y) >= 0.59
        assert "is at least 0.6, with confidence 0.9" in str(first.certificate_)
    else:
        assert log_loss(Y, chances) <= 1.02
    assert first.decision_function(X[:5]).shape == (5, K)


def test_a_level_costs_what_its_classes_do_and_a_retry_nothing() -> None:
    account = sy.open_account(":memory:", "a", unit=sy.rows(neighbours="replace", n=N), epsilon="8", delta="1e-6")
    asked: dict[str, Any] = {"epsilon": 4, "key": "k", "noise": TestNoise(2), "account": account}
    first = AccuracyFirst(MODEL, target_accuracy=0.6, **asked).fit(X, Y)
    spent = account.spent
    again = AccuracyFirst(MODEL, target_accuracy=0.6, **asked).fit(X, Y)
    assert account.spent == spent
    assert (again.coef_ == first.coef_).all()
    looser = first.resume(X, Y, target_accuracy=0.5)
    assert account.spent == spent
    assert looser.certificate_.bound == pytest.approx(0.4)
    tighter = first.resume(X, Y, target_accuracy=0.65)
    assert tighter.stopped_reason_ == "target_met"
    assert account.spent.amount > spent.amount
    assert first.spent_ == account.spent.amount


def test_at_the_cap_the_model_is_about_as_good_as_a_plain_fit() -> None:
    first = AccuracyFirst(MODEL, target_accuracy=0.99, epsilon=2, noise=TestNoise(1)).fit(X, Y)
    assert first.stopped_reason_ == "cap_reached"
    assert first.epsilon_filter_ == pytest.approx(2, rel=0.01)
    beside = LogisticRegression(classes=CLASSES, epsilon=2).fit(X, Y)
    assert first.score(X, Y) > beside.score(X, Y) - 0.02


def test_giving_all_classes_alike_is_free() -> None:
    free = AccuracyFirst(MODEL, target_loss=1.4, epsilon=1).fit(X, Y)
    assert (free.stopped_reason_, free.spent_) == ("null_model_ok", 0)
    assert free.predict_proba(X[:2]).tolist() == [[0.25] * K] * 2


@pytest.mark.parametrize(
    "more", [{"delta": None}, {"check": "disjoint"}, {"target_accuracy": None, "excess_loss": 0.1}], ids=str
)
def test_where_it_is_for_two_classes_it_says_so(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=r"are for two classes.*Nothing was charged"):
        AccuracyFirst(MODEL, **{"target_accuracy": 0.6, "epsilon": 1, **more}).fit(X, Y)
    assert many.LONGEST == 16
