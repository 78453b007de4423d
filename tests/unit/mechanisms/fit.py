"""Does a sample of integers fit a law (one chi-squared test, at one chance in a million of a false alarm), and how far apart are two laws?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from scipy import stats
from scipy.special import ndtri


def fits(sample: Sequence[Hashable], law: Callable[[Any], float], support: Iterable[Hashable]) -> bool:
    """Whether the sample could come from the law; outcomes expected fewer than 8 times are taken together."""
    counts = Counter(sample)
    expected = {x: len(sample) * law(x) for x in support}
    often = [x for x, e in expected.items() if e >= 8]
    rest = len(sample) - sum(expected[x] for x in often)
    seen = [counts[x] for x in often] + [len(sample) - sum(counts[x] for x in often)]
    wanted = [expected[x] for x in often] + [max(rest, 1e-9)]
    if seen[-1] == 0 and rest < 1e-3:
        seen.pop(), wanted.pop()
    scale = len(sample) / sum(wanted)
    return bool(stats.chisquare(seen, [w * scale for w in wanted]).pvalue > 1e-6)


def needed_mu(law: Sequence[float], other: Sequence[float]) -> float:
    """The least mu for which two finite laws are no easier told apart than N(0, 1) and N(mu, 1).

    The corners of their trade-off curve are sums over the outcomes in the order of their ratio; the normal curve is convex, so it lies
    below the whole curve if it lies below every corner.
    """
    order = sorted(range(len(law)), key=lambda i: law[i] / other[i], reverse=True)
    corners = [
        (math.fsum(other[i] for i in order[:k]), math.fsum(law[i] for i in order[k:])) for k in range(1, len(order))
    ]
    return max((-float(ndtri(x) + ndtri(y)) for x, y in corners), default=0.0)
