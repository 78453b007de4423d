"""A cap on rows per user with every way of fitting: what it costs, how far a user moves it, and twins that forget the cap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from steelyard.accounting import grouped, price, range_to_mu
from steelyard.accounting._gaussian import delta_of
from steelyard.audit import audit
from steelyard.audit._suite import CLASSED, gaussian, pure
from steelyard.errors import InvalidTask, SteelyardError, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models import AccuracyFirst
from steelyard.models._columns import Numeric
from steelyard.models._exponential_mechanism import Hypotheses
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models._losses import LOG_COSH, LOGISTIC, LossFunction
from steelyard.models._objective import ObjectiveFit, gaussian_objective, pure_objective
from steelyard.models._output_perturbation import OutputFit
from steelyard.models._passes import Method
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models._rows import Rows, kept
from steelyard.models._user_descent import CappedFit
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Event, Terms, rows, users
from steelyard.session import Session
from steelyard.tables import read
from unit.models.user_replay import furthest, made_up, newcomers, rows_of

Array = NDArray[np.float64]
RANDOM = np.random.default_rng(18)
N = 8_000
X = RANDOM.uniform(-1, 1, N)
USERS = np.arange(N) // 4
SPEND = 2 * X + 0.1 * RANDOM.normal(size=N)
RICH = SPEND > 0
TABLE = read({"x": X, "rich": RICH, "spend": SPEND, "who": USERS})
WHO = users("who")
PURE: dict[str, Any] = {"epsilon": 8}
GAUSSIAN: dict[str, Any] = {"epsilon": 8, "delta": "1e-6"}
NEAR = [[0.9, 0.0], [0.0, 0.9], [-0.9, 0.0]]
WAYS: dict[str, dict[str, Any]] = {
    "auto": {},
    "objective": {"method": "objective"},
    "output": {"method": "output"},
    "choice": {"method": "choice", "candidates": NEAR},
    "ball": {"method": "choice", "radius": 1},
}
ALL = pytest.mark.parametrize(
    ("kind", "way", "budget"),
    [(k, w, b) for k in ("linear", "logistic") for w in WAYS for b in (PURE, GAUSSIAN)],
)


def task(kind: str, **more: Any) -> FitLinear | FitLogistic:
    asked = {"epsilon": 8, **more}
    if kind == "linear":
        return FitLinear([Numeric("x", -1, 1)], "spend", -3, 3, **asked)
    return FitLogistic([Numeric("x", -1, 1)], "rich", [False, True], **asked)


def session(unit: Any = WHO, **budget: Any) -> Session:
    name = f"a{RANDOM.integers(2**60)}"
    return Session(TABLE, open_account(":memory:", name, unit=unit, **budget), noise=TestNoise(3))


@ALL
def test_every_way_fits_capped_rows_for_what_was_asked_and_no_more(kind: str, way: str, budget: dict[str, Any]) -> None:
    at = session(**budget)
    release = at.release(task(kind, cap=4, **WAYS[way]))
    whole = at.account.terms.cap.value
    assert 0.98 * whole <= release.guarantee.spent.value <= whole
    told = release.value.predict({"x": X})
    right = np.mean((told > 0) == RICH) if kind == "linear" else np.mean((told > 0.5) == RICH)
    assert right > 0.85


@ALL
def test_a_twin_that_forgets_the_cap_would_cost_more(kind: str, way: str, budget: dict[str, Any]) -> None:
    hidden = session(**budget).account.terms
    each = session(rows(), **budget).account.terms
    honest = price(task(kind, cap=4, **WAYS[way]).fit(hidden).event, hidden)
    forgot = price(CappedFit(task(kind, **WAYS[way]).fit(each), 4).event, hidden)
    assert honest <= hidden.cap
    assert forgot.value > 2.5 * honest.value  # four times, but for pure steps on a Gaussian account


def of_rows(way: str, loss: LossFunction, micro: int) -> Method:
    if way == "choice":
        return Hypotheses([[0.5, 0, 0], [0, 1, 0], [0, -0.2, 0.9]], micro, loss)
    return OutputFit.public(3, micro, way == "gaussian", None, loss)


@pytest.mark.parametrize("loss", [LOGISTIC, LOG_COSH], ids=["logistic", "log cosh"])
@pytest.mark.parametrize("way", ["gaussian", "laplace", "choice"])
def test_a_user_moves_integers_by_at_most_as_many_rows_as_are_kept(way: str, loss: LossFunction) -> None:
    method, base = of_rows(way, loss, 500_000), made_up()
    if way == "choice":
        found = [choice_gap(method, base, extra, 5) for extra in newcomers(heavy=300).values()]
        worst, more = max(found), max(choice_gap(method, base, extra, 6) for extra in newcomers(heavy=300).values())
    else:
        worst = furthest(CappedFit(method, 5), base, newcomers(heavy=300))
        more = furthest(CappedFit(method, 6), base, newcomers(heavy=300))
    assert worst <= 5
    assert more > worst  # the twin: one row too many


@pytest.mark.parametrize("normal_noise", [True, False], ids=["gaussian", "laplace"])
def test_an_answer_that_pays_for_one_row_is_caught(normal_noise: bool) -> None:
    method = OutputFit(3, 500_000, normal_noise, Fraction(1000), LOG_COSH)
    assert 1 < furthest(CappedFit(method, 20), made_up(), newcomers(heavy=300)) <= 20


def choice_gap(method: Any, base: Rows, extra: Rows, cap: int) -> float:
    """How far a newcomer moves the costs, in sensitivities; one user's kept rows are the newcomer's alone."""
    part = kept(extra, cap, bytes(32))
    (costs,) = method.costs(*method.loss.oriented(part.x, part.y))
    assert min(costs) >= 0
    return float(max(costs) / method.mechanism.sensitivity)


class ForgetsCap(CappedFit):
    """The twin: keeps so many rows of a user and pays for one."""

    @property
    def event(self) -> Event:
        return self.method.event


@dataclass(frozen=True)
class Forgetful(FitLogistic):
    """A task that fits by the twin."""

    def fit(self, terms: Terms) -> Method:
        way: dict[str, Any] = {name: getattr(self, name) for name in ("epsilon", "method", "candidates")}
        alone = FitLogistic(self.features, self.label, self.classes, **way)
        return ForgetsCap(alone.fit(replace(terms, unit=rows())), self.cap or 1)


def test_the_audit_sees_that_a_cap_was_forgotten() -> None:
    asked: dict[str, Any] = {"epsilon": 1, "method": "choice", "cap": 99, "intercept": False}
    forgot = Forgetful([Numeric("amount", -9, 10)], "label", [0, 1], candidates=[[1.0], [-1.0]], **asked)
    found = audit(forgot, terms=pure(WHO), columns=CLASSED, share=20)
    assert [check.name for check in found.checks if not check.ok] == ["distance"]


# Exact laws in one dimension: tau rows of one user come at once, under an objective with noise in it.

T = np.linspace(-60, 60, 120_001)


def slope(loss: LossFunction, row: float, label: float) -> tuple[Array, Array]:
    """Gradient and curvature of one row at every t; for classes the label's sign is in the row."""
    score = row * T
    first, second = loss.derivatives(score, None if loss.classifies else np.full_like(T, label))
    return row * first, row * row * second


