"""A classifier to a log loss: losses added up exactly, looks that rarely pass what they should not, and a path to resume."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from off_ledger import InMemory
from steelyard.errors import NeighbourMismatch
from steelyard.ledger import open_account
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._regression import LogisticRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._family import LOSS_BITS, WHOLE
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.models.accuracy._losses import GRID, MARGIN, LoggedLoss, WrongClass, margin_cap
from steelyard.models.accuracy._quantiles import normal_quantile
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours, rows
from steelyard.session import Session
from steelyard.tables import read

N = 6000
DRAWS = np.random.default_rng(12)
X = DRAWS.uniform(-0.6, 0.6, (N, 2))
Y = (DRAWS.uniform(size=N) < 1 / (1 + np.exp(-(X @ [6.0, -4.0])))).astype(int)

weights = st.lists(st.floats(-8, 8), min_size=3, max_size=3)
cells = st.lists(st.floats(-1, 1), min_size=3, max_size=3)


caps = st.none() | st.integers(1, 10 << MARGIN)


def look(theta: list[float], target: float = 0.5, cap: int | None = None) -> LoggedLoss:
    return LoggedLoss(tuple(int(k * 2**GRID) for k in theta), target, 99 << MARGIN if cap is None else cap)


def whole(row: list[float]) -> InMemory:
    return InMemory((np.trunc(np.array([row]) / max(1.0, float(np.linalg.norm(row))) * SIZE), np.ones(1)))


@settings(max_examples=100)
@given(weights, cells, caps)
def test_a_loss_is_never_told_too_low_and_hardly_too_high(
    theta: list[float], row: list[float], cap: int | None
) -> None:
    ask, signed = look(theta, cap=cap), whole(row)
    margin, most = (
        float(signed.x[0] @ np.array(ask.model)) / SIZE / 2**GRID,
        math.inf if cap is None else cap / 2**MARGIN,
    )
    margin = min(max(margin, -most), most)
    told = ask.losses(signed) / 2**LOSS_BITS
    assert 0 <= told - np.logaddexp(0, -margin) <= 2**-14 + 2**-18


@settings(max_examples=100)
@given(weights, cells, cells, caps)
def test_a_replaced_row_moves_the_sum_by_the_models_length_or_the_cap_at_most(
    theta: list[float], one: list[float], other: list[float], cap: int | None
) -> None:
    ask = look(theta, cap=cap)
    assert abs(ask.value(whole(one)) - ask.value(whole(other))) <= ask.moves
    most = ask.length + 2**-12 if cap is None else min(ask.length + 2**-12, cap / 2**MARGIN)
    assert ask.moves <= math.ceil(most * 2**LOSS_BITS) + 2


@pytest.mark.parametrize("target", [1e-6, 0.01, 0.3, 0.69])
def test_a_clipped_margin_leaves_a_thirty_second_of_the_target_to_lose(target: float) -> None:
    assert np.logaddexp(0, -margin_cap(target) / 2**MARGIN) == pytest.approx(target / 32, rel=1e-3)


class Lenient(WrongClass):
    """A look for which a margin of nothing is right: a twin."""

    def losses(self, rows: Any) -> int:
        return int(WHOLE * (rows.signed @ np.array(self.model, dtype=float) < 0).sum())


def missed_errors(kind: type[WrongClass], theta: list[float], row: list[float]) -> int:
    """How many errors of the model that is handed out a look does not count, for a row of either class and one of none."""
    ask, near = kind(tuple(int(k * 2**GRID) for k in theta), 0.2), whole(row).x
    score = float(
        (near[0] + np.array([0.999, -0.999, 0.999])) @ np.array(ask.model)
    )  # what the grid of features may hide
    wrong = [score <= 0, score > 0, True]
    return sum(wrong) - sum(ask.losses(InMemory((near, np.array([sign])))) // WHOLE for sign in (1.0, -1.0, 0.0))


@settings(max_examples=200)
@given(weights, cells)
def test_no_error_of_the_model_that_is_handed_out_is_forgotten(theta: list[float], row: list[float]) -> None:
    assert missed_errors(WrongClass, theta, row) <= 0


def test_a_look_that_lets_a_margin_of_nothing_pass_is_caught() -> None:
    assert missed_errors(Lenient, [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]) > 0
    assert missed_errors(WrongClass, [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]) <= 0


@settings(max_examples=100)
@given(weights, cells, cells, st.floats(0.01, 0.9), st.sampled_from(Neighbours))
def test_a_row_moves_the_count_of_errors_by_one_at_most(
    theta: list[float], one: list[float], other: list[float], target: float, neighbours: Neighbours
) -> None:
    ask = WrongClass(tuple(int(k * 2**GRID) for k in theta), target, WHOLE, neighbours)
    nobody = InMemory((np.empty((0, 3)), np.empty(0)))
    beside = nobody if neighbours is Neighbours.ADD_REMOVE else whole(other)
    assert abs(ask.value(whole(one)) - ask.value(beside)) <= ask.moves <= WHOLE


def test_a_look_that_believes_in_half_the_range_is_caught() -> None:
    ask = look([3.0, 0.0, 0.0])
    along, against = whole([1.0, 0.0, 0.0]), whole([-1.0, 0.0, 0.0])
    assert abs(ask.value(along) - ask.value(against)) > ask.moves // 2


@pytest.mark.parametrize(("quantile", "caught"), [(True, False), (False, True)])
def test_a_model_just_above_the_target_passes_no_more_often_than_is_said(quantile: bool, caught: bool) -> None:
    signed = InMemory((np.trunc(X / 2 * SIZE), np.where(Y, 1, -1)))
    theta = [2.0, -1.5]
    loss = look(theta).losses(signed) / 2**LOSS_BITS / N
    ask, failure = look(theta, loss - 1e-6), 0.05
    step = Gaussian(ask.moves, sigma_for(ask.moves**2, 10**9), Neighbours.REPLACE)
    limit = ask.limit() - (normal_quantile(failure) * float(step.sigma) + 2 if quantile else 0)
    noise = TestNoise(4)
    passed = np.mean([step.release([ask.value(signed)], noise)[0] <= limit for _ in range(2000)])
    assert bool(passed > failure + 4 * math.sqrt(failure / 2000)) is caught


def first(seed: int, **given: Any) -> AccuracyFirst:
    model = LogisticRegression(classes=[0, 1], x_bound=1, norm="clip")
    return AccuracyFirst(model, **{"epsilon": 20, "penalty": 0.001, "noise": TestNoise(seed), **given})


def true_loss(model: AccuracyFirst) -> float:
    told = model.predict_proba(X)[np.arange(N), Y]
    return float(-np.mean(np.log(told)))


def test_a_target_loss_is_kept_by_the_probabilities_that_are_handed_out() -> None:
    spent = []
    for target in (0.6, 0.52):
        models = [first(seed, target_loss=target).fit(X, Y) for seed in range(3)]
        assert all(model.stopped_reason_ == "target_met" for model in models)
        assert all(true_loss(model) <= target for model in models)
        assert all(model.model_.margin == margin_cap(target) / 2**MARGIN for model in models)
        assert all(model.account_.spent.amount == model.spent_ for model in models)
        spent.append(np.median([model.epsilon_ for model in models]))
    assert spent[0] < spent[1]
    assert "mean log loss on these rows" in str(models[0].certificate_)


def test_one_half_is_tried_first_and_costs_nothing() -> None:
    model = first(1, target_loss=1.5).fit(X, Y)
    assert model.stopped_reason_ == "null_model_ok"
    assert model.epsilon_ == model.account_.spent.amount == 0
    assert model.predict_proba(X[:1]).tolist() == [[0.5, 0.5]]


def test_a_loss_nobody_reaches_ends_without_a_promise() -> None:
    model = first(1, target_loss=0.05, epsilon=0.1).fit(X, Y)
    assert model.stopped_reason_ in ("target_impossible", "cap_reached")
    assert not model.certificate_.met


def test_a_path_is_read_back_and_goes_on_to_a_tighter_target() -> None:
    account = open_account(":memory:", "log", unit=rows(neighbours="replace", n=N), epsilon=20, delta="1e-6")
    one = first(1, target_loss=0.6, account=account, key="k").fit(X, Y)
    paid = account.spent.amount
    again = first(9, target_loss=0.6, account=account, key="k").fit(X, Y)
    assert account.spent.amount == paid == again.spent_
    assert np.array_equal(one.coef_, again.coef_)
    assert one.path_ == again.path_
    tighter = first(2, target_loss=0.52, account=account, key="k").fit(X, Y)
    assert account.spent.amount == tighter.spent_ > paid
    assert true_loss(tighter) <= 0.52
    surer = first(3, target_loss=0.6, confidence=0.999, account=account, key="k").fit(X, Y)
    assert account.spent.amount == surer.spent_ > tighter.spent_


def test_an_account_that_hides_n_is_refused() -> None:
    features = Features([Plain("x0")], "clip", 1)
    added = open_account(":memory:", "added", unit=rows(), epsilon=1, delta="1e-6")
    with pytest.raises(NeighbourMismatch):
        Session(read({"x0": X[:, 0], "y": Y}), added).open(LogisticSearch(features, "y", [0, 1], Fraction(1, 100)))
