"""``FitPoisson``: what it learns of counts, what it does with tables nobody expected, what it refuses, and a broken twin.

What one label moves is checked beside the other label-private fits, in test_label_sums.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import steelyard as sy
from steelyard.account import Account
from steelyard.bounding import Spend
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.mechanisms._observe import observing
from steelyard.models import Model
from steelyard.models._columns import SIZE
from steelyard.models._label_sums import LabelSums
from steelyard.models._poisson_fit import FitPoisson
from steelyard.models._rows import Rows, Target
from steelyard.models._smooth_losses import PoissonLoss
from steelyard.noise import TestNoise

Floats = NDArray[np.float64]
NAMES = ["x0", "x1", "x2"]
TASK = FitPoisson([sy.Numeric(name, -1, 1) for name in NAMES], "y", 0, 20, epsilon="1")


def account(gaussian: bool = True, unit: Any = None, epsilon: str = "1") -> Account:
    more = {"delta": "1e-6"} if gaussian else {}
    return sy.open_account(":memory:", "counts", unit=unit or sy.labels("y"), epsilon=epsilon, **more)


def counted(seed: int, rows: int = 8000, middle: float = 1.0) -> tuple[dict[str, Floats], Floats]:
    """Features and counts, and the mean of each count."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-1, 1, size=(rows, 3))
    means = np.exp(middle + x @ [0.6, -0.4, 0.2])
    return {**dict(zip(NAMES, x.T, strict=True)), "y": draw.poisson(means).astype(float)}, means


def excess(told: Floats, means: Floats) -> float:
    """The mean loss above that of the truth, in nats."""
    held = np.maximum(told, 1e-3)
    return float(np.mean(means * np.log(means / held) - means + held))


def released(columns: dict[str, Any], gaussian: bool, task: FitPoisson = TASK, noise: Any = None) -> Model:
    session = sy.Session(sy.read(columns), account(gaussian), noise=noise)
    model = session.release(task).value
    assert isinstance(model, Model)
    return model


@pytest.mark.parametrize("gaussian", [False, True])
def test_expected_counts_are_near_the_truth(gaussian: bool) -> None:
    """Over draws of data and of noise; the model of one mean loses some 0.27 nats, and these lose at most a sixth of that."""
    for seed in range(5):
        columns, means = counted(seed)
        model = released(columns, gaussian, noise=TestNoise(seed))
        one = excess(np.full(len(means), columns["y"].mean()), means)
        assert excess(model.predict(columns), means) < one / 6
        assert one > 0.15
        assert model.coefficients["x0"] > 0 > model.coefficients["x1"]


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(("lower", "upper"), [(0, 20), (2, 12)])
def test_with_little_noise_it_is_the_fit_without_privacy(gaussian: bool, lower: int, upper: int) -> None:
    from sklearn.linear_model import PoissonRegressor

    columns, _ = counted(7)
    x = np.column_stack([columns[name] for name in NAMES])
    x = np.column_stack([x, np.ones(len(x))]) / 2
    y = np.clip(columns["y"], lower, upper)
    target = Target("y", lower, upper)
    rows = Rows(np.rint(x * SIZE), np.rint((y - target.middle) / target.half * SIZE), None)
    loss = PoissonLoss().between(target)
    made = LabelSums(Spend(gaussian, 10**9), loss, True).fit(rows, TestNoise(3)).coefficients
    plain = PoissonRegressor(alpha=0, fit_intercept=False, tol=1e-9, max_iter=1000).fit(x, y).coef_
    assert np.abs(made - plain).max() < 0.02


class Forgetful(PoissonLoss):
    """The twin: takes labels for counts, and forgets that they were centred."""

    def mean(self, scores: Floats) -> Floats:
        return super().mean(scores) + self.middle / self.half


def test_a_mean_that_forgets_the_middle_is_caught() -> None:
    draw = np.random.default_rng(9)
    x = np.column_stack([draw.uniform(-0.7, 0.7, 4000), np.full(4000, 0.7)])
    means = np.exp(x @ [1.0, 1.5])
    y = (np.clip(draw.poisson(means), 0, 20) - 10) / 10
    rows = Rows(np.rint(x * SIZE), np.rint(y * SIZE), None)
    fine, broken = (
        np.exp(x @ LabelSums(Spend(True, 10**8), loss, True).fit(rows, TestNoise(3)).coefficients)
        for loss in (PoissonLoss(10.0, 10.0), Forgetful(10.0, 10.0))
    )
    assert excess(fine, means) < 0.01
    assert excess(broken, means) > 0.5


