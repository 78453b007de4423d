"""Laplace noise drawn by the opendp library: a second opinion on our own from code that is not ours."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NoReturn

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from steelyard.errors import InsecureNoise
from steelyard.noise._sources import _narrow, _ratio
from steelyard.noise._stream import current

dp.enable_features("contrib")


class OpenDPNoise:
    """Laplace noise of opendp.

    Its Gaussian is the discrete Gaussian, which is not S/sigma-Gaussian-private, so ``normal`` refuses.
    """

    name = "opendp"
    secure = True

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        """``size`` discrete Laplace draws; a scale that is no float is rounded up to the next one."""
        scale = _narrow(*_ratio(scale, size))
        if size == 0:
            return []
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        values: list[int] = dp.m.make_laplace(*space, scale=float_above(scale))([0] * size)
        return values

    def laplace_array(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Like ``laplace``, as an int64 array."""
        return np.array(self.laplace(scale, size), dtype=np.int64)

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        """Always refused: the discrete Gaussian of scale sigma does not keep the promise S/sigma."""
        _refuse_discrete_gaussian()

    def normal_array(self, sigma: Fraction, size: int) -> NDArray[np.int64]:
        """Always refused, as ``normal`` is."""
        _refuse_discrete_gaussian()

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), from the exact source's words."""
        return current().below(bound)

    def bits(self, size: int) -> NDArray[np.uint64]:
        """``size`` uniform 64-bit words, from the exact source."""
        return current().words(size)

    def __repr__(self) -> str:
        return "OpenDPNoise()"


def _refuse_discrete_gaussian() -> NoReturn:
    raise InsecureNoise(
        "opendp draws the discrete Gaussian, whose loss is above S/sigma (by 4.6 % at sigma = 1); "
        "use ExactNoise() for Gaussian noise, or Laplace noise with opendp."
    )


def float_above(scale: Fraction) -> float:
    near = float(scale)
    return near if Fraction(near) >= scale else math.nextafter(near, math.inf)
