"""What Gaussian objective perturbation costs for a user whose rows weigh one together: mu = m(kappa)/sigma.

A user is added row by row, and a row in as many thin slices as one likes; slices add their mu (group privacy). A slice
of weight h/sigma has a log likelihood ratio of at most h psi(w), w ~ N(0, 1), psi known in closed form from the slope
kappa = sigma/ridge alone; m is the least for which E(psi - z)+ <= E(m w - z)+ at every z, so m h prices a thin slice.
Law: never below the proved bound; docs/proofs/objective_users.md derives it.
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

STEEPEST = Fraction(8)
_FLATTEST = 0.05  # the price is within 0.05 % there
_CELLS = 8192
_OUTWARD = 1 + 1e-9  # far above the rounding of a few doubles


def user_mu(slope: Fraction, shift: int) -> int:
    """Micro-mu for one user added or removed, where the Gaussian part alone would cost ``shift`` micro.

    ``slope`` is at least sigma/ridge, for rows of length at most one. *Privacy:* every epsilon, both directions.

    >>> 100_000 < user_mu(Fraction(1, 2), 100_000) < 104_200
    True
    """
    if not 0 < slope <= STEEPEST:
        raise InvalidTask(f"the ridge is too small: sigma / ridge must be at most {STEEPEST}; got {float(slope):g}.")
    return math.ceil(shift * factor(math.nextafter(max(float(slope), _FLATTEST), math.inf)))


@lru_cache(maxsize=512)
def factor(slope: float) -> float:
    """m: an upper bound of the least m >= 1 for which a slice's curve lies below the Gaussian one of m times its size."""
    import numpy as np

    ends = np.linspace(0.0, slope, _CELLS + 1)
    needed = above(slope, ends)[:-1] * _OUTWARD  # both sides fall in z: a cell's left end against its right one
    low, high = 1.0, 1.0 + slope
    if not np.all(needed <= gaussian_above(high, ends[1:])):
        raise InvalidTask("the ridge is too small for any price.")
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if np.all(needed <= gaussian_above(middle, ends[1:])) else (middle, high)
    return high * _OUTWARD


def above(slope: float, z: Floats) -> Floats:
    """E(psi - z)+ for 0 <= z <= slope, psi(w) = -w up to -slope, then (slope - w)^2/(4 slope) up to slope, then 0."""
    import numpy as np

    end = slope - 2 * np.sqrt(slope * z)  # where psi falls to z
    between = _cumulative(end) - _cumulative(-slope)
    squares = (slope**2 + 1) * between + 2 * slope * (_density(end) - _density(-slope))
    squares -= end * _density(end) + slope * _density(-slope)
    return np.asarray(_density(slope) - z * _cumulative(end) + squares / (4 * slope))


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
