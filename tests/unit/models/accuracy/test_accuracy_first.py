"""AccuracyFirst: the accuracy is named, the price is found out, and nothing is promised that was not shown."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from steelyard.bounding import Count, Sum
from steelyard.errors import InvalidTask, NeighbourMismatch
from steelyard.ledger import open_account
from steelyard.models._fits import FitLinear
from steelyard.models._regression import LinearRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.noise import TestNoise
from steelyard.privacy import rows, users
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import read

DRAWS = np.random.default_rng(7)
N = 20_000
X = DRAWS.standard_normal((N, 4)) * 0.4
Y = np.clip(2 + X @ [1.0, -0.6, 0.4, 0.0] + 0.2 * DRAWS.standard_normal(N), 0, 4)
RIDGE = LinearRegression(x_bound=2, y_bounds=(0, 4))
PENALTY = 0.01


def first(seed: int = 1, **wanted: Any) -> AccuracyFirst:
    return AccuracyFirst(RIDGE, epsilon=5, penalty=PENALTY, noise=TestNoise(seed), **wanted)


def true_excess(model: AccuracyFirst) -> float:
    """The excess risk in the label's units, of the gridded features."""
    features = model.model_.features
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({f"x{i}": X[:, i] for i in range(4)})
    x, y = features.whole(batch).T / 2**18, (Y - 2) / 2
    matrix = x.T @ x + N * PENALTY * np.eye(x.shape[1])
    off = np.array(model.model_.theta) - np.linalg.solve(matrix, x.T @ y)
    return float(off @ matrix @ off) / (2 * N) * 4


def test_an_excess_is_certified_and_true_and_costs_less_when_less_is_asked() -> None:
    spent = []
    for wanted in (0.2, 0.05, 0.01):
        models = [first(seed, excess_loss=wanted).fit(X, Y) for seed in range(3)]
        assert all(model.stopped_reason_ == "target_met" for model in models)
        assert all(true_excess(model) <= model.certificate_.bound <= wanted * (1 + 1e-9) for model in models)
        spent.append(np.median([model.epsilon_ for model in models]))
        assert all(model.epsilon_filter_ <= model.epsilon_ < 5 for model in models)
    assert spent[0] < spent[1] < spent[2]


def test_a_target_loss_is_kept_by_the_predictions_that_are_handed_out() -> None:
    for seed in range(4):
        model = first(seed, target_loss=0.08).fit(X, Y)
        assert model.stopped_reason_ == "target_met"
        assert np.mean((model.predict(X) - Y) ** 2) <= 0.08
        assert "mean squared error" in str(model.certificate_)


def test_small_predictions_are_clipped_closer_and_the_promise_is_about_those() -> None:
    draws = np.random.default_rng(5)
    X = draws.uniform(-1, 1, (30_000, 3)) / math.sqrt(3)
    y = 0.4 * X[:, 0] + 0.1 * draws.standard_normal(30_000)
    model = LinearRegression(x_bound=1, fit_intercept=False)
    first = AccuracyFirst(model, target_loss=0.014, epsilon=20, noise=TestNoise(4)).fit(X, y)
    assert first.stopped_reason_ == "target_met"
    assert first.model_.reach < 0.8
    told = first.predict(X)
    assert np.abs(told).max() <= first.model_.reach
    assert np.mean((y - told) ** 2) <= 0.014


def test_the_model_that_says_nothing_is_tried_first() -> None:
    model = first(target_loss=1.5).fit(X, Y)
    assert model.stopped_reason_ == "null_model_ok"
    assert model.predict(X[:3]).tolist() == [2, 2, 2]
    assert len(model.path_) == 1
    assert model.epsilon_ < 0.1


def test_a_target_that_no_model_meets_ends_without_a_promise() -> None:
    model = first(target_loss=0.001).fit(X, Y)
    assert model.stopped_reason_ in ("target_impossible", "cap_reached")
    assert not model.certificate_.met
    assert str(model.certificate_).startswith("Nothing is certified")


def test_a_cap_below_the_first_step_spends_nothing_and_says_so() -> None:
    model = AccuracyFirst(RIDGE, excess_loss=1e-5, epsilon="0.001", delta=1e-6, noise=TestNoise(1)).fit(X, Y)
    assert model.stopped_reason_ == "cap_reached"
    assert not model.certificate_.met


