"""The one-shot certificate: true whenever the noise is as long as it may be, and wrong when the noise is longer."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from steelyard.accounting.prices import price
from steelyard.errors import InvalidTask, NeighbourMismatch
from steelyard.ledger import open_account
from steelyard.models.columns import SIZE
from steelyard.models.first.estimator import AccuracyFirst
from steelyard.models.first.one_shot import FineObjective, certified, gaussian, log_loss, pure
from steelyard.models.logistic_regression import LogisticRegression
from steelyard.models.newton import Memory
from steelyard.models.objective import ObjectiveFit
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Terms, rows

N, WIDTH, PENALTY = 2000, 4, Fraction(1, 20)
DRAWS = np.random.default_rng(11)
X = DRAWS.standard_normal((N, WIDTH))
X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
Y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * DRAWS.standard_normal(N) > 0, 1.0, -1.0)
SIGNED = np.trunc(X * SIZE) * Y[:, None]
BEST = minimize(log_loss, np.zeros(WIDTH), (SIGNED / SIZE, float(PENALTY)), tol=1e-12).fun


def excess(mechanism: FineObjective, seed: int) -> float:
    model = ObjectiveFit(mechanism).run(Memory(SIGNED), TestNoise(seed)).coefficients
    return log_loss(model, SIGNED / SIZE, float(PENALTY)) - float(BEST)


@pytest.mark.parametrize("make", [gaussian, pure])
def test_the_excess_is_above_what_is_certified_no_more_often_than_is_said(make: object) -> None:
    mechanism = make(WIDTH, N, PENALTY * N, 0.002, 0.25)  # type: ignore[operator]
    assert certified(mechanism, N, 0.25) <= 0.002
    seen = [excess(mechanism, seed) for seed in range(40)]
    assert np.mean(np.array(seen) > 0.002) <= 0.25
    assert max(seen) > 0.0002


def test_noise_of_twice_the_size_is_caught() -> None:
    mechanism = gaussian(WIDTH, N, PENALTY * N, 0.002, 0.25)
    twin = FineObjective(WIDTH, mechanism.shift // 3, mechanism.ridge, mechanism.output)
    assert np.mean([excess(twin, seed) > 0.002 for seed in range(20)]) > 0.25


def test_the_price_is_that_of_two_gaussian_releases_and_little_more() -> None:
    mechanism = gaussian(WIDTH, N, PENALTY * N, 0.002, 0.1)
    terms = Terms(rows(neighbours="replace", n=N), Loss.mu(100), Fraction(5), Fraction(1, 10**6))
    mu = price(mechanism.event, terms).amount ** 0.5 / 1e6
    assert 2 * mechanism.shift / 1e6 <= mu <= 2.02 * mechanism.shift / 1e6


@pytest.mark.parametrize("delta", [1e-6, None])
def test_a_classifier_is_fitted_to_an_excess_and_says_what_it_cost_beforehand(delta: float | None) -> None:
    wanted = AccuracyFirst(
        LogisticRegression(classes=[-1, 1], x_bound=1, norm="clip", fit_intercept=False),
        excess_loss=0.005, epsilon=20, delta=delta, penalty=PENALTY, noise=TestNoise(1),
    )  # fmt: skip
    model = wanted.fit(X, Y)
    assert model.stopped_reason_ == "target_met"
    assert model.certificate_.bound <= 0.005
    assert "noise alone" in str(model.certificate_)
    assert log_loss(np.array(model.model_.theta), SIGNED / SIZE, float(PENALTY)) - BEST <= 0.005
    assert np.mean(model.predict(X) == Y) > 0.8
    assert model.predict_proba(X).shape == (N, 2)
    assert model.account_.spent.amount == model.spent_
    assert wanted.plan(X, Y)["epsilon"] == model.epsilon_


def test_what_cannot_be_certified_is_refused_and_what_cannot_be_paid_is_said() -> None:
    classifier = LogisticRegression(classes=[-1, 1])
    with pytest.raises(InvalidTask, match="classes"):
        AccuracyFirst(LogisticRegression(), excess_loss=0.3).fit(X, Y)
    with pytest.raises(InvalidTask, match="small enough"):
        AccuracyFirst(classifier, excess_loss=1e-12).fit(X, Y)
    model = AccuracyFirst(classifier, excess_loss=0.001, epsilon=0.01).fit(X, Y)
    assert model.stopped_reason_ == "cap_reached"
    assert model.epsilon_ == 0
    other = open_account(":memory:", "add", unit=rows(), epsilon=5, delta="1e-6")
    with pytest.raises(NeighbourMismatch):
        AccuracyFirst(classifier, excess_loss=0.3, account=other).fit(X, Y)
