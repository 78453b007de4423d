"""Ridge models on a pure account: what they cost to the last unit, what is promised and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask, NeighbourMismatch
from steelyard.ledger import open_account
from steelyard.mechanisms import AboveThreshold
from steelyard.models import AccuracyFirst, LinearRegression
from steelyard.models._columns import Features, Plain
from steelyard.models.accuracy import _watch as watches
from steelyard.models.accuracy._goal import share_of
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, rows, users
from steelyard.session import Session
from steelyard.tables import read
from unit.models.accuracy.pure_paths import SEARCH, N, X, Y, account, table


def test_the_price_is_the_watch_and_the_last_level_to_the_last_unit() -> None:
    at = account()
    told: list[Any] = []
    found = Session(table(), at, noise=TestNoise(1)).open(SEARCH, key="k").reach_loss(0.04, 0.9, progress=told.append)
    assert found.reason == "target_met"
    assert list(found.path) == told
    levels = [stop.mu2 for stop in found.path if stop.step.startswith("level")]
    assert levels == sorted(levels)
    assert at.spent.amount == found.spent == round((found.path[0].mu2 + levels[-1]) * MICRO)
    assert [stop.passed for stop in found.path if stop.passed is not None] == [False] * len(levels) + [True]


def test_the_model_that_predicts_nothing_is_tried_before_any_level_is_paid_for() -> None:
    at = account()
    found = Session(table(Y / 4), at, noise=TestNoise(1)).open(SEARCH).reach_loss(0.5, 0.9)
    assert (found.reason, len(found.path)) == ("null_model_ok", 2)
    assert at.spent.amount == found.spent == round(found.path[0].mu2 * MICRO)
    assert not np.any(found.model)


def test_what_holds_whatever_the_rows_costs_nothing() -> None:
    at = account()
    walk = Session(table(), at).open(SEARCH)
    for found in (walk.reach_loss(1.0, 0.9), walk.reach_excess(0.5, 0.9)):
        assert (found.reason, found.spent, at.spent.amount) == ("null_model_ok", 0, 0)


def test_an_account_is_never_asked_for_more_than_it_can_count() -> None:
    assert Session(table(), account()).open(SEARCH).reach_excess(1e-30, 0.9).reason == "cap_reached"


def test_an_estimator_without_a_delta_goes_on_and_pays_the_difference_and_a_new_watch() -> None:
    ridge = LinearRegression(x_bound=1, y_bounds=(-1, 1))
    first = AccuracyFirst(ridge, target_loss=0.06, epsilon=100, delta=None, noise=TestNoise(2)).fit(X, Y)
    assert first.stopped_reason_ == "target_met"
    assert "watch" in str(first.certificate_)
    assert np.mean((first.predict(X) - Y) ** 2) <= 0.06
    before = first.path_
    assert first.epsilon_ == first.epsilon_filter_ == first.account_.spent.amount / MICRO
    first.resume(X, Y, target_loss=0.02)
    assert first.stopped_reason_ == "target_met"
    assert np.mean((first.predict(X) - Y) ** 2) <= 0.02
    bought = [stop.mu2 for path in (before, first.path_) for stop in path if stop.step.startswith("watch")]
    levels = [stop.mu2 for stop in first.path_ if stop.step.startswith("level")]
    assert len(bought) == 2
    assert first.account_.spent.amount == first.spent_ == round((sum(bought) + max(levels)) * MICRO)
    assert first.epsilon_ == first.spent_ / MICRO
    first.chart()
    again = AccuracyFirst(ridge, target_loss=0.06, delta=None, account=first.account_, key=first.key_).fit(X, Y)
    assert again.spent_ == first.spent_ == first.account_.spent.amount
    assert again.path_ == before


def test_an_excess_is_reached_and_true_where_users_are_hidden_too() -> None:
    whose = np.arange(N) // 4
    unit = users("who", neighbours="replace", n=N // 4)
    at = open_account(":memory:", "owned", unit=unit, epsilon=200)
    held = read({"x0": X[:, 0], "x1": X[:, 1], "y": Y, "who": whose})
    found = Session(held, at, noise=TestNoise(3)).open(SEARCH).reach_excess(0.05, 0.9)
    assert found.reason == "target_met"
    assert at.spent.amount == found.spent
    z = np.column_stack([X, np.ones(N)]) / math.sqrt(2)
    matrix = z.T @ z + N * 0.005 * np.eye(3)
    off = np.asarray(found.model) - np.linalg.solve(matrix, z.T @ Y)
    assert off @ matrix @ off / (2 * N) <= 0.05


def test_a_search_that_never_stops_has_cost_its_watches_and_its_last_level() -> None:
    at = account(epsilon=100_000)
    found = Session(table(), at, noise=TestNoise(1)).open(SEARCH).reach_loss(0.0015, 0.9)  # below the labels' own noise
    assert found.reason == "target_impossible"
    assert math.isinf(found.bound)
    levels = [stop.mu2 for stop in found.path if stop.step.startswith("level")]
    bought = [stop.mu2 for stop in found.path if stop.step.startswith("watch")]
    assert len(bought) == 3
    assert bought[2] > 4 * bought[1] > 16 * bought[0]
    assert at.spent.amount == found.spent == round((sum(bought) + levels[-1]) * MICRO)


def test_a_target_close_to_the_best_loss_is_met_by_a_sharper_watch() -> None:
    at = account(epsilon=100_000)
    found = (
        Session(table(), at, noise=TestNoise(1))
        .open(replace(SEARCH, penalty=Fraction(1, 10_000)))
        .reach_loss(0.0031, 0.9)
    )
    assert found.reason == "target_met"
    z = np.column_stack([X, np.ones(N)]) / math.sqrt(2)
    assert np.mean((np.clip(z @ np.asarray(found.model), -found.reach, found.reach) - Y) ** 2) <= 0.0031
    bought = [stop.mu2 for stop in found.path if stop.step.startswith("watch")]
    levels = [stop.mu2 for stop in found.path if stop.step.startswith("level")]
    assert len(bought) >= 2
    assert at.spent.amount == found.spent == round((sum(bought) + levels[-1]) * MICRO)


def test_an_account_with_too_little_is_never_overspent() -> None:
    for epsilon, stops in ((0.001, 0), (2.7, 2)):
        at = account(epsilon=epsilon, name=f"poor {epsilon}")
        found = Session(table(), at, noise=TestNoise(1)).open(SEARCH).reach_loss(0.04, 0.9)
        assert found.reason == "cap_reached"
        assert len(found.path) >= stops
        assert at.spent.amount == found.spent <= epsilon * MICRO


def promised(runs: int) -> int:
    """How often a target is promised, at confidence one half, that is just below the best loss there is."""
    search = replace(SEARCH, features=Features([Plain("x0")], "clip", 1, intercept=False), penalty=Fraction(1, 1000))
    x = np.linspace(-1, 1, 400)
    y = 0.5 * x + 0.3 * np.sin(40 * x)
    least, held, made = float(np.mean((y - x * (x @ y) / (x @ x)) ** 2)), read({"x0": x, "y": y}), 0
    for run in range(runs):
        at = open_account(":memory:", f"{run}", unit=rows(neighbours="replace", n=400), epsilon=10**6)
        found = Session(held, at, noise=TestNoise(run)).open(search).reach_loss(0.99 * least, 0.5)
        made += math.isfinite(found.bound)
    return made


def test_promises_at_confidence_one_half_are_wrong_in_half_of_all_runs_at_most() -> None:
    assert promised(12) <= 9  # at the allowed rate of 0.45 there are more in one of a hundred


def test_a_watch_with_its_threshold_where_there_is_no_room_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "threshold_for", lambda mechanism, failure: 0)
    assert promised(12) > 9


@pytest.mark.parametrize(
    ("target", "confidence"), [(0.0, 0.9), (-0.5, 0.9), (float("nan"), 0.9), (0.05, 1.0), (0.05, -3.0)]
)
def test_an_accuracy_that_makes_no_sense_is_refused_before_anything_is_charged(
    target: float, confidence: float
) -> None:
    at = account()
    with pytest.raises(InvalidTask):
        Session(table(), at, noise=TestNoise(1)).open(SEARCH, key="k").reach_loss(target, confidence)
    assert at.spent.amount == 0


def test_accounts_that_do_not_fit_are_refused_before_a_charge() -> None:
    with pytest.raises(NeighbourMismatch):
        Session(table(), open_account(":memory:", "h", unit=rows(), epsilon=1)).open(SEARCH)
    declared = open_account(":memory:", "i", unit=rows(neighbours="replace", n=7), epsilon=1)
    Session(table(), declared).open(SEARCH)  # a declared n is taken at its word: to compare it would read rows


@pytest.mark.parametrize("penalty", [Fraction(1, 10**9), Fraction(101)])
def test_a_penalty_out_of_bounds_is_refused_on_either_kind_of_account(penalty: Fraction) -> None:
    gaussian = open_account(":memory:", "g", unit=rows(neighbours="replace", n=N), epsilon=1, delta="1e-6")
    for at in (account(), gaussian):
        with pytest.raises(InvalidTask, match="between 1e-8 and 100"):
            Session(table(), at).open(RidgeSearch(SEARCH.features, SEARCH.label, penalty))


def test_what_is_handed_out_holds_no_statistics() -> None:
    walk = Session(table(), account(), noise=TestNoise(1)).open(SEARCH)
    walk.reach_loss(0.04, 0.9)
    assert set(vars(walk)) == {"_question", "_desk"}


def refusing(patch: pytest.MonkeyPatch, watched: int) -> None:
    """Let the first so many watches of a search pass nothing."""
    begun, start = list[AboveThreshold](), AboveThreshold.start

    def starting(self: AboveThreshold, *given: Any) -> Any:
        begun.append(self)
        running = start(self, *given)
        if len(begun) <= watched:
            running._secret = 10**30
        return running

    patch.setattr(AboveThreshold, "start", starting)


@pytest.mark.parametrize("watched", [1, 4])
def test_an_excess_that_watches_refused_is_asked_about_by_further_ones_and_is_met(
    watched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, watched)
    at = account(epsilon=10_000)
    found = Session(table(), at, noise=TestNoise(1)).open(SEARCH).reach_excess(0.05, 0.9)
    bought = [stop for stop in found.path if stop.step.startswith("watch")]
    assert (found.reason, len(bought)) == ("target_met", watched + 1)
    assert at.spent.amount == found.spent


def test_an_excess_is_never_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with its budget, or with the failure probability of its key: then it was not shown, and that is what it says."""
    refusing(monkeypatch, 99)
    assert Session(table(), account(epsilon=50)).open(SEARCH).reach_excess(0.05, 0.9).reason == "cap_reached"
    at = account(epsilon=10**6)
    found = Session(table(), at, noise=TestNoise(1)).open(SEARCH, key="k").reach_excess(0.05, 0.9)
    bought = [stop.step for stop in found.path if stop.step.startswith("watch")]
    assert (found.reason, bought) == ("not_shown", [f"watch {k}" for k in range(watches.MOST_WATCHES)])
    assert sum(share_of(k) for k in range(len(bought))) <= 1
    with pytest.raises(InvalidTask, match="new key"):
        Session(table(), at, noise=TestNoise(2)).open(SEARCH, key="k").reach_excess(0.05, 0.9)