def test_going_on_to_a_tighter_target_pays_the_difference_to_the_last_unit() -> None:
    model = first(excess_loss=0.1, check="certificate").fit(X, Y)
    loose = model.account_.spent.amount
    assert loose == model.spent_
    model.resume(X, Y, excess_loss=0.02)
    assert model.stopped_reason_ == "target_met"
    label = round(model.path_[0].mu2 * 10**12)
    assert model.account_.spent.amount == model.spent_ == label + round(model.path_[-1].mu2 * 10**12) > loose
    before = model.account_.spent
    model.resume(X, Y, excess_loss=0.02)
    assert model.account_.spent == before


def test_a_path_whose_steps_are_charged_whole_levels_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.models.accuracy._designs import Design

    step = Design.step
    good = first(excess_loss=0.1, check="certificate").fit(X, Y)
    monkeypatch.setattr(Design, "step", lambda self, cost: step(self, 2 * cost))
    model = first(excess_loss=0.1, check="certificate").fit(X, Y)
    roots = [math.sqrt(each.path_[1].mu2) * 10**6 for each in (good, model)]
    assert abs(roots[0] - round(roots[0])) < 1e-6 < abs(roots[1] - round(roots[1])), (
        "a level is a stop, to the last unit"
    )


def test_a_plan_on_public_rows_predicts_the_price() -> None:
    made = np.random.default_rng(99)
    public = made.standard_normal((2000, 4)) * 0.4
    labels = np.clip(2 + public @ [0.8, 0.5, -0.5, 0.2] + 0.2 * made.standard_normal(2000), 0, 4)
    plan = first(excess_loss=0.05).plan(public, labels, n=N)
    costs = [first(seed, excess_loss=0.05).fit(X, Y).epsilon_ for seed in range(3)]
    assert 0.5 <= plan["epsilon"] / np.median(costs) <= 2
    assert plan["stopped_reason"] == "target_met"


def test_progress_is_told_and_the_path_can_be_drawn() -> None:
    told: list[str] = []
    model = first(excess_loss=0.05).fit(X, Y, progress=lambda stop: told.append(stop.step))
    assert told == [stop.step for stop in model.path_]
    assert model.chart().svg().startswith("<svg")


