"""Pure epsilon: what it costs on a Gaussian account.

Every epsilon-DP mechanism is a garbling of one randomized response, whose trade-off curve touches the normal one at
its corner (1/(1+e^epsilon), 1/(1+e^epsilon)); so mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)) is enough, and it is tight.
Law: rounded up. The cheaper zCDP price (mu = epsilon) is unsound in a sum of mu squared.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from steelyard.accounting._normal import as_decimal, digits_for, precise, upper_tail
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO

_EXACT_UP_TO = 700


@lru_cache(maxsize=4096)
def pure_to_mu(epsilon: Fraction) -> int:
    """The micro-mu that any epsilon-DP step costs on a Gaussian account, rounded up.

    >>> pure_to_mu(Fraction(1))
    1232036
    """
    if epsilon < 0:
        raise InvalidTask(f"epsilon cannot be negative; got {float(epsilon)!r}.")
    # tail(x) <= exp(-x^2/2)/2 <= 1/(1+e^epsilon) at x = sqrt(2 epsilon): this end is always enough.
    high = math.isqrt(math.ceil(8 * epsilon * MICRO * MICRO)) + 1
    if epsilon == 0 or epsilon > _EXACT_UP_TO:
        return high if epsilon else 0
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _enough(Fraction(middle, 2 * MICRO), epsilon) else (middle, high)
    return high


def range_to_mu(epsilon: Fraction) -> int:
    """The micro-mu of a step whose privacy loss lies in some interval of length epsilon, rounded up.

    Half of what an epsilon-DP step costs, or a little more: the worst such pair of laws is randomized response at epsilon / 2
    (docs/proofs/bounded_range.md). An exponential choice is such a step; Laplace noise and randomized response are not.

    >>> range_to_mu(Fraction(1))
    623893
    """
    return pure_to_mu(epsilon / 2)


def _enough(half_mu: Fraction, epsilon: Fraction) -> bool:
    """Whether P[Z > mu/2] <= 1/(1 + e^epsilon) for sure."""
    digits = digits_for(half_mu)
    tail = upper_tail(half_mu, digits)[1]
    with precise(digits):
        return tail * (1 + as_decimal(epsilon).exp()) * (1 + Decimal(10) ** (8 - digits)) <= 1
