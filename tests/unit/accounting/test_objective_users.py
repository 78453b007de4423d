"""The Gaussian price of a user in a perturbed objective: closed forms, exact laws in one and two dimensions, twins."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from steelyard.accounting._gaussian import delta_of
from steelyard.accounting._objective import objective_mu
from steelyard.accounting._objective_users import bound, factor, gaussian_above, pointwise, user_mu
from steelyard.errors import InvalidTask

Array = NDArray[np.float64]


W = np.linspace(-9, 9, 18_001)


def gained(slope: float, switches: list[float], start: float, z: float) -> float:
    """E(psi - z)+ of a weight whose logit begins at ``start`` and alternately stays and rises at the slope."""
    rising = np.searchsorted(np.sort(switches), W) % 2 == 1
    logits = start + slope * np.concatenate([[0.0], np.cumsum(rising[1:] * np.diff(W))])
    p = expit(logits)
    psi = slope * rising * p * (1 - p) - W * p
    return float(np.trapezoid(np.maximum(psi - z, 0.0) * norm.pdf(W), W))


@cache
def curve(slope: float) -> tuple[Array, Array]:
    """The bound at many z; between them it is at most the chord, for it is convex."""
    z = np.linspace(0, slope, 2001)
    return z, bound(slope, z)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([0.5, 2.0, 3.0, 5.0, 8.0]),
    st.lists(st.floats(-6, 3), min_size=1, max_size=5),
    st.floats(-12, 8),
    st.floats(0, 1),
)
def test_no_weight_gains_more_than_the_bound(slope: float, switches: list[float], start: float, part: float) -> None:
    z = part * slope
    exact = gained(slope, switches, start, z)
    assert exact <= float(np.interp(z, *curve(slope))) + 1e-4
    assert exact <= float(pointwise(slope, np.array([z]))[0]) + 1e-4


def test_steep_weights_gain_more_than_a_gaussian_and_flat_ones_do_not() -> None:
    found = {}
    for slope in (1.0, 5.0):
        tried = [
            (z, gained(slope, [a, a + length], start, z))
            for z in np.linspace(0.1, 0.6, 4) * slope
            for a in np.linspace(-4, 0, 9)
            for length in (0.5, 1.0, 2.0)
            for start in (-2.0, 0.0, 2.0)
        ]
        found[slope] = max(gain / float(gaussian_above(1.0, np.array([z]))[0]) for z, gain in tried)
    assert found[1.0] <= 1 + 1e-4
    assert found[5.0] > 1.05  # a twin that charged m = 1 would be caught


@pytest.mark.parametrize("slope", [0.5, 2.0, 8.0])
def test_the_factor_is_the_least_that_covers_the_bound(slope: float) -> None:
    many, m = np.linspace(0, slope, 997), factor(round(16 * slope))
    assert np.all(bound(slope, many) <= gaussian_above(m, many))
    assert not np.all(bound(slope, many) <= gaussian_above(1 + 0.9 * (m - 1), many))
    beyond = np.linspace(slope, slope + 5, 50)
    assert np.all(gaussian_above(1.0, beyond) <= gaussian_above(m, beyond))


@pytest.mark.parametrize("slope", [0.05, 0.5, 2.0, 8.0])
def test_the_pointwise_curve_is_what_the_worst_weights_give(slope: float) -> None:
    weights = np.linspace(0, 1, 4001)

    def top(w: float) -> float:
        return float(np.max(weights * (slope * (1 - weights) - w)))

    for z in (0.0, 0.1 * slope, 0.6 * slope, slope):
        exact = quad(lambda w, z=z: max(top(w) - z, 0.0) * norm.pdf(w), -12, slope, limit=400, points=[-slope])[0]
        assert float(pointwise(slope, np.array([z]))[0]) == pytest.approx(exact, abs=1e-6)


def test_the_price_grows_with_the_slope_and_is_never_below_that_of_a_row() -> None:
    prices = [user_mu(Fraction(k, 10), 300_000) for k in range(1, 60, 5)]
    assert prices == sorted(prices)
    assert all(user_mu(Fraction(k), 300_000) >= 0.999 * objective_mu(Fraction(k), 300_000) for k in (1, 2, 3))
    for slope in (Fraction(0), Fraction(9)):
        with pytest.raises(InvalidTask):
            user_mu(slope, 1000)


def log_density(t: Array, signed: Array, weight: Array, ridge: float, push: Array, sigma: float) -> Array:
    """Of the minimizer at each t, b ~ N(0, sigma^2 I); ``push`` is the pull of rows far away."""
    margins = t @ signed.T
    p = weight * expit(-margins)
    b = p @ signed - ridge * t + push
    hessian = np.einsum("ti,ij,ik->tjk", p * expit(margins), signed, signed) + ridge * np.eye(signed.shape[1])
    width = signed.shape[1]
    return np.asarray(
        -(b**2).sum(axis=1) / (2 * sigma**2)
        + np.linalg.slogdet(hessian)[1]
        - width * math.log(sigma * math.sqrt(2 * math.pi))
    )


def grid(ridge: float, sigma: float, push: Array) -> tuple[Array, float]:
    """Points around where the noise puts the minimizer, and the size of a cell."""
    width, half = len(push), (8 * sigma + 3) / ridge
    axis = np.linspace(-half, half, 8001 if width == 1 else 401)
    points = np.stack(np.meshgrid(*[axis] * width), axis=-1).reshape(-1, width) + push / ridge
    return points, float(axis[1] - axis[0]) ** width


def worst(
    base: tuple[Array, Array], user: tuple[Array, Array], ridge: float, push: Array, sigma: float, mu: float
) -> float:
    """By how much the exact delta exceeds the curve of mu, at worst over epsilons and both orders."""
    t, cell = grid(ridge, sigma, push)
    both = np.concatenate([base[0], user[0]]), np.concatenate([base[1], user[1]])
    without, with_user = (np.exp(log_density(t, rows[0], rows[1], ridge, push, sigma)) for rows in (base, both))
    assert float(without.sum() * cell) == pytest.approx(1, abs=2e-3)
    found = -math.inf
    for a, b in ((without, with_user), (with_user, without)):
        for epsilon in (0.0, 0.2 * mu, 0.5 * mu, mu, 2 * mu):
            exact = float(np.maximum(a - math.exp(epsilon) * b, 0).sum() * cell)
            found = max(found, exact - delta_of(epsilon, mu))
    return found


NONE = {1: (np.zeros((1, 1)), np.zeros(1)), 2: (np.zeros((1, 2)), np.zeros(1))}
USERS = {
    1: [([[1.0]], [1.0]), ([[1.0], [-1.0]], [0.5, 0.5]), ([[1.0], [0.5], [-0.2]], [0.4, 0.4, 0.2])],
    2: [
        ([[0.8, 0.6], [0.8, -0.6]], [0.5, 0.5]),
        ([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5]),
        ([[1.0, 0.0], [0.8, 0.6], [-0.6, 0.8], [0.6, -0.8]], [0.25] * 4),
    ],
}


@pytest.mark.parametrize(("width", "slope", "shift"), [*itertools.product((1, 2), (1.0, 4.0), (0.3, 1.5))])
def test_exact_laws_stay_below_the_price(width: int, slope: float, shift: float) -> None:
    sigma, ridge = 1 / shift, 1 / shift / slope
    mu = user_mu(Fraction(slope), round(shift * 1e6)) / 1e6
    for rows, weight in USERS[width]:
        for push in (0.0, 2.0, -6.0):
            user = np.array(rows), np.array(weight)
            assert worst(NONE[width], user, ridge, np.full(width, push), sigma, mu) <= 1e-4 * mu


def test_a_price_without_the_factor_and_rows_that_all_count_are_caught() -> None:
    one, crossed = (np.array([[1.0]]), np.array([1.0])), (np.array([[0.8, 0.6], [0.8, -0.6]]), np.ones(2))
    far = [worst(NONE[1], one, 0.1, np.array([push]), 1.0, 1.0) for push in (0.0, -1.0, -2.0, -3.0)]
    assert max(far) > 0.01  # the Gaussian's own mu at a slope of ten
    mu = user_mu(Fraction(1, 2), 300_000) / 1e6
    assert worst(NONE[2], crossed, 2 / 0.3, np.array([-20.0, 0.0]), 1 / 0.3, mu) > 0.01


def thickness(slope: float) -> mp.mpf:
    """C: by how much a slice's share may exceed its limit, for each unit of its thickness."""
    top = mp.mpf(slope) / 4
    return mp.quad(lambda w: (w + top) ** 2 * mp.exp(w + top) * mp.npdf(w), [0, 2, 6, 20])


