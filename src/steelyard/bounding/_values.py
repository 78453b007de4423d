"""``Mean``, ``Quantile`` and ``Histogram``: what the values of a column look like, with bounds on every value.

A row counts once, a unit for at most ``cap`` rows; a unit with more is weighed down as a whole (each of its rows by
cap / rows), so nothing depends on which rows came first. Mean: one noisy pair (how far values lie above the lower
and below the upper bound) gives sum and count at one price (Kulesza, Suresh and Wang 2024). Quantile: the exponential
mechanism on a public grid (Smith 2011; several at once as Kaplan, Schnapp and Stemmer 2022). Proofs: mean.md,
quantile.md. Bounds and grids are public (law 6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from steelyard.accounting import composed
from steelyard.bounding._amounts import FINENESS, Amount, Spend, bound, check_unit, noise_error, norm_of
from steelyard.bounding._grouping import Grouping, keep_exact, keep_keys
from steelyard.bounding._ranks import QuantileSearch
from steelyard.bounding._trees import Tree
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.privacy import Number, Terms, Unit, exact
from steelyard.release import Error, Outcome
from steelyard.session import Plan
from steelyard.tables import LIMIT, Bins, Capped, Quantity, Schema, Table

_MOST_BINS = 4096
_MOST_RATIO = 2**40


def row_cap(cap: int | None, terms: Terms) -> int:
    """The public cap on one unit's rows; one where the unit is the row."""
    if terms.unit.kind == "rows":
        return 1
    if cap is None:
        raise InvalidTask("give cap=, the most rows one unit may count for; it must be public knowledge.")
    return cap


def check_cap(cap: int | None) -> None:
    """A cap is a whole number of rows."""
    if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap <= 2**30):
        raise InvalidTask(f"cap must be a whole number of rows, at least 1; got {cap!r}.")


