"""Fits that hide labels alone: what one label moves, the shape of the noise, the solve, refusals, and broken twins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import steelyard as sy
from steelyard.account import Account
from steelyard.bounding import Spend
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.mechanisms._observe import observing
from steelyard.models._columns import SIZE
from steelyard.models._label_sums import LabelSums, Space, added, shaped, whole_rows
from steelyard.models._losses import LOGISTIC, SQUARED
from steelyard.models._passes import OneReading
from steelyard.models._rows import Rows
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours

Floats = NDArray[np.float64]
NUMBERS = [0.0, 1.0, -1.0, 7.5, math.nan, math.inf, -math.inf, 1e300, None]
TEXTS = ["a", "b", "", "neither", None]


def account(gaussian: bool, epsilon: str = "1", unit: Any = None) -> Account:
    more = {"delta": "1e-6"} if gaussian else {}
    return sy.open_account(":memory:", "labels", unit=unit or sy.labels("y"), epsilon=epsilon, **more)


def released(labels: Sequence[Any], task: Any, gaussian: bool) -> list[tuple[Any, tuple[int, ...]]]:
    """The events and the integers behind a release of these labels beside fixed features."""
    draw = np.random.default_rng(5)
    table = sy.read({"x": draw.normal(size=len(labels)), "z": draw.normal(size=len(labels)), "y": list(labels)})
    with observing() as seen:
        sy.Session(table, account(gaussian), noise=TestNoise(1)).release(task)
    return [(each.event, each.values) for each in seen]


def moved(task: Any, labels: Sequence[Any], odd: Sequence[Any], gaussian: bool) -> float:
    """The longest way, as a share of what is declared, that changing one label moves the integers."""
    ((event, before),), worst = released(labels, task, gaussian), 0.0
    for place, label in [(place, label) for place in (0, 7) for label in odd]:
        changed = [*labels[:place], label, *labels[place + 1 :]]
        ((other, after),) = released(changed, task, gaussian)
        assert other == event
        assert event.neighbours is Neighbours.CHANGE_LABEL
        gaps = [abs(a - b) for a, b in zip(before, after, strict=True)]
        length = math.sqrt(sum(gap * gap for gap in gaps)) if gaussian else sum(gaps)
        worst = max(worst, length / int(str(event.parameters["sensitivity"])))
    return worst


LINEAR = sy.FitLinear(["x", "z"], "y", -1, 1, epsilon="1", x_bound=2)
CLASSES = sy.FitLogistic(["x", "z"], "y", ["a", "b"], epsilon="1", x_bound=2)
COUNTS = sy.FitPoisson(["x", "z"], "y", 2, 30, epsilon="1", x_bound=2)


@pytest.mark.parametrize("gaussian", [False, True])
def test_one_changed_label_moves_the_sum_by_no_more_than_is_declared(gaussian: bool) -> None:
    assert 0.3 < moved(LINEAR, [-1.0, 0.5] * 6, NUMBERS, gaussian) <= 1
    assert 0.3 < moved(CLASSES, ["a", "b"] * 6, TEXTS, gaussian) <= 1
    assert 0.3 < moved(COUNTS, [2.0, 30.0] * 6, NUMBERS, gaussian) <= 1


@pytest.mark.parametrize("gaussian", [False, True])
def test_half_the_sensitivity_is_caught(gaussian: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def mechanism(self: LabelSums) -> Gaussian | Laplace:
        most = SIZE**2
        return (Gaussian if gaussian else Laplace)(most, self.spend.scale(most), Neighbours.CHANGE_LABEL)

    monkeypatch.setattr(LabelSums, "mechanism", property(mechanism))
    assert moved(LINEAR, [-1.0, 0.5] * 6, NUMBERS, gaussian) > 1
    assert moved(COUNTS, [2.0, 30.0] * 6, NUMBERS, gaussian) > 1


def test_features_that_vanish_with_their_label_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin reads rows as accounts that hide rows do: one without a class loses its features, and the noise its shape."""

    def public_rows(self: OneReading) -> Rows:
        y = self.all.label.of(self.all.whole.y, self.target)
        return Rows(self.all.whole.x * np.abs(y)[:, None], y, None)

    monkeypatch.setattr(OneReading, "public_rows", public_rows)
    assert moved(CLASSES, ["a"] * 4 + ["b"] * 8, TEXTS, True) > 1


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["even", "steep", "flat", "outlier", "repeated"])
def test_no_row_is_longer_than_declared_and_each_is_made_of_itself_alone(order: int, kind: str) -> None:
    x = rows_of(kind)
    space = Space.of(x / SIZE)
    turn = space.turn @ shaped(space, order, 1e-9, True)
    whole = whole_rows(x, turn, order)
    lengths = np.abs(whole).sum(axis=1) if order == 1 else (whole**2).sum(axis=1)
    assert (lengths <= SIZE**order).all()
    assert lengths.max() > 0.9 * SIZE**order
    back = np.random.default_rng(1).permutation(len(x))
    assert (whole_rows(x[back], turn, order) == whole[back]).all()
    assert all((whole_rows(x[i : i + 1], turn, order) == whole[i]).all() for i in range(20))
    assert np.abs(whole - x @ turn).max() < 3 + x.shape[1]


