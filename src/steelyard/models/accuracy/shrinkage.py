"""How far a perturbed logistic model is from the best when it is also drawn towards zero: a length and its quantile.

The best model t* of the penalized mean log loss is at most sqrt(W/lambda) long, W = max s/(1 + e^s). So a perturbed
objective may carry more ridge than the question: with mu more, the excess is at most |mu t* + b/n|^2/(2(lambda + 2 mu)),
and t* does not know b. What the pull costs is less than what it spares where the noise is as long as t* may be.
Law: quantiles at or above the true ones, for the longest t* (docs/proofs/one_shot.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from steelyard.models.accuracy.quantiles import chi_square, gamma_quantile

LONGEST = 0.2784645427610739
"""W: the largest s/(1 + e^s), rounded up; lambda |t*|^2 is at most this."""

LEANS = tuple(Fraction(k, 100) for k in (0, 40, 60, 75, 85, 95))
"""Shares of the pull that would be best if the noise were orthogonal to the best model."""

_OUTWARD = 1 + 1e-6  # far above the error of the quadrature, far below anything that matters
_STEPS = 1000
_END = 1 - 1e-15
_RARE = 1e-13


@dataclass(frozen=True)
class Length:
    """The law of a spherical noise's length, at scale one: normal entries, or density exp(-|b|)."""

    quantile: Callable[[int, float], float]
    above: Callable[[int, float], float]
    density: Callable[[int, NDArray[np.float64]], NDArray[np.float64]]


def _normal_above(width: int, length: float) -> float:
    return float(special.gammaincc(width / 2, length * length / 2))


def _normal_density(width: int, length: NDArray[np.float64]) -> NDArray[np.float64]:
    log = (width - 1) * np.log(length) - length**2 / 2 - (width / 2 - 1) * math.log(2) - math.lgamma(width / 2)
    return np.asarray(np.exp(log))


def _laplace_density(width: int, length: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp((width - 1) * np.log(length) - length - math.lgamma(width)))


NORMAL = Length(lambda width, failure: math.sqrt(chi_square(width, failure)), _normal_above, _normal_density)
LAPLACE = Length(gamma_quantile, lambda width, length: float(special.gammaincc(width, length)), _laplace_density)


def pull(alpha: float, lean: Fraction) -> Fraction:
    """The ridge to add, as a part of the question's own, for an excess of ``alpha``."""
    return Fraction(round(2 * alpha / LONGEST * float(lean) * _STEPS), _STEPS)


@lru_cache(maxsize=4096)
def shifted_quantile(law: Length, width: int, shift: float, failure: float) -> float:
    """The q with P[|b + a| > q] <= failure, for a fixed vector a of length ``shift`` and noise b of scale one.

    It rises with the shift, from the quantile of |b| on and by no more than the shift.
    """
    least = law.quantile(width, failure)
    if shift <= 0:
        return least
    low, high = least * (1 - 1e-5), (least + shift) * (1 + 1e-5)
    found = optimize.brentq(lambda q: shifted_tail(law, width, shift, q) - failure, low, high, xtol=1e-10 * high)
    return float(found) * _OUTWARD


def shifted_tail(law: Length, width: int, shift: float, q: float) -> float:
    """P[|b + a| > q]: b is long enough whatever its direction, or its direction helps.

    The cotangent of the angle between b and a, times sqrt(d - 1), has Student's law. The lengths between |q - a| and
    q + a, as far as they are not too rare to count, are run through by the cosine of an angle, which makes the ends smooth.
    """
    if width == 1:
        return (law.above(1, max(q - shift, 0.0)) + law.above(1, q + shift)) / 2 + _inside(law, 1, shift - q) / 2
    low = max(abs(q - shift), law.quantile(width, 1 - _RARE))
    high = max(min(q + shift, law.quantile(width, _RARE)), low)
    angle, weights = _half_circle()
    length = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    cosine = np.clip((q * q - shift * shift - length**2) / (2 * shift * length), -_END, _END)
    helped = special.stdtr(width - 1, -cosine * np.sqrt((width - 1) / (1 - cosine**2)))
    between = float(weights @ (law.density(width, length) * helped * (high - low) / 2 * np.sin(angle)))
    return law.above(width, high) + between + _inside(law, width, shift - q) + _RARE


def _inside(law: Length, width: int, short: float) -> float:
    """Where the shift alone is longer than q, noise shorter than the difference never brings it back."""
    return 1 - law.above(width, short) if short > 0 else 0.0


@lru_cache(maxsize=1)
def _half_circle() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(240)
    return (nodes + 1) * math.pi / 2, weights * math.pi / 2