def check_range(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    """Public bounds of one value."""
    low, high = bound(lower, "lower"), bound(upper, "upper")
    if low >= high:
        raise InvalidTask(f"upper ({upper!r}) must be above lower ({lower!r}).")
    if (high - low) * _MOST_RATIO < max(abs(low), abs(high)):
        raise InvalidTask("lower and upper lie too close together for their size; subtract a public number first.")
    return low, high


def keep_public_keys(task: Any) -> None:
    """Values are told under public keys alone."""
    if task.by is not None and task.keys is None:
        raise InvalidTask(f"by={task.by!r} needs the public list keys=[...]: which keys occur is itself private.")
    keep_keys(task)


def facts(task: Any, schema: Schema, terms: Terms) -> tuple[Grouping, int, Spend]:
    """The keys of a task, its cap on a unit's rows and its price; refuses what the schema or the account rule out."""
    check_unit(schema, terms)
    cap = row_cap(task.cap, terms)
    schema.require_numeric(task.column)
    grouping = Grouping.of(task)
    grouping.check(schema)
    return grouping, cap, Spend.read(task.epsilon, task.mu, terms)


def counts_of(grouping: Grouping, table: Table, unit: Unit, part: Capped, bins: Bins) -> list[list[int]]:
    """The bounded integers by bin, one list, or one for each key."""
    if grouping.by is None or grouping.keys is None:
        return [table.sums_by_bin(unit, part, bins)]
    return table.sums_by_key_and_bin(unit, part, bins, grouping.by, grouping.keys)


@dataclass(frozen=True)
class Mean:
    """The mean of a column whose values lie between public bounds; values outside are moved to the nearest bound.

    *Privacy:* one unit moves the pair of sums by at most ``cap`` rows' worth in L1 norm. *Accuracy:* ``error`` is
    calibrated from the released count. *Cost:* exactly ``epsilon``. Rows without a finite value are left out.
    """

    column: str
    epsilon: Number | None = None
    lower: Number = 0
    upper: Number = 1
    cap: int | None = None
    by: str | None = None
    keys: Sequence[Any] | None = None
    mu: Number | None = None

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper)
        check_cap(self.cap)
        keep_public_keys(self)
        keep_exact(self, "epsilon", "mu", "lower", "upper")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy pair, or one for each key. The error is unknown before a count is: it falls with the number of rows."""
        grouping, cap, spend = facts(self, schema, terms)
        lower, upper = check_range(self.lower, self.upper)
        finest = math.floor(LIMIT // 2 * (upper - lower) / max(abs(lower), abs(upper)))
        steps = max(1, min(spend.micro * FINENESS // cap, finest, 2**50 // cap))
        pairs = _Pairs(self.column, lower, upper, steps, cap, spend.mechanism(cap * steps), grouping, terms.unit)
        return Plan(pairs.mechanism.event, None, pairs.run, grouping.present)


@dataclass(frozen=True)
class _Pairs:
    """How far all values lie above ``lower`` and below ``upper``, on a grid of so many steps between them."""

    column: str
    lower: Fraction
    upper: Fraction
    steps: int
    cap: int
    mechanism: Laplace | Gaussian
    grouping: Grouping
    unit: Unit

    def run(self, table: Table, noise: Noise) -> Outcome:
        """Bound, add up both sides, noise, divide."""
        noised = self.mechanism.release([side for pair in self._pairs(table) for side in pair], noise)
        found = [self._divide(above, below) for above, below in zip(noised[::2], noised[1::2], strict=True)]
        errors = [self._error(share, whole) for share, whole in found]
        values = [float(self.lower) + share * float(self.upper - self.lower) for share, _ in found]
        counts = [round(max(whole / self.steps, 0.0)) for _, whole in found]
        point = {"cap": self.cap, "rows": counts[0] if self.grouping.by is None else counts}
        return Outcome(self.grouping.label(values), self._worst(errors), point)

    def _pairs(self, table: Table) -> list[tuple[int, int]]:
        step = (self.upper - self.lower) / self.steps
        low = math.floor(self.lower / step)
        asked = self.unit, Quantity(self.column, step), low, low + self.steps, self.cap * self.steps
        if self.grouping.by is None or self.grouping.keys is None:
            return [table.sums_by_side(*asked)]
        return table.sums_by_key_and_side(*asked, self.grouping.by, self.grouping.keys)

    @staticmethod
    def _divide(above: int, below: int) -> tuple[float, int]:
        """Where the mean lies between the bounds, and the noised size it was divided by."""
        whole = above + below
        return (min(max(above / whole, 0.0), 1.0) if whole > 0 else 0.5), whole

    def _worst(self, errors: list[Error]) -> Error:
        """The largest error; by key with the half width of each, in the order of the keys."""
        worst = max(errors, key=lambda error: error.noise)
        return worst if self.grouping.by is None else replace(worst, each=tuple(error.interval for error in errors))

    def _error(self, share: float, whole: int) -> Error:
        span, mechanism = float(self.upper - self.lower), self.mechanism
        gaussian = isinstance(mechanism, Gaussian)
        deviation = float(mechanism.sigma) if isinstance(mechanism, Gaussian) else math.sqrt(2) * float(mechanism.scale)
        spread = span * deviation * math.hypot(share, 1 - share) / max(whole, 1)
        usual, far = (math.sqrt(2 / math.pi), 1.96) if gaussian else (0.75, 2.12)
        return Error(min(usual * spread, span), min(far * spread, span))


@dataclass(frozen=True)
class Histogram:
    """How many rows lie between each two public edges; values outside go to the end bins.

    *Privacy:* one unit moves the counts by at most ``cap`` in the noise's norm. *Cost:* exactly ``epsilon``.
    ``ranges=True`` noises a tree of counts, so that sums over many bins are sharper and single bins less so; then
    ``error`` is that of one node, and the price may fall short of ``epsilon`` by a few micro.
    """

    column: str
    epsilon: Number | None = None
    edges: Sequence[Number] = ()
    cap: int | None = None
    by: str | None = None
    keys: Sequence[Any] | None = None
    ranges: bool = False
    mu: Number | None = None

    def __post_init__(self) -> None:
        exact_edges = tuple(bound(edge, "edges") for edge in self.edges)
        if not 2 <= len(exact_edges) <= _MOST_BINS or any(a >= b for a, b in pairwise(exact_edges)):
            raise InvalidTask(f"edges must be 2 to {_MOST_BINS} public numbers in ascending order.")
        check_cap(self.cap)
        on_grid(exact_edges)
        keep_public_keys(self)
        object.__setattr__(self, "edges", exact_edges)
        keep_exact(self, "epsilon", "mu")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy vector, or one for each level of the tree; the error is that of each count."""
        grouping, cap, spend = facts(self, schema, terms)
        tree = Tree(len(self.edges) - 1) if self.ranges else None
        spend = spend if tree is None else tree.share(spend)
        amount, mechanism = Amount.of_values(Fraction(0), Fraction(cap), spend), spend.mechanism(spend.steps)
        counts = _Counts(self.column, self.edges, cap, tree, amount, mechanism, grouping, terms.unit)
        event = mechanism.event if tree is None else composed(*[mechanism.event] * tree.levels)
        return Plan(event, counts.error, counts.run, counts.present)


