"""A search that misses: what is left goes into what is handed out, the same for every question, and all that is said says so."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from steelyard.accounting import epsilon_of
from steelyard.bounding import Count, Sum
from steelyard.ledger import Account, open_account
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models.accuracy import _telling as telling
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._family import Family
from steelyard.models.accuracy._goal import Stop
from steelyard.models.accuracy._total import TotalJudge
from steelyard.noise import TestNoise
from steelyard.privacy import rows
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import read

DRAWS = np.random.default_rng(8)
N = 20_000
X = DRAWS.uniform(-1, 1, (N, 3)) / 2
Y = 10 + 5 * (X @ [1.0, -0.5, 0.2]) + DRAWS.standard_normal(N)
C = (DRAWS.uniform(size=N) < 1 / (1 + np.exp(-(X @ [6.0, -3.0, 1.0])))).astype(int)
LINEAR, LOGISTIC = LinearRegression(y_bounds=(0, 20)), LogisticRegression(classes=[0, 1])
QUESTIONS = [
    (LINEAR, {"target_loss": 0.9}),
    (LINEAR, {"target_rmse": 0.95}),
    (LINEAR, {"excess_loss": 0.0002}),
    (LOGISTIC, {"target_loss": 0.3}),
    (LOGISTIC, {"target_accuracy": 0.95}),
    (LOGISTIC, {"excess_loss": 0.0001}),
]
CAP = 0.3


def searched(model: Any, asked: dict[str, Any], delta: float | None, seed: int, **more: Any) -> AccuracyFirst:
    labels = Y if model is LINEAR else C
    return AccuracyFirst(model, **asked, epsilon=CAP, delta=delta, noise=TestNoise(seed), **more).fit(X, labels)


def loss_of(model: Any, fitted: Any) -> float:
    if model is LINEAR:
        return float(np.mean((fitted.predict(X) - Y) ** 2))
    chance = np.clip(fitted.predict_proba(X)[:, 1], 1e-9, 1 - 1e-9)
    return float(-np.mean(np.where(C == 1, np.log(chance), np.log(1 - chance))))


def plain(model: Any, delta: float | None, seed: int) -> Any:
    """A plain fit for the same promise: a replaced row is one removed and one added."""
    half = CAP / 2 if delta is None else epsilon_of(_mu() / 2, delta)
    return type(model)(**{**model.get_params(), "epsilon": half, "delta": delta, "noise": TestNoise(seed)})


def _mu() -> float:
    return math.sqrt(open_account(":memory:", "a", unit=rows(), epsilon=CAP, delta="1e-6").terms.cap.value)


@pytest.mark.parametrize(
    ("model", "asked", "delta"),
    [*((*each, delta) for each in QUESTIONS for delta in (1e-6, None)), (LINEAR, {"target_r2": 0.9}, 1e-6)],
    ids=lambda value: "" if isinstance(value, LinearRegression | LogisticRegression) else str(value),
)
def test_at_the_cap_all_is_spent_and_the_model_is_about_as_good_as_a_plain_fit(
    model: Any, asked: dict[str, float], delta: float | None
) -> None:
    found = [searched(model, asked, delta, seed) for seed in range(3)]
    assert {each.stopped_reason_ for each in found} == {"cap_reached"}
    assert all(each.epsilon_filter_ == pytest.approx(CAP, rel=0.01) for each in found)
    assert all("NOT reached" in each.summary_ and not each.certificate_.met for each in found)
    beside = [plain(model, delta, seed).fit(X, Y if model is LINEAR else C) for seed in range(3)]
    mine, theirs = (float(np.median([loss_of(model, each) for each in made])) for made in (found, beside))
    assert mine <= (1.04 if delta else 1.15) * theirs  # a watch takes more from a pure account than looks from another


def test_a_search_that_leaves_what_is_left_unspent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "rest", lambda self, left: None)
    first = searched(LINEAR, {"excess_loss": 0.0002}, None, 1)
    assert first.epsilon_filter_ < 0.5 * CAP
    assert not hasattr(first, "model_")


def test_a_budget_too_small_for_a_first_look_still_buys_a_model() -> None:
    for delta in (1e-6, None):
        first = AccuracyFirst(LINEAR, target_loss=0.9, epsilon=0.002, delta=delta, noise=TestNoise(1)).fit(X, Y)
        assert first.stopped_reason_ == "cap_reached"
        assert np.isfinite(first.predict(X)).all()


def test_asking_again_after_the_cap_costs_nothing_and_gives_the_same_model() -> None:
    at = open_account(":memory:", "a", unit=rows(neighbours="replace", n=N), epsilon=CAP, delta="1e-6")
    first, again = (
        AccuracyFirst(LINEAR, target_loss=0.9, account=at, key="k", noise=TestNoise(k)).fit(X, Y) for k in (1, 2)
    )
    assert at.remaining.amount == 0
    assert first.spent_ == again.spent_
    assert np.array_equal(first.coef_, again.coef_)


def test_more_budget_goes_on_from_a_last_level_and_may_yet_reach_the_target() -> None:
    at = open_account(":memory:", "a", unit=rows(neighbours="replace", n=N), epsilon=20, delta="1e-6")
    first = AccuracyFirst(LINEAR, target_loss=1.1, epsilon=0.05, account=at, key="k", noise=TestNoise(1)).fit(X, Y)
    assert first.stopped_reason_ == "cap_reached"
    more = AccuracyFirst(LINEAR, target_loss=1.1, account=at, key="k", noise=TestNoise(2)).fit(X, Y)
    assert more.stopped_reason_ == "target_met"
    assert float(np.mean((more.predict(X) - Y) ** 2)) <= 1.1


def test_an_epsilon_above_the_cap_is_explained_and_one_below_is_not() -> None:
    missed, met = searched(LINEAR, {"target_loss": 0.9}, 1e-6, 1), searched(LINEAR, {"target_loss": 8}, 1e-6, 1)
    assert missed.epsilon_ > CAP >= missed.epsilon_filter_
    assert "whose promise of epsilon 0.3 holds: an ex-post epsilon" in missed.summary_
    assert met.epsilon_ < CAP
    assert "an ex-post epsilon" not in met.summary_
    assert met.summary_.startswith("reached")


def totalled(task: Any, delta: str | None, amount: float) -> tuple[Release, Account]:
    given = {} if delta is None else {"delta": delta}
    at = open_account(":memory:", "a", unit=rows(), epsilon="0.01", **given)
    at.charge(at.remaining - at.remaining, key="other", request=b"")
    found = AccuracyFirst(task, relative_error=amount, epsilon="0.007").release(
        Session(read({"x": np.ones(40_000)}), at, noise=TestNoise(1))
    )
    assert isinstance(found, Release)
    return found, at


@pytest.mark.parametrize("delta", ["1e-6", None])
@pytest.mark.parametrize("task", [Sum("x", cap=1), Count()])
def test_a_total_says_itself_that_it_is_not_as_accurate_as_was_asked(task: Any, delta: str | None) -> None:
    found, at = totalled(task, delta, 0.001)
    said = "the relative error asked for, 0.001, was NOT reached: the cap was reached first"
    assert said in str(found)
    assert said in str(found.error)
    assert said in str(Release.from_json(found.to_json()))
    assert found.point["last"] is True  # all that might be added was
    assert at.spent.amount == pytest.approx(
        0.7 * at.terms.cap.amount if delta is None else 0.49 * at.terms.cap.amount, rel=0.1
    )
    met, _ = totalled(task, delta, 0.9)
    assert "NOT reached" not in str(met)


def test_a_last_total_is_no_level_whose_interval_promises_something(monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_account(":memory:", "a", unit=rows(), epsilon=1)
    session = Session(read({"x": np.ones(2_000)}), at, noise=TestNoise(1))
    for part in ("0.001", "0.002", "0.003", "0.004"):
        first = AccuracyFirst(Sum("x", cap=1), relative_error=0.3, epsilon=part)
        first.release(session, key="k")
        assert first.stopped_reason_ == "cap_reached" or not _is_last(first)
    last = AccuracyFirst(Sum("x", cap=1), relative_error=0.3)
    assert isinstance(last.release(session, key="k"), Release)
    assert last.stopped_reason_ == "target_met"
    monkeypatch.setattr(TotalJudge, "last", lambda self, left: None)
    unspent = AccuracyFirst(Sum("x", cap=1), relative_error=0.0001, epsilon="0.05")
    unspent.release(session, key="other")
    assert unspent.spent_ < 50_000  # a twin that leaves what is left


def _is_last(first: AccuracyFirst) -> bool:
    assert first.release_ is not None
    return bool(first.release_.point.get("last"))


# A classifier's accuracy, and a root mean squared error in the label's units


@pytest.mark.parametrize("more", [{}, {"check": "disjoint"}, {"delta": None}], ids=str)
def test_an_accuracy_that_is_reached_is_there_and_is_told_as_one(more: dict[str, Any]) -> None:
    first = AccuracyFirst(LOGISTIC, target_accuracy=0.75, epsilon=5, noise=TestNoise(1), **more).fit(X, C)
    assert first.stopped_reason_ == "target_met"
    assert first.score(X, C) >= 0.74
    assert "is at least 0.75, with confidence 0.9" in str(first.certificate_)
    assert first.certificate_.bound == pytest.approx(0.25)


def test_a_root_is_asked_for_and_told_in_the_labels_units() -> None:
    first = AccuracyFirst(LINEAR, target_rmse=1.2, epsilon=5, noise=TestNoise(1)).fit(X, Y)
    assert first.stopped_reason_ == "target_met"
    assert first.certificate_.bound == pytest.approx(1.2)
    assert str(first.certificate_).startswith("the root mean squared error on these rows")
    looks = [stop.loss for stop in first.path_ if stop.loss is not None]
    assert 0.5 < looks[-1] < 2  # of squared errors, where labels in [-1, 1] would have 0.012
    same = AccuracyFirst(LINEAR, target_loss=1.2**2, epsilon=5, noise=TestNoise(1)).fit(X, Y)
    assert same.spent_ == first.spent_


def test_what_looks_like_an_accuracy_and_is_a_loss_is_noticed() -> None:
    with pytest.warns(UserWarning, match=r"If an accuracy of 80% was meant, give target_accuracy=0.8"):
        AccuracyFirst(LOGISTIC, target_loss=0.8, epsilon=1).fit(X, C)


def test_a_delta_of_zero_is_pure() -> None:
    first = AccuracyFirst(LOGISTIC, target_accuracy=0.7, epsilon=5, delta=0, noise=TestNoise(1)).fit(X, C)
    assert first.mu2_spent_ is None
    assert first.epsilon_ == first.account_.spent.amount / 10**6


# Who is told


def test_steps_are_told_on_a_terminal_and_in_a_notebook_and_elsewhere_if_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = AccuracyFirst(LINEAR, target_loss=4, epsilon=5, noise=TestNoise(1))
    heard: list[Stop] = []
    ways: list[Any] = [
        (lambda: first.fit(X, Y, progress=True), True),
        (lambda: first.resume(X, Y, target_loss=3, progress=True), True),
        (lambda: first.plan(X[:500], Y[:500], progress=True, runs=1), True),
        (lambda: first.fit(X, Y), False),
        (lambda: first.fit(X, Y, progress=heard.append), False),
    ]
    for way, told in ways:
        way()
        assert ("epsilon so far" in capsys.readouterr().err) == told
    assert tuple(heard) == first.path_
    monkeypatch.setattr(telling, "watched", lambda: True)
    first.fit(X, Y)
    assert "level 0" in capsys.readouterr().err
    first.fit(X, Y, progress=False)
    assert not capsys.readouterr().err


def test_a_notebook_is_known_by_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    for running in (False, True):
        kernel = SimpleNamespace(IPKernelApp=SimpleNamespace(initialized=lambda running=running: running))
        monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", kernel)
        assert telling.watched() == running