def rows_of(kind: str) -> Floats:
    draw = np.random.default_rng(3)
    x = draw.normal(size=(300, 4)) * {"steep": [1, 0.1, 1e-3, 1e-5]}.get(kind, [1, 1, 1, 1])
    x[:, 1] *= kind != "flat"
    x[:, 1] += (x[:, 0] - x[:, 1]) * (kind == "repeated")
    x[0] *= 30 if kind == "outlier" else 1
    return np.asarray(np.rint(x / np.sqrt((x**2).sum(axis=1)).max() * (SIZE - 4)))


def test_the_sum_is_exact() -> None:
    draw = np.random.default_rng(4)
    rows = np.rint(draw.uniform(-SIZE / 3, SIZE / 3, size=(200_000, 3)))
    labels = np.rint(draw.uniform(-SIZE, SIZE, size=200_000))
    exact = [sum(int(a) * int(b) for a, b in zip(column, labels, strict=True)) for column in rows.T[:1]]
    assert added(rows, labels)[:1] == exact
    assert added(rows[:0], labels[:0]) == [0, 0, 0]


def harm(space: Space, matrix: Floats) -> float:
    """What noise under a shape adds to twice the loss, once the longest row is one."""
    longest = np.sqrt(((space.rows @ matrix) ** 2).sum(axis=1)).max()
    return float(np.sum(np.linalg.inv(matrix / longest) ** 2))


@pytest.mark.parametrize("kind", ["even", "steep", "outlier"])
def test_no_shape_that_was_tried_does_less_harm_and_the_bound_is_nearly_met(kind: str) -> None:
    space, draw = Space.of(rows_of(kind) / SIZE), np.random.default_rng(6)
    found = shaped(space, 2, 1e-9, False)
    least = harm(space, found)
    for _ in range(200):
        assert least <= harm(space, found + 0.2 * np.abs(found).max() * draw.normal(size=found.shape)) * (1 + 1e-3)
    assert least <= 1.001 * harm(space, np.eye(4))
    assert least <= 1.001 * harm(space, (space.turn * space.strength).T)


def test_the_ellipsoid_is_worth_having() -> None:
    draw = np.random.default_rng(8)
    space = Space.of(draw.normal(size=(3000, 10)) * np.geomspace(1, 0.05, 10) / 5)
    assert harm(space, shaped(space, 2, 1e-9, False)) < 0.6 * harm(space, (space.turn * space.strength).T)


def test_much_noise_is_shaped_for_what_can_still_be_heard() -> None:
    """A constant feature that carries the mean and many that are nearly silent: noise leaves the first alone."""
    draw = np.random.default_rng(13)
    x = np.column_stack([draw.normal(size=(3000, 9)) * 0.02, np.full(3000, 0.7)])
    space = Space.of(x)
    mean = space.coordinates(np.eye(10)[9])
    quiet, loud = (np.linalg.inv(each @ each.T) for each in (shaped(space, 2, v, True) for v in (1e-9, 1e3)))
    assert mean @ loud @ mean < 0.7 * (mean @ quiet @ mean)


def fitted(loss: Any, x: Floats, y: Floats, epsilon: float, gaussian: bool) -> Floats:
    rows = Rows(np.rint(x * SIZE), np.rint(y * SIZE) if loss is SQUARED else y, None)
    made = LabelSums(Spend(gaussian, round(epsilon * 10**6)), loss, False).fit(rows, TestNoise(3))
    return np.asarray(made.coefficients)


@pytest.mark.parametrize("gaussian", [False, True])
def test_with_little_noise_the_models_are_those_without_privacy(gaussian: bool) -> None:
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(9)
    x = draw.normal(size=(4000, 3)) / 5
    x /= max(1.0, np.sqrt((x**2).sum(axis=1)).max())
    y = np.clip(x @ [0.5, -0.3, 0.2] + draw.normal(size=4000) * 0.1, -1, 1)
    assert np.abs(fitted(SQUARED, x, y, 1000, gaussian) - np.linalg.lstsq(x, y, rcond=None)[0]).max() < 0.01
    signs = np.where(draw.uniform(size=4000) < 1 / (1 + np.exp(-x @ [8.0, -4.0, 2.0])), 1.0, -1.0)
    plain = LogisticRegression(C=1e6, fit_intercept=False, tol=1e-8).fit(x, signs).coef_[0]
    assert np.abs(fitted(LOGISTIC, x, signs, 1000, gaussian) - plain).max() < 0.1