@dataclass(frozen=True)
class _Counts:
    """The rows between each two edges, on the grid of ``amount``; through a tree where sums over many bins are wanted."""

    column: str
    edges: Sequence[Any]
    cap: int
    tree: Tree | None
    amount: Amount
    mechanism: Laplace | Gaussian
    grouping: Grouping
    unit: Unit

    @property
    def error(self) -> Error:
        """The error of each count, before anything is spent."""
        return noise_error(self.mechanism, self.amount.step)

    def run(self, table: Table, noise: Noise) -> Outcome:
        """Bound, count, noise; counts are rounded to whole rows after the noise."""
        grid, places = on_grid(self.edges)
        step, tree = self.amount.step, self.tree
        # sums of bins keep an L1 bound but not an L2 one, so a tree is always bounded in L1
        part = Capped(Quantity(None, step), self.amount.upper, norm_of(self.mechanism) if tree is None else "l1")
        tables = counts_of(self.grouping, table, self.unit, part, Bins(Quantity(self.column, grid), places))
        noised = self._flat(tables, noise) if tree is None else self._through(tree, tables, noise)
        ranges = list(pairwise(float(edge) for edge in self.edges))
        shown = [
            [[low, high, round(float(count * step))] for (low, high), count in zip(ranges, row, strict=True)]
            for row in noised
        ]
        return Outcome(self.grouping.label(shown), self.error, {"cap": self.cap})

    def _flat(self, tables: Sequence[list[int]], noise: Noise) -> list[list[Any]]:
        found = self.mechanism.release([count for counts in tables for count in counts], noise)
        size = len(self.edges) - 1
        return [found[start : start + size] for start in range(0, len(found), size)]

    def _through(self, tree: Tree, tables: Sequence[list[int]], noise: Noise) -> list[list[Any]]:
        """Noise every level of all keys together, then make each key's counts add up."""
        levels = list(zip(*(tree.sums(counts) for counts in tables), strict=True))
        noised = [iter(self.mechanism.release([n for nodes in level for n in nodes], noise)) for level in levels]
        return [
            tree.agree([[float(next(noised[i])) for _ in level[0]] for i, level in enumerate(levels)]) for _ in tables
        ]

    def present(self, value: Any) -> Any:
        """A dictionary from (low, high) to the count; with keys, one for each."""
        found = self.grouping.present(value)
        return by_range(found) if self.grouping.by is None else {key: by_range(rows) for key, rows in found.items()}


