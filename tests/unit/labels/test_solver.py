"""The optimal unbiased randomizer: exact, certified, and equal to what a general linear programme finds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels.solve import _unbiased as unbiased
from steelyard.labels.solve._solution import Solution
from steelyard.labels.solve._unbiased import solve_unbiased

Floats = NDArray[np.float64]


def general_programme(labels: Floats, prior: Floats, outputs: Floats, epsilon: float) -> float:
    """The least variance over ALL private unbiased tables with these outputs: M = a + x, 0 <= x <= (E - 1) a (HiGHS)."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, hstack, identity, kron

    k, m, scale = len(labels), len(outputs), float(labels[-1] - labels[0])
    y, z = (labels - labels[0]) / scale, (outputs - labels[0]) / scale
    spread = kron(np.ones((k, 1)), identity(m))
    total = hstack([coo_matrix(np.ones((k, m))), kron(identity(k), np.ones((1, m)))])
    mean = hstack([coo_matrix(np.tile(z, (k, 1))), kron(identity(k), z[None, :])])
    cost = prior[:, None] * (z[None, :] - y[:, None]) ** 2
    limits = hstack([-math.expm1(epsilon) * spread, identity(k * m)]).tocsr()
    equal, right = coo_matrix(np.vstack([total.toarray(), mean.toarray()])).tocsr(), np.concatenate([np.ones(k), y])
    found = linprog(
        np.concatenate([cost.sum(0), cost.ravel()]),
        A_ub=limits,
        b_ub=np.zeros(k * m),
        A_eq=equal,
        b_eq=right,
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )
    assert found.status == 0, found.message
    # HiGHS may call a table optimal that misses rows by 1e-4: take back what that won, at its own prices
    won = found.eqlin.marginals @ (equal @ found.x - right)
    won += found.ineqlin.marginals @ np.maximum(limits @ found.x, 0)
    return float(found.fun - won) * scale**2


def priors(size: int) -> dict[str, Floats]:
    y = np.linspace(0.0, 400.0, size)
    log_normal = np.exp(-(np.log(np.maximum(y, 0.2) / 40) ** 2) / 2.88) / np.maximum(y, 0.2)
    log_normal[0] = 0
    log_normal /= log_normal.sum()
    atom = 0.1 * log_normal
    atom[0] += 0.9
    lumps = np.exp(-(((y - 80) / 20) ** 2) / 2) + np.exp(-(((y - 300) / 30) ** 2) / 2)
    sparse = np.zeros(size)
    sparse[1 : size - 1 : max(2, size // 8)] = 1.0
    return {"atom": atom, "log-normal": log_normal, "uniform": np.ones(size), "two lumps": lumps, "sparse": sparse}


def certified(solution: Solution) -> None:
    report = solution.mechanism.verify()
    assert report.passed, report.findings
    assert report.bias == 0
    assert report.value is not None
    assert report.lower_bound is not None
    assert report.lower_bound <= report.value
    assert float(report.value) == pytest.approx(solution.value, rel=1e-12)


@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "1", "2", "4", "8"])
@pytest.mark.parametrize("name", ["atom", "log-normal", "uniform", "two lumps", "sparse"])
def test_every_setting_is_certified_to_a_millionth_by_the_judge(name: str, epsilon: str) -> None:
    solution = solve_unbiased(range(32), priors(32)[name], epsilon)
    assert solution.converged
    assert solution.gap <= 1e-6
    certified(solution)


@pytest.mark.parametrize(("name", "epsilon"), [("log-normal", "1.5"), ("two lumps", "3"), ("sparse", "8")])
def test_the_coarse_to_fine_path_is_certified_too(name: str, epsilon: str) -> None:
    solution = solve_unbiased(range(150), priors(150)[name], epsilon)
    assert solution.converged
    certified(solution)


