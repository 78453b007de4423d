"""Noisy descent by rows: exact price, exact sensitivity, and a twin that forgets to clip."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting._prices import price
from steelyard.audit._suite import gaussian
from steelyard.errors import InvalidTask
from steelyard.models import _passes
from steelyard.models._columns import SIZE, Features, Floats, Numeric
from steelyard.models._gradient_descent import DescentFit
from steelyard.models._passes import Reading
from steelyard.models._rows import Classes, Rows
from steelyard.noise import TestNoise
from steelyard.privacy import rows
from steelyard.tables import read


def moved(fit: DescentFit, theta: list[float], row: list[float]) -> float:
    """How far one row moves the sum, over what the mechanism declares."""
    data = np.rint(np.random.default_rng(3).normal(size=(20, 2)) * SIZE / 4)
    more = np.vstack([data, [row]])
    a, b = (np.array(fit.pull(each, np.array(theta)), dtype=float) for each in (data, more))
    return float(np.linalg.norm(a - b)) / float(fit.mechanism.sensitivity or 1)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-300, 300), min_size=2, max_size=2),
    st.floats(0, 6.28),
    st.sampled_from(["1", "0.5", "0.013"]),
)
def test_one_row_moves_the_sum_by_no_more_than_the_clip(theta: list[float], angle: float, clip: str) -> None:
    row = [float(np.trunc(SIZE * np.cos(angle))), float(np.trunc(SIZE * np.sin(angle)))]
    assert moved(DescentFit(2, 10**6, clip=clip), theta, row) <= 1


class Unclipped(DescentFit):
    """The twin: declares the clip, forgets to apply it."""

    def pull(self, x: Floats, theta: Floats, labels: Floats | None = None) -> list[int]:
        return DescentFit(self.width, self.micro).pull(x, theta, labels)


def test_a_descent_that_forgets_to_clip_is_caught() -> None:
    assert moved(Unclipped(2, 10**6, clip="0.25"), [0.0, 0.0], [float(SIZE), 0.0]) > 1.5


@pytest.mark.parametrize("steps", [1, 30])
def test_all_steps_together_cost_no_more_than_was_asked(steps: int) -> None:
    cost = price(DescentFit(3, 236_704, steps=steps).event, gaussian(rows())).amount
    assert 0.9999 * 236_704**2 <= cost <= 236_704**2


def test_a_descent_learns() -> None:
    x = np.rint(np.random.default_rng(2).normal(size=(30_000, 3)) * SIZE / 6)
    fitted = DescentFit(3, 236_704).fit(Rows(x, np.where(x[:, 0] > 0, 1.0, -1.0), None), TestNoise(4))
    assert fitted.coefficients[0] > 3 * np.abs(fitted.coefficients[1:]).max()


def test_settings_without_meaning_are_refused() -> None:
    for bad in ({"steps": 0}, {"clip": 2}, {"clip": 0}, {"micro": 3}):
        with pytest.raises(InvalidTask):
            DescentFit(**{"width": 2, "micro": 10**5, **bad})  # type: ignore[arg-type]


def test_a_descent_over_rows_behind_a_table_is_that_over_rows_in_memory() -> None:
    places = np.arange(3000)
    table = read({"a": places % 100 / 100, "y": places % 3})  # a third are of no class
    data = Reading(table, Features([Numeric("a", 0, 1)]), Classes("y", [0, 1]), rows()).of(2)
    method = DescentFit(2, 1_000_000, steps=3)
    assert data.heard(method.loss) == data.rows().heard(method.loss) == 2000
    far, near = (method.fit(given, TestNoise(4)) for given in (data, data.rows()))
    assert (list(far.coefficients), far.details) == (list(near.coefficients), near.details)


def test_sums_are_those_of_python_integers_also_of_the_longest_rows_there_are() -> None:
    many = 3 * 2**16 + 5
    x = np.full((many, 1), float(SIZE))
    x[::2] = SIZE - 1
    fit = DescentFit(1, 1_000_000)
    theta = np.array([-512.0])  # every row has the largest residual there is
    expected = fit.bound * sum(int(value) for value in x[:, 0])
    assert fit.pull(x, theta) == fit.pull(np.asfortranarray(x), theta) == [expected]
    assert fit.pull(x.astype(np.float32), theta) == [expected]
    short = np.full(many, fit.bound, dtype=np.float32) @ x[:, 0].astype(np.float32)
    assert int(short) != expected  # in single precision it would show


@pytest.mark.parametrize("near", [1, 7, 1 << 13])
def test_where_rows_are_cut_shows_in_nothing(near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    places = np.arange(500)
    table = read({"a": places % 100 / 100, "b": places % 17 / 17, "y": places % 3})
    data = Reading(table, Features([Numeric("a", 0, 1), Numeric("b", 0, 1)]), Classes("y", [0, 1]), rows()).of(2)
    method, theta = DescentFit(3, 1_000_000), np.array([0.5, -1.25, 3.0])
    held = data.rows()
    expected = method.pull(*method.loss.oriented(held.x, held.y)[:1], theta)
    monkeypatch.setattr(_passes, "_NEAR", near)
    assert method._pulled(data, theta) == expected
