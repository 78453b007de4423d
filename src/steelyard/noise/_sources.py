"""Who makes the noise: the exact source, and the seeded one for tests.

All noise is integer: discrete Laplace, P(x) proportional to exp(-|x| / scale), and the rounded normal round(sigma Z).
Secure and test noise run the same algorithms; they differ only in the words they read.
Law: nothing with a seed is ever ``secure``, and a source that is not secure taints every release.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from steelyard.errors import InvalidTask
from steelyard.noise._deviate import Law, draw, exponential, normal
from steelyard.noise._stream import SeededStream, Stream, current

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEW = 8  # up to here the scalar code is faster than numpy's fixed costs


@runtime_checkable
class Noise(Protocol):
    """What a mechanism needs to know about where its noise comes from."""

    @property
    def name(self) -> str:
        """The name that a guarantee quotes."""

    @property
    def secure(self) -> bool:
        """Whether a release may promise anything; False taints it."""

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        """``size`` integers with P(x) proportional to exp(-|x| / scale)."""

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        """``size`` integers round(sigma Z), Z standard normal."""

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""

    def bits(self, size: int) -> NDArray[np.uint64]:
        """``size`` uniform 64-bit words."""

    def laplace_array(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Like ``laplace``, as an int64 array; the scale must be below 2^48."""

    def normal_array(self, sigma: Fraction, size: int) -> NDArray[np.int64]:
        """Like ``normal``, as an int64 array; sigma must be below 2^48."""


def _ratio(scale: Fraction | int, size: int) -> tuple[int, int]:
    """The scale as two integers, refused unless it is exact and positive."""
    if isinstance(scale, bool) or not isinstance(scale, int | Fraction):
        raise InvalidTask(f"a noise scale must be an exact Fraction or integer; got {scale!r}.")
    numerator, denominator = scale.numerator, scale.denominator
    if numerator <= 0:
        raise InvalidTask(f"a noise scale must be above zero; got {scale}.")
    if size < 0:
        raise InvalidTask(f"cannot draw {size} times.")
    return numerator, denominator


def _wide(numerator: int, denominator: int) -> bool:
    return numerator >= denominator << 48


def _narrow(numerator: int, denominator: int) -> Fraction:
    if _wide(numerator, denominator):
        raise InvalidTask("noise of a scale from 2^48 on does not fit 64-bit arrays; draw it as Python integers.")
    return Fraction(numerator, denominator)


class _Words(ABC):
    """The algorithms over a stream of words; each source only says which stream."""

    @abstractmethod
    def _stream(self) -> Stream: ...

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        """``size`` integers with P(x) proportional to exp(-|x| / scale), exactly, for any rational scale.

        *Privacy:* an integer query of L1 sensitivity S plus this noise is S/scale-differentially private.
        """
        return self._draw(exponential(), *_ratio(scale, size), size)

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        """``size`` integers round(sigma Z), exactly, for any rational sigma.

        *Privacy:* an integer query of L2 sensitivity S plus this noise is S/sigma-Gaussian-private.
        """
        return self._draw(normal(), *_ratio(sigma, size), size)

    def laplace_array(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Like ``laplace``, as an int64 array; the scale must be below 2^48."""
        return self._draw_array(exponential(), *_ratio(scale, size), size)

    def normal_array(self, sigma: Fraction, size: int) -> NDArray[np.int64]:
        """Like ``normal``, as an int64 array; sigma must be below 2^48."""
        return self._draw_array(normal(), *_ratio(sigma, size), size)

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""
        return self._stream().below(bound)

    def bits(self, size: int) -> NDArray[np.uint64]:
        """``size`` uniform 64-bit words, each handed out once."""
        return self._stream().words(size)

    def _draw(self, law: Law, numerator: int, denominator: int, size: int) -> list[int]:
        if size > _FEW and not _wide(numerator, denominator):
            values: list[int] = self._draw_array(law, numerator, denominator, size).tolist()
            return values
        word = self._stream().word
        return [draw(law, word, numerator, denominator) for _ in range(size)]

    def _draw_array(self, law: Law, numerator: int, denominator: int, size: int) -> NDArray[np.int64]:
        from steelyard.noise._bulk import draw_array

        return draw_array(law, self._stream(), _narrow(numerator, denominator), size)


class ExactNoise(_Words):
    """Exact integer noise from the operating system's entropy; every thread and process has words of its own.

    >>> noise = ExactNoise()
    >>> len(noise.laplace(Fraction(10**6), 3))
    3
    """

    name = "steelyard-exact-1"
    secure = True

    def _stream(self) -> Stream:
        return current()

    def __repr__(self) -> str:
        return "ExactNoise()"


class TestNoise(_Words):
    """The same algorithms from a seed: repeatable, and therefore no protection at all.

    >>> TestNoise(1).laplace(Fraction(5), 4) == TestNoise(1).laplace(Fraction(5), 4)
    True
    """

    __test__ = False
    name = "test noise: no guarantee"
    secure = False

    def __init__(self, seed: int | str = 0) -> None:
        self.seed = seed
        self._seeded = SeededStream(sha256(f"steelyard test noise {seed!r}".encode()).digest())

    def _stream(self) -> Stream:
        return self._seeded

    def __repr__(self) -> str:
        return f"TestNoise({self.seed!r})"
