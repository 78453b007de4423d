"""What is known of a number's error at every price, before a row is read: its ``Odds``, from profiles and public facts.

Where nothing is known of what a cap cuts off no tolerance could be promised, so it is refused unless the person says that the
noise alone is meant. How each kind of number can be off is in docs/proofs/report.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.bounding._amounts import Spend, bound
from steelyard.bounding._cap_choice import ContributionProfile
from steelyard.bounding._distinct import CountDistinct
from steelyard.bounding._fieller import MISSED, coarse
from steelyard.bounding._grouping import Grouping
from steelyard.bounding._laws import Floats, noise_tail
from steelyard.bounding._means import Mean, Std, Variance, grid_steps
from steelyard.bounding._odds import Odds, Rooms, tail_of
from steelyard.bounding._quantiles import Median, Quantile
from steelyard.bounding._ratio import Ratio
from steelyard.bounding._row_caps import row_cap
from steelyard.bounding._top import Peeling, TopK
from steelyard.bounding._totals import Count, CountUsers, Sum, whole
from steelyard.bounding._values import Histogram
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO, Currency, Neighbours, Terms, exact
from steelyard.tables import Schema

if TYPE_CHECKING:
    from steelyard.bounding._within import Wanted, Within

_GRID = 0.2
"""The part of a variance's tolerance that its grid may take."""

_FINE_NODES = 1.02
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
        task = self.task
        if isinstance(task, TopK):
            return min(task.k, len(task.keys or ()))
        keys = Grouping.of(task).size
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
        task = self.task.as_quantile if isinstance(self.task, Median) else self.task
        ways: dict[type, Callable[[Any, float], Odds]] = {
            Mean: self._mean, Variance: self._spread, Std: self._spread, Quantile: self._quantile, Histogram: self._histogram,
            CountUsers: self._users, CountDistinct: self._values, Ratio: self._ratio, TopK: self._top,
        }  # fmt: skip
        return ways.get(type(task), self._total)(task, times)

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
        cap, span = row_cap(task.cap, self.terms), _span(task)
        lost, wide = self._lost(cap), self._tolerance(times, None, False).reshape(-1, 1)
        rows = self._rows(task, lost)
        share = np.minimum(wide / span, 1.0) - lost / np.maximum(rows, 1.0)
        room = share * np.maximum(rows - lost, 0.0) / (1 + 2 * np.maximum(share, 0.0))
        law = tail_of("gaussian" if self._gaussian else "laplace")
        return Odds((None,), np.array([float(cap)]), Rooms.grouped(room, room, room), 2 * self.cells, law)

    def _spread(self, task: Variance | Std, times: float) -> Odds:
        """A variance of n rows is off by at most r + 2.25 r^2 of the squared span, r the largest of three noises over n less thrice that."""
        cap, span, wide = row_cap(task.cap, self.terms), _span(task), self._tolerance(times, None, False).reshape(-1, 1)
        if isinstance(task, Std):  # roots differ by at most the root of the difference, or by it over the true one
            wide = wide * np.maximum(wide, float(self.wish.of or 0))
        lost = self._lost(cap)
        rows, whole = self._rows(task, lost), np.minimum(wide / span**2, 0.25)
        share = np.maximum((1 - _GRID) * whole - lost / np.maximum(rows, 1.0), 0.0)
        ratio = (np.sqrt(1 + 9 * share) - 1) / 4.5
        room = ratio * np.maximum(rows - lost, 0.0) / (1 + 3 * ratio)
        law, fine = "gaussian" if self._gaussian else "laplace", _GRID * float(whole.min())

        def tail(size: Floats, level: Floats) -> Floats:
            steps = grid_steps(task, Spend(self._gaussian, math.ceil(float(level[0]) * MICRO)), cap)
            return noise_tail(size, level, law) if coarse(steps) <= fine else np.ones_like(size)

        return Odds((None,), np.array([float(cap)]), Rooms.grouped(room, room, room), 3 * self.cells, tail)

    def _ratio(self, task: Ratio, times: float) -> Odds:
        """A ratio is off by at most g z (a + (r + t) b) over its denominator, z the larger of two noises; a ball holds g caps a, b."""
        self._unknown("which units the caps of a ratio weigh down", "keep to caps that nobody exceeds")
        if self.wish.of is None or self.wish.rows is None:
            raise InvalidTask(
                f"{self.wish.name}: the error of a ratio falls with its denominator and grows with itself: give rows=, the least that the "
                "denominator adds up to (under each key), and of=, the largest that the ratio may be."
            )
        above, below = (
            float(bound(cap, "cap")) for cap in (task.cap, task.over_cap) if not isinstance(cap, ContributionProfile)
        )
        wide, most = self._tolerance(times, None, False).reshape(-1, 1), float(self.wish.of)
        twice, whole = math.sqrt(2) if self._gaussian else 2.0, float(self.wish.rows)
        room = wide * whole / (twice * (above + (most + wide) * below))
        law, sure = "gaussian" if self._gaussian else "laplace", whole / (twice * below)

        def tail(size: Floats, level: Floats) -> Floats:
            """A denominator that noise brings near its own reach is not divided by as it is: that counts as a miss."""
            left = np.minimum(size, sure - _near(law, float(level[0])))
            return np.where(left > 0, noise_tail(np.maximum(left, 0.0), level, law), 1.0)

        return Odds((None,), np.ones(1), Rooms.grouped(room, room, room), 2 * self.cells, tail)

    def _values(self, task: CountDistinct, times: float) -> Odds:
        """Different values: each unit counts for at most a cap of them."""
        cap = 1 if self.terms.unit.kind == "rows" else int(task.cap)
        if self.terms.unit.kind != "rows":
            self._unknown(
                f"how many values only units with more than {cap} of them hold", "give a cap that nobody exceeds"
            )
        return self._plain(float(cap), "gaussian" if self._gaussian else "laplace", times, whole_numbers=True)

    def _top(self, task: TopK, times: float) -> Odds:
        """Each number shown is within the tolerance, and no value that is left out has more units than that beyond one that is shown."""
        rooms, grouping, k = Rooms.of(self._tolerance(times, None, True), np.zeros((1, 1))), task.grouping, self.cells
        law, keys = "gaussian" if self._gaussian else "laplace", len(task.keys or ())
        size = math.sqrt(k) if self._gaussian else float(k)

        @lru_cache
        def paid(node: int) -> tuple[float, float]:
            """What no less than a node's price buys: choices are priced by a search, so not every level is."""
            micro = max(math.floor(_FINE_NODES**node * MICRO), 40 * k)
            peel = Peeling.of(k, grouping, Spend(self._gaussian, micro))
            return float(peel.choice.weight), peel.left.level

        def tail(room: Floats, level: Floats) -> Floats:
            weight, left = paid(math.floor(math.log(float(level[0])) / math.log(_FINE_NODES)))
            behind = keys * np.exp(-weight * np.maximum(room - 0.5, 0.0)) / 2
            return np.asarray(np.minimum(noise_tail(room / size, left, law) + behind, 1.0))

        return Odds((None,), np.ones(1), rooms, k, tail)

    def _rows(self, task: Mean | Variance | Std, lost: Floats) -> Floats:
        """How many rows there are, by equally likely amounts: said, or told by a profile."""
        if self.wish.rows is not None:
            return np.full_like(lost, float(self.wish.rows))
        if self.look is None or task.by is not None:
            raise InvalidTask(
                f"{self.wish.name}: the error of a {type(task).__name__.lower()} falls with the rows behind it: give rows=, the least number of them"
                f"{' under each key' if task.by is not None else ', or a profile of rows (sy.Profile(rows=True, ...))'}."
            )
        return self.look.lost([Fraction(0)])

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
                if isinstance(self.task, Quantile | Median)
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


