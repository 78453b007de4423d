"""Exact audits: the privacy loss of something that can be written down or enumerated whole.

A matrix of integer weights has an exact loss, a fraction. A program is enumerated on a tape that hands out choices: where it
asks for more than the tape holds the run is given up, and it is run again once per possible answer, the likeliest branch first.
Every probability is rounded down, so what was reached bounds each outcome's probability from below and what was not (a loop
that has not ended, a tail) says how much more it can be; the two bounds of the loss meet as that part shrinks. ``TapeNoise``
is a noise source on such a tape, so a mechanism is enumerated as it is, without a second version of it.
Prefer this to sampling wherever it applies: it sees every outcome, however rare, and a flaw of any size.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from steelyard.audit._verdict import Check, Epsilon
from steelyard.errors import InvalidTask, OurBug

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Bracket:
    """The exact loss between two neighbours lies in [low, high]."""

    low: float
    high: float

    def check(self, name: str, claim: Epsilon) -> Check:
        """Broken when even the low end is above the claim."""
        size = f"exactly {self.low:.6g}" if self.high - self.low < 1e-6 else f"{self.low:.6g} to {self.high:.6g}"
        return Check(name, self.low <= claim.value + _ROUNDING, f"claimed {claim}; enumerated: {size}")


def largest_ratio(weights: Sequence[Sequence[int]]) -> Fraction | None:
    """The largest ratio of two rows' probabilities of one output, exactly; None when it is infinite.

    >>> largest_ratio([[3, 1], [1, 3]])
    Fraction(3, 1)
    """
    totals = [sum(row) for row in weights]
    if not totals or min(totals) <= 0 or any(weight < 0 for row in weights for weight in row):
        raise InvalidTask("a finite mechanism needs rows of weights that are not negative and not all zero.")
    worst = Fraction(1)
    for column in zip(*weights, strict=True):
        shares = [Fraction(weight, total) for weight, total in zip(column, totals, strict=True)]
        if max(shares) == 0:
            continue
        if min(shares) == 0:
            return None
        worst = max(worst, max(shares) / min(shares))
    return worst


def matrix_check(weights: Sequence[Sequence[int]], claim: Epsilon) -> Check:
    """Whether every two rows of a matrix of integer weights keep the claim."""
    ratio = largest_ratio(weights)
    loss = math.inf if ratio is None else math.log(ratio)
    text = f"claimed {claim}; largest ratio {ratio if ratio is not None else 'infinite'}, epsilon {loss:.9g}"
    return Check("exact matrix", loss <= claim.value + _ROUNDING, text)


def between(left: Outcomes, right: Outcomes) -> Bracket:
    """The loss between two enumerated laws, both directions."""
    sides = [_one_way(left, right), _one_way(right, left)]
    return Bracket(max(low for low, _ in sides), max(high for _, high in sides))


def _one_way(left: Outcomes, right: Outcomes) -> tuple[float, float]:
    """Events that collect the outcomes of largest ratio; the best of them bounds the loss from below."""
    every = {*left.reached, *right.reached}
    pairs = [(left.reached.get(o, 0), right.reached.get(o, 0)) for o in every]
    pairs.sort(key=lambda pair: math.inf if pair[1] == 0 else pair[0] / pair[1], reverse=True)
    claim, low, p, q = Epsilon(0.0), 0.0, 0, 0
    for here, there in pairs:
        p, q = p + here, q + there
        low = max(
            low, claim.shown(p / ONE, (q + right.rest) / ONE), claim.shown(here / ONE, (there + right.rest) / ONE)
        )
    high = max((claim.shown((here + left.rest) / ONE, there / ONE) for here, there in pairs), default=0.0)
    return low, max(low, high)


def enumerated(mechanism: Callable[[Any, Any], Hashable], inputs: Sequence[Any], **limits: Any) -> Bracket:
    """The loss of ``mechanism(input, noise)`` over every pair, in both orders, of the given mutually neighbouring inputs.

    >>> from steelyard.mechanisms import Laplace
    >>> laplace = Laplace(1, Fraction(2))
    >>> round(enumerated(lambda x, noise: laplace.release([x], noise)[0] >= 1, [0, 1]).low, 6)
    0.5
    """
    laws = [law_of(partial(mechanism, given), **limits) for given in inputs]
    found = [between(left, right) for left, right in combinations(laws, 2)]
    return Bracket(max(b.low for b in found), max(b.high for b in found))


ONE = 1 << 160
"""Probabilities are integers over this."""


class _MoreWanted(Exception):
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
            raise _MoreWanted(weights)
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
        except _MoreWanted as asked:
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
