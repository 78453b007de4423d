"""Clarabel as an oracle: on the program over all tables, and in place of our own interior point."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from steelyard.labels.solve import _unbiased as unbiased
from steelyard.labels.solve._interior import Iterate, start
from steelyard.labels.solve._program import Columns, Scaled, every_interval
from steelyard.labels.solve._unbiased import solve_unbiased
from unit.labels.clarabel_oracle import solve_with_clarabel

Floats = NDArray[np.float64]


def priors(size: int) -> dict[str, Floats]:
    y = np.linspace(0.0, 400.0, size)
    log_normal = np.exp(-(np.log(np.maximum(y, 0.2) / 40) ** 2) / 2.88) / np.maximum(y, 0.2)
    atom = 0.1 * log_normal / log_normal.sum()
    atom[0] += 0.9
    lumps = np.exp(-(((y - 80) / 20) ** 2) / 2) + np.exp(-(((y - 300) / 30) ** 2) / 2)
    return {"atom": atom, "log-normal": log_normal, "uniform": np.ones(size), "lumps": lumps}


def least_variance(labels: Floats, prior: Floats, outputs: Floats, epsilon: float) -> float:
    """The least variance over ALL private unbiased tables with these outputs, by Clarabel.

    M = a + x with 0 <= x <= (E - 1) a: a column's minimum and what each row has above it.
    """
    import clarabel  # type: ignore[import-untyped, unused-ignore]
    from scipy.sparse import coo_matrix, csc_matrix, hstack, identity, kron, vstack

    k, m, scale = len(labels), len(outputs), float(labels[-1] - labels[0])
    y, z = (labels - labels[0]) / scale, (outputs - labels[0]) / scale
    cost = prior[:, None] / prior.sum() * (z[None, :] - y[:, None]) ** 2
    total = hstack([coo_matrix(np.ones((k, m))), kron(identity(k), np.ones((1, m)))])
    mean = hstack([coo_matrix(np.tile(z, (k, 1))), kron(identity(k), z[None, :])])
    above = hstack([-math.expm1(epsilon) * kron(np.ones((k, 1)), identity(m)), identity(k * m)])
    positive = hstack([csc_matrix((k * m, m)), -identity(k * m)])
    matrix = csc_matrix(vstack([total, mean, above, positive]))
    right = np.concatenate([np.ones(k), y, np.zeros(2 * k * m)])
    cones = [clarabel.ZeroConeT(2 * k), clarabel.NonnegativeConeT(2 * k * m)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-9
    objective = np.concatenate([cost.sum(0), cost.ravel()])
    size = len(objective)
    found = clarabel.DefaultSolver(csc_matrix((size, size)), objective, matrix, right, cones, settings).solve()
    assert str(found.status) in ("Solved", "AlmostSolved"), found.status
    return float(found.obj_val) * scale**2


def agree(size: int, name: str, epsilon: float) -> None:
    prior = priors(size)[name]
    solution = solve_unbiased(range(size), prior, epsilon)
    outputs = np.unique(np.round(solution.outputs, 9))
    general = least_variance(np.arange(float(size)), prior, outputs, epsilon)
    assert solution.lower_bound * (1 - 1e-6) <= general <= solution.value * (1 + 1e-6)


@pytest.mark.parametrize(
    ("size", "name", "epsilon"), [(12, "atom", 0.5), (16, "uniform", 4.0), (20, "lumps", 1.0), (24, "log-normal", 2.0)]
)
def test_clarabel_finds_no_better_table_with_our_outputs_and_none_worse(size: int, name: str, epsilon: float) -> None:
    agree(size, name, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize(("name", "epsilon"), [("atom", 0.5), ("uniform", 4.0), ("lumps", 1.0), ("log-normal", 8.0)])
def test_clarabel_finds_no_better_table_at_larger_sizes(size: int, name: str, epsilon: float) -> None:
    agree(size, name, epsilon)


def test_a_table_that_is_worse_than_it_could_be_would_be_noticed() -> None:
    prior = priors(12)["uniform"]
    solution = solve_unbiased(range(12), prior, 2.0)
    general = least_variance(np.arange(12.0), prior, np.unique(np.round(solution.outputs, 9)), 2.0)
    coarse = least_variance(np.arange(12.0), prior, np.linspace(-10, 21, 14), 2.0)
    assert coarse > 1.001 * general
    assert not solution.lower_bound * (1 - 1e-6) <= coarse <= solution.value * (1 + 1e-6)


@pytest.mark.parametrize(("name", "epsilon"), [("atom", 0.3), ("lumps", 3.0), ("uniform", 8.0)])
def test_clarabel_over_all_intervals_finds_the_same_optimum(
    name: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = solve_unbiased(range(32), priors(32)[name], epsilon)
    monkeypatch.setattr(unbiased, "_attempts", by_clarabel)
    other = solve_unbiased(range(32), priors(32)[name], epsilon)
    assert other.converged
    assert other.mechanism.verify().passed
    assert other.value == pytest.approx(own.value, rel=2e-6)


def by_clarabel(problem: Scaled, goal: float) -> Iterator[Iterate]:
    """Clarabel in place of our own interior point; what it finds is made exact and judged all the same."""
    found = solve_with_clarabel(problem, Columns.of(problem, *every_interval(problem.size)), goal * 1e-6)
    assert found is not None
    yield from (found, found)


def idle(problem: Scaled, goal: float) -> Iterator[Iterate]:
    """An interior point that gives up where it starts."""
    yield start(problem, Columns.of(problem, *every_interval(problem.size)))


def test_where_the_interior_point_stops_short_the_true_gap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unbiased, "_attempts", idle)
    alone = solve_unbiased(range(16), [1] * 16, 2)
    assert not alone.converged
    assert alone.gap > 1e-6
    assert alone.mechanism.verify().passed
