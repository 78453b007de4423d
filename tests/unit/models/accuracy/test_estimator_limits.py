"""``epsilon`` is the most that a call may add, also where an account has more left."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.accounting import mu_cap
from steelyard.bounding import Count
from steelyard.errors import InvalidTask
from steelyard.ledger import Account, open_account
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.privacy import rows
from steelyard.session import Session
from steelyard.tables import read

N = 4000
X = np.random.default_rng(0).uniform(-0.5, 0.5, (N, 3))
Y = np.clip(X @ [1.0, -0.5, 0.2] + 0.1 * np.random.default_rng(1).standard_normal(N), -1, 1)


def rich(delta: str | None = "1e-6") -> Account:
    given = {} if delta is None else {"delta": delta}
    return open_account(":memory:", "rich", unit=rows(neighbours="replace", n=N), epsilon=100, **given)


@pytest.mark.parametrize("delta", ["1e-6", None])
@pytest.mark.parametrize("question", [{"target_loss": 0.02}, {"excess_loss": 0.01}])
def test_a_fit_stops_at_its_epsilon_and_without_one_goes_on(question: dict[str, Any], delta: str | None) -> None:
    account = rich(delta)
    first = AccuracyFirst(LinearRegression(x_bound=1, y_bounds=(-1, 1)), **question, epsilon=0.05, account=account)
    first.fit(X, Y)
    assert first.stopped_reason_ == "cap_reached"
    assert first.epsilon_filter_ <= 0.05
    assert first.spent_ == account.spent.amount
    free = AccuracyFirst(LinearRegression(x_bound=1, y_bounds=(-1, 1)), **question, account=account).fit(X, Y)
    assert free.stopped_reason_ == "target_met"
    assert free.epsilon_filter_ > 0.05


def test_a_classifier_and_a_total_are_held_to_it_too() -> None:
    account = rich()
    dear = AccuracyFirst(LogisticRegression(classes=[False, True], x_bound=1), excess_loss=0.01, account=account)
    assert dear.set_params(epsilon=0.01).fit(X, Y > 0).stopped_reason_ == "cap_reached"
    assert 0 < account.spent.amount <= mu_cap(Fraction("0.01"), Fraction("1e-6")).amount
    assert "wanted" in str(dear.certificate_)
    session = Session(read({"y": Y}), account)
    total = AccuracyFirst(Count(), relative_error=0.0001, epsilon=0.5)
    total.release(session, key="count")
    assert total.stopped_reason_ == "cap_reached"
    assert 0 < total.epsilon_filter_ <= 0.5
    assert total.account_ is account
    assert AccuracyFirst(Count(), relative_error=0.01).release(session, key="other") is not None


def test_each_call_may_add_as_much_again() -> None:
    account = rich()
    model = LinearRegression(x_bound=1, y_bounds=(-1, 1))
    first = AccuracyFirst(model, target_loss=0.013, epsilon=3, account=account).fit(X, Y)
    stopped, before = first.stopped_reason_, first.epsilon_filter_
    assert (stopped, before <= 3) == ("cap_reached", True)
    after = first.resume(X, Y, target_loss=0.013).epsilon_filter_
    assert after > before
    assert first.spent_ == account.spent.amount


def test_an_excess_of_three_classes_and_classes_that_nobody_declared_are_refused_before_anything_is_charged() -> None:
    account = rich()
    three = LogisticRegression(x_bound=1, classes=[0, 1, 2])
    with pytest.raises(InvalidTask, match=r"are for two classes.*Nothing was charged"):
        AccuracyFirst(three, excess_loss=0.1, account=account).fit(X, np.arange(N) % 3)
    with pytest.raises(InvalidTask, match=r"declared classes.*Nothing was charged"):
        AccuracyFirst(LogisticRegression(x_bound=1), target_accuracy=0.5, account=account).fit(X, np.arange(N) % 3)
    assert account.spent.amount == 0
