"""Coarse accuracies in one release: more noise than is priced is never drawn, and more ridge is taken where it pays."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from papers.noise_reduction import log_loss
from steelyard.accounting._objective import LEAST, MOST, STEEPEST
from steelyard.accounting._prices import price
from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.mechanisms import Objective, PureObjective
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._losses import Memory
from steelyard.models._objective import ObjectiveFit
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.models.accuracy._one_shot import (
    FineObjective,
    LogisticTask,
    certified,
    finest,
    gaussian,
    gaussian_users,
    pure,
)
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Loss, Terms, rows, users
from steelyard.session import Session
from steelyard.tables import read

GRID = [
    *itertools.product((1, 3, 50), (0.001, 0.1, 0.69), (20_000,), (Fraction(1, 1000),)),
    (3, 0.1, 50_000, Fraction(1, 1000)),
    (1, 0.69, 200, Fraction(1, 1000)),
    (2, 0.3, 20_000, Fraction(1, 10**5)),
    (20, 0.3, 10**6, Fraction(1, 10)),
    (10, 0.01, 1_000, Fraction(1)),
]


def charged(mechanism: Objective | PureObjective, unit: str, n: int) -> int:
    hidden = rows(neighbours="replace", n=n) if unit == "rows" else users("user", neighbours="replace", n=n)
    cap = (
        (Loss.pure(1000),) if isinstance(mechanism, PureObjective) else (Loss.mu(100), Fraction(5), Fraction(1, 10**6))
    )
    return price(mechanism.event, Terms(hidden, *cap)).amount


@pytest.mark.parametrize(("make", "unit"), [(gaussian, "rows"), (gaussian_users, "users"), (pure, "rows")])
@pytest.mark.parametrize(("width", "alpha", "n", "penalty"), GRID)
def test_what_is_chosen_has_a_proved_price_and_the_promised_excess(
    make: object, unit: str, width: int, alpha: float, n: int, penalty: Fraction
) -> None:
    mechanism = make(width, n, penalty * n, alpha, 0.1)  # type: ignore[operator]
    assert charged(mechanism, unit, n) > 0  # priced, or refused
    assert certified(mechanism, n, penalty * n, 0.1) <= alpha
    assert mechanism.ridge >= penalty * n


@pytest.mark.slow
@pytest.mark.parametrize("make", [gaussian, gaussian_users, pure])
def test_the_same_on_a_wider_grid(make: object) -> None:
    penalties = (Fraction(1, 1000), Fraction(1, 50), Fraction(1))
    for width, alpha, n, penalty in itertools.product(
        (1, 2, 5, 12, 50), (0.003, 0.1, 0.2, 0.69), (500, 20_000), penalties
    ):
        if n == 500 and make is not pure and width > 3 and alpha < 0.1 and penalty < 0.01:
            continue  # more than the largest shift would be needed
        mechanism = make(width, n, penalty * n, alpha, 0.1)  # type: ignore[operator]
        assert charged(mechanism, "users" if make is gaussian_users else "rows", n) > 0
        assert certified(mechanism, n, penalty * n, 0.1) <= alpha


def unlimited(width: int, n: int, ridge: Fraction, alpha: float) -> FineObjective:
    """A twin that looks for the most noise that is accurate enough, whatever is priced."""
    low, high = LEAST, MOST

    def made(shift: int) -> FineObjective:
        return FineObjective(width, shift, ridge, max(1, shift // 64), finest(width, n, ridge, alpha))

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if certified(made(middle), n, ridge, 0.1) <= alpha else (middle + 1, high)
    return made(high)


@pytest.mark.parametrize("n", [20_000, 50_000])
def test_noise_that_only_the_accuracy_limits_has_no_price_and_is_not_what_is_chosen(n: int) -> None:
    ridge = Fraction(n, 1000)
    with pytest.raises(InvalidTask, match="too small"):
        charged(unlimited(3, n, ridge, 0.1), "rows", n)
    chosen = gaussian(3, n, ridge, 0.1, 0.1)
    assert chosen.sigma <= STEEPEST * chosen.ridge
    floor = MICRO / (ridge * STEEPEST)  # what the question's own ridge would have had to cost at least
    assert chosen.price < 0.8 * floor


@pytest.mark.parametrize(("make", "least"), [(gaussian_users, 0.5), (pure, 0.2)])
def test_a_coarse_accuracy_costs_less_than_the_question_s_own_ridge_would(make: object, least: float) -> None:
    n, ridge = 20_000, Fraction(20)
    mechanism = make(3, n, ridge, 0.69, 0.1)  # type: ignore[operator]
    noise = mechanism.scale if isinstance(mechanism, PureObjective) else mechanism.sigma
    steepest = 1 if isinstance(mechanism, PureObjective) else 8
    assert ridge * steepest / noise < least
    assert mechanism.ridge > 5 * ridge


@pytest.mark.parametrize("make", [gaussian, gaussian_users, pure])
def test_the_excess_of_a_coarse_model_is_above_what_is_promised_no_more_often_than_is_said(make: object) -> None:
    n, width, penalty, alpha = 2_000, 2, Fraction(1, 100), 0.2
    draws = np.random.default_rng(3)
    v = draws.standard_normal((n, width)) + np.array([2.0, 0.0])
    v /= np.linalg.norm(v, axis=1)[:, None]
    signed = np.trunc(v * (SIZE - 64))
    mechanism = make(width, n, penalty * n, alpha, 0.25)  # type: ignore[operator]
    tight = FineObjective(width, 10**6, penalty * n, 10**6, finest(width, n, penalty * n, alpha))
    best = log_loss(ObjectiveFit(tight).run(Memory(signed), TestNoise(0)).coefficients, signed / SIZE, float(penalty))
    seen = [
        log_loss(
            ObjectiveFit(mechanism).run(Memory(signed), TestNoise(seed)).coefficients, signed / SIZE, float(penalty)
        )
        - best
        for seed in range(20)
    ]
    assert np.mean(np.array(seen) > alpha) <= 0.25
    assert max(seen) > 0.1 * alpha


def test_too_little_ridge_for_any_price_is_refused_in_words_about_public_numbers() -> None:
    with pytest.raises(InvalidTask, match="an eighth"):
        gaussian(3, 200, Fraction(200, 10**5), 0.1, 0.1)


@pytest.mark.parametrize(("alpha", "free"), [(math.log(2), True), (5.0, True), (0.693, False)])
def test_predicting_one_half_is_within_log_two_of_the_best_and_needs_no_row(alpha: float, free: bool) -> None:
    features = Features((Plain("x"),), norm="clip", x_bound=1)
    search, goal = LogisticSearch(features, "y", (0, 1), Fraction(1, 1000)), Goal("excess", alpha, 0.9)
    model, good_for = search.null(goal) or (np.ones(1), 0.0)
    assert (alpha >= good_for) == free
    assert set(model) == {0.0}


def test_a_task_with_few_features_and_a_coarse_excess_is_released() -> None:
    draws = np.random.default_rng(5)
    n = 20_000
    table = {"x": draws.uniform(-1, 1, n), "z": draws.uniform(-1, 1, n)}
    account = open_account(":memory:", "coarse", unit=rows(neighbours="replace", n=n), epsilon=1, delta="1e-6")
    session = Session(read({**table, "y": (table["x"] > 0).astype(int)}), account, noise=TestNoise(2))
    features = Features((Plain("x"), Plain("z")), norm="clip", x_bound=1)
    release = session.release(LogisticTask(features, "y", (0, 1), 0.3, 0.9, Fraction(1, 1000)))
    assert release.point["excess"] <= 0.3
    assert account.spent.amount == release.guarantee.spent.amount