@pytest.mark.parametrize("gaussian", [False, True])
def test_what_is_all_noise_predicts_the_mean(gaussian: bool) -> None:
    draw = np.random.default_rng(10)
    x, y = draw.normal(size=(2000, 5)), draw.uniform(2, 4, size=2000)
    model = sy.LinearRegression(
        epsilon=0.05, delta=1e-6 if gaussian else None, account=account(gaussian, "0.05"), x_bound=4, y_bounds=(0, 6)
    )
    off = [abs(model.set_params(account=account(gaussian, "0.05")).fit(x, y).predict(x).mean() - 3) for _ in range(5)]
    assert np.median(off) < 1.0


def test_labels_alone_cost_less_than_rows() -> None:
    draw = np.random.default_rng(11)
    x = draw.normal(size=(20_000, 8)) * np.geomspace(1, 0.1, 8)
    y = x @ np.linspace(1, -1, 8) + draw.normal(size=20_000)

    def error(unit: Any) -> float:
        model = sy.LinearRegression(epsilon=0.3, account=account(True, "0.3", unit), x_bound=3, y_bounds=(-5, 5))
        return float(np.mean((model.fit(x, y).predict(x) - x @ np.linspace(1, -1, 8)) ** 2))

    mine, rows = (np.median([error(unit) for _ in range(5)]) for unit in (sy.labels("y"), sy.rows()))
    assert mine < 0.5 * rows


@pytest.mark.parametrize("labels", [[], ["a"], ["neither"] * 5, [None] * 5, ["a"] * 5])
@pytest.mark.parametrize("gaussian", [False, True])
def test_any_table_gives_a_model(labels: list[str | None], gaussian: bool) -> None:
    import pyarrow as pa

    count = len(labels)
    columns = {"x": pa.array([1.0] * count, pa.float64()), "z": pa.array([math.nan] * count, pa.float64())}
    table = sy.read(pa.table({**columns, "y": pa.array(labels, pa.string())}))
    release = sy.Session(table, account(gaussian)).release(CLASSES)
    assert all(math.isfinite(value) for value in release.value.theta)


def test_three_classes_share_the_price_and_estimators_take_the_account() -> None:
    draw = np.random.default_rng(12)
    x = draw.normal(size=(6000, 2))
    y = np.array(["u", "v", "w"])[np.argmax(x @ [[2, -1, 0], [0, 2, -2]] + draw.gumbel(size=(6000, 3)), axis=1)]
    paying = account(True, "2")
    model = sy.LogisticRegression(epsilon=2, account=paying, classes=["u", "v", "w"], x_bound=2).fit(x, y)
    assert model.score(x, y) > 0.6
    assert "the label 'y' of one row" in str(model.guarantee_)
    assert paying.remaining.amount < 10**9


def test_what_labels_do_not_pay_for_is_refused_before_the_charge() -> None:
    table, paying = sy.read({"x": [1.0], "z": [1.0], "y": [1.0], "w": [2.0]}), account(True)
    session = sy.Session(table, paying)
    refused: list[tuple[Any, type[Exception], str]] = [
        (sy.FitLinear(["x"], "w", 0, 1, epsilon="1", x_bound=1), UnitMismatch, "the account hides"),
        (sy.FitLinear(["x"], "y", 0, 1, epsilon="1", x_bound=1, method="output"), UnitMismatch, "one way to fit"),
        (sy.FitLinear(["x"], "y", 0, 1, epsilon="1", x_bound=1, method="output", ridge=1), UnitMismatch, "ridge"),
        (sy.FitLinear(["x"], "y", 0, 1, epsilon="1", x_bound=1, cap=3), UnitMismatch, "cap"),
        (sy.FitLogistic(["x"], "y", ["a", "b"], epsilon="1", x_bound=1), InvalidTask, "no row could ever"),
        (sy.Sum("y", epsilon="1", cap=1), UnitMismatch, "protects users or rows"),
    ]
    for task, kind, words in refused:
        with pytest.raises(kind, match=words):
            session.release(task)
    with pytest.raises(UnitMismatch, match="leave users"):
        sy.LinearRegression(epsilon=1, account=paying).fit([[1.0]], [1.0], users=[1])
    with pytest.raises(InvalidTask, match="declare classes"):
        sy.LogisticRegression(epsilon=1, account=paying).fit([[1.0], [2.0]], [0, 1])
    assert paying.spent.amount == 0


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_fit_costs_what_was_asked(gaussian: bool) -> None:
    paying = account(gaussian)
    sy.Session(sy.read({"x": [1.0], "z": [0.0], "y": [0.5]}), paying).release(LINEAR)
    assert 0 <= paying.remaining.amount <= (2_000_000 if gaussian else 0)
    mechanism = LabelSums(Spend(gaussian, 5), SQUARED, True).mechanism
    assert (mechanism.epsilon if isinstance(mechanism, Laplace) else mechanism.mu_squared) == Fraction(5, 10**6) ** (
        2 if gaussian else 1
    )