def _span(task: Mean | Variance | Std) -> float:
    return float(exact(task.upper, "upper") - exact(task.lower, "lower"))


def _near(law: str, level: float) -> float:
    """The reach of the noise of a denominator below which a ratio does not divide by it, with a little on top."""
    return (1.98 if law == "gaussian" else 1.02 * math.log(1 / MISSED)) / level


def _shown(cap: Any) -> str:
    return f"{float(cap):,.10g}"


def _refuse_unknown(wish: Within, task: Any, terms: Terms) -> None:
    cap = getattr(task, "cap", None)
    if isinstance(task, Ratio | CountDistinct | TopK):
        _refuse_bought(wish, task, terms)
        return
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
    if isinstance(task, Mean | Variance | Std | Median | Quantile) and "auto" in (task.lower, task.upper):
        raise InvalidTask(f"{wish.name}: bounds that are bought are not known beforehand; give lower= and upper=.")
    if isinstance(task, Histogram) and task.ranges:
        raise InvalidTask(f"{wish.name}: the errors of ranges=True are not known bin by bin; leave it out of a plan.")


def _refuse_bought(wish: Within, task: Ratio | CountDistinct | TopK, terms: Terms) -> None:
    """Refuse caps that are bought or planned, and keys or candidates that are found."""
    if isinstance(task, TopK) and task.by is not None:
        raise InvalidTask(
            f"{wish.name}: the first values under each key are not planned; ask CountUsers by key and value."
        )
    caps = (task.cap, task.over_cap) if isinstance(task, Ratio) else (getattr(task, "cap", 1),)
    needed = isinstance(task, Ratio) or terms.unit.kind != "rows"
    if needed and any(isinstance(cap, str | ContributionProfile) for cap in caps):
        names = "cap= and over_cap=" if isinstance(task, Ratio) else "cap="
        raise InvalidTask(f"{wish.name}: a plan takes {names} as numbers here: nothing else is known beforehand.")
    if (task.keys is None) and (isinstance(task, TopK) or task.by is not None):
        raise InvalidTask(f"{wish.name}: what will be found is not known beforehand; give keys=[...].")


def _priced(task: Any, level: Fraction, terms: Terms) -> Any:
    twice = 2 if terms.unit.neighbours is Neighbours.REPLACE else 1  # a task halves what it is given there
    if terms.currency is Currency.GAUSSIAN:
        return replace(task, mu=twice * level)
    return replace(task, epsilon=twice * level)