def by_range(rows: Sequence[Sequence[Any]]) -> dict[tuple[float, float], int]:
    """Rows of low, high and count as a dictionary."""
    return {(low, high): count for low, high, count in rows}


def on_grid(edges: Sequence[Any]) -> tuple[Fraction, tuple[int, ...]]:
    """A grid as fine as integers allow, and the edges on it; a value is misplaced only within half a step of an edge."""
    step = max(abs(edge) for edge in edges) / (LIMIT // 4)
    whole = Fraction(1, math.lcm(*(edge.denominator for edge in edges)))
    if whole > step:
        step = whole / 2 ** math.floor(math.log2(whole / step))
    places = tuple(math.floor(edge / step + Fraction(1, 2)) for edge in edges)
    if len(set(places)) != len(places):
        raise InvalidTask("edges lie too close together for their size.")
    return step, places


@dataclass(frozen=True)
class Quantile:
    """One or several quantiles of a column, as points of a public grid between ``lower`` and ``upper``.

    *Privacy:* the exponential mechanism on ranks; one unit moves a rank by at most ``cap`` rows. *Accuracy:* ``error``
    is in rows of rank, not in values. *Cost:* ``epsilon`` for all quantiles together, or a few micro below where it
    does not divide evenly.
    """

    column: str
    epsilon: Number | None = None
    quantile: Number | Sequence[Number] = Fraction(1, 2)
    lower: Number = 0
    upper: Number = 1
    cap: int | None = None
    resolution: Number | None = None
    by: str | None = None
    keys: Sequence[Any] | None = None
    mu: Number | None = None

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper)
        check_cap(self.cap)
        keep_public_keys(self)
        keep_exact(self, "epsilon", "mu", "lower", "upper", "resolution")
        many = isinstance(self.quantile, list | tuple)
        asked = tuple(exact(q, "quantile") for q in (self.quantile if many else (self.quantile,)))  # type: ignore
        if not asked or any(not 0 < q < 1 for q in asked) or list(asked) != sorted(set(asked)):
            raise InvalidTask("quantiles must lie strictly between 0 and 1, ascending, none twice.")
        object.__setattr__(self, "quantile", asked if many else asked[0])
        _ = self._bins

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One choice per level of the search; the error is one of ranks."""
        grouping, cap, spend = facts(self, schema, terms)
        step, edges = self._bins
        asked = self.quantile if isinstance(self.quantile, tuple) else (self.quantile,)
        search = QuantileSearch(tuple(Fraction(q) for q in asked), cap, spend)
        error = search.error(len(edges))
        part = Capped(Quantity(None, Fraction(1, search.weight)), cap * search.weight)
        bins, point = Bins(Quantity(self.column, step), edges), {"cap": cap, "resolution": float(64 * step)}

        def choose(table: Table, noise: Noise) -> Outcome:
            tables = counts_of(grouping, table, terms.unit, part, bins)
            found = [[float(edges[place] * step) for place in search.run(counts, noise)] for counts in tables]
            values = found if isinstance(self.quantile, tuple) else [each[0] for each in found]
            return Outcome(grouping.label(values), error, point)

        return Plan(search.event, error, choose, grouping.present)

    @lazy
    def _bins(self) -> tuple[Fraction, tuple[int, ...]]:
        """The grid's step and the evenly spaced edges in steps; candidates are the edges."""
        lower, upper = check_range(self.lower, self.upper)
        wanted = (upper - lower) / 1000 if self.resolution is None else bound(self.resolution, "resolution")
        count = math.ceil((upper - lower) / wanted)
        if count > _MOST_BINS:
            raise InvalidTask(f"resolution is too fine: at most {_MOST_BINS} steps may lie between the bounds.")
        step = wanted / 64
        low = math.floor(lower / step)
        if abs(low) + 64 * count > LIMIT // 2:
            raise InvalidTask("the bounds are too large for this resolution.")
        return step, tuple(low + 64 * i for i in range(count + 1))
