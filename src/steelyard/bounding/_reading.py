"""What is known of a number's error at every price, before a row is read: its ``Odds``, from profiles and public facts.

Where nothing is known of what a cap cuts off no tolerance could be promised, so it is refused unless the person says that the
noise alone is meant. How each kind of number can be off is in docs/proofs/report.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.bounding._cap_choice import ContributionProfile
from steelyard.bounding._grouping import Grouping
from steelyard.bounding._laws import Floats
from steelyard.bounding._means import Mean
from steelyard.bounding._odds import Odds, Rooms, tail_of
from steelyard.bounding._quantiles import Quantile
from steelyard.bounding._row_caps import row_cap
from steelyard.bounding._totals import Count, CountUsers, Sum, whole
from steelyard.bounding._values import Histogram
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO, Currency, Neighbours, Terms, exact
from steelyard.tables import Schema

if TYPE_CHECKING:
    from steelyard.bounding._within import Wanted, Within

_NODES, _ABOVE = 1.5, 1.005
"""A search's error is read at powers of this and drawn between them on logarithms, with a little on top."""


@dataclass(frozen=True)
class ErrorReading:
    """A number on a schema and an account; ``look`` is a profile of rows, where one is at hand."""

    wish: Within
    task: Any
    look: ContributionProfile | None
    schema: Schema
    terms: Terms

    @classmethod
    def of(cls, wish: Within, profiles: Sequence[ContributionProfile], schema: Schema, terms: Terms) -> ErrorReading:
        """Read a wish; refuses what would have to be guessed, and what the schema or the account rule out."""
        task = wish.task if wish.noise_alone else _with_profile(wish.task, profiles)
        _refuse_unknown(wish, task, terms)
        look = next((each for each in profiles if each.column is None), None)
        _priced(task, Fraction(1), terms).plan(schema, terms)
        return cls(wish, task, look, schema, terms)

    @property
    def cells(self) -> int:
        """How many numbers must all be within the tolerance."""
        task, keys = self.task, Grouping.of(self.task).size
        if isinstance(task, Histogram):
            return keys * (len(task.edges) - 1)
        if isinstance(task, Quantile):
            return keys * (len(task.quantile) if isinstance(task.quantile, tuple) else 1)
        return keys

    def priced(self, level: float, cap: Fraction | None) -> Any:
        """The task at this level, rounded up to the ledger's smallest step."""
        task = self.task
        if cap is not None:
            task = replace(task, cap=task.cap.at(cap))
        return _priced(task, Fraction(math.ceil(level * MICRO), MICRO), self.terms)

    def odds(self, times: float = 1.0) -> Odds:
        """What is known of the error at every price, for a tolerance so many times as wide."""
        task = self.task
        if isinstance(task, Mean):
            return self._mean(task, times)
        if isinstance(task, Quantile):
            return self._quantile(task, times)
        if isinstance(task, CountUsers):
            return self._users(task, times)
        return self._histogram(task, times) if isinstance(task, Histogram) else self._total(task, times)

    def _total(self, task: Sum | Count, times: float) -> Odds:
        count = isinstance(task, Count)
        law = "gaussian" if self._gaussian else "laplace" if task.by is not None else "staircase"
        cap: Any = 1 if count and self.terms.unit.kind == "rows" else task.cap
        if isinstance(cap, ContributionProfile):
            self._limits(task)
            grid = cap.histogram.grid
            caps = (cap.cap,) if cap.cap is not None else tuple(each * cap.step for each in grid.caps)
            size = cap.lost([Fraction(0)])[:, 0] if task.by is None else None
            rooms = Rooms.of(self._tolerance(times, size, count), cap.lost(caps))
            return Odds(caps, np.array([float(each) for each in caps]), rooms, self.cells, tail_of(law))
        if not whole(None if count else "", self.terms):
            what = "profile of rows (sy.Profile(rows=True, ...))" if count else "profile of this column"
            self._unknown(f"what a cap of {_shown(cap)} cuts off", f"give a {what} to the plan, or as cap=")
        self._limits(task)
        largest = float(max(Fraction(cap), -Fraction(getattr(task, "lower", None) or 0)))
        return self._plain(largest, law, times, whole_numbers=count)

    def _histogram(self, task: Histogram, times: float) -> Odds:
        cap, law = row_cap(task.cap, self.terms), "gaussian" if self._gaussian else "laplace"
        rooms = Rooms.of(self._tolerance(times, None, True), self._lost(cap))
        return Odds((None,), np.array([float(cap)]), rooms, self.cells, tail_of(law))

    def _users(self, task: CountUsers, times: float) -> Odds:
        most = task.max_keys or 1
        if task.by is not None:
            self._limits(task)
        bounds = math.sqrt(most) if self._gaussian else float(most)
        return self._plain(bounds, "gaussian" if self._gaussian else "laplace", times, whole_numbers=True)

    def _mean(self, task: Mean, times: float) -> Odds:
        """A mean of n rows is off by at most the span times the larger noise over n less twice that; and by what lost rows weigh."""
        cap, span = row_cap(task.cap, self.terms), float(exact(task.upper, "upper") - exact(task.lower, "lower"))
        lost, wide = self._lost(cap), self._tolerance(times, None, False).reshape(-1, 1)
        rows = np.full_like(lost, float(self.wish.rows or 0))
        if self.wish.rows is None:
            if self.look is None or task.by is not None:
                raise InvalidTask(
                    f"{self.wish.name}: the error of a mean falls with the rows behind it: give rows=, the least number of them"
                    f"{' under each key' if task.by is not None else ', or a profile of rows (sy.Profile(rows=True, ...))'}."
                )
            rows = self.look.lost([Fraction(0)])
        share = np.minimum(wide / span, 1.0) - lost / np.maximum(rows, 1.0)
        room = share * np.maximum(rows - lost, 0.0) / (1 + 2 * np.maximum(share, 0.0))
        law = tail_of("gaussian" if self._gaussian else "laplace")
        return Odds((None,), np.array([float(cap)]), Rooms.grouped(room, room, room), 2 * self.cells, law)

    def _quantile(self, task: Quantile, times: float) -> Odds:
        """Ranks are off by the errors of each level of the search, and by lost rows."""
        cap = row_cap(task.cap, self.terms)
        asked = task.quantile if isinstance(task.quantile, tuple) else (task.quantile,)
        side, levels = float(max(max(Fraction(q), 1 - Fraction(q)) for q in asked)), len(asked).bit_length()
        size = None if self.look is None or task.by is not None else self.look.lost([Fraction(0)])[:, 0]
        lost, wide = self._lost(cap), self._tolerance(times, size, False).reshape(-1, 1)
        room = (wide - side * lost) / levels
        share = 1.0 if levels == 1 else side  # ranks inside a part may lie nearer to its end than those asked for

        @lru_cache
        def scale(node: int) -> tuple[float, float]:
            error = self.priced(_NODES**node, None).plan(self.schema, self.terms).predicted
            unit = (error.interval - error.noise) / math.log(20)
            return math.log(unit / share), error.noise / unit

        def tail(size: Floats, level: Floats) -> Floats:
            place = math.log(float(level[0])) / math.log(_NODES)
            (low, points), (high, _) = scale(math.floor(place)), scale(math.floor(place) + 1)
            unit = _ABOVE * math.exp(low + (high - low) * (place - math.floor(place)))
            return np.asarray(np.exp(np.minimum(points - size / unit, 0.0)) / 2)

        return Odds((None,), np.ones(1), Rooms.grouped(room, room, room), self.cells, tail)

    def _plain(self, size: float, law: str, times: float, *, whole_numbers: bool) -> Odds:
        rooms = Rooms.of(self._tolerance(times, None, whole_numbers), np.zeros((1, 1)))
        return Odds((None,), np.array([size]), rooms, self.cells, tail_of(law))

    def _lost(self, cap: int) -> Floats:
        """The rows that a cap on each unit's rows takes the weight of, by equally likely amounts."""
        if self.terms.unit.kind == "rows":
            return np.zeros((1, 1))
        if self.look is not None and not self.wish.noise_alone:
            return self.look.lost([Fraction(cap)])
        self._unknown(
            f"what a cap of {cap} rows leaves out", "give a profile of rows (sy.Profile(rows=True, ...)) to the plan"
        )
        return np.zeros((1, 1))

    def _limits(self, task: Any) -> None:
        """Limits by key cut off more than any profile tells, unless they never bind."""
        keys = 0 if task.by is None else Grouping.of(task).size
        if getattr(task, "rows_per_key", None) is not None or (task.max_keys is not None and task.max_keys < keys):
            self._unknown(
                "what max_keys and rows_per_key leave out", "leave them out, or let max_keys be the number of keys"
            )

    def _unknown(self, what: str, do: str) -> None:
        if not self.wish.noise_alone:
            raise InvalidTask(
                f"{self.wish.name}: nothing is known of {what}, so no tolerance can be kept; {do}. If the tolerance is for the "
                "noise alone, say noise_alone=True."
            )

    def _tolerance(self, times: float, known: Floats | None, whole_numbers: bool) -> Floats:
        """The tolerance by equally likely amounts; counts are told as whole rows, so half a row more is as good."""
        share, relative = self.wish.size
        sizes = np.ones(1)
        if relative:
            given = (
                self.wish.of
                if self.wish.of is not None
                else self.wish.rows
                if isinstance(self.task, Quantile)
                else None
            )
            if given is None and known is None:
                raise InvalidTask(
                    f"{self.wish.name}: {self.wish.tolerance} of what? Give of=, about how large the answer is."
                )
            sizes = np.array([float(given)]) if given is not None else np.asarray(known)
        wide = times * share * sizes
        return np.asarray(np.floor(wide) + 0.5 if whole_numbers else wide)

    @property
    def _gaussian(self) -> bool:
        return self.terms.currency is Currency.GAUSSIAN


