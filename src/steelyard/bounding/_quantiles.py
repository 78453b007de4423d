"""``Quantile``: points of a public grid, each with an interval that holds the true one.

The exponential mechanism on ranks (Smith 2011; several at once as Kaplan, Schnapp and Stemmer 2022). An interval is two more choices, of bins
whose ranks lie so far below and above the wanted one that their own error cannot reach it (docs/proofs/quantile.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from steelyard.bounding._amounts import Spend, bound
from steelyard.bounding._asking import Integers, Single
from steelyard.bounding._bought import Bought, ReadyValues, check_range, counts_of, facts
from steelyard.bounding._grouping import By, Grouping, PublicKeys, keep_exact, keep_keys
from steelyard.bounding._laws import mean_noise
from steelyard.bounding._ranks import Flanks, QuantileSearch
from steelyard.bounding._row_caps import FixedRows, RowCap, RowRule, check_cap
from steelyard.bounding._serving import Serving
from steelyard.bounding._value_bounds import Bound, ValueBounds
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.noise import Noise
from steelyard.plan import Outcome
from steelyard.privacy import Number, Terms, exact
from steelyard.tables import LIMIT, Bins, Bounded, Capped, Joint, Quantity, Schema, Table

_MOST_BINS = 4096
_STEPS = 1000
_BALL = 2**30
"""What a unit weighs at most where its cap is chosen: the same whatever the cap."""

_INTERVAL = {"laplace": Fraction(2, 5), "gaussian": Fraction(1, 2)}
_LIES = Fraction(1, 2)
"""How much of a heavy unit's weight lies on the wrong side of a quantile, at worst in the mean: 2 q (1 - q)."""


@dataclass(frozen=True)
class Quantile(Single):
    """One or several quantiles of a column, as points of a public grid between ``lower`` and ``upper``.

    Bounds are public numbers, or "auto": bought inside the same epsilon; so is ``cap``, the most rows one unit counts for. *Privacy:* the
    exponential mechanism on ranks; one unit moves a rank by at most ``cap`` rows. *Accuracy:* ``error`` is in rows of rank; ``release.low``
    and ``release.high`` hold the true quantile, of rows weighed by the cap and of values between the bounds (what lies beyond is moved to
    them) to a 64th of the resolution, in 95 % of draws (*proved*), for two fifths of epsilon (half of mu); ``interval=False`` spends that on the answer. *Cost:* ``epsilon`` for all quantiles together, or a few micro below.
    """

    column: str
    epsilon: Number | None = None
    quantile: Number | Sequence[Number] = Fraction(1, 2)
    lower: Bound = 0
    upper: Bound = 1
    cap: RowCap = "auto"
    resolution: Number | None = None
    by: By | None = None
    keys: PublicKeys | None = None
    mu: Number | None = None
    interval: bool = True
    max_keys: int | None = None
    others: bool = False

    def __post_init__(self) -> None:
        check_cap(self.cap)
        keep_keys(self)
        keep_exact(self, "epsilon", "mu", "lower", "upper", "resolution")
        many = isinstance(self.quantile, list | tuple)
        asked = tuple(exact(q, "quantile") for q in (self.quantile if many else (self.quantile,)))  # type: ignore
        if not asked or any(not 0 < q < 1 for q in asked) or list(asked) != sorted(set(asked)):
            raise InvalidTask("quantiles must lie strictly between 0 and 1, ascending, none twice.")
        object.__setattr__(self, "quantile", asked if many else asked[0])
        if not self._bounds.private:
            _ = self._grid(self._bounds)
        elif self.resolution is not None:
            raise InvalidTask(
                "resolution belongs to bounds that are said; bought ones have a thousand steps between them."
            )

    def request(self, schema: Schema, terms: Terms) -> Bought:
        """What is bought first, then one choice per level of the search, then two for each interval."""
        groups, spend = facts(self, schema, terms)
        grouping = groups.grouping
        asked = self.quantile if isinstance(self.quantile, tuple) else (self.quantile,)
        quantiles = tuple(Fraction(q) for q in asked)
        candidates = _STEPS + 1 if self._bounds.private else len(self._grid(self._bounds)[1])
        values, left = self._bounds.parts(spend)
        weight = self._weight(quantiles, left, candidates)
        rule = RowRule.read(self.cap, self.column, grouping, terms, Serving(grouping.size, weight=weight))
        look, left = rule.parts(left)
        main, sides = left, None
        if self.interval:
            sides, main = left.split(_INTERVAL[left.law])
        fixed = rule.fixed(left)
        ball = None if fixed is not None else _BALL
        cap = int(fixed.cap) if fixed is not None else 1
        search = QuantileSearch(quantiles, cap, main, ball=ball)
        flanks = None if sides is None else Flanks(quantiles, cap, sides, ball=ball)
        steps = [search.event, *([] if flanks is None else [flanks.event])]
        choice = _Choice(self, search, flanks, terms)
        error = None if fixed is None else replace(search.error(candidates), note=fixed.told)
        return Bought(groups, self._bounds, values, rule, look, left, fixed, choice, steps, error, grouping.present)

    def _weight(self, quantiles: tuple[Fraction, ...], spend: Spend, candidates: int) -> float:
        """How many times the noise of a choice counts beside rows that are weighed down."""
        rows = QuantileSearch(quantiles, 1, spend).error(candidates).noise
        return max(1.0, rows / mean_noise(spend.level, spend.law) / float(_LIES))

    @lazy
    def _bounds(self) -> ValueBounds:
        found = ValueBounds.read(self.lower, self.upper)
        if not found.private:
            check_range(self.lower, self.upper)
        return found

    def _grid(self, bounds: ValueBounds) -> tuple[Fraction, tuple[int, ...]]:
        """The grid's step and the evenly spaced edges in steps; candidates are the edges."""
        lower, upper = bounds.lower or Fraction(0), bounds.upper or Fraction(0)
        wanted = (upper - lower) / _STEPS if self.resolution is None else bound(self.resolution, "resolution")
        count = math.ceil((upper - lower) / wanted)
        if count > _MOST_BINS:
            raise InvalidTask(f"resolution is too fine: at most {_MOST_BINS} steps may lie between the bounds.")
        step = wanted / 64
        low = math.floor(lower / step)
        if abs(low) + 64 * count > LIMIT // 2:
            raise InvalidTask("the bounds are too large for this resolution.")
        return step, tuple(low + 64 * i for i in range(count + 1))


