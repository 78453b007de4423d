"""``Mean``, ``Variance`` and ``Std``: what a column's values are around and how far they spread, with bounds on every value.

A row counts once, a unit for at most ``cap`` rows; a unit with more is weighed down as a whole (each of its rows by cap / rows), so nothing
depends on which rows came first. Mean: one noisy pair (how far values lie above the lower and below the upper bound) gives sum and count at one
price (Kulesza, Suresh and Wang 2024). Variance: the three products of these two distances do so with the squares. Bounds are public or
bought (law 6). Proofs: mean.md, variance.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from steelyard.bounding._amounts import FINENESS, MOST, Spend
from steelyard.bounding._asking import Integers, Single
from steelyard.bounding._bought import Bought, ReadyValues, check_range, facts
from steelyard.bounding._fieller import coarse, floats, reach, share_ends, spread_reaches, variance_ends
from steelyard.bounding._grouping import By, Grouping, PublicKeys, keep_exact, keep_keys
from steelyard.bounding._row_caps import FixedRows, RowCap, RowRule, check_cap
from steelyard.bounding._serving import Serving
from steelyard.bounding._value_bounds import RATIO, Bound, ValueBounds
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome
from steelyard.privacy import Number, Terms
from steelyard.tables import LIMIT, WIDEST_SQUARED, Bounded, Capped, Joint, Quantity, Schema, Table, moments, sides

_WIDEST = Fraction(10) ** 150
_FAR = Fraction(1, 10)
"""How far the means of heavy units are taken to lie from the others', of the range, where a cap is chosen: an assumption."""


@dataclass(frozen=True)
class _OfValues(Single):
    """What means and variances share: a column, bounds of its values, a cap on a unit's rows, keys and a price."""

    column: str
    epsilon: Number | None = None
    lower: Bound = 0
    upper: Bound = 1
    cap: RowCap = "auto"
    by: By | None = None
    keys: PublicKeys | None = None
    mu: Number | None = None
    max_keys: int | None = None
    others: bool = False

    def __post_init__(self) -> None:
        check_cap(self.cap)
        keep_keys(self)
        keep_exact(self, "epsilon", "mu", "lower", "upper")
        _ = self._bounds

    def _request(self, kind: type[_Parts], schema: Schema, terms: Terms) -> Bought:
        """What is bought first, then one noisy vector. The error falls with the number of rows, so it is not known before."""
        groups, spend = facts(self, schema, terms)
        grouping = groups.grouping
        if grouping.size * kind.count > 2 * MOST:
            raise InvalidTask(
                f"at most {2 * MOST // kind.count:,} keys can be asked for at once here; got {grouping.size:,}."
            )
        values, left = self._bounds.parts(spend)
        serving = Serving(grouping.size, weight=1 / float(_FAR))
        rule = RowRule.read(self.cap, self.column, grouping, terms, serving)
        look, left = rule.parts(left)
        fixed, ball = rule.fixed(left), _ball(self._bounds, left)
        if fixed is None:
            rule = replace(rule, most=min(rule.most, ball))
            mechanism = left.mechanism(ball)
        else:
            mechanism = left.mechanism(int(fixed.cap) * kind.steps(ball, int(fixed.cap)) ** kind.degree)
        parts = kind(self.column, ball, mechanism)
        return Bought(
            groups, self._bounds, values, rule, look, left, fixed, parts, [mechanism.event], None, grouping.present
        )

    @lazy
    def _bounds(self) -> ValueBounds:
        found = ValueBounds.read(self.lower, self.upper)
        if not found.private:
            check_range(self.lower, self.upper)
        return found


@dataclass(frozen=True)
class Mean(_OfValues):
    """The mean of a column whose values lie between bounds; values outside are moved to the nearest bound.

    Bounds are public numbers, or "auto": bought inside the same epsilon; so is ``cap``, the most rows one unit counts for, unless it is a
    number or a profile of rows. *Privacy:* one unit moves the pair of sums by at most ``cap`` rows' worth in L1 norm. *Accuracy:* ``error`` is
    calibrated from the released count, by key for each its own; ``release.low`` and ``high`` hold the mean of values moved to the bounds and
    rows weighed by the cap in 95 % of draws (*proved*). *Cost:* exactly ``epsilon``. Rows without a finite value are left out.
    """

    def request(self, schema: Schema, terms: Terms) -> Bought:
        """What is bought first, then one noisy pair, or one for each key."""
        return self._request(_Pairs, schema, terms)


