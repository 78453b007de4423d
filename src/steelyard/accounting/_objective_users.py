"""What Gaussian objective perturbation costs for a user whose rows weigh one together: mu = m(kappa)/sigma.

A user is added row by row, and a row in as many thin slices as one likes; slices add their mu (group privacy). A slice
of size h has a log likelihood ratio h psi(w), w ~ N(0, 1), psi = p' - w p for a weight p in [0, 1] that rises at a rate
of at most kappa p(1 - p), kappa = sigma/ridge. m is the least for which E(psi - z)+ <= E(m w - z)+ at every z and for
every such p; then m h prices a thin slice, and m/sigma a user of any number of rows in any number of dimensions.
Law: never below the exact worst case; docs/proofs/objective_users.md derives each bound used here.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from steelyard.errors import InvalidTask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STEEPEST_USERS = Fraction(8)
"""The largest slope, sigma over ridge, for which a price is worked out where users are hidden."""
_ROUGH = 16  # slopes are rounded up to sixteenths, so that few prices have to be worked out
_NODES, _CELLS, _STEPS = 32, 500, 300
_LEAST, _REACH = 0.02, 6.0
_FINE = 8192
_OUTWARD = 1 + 1e-9  # far above the rounding of a few thousand doubles


def user_mu(slope: Fraction, shift: int) -> int:
    """Micro-mu for one user added or removed, where the Gaussian part alone would cost ``shift`` micro.

    ``slope`` is at least sigma/ridge, for rows of length at most one. *Privacy:* every epsilon, both directions; the last
    micro is spare, so that another machine's doubles find no more.

    >>> 100_000 < user_mu(Fraction(1), 100_000) < 100_700
    True
    """
    if not 0 < slope <= STEEPEST_USERS:
        raise InvalidTask(
            f"the ridge is too small: sigma / ridge must be at most {STEEPEST_USERS}; got {float(slope):g}."
        )
    return math.ceil(shift * factor(math.ceil(slope * _ROUGH))) + 1


@lru_cache(maxsize=256)
def factor(sixteenths: int) -> float:
    """An upper bound of m for a slope of so many sixteenths."""
    import numpy as np

    slope = sixteenths / _ROUGH
    fine = np.linspace(0.0, slope, _FINE + 1)
    needed = bound(slope, fine)[:-1] * _OUTWARD  # both sides fall in z: a cell's left end against its right one
    low, high = 1.0, 1.0 + slope
    if not np.all(needed <= gaussian_above(high, fine[1:])):
        raise InvalidTask("the ridge is too small for any price.")
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if np.all(needed <= gaussian_above(middle, fine[1:])) else (middle, high)
    return high * _OUTWARD


def bound(slope: float, z: Floats) -> Floats:
    """At least E(psi - z)+ for every admissible p: convex in z, so chords between bounds at a few z are bounds."""
    import numpy as np

    nodes = np.linspace(0.0, slope, _NODES + 1)
    told = [float(gaussian_above(1.0, nodes[:1])[0]), *(last_exit(slope, node) for node in nodes[1:])]
    return np.asarray(np.interp(z, *_hull(nodes, np.minimum(told, pointwise(slope, nodes)))))


def _hull(x: Floats, y: Floats) -> tuple[list[float], list[float]]:
    """The points of the lower convex hull: below every chord between two of the points."""
    kept: list[tuple[float, float]] = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        while len(kept) > 1 and _above(kept[-2], kept[-1], (a, b)):
            kept.pop()
        kept.append((a, b))
    return [a for a, _ in kept], [b for _, b in kept]


def _above(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    slope = (right[1] - left[1]) / (right[0] - left[0])
    return middle[1] >= left[1] + slope * (middle[0] - left[0])


def pointwise(slope: float, z: Floats) -> Floats:
    """E(top - z)+ for 0 <= z <= slope, top(w) = -w up to -slope, then (slope - w)^2/(4 slope) up to slope, then 0."""
    import numpy as np

    end = slope - 2 * np.sqrt(slope * z)  # where top falls to z
    between = _cumulative(end) - _cumulative(-slope)
    squares = (slope**2 + 1) * between + 2 * slope * (_density(end) - _density(-slope))
    squares -= end * _density(end) + slope * _density(-slope)
    return np.asarray(_density(slope) - z * _cumulative(end) + squares / (4 * slope))


def last_exit(slope: float, z: float) -> float:
    """The most that can be gained above z > 0, over the weight p at which psi is last above z; cells of p, outward."""
    import numpy as np
    from scipy.special import expit

    ends = np.square(np.linspace(math.sqrt(_LEAST), 1.0, _CELLS + 1))
    left, right = ends[:-1], ends[1:]
    latest, earliest = slope * (1 - left) - z / right, np.minimum(slope * (1 - right) - z / left, 0.0)
    step = _REACH / _STEPS
    w = earliest[:, None] - step * np.arange(_STEPS + 1)
    curve = expit(slope * w + (np.log(left / (1 - left)) - slope * latest)[:, None])
    spent = np.minimum(z, -w * curve) * _density(w)
    given_up = step * (spent.sum(axis=1) - (spent[:, 0] + spent[:, -1]) / 2)
    gained = float(np.max(right * _density(np.minimum(latest, 0.0)) - given_up))
    rounding = (2 + slope / 2 + 0.04 * slope**2) * step**2 / 8
    small = _LEAST * float(_density(min(slope - z / _LEAST, 0.0)))
    return max(gained + rounding, small)


def gaussian_above(m: float, z: Floats) -> Floats:
    """E(m w - z)+ for a standard normal w."""
    import numpy as np

    return np.asarray(m * _density(z / m) - z * _cumulative(-z / m))


def _density(w: Floats | float) -> Floats:
    import numpy as np

    return np.asarray(np.exp(-np.square(w) / 2) / math.sqrt(2 * math.pi))


def _cumulative(w: Floats | float) -> Floats:
    import numpy as np
    from scipy.special import ndtr

    return np.asarray(ndtr(w))
