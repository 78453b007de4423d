"""The certified solver: short true gradients whatever the rows, in doubles and in decimals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.models import _newton
from steelyard.models._columns import SIZE
from steelyard.models._losses import SCALE, Floats, Memory, Point, Sums
from steelyard.models._newton import Problem


def rows(n: int, width: int, seed: int, size: int = SIZE) -> Floats:
    draw = np.random.default_rng(seed).normal(size=(n, width))
    found: Floats = np.rint(draw / np.linalg.norm(draw, axis=1, keepdims=True) * (size - width))
    return found


def true_gradient(problem: Problem, theta: Point) -> float:
    pull, _ = problem.passes.pull(theta, 60)
    exact = [problem.ridge * Fraction(t) + b - Fraction(p) for t, b, p in zip(theta, problem.linear, pull, strict=True)]
    return math.sqrt(sum(x * x for x in exact))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 60),
    st.integers(1, 4),
    st.integers(0, 10**6),
    st.sampled_from(["0.001", "0.4", "30", "5000"]),
    st.sampled_from([0, 1, -300, 10**5]),
)
def test_the_true_gradient_is_as_short_as_promised(n: int, width: int, seed: int, ridge: str, linear: int) -> None:
    tolerance = Fraction(1, 2**20)
    problem = Problem(Memory(rows(n, width, seed)), Fraction(ridge), [Fraction(linear)] * width, tolerance)
    assert true_gradient(problem, problem.solve()) <= tolerance


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(20, 90), st.integers(1, 4), st.integers(0, 10**6), st.sampled_from(["0.001", "0.4"]), st.booleans())
def test_a_start_from_some_rows_and_old_curvature_change_nothing_that_is_promised(
    monkeypatch: pytest.MonkeyPatch, n: int, width: int, seed: int, ridge: str, apart: bool
) -> None:
    monkeypatch.setattr(_newton, "_MANY", 16)
    given, tolerance = rows(n, width, seed), Fraction(1, 2**20)
    given[:, 0] = np.abs(given[:, 0]) if apart else given[:, 0]  # classes that a plane parts: the steepest models
    passes, linear = Memory(given), [Fraction(1, 7)] * width
    many = Problem(passes, Fraction(ridge), linear, tolerance)
    assert true_gradient(many, many.solve()) <= tolerance


def test_many_rows_are_certified_with_few_readings_of_the_curvature() -> None:
    asked: list[bool] = []

    class Watched(Memory):
        def sums(self, theta: Floats, curved: bool = True) -> Sums:
            asked.append(curved)
            return super().sums(theta, curved)

    problem = Problem(Watched(rows(20_000, 4, 5)), Fraction(2), [Fraction(30)] * 4, Fraction(1, 2**14))
    assert true_gradient(problem, problem.solve()) <= 2**-14
    assert asked.count(True) == 1
    assert len(asked) <= 5


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_signs_beside_rows_are_signed_rows(kind: type) -> None:
    plain, signs = rows(5000, 7, 8), np.resize([1.0, -1.0, 0.0, 1.0, 1.0], 5000)
    beside, signed = Memory(plain.astype(kind), signs=signs), Memory(plain * signs[:, None])
    theta = np.random.default_rng(2).normal(size=7) * 3
    one, other = beside.sums(theta), signed.sums(theta)
    assert one.pull.tolist() == other.pull.tolist()
    assert np.allclose(one.hessian, other.hessian, atol=1e-4)
    assert beside.thinned(100).pull(theta, 40) == signed.thinned(100).pull(theta, 40)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 16), max_size=40), st.integers(0, 10**6))
def test_weights_count_rows_as_often_as_they_say(sixteenths: list[int], seed: int) -> None:
    signed, tolerance = rows(len(sixteenths), 3, seed), Fraction(1, 2**24)
    weighted = Problem(Memory(signed, np.array(sixteenths) / 16), Fraction(1), [Fraction(1, 3)] * 3, tolerance)
    repeated = Problem(
        Memory(np.repeat(signed, sixteenths, axis=0)), Fraction(16), [Fraction(16, 3)] * 3, 16 * tolerance
    )
    point = weighted.solve()
    assert true_gradient(weighted, point) <= tolerance
    assert true_gradient(repeated, point) <= 16.1 * tolerance
    assert np.allclose(16 * weighted.passes.sums(point).hessian, repeated.passes.sums(point).hessian)


def test_one_class_only_and_no_rows_at_all_have_a_minimizer() -> None:
    same = Memory(np.tile([[float(SIZE), 0.0]], (500, 1)))
    for passes in (same, Memory(np.zeros((0, 2)))):
        problem = Problem(passes, Fraction(1), [Fraction(1, 2), Fraction(0)], Fraction(1, 2**20))
        assert true_gradient(problem, problem.solve()) <= 2**-20


def test_where_doubles_cannot_certify_decimals_do() -> None:
    problem = Problem(Memory(rows(30, 3, 1)), Fraction(1), [Fraction(1, 3)] * 3, Fraction(1, 2**49))
    assert true_gradient(problem, problem.certified()) <= 2**-49


def test_a_tolerance_that_no_double_meets_is_met_and_the_search_ends() -> None:
    """As it is where an account declares far fewer rows than there are: the tolerance follows from what it declares."""
    problem = Problem(Memory(rows(30, 3, 1)), Fraction(1), [Fraction(1, 3)] * 3, Fraction(1, 2**70))
    assert true_gradient(problem, problem.solve()) > 2**-70, "the nearest doubles are not near enough"
    assert true_gradient(problem, problem.certified()) <= 2**-70


@dataclass(frozen=True)
class Blind(Memory):
    """A twin whose sums are off by a thousandth while claiming to be exact."""

    def sums(self, theta: Floats, curved: bool = True) -> Sums:
        found = super().sums(theta, curved)
        return replace(found, pull=found.pull + int(SCALE / 2**10))


def test_sums_that_hide_their_error_are_caught() -> None:
    problem = Problem(Blind(rows(200, 3, 2)), Fraction(1), [Fraction(1, 3)] * 3, Fraction(1, 2**20))
    assert true_gradient(problem, problem.solve()) > 2**-20


@pytest.mark.parametrize("weights", [None, np.full(700, 1 / 3), np.r_[np.ones(7), np.full(693, 2.0**-20)]])
@pytest.mark.parametrize("width", [1, 20])
def test_the_stated_rounding_of_the_sums_covers_the_real_one(width: int, weights: Floats | None) -> None:
    passes = Memory(rows(700, width, 3), weights)
    theta = np.random.default_rng(5).normal(size=width) * 40
    sums, (exact, count) = passes.sums(theta), passes.pull(theta, 60)
    off = [Decimal(int(x)) / int(SCALE) - y for x, y in zip(sums.pull, exact, strict=True)]
    assert float(sum(x * x for x in off)) ** 0.5 <= sums.error(float(np.linalg.norm(theta)))
    assert count == (700 if weights is None else {233: 234, 7: 8}[int(weights.sum())])
