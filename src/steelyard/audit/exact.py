"""Exact audits: the privacy loss of something that can be written down or enumerated whole.

A matrix of integer weights has an exact loss, a fraction. A program on a tape has its loss between two bounds, which
meet as the part not followed shrinks. Prefer this to sampling wherever it applies: it sees every outcome, however
rare, and a flaw of any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import permutations
from typing import Any

from steelyard.audit.claims import Epsilon
from steelyard.audit.tapes import ONE, Outcomes, law_of
from steelyard.audit.verdict import Check
from steelyard.errors import InvalidTask

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


def matrix_check(weights: Sequence[Sequence[int]], claim: Epsilon, name: str = "exact matrix") -> Check:
    """Whether every two rows of a matrix of integer weights keep the claim."""
    ratio = largest_ratio(weights)
    loss = math.inf if ratio is None else math.log(ratio)
    text = f"claimed {claim}; largest ratio {ratio if ratio is not None else 'infinite'}, epsilon {loss:.9g}"
    return Check(name, loss <= claim.value + _ROUNDING, text)


def between(left: Outcomes, right: Outcomes, delta: float = 0.0) -> Bracket:
    """The loss between two enumerated laws, both directions."""
    sides = [_one_way(left, right, delta), _one_way(right, left, delta)]
    return Bracket(max(low for low, _ in sides), max(high for _, high in sides))


def _one_way(left: Outcomes, right: Outcomes, delta: float) -> tuple[float, float]:
    """Events that collect the outcomes of largest ratio; the best of them bounds the loss from below."""
    every = {*left.reached, *right.reached}
    pairs = [(left.reached.get(o, 0), right.reached.get(o, 0)) for o in every]
    pairs.sort(key=lambda pair: math.inf if pair[1] == 0 else pair[0] / pair[1], reverse=True)
    claim, low, p, q = Epsilon(0.0, delta), 0.0, 0, 0
    for here, there in pairs:
        p, q = p + here, q + there
        low = max(
            low, claim.shown(p / ONE, (q + right.rest) / ONE), claim.shown(here / ONE, (there + right.rest) / ONE)
        )
    high = max((claim.shown((here + left.rest) / ONE, there / ONE) for here, there in pairs), default=0.0)
    return low, max(low, high)


def enumerated(
    mechanism: Callable[[Any, Any], Hashable], inputs: Sequence[Any], *, delta: float = 0.0, **limits: Any
) -> Bracket:
    """The loss of ``mechanism(input, noise)`` over every ordered pair of the given mutually neighbouring inputs.

    >>> from steelyard.mechanisms import Laplace
    >>> laplace = Laplace(1, Fraction(2))
    >>> round(enumerated(lambda x, noise: laplace.release([x], noise)[0] >= 1, [0, 1]).low, 6)
    0.5
    """
    laws = [law_of(partial(mechanism, given), **limits) for given in inputs]
    found = [between(left, right, delta) for left, right in permutations(laws, 2)]
    return Bracket(max(b.low for b in found), max(b.high for b in found))
