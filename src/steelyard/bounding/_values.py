"""``Histogram``: how many rows hold what, with a cap on the rows of every unit.

A row counts once, a unit for at most ``cap`` rows; a unit with more is weighed down as a whole (each of its rows by
cap / rows), so nothing depends on which rows came first. Edges are public (law 6). Proof: histogram_task.md.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from steelyard.bounding._amounts import Amount, Spend, bound, noise_error, norm_of
from steelyard.bounding._asking import Integers, Single
from steelyard.bounding._bought import Bought, ReadyValues, counts_of, facts
from steelyard.bounding._cap_choice import ContributionProfile
from steelyard.bounding._grouping import By, Grouping, PublicKeys, keep_exact, keep_keys, read_by
from steelyard.bounding._row_caps import FixedRows, RowCap, RowRule, check_cap
from steelyard.bounding._serving import Serving
from steelyard.bounding._trees import Tree
from steelyard.bounding._value_bounds import ValueBounds
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome
from steelyard.privacy import Number, Terms, Unit
from steelyard.tables import (
    LIMIT,
    Bins,
    Bounded,
    Capped,
    Joint,
    KeyDigest,
    Quantity,
    Schema,
    Table,
    as_written,
    read_keys,
)

if TYPE_CHECKING:
    from steelyard.bounding._totals import Count, Request

_MOST_BINS, _MOST_ROWS = 4096, 2**20
_EPOCH = datetime.date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Histogram(Single):
    """How many rows lie between each two public edges; values outside go to the end bins. Or how many rows hold each value.

    ``edges`` are numbers, or dates for a column of dates. Without them rows are counted by the column's own values, whatever its kind: by public
    ``values``, or by those that are found (``max_keys``, as for ``Count``, which this then is). ``cap`` is the most rows one unit counts for: a number, a profile of rows, or
    "auto", bought inside the same epsilon. *Privacy:* one unit moves the counts by at most ``cap`` in the noise's norm. *Cost:* exactly ``epsilon``.
    ``ranges=True`` noises a tree of counts, so that sums over many bins are sharper and single bins less so; then
    ``error`` is that of one node, and the price may fall short of ``epsilon`` by a few micro.
    """

    column: str
    epsilon: Number | None = None
    edges: Sequence[Any] = ()
    cap: RowCap = "auto"
    by: By | None = None
    keys: PublicKeys | None = None
    ranges: bool = False
    mu: Number | None = None
    max_keys: int | None = None
    others: bool = False
    values: PublicKeys | None = None

    def __post_init__(self) -> None:
        check_cap(self.cap)
        object.__setattr__(self, "edges", read_edges(self.edges))
        keep_exact(self, "epsilon", "mu")
        if self.edges:
            if self.values is not None:
                raise InvalidTask("a histogram has edges or values, not both.")
            on_grid(self._places)
            keep_keys(self)
            return
        if self.values is None and (self.max_keys is None or self.keys is not None):
            raise InvalidTask(
                "give edges=[...] (numbers or dates), values=[...], the public values to count by; or max_keys= alone, on an "
                "account that sets additive_delta= aside, and values (and keys) are found."
            )
        if self.ranges or (self.values is not None and self.by is not None and self.keys is None):
            raise InvalidTask("values have no ranges; and by= needs its public keys beside public values.")
        object.__setattr__(self, "values", read_keys(self.values, [self.column]))
        if self.by is not None and not isinstance(self.by, str):
            object.__setattr__(self, "by", read_by(self.by))
        object.__setattr__(self, "keys", read_keys(self.keys, read_by(self.by)))
        _ = self._by_value

    @property
    def _places(self) -> tuple[Fraction, ...]:
        """The edges as numbers; of dates, their days since 1970."""
        return tuple(
            Fraction(edge.toordinal() - _EPOCH) if isinstance(edge, datetime.date) else edge for edge in self.edges
        )

    @property
    def _by_value(self) -> Count:
        """A histogram of values is a count by them."""
        from steelyard.bounding._totals import Count

        names, keys = read_by(self.by), None
        if isinstance(self.keys, KeyDigest) or isinstance(self.values, KeyDigest):
            raise InvalidTask("keys that are named by their digest alone cannot be combined; give a shorter list.")
        if self.values is not None:
            keys = [
                (*(key if len(names) > 1 else (key,)), value) if names else value
                for key in (self.keys if self.keys is not None else ((),))
                for value in self.values
            ]
        cap: Any = "auto" if self.cap is None else self.cap
        upper = _MOST_ROWS if cap == "auto" else None
        more: dict[str, Any] = {"max_keys": self.max_keys, "mu": self.mu, "others": self.others}
        return Count(self.epsilon, cap, upper, by=(*names, self.column), keys=keys, **more)

    def request(self, schema: Schema, terms: Terms) -> Bought | Request:
        """One noisy vector, or one for each level of the tree; the error is that of each count."""
        return self._between(schema, terms) if self.edges else self._by_value.request(schema, terms)

    def _between(self, schema: Schema, terms: Terms) -> Bought:
        dates = isinstance(self.edges[0], datetime.date)
        schema.require(self.column)
        kind = schema.columns[self.column]
        if dates != (kind == "date"):
            raise InvalidTask(
                f"edges are dates where a column holds dates, and numbers elsewhere; {self.column!r} holds {kind} values."
            )
        groups, spend = facts(self, schema, terms, dates=dates)
        grouping = groups.grouping
        tree = Tree(len(self.edges) - 1) if self.ranges else None
        grid, places = on_grid(self._places)
        bins = Bins(Quantity(self.column, grid), places)
        serving = Serving(grouping.size * (len(self.edges) - 1), gaussian=spend.gaussian and tree is None)
        profiled = isinstance(self.cap, ContributionProfile)
        rule = RowRule.read(self.cap, self.column, grouping, terms, replace(serving, profiled=profiled), bins)
        look, left = rule.parts(spend)
        left = left if tree is None else tree.share(left)
        fixed, mechanism = rule.fixed(left), left.mechanism(left.steps)
        counts = _Counts(self.edges, bins, tree, left, mechanism, grouping, terms.unit)
        events = [mechanism.event] * (1 if tree is None else tree.levels)
        error = None if fixed is None else counts.error(fixed)
        bounds = ValueBounds(Fraction(0), Fraction(0))
        return Bought(groups, bounds, None, rule, look, left, fixed, counts, events, error, counts.present)


@dataclass(frozen=True)
class _Counts:
    """The rows between each two edges; through a tree where sums over many bins are wanted."""

    edges: Sequence[Any]
    bins: Bins
    tree: Tree | None
    spend: Spend
    mechanism: Laplace | Gaussian
    grouping: Grouping
    unit: Unit

    def error(self, rows: FixedRows) -> Error:
        """The error of each count."""
        return replace(noise_error(self.mechanism, self._amount(rows).step), note=rows.told)

    def _amount(self, rows: FixedRows) -> Amount:
        return Amount.of_values(Fraction(0), rows.cap, self.spend)

    def balls(self, bounds: ValueBounds, rows: FixedRows) -> Sequence[Bounded | Capped | Joint]:
        """Nothing of a common pass: rows are read by bins."""
        return ()

    def told(self, known: ReadyValues, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Bound, count, noise; counts are rounded to whole rows after the noise."""
        rows, tree = known.rows, self.tree
        amount = self._amount(rows)
        step = amount.step
        # sums of bins keep an L1 bound but not an L2 one, so a tree is always bounded in L1
        part = Capped(Quantity(None, step), amount.upper, norm_of(self.mechanism) if tree is None else "l1")
        tables = counts_of(grouping, table, self.unit, part, self.bins)
        noised = self._flat(tables, noise) if tree is None else self._through(tree, tables, noise)
        ranges = list(
            pairwise(edge.isoformat() if isinstance(edge, datetime.date) else float(edge) for edge in self.edges)
        )
        shown = [
            [[low, high, round(float(count * step))] for (low, high), count in zip(ranges, row, strict=True)]
            for row in noised
        ]
        cap = int(rows.cap) if rows.cap.denominator == 1 else float(rows.cap)
        return Outcome(grouping.label(shown), self.error(rows), {"cap": cap})

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
        return {key: by_range(rows) for key, rows in found.items()} if self.grouping.by else by_range(found)


def read_edges(edges: Sequence[Any]) -> tuple[Any, ...]:
    """Public edges, ascending: all numbers, or all dates; no edges where there are none."""
    if isinstance(edges, str | bytes) or not isinstance(edges, Sequence | range):
        raise InvalidTask("edges must be a list of numbers or dates.")
    dates = [_date(edge) for edge in edges]
    found: tuple[Any, ...] = (
        tuple(dates) if dates and None not in dates else tuple(bound(edge, "edges") for edge in edges)
    )
    if found and (not 2 <= len(found) <= _MOST_BINS or any(a >= b for a, b in pairwise(found))):
        raise InvalidTask(f"edges must be 2 to {_MOST_BINS} public numbers, or dates, in ascending order.")
    return found


def _date(edge: Any) -> datetime.date | None:
    if isinstance(edge, datetime.date) and not isinstance(edge, datetime.datetime):
        return edge
    found = as_written("date", edge) if isinstance(edge, str) else None
    return found if isinstance(found, datetime.date) else None


def by_range(rows: Sequence[Sequence[Any]]) -> dict[tuple[Any, Any], int]:
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
