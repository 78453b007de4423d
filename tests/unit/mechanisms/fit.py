"""Does a sample of integers fit a law? One chi-squared test, at one chance in a million of a false alarm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from scipy import stats


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