@dataclass(frozen=True)
class Variance(_OfValues):
    """The variance of a column whose values lie between bounds: the mean squared distance from the mean, over all rows.

    Bounds, ``cap`` and keys are as for ``Mean``. *Privacy:* one unit moves the three sums behind it by at most ``cap`` rows' worth in L1 norm.
    *Accuracy:* ``release.low`` and ``high`` hold the variance of values moved to the bounds and rows weighed by the cap in 95 % of draws
    (*proved*), by key for each its own. *Cost:* exactly ``epsilon``. Rows without a finite value are left out.

    >>> Variance("amount", epsilon=1, upper=100, cap=3).upper
    Fraction(100, 1)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self._bounds.lower, self._bounds.upper
        if low is not None and high is not None and high - low > _WIDEST:
            raise InvalidTask("a variance needs bounds at most 1e150 apart, since it is a square; choose another unit.")

    def request(self, schema: Schema, terms: Terms) -> Bought:
        """What is bought first, then one noisy triple, or one for each key."""
        return self._request(_Triples, schema, terms)


@dataclass(frozen=True)
class Std(_OfValues):
    """The standard deviation of a column whose values lie between bounds: the root of its ``Variance``, at the same price.

    *Privacy, accuracy, cost:* those of ``Variance``; the interval is the root of its own (*proved*).
    """

    def request(self, schema: Schema, terms: Terms) -> Bought:
        """What is bought first, then one noisy triple, or one for each key."""
        return self._request(_Roots, schema, terms)


def _ball(bounds: ValueBounds, spend: Spend) -> int:
    """The most grid steps between the bounds, times rows, that a unit may count for; the same whatever bounds are bought."""
    ratio = Fraction(1, RATIO)
    if bounds.lower is not None and bounds.upper is not None:
        ratio = (bounds.upper - bounds.lower) / max(abs(bounds.lower), abs(bounds.upper))
    return max(1, min(spend.micro * FINENESS, math.floor(LIMIT // 2 * ratio), 2**50))


def grid_steps(task: Variance | Std, spend: Spend, cap: int) -> int:
    """Grid steps between the bounds of a variance at this price, where the cap is known."""
    return _Triples.steps(_ball(ValueBounds.read(task.lower, task.upper), spend), cap)


@dataclass(frozen=True)
class _Parts:
    """Sums over all rows of ``count`` products of ``degree`` distances from the bounds, on a grid of so many steps between them as ``ball`` allows."""

    column: str
    ball: int
    mechanism: Laplace | Gaussian
    degree: ClassVar[int]
    count: ClassVar[int]

    @classmethod
    def steps(cls, ball: int, cap: int) -> int:
        """Grid steps between the bounds."""
        return max(1, ball // cap) if cls.degree == 1 else min(max(1, math.isqrt(ball // cap)), WIDEST_SQUARED)

    def balls(self, bounds: ValueBounds, rows: FixedRows) -> Sequence[Bounded | Capped | Joint]:
        """The products of a unit's rows share one ball."""
        lower, upper, cap = bounds.lower or Fraction(0), bounds.upper or Fraction(0), int(rows.cap)
        steps = self.steps(self.ball, cap)
        step = (upper - lower) / steps
        low = math.floor(lower / step)
        made = sides if self.degree == 1 else moments
        return [made(Quantity(self.column, step), low, low + steps, cap * steps**self.degree)]

    def told(self, known: ReadyValues, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Noise all sums, key by key, and say what they mean."""
        noised = self.mechanism.release([each for key in zip(*found, strict=True) for each in key], noise)
        sums = [noised[part :: self.count] for part in range(self.count)]
        steps, bounds = self.steps(self.ball, int(known.rows.cap)), known.bounds
        lower, upper = float(bounds.lower or 0), float(bounds.upper or 0)
        wholes = [sum(key) for key in zip(*sums, strict=True)]
        values, error = self._meant(sums, lower, upper - lower, steps)
        counts = [round(max(whole / steps**self.degree, 0.0)) for whole in wholes]
        point: dict[str, Any] = {"cap": int(known.rows.cap), "rows": counts if grouping.by else counts[0]}
        point |= {"lower": lower, "upper": upper}
        each = error.each if grouping.by else ()
        return Outcome(grouping.label(values), replace(error, each=each, note=known.rows.told, of=known.of), point)

    def _meant(self, sums: Integers, lower: float, span: float, steps: int) -> tuple[list[float], Error]:
        """The values and their errors; of the noised sums alone."""
        raise NotImplementedError


class _Pairs(_Parts):
    """How far all values lie above the lower and below the upper bound: their share is where the mean lies."""

    degree, count = 1, 2

    def _meant(self, sums: Integers, lower: float, span: float, steps: int) -> tuple[list[float], Error]:
        above, below = map(floats, sums)
        whole = above + below
        share = np.where(whole > 0, np.clip(above / np.where(whole > 0, whole, 1.0), 0.0, 1.0), 0.5)
        low, high = share_ends(above, below, reach(self.mechanism, 2))
        slack = coarse(steps)
        ends = [
            lower + span * np.clip(low - slack, 0.0, 1.0),
            lower + span * np.clip(high + slack, 0.0, 1.0),
        ]
        spread = span * _deviation(self.mechanism) * np.hypot(share, 1 - share) / np.maximum(whole, 1)
        usual, far = (math.sqrt(2 / math.pi), 1.96) if isinstance(self.mechanism, Gaussian) else (0.75, 2.12)
        half = np.minimum(far * spread, span)
        error = Error(float(np.minimum(usual * spread, span).max()), float(half.max()), each=half.tolist())
        return (lower + span * share).tolist(), replace(
            error, ends=list(zip(*(each.tolist() for each in ends), strict=True))
        )


class _Triples(_Parts):
    """The sums of the squared distances from both bounds and of twice their product."""

    degree, count = 2, 3

    def _meant(self, sums: Integers, lower: float, span: float, steps: int) -> tuple[list[float], Error]:
        low, cross, high = map(floats, sums)
        whole = low + cross + high
        safe = np.where(whole > 0, whole, 1.0)
        mean = (high + cross / 2) / safe
        found = np.where(whole > 0, np.clip(high / safe - mean**2, 0.0, 0.25), 0.125)
        floor, roof = variance_ends(low, cross, high, *spread_reaches(self.mechanism))
        floor, roof = np.clip(floor - coarse(steps), 0.0, 0.25), np.clip(roof + coarse(steps), 0.0, 0.25)
        scaled = [
            self._unit(each) * self._span(span) for each in (found, np.minimum(floor, found), np.maximum(roof, found))
        ]
        value, least, most = scaled
        half = np.maximum(most - value, value - least)
        error = Error(
            float(half.max()) / _HALF,
            float(half.max()),
            each=half.tolist(),
            ends=list(zip(least.tolist(), most.tolist(), strict=True)),
        )
        return value.tolist(), error

    @staticmethod
    def _unit(variance: Any) -> Any:
        return variance

    @staticmethod
    def _span(span: float) -> float:
        return span * span


class _Roots(_Triples):
    """The same, told as standard deviations."""

    @staticmethod
    def _unit(variance: Any) -> Any:
        return np.sqrt(variance)

    @staticmethod
    def _span(span: float) -> float:
        return span


_HALF = 3.0
"""How many times the usual error a half width is, about: what Laplace noise in its 95 of 100 has."""


def _deviation(mechanism: Laplace | Gaussian) -> float:
    return float(mechanism.sigma) if isinstance(mechanism, Gaussian) else math.sqrt(2) * float(mechanism.scale)
