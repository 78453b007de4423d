"""Accuracy first where users are hidden: each counts once, a replaced one moves what a replaced row may, and no more."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from off_ledger import InMemory
from steelyard.accounting._prices import price
from steelyard.errors import NeighbourMismatch, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models._columns import SIZE, Features, Numeric
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models._rows import Target
from steelyard.models.accuracy._certificate import RootExcess
from steelyard.models.accuracy._designs import Design, Exact, Ridge
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._losses import MARGIN, ClippedLoss, LoggedLoss, added
from steelyard.models.accuracy._one_shot import LogisticTask, pure
from steelyard.models.accuracy._users import ROOT, WEIGHT, as_exact, exact_of, shares, weighed, weights
from steelyard.noise import TestNoise
from steelyard.privacy import rows, users
from steelyard.session import Session
from steelyard.tables import read

Array = NDArray[np.float64]
Weigh = Callable[[NDArray[np.int64]], NDArray[np.int64]]
UNIT = SIZE * ROOT


def full(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """A twin: every row counts, however many rows its user has."""
    return np.full(len(sizes), WEIGHT)


@st.composite
def one_user(draw: st.DrawFn) -> Array:
    """Rows (x1, x2, y) of one user, features of length at most one, often at the edge and often alike."""
    angles = draw(st.lists(st.integers(0, 7), min_size=1, max_size=6))
    lengths = [draw(st.sampled_from([0.0, 0.3, 0.9999999])) for _ in angles]
    labels = [draw(st.sampled_from([-1.0, -0.2, 0.0, 1.0])) for _ in angles]
    found = [
        (r * math.cos(a * math.pi / 4), r * math.sin(a * math.pi / 4), y)
        for a, r, y in zip(angles, lengths, labels, strict=True)
    ]
    return np.asarray(np.trunc(np.array(found) * SIZE))


CROWD = st.lists(one_user(), max_size=3)


def together(crowd: list[Array]) -> tuple[Array, NDArray[np.int64]]:
    owners = np.repeat(np.arange(len(crowd)), [len(each) for each in crowd])
    return np.concatenate(crowd), owners


def statistics(crowd: list[Array], weigh: Weigh = weights) -> Exact:
    found, owners = together(crowd)
    weight = weigh(np.bincount(owners)[owners])
    return as_exact(len(crowd), weighed(np.ascontiguousarray(found.T), weight), int(weight.sum()))


class Seen(InMemory):
    """What a look may read of a crowd."""

    def __init__(self, crowd: list[Array], weigh: Weigh = weights) -> None:
        found, owners = together(crowd)
        super().__init__((found[:, :2], found[:, 2], owners if weigh is weights else np.arange(len(owners))))
        self._statistics = statistics(crowd, weigh)

    @property
    def exact(self) -> Exact:
        return self._statistics


def overdrawn(others: list[Array], old: Array, new: Array, weigh: Weigh = weights) -> list[str]:
    """Which steps of a path move further than they are charged for when one user is replaced by another."""
    before, after = (Seen([*others, each], weigh) for each in (old, new))
    n, found = len(others) + 1, []
    for vector in (1, 20, 45):
        design = Design(UNIT, 2, vector)
        apart = design.values(before.exact) - design.values(after.exact)
        if int(apart @ apart) > design.square:
            found.append(f"level {vector}")
    if abs(before.exact.square - after.exact.square) > UNIT**2:
        found.append("label")
    ridge = Ridge(n, 2, 0.1)
    for model in ((2**47, -(2**47)), (0, 2**48), (0, 0)):
        root = RootExcess(ridge, model, Fraction(2), 0.001)
        if abs(root.value(before) - root.value(after)) > root.moves:
            found.append("root")
        loss = ClippedLoss(model, 0.1)
        if abs(loss.value(before) - loss.value(after)) > loss.moves:
            found.append("loss")
        log = LoggedLoss(tuple(k >> 28 for k in model), 0.1, 40 << MARGIN)
        if abs(log.value(before) - log.value(after)) > log.moves:
            found.append("log loss")
    return found


@settings(max_examples=150, deadline=None)
@given(CROWD, one_user(), one_user())
def test_a_replaced_user_moves_every_step_by_what_it_is_charged_for(
    others: list[Array], old: Array, new: Array
) -> None:
    assert overdrawn(others, old, new) == []


def test_users_whose_rows_all_count_are_caught() -> None:
    far = np.trunc(np.array([[0.999, 0.0, 1.0]] * 3) * SIZE)
    caught = overdrawn([], far, np.zeros((3, 3)), full)
    assert {"level 1", "level 45", "label", "loss"} <= set(caught)
    assert overdrawn([], far, np.zeros((3, 3))) == []
    many = np.repeat(far, 20, axis=0)
    flipped = many * [1, 1, -1]
    assert "root" in overdrawn([far[:1]] * 60, many, flipped, full)
    assert overdrawn([far[:1]] * 60, many, flipped) == []


def test_one_row_reaches_what_a_user_is_charged_for() -> None:
    design, best = Design(UNIT, 2, 32), 0.0
    old = np.trunc(np.array([[0.9999999, 0.0, 1.0]]) * SIZE)
    for angle in np.linspace(0, np.pi, 50):
        new = np.trunc(np.array([[np.cos(angle), np.sin(angle), 1.0]]) * 0.9999999 * SIZE)
        apart = design.values(statistics([old])) - design.values(statistics([new]))
        best = max(best, float(int(apart @ apart) / design.square))
    assert best > 0.99


def test_weights_share_one_and_run_out() -> None:
    sizes = np.array([1, 2, 3, 1000, WEIGHT, WEIGHT + 1, 2**40])
    found = weights(sizes)
    assert found.tolist() == [WEIGHT, WEIGHT // 2, WEIGHT // 3, 1048, 1, 0, 0]
    assert all(int(k) * int(w) <= WEIGHT for k, w in zip(sizes, found, strict=True))
    some = shares(np.array([0, 1, 1, 2, 2, 2, 1]))
    assert some is not None
    assert [float(w) for w in some[:2]] == [1.0, (WEIGHT // 3) / WEIGHT]
    assert shares(None) is None
    assert np.size(shares(np.empty(0, dtype=np.int64))) == 0  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, WEIGHT), max_size=400), st.integers(0, 10**6))
def test_weighted_sums_are_exact(given_weights: list[int], seed: int) -> None:
    draws = np.random.default_rng(seed)
    z = draws.choice([-SIZE, SIZE, 1.0, 77777.0, 0.0], (3, len(given_weights)))
    weight = np.array(given_weights, dtype=np.int64)
    whole = z.astype(np.int64).astype(object)
    assert weighed(z, weight).tolist() == ((whole * weight.astype(object)) @ whole.T + np.zeros((3, 3), int)).tolist()


@given(st.lists(st.tuples(st.integers(0, 2**23), st.integers(0, 5)), max_size=30))
def test_a_look_tells_no_user_less_than_its_mean_and_less_than_a_step_more(given_losses: list[tuple[int, int]]) -> None:
    losses, owners = (np.array(part, dtype=np.int64) for part in zip(*given_losses, (0, 9), strict=True))
    means = [Fraction(int(losses[owners == who].sum()), int((owners == who).sum())) for who in set(owners.tolist())]
    assert sum(means) <= added(losses, owners) < sum(means) + len(means)
    assert added(losses, np.arange(len(losses))) == added(losses) == losses.sum()


FEATURES = Features([Numeric("a", -1, 3), Numeric("b", 0, 10)], "clip", 1)
LABEL = Target("y", -2, 30)
VALUES = [0.5, -1e308, math.nan, math.inf, -math.inf, None, 3.0, 1e-320, 2.0]
WHOLE = [2**63 - 1, -(2**63), 0, None, 7, 2**53 + 1]


@st.composite
def strange(draw: st.DrawFn) -> dict[str, list[Any]]:
    size = draw(st.integers(1, 12))

    def pick(pool: list[Any]) -> list[Any]:
        return [draw(st.sampled_from(pool)) for _ in range(size)]

    return {"a": pick(VALUES), "b": pick(WHOLE), "y": pick(VALUES), "who": pick([0.0, -0.0, 1.5, None, math.nan, 2.0])}


def exactly(table: dict[str, Any], n: int) -> Exact:
    import pyarrow as pa

    kinds = {"a": pa.float64(), "b": pa.int64(), "y": pa.float64(), "who": pa.float64()}
    arrow = pa.table({name: pa.array(values, kinds[name], from_pandas=False) for name, values in table.items()})
    return exact_of(read(arrow), FEATURES, LABEL, users("who", neighbours="replace", n=n))


def as_text(exact: Exact) -> list[Any]:
    return [exact.n, exact.unit, exact.gram.tolist(), exact.moment.tolist(), exact.square]


@settings(max_examples=15, deadline=None)
@given(strange(), st.randoms(use_true_random=False))
def test_a_table_gives_each_users_share_of_its_rows_in_any_order(table: dict[str, list[Any]], random: Any) -> None:
    import pyarrow as pa

    whose = [None if who is None or who != who else who + 0.0 for who in table["who"]]
    people = {who for who in whose if who is not None}
    n = max(len(people), 1)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(table["a"], pa.float64()), pa.array(table["b"], pa.int64()), pa.array(table["y"], pa.float64())],
        names=["a", "b", "y"],
    )
    z = np.vstack([FEATURES.whole(batch), LABEL.whole(batch.column(2))]).astype(np.int64).astype(object)
    sizes = [sum(other == who for other in whose) if who is not None else 0 for who in whose]
    weight = np.array([WEIGHT // size if size else 0 for size in sizes], dtype=object)
    expected = as_exact(n, (z * weight) @ z.T, int(weight.sum()))
    order = list(range(len(whose)))
    random.shuffle(order)
    shuffled = {name: [values[i] for i in order] for name, values in table.items()}
    assert as_text(exactly(table, n)) == as_text(exactly(shuffled, n)) == as_text(expected)


DRAWS = np.random.default_rng(3)
PEOPLE = 3000
SIZES = DRAWS.integers(1, 6, PEOPLE)
WHO = np.repeat(np.arange(PEOPLE), SIZES)
X = DRAWS.uniform(-0.5, 0.5, (len(WHO), 2))
Y = np.clip(X @ [1.0, -0.6] + 0.3 * (SIZES[WHO] - 2) * X[:, 0] + 0.2 * DRAWS.standard_normal(len(WHO)), -1, 1)
RIDGE = LinearRegression(x_bound=1)
PENALTY = 0.02
EACH = 1 / SIZES[WHO]


def first(seed: int, model: Any = RIDGE, **wanted: Any) -> AccuracyFirst:
    return AccuracyFirst(model, epsilon=20, penalty=PENALTY, noise=TestNoise(seed), **wanted)


def true_excess(model: AccuracyFirst) -> float:
    """Of the penalized half mean over users of their mean squared errors."""
    import pyarrow as pa

    source = model.model_.features.source
    batch = pa.RecordBatch.from_pydict({name: X[:, i] for i, name in enumerate(source)})
    x, shared = model.model_.features.whole(batch).T / SIZE, EACH[:, None]
    matrix = x.T @ (shared * x) + PEOPLE * PENALTY * np.eye(3)
    off = np.array(model.model_.theta) - np.linalg.solve(matrix, x.T @ (EACH * Y))
    return float(off @ matrix @ off) / (2 * PEOPLE)


@pytest.mark.parametrize("check", ["certificate", "auto"])
def test_the_certificate_holds_at_least_as_often_as_it_says(check: str) -> None:
    models = [first(seed, excess_loss=0.02, confidence=0.5, check=check).fit(X, Y, users=WHO) for seed in range(12)]
    assert all(model.stopped_reason_ == "target_met" for model in models)
    assert sum(true_excess(model) > model.certificate_.bound for model in models) <= 6
    assert all("every user counting once" in str(model.certificate_) for model in models)


def test_a_target_is_kept_by_the_mean_over_users_and_may_not_be_by_that_over_rows() -> None:
    for seed in range(4):
        model = first(seed, target_loss=0.085).fit(X, Y, users=WHO)
        assert model.stopped_reason_ == "target_met"
        missed = (model.predict(X) - Y) ** 2
        assert float(missed @ EACH) / PEOPLE <= 0.085


def test_a_heavy_user_counts_once() -> None:
    heavy = np.r_[WHO, np.full(60_000, PEOPLE)]
    x, y = np.vstack([X, np.tile([0.5, 0.5], (60_000, 1))]), np.r_[Y, np.full(60_000, -1.0)]
    model = first(1, target_loss=0.085).fit(x, y, users=heavy)
    assert model.stopped_reason_ == "target_met"
    told = model.predict(x)
    assert np.mean((told[: len(Y)] - Y) ** 2) < 0.12
    assert model.account_.terms.unit.n == PEOPLE + 1


def test_users_of_one_row_each_are_rows() -> None:
    unit = users("who", neighbours="replace", n=len(Y))
    columns = {"a": X[:, 0], "b": X[:, 1], "y": Y, "who": np.arange(len(Y))}
    features = Features([Numeric("a", -1, 1), Numeric("b", -1, 1)], "clip", 1)
    table, label = read(columns), Target("y", -1, 1)
    plain = exact_of(table, features, label, rows(neighbours="replace", n=len(Y)))
    shared = exact_of(table, features, label, unit)
    assert (shared.gram == WEIGHT * plain.gram).all()
    assert (shared.moment == WEIGHT * plain.moment).all()
    assert (shared.square, shared.unit**2) == (WEIGHT * plain.square, WEIGHT * plain.unit**2)
    one, other = (first(2, excess_loss=0.02).fit(X, Y, users=given) for given in (None, np.arange(len(Y))))
    assert [stop.mu2 for stop in one.path_[:4]] == [stop.mu2 for stop in other.path_[:4]]
    models = ((1 << 47, 1 << 46), (3 << 46, -(1 << 46)))
    seen = {"rows": (SIZE * X, np.rint(SIZE * Y)), "users": (SIZE * X, np.rint(SIZE * Y), np.arange(len(Y)))}
    for model in models:
        loss = ClippedLoss(model, 0.1)
        values = {loss.value(InMemory(each)) for each in seen.values()}
        assert len(values) == 1


CLASSES = np.where(X @ [3.0, -2.0] + 0.3 * DRAWS.standard_normal(len(WHO)) > 0, 1, 0)
LOGISTIC = LogisticRegression(x_bound=1, classes=[0, 1])


def signed_of(model: AccuracyFirst) -> Array:
    import pyarrow as pa

    source = model.model_.features.source
    batch = pa.RecordBatch.from_pydict({name: X[:, i] for i, name in enumerate(source)})
    return np.asarray(model.model_.features.whole(batch).T / SIZE * np.where(CLASSES, 1, -1)[:, None])


def mean_log_loss(theta: Array, signed: Array) -> float:
    return float(np.logaddexp(0, -signed @ theta) @ EACH) / PEOPLE


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_a_logistic_excess_holds_at_least_as_often_as_it_says(delta: float | None) -> None:
    from scipy.optimize import minimize

    models = [
        first(s, LOGISTIC, excess_loss=0.005, confidence=0.5, delta=delta).fit(X, CLASSES, users=WHO) for s in range(12)
    ]
    signed = signed_of(models[0])

    def loss(t: Array) -> float:
        return mean_log_loss(t, signed) + PENALTY / 2 * float(t @ t)

    best = float(minimize(loss, np.zeros(3), tol=1e-12).fun)
    over = [loss(np.array(model.model_.theta)) - best > model.certificate_.bound for model in models]
    assert sum(over) <= 6
    event = models[0].account_.terms
    assert (event.delta > 0) == (delta is not None)


def test_a_log_loss_is_reached_for_users() -> None:
    for seed in range(3):
        model = first(seed, LOGISTIC, target_loss=0.6).fit(X, CLASSES, users=WHO)
        assert model.stopped_reason_ == "target_met"
        assert mean_log_loss(np.array(model.model_.theta), signed_of(model)) <= 0.6


def test_a_gaussian_price_of_one_row_is_never_asked_for_a_user() -> None:
    task = LogisticTask(Features([Numeric("a", -1, 1)], "clip", 1), "y", [0, 1], 0.05, 0.9, Fraction(1, 100))
    unit = users("who", neighbours="replace", n=500)
    alone = open_account(":memory:", "a", unit=unit, epsilon="5")
    assert task.fit(alone.terms).event.name == "objective_pure"
    account = open_account(":memory:", "a", unit=unit, epsilon="5", delta="1e-6")
    chosen = task.fit(account.terms)
    assert chosen.event.name == "objective_users"
    dearer = pure(2, 500, Fraction(5), 0.05, 1 - 0.9)
    assert price(chosen.event, account.terms).amount < price(dearer.event, account.terms).amount
    flat = LogisticTask(task.features, "y", [0, 1], 0.3, 0.9, Fraction(1, 10_000))  # no ridge for any Gaussian price
    assert flat.fit(account.terms).event.name in ("objective_pure", "objective_users")


def test_accounts_must_hide_replaced_users_and_know_how_many() -> None:
    table = read({"who": WHO, "a": X[:, 0], "y": Y, "c": CLASSES})
    linear, logistic = FitLinear(["a"], "y", -1, 1, epsilon=1, x_bound=1), FitLogistic(["a"], "c", [0, 1], x_bound=1)
    for task in (linear, logistic):
        account = open_account(":memory:", "a", unit=users("who"), epsilon="5", delta="1e-6")
        for wanted in (AccuracyFirst(task, target_loss=0.5), AccuracyFirst(task, excess_loss=0.1)):
            with pytest.raises(NeighbourMismatch):
                wanted.release(Session(table, account))
        assert account.spent.amount == 0


def test_an_account_and_the_users_given_must_agree() -> None:
    for unit, given_users in (
        (rows(neighbours="replace", n=len(Y)), WHO),
        (users("user", neighbours="replace", n=PEOPLE), None),
    ):
        account = open_account(":memory:", "a", unit=unit, epsilon="5", delta="1e-6")
        with pytest.raises(UnitMismatch, match="users="):
            AccuracyFirst(RIDGE, target_loss=0.1, account=account).fit(X, Y, users=given_users)


def test_a_given_account_pays_and_keeps_its_own_name_for_users() -> None:
    unit = users("x0", neighbours="replace", n=PEOPLE)
    account = open_account(":memory:", "a", unit=unit, epsilon="20", delta="1e-6")
    for model, labels in ((RIDGE, Y), (LOGISTIC, CLASSES)):
        before = account.spent.amount
        found = first(1, model, excess_loss=0.1, account=account).fit(X, labels, users=WHO.astype(str))
        assert account.spent.amount - before == found.spent_ > 0


def test_a_search_for_users_goes_on_and_can_be_planned() -> None:
    model = first(5, excess_loss=0.03).fit(X, Y, users=WHO)
    before = model.spent_
    model.resume(X, Y, users=WHO, excess_loss=0.01)
    assert model.spent_ > before
    assert true_excess(model) <= 0.01
    plan = first(5, excess_loss=0.03).plan(X[:500], Y[:500], users=WHO[:500], n=PEOPLE)
    assert plan["stopped_reason"] == "target_met"