def beyond(slope: float, h: float, z: float, at: float | None) -> mp.mpf:
    """E(e^(h psi) - e^(h z))+/h less E(psi - z)+, for a weight that rises at the slope all along, or is one."""

    def psi(w: mp.mpf) -> mp.mpf:
        p = mp.mpf(1) if at is None else 1 / (1 + mp.exp(-slope * (w - at)))
        return slope * p * (1 - p) - w * p

    def more(w: mp.mpf) -> mp.mpf:
        x = psi(w)
        return mp.mpf(0) if x <= z else ((mp.exp(h * x) - mp.exp(h * z)) / h - (x - z)) * mp.npdf(w)

    return mp.quad(more, [-14, -8, -5, -3, -2, -1, 0, 1, 2, 4])


def share(slope: float, allowed: float = 1.0) -> float:
    """The largest share of what the limit allows that some weight, z and thickness need."""
    with mp.workdps(25):
        most = thickness(slope) * allowed
        cases = itertools.product((0.05, 1.0), (0.0, slope / 2), (None, -1.0))
        return float(max(beyond(slope, h, z, at) / (h * most) for h, z, at in cases))


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_a_thin_slice_is_as_near_to_its_limit_as_the_note_says(slope: float) -> None:
    assert share(slope) <= 1.0