@dataclass(frozen=True)
class Median(Single):
    """The median of a column: its ``Quantile`` of one half, under its own name.

    *Privacy, accuracy, cost:* those of ``Quantile``; ``release.low`` and ``high`` hold the true median in 95 % of draws (*proved*).

    >>> Median("age", epsilon=1, lower=0, upper=110, cap=1).as_quantile.quantile
    Fraction(1, 2)
    """

    column: str
    epsilon: Number | None = None
    lower: Bound = 0
    upper: Bound = 1
    cap: RowCap = "auto"
    resolution: Number | None = None
    by: By | None = None
    keys: PublicKeys | None = None
    mu: Number | None = None
    interval: bool = True
    max_keys: int | None = None
    others: bool = False

    def __post_init__(self) -> None:
        found = self.as_quantile
        for each in fields(self):
            object.__setattr__(self, each.name, getattr(found, each.name))

    @property
    def as_quantile(self) -> Quantile:
        """The same as a quantile."""
        return Quantile(quantile=Fraction(1, 2), **{each.name: getattr(self, each.name) for each in fields(self)})

    def request(self, schema: Schema, terms: Terms) -> Bought:
        """Everything that is known before a row is read."""
        return self.as_quantile.request(schema, terms)


@dataclass(frozen=True)
class _Choice:
    """The search and its intervals, once bounds and cap are known."""

    task: Quantile
    search: QuantileSearch
    flanks: Flanks | None
    terms: Terms

    def balls(self, bounds: ValueBounds, rows: FixedRows) -> Sequence[Bounded | Capped | Joint]:
        """Nothing of a common pass: rows are read by bins."""
        return ()

    def told(self, known: ReadyValues, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Count by bins, choose the quantiles, choose what surely lies below and above each."""
        rows = known.rows
        step, edges = self.task._grid(known.bounds)
        search = self.search.at(int(rows.cap))
        flanks = None if self.flanks is None else self.flanks.at(int(rows.cap))
        part = Capped(Quantity(None, Fraction(1, search.weight)), search.cap * search.weight)
        tables = counts_of(grouping, table, self.terms.unit, part, Bins(Quantity(self.task.column, step), edges))
        places = [search.run(counts, noise) for counts in tables]
        chosen_values = [[float(edges[place] * step) for place in chosen] for chosen in places]
        around: list[tuple[float, float]] = []
        if flanks is not None:
            for counts, chosen in zip(tables, places, strict=True):
                ends = flanks.run(counts, noise)
                around += [
                    (float(edges[min(low, at)] * step), float(edges[max(high, at)] * step))
                    for (low, high), at in zip(ends, chosen, strict=True)
                ]
        values = chosen_values if isinstance(self.task.quantile, tuple) else [each[0] for each in chosen_values]
        point, told = {"cap": int(rows.cap), "resolution": float(64 * step)}, [rows.told] if rows.told else []
        if self.task._bounds.private:
            lower, upper = float(edges[0] * step), float(edges[-1] * step)
            point |= {"lower": lower, "upper": upper}
            told.append(f"values below {lower:.6g} and above {upper:.6g}, which were bought, count as these")
        of = known.of if around else ""
        error = replace(search.error(len(edges)), ends=around, note="; ".join(told), of=of)
        return Outcome(grouping.label(values), error, point)
