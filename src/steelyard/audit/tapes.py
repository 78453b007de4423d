"""Every way a randomized program can go: run it again for each branch it takes, and add up what comes out.

A tape hands out choices. The program is run on a tape that is too short; where it asks for more, the tape notes the
question and the run is given up; then it is run again once per possible answer, the likeliest branch first. Every
probability is rounded down, so what was reached is a lower bound of each outcome's probability and what was not
reached (a loop that has not ended yet, a tail) bounds how much more it can be.
``TapeNoise`` is a noise source on such a tape, so a mechanism is enumerated as it is, without a second version of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from steelyard.errors import OurBug

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ONE = 1 << 160
"""Probabilities are integers over this."""


class _Asked(Exception):
    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = weights


class Tape:
    """A row of answers already fixed; the next question beyond them stops the run."""

    def __init__(self, answers: tuple[int, ...] = ()) -> None:
        self._answers = answers
        self._place = 0

    def choose(self, weights: Sequence[int]) -> int:
        """An index, drawn with these probabilities over ``ONE`` (they may add up to less: the rest is not followed)."""
        if self._place == len(self._answers):
            raise _Asked(weights)
        self._place += 1
        return self._answers[self._place - 1]

    def word(self, width: int) -> int:
        """That many fair bits as one integer, asked for one by one."""
        value = 0
        for _ in range(width):
            value = value << 1 | self.choose((ONE // 2, ONE // 2))
        return value


@dataclass(frozen=True)
class Outcomes:
    """Lower bounds of each outcome's probability, and the probability that was not followed, over ``ONE``."""

    reached: dict[Hashable, int]

    @property
    def rest(self) -> int:
        """How much more any set of outcomes may have."""
        return ONE - sum(self.reached.values())


def enumerate_tape(program: Callable[[Tape], Hashable], *, runs: int = 20_000, rest: float = 1e-12) -> Outcomes:
    """The law of a program, followed until less than ``rest`` is left or it was run ``runs`` times.

    >>> outcomes = enumerate_tape(lambda tape: tape.word(1) + tape.word(1))
    >>> {total: share / ONE for total, share in sorted(outcomes.reached.items())}
    {0: 0.25, 1: 0.5, 2: 0.25}
    """
    reached: dict[Hashable, int] = {}
    waiting: list[tuple[int, tuple[int, ...]]] = [(-ONE, ())]
    left, stop = ONE, int(rest * ONE)
    for _ in range(runs):
        if not waiting or left <= stop:
            break
        chance, answers = heapq.heappop(waiting)
        try:
            outcome = program(Tape(answers))
        except _Asked as asked:
            for index, weight in enumerate(asked.weights):
                if share := -chance * weight // ONE:
                    heapq.heappush(waiting, (-share, (*answers, index)))
            continue
        reached[outcome] = reached.get(outcome, 0) - chance
        left += chance
    return Outcomes(reached)


class TapeNoise:
    """Noise on a tape: each primitive law is one choice, its far tail left out. Protects nobody."""

    name = "tape: no guarantee"
    secure = False

    def __init__(self, tape: Tape, tail: float = 1e-14) -> None:
        self._tape = tape
        self._tail = tail

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""
        return self._tape.choose((ONE // bound,) * bound)

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        """Discrete Laplace draws, the likeliest values only."""
        weights = laplace_weights(Fraction(scale), self._tail)
        return [_signed(self._tape.choose(weights)) for _ in range(size)]

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        """Not offered: Gaussian noise is audited by sampling."""
        raise OurBug("a tape enumerates Laplace and uniform draws only.")

    def bits(self, size: int) -> NDArray[np.uint64]:
        """Not offered: 2^64 branches cannot be followed."""
        raise OurBug("a tape enumerates Laplace and uniform draws only.")

    def laplace_array(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """The same draws as an array."""
        import numpy as np

        return np.array(self.laplace(scale, size), dtype=np.int64)

    def normal_array(self, sigma: Fraction, size: int) -> NDArray[np.int64]:
        """Not offered."""
        raise OurBug("a tape enumerates Laplace and uniform draws only.")


@cache
def laplace_weights(scale: Fraction, tail: float) -> tuple[int, ...]:
    """Lower bounds of P(0), P(1), P(-1), P(2), … over ``ONE``, until less than ``tail`` is left."""
    with localcontext() as context:
        context.prec = 80
        q = (Decimal(-scale.denominator) / Decimal(scale.numerator)).exp()
        weights: list[int] = []
        share, left = (1 - q) / (1 + q), Decimal(1)
        while left > Decimal(tail):
            weights += [int(share * ONE) - 1] * (1 if not weights else 2)
            left -= share if len(weights) == 1 else 2 * share
            share *= q
    return tuple(max(0, weight) for weight in weights)


def _signed(index: int) -> int:
    return (index + 1) // 2 if index % 2 else -(index // 2)


def law_of(mechanism: Callable[[Any], Hashable], **limits: Any) -> Outcomes:
    """The law of a mechanism given as a function of its noise."""
    return enumerate_tape(lambda tape: mechanism(TapeNoise(tape)), **limits)
