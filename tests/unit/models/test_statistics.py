"""Sufficient statistics: exact sums, a sensitivity that holds for every row, and twins that break it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.bounding._amounts import Spend
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._rows import BLOCK, EXACT_ROWS, Products, Target, gather
from steelyard.models._statistics import GAUSSIAN, LAPLACE, EntryWeights, StatisticsRelease
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours, rows
from steelyard.tables import read
from steelyard.tables._folding import widened

FEATURES = Features([Plain("a"), Plain("b"), Plain("c")], x_bound=2)
LABEL = Target("y", -1, 3)
STEP = Products(FEATURES, LABEL)
values = st.floats(width=64) | st.sampled_from([2.0, -2.0, 1e-3, 1e300, math.nan, math.inf])
data_rows = st.tuples(values, values, values, values)


def batch(rows: list[Any]) -> Any:
    columns = [pa.array([row[i] for row in rows], pa.float64()) for i in range(4)]
    return pa.RecordBatch.from_arrays(columns, ["a", "b", "c", "y"])


def weighted(row: Any, weights: EntryWeights) -> list[int]:
    gram, moment = widened(STEP(batch([row])))
    d = len(moment)
    upper = [gram[i][j] * (weights.diagonal if i == j else weights.above) for i in range(d) for j in range(i, d)]
    return [*upper, *(weights.label * value for value in moment)]


@settings(deadline=None)
@given(data_rows, data_rows)
def test_one_row_moves_the_weighted_statistic_by_no_more_than_the_sensitivity(row: Any, other: Any) -> None:
    mine, theirs = weighted(row, GAUSSIAN), weighted(other, GAUSSIAN)
    assert sum(v * v for v in mine) <= GAUSSIAN.squared_norm() * SIZE**4
    assert sum((a - b) ** 2 for a, b in zip(mine, theirs, strict=True)) <= GAUSSIAN.squared_distance() * SIZE**4
    assert sum(map(abs, weighted(row, LAPLACE))) <= LAPLACE.norm(4)


def exact_norms(x: list[int], y: int) -> tuple[int, int]:
    """The squared L2 norm (Gaussian weights) and the L1 norm (Laplace weights) of one row's statistic."""
    pairs = [(i, j) for i in range(len(x)) for j in range(i, len(x))]
    two = sum(((GAUSSIAN.diagonal if i == j else GAUSSIAN.above) * x[i] * x[j]) ** 2 for i, j in pairs)
    one = sum(abs((LAPLACE.diagonal if i == j else LAPLACE.above) * x[i] * x[j]) for i, j in pairs)
    return two + sum((GAUSSIAN.label * k * y) ** 2 for k in x), one + sum(abs(LAPLACE.label * k * y) for k in x)


