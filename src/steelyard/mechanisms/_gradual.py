"""Gradual release: the same integers again and again with less noise, paying only for the best of them.

Laplace path: noise of scale T' is noise of scale T < T' plus an independent part that is zero with a known probability.
Read backwards, that refines a release using only it and the data: nothing secret is kept between steps, and earlier
releases are post-processing of the last (Koufogiannis, Han and Pappas 2017; the discrete law is derived in the proof).
Law: a Laplace path belongs to one snapshot of the data. One entry whose level rises on a pure account; charged at its
highest level up front on a Gaussian one, where topping up is unsound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask, OurBug
from steelyard.mechanisms._coins import exp_coin, geometric, two_sided
from steelyard.mechanisms._integers import check_scale, check_sensitivity, saturate
from steelyard.mechanisms._observe import show
from steelyard.privacy import Event, Neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.mechanisms._gaussian import Gaussian
    from steelyard.noise import Noise

ROOM = 2**62
"""Integers below this take any noise of sigma below 2^48 without leaving 64 bits."""


@dataclass(frozen=True)
class LaplacePath:
    """Releases at falling scales; all of them together cost sensitivity over the last scale used.

    >>> LaplacePath(1, (Fraction(8), Fraction(2))).epsilon_at(1)
    Fraction(1, 2)
    """

    sensitivity: int
    scales: tuple[Fraction, ...]
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        for scale in self.scales:
            check_scale(scale)
        if not self.scales or any(b >= a for a, b in zip(self.scales, self.scales[1:], strict=False)):
            raise InvalidTask("a path needs at least one scale, each smaller than the one before.")

    def epsilon_at(self, step: int) -> Fraction:
        """The exact pure epsilon of all releases up to and including this step."""
        return self.sensitivity / self.scales[step]

    def event_at(self, step: int) -> Event:
        """The event of the path up to this step: the level to raise the one entry of a pure account to."""
        return Event.of("laplace_path", self.neighbours, sensitivity=self.sensitivity, scale=self.scales[step])

    @property
    def event(self) -> Event:
        """The event of the whole path, at its highest level."""
        return self.event_at(-1)

    def release(self, values: Sequence[int], noise: Noise) -> list[int]:
        """The first, noisiest release; charge the level of step 0 before it."""
        show(self.event_at(0), values, noise)
        return [saturate(value) + two_sided(self.scales[0], noise) for value in values]

    def refine(self, values: Sequence[int], released: Sequence[int], step: int, noise: Noise) -> list[int]:
        """The release of this step, given the one of the step before and the same values.

        *Privacy:* steps 0 to ``step`` together have the level of ``step``; raise the entry to it first.
        """
        if not 1 <= step < len(self.scales) or len(values) != len(released):
            raise OurBug("a path is refined one declared step at a time, with as many values as before.")
        show(self.event_at(step), values, noise)
        coarse, fine = self.scales[step - 1], self.scales[step]
        held = [saturate(value) for value in values]
        return [v + refined(int(old) - v, coarse, fine, noise) for v, old in zip(held, released, strict=True)]


def refined(old: int, coarse: Fraction, fine: Fraction, noise: Noise) -> int:
    """Noise of scale ``fine``, given that adding its independent part made the coarse noise ``old``.

    Either the part was zero, or the noise x has law proportional to exp(-|x|/fine - |old-x|/coarse).
    """
    if kept(old, coarse, fine, noise):
        return old
    while True:
        draw = two_sided(1 / (1 / fine - 1 / coarse), noise)
        if exp_coin((abs(draw) + abs(old - draw) - abs(old)) / coarse, noise):
            return draw


def kept(old: int, coarse: Fraction, fine: Fraction, noise: Noise) -> bool:
    """True with the exact chance that the independent part was zero.

    With q = exp(-1/fine) < p = exp(-1/coarse) it is (1 - p^2)/(1 - q^2) (q/p)^(|old|+1).
    """
    return exp_coin((1 / fine - 1 / coarse) * (abs(old) + 1), noise) and ratio_coin(coarse / 2, fine / 2, noise)


def ratio_coin(coarse: Fraction, fine: Fraction, noise: Noise) -> bool:
    """True with probability exactly (1 - exp(-1/coarse)) / (1 - exp(-1/fine)).

    With coarse/fine = m/n in lowest terms and z = exp(-1/(n coarse)) it is (1 - z^n)/(1 - z^m): the chance that a
    geometric variable of ratio z, taken modulo m, is below n.
    """
    ratio = coarse / fine
    draw = geometric(ratio.denominator * coarse, noise)
    return draw % ratio.numerator < ratio.denominator


def release_array(step: Gaussian, values: NDArray[Any], noise: Noise) -> NDArray[Any]:
    """What ``step.release`` does to a list, done to an array: 64-bit where the type and sigma allow, else Python integers.

    *Privacy:* that of ``step``. Integers are held within 2^62 first, which moves no two further apart.
    """
    import numpy as np

    if values.dtype != np.int64 or step.sigma >= 2**48:
        return np.array(step.release(values.tolist(), noise), dtype=object)
    show(step.event, values.tolist() if noise.secure is False else (), noise)
    noised: NDArray[Any] = np.clip(values, -ROOM, ROOM) + noise.normal_array(step.sigma, len(values))
    return noised
