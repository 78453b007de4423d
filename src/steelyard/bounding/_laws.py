"""The mean absolute error that noise makes on top of a known shortfall, for each kind of noise.

Noise grows with the cap: it is cap times X, where X is the noise at sensitivity one. If capping lost ``bias``, the
answer is off by cap X - bias, and symmetry of X gives E|cap X - bias| = bias + 2 cap R(bias / cap) with
R(y) = E(X - y)+. Laplace, Gaussian and staircase (Geng and Viswanath) noise have R in closed form.
What must not change: a law's ``level`` is epsilon for Laplace and staircase, and mu for Gaussian noise.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.accounting import normal_quantile, normal_tail
from steelyard.errors import InvalidTask

Floats = NDArray[np.float64]
LAWS = ("laplace", "gaussian", "staircase")
_STEP = 0.01
_FAR = 9.0


def mean_noise(level: float, noise: str = "laplace") -> float:
    """E|X| at sensitivity one: 1/epsilon, sqrt(2/pi)/mu, or e^(epsilon/2)/(e^epsilon - 1).

    >>> [round(mean_noise(3.0, law), 3) for law in LAWS]
    [0.333, 0.266, 0.235]
    """
    check_law(level, noise)
    if noise == "laplace":
        return 1 / level
    if noise == "gaussian":
        return math.sqrt(2 / math.pi) / level
    return math.exp(-level / 2) / -math.expm1(-level)


def mean_error(bias: ArrayLike, cap: ArrayLike, level: float, noise: str = "laplace") -> Floats:
    """E|cap X - bias| for a shortfall ``bias`` >= 0 and a ``cap`` >= 0, elementwise and exact.

    >>> float(mean_error(0.0, 5.0, 0.5))
    10.0
    """
    check_law(level, noise)
    size, short = np.asarray(cap, dtype=float), np.asarray(bias, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(size > 0, short / size, np.inf)
        excess = {"laplace": _laplace, "gaussian": _gaussian, "staircase": _staircase}[noise](ratio, level)
    return np.asarray(short + np.where(size > 0, 2 * size * excess, 0.0))


def check_law(level: float, noise: str) -> None:
    """Refuse a law that does not exist and a level that is not a positive number."""
    if noise not in LAWS:
        raise InvalidTask(f"noise must be one of {', '.join(LAWS)}; got {noise!r}.")
    if not (level > 0 and math.isfinite(level)):
        raise InvalidTask(f"epsilon (mu for Gaussian noise) must be a positive number; got {level!r}.")


def _laplace(ratio: Floats, level: float) -> Floats:
    return np.asarray(np.exp(-level * ratio) / (2 * level))


def _gaussian(ratio: Floats, level: float) -> Floats:
    """E(Z/mu - y)+ by cubic Hermite pieces whose knots carry exact values and slopes (error below 1e-11)."""
    values, slopes = _normal_knots()
    place = np.minimum(np.nan_to_num(ratio * level, posinf=_FAR), _FAR) / _STEP
    knot = np.minimum(place.astype(np.int64), len(values) - 2)
    t = place - knot
    rise = t * t * (3 - 2 * t)
    value = values[knot] * (1 - rise) + values[knot + 1] * rise
    bend = t * (1 - t) * (slopes[knot] * (1 - t) - slopes[knot + 1] * t)
    return np.asarray(np.maximum(value + _STEP * bend, 0.0) / level)


@lru_cache(maxsize=1)
def _normal_knots() -> tuple[Floats, Floats]:
    knots = _STEP * np.arange(round(_FAR / _STEP) + 2)
    above = np.array([normal_tail(z) for z in knots])
    density = np.exp(-knots * knots / 2) / math.sqrt(2 * math.pi)
    return density - knots * above, -above


def _staircase(ratio: Floats, level: float) -> Floats:
    """E(X - y)+ for steps of width one that fall by e^-epsilon, the first ending at gamma = 1/(1 + e^(epsilon/2))."""
    fall = math.exp(-level)
    gamma = 1 / (1 + math.exp(level / 2))
    height = (1 - fall) / (2 * (gamma + fall * (1 - gamma)))
    mass = height * fall / (1 - fall)
    moment = height * (fall**2 / (1 - fall) ** 2 + fall / (2 * (1 - fall)))
    past = np.maximum(np.nan_to_num(ratio, posinf=1e300) - gamma, 0.0)
    steps = np.floor(past)
    rest = 1 - (past - steps)
    outside = np.exp(-level * steps) * fall * (height * rest**2 / 2 + moment + rest * mass)
    before = np.maximum(gamma - ratio, 0.0)
    inside = height * before**2 / 2 + moment + before * mass
    return np.where(ratio < gamma, inside, outside)


def noise_tail(size: ArrayLike, level: ArrayLike, noise: str = "laplace") -> Floats:
    """P[X > size] at sensitivity one for a ``size`` >= 0, elementwise.

    >>> [round(float(noise_tail(2.0, 1.0, law)), 4) for law in LAWS]
    [0.0677, 0.0228, 0.0677]
    """
    far, much = np.broadcast_arrays(np.asarray(size, dtype=float), np.asarray(level, dtype=float))
    if noise == "laplace":
        return np.asarray(np.exp(-far * much) / 2)
    if noise == "gaussian":
        return np.asarray(np.exp(np.interp(far * much, *_normal_logs(), right=-math.inf)))
    fall, gamma = np.exp(-much), 1 / (1 + np.exp(much / 2))
    height = -np.expm1(-much) / (2 * (gamma + fall * (1 - gamma)))
    past = np.maximum(far - gamma, 0.0)
    steps = np.floor(past)
    beyond = height * np.exp(-much * (steps + 1)) * (1 - (past - steps) + fall / -np.expm1(-much))
    return np.asarray(np.where(far < gamma, 0.5 - height * far, beyond))


@lru_cache(maxsize=1)
def _normal_logs() -> tuple[Floats, Floats]:
    """Places and the logarithm of the normal tail there, raised so that straight lines between them lie above it."""
    places = np.asarray(0.005 * np.arange(7600), dtype=np.float64)
    return places, np.array([math.log(normal_tail(z)) for z in places]) + 4e-6


@lru_cache(maxsize=8)
def spread_noise(level: float, noise: str, size: int) -> Floats:
    """``size`` evenly spaced quantiles of the noise at sensitivity one, ascending.

    >>> [round(float(v), 3) for v in spread_noise(1.0, "laplace", 4)]
    [-1.386, -0.288, 0.288, 1.386]
    """
    check_law(level, noise)
    far = (np.arange(size // 2) + 0.5) / (size // 2)  # how much of the noise is larger in size
    if noise == "laplace":
        sizes = -np.log(far) / level
    elif noise == "gaussian":
        sizes = np.array([normal_quantile(1 - share / 2) for share in far]) / level
    else:
        sizes = _staircase_sizes(far, level)
    return np.asarray(np.concatenate([-sizes, sizes[::-1]]))


def _staircase_sizes(far: Floats, level: float) -> Floats:
    """The sizes of staircase noise that so much of it exceeds."""
    fall, gamma = math.exp(-level), 1 / (1 + math.exp(level / 2))
    height = (1 - fall) / (gamma + fall * (1 - gamma))
    first = height * fall / (1 - fall)  # how much lies beyond the first step
    steps = np.floor(np.maximum(np.log(far / first), -700.0 * level) / -level)
    steps = np.maximum(steps, 0.0)
    beyond = first * fall**steps
    outside = gamma + steps + (beyond - far) / (height * fall ** (steps + 1))
    return np.asarray(np.where(far >= first, (1 - far) / height, outside))