@pytest.mark.parametrize(
    ("name", "epsilon", "size"), [("atom", 0.5, 12), ("uniform", 2.0, 16), ("two lumps", 1.0, 20), ("sparse", 4.0, 16)]
)
def test_no_general_table_is_better_and_ours_is_as_good(name: str, epsilon: float, size: int) -> None:
    _agree_with_the_general_programme(name, epsilon, size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [32, 48, 64])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("name", ["atom", "log-normal", "uniform", "two lumps", "sparse"])
def test_no_general_table_is_better_at_larger_sizes(name: str, epsilon: float, size: int) -> None:
    _agree_with_the_general_programme(name, epsilon, size)


def _agree_with_the_general_programme(name: str, epsilon: float, size: int) -> None:
    prior = priors(size)[name]
    solution = solve_unbiased(range(size), prior, epsilon)
    labels, weights = np.arange(size, dtype=float), prior / prior.sum()
    ours = general_programme(labels, weights, np.unique(np.round(solution.outputs, 9)), epsilon)
    assert solution.lower_bound * (1 - 1e-7) <= ours <= solution.value * (1 + 1e-6)
    reach = (size - 1) * (1 + 1 / math.tanh(epsilon / 2))
    grid = general_programme(labels, weights, np.linspace(-reach, reach + size - 1, 3 * size), epsilon)
    assert solution.lower_bound <= grid * (1 + 1e-7)


def test_two_labels_have_the_known_answer() -> None:
    """With two labels randomized response, debiased, is the only candidate: variance E/(E - 1)^2 times the gap squared."""
    growth = math.exp(1.0)
    solution = solve_unbiased([3, 5], [1, 2], 1)
    assert solution.value == pytest.approx(4 * growth / (growth - 1) ** 2, rel=1e-6)


def test_the_published_style_instance_lies_in_its_known_interval() -> None:
    """401 labels, log-normal with nine tenths at zero: intervals found independently by a lumping sandwich."""
    labels = np.arange(401)
    rng = np.random.default_rng(7)
    draws = np.minimum(np.round(40 * np.exp(1.2 * rng.standard_normal(200_000) - 0)), 400).astype(int)
    prior = 0.1 * np.bincount(draws, minlength=401) / len(draws)
    prior[0] += 0.9
    solution = solve_unbiased(labels, prior, 1)
    duchi = float(prior @ (200**2 * (1 / math.tanh(0.5) ** 2 - (labels / 200 - 1) ** 2)))
    assert solution.converged
    assert 0.99 * duchi < solution.value < duchi


def test_an_answer_that_misses_its_tolerance_says_so_and_carries_its_true_gap() -> None:
    solution = solve_unbiased(range(9), [1] * 9, 1, tolerance=1e-14)
    assert not solution.converged
    assert 1e-14 < solution.gap < 1e-6
    assert "MORE than asked" in str(solution)
    certified(solution)


def test_labels_without_prior_cost_nothing_and_stay_unbiased() -> None:
    alone = solve_unbiased([0, 3, 10], [1, 2, 1], 2)
    among = solve_unbiased([0, 1, 2, 3, 7, 10], [1, 0, 0, 2, 0, 1], 2)
    assert among.value == pytest.approx(alone.value, rel=2e-6)
    certified(among)


@pytest.mark.parametrize("prior", [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [1, 1e-9, 1e-9, 1], [1e-300, 1, 1, 1]])
def test_point_masses_and_vanishing_weights_are_solved(prior: list[float]) -> None:
    solution = solve_unbiased([0, 1, 5, 7], prior, "0.7")
    assert solution.converged
    certified(solution)


def test_labels_may_be_fractions_negative_and_unevenly_spaced() -> None:
    labels = [Fraction(-7, 3), Fraction(-1, 10), Fraction(0), Fraction(22, 7), Fraction(1000)]
    solution = solve_unbiased(labels, [5, 4, 3, 2, 1], "1.25")
    assert solution.converged
    certified(solution)


def test_moving_and_scaling_the_labels_scales_the_variance() -> None:
    one = solve_unbiased(range(6), [3, 1, 2, 1, 1, 1], 1)
    other = solve_unbiased([1_000_000 + 10 * i for i in range(6)], [3, 1, 2, 1, 1, 1], 1)
    assert other.value == pytest.approx(100 * one.value, rel=2e-6)