def laws(loss: LossFunction, size: int, ridge: float, noise: Any) -> Iterator[tuple[Array, Array]]:
    """The minimizer's law without and with ``size`` rows of one user, both ways round, beside what pushes and bends."""
    for push, label, row, others in itertools.product((-9.0, 0.0, 4.0), (-1.0, 1.0), (1.0, -0.7), (0, 3)):
        own, bend = slope(loss, row, label)
        near, more = slope(loss, 1.0, -label)
        b = -ridge * T - others * near - push
        left = noise(b) * (ridge + others * more)
        right = noise(b - size * own) * (ridge + others * more + size * bend)
        yield left, right
        yield right, left


def normal(sigma: float) -> Any:
    return lambda b: np.exp(-((b / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))


def laplace(scale: float) -> Any:
    return lambda b: np.exp(-np.abs(b) / scale) / (2 * scale)


def worst_ratio(loss: LossFunction, size: int, ridge: float, scale: float) -> float:
    with np.errstate(all="ignore"):
        each = laws(loss, size, ridge, laplace(scale))
        return max(float(np.nanmax(np.log(a) - np.log(b))) for a, b in each)


def worst_delta(loss: LossFunction, size: int, ridge: float, sigma: float, epsilon: float) -> float:
    each = laws(loss, size, ridge, normal(sigma))
    return max(float(np.trapezoid(np.maximum(a - math.exp(epsilon) * b, 0), T)) for a, b in each)


@pytest.mark.parametrize("loss", [LOGISTIC, LOG_COSH], ids=["logistic", "log cosh"])
@pytest.mark.parametrize("cap", [1, 3])
def test_rows_of_one_user_under_an_objective_lose_no_more_than_their_price(loss: LossFunction, cap: int) -> None:
    m = pure_objective(1, 600_000 // cap, None, loss).mechanism
    lost = worst_ratio(loss, cap, float(m.ridge), float(m.scale))  # type: ignore[union-attr]
    assert lost <= cap / float(m.scale) + 1e-9  # type: ignore[union-attr]
    assert cap == 1 or lost > 1.5 / float(m.scale)  # type: ignore[union-attr]  # the twin that pays for one row
    fit = gaussian_objective(1, 600_000 // cap, None, loss)
    g: Any = fit.mechanism
    for epsilon in (0.0, 0.5, 1.5):
        found = worst_delta(loss, cap, float(g.ridge), float(g.sigma), epsilon)
        assert found <= delta_of(epsilon, cap * loss.members * g.price / MICRO) + 1e-9
        if cap > 1:
            assert found > 1.5 * delta_of(epsilon, g.price / MICRO)  # the same twin


def test_a_ridge_below_the_scale_is_caught_for_log_cosh_too() -> None:
    assert worst_ratio(LOG_COSH, 1, 0.1, 1.0) > 1.2
    assert worst_ratio(LOG_COSH, 1, 1.0, 1.0) <= 1 + 1e-9


def test_log_cosh_is_two_logistic_losses_and_is_charged_as_two() -> None:
    r = np.linspace(-20, 20, 401)
    both = LOGISTIC.value(r) + LOGISTIC.value(-r) - 2 * math.log(2)
    assert np.abs(LOG_COSH.value(r, None) - both).max() < 1e-13
    fit = gaussian_objective(3, 400_000, None, LOG_COSH)
    assert fit.event == grouped(fit.mechanism.event, 2)
    assert price(fit.event, gaussian(rows())) == price(grouped(fit.mechanism.event, 2), gaussian(rows()))
    alone = ObjectiveFit(fit.mechanism, LOGISTIC)
    assert price(fit.event, gaussian(rows())).amount == 4 * price(alone.event, gaussian(rows())).amount
    assert pure_objective(3, 400_000, None, LOG_COSH).event.name == "objective_pure"
    assert grouped(fit.event, 5) == grouped(fit.mechanism.event, 10)


def test_a_choice_on_a_gaussian_account_costs_the_mu_of_its_group() -> None:
    event = CappedFit(Hypotheses(NEAR, 50_000), 4).event
    squared = Fraction(price(event, gaussian(WHO)).amount)
    assert squared == math.ceil(range_to_mu(Fraction(200_000, MICRO)) ** 2)
    assert price(event, pure(WHO)).amount == 200_000


def test_several_classes_share_what_a_capped_fit_may_spend() -> None:
    table = read({"x": X, "c": np.digitize(SPEND, [-1, 1]), "who": USERS})
    for budget in (PURE, GAUSSIAN):
        account = open_account(":memory:", "classes", unit=WHO, **budget)
        asked = FitLogistic([Numeric("x", -1, 1)], "c", [0, 1, 2], epsilon=8, cap=4, method="output")
        release = Session(table, account, noise=TestNoise(1)).release(asked)
        assert 0.98 * account.terms.cap.value <= release.guarantee.spent.value <= account.terms.cap.value


def test_a_search_for_an_accuracy_does_not_pass_over_a_cap_or_a_method() -> None:
    for more in ({"cap": 3}, {"method": "output"}, {"radius": 1, "method": "choice"}):
        for made in (LinearRegression(1, 1e-6, 1, (-3, 3), **more), task("linear", **more)):
            with pytest.raises(InvalidTask, match="way of fitting of its own"):
                AccuracyFirst(made, target_loss=0.1).release(session(rows(), **GAUSSIAN))


BAD: list[tuple[dict[str, Any], Any, dict[str, Any], Any]] = [
    ({"cap": 4}, rows(), PURE, UnitMismatch),
    ({"cap": 4, "method": "output"}, rows(), GAUSSIAN, UnitMismatch),
    ({"cap": 4, "public_rows": 9}, WHO, GAUSSIAN, UnitMismatch),
    ({"cap": 2**30}, WHO, PURE, InvalidTask),
    ({"cap": 2**40, "method": "output"}, WHO, PURE, InvalidTask),
    ({"cap": 9_000_000, "method": "output"}, WHO, PURE, InvalidTask),
    ({"cap": 9_000_000, "method": "choice", "radius": 1}, WHO, PURE, InvalidTask),
    ({"cap": 0, "method": "output"}, WHO, GAUSSIAN, InvalidTask),
    ({"cap": True, "method": "choice", "radius": 1}, WHO, PURE, InvalidTask),
    ({"cap": 1.5}, WHO, PURE, InvalidTask),
    ({"cap": "4"}, WHO, PURE, InvalidTask),
    ({"method": "output"}, WHO, GAUSSIAN, UnitMismatch),
    ({"method": "choice", "radius": 1}, WHO, GAUSSIAN, UnitMismatch),
    ({"method": "objective"}, WHO, PURE, InvalidTask),
]


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize(("more", "unit", "budget", "error"), BAD)
def test_what_cannot_be_meant_is_refused_before_anything_is_charged(
    kind: str, more: dict[str, Any], unit: Any, budget: dict[str, Any], error: Any
) -> None:
    at = session(unit, **budget)
    with pytest.raises(error):
        at.release(task(kind, **more))
    assert at.account.spent.amount == 0


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize(
    "more",
    [
        {"method": "magic"},
        {"method": "choice"},
        {"method": "choice", "radius": 1, "candidates": NEAR},
        {"radius": 1},
        {"candidates": NEAR},
        {"method": "choice", "radius": 0},
        {"method": "choice", "radius": 513},
        {"method": "choice", "radius": "0.0001"},
        {"method": "choice", "radius": "nan"},
        {"method": "choice", "candidates": [[1.0]]},
        {"method": "choice", "candidates": []},
        {"method": "choice", "candidates": [["a", 1.0]]},
        {"method": "choice", "candidates": [[math.inf, 1.0]]},
        {"method": "choice", "candidates": NEAR, "ridge": 1},
        {"method": "objective", "ridge": -1},
    ],
)
def test_settings_that_contradict_each_other_make_no_task(kind: str, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        task(kind, **more)


def test_a_ball_of_many_features_is_refused_and_says_what_to_use() -> None:
    names = [f"x{i}" for i in range(5)]
    with pytest.raises(InvalidTask, match="objective"):
        FitLinear(names, "y", 0, 1, epsilon=1, x_bound=1, method="choice", radius=1)
    assert FitLinear(names[:4], "y", 0, 1, epsilon=1, x_bound=1, method="choice", radius=1).features.width == 5


def test_the_estimators_take_every_way_with_a_cap() -> None:
    points = X[:, None]
    for delta, way in zip(itertools.cycle((None, 1e-6)), WAYS.values(), strict=False):
        straight = LinearRegression(8, delta, 1, (-3, 3), cap=4, noise=TestNoise(2), **way)
        assert straight.fit(points, SPEND, users=USERS).score(points, SPEND) > 0.3
        curved = LogisticRegression(8, delta, [False, True], cap=4, noise=TestNoise(2), **way)
        assert curved.fit(points, RICH, users=USERS).score(points, RICH) > 0.85
    with pytest.raises(SteelyardError):
        LinearRegression(8, None, 1, (-3, 3), cap=4).fit(points, SPEND)
    given = LinearRegression(8, None, 1, (-3, 3), cap=4, method="choice", candidates=np.array(NEAR), noise=TestNoise(2))  # type: ignore[arg-type]
    assert given.fit(points, SPEND, users=USERS).model_.theta in [tuple(each) for each in NEAR]


def test_a_user_with_very_many_rows_keeps_the_cap_whatever_their_order() -> None:
    """One user of fifty thousand rows, most of them alike, some of hostile size, beside others who change nothing."""
    heavy = 50_000
    x = np.tile([[0.6, 0.8, 0.0]], (heavy, 1))
    x[:50] = np.random.default_rng(4).normal(size=(50, 3))
    mine = rows_of(x, np.sign(np.arange(heavy) - 0.5), [7] * heavy)
    first = kept(mine, 12, bytes(32))
    turned = kept(Rows(mine.x[::-1], mine.y[::-1], mine.users), 12, bytes(32))
    beside = made_up(30)
    among = kept(
        Rows(np.concatenate([mine.x, beside.x]), np.concatenate([mine.y, beside.y]),
             np.concatenate([np.full(heavy, 10**6), beside.users])),
        12,
        bytes(32),
    )  # fmt: skip
    bags = [sorted(map(tuple, np.column_stack([each.x, each.y]).tolist())) for each in (first, turned)]
    assert bags[0] == bags[1]
    assert len(bags[0]) == 12
    theirs = kept(beside, 12, bytes(32))
    both = sorted(map(tuple, np.column_stack([among.x, among.y]).tolist()))
    assert both == sorted(bags[0] + list(map(tuple, np.column_stack([theirs.x, theirs.y]).tolist())))


@pytest.mark.parametrize("way", WAYS)
def test_a_cap_above_every_user_keeps_all_rows(way: str) -> None:
    release = session(**PURE).release(task("linear", cap=100, **WAYS[way]))
    assert release.guarantee.spent.value <= 8
