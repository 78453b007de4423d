"""The root of the excess is found whatever the rows: where the ball binds, where n is false, where doubles are at an end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.errors import OurBug
from steelyard.models._columns import SIZE
from steelyard.models.accuracy import _certificate as excess
from steelyard.models.accuracy._certificate import Point, RootExcess, excess_above, in_decimals
from steelyard.models.accuracy._designs import Exact, Ridge, in_ball


@dataclass(frozen=True)
class Held:
    """What a look reads."""

    exact: Exact


@dataclass(frozen=True)
class Case:
    """Rows that stand for many each, a neighbour that differs in one of them, and a question about both."""

    look: RootExcess
    one: Exact
    other: Exact

    @property
    def gap(self) -> Fraction:
        """What the solver may be off by."""
        return 2 * Fraction(self.look.floor) * Fraction(self.look.sensitivity) / 2**18


def cases(seed: int, count: int) -> Iterator[Case]:
    """Any width, n, penalty, accuracy, ball and rows; many balls bind, and some n are false."""
    draws = np.random.default_rng(seed)
    for _ in range(count):
        width, n = int(draws.integers(1, 5)), int(10 ** draws.uniform(1, 9))
        penalty, alpha = float(10 ** draws.uniform(-8, 2)), float(10 ** draws.uniform(-12, -0.4))
        ball = float(10 ** draws.uniform(-5, 0)) / (2 * math.sqrt(penalty))
        claimed = n if draws.random() < 0.7 else max(1, int(n * 10 ** draws.uniform(-3, 3)))
        heavy = draws.multinomial(n - 1, draws.dirichlet(np.full(3, 0.3)))
        rows = [row(draws, width) for _ in range(5)]
        exact = [statistics([*zip(heavy, rows[:3], strict=True), (1, rows[k])], claimed) for k in (3, 4)]
        model = in_ball(draws.standard_normal(width) * ball * 10 ** draws.uniform(-3, 1), ball)
        yield Case(RootExcess(Ridge(claimed, width, penalty), model, Fraction(ball), alpha), *exact)


def row(draws: np.random.Generator, width: int) -> tuple[list[int], int]:
    x = draws.standard_normal(width)
    x = np.trunc(x / np.linalg.norm(x) * SIZE * draws.choice([1.0, 0.999, 0.1, 0.0]))
    return [int(v) for v in x], int(SIZE * draws.choice([-1.0, 1.0, 0.3]))


def statistics(rows: list[tuple[int, tuple[list[int], int]]], n: int) -> Exact:
    width = len(rows[0][1][0])
    gram, moment, square = np.zeros((width, width), dtype=object), np.zeros(width, dtype=object), 0
    for weight, (x, y) in rows:
        gram = gram + int(weight) * np.outer(np.array(x, dtype=object), np.array(x, dtype=object))
        moment = moment + int(weight) * y * np.array(x, dtype=object)
        square += int(weight) * y * y
    return Exact(n, SIZE, gram, moment, square)


def between(case: Case) -> tuple[Fraction, Fraction]:
    """The excess in exact arithmetic: of one feature as it is, of several between a point's value and its dual."""
    whole, look = excess._Objective.of(case.one, case.look.ridge), case.look
    asked, twice = whole.value(Point(look.model, 48)), 2 * case.one.n
    if len(look.model) == 1:
        curve, pull = whole.gram[0, 0] / Fraction(whole.scale) + whole.penalty, Fraction(whole.moment[0], whole.scale)
        best = min(max(pull / curve, -look.ball), look.ball)
        return ((asked - (curve * best**2 - 2 * pull * best)) / twice,) * 2
    found, multiplier = in_decimals(whole, look.ball, 160)
    point = Point(tuple(round(x * 2**500) for x in found), 500)
    lower, upper = whole.dual(point, multiplier, look.ball), whole.value(excess._held(point, look.ball))
    return (asked - upper) / twice, (asked - lower) / twice


def holds(case: Case) -> bool:
    """Whether the excess is found, at or above the true one by no more than its gap, and a row moves the root as declared."""
    least, most = between(case)
    found = excess_above(case.look, case.one, case.gap)
    near = max(least, Fraction(0)) <= found <= max(most, Fraction(0)) + case.gap
    moved = abs(case.look.value(Held(case.one)) - case.look.value(Held(case.other)))
    return near and moved <= case.look.moves


def test_no_rows_make_it_fail_and_the_number_is_as_near_as_its_sensitivity_needs() -> None:
    assert all(holds(case) for case in cases(1, 250))


@pytest.mark.slow
def test_no_rows_make_it_fail_in_many_cases() -> None:
    assert all(holds(case) for case in cases(2, 35_000))


def reported() -> Case:
    """One feature, a ball that binds: rounding to 2^-48 moves the value by more than the whole tolerance."""
    look = RootExcess(Ridge(3_318_800, 1, 2.497), (0,), Fraction(7.1e-4), 3.9e-11)
    rows = [(3_318_799, ([SIZE], SIZE)), (1, ([SIZE], -SIZE))]
    return Case(look, statistics(rows, 3_318_800), statistics([(3_318_800, rows[0][1])], 3_318_800))


def test_a_ball_that_binds_is_found_however_steep_the_risk_is_there() -> None:
    assert holds(reported())


def test_a_ball_of_one_point_has_no_better_model() -> None:
    case = reported()
    look = RootExcess(case.look.ridge, (0,), Fraction(0), 0.01)
    assert excess_above(look, case.one, Fraction(1, 10**9)) == 0


def test_doubles_that_give_up_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: object) -> object:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(excess, "_in_doubles", gives_up)
    assert all(holds(case) for case in cases(3, 20))


def test_a_solver_that_fails_where_doubles_are_at_an_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(whole: Any, ball: Fraction) -> Iterator[Any]:
        yield from excess._in_doubles(whole, float(ball))
        raise OurBug("not found")

    monkeypatch.setattr(excess, "_proposals", stops)
    with pytest.raises(OurBug):
        all(holds(case) for case in cases(1, 250))
