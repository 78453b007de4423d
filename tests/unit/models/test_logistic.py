"""``FitLogistic``: what it costs, what it learns, and what it does with labels and tables nobody expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models import _passes as passes
from steelyard.models._columns import Numeric
from steelyard.models._fits import FitLogistic
from steelyard.models._losses import LOGISTIC, Memory
from steelyard.models._model import Model, OneVsRest
from steelyard.models._output_perturbation import OutputFit
from steelyard.models._passes import Folded, Reading, kept
from steelyard.models._rows import Classes, signs
from steelyard.noise import TestNoise
from steelyard.privacy import rows, users
from steelyard.session import Session
from steelyard.tables import read

DRAW = np.random.default_rng(11)
AGE = DRAW.uniform(0, 100, 40_000)
SIDE = AGE + DRAW.normal(0, 10, 40_000) > 50
TABLE = {
    "age": AGE,
    "old": SIDE,
    "third": np.array(["a", "b", "c"])[np.digitize(AGE, [33, 66])],
    "who": np.arange(40_000) % 8000,
}
FEATURES = [Numeric("age", 0, 100)]


def session(table: dict[str, Any] | None = None, **account: Any) -> Session:
    given = {"unit": rows(), "epsilon": "1", "delta": "1e-6", **account}
    if given["delta"] is None:
        del given["delta"]
    return Session(read(table or TABLE), open_account(":memory:", "test", **given), noise=TestNoise(3))


def accuracy(model: Any) -> float:
    return float(np.mean((model.predict(TABLE) > 0.5) == SIDE))


@pytest.mark.parametrize(
    ("delta", "method"), [("1e-6", "auto"), (None, "auto"), ("1e-6", "output"), (None, "output"), ("1e-6", "descent")]
)
def test_every_method_learns_a_clear_boundary_for_what_it_was_given(delta: str | None, method: str) -> None:
    asked = session(delta=delta)
    task = FitLogistic(FEATURES, "old", [False, True], epsilon="1", method=method)
    release = asked.release(task)
    assert accuracy(release.value) > 0.85
    assert release.guarantee.spent <= asked.account.terms.cap
    assert isinstance(release.value, Model)
    assert release.value.positive is True


def test_more_than_two_classes_share_the_price_and_each_has_its_probability() -> None:
    asked = session()
    release = asked.release(FitLogistic(FEATURES, "third", ["a", "b", "c"], epsilon="1"))
    assert release.guarantee.spent <= asked.account.terms.cap
    assert isinstance(release.value, OneVsRest)
    assert np.allclose(release.value.probabilities(TABLE).sum(axis=1), 1)
    ends = (AGE < 20) | (AGE > 80)
    assert np.mean(np.array(release.value.predict(TABLE))[ends] == TABLE["third"][ends]) > 0.9
    assert OneVsRest.from_json(release.value.to_json()) == release.value


def test_labels_that_were_not_declared_count_for_nothing() -> None:
    assert Classes("y", ["a", "b"]).whole(_arrow(["a", None, "z", "b"])).tolist() == [1, 0, 0, 2]
    assert signs(np.array([0.0, 1.0, 2.0]), 2).tolist() == [0, -1, 1]
    strange = {"age": np.append(AGE, [50.0] * 3), "old": np.append(SIDE.astype(int), [7, -1, 99])}
    task = FitLogistic(FEATURES, "old", [0, 1], epsilon="1")
    with_strange, without = (
        session(table).release(task).value.theta for table in (strange, {"age": AGE, "old": SIDE.astype(int)})
    )
    assert np.allclose(with_strange, without, atol=1e-4)


@pytest.mark.parametrize("old", [[True] * 50, [], [None] * 4])
def test_one_class_only_no_rows_and_no_labels_give_a_model_like_any_other(old: list[Any]) -> None:
    import pyarrow as pa

    table = pa.table({"age": pa.array([50.0] * len(old), pa.float64()), "old": pa.array(old, pa.bool_())})
    model = session(table).release(FitLogistic(FEATURES, "old", [False, True], epsilon="1")).value
    assert np.isfinite(model.theta).all()


def test_where_users_are_hidden_all_rows_of_a_user_are() -> None:
    asked = session(unit=users("who"))
    release = asked.release(FitLogistic(FEATURES, "old", [False, True], epsilon="1"))
    assert accuracy(release.value) > 0.8
    assert "all rows of one value of 'who'" in str(release.guarantee.unit)
    with pytest.raises(UnitMismatch):
        asked.quote(FitLogistic(FEATURES, "old", [False, True], epsilon="1", method="output"))


def test_what_makes_no_sense_is_refused_before_anything_is_read() -> None:
    for bad in (
        {"classes": ["a"]},
        {"classes": ["a", "a"]},
        {"classes": [0.5, 1.5]},
        {"method": "hinge"},
        {"label": "age"},
        {"epsilon": 0},
        {"ridge": -1},
    ):
        with pytest.raises(InvalidTask):
            FitLogistic(FEATURES, **{"label": "old", "classes": [0, 1], "epsilon": "1", **bad})  # type: ignore[arg-type]
    with pytest.raises(InvalidTask):
        session(delta=None).quote(FitLogistic(FEATURES, "old", [0, 1], epsilon="1", method="descent"))
    with pytest.raises(InvalidTask, match="at least one micro"):
        OutputFit.public(2, 0, gaussian=False)


def test_passing_over_batches_where_they_lie_gives_the_same_sums() -> None:
    task = FitLogistic(FEATURES, "old", [False, True], epsilon="1")
    table = read({name: TABLE[name][:3000] for name in ("age", "old")})
    there = kept(table, task.features, task.target)
    assert there is not None
    theta = np.array([0.7, -0.3])
    folded, memory = (
        Folded(Reading(table, task.features, task.target, rows()).of(2), LOGISTIC),
        Memory(there.x * signs(there.y, 2)[:, None]),
    )
    a, b = folded.sums(theta), memory.sums(theta)
    assert np.allclose(a.pull.astype(float), b.pull.astype(float), rtol=1e-12)
    assert np.allclose(a.hessian, b.hessian)
    (c, n), (d, m) = folded.pull(theta, 60), memory.pull(theta, 60)
    assert n == m == 3000
    assert max(abs(x - y) for x, y in zip(c, d, strict=True)) < 1e-44


@pytest.mark.parametrize("method", ["auto", "output"])
def test_a_table_beyond_the_limit_of_memory_gives_the_same_model(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    task, held = FitLogistic(FEATURES, "old", [False, True], epsilon="1", method=method), []
    assert kept(read(TABLE), task.features, task.target, 100) is None
    for limit in (passes.LIMIT, 100):
        monkeypatch.setattr(passes, "LIMIT", limit)
        held.append(session().release(task).value.theta)
    fit = task.fit(session().account.terms)
    step = fit.step if method == "output" else fit.mechanism.step  # type: ignore[attr-defined]
    apart = 2 / 2**12 / float(fit.ridge) if method == "output" else 2 * float(fit.mechanism.reach)  # type: ignore[attr-defined]
    assert np.abs(np.subtract(*held)).max() <= apart + float(step)


def test_a_choice_is_among_the_candidates_and_costs_what_it_was_given() -> None:
    candidates = [[8.0, 0.0], [0.0, 0.0], [-8.0, 0.0]]
    task = FitLogistic(FEATURES, "old", [False, True], epsilon="1", method="choice", candidates=candidates)
    for delta in (None, "1e-6"):
        asked = session(delta=delta)
        release = asked.release(task)
        assert list(release.value.theta) == candidates[0]
        assert release.point["chosen"] == 0
        assert release.guarantee.spent <= asked.account.terms.cap
    for bad in ({"candidates": None}, {"candidates": [[1.0]]}, {"method": "auto"}, {"classes": [0, 1, 2]}):
        given = {"classes": [False, True], "method": "choice", "candidates": candidates, **bad}
        with pytest.raises(InvalidTask):
            session().quote(FitLogistic(FEATURES, "old", epsilon="1", **given))  # type: ignore[arg-type]
    with pytest.raises(UnitMismatch):
        session(unit=users("who")).quote(task)


def _arrow(values: list[Any]) -> Any:
    import pyarrow as pa

    return pa.array(values)
