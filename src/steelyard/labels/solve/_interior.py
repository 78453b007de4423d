"""A primal-dual interior point for the interval cones (Nesterov-Todd scaling, Mehrotra's predictor and corrector).

Each column is one cone 2 a tau >= b^2; its dual slack (s_a, s_b, 2P) is always recomputed from the prices, so the dual
is feasible to rounding at every step. The scaling has a closed form, only three numbers of it enter the normal
equations, and those are graph Laplacians over the label boundaries: 2k x 2k, whatever the number of columns.
Nothing here is trusted: the answer is a guess that recovery makes exact and the checker judges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.labels.solve._program import Columns, Floats, Scaled, every_interval, laplacian, targets

Triple = tuple[Floats, Floats, Floats]


@dataclass
class Iterate:
    """An iterate: the columns in play, their (a, b, tau), and the prices of both flows."""

    columns: Columns
    a: Floats
    b: Floats
    tau: Floats
    mass: Floats
    mean: Floats

    def slack(self) -> tuple[Floats, Floats]:
        """The dual slacks s_a and s_b; the third, s_tau = 2P, is constant."""
        c = self.columns
        return c.Q - c.price(self.mass), -2 * c.Y - c.price(self.mean)

    def margin(self) -> Floats:
        """How far each column is from being worth using: s_a - s_b^2/4P, zero for the ones in use."""
        s_a, s_b = self.slack()
        return s_a - s_b * s_b / (4 * self.columns.P)

    def keep(self, chosen: NDArray[np.bool_]) -> Iterate:
        """The same iterate on fewer columns."""
        return Iterate(
            self.columns.keep(chosen), self.a[chosen], self.b[chosen], self.tau[chosen], self.mass, self.mean
        )


def start(problem: Scaled, columns: Columns, price: float = -0.5, mass: float = 10.0) -> Iterate:
    """A strictly interior start: one global price below zero, and the primal on the central ray with too much mass."""
    zero = np.zeros(problem.size)
    prices = zero.copy()
    prices[-1] = price
    point = Iterate(columns, zero, zero, zero, prices, zero.copy())
    s_a, s_b = point.slack()
    det = 4 * columns.P * s_a - s_b * s_b
    nu = mass / float(columns.g @ (2 * columns.P / det))
    point.a, point.b, point.tau = nu * 2 * columns.P / det, -nu * s_b / det, nu * s_a / det
    return point


class _Normal:
    """The normal equations of one scaling: assembled in O(columns + k^2), factored once, solved a few times."""

    def __init__(
        self, columns: Columns, size: int, waa: Floats, wab: Floats, wbb: Floats, curvature: Floats | None
    ) -> None:
        from scipy.linalg import cholesky

        matrix = np.empty((2 * size, 2 * size))
        laplacian(columns, size, waa, matrix[:size, :size])
        laplacian(columns, size, wab, matrix[size:, :size])
        laplacian(columns, size, wbb, matrix[size:, size:])
        if curvature is not None:
            matrix[size:, size:] += curvature
        matrix[:size, size:] = matrix[size:, :size].T
        self.scale = 1 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
        matrix *= self.scale[:, None]
        matrix *= self.scale
        self.matrix = matrix
        for shift in (1e-15, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3):
            np.fill_diagonal(matrix, 1 + shift)
            try:
                self.factor = cholesky(matrix.T, lower=True, check_finite=False)
            except np.linalg.LinAlgError:
                continue
            if np.isfinite(self.factor[-1, -1]):
                np.fill_diagonal(matrix, 1.0)
                return
        raise np.linalg.LinAlgError("the normal equations are singular")

    def solve(self, right: Floats) -> Floats:
        """Solve with one step of iterative refinement."""
        from scipy.linalg.lapack import dpotrs

        right = right * self.scale
        out, _ = dpotrs(self.factor, right, lower=1)
        rest, _ = dpotrs(self.factor, right - self.matrix @ out, lower=1)
        return np.asarray((out + rest) * self.scale)


def _step_length(x: Triple, d: Triple, det: Floats) -> float:
    """The largest step that keeps every 2 a tau - b^2 and a + tau positive (exact roots of the quadratics)."""
    linear = x[0] * d[2] + x[2] * d[0] - x[1] * d[1]
    square = 2 * d[0] * d[2] - d[1] * d[1]
    disc = linear * linear - square * det
    denominator = -linear + np.sqrt(np.maximum(disc, 0))
    bad = (disc >= 0) & (denominator > 0)
    # the root of det + 2 linear s + square s^2 nearest to zero from above, if there is one
    length = float(np.min(det[bad] / denominator[bad], initial=np.inf))
    falling = d[0] + d[2] < 0
    return min(length, float(np.min((x[0] + x[2])[falling] / -(d[0] + d[2])[falling], initial=np.inf)))


def inside(point: Iterate, fresh: NDArray[np.bool_], nu: float) -> Iterate:
    """Lower the global price until every slack is positive, and put the fresh columns on the central ray."""
    c = point.columns
    mass = point.mass.copy()
    mass[-1] -= max(0.0, nu - float((point.margin() / c.g).min()))
    point = Iterate(c, point.a, point.b, point.tau, mass, point.mean)
    s_a, s_b = point.slack()
    det = 4 * c.P * s_a - s_b * s_b
    point.a[fresh], point.b[fresh] = (nu * 2 * c.P / det)[fresh], (-nu * s_b / det)[fresh]
    point.tau[fresh] = (nu * s_a / det)[fresh]
    return point


def _admit(problem: Scaled, point: Iterate, gap: float) -> Iterate:
    """Bring in the intervals not in play that are, or soon will be, worth using under the present prices."""
    size = problem.size
    absent = np.ones((size + 1, size + 1), dtype=np.bool_)
    absent[point.columns.left, point.columns.right] = False
    left, right = every_interval(size)
    out = absent[left, right]
    pool = Columns.of(problem, left[out], right[out])
    blank = np.zeros(len(pool.left))
    margin = Iterate(pool, blank, blank, blank, point.mass, point.mean).margin()
    worth = margin < gap
    if not worth.any():
        return point
    # lowering the price twice as far as the worst offender needs leaves every newcomer as much room again
    room = 2 * max(0.0, -float((margin / pool.g).min()))
    mass = point.mass.copy()
    mass[-1] -= room
    gap += room * float(point.columns.g @ point.a)
    pool, blank = pool.keep(worth), blank[worth]
    both = Columns(*(np.concatenate(pair) for pair in zip(point.columns.arrays(), pool.arrays(), strict=True)))
    a, b, tau = (np.concatenate([x, blank]) for x in (point.a, point.b, point.tau))
    fresh = np.arange(len(a)) >= len(point.a)
    return inside(Iterate(both, a, b, tau, mass, point.mean), fresh, 0.3 * gap / len(a))


def minimise(
    problem: Scaled,
    point: Iterate,
    tolerance: float,
    feasible: float = 1e-7,
    *,
    sparse: bool = True,
    limit: int = 150,
    curvature: Floats | None = None,
) -> tuple[Iterate, bool]:
    """Follow the central path until gap and primal infeasibility are small, or nothing moves; says which of the two.

    With ``sparse``, hopeless columns are dropped on the way (each time the gap has halved) and missing ones brought
    in three times; without, the columns given stay. ``curvature`` is the Hessian of a quadratic price on the mean
    prices: the dual of paying for bias instead of forbidding it.
    """
    size = problem.size
    next_drop, checks = 0.03, [3e-3, 3e-4, 3e-5] if sparse and 2 * len(point.a) < size * (size + 1) else []
    last = point
    for _ in range(limit):
        last = point
        gap, relative, aims, residual = _progress(problem, point, curvature)
        infeasible = float(np.abs(residual).max())
        converged = relative < tolerance and infeasible < feasible
        if converged or not np.isfinite(gap):
            return last, converged
        if sparse and relative < next_drop and infeasible < max(1e-6, feasible):
            next_drop = relative / 2
            useful = point.a > 0.02 / (2 * size) * min(1, 30 * relative)
            point = point.keep(useful | (point.margin() < 10 * gap))
        if any(relative < check for check in checks):
            checks = [check for check in checks if check <= relative]
            point = _admit(problem, point, gap)
        if point is not last:
            _, _, aims, residual = _progress(problem, point, curvature)
        moved = _advance(point, residual, aims, size, relative, curvature)
        if moved is None:
            break
        point = moved
    return last, False


def _progress(problem: Scaled, point: Iterate, curvature: Floats | None) -> tuple[float, float, Floats, Floats]:
    """The gap, the gap relative to the objective, what the flows should be, and how far they are from it."""
    c, (mass, mean) = point.columns, targets(problem)
    s_a, s_b = point.slack()
    gap = float(point.a @ s_a + point.b @ s_b + 2 * point.tau @ c.P)
    bent = np.zeros_like(mean) if curvature is None else curvature @ point.mean
    dual = float(mass @ point.mass + mean @ point.mean - bent @ point.mean / 2)
    aims = np.concatenate([mass, mean - bent])
    residual = aims - np.concatenate([c.flow(point.a, problem.size), c.flow(point.b, problem.size)])
    return gap, gap / max(abs(dual + gap), 1e-300), aims, residual


class _Scaling:
    """The Nesterov-Todd scaling of every cone at one point, and the Newton directions it defines."""

    def __init__(self, point: Iterate, size: int, curvature: Floats | None) -> None:
        self.columns, self.size = point.columns, size
        s_a, s_b = point.slack()
        self.x: Triple = (point.a, point.b, point.tau)
        self.s: Triple = (s_a, s_b, 2 * point.columns.P)
        self.det_x, self.det_s = _det(self.x), _det(self.s)
        if not (np.all(self.det_x > 0) and np.all(self.det_s > 0)):
            raise np.linalg.LinAlgError("the point left the cone")
        x, s, root_x, root_s = self.x, self.s, np.sqrt(self.det_x), np.sqrt(self.det_s)
        self.eta2 = root_x / root_s
        # the normalised scaling point (x/|x| + J s/|s|) / 2 gamma, with J (s_a, s_b, s_tau) = (s_tau, -s_b, s_a)
        double = np.sqrt(2 * (1 + _dots(x, s) / (root_x * root_s)))
        w_a, w_b = (x[0] / root_x + s[2] / root_s) / double, (x[1] / root_x - s[1] / root_s) / double
        w_t = (x[2] / root_x + s[0] / root_s) / double
        self.w: Triple = (w_a, w_b, w_t)
        self.aa, self.ab = 2 * self.eta2 * w_a * w_a, 2 * self.eta2 * w_a * w_b
        self.bb = self.eta2 * (2 * w_b * w_b + 1)
        self.ta, self.tb = self.eta2 * (2 * w_a * w_t - 1), 2 * self.eta2 * w_t * w_b
        self.normal = _Normal(self.columns, size, self.aa, self.ab, self.bb, curvature)

    def direction(self, vector: Floats, offset: Triple) -> tuple[Floats, Triple, Triple]:
        """Solve H dy = vector; then ds = -A'dy and dx = offset - W^2 ds."""
        dy = self.normal.solve(vector)
        da, db = -self.columns.price(dy[: self.size]), -self.columns.price(dy[self.size :])
        dx_a, dx_b = offset[0] - self.aa * da - self.ab * db, offset[1] - self.ab * da - self.bb * db
        return dy, (dx_a, dx_b, offset[2] - self.ta * da - self.tb * db), (da, db, np.zeros_like(da))

    def corrector(self, dx: Triple, ds: Triple, target: float) -> Triple:
        """W (lambda \\ (target e - (W^-1 dx) o (W ds))) - x: where the centre and the second-order term point."""
        eta, (w0, w1, w2) = np.sqrt(self.eta2), _lorentz(self.w)

        def scale(v: Triple, sign: int) -> Triple:
            """The square root of the scaling (sign 1) or its inverse (sign -1), without eta."""
            dot = w1 * v[1] + w2 * v[2]
            tail = sign * v[0] + dot / (1 + w0)
            return w0 * v[0] + sign * dot, v[1] + tail * w1, v[2] + tail * w2

        l0, l1, l2 = (eta * q for q in scale(_lorentz(self.s), 1))
        f = scale(_lorentz(ds), 1)
        e = scale(_lorentz(dx), -1)
        r0, r1, r2 = target - _dots(e, f), -(e[0] * f[1] + f[0] * e[1]), -(e[0] * f[2] + f[0] * e[2])
        # lambda \ r, with det(lambda) from the determinants (the direct formula cancels)
        det, dot = np.sqrt(self.det_x * self.det_s), l1 * r1 + l2 * r2
        common = (dot / l0 - r0) / det
        z0, z1, z2 = scale(((l0 * r0 - dot) / det, common * l1 + r1 / l0, common * l2 + r2 / l0), 1)
        half = eta / np.sqrt(2.0)
        return half * (z0 + z1) - self.x[0], eta * z2 - self.x[1], half * (z0 - z1) - self.x[2]


