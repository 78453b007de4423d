"""What the noise tests share: exact laws, enumeration of all tapes of small words, and mutated copies of a module."""

from __future__ import annotations

import inspect
import math
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Outcome = TypeVar("Outcome", bound=Hashable)
Word = Callable[[], int]


class NeedsMore(Exception):
    """The tape ended before the outcome was decided."""


def enumerate_tapes(
    experiment: Callable[[Word], Outcome], width: int, depth: int
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """The exact probability of each outcome over all tapes of at most ``depth`` words, and what stayed undecided."""
    decided: dict[Outcome, Fraction] = defaultdict(Fraction)
    undecided = Fraction(0)
    pending: list[tuple[int, ...]] = [()]
    while pending:
        tape = pending.pop()
        try:
            outcome = experiment(_reader(tape))
        except NeedsMore:
            if len(tape) == depth:
                undecided += Fraction(1, 1 << width * depth)
            else:
                pending += [(*tape, word) for word in range(1 << width)]
        else:
            decided[outcome] += Fraction(1, 1 << width * len(tape))
    return decided, undecided


def _reader(tape: tuple[int, ...]) -> Word:
    words: Iterator[int] = iter(tape)

    def word() -> int:
        for value in words:
            return value
        raise NeedsMore

    return word


def mutant(module: types.ModuleType, old: str, new: str, **replaced: object) -> types.ModuleType:
    """A copy of the module with one piece of its source changed: the broken twin that a check must catch."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times in {module.__name__}"
    twin = types.ModuleType(f"{module.__name__}_mutant")
    twin.__dict__.update(replaced)
    sys.modules[twin.__name__] = twin  # dataclasses look their module up
    try:
        exec(compile(source.replace(old, new), f"<mutant of {module.__name__}>", "exec"), twin.__dict__)  # noqa: S102
    finally:
        del sys.modules[twin.__name__]
    twin.__dict__.update(replaced)
    return twin


def laplace_cdf(n: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """P(X <= n) of the discrete Laplace law."""
    q = math.exp(-1 / scale)
    tail = np.exp(-np.abs(np.where(n < 0, n, n + 1)) / scale) / (1 + q)
    return np.where(n < 0, tail, 1 - tail)


def normal_cdf(n: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """P(X <= n) of the rounded normal law."""
    cdf: NDArray[np.float64] = stats.norm.cdf((n + 0.5) / sigma)
    return cdf


def p_value(draws: NDArray[np.int64], law: str, scale: float, bins: int = 100) -> float:
    """The chi-square p-value of integer draws against the exact law, in about equally likely bins."""
    levels = np.linspace(0, 1, bins + 1)[1:-1]
    if law == "laplace":
        cuts = np.unique(np.floor(stats.laplace.ppf(levels, scale=scale)))
        cdf = laplace_cdf(cuts, scale)
    else:
        cuts = np.unique(np.floor(stats.norm.ppf(levels, scale=scale)))
        cdf = normal_cdf(cuts, scale)
    mass = np.diff(np.concatenate([[0.0], cdf, [1.0]]))
    seen = np.bincount(np.searchsorted(cuts, draws, side="left"), minlength=len(mass))
    expected = mass * len(draws)
    seen, expected = _pooled(seen, expected)
    if len(seen) < 2:
        raise ValueError("too few bins for a chi-square test")
    return float(stats.chisquare(seen, expected * (seen.sum() / expected.sum())).pvalue)


def _pooled(
    seen: NDArray[np.int64], expected: NDArray[np.float64], least: float = 10.0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    groups_seen, groups_expected, count, weight = [], [], 0, 0.0
    for s, e in zip(seen.tolist(), expected.tolist(), strict=True):
        count, weight = count + s, weight + e
        if weight >= least:
            groups_seen.append(count)
            groups_expected.append(weight)
            count, weight = 0, 0.0
    if groups_seen:
        groups_seen[-1] += count
        groups_expected[-1] += weight
    return np.array(groups_seen), np.array(groups_expected)
