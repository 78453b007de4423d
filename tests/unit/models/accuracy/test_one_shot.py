"""The one-shot certificate: true whenever the noise is as long as it may be, and wrong when the noise is longer."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize

from papers.noise_reduction import log_loss
from steelyard.accounting._gaussian import epsilon_of
from steelyard.accounting._prices import price
from steelyard.errors import InvalidTask, NeighbourMismatch
from steelyard.ledger import open_account
from steelyard.models._columns import SIZE
from steelyard.models._losses import Memory
from steelyard.models._newton import Problem
from steelyard.models._objective import ObjectiveFit
from steelyard.models._regression import LogisticRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._one_shot import (
    FineObjective,
    FinePureObjective,
    certified,
    epsilon_before,
    gaussian,
    pure,
)
from steelyard.models.accuracy._quantiles import LAPLACE, LONGEST, NORMAL, shifted_quantile
from steelyard.noise import TestNoise
from steelyard.privacy import Event, Loss, Terms, rows

Array = NDArray[np.float64]
N, WIDTH, PENALTY = 2000, 4, Fraction(1, 20)
DRAWS = np.random.default_rng(11)
X = DRAWS.standard_normal((N, WIDTH))
X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
Y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * DRAWS.standard_normal(N) > 0, 1.0, -1.0)
SIGNED = np.trunc(X * SIZE) * Y[:, None]
PURE, REPLACE = Loss.pure(1000), rows(neighbours="replace", n=N)


def minimized(signed: Array, penalty: float, linear: Array) -> Array:
    """The minimizer of the penalized mean log loss and a linear term."""

    def both(t: Array) -> tuple[float, Array]:
        slope = -(signed / (1 + np.exp(signed @ t))[:, None]).mean(axis=0)
        return log_loss(t, signed, penalty) + float(linear @ t), slope + penalty * t + linear

    return np.asarray(minimize(both, np.zeros(len(linear)), jac=True, tol=1e-13, options={"gtol": 1e-11}).x)


def longest(penalty: float, width: int = WIDTH) -> Array:
    """A row for which the best model is as long as it may be and all other directions are flat."""
    row = np.zeros((1, width))
    row[0, 0] = (1 + LONGEST) / math.sqrt(LONGEST / penalty)
    return row


TABLES = {"learnable": SIGNED, "the longest": np.trunc(np.repeat(longest(float(PENALTY)), N, axis=0) * SIZE)}


def excess(mechanism: FineObjective | FinePureObjective, seed: int, signed: Array = SIGNED) -> float:
    model = ObjectiveFit(mechanism).run(Memory(signed), TestNoise(seed)).coefficients
    best = minimized(signed / SIZE, float(PENALTY), np.zeros(WIDTH))
    return log_loss(model, signed / SIZE, float(PENALTY)) - log_loss(best, signed / SIZE, float(PENALTY))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("make", [gaussian, pure])
def test_the_excess_is_above_what_is_certified_no_more_often_than_is_said(make: object, table: str) -> None:
    mechanism = make(WIDTH, N, PENALTY * N, 0.002, 0.25)  # type: ignore[operator]
    assert certified(mechanism, N, PENALTY * N, 0.25) <= 0.002
    seen = [excess(mechanism, seed, TABLES[table]) for seed in range(30)]
    assert np.mean(np.array(seen) > 0.002) <= 0.25
    assert max(seen) > 0.0002


def test_noise_three_times_as_large_is_caught() -> None:
    mechanism = gaussian(WIDTH, N, PENALTY * N, 0.002, 0.25)
    assert isinstance(mechanism, FineObjective)
    twin = FineObjective(WIDTH, mechanism.shift // 3, mechanism.ridge, mechanism.output, mechanism.finest)
    assert np.mean([excess(twin, seed) > 0.002 for seed in range(20)]) > 0.25


@st.composite
def problems(draw: st.DrawFn) -> tuple[Array, float, float, Array]:
    """Signed rows, lambda, mu and b/n, from flat tables to separable ones."""
    seed, width = draw(st.integers(0, 10**6)), draw(st.integers(1, 4))
    draws = np.random.default_rng(seed)
    penalty = 10 ** draw(st.floats(-3.5, -0.5))
    kind = draw(st.sampled_from(["longest", "random", "apart", "zero"]))
    if kind == "longest":
        signed = longest(penalty, width) * draw(st.floats(0.5, 1.0))
    else:
        signed = draws.standard_normal((draw(st.integers(1, 30)), width)) + (3.0 if kind == "apart" else 0.0)
        signed /= np.maximum(np.linalg.norm(signed, axis=1), 1)[:, None] if kind != "zero" else np.inf
    linear = draws.standard_normal(width) * math.sqrt(penalty) * 10 ** draw(st.floats(-2, 0.3))
    return signed, penalty, penalty * draw(st.floats(0, 3)), linear


def shares(signed: Array, penalty: float, more: float, linear: Array, cost: float = 1.0) -> tuple[float, float, float]:
    """The true excess, its bound given b (with the pull's ``cost`` counted so many times), and lambda |t*|^2."""
    best = minimized(signed, penalty, np.zeros(signed.shape[1]))
    found = minimized(signed, penalty + more, linear)
    true = log_loss(found, signed, penalty) - log_loss(best, signed, penalty)
    bound = float(np.sum((cost * more * best + linear) ** 2)) / (2 * penalty + 4 * more)
    return true, bound, penalty * float(best @ best)


@given(problems())
@settings(max_examples=80, deadline=None)
def test_for_a_given_perturbation_the_excess_is_within_its_bound(problem: tuple[Array, float, float, Array]) -> None:
    true, bound, length = shares(*problem)
    assert true <= bound * (1 + 1e-6) + 1e-9
    assert length <= LONGEST + 1e-6


def test_the_bound_and_the_length_are_attained() -> None:
    true, bound, _ = shares(np.zeros((1, 2)), 0.1, 0.0, np.array([0.02, 0.01]))
    assert true == pytest.approx(bound, rel=1e-4)
    assert shares(longest(0.01), 0.01, 0.0, np.zeros(WIDTH))[2] == pytest.approx(LONGEST, rel=1e-5)
    assert max(u / (1 + math.exp(u)) for u in np.linspace(1.2, 1.4, 100_001)) <= LONGEST


def test_a_bound_that_forgets_what_the_pull_costs_is_caught() -> None:
    true, bound, _ = shares(longest(0.01), 0.01, 0.01, np.zeros(WIDTH) + 1e-3, cost=0.0)
    assert true > bound


@pytest.mark.parametrize("width", [1, 2, 5, 60])
def test_the_length_of_shifted_noise_has_the_quantiles_that_are_used(width: int) -> None:
    draws = np.random.default_rng(width)
    for shift, failure in ((0.1, 0.1), (3.0, 0.25), (30.0, 0.01)):
        exact = math.sqrt(stats.ncx2.isf(failure, width, shift**2))
        assert exact <= shifted_quantile(NORMAL, width, shift, failure) <= exact * (1 + 5e-6)
        b = draws.standard_normal((40_000, width))
        b *= draws.gamma(width, size=(40_000, 1)) / np.linalg.norm(b, axis=1)[:, None]
        b[:, 0] += shift
        seen = np.mean(np.linalg.norm(b, axis=1) > shifted_quantile(LAPLACE, width, shift, failure))
        assert abs(seen - failure) < 5 * math.sqrt(failure / 40_000)
    short, long = (shifted_quantile(LAPLACE, width, shift, 0.1) for shift in (1.0, 2.0))
    assert LAPLACE.quantile(width, 0.1) < short < long


@pytest.mark.parametrize(("width", "shift"), [(2048, 100.0), (2048, 1e4), (100, 1e4), (1, 1e4), (2, 1e-9)])
def test_quantiles_hold_where_the_noise_is_much_shorter_or_longer_than_the_shift(width: int, shift: float) -> None:
    for failure in (1e-6, 0.1, 0.9):
        exact = math.sqrt(stats.ncx2.isf(failure, width, shift**2))
        assert exact * (1 - 1e-7) <= shifted_quantile(NORMAL, width, shift, failure) <= exact * (1 + 5e-6)


def test_the_cover_costs_less_than_a_hundredth_and_doubles_certify_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    n, width, penalty, alpha = 50_000, 40, Fraction(1, 2000), 0.05
    mechanism, terms = pure(width, n, penalty * n, alpha, 0.1), Terms(rows(neighbours="replace", n=n), PURE)
    assert price(mechanism.event, terms).value <= Fraction(1005, 1000) * 2 / mechanism.scale
    more, scale = float(mechanism.ridge - penalty * n) / n, float(mechanism.scale)
    quantile = shifted_quantile(LAPLACE, width, more * n * math.sqrt(LONGEST / float(penalty)) / scale, 0.1)
    assert (scale * quantile / n) ** 2 / (2 * float(penalty) + 4 * more) > 0.985 * alpha
    monkeypatch.setattr(Problem, "_slow", lambda *_: pytest.fail("doubles did not certify"))
    v = np.random.default_rng(2).standard_normal((n, width))
    v /= np.linalg.norm(v, axis=1)[:, None]
    ObjectiveFit(mechanism).solve(Memory(np.trunc(v * (SIZE - 64)) * np.where(v[:, :1] > 0, 1, -1)), TestNoise(1))


def test_drawing_to_zero_is_worth_its_tenth_and_more_for_a_coarse_accuracy() -> None:
    n, width, ridge = 50_000, 40, Fraction(25)
    plain = 2 * LAPLACE.quantile(width, 0.1) / (n * math.sqrt(2 * 0.0005 * 0.05))
    assert float(price(pure(width, n, ridge, 0.05, 0.1).event, Terms(REPLACE, PURE)).value) < 0.89 * plain


def test_the_event_says_how_exactly_it_was_solved_and_older_ones_keep_their_price() -> None:
    for mechanism, cap in (
        (gaussian(WIDTH, N, PENALTY * N, 0.01, 0.1), Loss.mu(100)),
        (pure(WIDTH, N, PENALTY * N, 0.01, 0.1), PURE),
    ):
        terms = Terms(REPLACE, cap, Fraction(5), Fraction(1, 10**6)) if cap is not PURE else Terms(REPLACE, cap)
        event = mechanism.event
        assert event.parameters["gradient_steps"] == mechanism.gradient * 2**60
        older = Event(event.name, {k: v for k, v in event.parameters.items() if k != "gradient_steps"})
        assert price(older, terms) == price(event, terms)


def test_the_price_is_that_of_two_gaussian_releases_and_little_more() -> None:
    mechanism = gaussian(WIDTH, N, PENALTY * N, 0.002, 0.1)
    terms = Terms(REPLACE, Loss.mu(100), Fraction(5), Fraction(1, 10**6))
    mu = price(mechanism.event, terms).amount ** 0.5 / 1e6
    assert 2 * mechanism.shift / 1e6 <= mu <= 2.02 * mechanism.shift / 1e6


def test_the_epsilon_of_one_release_is_told_by_its_event_and_is_never_above_its_price() -> None:
    terms = Terms(REPLACE, Loss.mu(100), Fraction(5), Fraction(1, 10**6))
    steep = FineObjective(WIDTH, 400_000, Fraction(5, 7), 4_000, 1 << 30)  # R sigma/lambda = 3.5: the price is above s
    mu = math.sqrt(price(steep.event, terms).value)
    assert epsilon_of(0.8, 1e-6) < epsilon_before(steep.event, terms) < 0.99 * epsilon_of(mu, 1e-6)
    flat = gaussian(WIDTH, N, PENALTY * N, 0.002, 0.1)
    assert epsilon_before(flat.event, terms) <= epsilon_of(math.sqrt(price(flat.event, terms).value), 1e-6) * (1 + 1e-9)
    exact = pure(WIDTH, N, PENALTY * N, 0.002, 0.1)
    assert epsilon_before(exact.event, terms) == pytest.approx(float(price(exact.event, Terms(REPLACE, PURE)).value))


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
    least = log_loss(minimized(SIGNED / SIZE, float(PENALTY), np.zeros(WIDTH)), SIGNED / SIZE, float(PENALTY))
    assert log_loss(np.array(model.model_.theta), SIGNED / SIZE, float(PENALTY)) - least <= 0.005
    assert np.mean(model.predict(X) == Y) > 0.8
    assert model.predict_proba(X).shape == (N, 2)
    assert model.account_.spent.amount == model.spent_
    assert wanted.plan(X, Y)["epsilon"] == model.epsilon_ >= model.epsilon_filter_


def test_what_cannot_be_certified_is_refused_and_what_cannot_be_paid_is_said() -> None:
    classifier = LogisticRegression(classes=[-1, 1])
    with pytest.raises(InvalidTask, match="classes"):
        AccuracyFirst(LogisticRegression(), excess_loss=0.3).fit(X, Y)
    with pytest.raises(InvalidTask, match="small enough"):
        AccuracyFirst(classifier, excess_loss=1e-12).fit(X, Y)
    model = AccuracyFirst(classifier, excess_loss=0.001, epsilon=0.01).fit(X, Y)
    assert model.stopped_reason_ == "cap_reached"
    assert 0 < model.epsilon_filter_ <= 0.01  # a plain draw, of which nothing is promised
    other = open_account(":memory:", "add", unit=rows(), epsilon=5, delta="1e-6")
    with pytest.raises(NeighbourMismatch):
        AccuracyFirst(classifier, excess_loss=0.3, account=other).fit(X, Y)