def test_a_durable_account_for_replaced_rows_pays_and_others_are_refused() -> None:
    account = open_account(":memory:", "mine", unit=rows(neighbours="replace", n=N), epsilon=5, delta="1e-6")
    model = first(excess_loss=0.1, account=account, key="a").fit(X, Y)
    assert account.spent.amount == model.spent_
    again = first(seed=8, excess_loss=0.1, account=account, key="a").fit(X, Y)
    assert account.spent.amount == model.spent_ == again.spent_
    assert np.array_equal(again.coef_, model.coef_)
    other = open_account(":memory:", "other", unit=rows(), epsilon=5, delta="1e-6")
    with pytest.raises(NeighbourMismatch, match="n must be public"):
        first(excess_loss=0.1, account=other).fit(X, Y)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"target_loss": 0.1, "excess_loss": 0.1},
        {"target_loss": -1},
        {"excess_loss": 0},
        {"excess_loss": math.nan},
        {"target_loss": math.inf},
        {"relative_error": 0.1},
        {"excess_loss": 0.1, "confidence": 1},
        {"excess_loss": 0.1, "confidence": 0.2},
        {"target_loss": 0.1, "check": "certificate"},
        {"excess_loss": 0.1, "check": "sometimes"},
        {"excess_loss": 0.1, "penalty": 0},
        {"excess_loss": 0.1, "delta": None, "check": "certificate"},
    ],
)
def test_a_question_that_makes_no_sense_is_refused_before_anything_is_charged(wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        AccuracyFirst(RIDGE, **wanted).fit(X, Y)


def test_an_estimator_without_a_path_is_refused_and_cloning_works() -> None:
    with pytest.raises(InvalidTask, match="no path"):
        AccuracyFirst(object(), target_loss=1).fit(X, Y)
    assert clone(first(excess_loss=0.2)).excess_loss == 0.2


def test_a_linear_task_on_a_session_is_taken_too() -> None:
    table = read({**{f"x{i}": X[:, i] for i in range(4)}, "y": Y})
    account = open_account(":memory:", "task", unit=rows(neighbours="replace", n=N), epsilon=5, delta="1e-6")
    task = FitLinear([f"x{i}" for i in range(4)], "y", 0, 4, x_bound=2)
    found = AccuracyFirst(task, excess_loss=0.05, penalty=PENALTY).release(Session(table, account, noise=TestNoise(2)))
    assert found.reason == "target_met"  # type: ignore[union-attr]
    assert found.model is not None  # type: ignore[union-attr]


USERS = 1000
TABLE = read({"who": np.arange(5 * USERS) % USERS, "spend": DRAWS.uniform(0, 10, 5 * USERS)})
TRUE = 25_000


@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_a_sum_is_sharpened_until_it_is_sharp_enough(delta: str | None) -> None:
    given = {} if delta is None else {"delta": delta}
    spent = []
    for wanted in (0.1, 0.02):
        account = open_account(":memory:", f"{delta}", unit=users("who"), epsilon=4, **given)
        search = AccuracyFirst(Sum("spend", cap=80), relative_error=wanted)
        release = search.release(Session(TABLE, account, noise=TestNoise(4)))
        assert isinstance(release, Release)
        assert abs(release.value - TRUE) < (wanted + 0.02) * TRUE
        assert account.spent.amount == search.spent_
        assert search.stopped_reason_ == "target_met"
        spent.append(search.epsilon_)
    assert spent[0] < spent[1] <= 5


@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_a_count_goes_on_under_its_key_and_pays_the_difference(delta: str | None) -> None:
    given = {} if delta is None else {"delta": delta}
    account = open_account(":memory:", f"count {delta}", unit=users("who"), epsilon=4, **given)
    session = Session(TABLE, account, noise=TestNoise(5))
    AccuracyFirst(Count(cap=10), relative_error=0.2).release(session, key="rows")
    before = account.spent
    again = AccuracyFirst(Count(cap=10), relative_error=0.2)
    again.release(session, key="rows")
    assert account.spent == before
    assert again.spent_ == before.amount


def test_a_step_that_was_paid_for_and_never_drawn_wastes_one_step_at_most() -> None:
    from steelyard.desk import Desk
    from steelyard.documents import request_of
    from steelyard.mechanisms import Gaussian
    from steelyard.models.accuracy._goal import Goal
    from steelyard.models.accuracy._total import TotalSearch

    search = TotalSearch(Count(cap=10))
    account = open_account(":memory:", "crashed", unit=users("who"), epsilon=4, delta="1e-6")
    lost = Gaussian(1, Fraction(1000)).event
    Desk(TABLE, TestNoise(1), account, "k", request_of(search)).charge(lost, "step 0")
    wasted = account.spent.amount
    total = Session(TABLE, account, noise=TestNoise(1)).open(search, key="k").reach(Goal("relative", 0.2, 0.9))
    assert total.reason == "target_met"
    assert account.spent.amount == wasted + total.spent


def test_a_total_without_a_cap_or_by_keys_has_no_path() -> None:
    account = open_account(":memory:", "odd", unit=users("who"), epsilon=4)
    session = Session(TABLE, account)
    for task in (Sum("spend", upper=100), Sum("spend", cap=9, by="who", keys=[1])):
        with pytest.raises(InvalidTask):
            AccuracyFirst(task, relative_error=0.1).release(session)
    with pytest.raises(InvalidTask):
        AccuracyFirst(Sum("spend", cap=9), target_loss=0.1).release(session)
    assert account.spent.amount == 0


class ExactOnce(TestNoise):
    """Test noise that counts as secure on an account in memory, so that failures are sealed as they would be."""

    secure = True


def test_totals_need_no_scikit_learn_and_models_say_what_to_install() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import steelyard as sy\n"
        "from steelyard.errors import EngineMissing\n"
        "account = sy.open_account(':memory:', 'a', unit=sy.rows(), epsilon='5', delta='1e-6')\n"
        "session = sy.Session(sy.read({'x': [7.0] * 9000}), account)\n"
        "first = sy.AccuracyFirst(sy.Sum('x', epsilon='1', cap=10), relative_error=0.05)\n"
        "assert abs(first.release(session).value / 63000 - 1) < 0.2\n"
        "try:\n    first.fit([[1.0]], [1.0])\n"
        "except EngineMissing:\n    print('said')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "said\n", ran.stderr
