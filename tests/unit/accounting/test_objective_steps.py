"""Each inequality that the price of objective perturbation rests on, in high precision, and twins with less room."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from steelyard.accounting import _objective as objective
from steelyard.accounting._objective import _ANY, _BEHIND, _above_chords, _Programme, _Step, curvature

Floats = NDArray[np.float64]
DIGITS = 40


def weight(q: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-q))


def bent(shift: float, w: mp.mpf, q: mp.mpf) -> mp.mpf:
    """The second derivative of Phi(w + s c) in the logit q."""
    c = weight(q)
    p = c * (1 - c)
    t = w + shift * c
    return mp.npdf(t) * (shift * p * (1 - 2 * c) - t * (shift * p) ** 2)


def gain(shift: float, epsilon: float, w: mp.mpf, q: mp.mpf) -> mp.mpf:
    """F: what being in the set from the far left up to w is worth, at logit q."""
    return mp.ncdf(w + shift * weight(q)) - mp.exp(epsilon) * mp.ncdf(w)


def rate(shift: float, epsilon: float, w: mp.mpf, q: mp.mpf, u: mp.mpf) -> mp.mpf:
    """f_u: what the set gains at w while the logit rises at the rate u."""
    c = weight(q)
    return mp.npdf(w + shift * c) * (1 + shift * c * (1 - c) * u) - mp.exp(epsilon) * mp.npdf(w)


# the curvature


def paths(seed: int, count: int) -> Iterator[list[tuple[float, float]]]:
    """Paths that rise in w and in q, slowly and by leaps, and so end that nothing is left to bend."""
    draws = np.random.default_rng(seed)
    for _ in range(count):
        w, q = draws.uniform(-4, 0.5), draws.uniform(-5, 3)
        points = [(w, q)]
        for _ in range(int(draws.integers(1, 5))):
            dw, dq = draws.exponential(1.0) * draws.integers(0, 2), draws.exponential(2.0) * draws.integers(0, 2)
            points += [(w + dw * k / 8, q + dq * k / 8) for k in range(1, 9)]
            w, q = points[-1]
        yield points + [(w, q + 0.4 * k) for k in range(1, 60)]
    yield [(0.0, -6 + 0.1 * k) for k in range(300)]


def falls(shift: float, points: list[tuple[float, float]]) -> tuple[float, float]:
    """How fast the gain of the best set bends down along a path, begun outside of the set and inside."""
    values = [bent(shift, mp.mpf(w), mp.mpf(q)) for w, q in points]
    moves = [b - a for a, b in itertools.pairwise(values)]
    outside = sum((move for move in moves if move < 0), mp.mpf(0))
    inside = values[0] + sum((move for move in moves if move < 0), mp.mpf(0))
    return float(-outside), float(-inside)


def bends(shift: float, bound: Callable[[float, float, float], float]) -> float:
    """The largest share of a bound of K that some path and set reach."""
    reached = 0.0
    with mp.workdps(DIGITS):
        for points in paths(7, 40):
            last = points[-1][0] + shift
            start = float(weight(mp.mpf(points[0][1])))
            reached = max(reached, max(falls(shift, points)) / bound(shift, last, start))
    return reached


def proved(shift: float, t: float, c: float) -> float:
    return float(curvature(shift, t, np.array([c]))[0])


@pytest.mark.parametrize("shift", [0.05, 0.5, 2.0])
def test_no_path_and_no_set_bend_down_faster_than_the_curvature(shift: float) -> None:
    assert 0.4 < bends(shift, proved) <= 1.0


def test_half_of_the_curvature_is_caught() -> None:
    assert bends(0.05, lambda *given: proved(*given) / 2) > 1.0


def test_the_curvature_of_a_gain_is_what_its_set_sees_of_one_derivative() -> None:
    """J'' is the sum of the changes of F_qq over the set, whatever the set: checked by differences in 40 digits."""
    shift, epsilon = 0.7, 0.3
    ends = [(-1.5, -1.0), (-1.2, -0.4), (-0.6, 0.0), (0.1, 1.7)]  # in the set between the first two and the last two

    def total(q: mp.mpf) -> mp.mpf:
        values = [gain(shift, epsilon, mp.mpf(w), q + mp.mpf(rise)) for w, rise in ends]
        return values[1] - values[0] + values[3] - values[2]

    with mp.workdps(DIGITS):
        seen = [bent(shift, mp.mpf(w), mp.mpf(rise)) for w, rise in ends]
        assert abs(mp.diff(total, 0, 2) - (seen[1] - seen[0] + seen[3] - seen[2])) < mp.mpf(10) ** -15


# one step


def boxes() -> Iterator[tuple[_Step, int]]:
    """Steps of a coarse programme, and a cell of each."""
    draws = np.random.default_rng(3)
    for slope, shift in ((1.0, 0.3), (2.5, 0.24), (4.0, 1.0), (1.5, 3.0)):
        programme = _Programme(slope, shift, np.array([0.3 * slope * shift]), 0.04)
        for _ in range(40):
            w = float(draws.uniform(-3, 1.5))
            yield _Step(programme, w, w + 0.04), int(draws.integers(0, len(programme.a)))


def steepest(step: _Step, cell: int) -> tuple[float, float]:
    """The largest share of the bounds of |f_w| and of slope |f_q| that points of a box reach."""
    of, found = step.of, [mp.mpf(0), mp.mpf(0)]
    epsilon, slope = float(of.epsilon[0, 0]), of.slope
    low = mp.log(mp.mpf(float(of.a[cell])) / (1 - mp.mpf(float(of.a[cell]))))
    for x in (0, 0.5, 1):
        for y in (0, 0.5, 1):
            w, q = mp.mpf(step.w) + x * (step.v - step.w), low + y * slope * of.step
            for u in (mp.mpf(0), mp.mpf(slope)):
                found[0] = max(found[0], abs(mp.diff(lambda z: rate(of.shift, epsilon, z, q, u), w)))  # noqa: B023
                found[1] = max(found[1], slope * abs(mp.diff(lambda z: rate(of.shift, epsilon, w, z, u), q)))  # noqa: B023
    return float(found[0]) / float(step.across[0, cell]), float(found[1]) / float(step.along[cell])


def test_the_gain_varies_over_a_box_by_no_more_than_its_bounds_and_by_nearly_that() -> None:
    with mp.workdps(DIGITS):
        shares = np.array([steepest(step, cell) for step, cell in boxes()])
    assert shares.max() <= 1.0 + 1e-9
    assert (shares.max(axis=0) > 0.8).all(), "a twin with four fifths of either bound would be caught"


def crossing(step: _Step, cell: int, rises: bool) -> float:
    """What one step can gain by changing between in and out once, where the gain changes its sign."""
    of = step.of
    epsilon, u = float(of.epsilon[0, 0]), mp.mpf(of.slope if rises else 0)
    a = mp.mpf(float(of.a[cell]))
    start = mp.log(a / (1 - a))

    def here(w: mp.mpf) -> mp.mpf:
        return rate(of.shift, epsilon, w, start + u * (w - step.w), u)

    def worth(w: mp.mpf) -> mp.mpf:
        return gain(of.shift, epsilon, w, start + u * (w - step.w))

    low, high = mp.mpf(step.w), mp.mpf(step.v)
    if here(low) * here(high) >= 0:
        return float(max(worth(high) - worth(low), 0))
    falling, (left, right) = here(low) > 0, (low, high)
    for _ in range(60):
        middle = (left + right) / 2
        left, right = (middle, right) if (here(middle) > 0) == falling else (left, middle)
    return float(worth(left) - worth(low) if falling else worth(high) - worth(left))


def missed() -> float:
    """By how much steps that end in nothing gain more than the bound at their nodes says, at most."""
    worst = -math.inf
    with mp.workdps(30):
        for slope, shift, ratio in ((1.0, 0.5, 0.05), (2.0, 0.3, 0.3), (1.0, 2.0, 0.2)):
            programme = _Programme(slope, shift, np.array([ratio * shift]), 0.2)
            cells = len(programme.a)
            for w in np.arange(-1.6, 0.2, 0.2).tolist():
                step = _Step(programme, w, w + 0.2)
                if not step.live.all():
                    continue
                held = step.values(np.zeros((1, cells + 1)), np.full((1, cells), np.inf))[0]
                for cell in range(0, cells, 4):
                    best = max(crossing(step, cell, rises) for rises in (False, True))
                    worst = max(worst, (best - float(held[cell])) / shift)
    return worst


def test_a_step_that_changes_in_its_middle_gains_no_more_than_its_node_says() -> None:
    assert missed() <= 1e-15


def test_a_step_without_room_for_changes_in_its_middle_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "_ANY", (0.0, 0.0))
    assert missed() > 1e-5


# mixtures of the four moves, with whatever may follow


def mixtures(behind: tuple[float, float], most: tuple[float, float], tries: int = 6000) -> float:
    """The largest excess of a mixture over the best move and its allowance, in units of h^2 (|f_w| + slope |f_q| + K).

    The gains are f_0 = x + a tau + b q and f_slope = y + a' tau + b' q in a box of size one by one, which any gain is
    to first order; what follows a step bends down at the rate K.
    """
    draws, excess = np.random.default_rng(5), -math.inf
    t = (np.arange(24) + 0.5) / 24
    for _ in range(tries):
        x, y = draws.normal(size=2) * draws.choice([0.1, 1.0])
        slopes = draws.choice([-1.0, 0.0, 1.0], size=4) * draws.uniform(0, 1, 4)
        k, line = draws.choice([0.0, 1.0]) * draws.uniform(0, 2), draws.normal() * draws.choice([0.1, 1.0])
        cut, other = np.sort(draws.uniform(0, 1, 2))
        inside = (t < cut) if draws.random() < 0.5 else (t > cut) & (t < other) if draws.random() < 0.5 else t > other
        rising = np.where(t < draws.uniform(0, 1), draws.uniform(0, 1), draws.choice([0.0, 1.0]))
        q = np.cumsum(rising) / 24 - rising / 48
        level = x + slopes[0] * t + slopes[1] * q, y + slopes[2] * t + slopes[3] * q
        end = float(rising.mean())
        told = (
            float((inside * ((1 - rising) * level[0] + rising * level[1])).mean())
            + line * end
            + k * end * (1 - end) / 2
        )
        moves = sorted([0.0, line, x + slopes[0] / 2, y + slopes[2] / 2 + slopes[3] / 2 + line])
        across, along = max(abs(slopes[0]), abs(slopes[2])), max(abs(slopes[1]), abs(slopes[3]))
        slack = behind[0] * across + behind[1] * along + k / 2 - (moves[3] - moves[2])
        allowed = min(max(slack, 0.0), most[0] * across + most[1] * along + k / 8)
        excess = max(excess, (told - moves[3] - allowed) / (across + along + k + 1e-9))
    return excess


def test_no_mixture_of_the_four_moves_exceeds_the_best_by_more_than_is_allowed() -> None:
    assert mixtures(_BEHIND, _ANY) <= 1e-3  # sums over 24 parts of a step stand for integrals


@pytest.mark.parametrize(("behind", "most"), [((0.0, 0.0), _ANY), (_BEHIND, (0.03, 0.03))])
def test_mixtures_with_less_room_are_caught(behind: tuple[float, float], most: tuple[float, float]) -> None:
    assert mixtures(behind, most) > 0.01


# between epsilons


def below_chords(mu: float, raised: float, epsilon: Floats) -> float:
    """By how much the curve of ``raised`` falls below chords of that of ``mu``, at most, over the step between epsilons."""

    def curve(m: mp.mpf, t: mp.mpf) -> mp.mpf:
        e = mp.log(t)
        return mp.ncdf(m / 2 - e / m) - t * mp.ncdf(-e / m - m / 2)

    worst = mp.mpf("-inf")
    for a, b in itertools.pairwise(epsilon.tolist()):
        low, high = mp.exp(mp.mpf(a)), mp.exp(mp.mpf(b))
        ends = curve(mp.mpf(mu), low), curve(mp.mpf(mu), high)
        for part in (mp.mpf(k) / 8 for k in range(1, 8)):
            chord = ends[0] * (1 - part) + ends[1] * part
            worst = max(worst, chord - curve(mp.mpf(raised), low + part * (high - low)))
    return float(worst)


@pytest.mark.parametrize(("mu", "last"), [(0.1, 0.2), (1.0, 2.0), (3.0, 6.0)])
def test_the_raised_curve_lies_above_its_chords_and_half_of_the_raise_is_caught(mu: float, last: float) -> None:
    epsilon = np.linspace(0, last, math.ceil(last / mu / 0.055) + 1)
    raised = _above_chords(epsilon, mu)
    with mp.workdps(30):
        assert below_chords(mu, raised, epsilon) <= 0
        assert below_chords(mu, (mu + raised) / 2, epsilon) > 0
