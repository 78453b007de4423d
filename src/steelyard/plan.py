"""What a task says before it is paid for, and what it hands over afterwards.

A ``Task`` makes a ``Plan`` from public facts: what will be done (hence its price), the ``Error`` to expect, and how to run it. Running it gives an
``Outcome`` of plain numbers, which may hold no row, no table and nothing that could fetch one (law 4). A capability knows these nouns and
needs neither desk, account nor release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from steelyard.errors import InvalidTask
from steelyard.privacy import Event, Status, Terms, figure

if TYPE_CHECKING:
    from steelyard.noise import Noise
    from steelyard.tables import Schema, Table

__all__ = ["Error", "Outcome", "Plan", "Task"]


def as_it_is(value: Any) -> Any:
    """The stored value, unchanged."""
    return value


@dataclass(frozen=True)
class Error:
    """The error to expect: ``noise`` is its mean size, ``interval`` its half width at ``confidence``; ``bias`` is what the cap cuts off.

    Noise is exact (*proved*). The bias is modelled from a noisy look at the totals (*calibrated*): its median, and where it
    lies, from ``bias_low`` to ``bias_high``; ``None`` where nothing was looked at. ``offsets`` are how far below and above the
    released value the truth lies, noise and bias together, by confidence. ``blind_spot`` is what no look at this price
    can rule out (*proved*). Totals above ``upper`` are in none of this: where some were seen, ``at_least`` is true.
    ``each`` are half widths by key where they differ, ``unit`` what the noise is measured in, if not in the value's own;
    ``missed`` says that an accuracy was asked for which this is not. ``ends`` are where the truth lies, two for each released number, where
    that is said outright (*proved*), None for an end that is not known, and ``of`` what they are of, where that is not the rows as they
    are; ``note`` is one sentence more. ``correction`` is what is to be added to one released number for the least mean error (*calibrated*).
    """

    noise: float
    interval: float
    bias: float | None = None
    confidence: float = 0.95
    bias_low: float | None = None
    bias_high: float | None = None
    offsets: Mapping[str, Sequence[float]] = field(default_factory=dict)
    blind_spot: str = ""
    at_least: bool = False
    each: Sequence[float] = ()
    unit: str = ""
    missed: str = ""
    ends: Sequence[Sequence[float | None]] = ()
    note: str = ""
    of: str = ""
    correction: float | None = None

    def __post_init__(self) -> None:
        # JSON has lists: an error that was stored must equal the one that was made
        object.__setattr__(self, "each", tuple(self.each))
        object.__setattr__(self, "ends", tuple((pair[0], pair[1]) for pair in self.ends))
        object.__setattr__(self, "offsets", {name: tuple(ends) for name, ends in self.offsets.items()})

    @property
    def status(self) -> Status:
        """Proved where only noise is in it, calibrated where a bias was modelled."""
        return Status.CALIBRATED if self.offsets else Status.PROVED

    @property
    def more(self) -> list[str]:
        """What is to be said beside the numbers: what cannot be known, a note, and what the ends are of."""
        return [*self._beside, *([f"low and high are of {self.of}"] if self.of else [])]

    @property
    def _beside(self) -> list[str]:
        return [said for said in (self.blind_spot, self.note) if said]

    def truth(self, low: float | None, high: float | None) -> list[str]:
        """Where the truth of one number lies, and of what, in a sentence; then the noise, and what is to be said beside it."""
        if low is None:
            return [str(self), *self.more]
        where = f"above {figure(low)}" if high is None else f"between {figure(low)} and {figure(high)}"
        whose = f", of {self.of}" if self.of else ""
        return [f"truth {where} at {self.confidence:.0%}, {self.status}{whose}", str(self), *self._beside]

    def span(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """How far below and above the released value the truth lies; ``None`` where nothing is known of what was cut off."""
        known = {float(name): (ends[0], ends[1]) for name, ends in self.offsets.items()}
        if not known and self.bias == 0 and not self.unit:
            known = {self.confidence: (-self.interval, self.interval)}
        if known and confidence not in known:
            told = ", ".join(f"{each:g}" for each in known)
            raise InvalidTask(f"the interval of this release is known at confidence {told}; got {confidence!r}.")
        return known.get(confidence)

    def __str__(self) -> str:
        alone = f"noise ± {self._size} in {self.confidence:.0%} of draws"
        said = alone if self.unit else f"{alone}; what the cap cuts off: {self._cut}"
        return f"{said}; {self.missed}" if self.missed else said

    @property
    def _size(self) -> str:
        if len(set(self.each)) > 1:
            return f"{figure(min(self.each))} to {figure(max(self.each))}, by key,"
        return f"{figure(self.interval)} {self.unit}".rstrip()

    @property
    def _cut(self) -> str:
        if self.bias is None:
            return "not estimated"
        if self.bias_low is None or self.bias_high is None:
            return "nothing" if self.bias == 0 else f"about {figure(self.bias)}"
        unseen = "totals above upper not counted"
        said = f"{figure(self.bias)} ({figure(self.bias_low)} to {figure(self.bias_high)} at {self.confidence:.0%}, calibrated)"
        if not self.at_least:
            return f"about {said}, {unseen}"
        above = f"some totals reach upper: {unseen}"
        return f"at least {said}, and {above}" if self.bias_high > 0 else above

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Error(**data)`` reads it back."""
        ends = {name: list(pair) for name, pair in self.offsets.items()}
        lists = {"each": list(self.each), "ends": [list(pair) for pair in self.ends]}
        told = {**vars(self), "offsets": ends, **lists}
        seldom = ("missed", "ends", "note", "of", *(("correction",) if self.correction is None else ()))
        return {name: value for name, value in told.items() if value or name not in seldom}


@dataclass(frozen=True)
class Outcome:
    """What a task computed: plain JSON only."""

    value: Any
    error: Error | None
    point: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Plan:
    """What will be done, made once and of public facts alone: it is priced, charged, and then run.

    ``event`` is what will be done, whatever the rows say; its price is the whole cost. ``predicted`` is the error to expect, where
    it is known before anything is spent. ``run`` reads the rows and noises them; it must never fail, or be seen to differ,
    because of what they hold. ``present`` turns the stored JSON value into what a person gets. ``workers`` says that rows which lie
    with workers are passed through Python there.
    """

    event: Event
    predicted: Error | None
    run: Callable[[Table, Noise], Outcome]
    present: Callable[[Any], Any] = as_it_is
    workers: bool = field(default=False, kw_only=True)

    def __repr__(self) -> str:
        return f"Plan({self.event.name}: {self._error})"

    @property
    def _error(self) -> str:
        return "the error is known after the release" if self.predicted is None else str(self.predicted)

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        blind = [("blind spot", self.predicted.blind_spot)] if self.predicted and self.predicted.blind_spot else []
        facts = [("does", self.event.name), ("status", str(self.event.status)), ("error", self._error), *blind]
        return fragment("Plan", Tabular(("", ""), facts), "Nothing was spent and nothing was read.")


class Task(Protocol):
    """A one-shot release: a frozen dataclass whose fields are its own JSON request."""

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """What will be done; refuses whatever the public schema and the terms already rule out."""