@pytest.mark.parametrize(
    ("inputs", "prior", "epsilon", "match"),
    [
        ([0, 1], [1, 1], 0, "above zero"),
        ([0, 1], [1, 1], -1, "above zero"),
        ([0, 1], [1, 1], 100, "hides nothing"),
        ([0, 1], [1, 1], "1e-6", "no signal"),
        ([0], [1], 1, "two distinct labels"),
        ([], [], 1, "two distinct labels"),
        ([0, 0], [1, 1], 1, "strictly rising"),
        ([0, float("nan")], [1, 1], 1, "finite"),
        ([0, float("inf")], [1, 1], 1, "finite"),
        ([0, 1], [1], 1, "1 weights for 2 labels"),
        ([0, 1], [1, -1], 1, "negative"),
        ([0, 1], [0, 0], 1, "no mass"),
        ([0, 1], [float("nan"), 1], 1, "finite"),
    ],
)
def test_senseless_requests_are_refused_with_a_reason(inputs: Any, prior: Any, epsilon: Any, match: str) -> None:
    with pytest.raises(InvalidTask, match=match):
        solve_unbiased(inputs, prior, epsilon)


def nasty(rng: np.random.Generator) -> tuple[list[Fraction], list[float], str]:
    size = int(rng.integers(2, 40))
    gaps = rng.integers(1, 1000 if rng.random() < 0.3 else 6, size)
    labels = [Fraction(int(place), 10) for place in np.cumsum(gaps)]
    kind = rng.integers(5)
    prior = rng.dirichlet(np.full(size, 0.1)) if kind == 0 else np.exp(-28 * rng.random(size))
    if kind == 1:
        prior = np.full(size, 1e-9)
        prior[rng.integers(size)] = 1.0
    if kind == 2:
        prior = np.where(rng.random(size) < 0.6, 0.0, rng.random(size))
        prior[rng.integers(size)] = 1.0
    if kind == 3:
        prior = rng.random(size)
    return labels, prior.tolist(), f"{float(np.exp(rng.uniform(np.log(0.05), np.log(8)))):.4f}"


def fuzz(seed: int, count: int) -> int:
    """Solve nasty instances; every certificate must stand. Returns how many missed the tolerance."""
    rng, missed = np.random.default_rng(seed), 0
    for _ in range(count):
        labels, prior, epsilon = nasty(rng)
        solution = solve_unbiased(labels, prior, epsilon)
        certified(solution)
        missed += not solution.converged
    return missed


def test_nasty_instances_are_certified() -> None:
    assert fuzz(1, 60) == 0


@pytest.mark.slow
def test_ten_thousand_nasty_instances_never_get_a_false_certificate() -> None:
    assert fuzz(2, 10_000) <= 50


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=7).filter(any), st.sampled_from(["0.1", "1", "3"]))
def test_every_table_is_exactly_private_and_exactly_unbiased(prior: list[int], epsilon: str) -> None:
    mechanism = solve_unbiased(range(len(prior)), prior, epsilon, tolerance=1e-4).mechanism
    assert set(mechanism.bias()) == {Fraction(0)}
    for row in range(len(prior)):
        assert sum(mechanism.row(row)) == 2**62
    for j in range(len(mechanism.columns)):
        column = [mechanism.row(i)[j] for i in range(len(prior))]
        assert math.log(max(column)) - math.log(min(column)) <= float(epsilon) + 1e-12


def test_the_solver_keeps_to_one_core_and_gives_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped, unused-ignore]

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    seen: list[list[int]] = []
    search = unbiased._search

    def watched(*given: Any) -> None:
        seen.append(threads())
        search(*given)

    monkeypatch.setattr(unbiased, "_search", watched)
    solve_unbiased(range(5), [1] * 5, 1)
    before = threads()
    solve_unbiased(range(5), [1] * 5, 1)
    assert seen
    assert {count for counts in seen for count in counts} == {1}
    assert len(seen[0]) == len(before)
    assert threads() == before