def test_the_sensitivities_are_reached_or_nearly_so() -> None:
    lone = [SIZE, 0, 0, 0]
    assert exact_norms(lone, SIZE)[0] == GAUSSIAN.squared_norm() * SIZE**4
    even = [SIZE // 2] * 4
    assert exact_norms(even, SIZE)[1] == LAPLACE.norm(4)
    # replaced: two rows at 60 degrees with opposite labels are the furthest apart
    half, rest = SIZE // 2, math.isqrt(SIZE**2 - (SIZE // 2) ** 2)
    gap = distance([SIZE, 0], SIZE, [half, rest], -SIZE)
    assert 0.99 <= gap / (GAUSSIAN.squared_distance() * SIZE**4) <= 1


def distance(x: list[int], y: int, u: list[int], v: int) -> int:
    pairs = [(i, j) for i in range(len(x)) for j in range(i, len(x))]
    mine = [(GAUSSIAN.diagonal if i == j else GAUSSIAN.above) * (x[i] * x[j] - u[i] * u[j]) for i, j in pairs]
    return sum(k * k for k in mine) + sum((GAUSSIAN.label * (a * y - b * v)) ** 2 for a, b in zip(x, u, strict=True))


def test_weights_that_favour_the_entries_above_the_diagonal_more_would_break_the_bound() -> None:
    """The broken twin: above^2 > 2 diagonal^2, one step of rounding up instead of down."""
    twin = EntryWeights(29, 42, 29)
    x = [math.isqrt(SIZE**2 // 40)] * 40
    pairs = [(i, j) for i in range(40) for j in range(i, 40)]
    found = sum(((twin.diagonal if i == j else twin.above) * x[i] * x[j]) ** 2 for i, j in pairs)
    assert found + sum((twin.label * k * SIZE) ** 2 for k in x) > twin.squared_norm() * SIZE**4
    assert GAUSSIAN.above**2 <= 2 * GAUSSIAN.diagonal**2
    assert LAPLACE.above % 2 == 0
    assert LAPLACE.above <= 2 * LAPLACE.diagonal


def test_a_diagonal_measured_from_the_lower_bound_would_have_no_sensitivity_at_all() -> None:
    """The broken twin of a shipped library: for bounds (0, 1) it took the lower bound twice, and noised nothing."""
    lower, upper = 0, SIZE
    twin = max(abs(lower), abs(lower)) ** 2
    assert twin == 0
    row = [upper, 0, 0]
    assert max(abs(weighted_int(row))) > twin
    assert sum(k * k for k in weighted_int(row)) <= GAUSSIAN.squared_norm() * SIZE**4


def weighted_int(x: list[int]) -> Any:
    pairs = [(i, j) for i in range(len(x)) for j in range(i, len(x))]
    return np.array([(GAUSSIAN.diagonal if i == j else GAUSSIAN.above) * x[i] * x[j] for i, j in pairs], dtype=object)


def test_a_row_that_is_not_shortened_would_break_the_bound() -> None:
    long = [3 * SIZE // 4] * 4  # four columns, each within its own bound: the broken twin of a row bound
    two, one = exact_norms(long, SIZE)
    assert two > GAUSSIAN.squared_norm() * SIZE**4
    assert one > LAPLACE.norm(4)


@settings(deadline=None, max_examples=30)
@given(st.lists(data_rows, max_size=30), st.integers(1, 29))
def test_sums_are_exact_and_do_not_depend_on_the_batches(rows: list[Any], cut: int) -> None:
    whole = batch(rows)
    gram, moment = STEP(whole)
    x, y = FEATURES.rows(whole).astype(object), LABEL.whole(whole.column(3)).astype(np.int64).astype(object)
    width = FEATURES.width
    assert gram.tolist() == (x.T @ x if len(rows) else np.zeros((width, width), dtype=int)).tolist()
    assert moment.tolist() == (x.T @ y if len(rows) else np.zeros(width, dtype=int)).tolist()
    parts = [STEP(whole.slice(0, cut)), STEP(whole.slice(cut))]
    assert (parts[0][0] + parts[1][0]).tolist() == gram.tolist()


def test_the_longest_run_of_the_largest_products_is_still_exact_and_one_more_doubling_is_not() -> None:
    n = EXACT_ROWS
    odd = SIZE - 1
    x = np.full((1, n), float(odd))
    assert int((x @ x.T)[0, 0]) == n * odd**2
    assert n * SIZE**2 <= 2**53
    assert float(8 * n * odd**2 + 1) != 8 * n * odd**2 + 1  # the broken twin: longer runs lose ones
    assert BLOCK <= EXACT_ROWS


def test_many_rows_stream_to_the_same_integers_as_in_memory() -> None:
    random = np.random.default_rng(0)
    n = EXACT_ROWS + 1000
    table = read({"a": random.normal(size=n), "b": random.normal(size=n), "c": np.ones(n), "y": random.normal(size=n)})
    gram, moment = table.fold(["a", "b", "c", "y"], STEP, STEP.start)
    held = gather(table, FEATURES, LABEL, rows()).products()
    assert gram.tolist() == held[0].tolist()
    assert moment.tolist() == held[1].tolist()


@pytest.mark.parametrize("gaussian", [True, False])
def test_noise_has_the_deviation_that_is_told(gaussian: bool) -> None:
    statistics = StatisticsRelease(3, Spend(gaussian, 500_000))
    zero = np.zeros((3, 3), dtype=object), np.zeros(3, dtype=object)
    noise = TestNoise(5)
    draws = [statistics.release(*zero, noise) for _ in range(600)]
    told = draws[0]
    assert np.std([d.matrix[0, 0] for d in draws]) == pytest.approx(told.on_diagonal, rel=0.15)
    assert np.std([d.matrix[0, 1] for d in draws]) == pytest.approx(told.above, rel=0.15)
    assert np.std([d.vector for d in draws]) == pytest.approx(told.on_label, rel=0.1)
    edge = [np.linalg.eigvalsh(d.matrix)[-1] > d.floor for d in draws]
    assert np.mean(edge) < 0.05


def test_the_price_is_exactly_what_may_be_spent_and_replacing_costs_less_than_twice() -> None:
    spend = Spend(True, 236_700)
    added, replaced = (
        StatisticsRelease(5, spend, which).mechanism for which in (Neighbours.ADD_REMOVE, Neighbours.REPLACE)
    )
    for mechanism in (added, replaced):
        assert math.ceil(mechanism.mu_squared * 10**12) == spend.micro**2  # type: ignore[union-attr]
    ratio = replaced.sigma / added.sigma  # type: ignore[union-attr]
    assert Fraction(149, 100) < ratio < Fraction(151, 100)
