"""What a certificate says is what was shown: in the question's own loss, at the confidence asked for, over n rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.ledger import Account, open_account
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._family import Judge
from steelyard.models.accuracy._schedule import NearBest
from steelyard.noise import TestNoise
from steelyard.privacy import rows

N = 5000
DRAWS = np.random.default_rng(3)
X = DRAWS.uniform(-0.7, 0.7, (N, 2))
Y = 0.8 * X[:, 0] + 0.1 * DRAWS.standard_normal(N)


def account(n: int = N) -> Account:
    return open_account(":memory:", "replace", unit=rows(neighbours="replace", n=n), epsilon=50, delta="1e-6")


def first(seed: int = 1, **given: Any) -> AccuracyFirst:
    model = LinearRegression(x_bound=1, y_bounds=(-1, 1))
    return AccuracyFirst(model, **{"epsilon": 50, "penalty": 0.01, "noise": TestNoise(seed), **given})


def test_the_model_that_predicts_nothing_is_certified_in_the_loss_that_was_asked_for() -> None:
    labels = 0.18 * np.where(np.arange(N) % 2, 1.0, -1.0)
    models = [first(seed, target_loss=0.05).fit(X, labels) for seed in range(6)]
    nulls = [model for model in models if model.stopped_reason_ == "null_model_ok"]
    assert nulls
    assert all(np.mean((model.predict(X) - labels) ** 2) <= model.certificate_.bound <= 0.05 for model in nulls)


@pytest.mark.parametrize("wanted", [{"target_loss": 0.03}, {"excess_loss": 0.004}])
def test_a_look_made_at_a_lower_confidence_does_not_speak_at_a_higher_one(
    wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NearBest, "measured", Judge.measured)  # nothing is certified, so that a look has to decide
    monkeypatch.setattr(NearBest, "_passes", lambda self, stop: False)
    mine = account()
    low = first(confidence=0.6, account=mine, key="k", **wanted).fit(X, Y)
    paid = mine.spent.amount
    high = first(2, confidence=0.9999, account=mine, key="k", **wanted).fit(X, Y)
    assert low.stopped_reason_ == high.stopped_reason_ == "target_met"
    assert low.path_[-1].passed
    assert mine.spent.amount > paid
    again = first(3, confidence=0.6, account=mine, key="k", **wanted).fit(X, Y)
    assert again.certificate_.bound == low.certificate_.bound
    assert np.array_equal(again.coef_, low.coef_)


def test_a_look_that_is_read_back_is_still_a_look() -> None:
    mine = account()
    told = [first(seed, target_loss=0.03, account=mine, key="k").fit(X, Y) for seed in range(2)]
    assert told[0].path_[-1].passed
    assert told[0].path_ == told[1].path_
    assert all("paid looks at the rows" in str(each.certificate_) for each in told)


def test_a_second_target_has_less_of_the_failure_probability_or_says_that_it_is_not_covered() -> None:
    from steelyard.models.accuracy._goal import share_of

    assert sum(share_of(rank) for rank in range(50)) <= 1
    model = first(excess_loss=0.01, check="certificate").fit(X, Y)
    assert "another one first" not in str(model.certificate_)
    model.resume(X, Y, excess_loss=0.004)
    assert "another one first" in str(model.certificate_)
    looked = first(target_loss=0.04).fit(X, Y)
    looked.resume(X, Y, target_loss=0.02)
    assert looked.stopped_reason_ == "target_met"
    assert "another one first" not in str(looked.certificate_)


@pytest.mark.parametrize("n", [100, N + 1])
def test_a_declared_number_of_rows_is_taken_at_its_word_and_the_certificate_says_so(n: int) -> None:
    said = f"it takes for granted that the table has the {n:,} rows that its account declares"
    linear = first(excess_loss=0.05, account=account(n)).fit(X, Y)
    classifier = LogisticRegression(classes=[0, 1], x_bound=1)
    near = AccuracyFirst(classifier, excess_loss=0.2, penalty=0.1, account=account(n)).fit(X, (Y > 0).astype(int))
    assert all(said in str(model.certificate_) for model in (linear, near))