def test_a_tenth_of_the_allowance_for_a_slice_is_caught() -> None:
    assert share(0.5, allowed=0.1) > 1.0


@pytest.mark.parametrize(("m", "h", "z"), [(1.0, 0.3, 0.0), (1.2, 0.01, 2.0), (1.8, 1.0, 1.0), (1.05, 0.1, 3.0)])
def test_a_gaussian_slice_is_above_its_limit_less_what_the_note_says(m: float, h: float, z: float) -> None:
    with mp.workdps(30):
        mu, epsilon = mp.mpf(m) * h, mp.mpf(h) * z
        delta = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)
        limit = m * mp.npdf(z / mp.mpf(m)) - z * mp.ncdf(-z / mp.mpf(m))
        assert delta / h >= limit - mp.mpf(m) ** 2 * h / 2
        wider = (m + 0.1) * mp.npdf(z / (m + mp.mpf("0.1"))) - z * mp.ncdf(-z / (m + mp.mpf("0.1")))
        assert wider - limit >= mp.mpf("0.1") * mp.npdf(z / mp.mpf(m))


def test_what_a_trapezium_sum_may_miss_is_made_of_four_closed_forms() -> None:
    f, root = mp.npdf, mp.sqrt(3)
    with mp.workdps(20):
        forms = (
            (mp.quad(lambda w: -w * abs(w * w - 1) * f(w), [-20, -1, 0]), 4 * f(1) - f(0)),
            (mp.quad(lambda w: -w * f(w), [-20, -5, 0]), f(0)),
            (mp.quad(lambda w: abs(w * w - 1) * f(w), [-20, -1, 0]), 2 * f(1)),
            (mp.quad(lambda w: abs(3 * w - w**3) * f(w), [-20, -root, 0]), 4 * f(root) + f(0)),
        )
        assert all(abs(found - told) < 1e-12 for found, told in forms)
        flat, k, turned, bent = (told for _, told in forms)
        for kappa in (0.1, 1, 4, 8):
            assert flat + bent + kappa * turned / 2 + kappa**2 * k / (6 * root) <= 2 + kappa / 2 + 0.04 * kappa**2
            assert flat + bent + kappa * turned / 2 + kappa**2 * k / (6 * root) > (2 + kappa / 2 + 0.04 * kappa**2) / 2