def _with_profile(task: Wanted, profiles: Sequence[ContributionProfile]) -> Any:
    """The task with what the plan's profiles tell of its cap."""
    if not isinstance(task, Sum | Count) or isinstance(task.cap, ContributionProfile):
        return task
    column = task.column if isinstance(task, Sum) else None
    told = next((each for each in profiles if each.column == column), None)
    if told is None or (isinstance(task, Sum) and task.lower):
        return task
    return replace(task, cap=told if task.cap == "auto" else told.at(exact(task.cap, "cap")), upper=None)


def _shown(cap: Any) -> str:
    return f"{float(cap):,.10g}"


def _refuse_unknown(wish: Within, task: Any, terms: Terms) -> None:
    cap = getattr(task, "cap", None)
    if isinstance(cap, str) and not (terms.unit.kind == "rows" and not isinstance(task, Sum)):
        look = repr(task.column) if isinstance(task, Sum) else "rows=True"
        raise InvalidTask(
            f"{wish.name}: with cap='auto' the cap is bought inside the release, so nothing is known beforehand. Release a "
            f"profile first (sy.Profile({look}, epsilon=..., upper=...)) and give it to the plan, or give a number."
        )
    if wish.noise_alone and isinstance(cap, ContributionProfile):
        raise InvalidTask(f"{wish.name}: a profile tells what its cap cuts off; leave noise_alone out.")
    if task.by is not None and task.keys is None:
        raise InvalidTask(f"{wish.name}: how many keys will be found is not known beforehand; give keys=[...].")
    if isinstance(task, CountUsers) and task.by is not None and task.max_keys is None and terms.unit.kind == "users":
        raise InvalidTask(
            f"{wish.name}: how many keys a user counts for would be bought inside the release; give max_keys=."
        )
    if isinstance(task, Mean | Quantile) and "auto" in (task.lower, task.upper):
        raise InvalidTask(f"{wish.name}: bounds that are bought are not known beforehand; give lower= and upper=.")
    if isinstance(task, Histogram) and task.ranges:
        raise InvalidTask(f"{wish.name}: the errors of ranges=True are not known bin by bin; leave it out of a plan.")


def _priced(task: Any, level: Fraction, terms: Terms) -> Any:
    twice = 2 if terms.unit.neighbours is Neighbours.REPLACE else 1  # a task halves what it is given there
    if terms.currency is Currency.GAUSSIAN:
        return replace(task, mu=twice * level)
    return replace(task, epsilon=twice * level)