def _det(v: Triple) -> Floats:
    return 2 * v[0] * v[2] - v[1] * v[1]


def _dots(v: Triple, w: Triple) -> Floats:
    return v[0] * w[0] + v[1] * w[1] + v[2] * w[2]


def _lorentz(v: Triple) -> Triple:
    """(a, b, tau) in the coordinates of the ice-cream cone."""
    root = np.sqrt(2.0)
    return (v[0] + v[2]) / root, (v[0] - v[2]) / root, v[1]


def _advance(
    point: Iterate, residual: Floats, right: Floats, size: int, relative: float, curvature: Floats | None
) -> Iterate | None:
    """One predictor-corrector step; None when the numbers no longer allow one."""
    try:
        scaling = _Scaling(point, size, curvature)
    except np.linalg.LinAlgError:
        return None
    x, s, c = scaling.x, scaling.s, point.columns
    _, dx, ds = scaling.direction(right, (-x[0], -x[1], -x[2]))
    long_x, long_s = min(1.0, _step_length(x, dx, scaling.det_x)), min(1.0, _step_length(s, ds, scaling.det_s))
    gap = float(_dots(x, s).sum())
    after = sum(float((x[i] + long_x * dx[i]) @ (s[i] + long_s * ds[i])) for i in range(3))
    sigma = max(min(1.0, max(after / gap, 0.0)) ** 3, 0.3 if min(long_x, long_s) < 0.1 else 0.0)
    offset = scaling.corrector(dx, ds, sigma * gap / len(c.left))
    vector = residual - np.concatenate([c.flow(offset[0], size), c.flow(offset[1], size)])
    dy, dx, ds = scaling.direction(vector, offset)
    back = 0.9 if relative > 1e-4 else 0.99
    long_x = min(1.0, back * _step_length(x, dx, scaling.det_x))
    long_s = min(1.0, back * _step_length(s, ds, scaling.det_s))
    if curvature is not None:  # the primal equations contain the prices: both must move together
        long_x = long_s = min(long_x, long_s)
    if not np.isfinite(long_x + long_s) or max(long_x, long_s) < 1e-6:
        return None
    a, b, tau = (x[i] + long_x * dx[i] for i in range(3))
    return Iterate(c, a, b, tau, point.mass + long_s * dy[:size], point.mean + long_s * dy[size:])