ODD: list[list[Any]] = [[], [0.0], [None] * 5, [math.nan] * 5, [0.0] * 50, [1e300] * 50, [-1e300, math.inf] * 9]


@pytest.mark.parametrize("labels", ODD, ids=[f"{len(each)} of {each[:1]}" for each in ODD])
@pytest.mark.parametrize("gaussian", [False, True])
def test_any_table_gives_a_model_and_predictions_between_the_bounds(labels: list[Any], gaussian: bool) -> None:
    import pyarrow as pa

    odd = [1.0, math.nan, math.inf, None, -1e300]
    x = pa.array([odd[place % 5] for place in range(len(labels))], pa.float64())
    table = pa.table({"x": x, "y": pa.array(labels, pa.float64())})
    for task in (
        FitPoisson(["x"], "y", 3, 10**9, epsilon="1", x_bound=1),
        FitPoisson(["x"], "y", 0, 1, epsilon="1", x_bound="1e-9", intercept=False),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = sy.Session(sy.read(table), account(gaussian), noise=TestNoise(4)).release(task).value
        told = model.predict({"x": [0.0, 1.0, -1e300, math.inf]})
        assert ((told >= float(task.lower)) & (told <= float(task.upper))).all()


def test_a_sum_below_any_counts_still_has_a_model() -> None:
    """Noise far larger than the labels: the noisy mean count is often negative, and is taken as what it may be."""
    columns, _ = counted(3, rows=100, middle=-4.0)
    for seed in range(20):
        paying = account(epsilon="0.01")
        task = FitPoisson(NAMES, "y", 0, 1000, epsilon="0.01", x_bound=2)
        model = sy.Session(sy.read(columns), paying, noise=TestNoise(seed)).release(task).value
        told = model.predict(columns)
        assert ((told > 1e-3) & (told <= 1000)).all()


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_fit_costs_what_was_asked_and_reads_labels_once(gaussian: bool) -> None:
    paying, (columns, _) = account(gaussian), counted(1, rows=50)
    with observing() as seen:
        sy.Session(sy.read(columns), paying, noise=TestNoise(1)).release(TASK)
    assert len(seen) == 1
    assert 0 <= paying.remaining.amount <= (2_000_000 if gaussian else 0)


def test_a_model_is_saved_and_read_back(tmp_path: Path) -> None:
    columns, _ = counted(2, rows=500)
    model = released(columns, True)
    model.save(tmp_path / "model.json")
    back = Model.load(tmp_path / "model.json")
    assert back == model
    assert (back.predict(columns) == model.predict(columns)).all()
    flat = math.log(4) * math.sqrt(2)
    constant = Model("poisson", TASK.features, "y", [0, 0, 0, flat], 0, 20)
    assert constant.predict(columns) == pytest.approx(np.full(500, 4.0), rel=1e-4)
    assert constant.coefficients["intercept"] == pytest.approx(math.log(4), rel=1e-4)
    document = json.loads((tmp_path / "model.json").read_text())
    for bad in ({"lower": -1}, {"upper": None}, {"upper": 10**10}, {"lower": "0.5"}):
        with pytest.raises(InvalidTask):
            Model.from_json({**document, **bad})


def test_what_is_no_label_private_count_is_refused_before_the_charge() -> None:
    table = sy.read({"x": [1.0], "y": [1.0], "w": [2.0], "who": ["a"]})
    task = FitPoisson(["x"], "y", 0, 9, epsilon="1", x_bound=1)
    for unit in (sy.rows(), sy.users("who"), sy.rows(neighbours="replace", n=1)):
        paying = account(unit=unit)
        with pytest.raises(UnitMismatch, match="FitLinear fits"):
            sy.Session(table, paying).release(task)
        assert paying.spent.amount == 0
    with pytest.raises(UnitMismatch, match="the account hides"):
        sy.Session(table, account(unit=sy.labels("w"))).release(task)
    bounds: list[tuple[int, int | str]] = [(-1, 5), (0, "2.5"), (0, 10**10), (5, 5)]
    for lower, upper in bounds:
        with pytest.raises(InvalidTask):
            FitPoisson(["x"], "y", lower, upper, epsilon="1", x_bound=1)
    with pytest.raises(InvalidTask, match="cannot also be a feature"):
        FitPoisson(["y"], "y", 0, 9, epsilon="1", x_bound=1)
    with pytest.raises(InvalidTask):
        FitPoisson(["x"], "y", 0, 9, epsilon="-1", x_bound=1)
