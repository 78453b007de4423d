"""The exact privacy nouns: whose presence is hidden, what was done, what it cost, what was promised.

Amounts are integers from the moment they are read: micro-epsilon for pure losses, 1e-12 of mu squared for Gaussian
ones (so mu = c micro costs exactly c squared), micro-nats for validity, 1e-18 for a delta that is set aside. Numbers
are read as the decimals a person typed (0.1 is exactly 100,000 micro). What a user asks for rounds down; what we
computed as a cost rounds up; so rounding can never make a promise weaker than its label.
This file depends on nothing but the standard library and must stay so.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

from steelyard.errors import CurrencyMismatch, InvalidTask

__all__ = [
    "Currency",
    "Event",
    "Loss",
    "Neighbours",
    "Number",
    "Status",
    "Terms",
    "Unit",
    "holdout",
    "labels",
    "rows",
    "users",
]

MICRO = 10**6
"""Steps of one epsilon, one mu or one nat: prices are whole numbers of them."""
ATTO = 10**18
"""Steps of one delta."""
LARGEST = Fraction(2) ** 1023
"""No number that is told as a float is larger."""
_EVENT_SHOWN = 300  # characters of an event that is looked at; all of it is in its JSON
_LONGEST = 1000  # digits of any number that is read: beyond them a reader could be kept busy for ever
_RATIO = re.compile(rf"-?[0-9]{{1,{_LONGEST}}}/(?=0*[1-9])[0-9]{{1,{_LONGEST}}}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,38}")
_WRITTEN = re.compile(rf"-?[0-9]{{1,{_LONGEST}}}(/0*[1-9][0-9]{{0,{_LONGEST - 1}}})?")
Number = int | float | str | Decimal | Fraction
"""How an amount may be written; text and fractions are taken exactly."""


class Currency(StrEnum):
    """What an account counts in; currencies do not convert into each other except as ``accounting`` proves."""

    PURE = "pure"
    GAUSSIAN = "gaussian"
    NATS = "nats"


class Neighbours(StrEnum):
    """Which two tables must be hard to tell apart."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"
    CHANGE_LABEL = "change-label"


class Status(StrEnum):
    """How far a guarantee may be trusted, best first."""

    PROVED = "proved"
    CALIBRATED = "calibrated"
    UNREVIEWED = "unreviewed"
    STATED = "as stated: the sensitivity of a query is the caller's word"
    OUTSIDE = "as stated: the guarantee of a run from outside is the caller's word"
    TEST_NOISE = "test noise"


def exact(value: Number, name: str) -> Fraction:
    """Read a number as the decimal a person typed: 0.1 is exactly 1/10, whatever a float makes of it.

    A text is plain decimal (``0.5``, ``-3``, ``1e-6``) or a ratio (``1/3``), in the digits 0 to 9 alone: no separators, no
    other script's digits, which a reader may take for something else.

    >>> exact(0.1, "epsilon")
    Fraction(1, 10)
    """
    if isinstance(value, bool) or value is None:
        raise InvalidTask(f"{name} must be a number; got {value!r}.")
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and value.bit_length() > 3 * _LONGEST:  # Python writes no longer one out
        raise InvalidTask(f"{name} is out of any sensible range.")
    text = str(value).strip()
    if _RATIO.fullmatch(text):  # what an exact number is written as, however small it is
        return Fraction(text)
    if len(text) > _LONGEST:
        raise InvalidTask(f"{name} has more than {_LONGEST} digits.")
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        raise InvalidTask(f"{name} must be a finite number; got {value!r}.")
    if not _NUMBER.fullmatch(text):
        raise InvalidTask(f"{name} must be a finite number such as 0.5 or '1e-6', in the digits 0 to 9; got {value!r}.")
    decimal = Decimal(text)
    if abs(decimal.adjusted()) > 400 or int(decimal.as_tuple().exponent) <= -_LONGEST:
        raise InvalidTask(f"{name} is out of any sensible range; got {value!r}.")
    return Fraction(decimal)


def written(value: object, name: str) -> Fraction:
    """Read back an exact number that a document holds: a text of digits, or of two such numbers divided.

    Bounded, and read the same everywhere: no exponent, no blank, no JSON number (a browser's end at 2**53).

    >>> written("-3/7", "a weight")
    Fraction(-3, 7)
    """
    if not isinstance(value, str) or not _WRITTEN.fullmatch(value):
        raise InvalidTask(f"{name} must be written as a text of at most {_LONGEST} digits, or of two such divided.")
    return Fraction(value)


def whole_number(text: str) -> int:
    """Read a whole number as a person types it, in the digits 0 to 9.

    >>> whole_number("42")
    42
    """
    if not _WHOLE.fullmatch(text):
        raise InvalidTask(f"a whole number is written in the digits 0 to 9, at most 38 of them; got {text[:40]!r}.")
    return int(text)


def positive(value: Number, name: str) -> Fraction:
    """Read a number that must be above zero."""
    number = exact(value, name)
    if number <= 0:
        raise InvalidTask(f"{name} must be above zero; got {value!r}.")
    return number


def probability(value: Number, name: str) -> Fraction:
    """Read a number in [0, 1)."""
    number = exact(value, name)
    if not 0 <= number < 1:
        raise InvalidTask(f"{name} must be at least 0 and below 1; got {value!r}.")
    return number


def decimal_text(value: Fraction | int, digits: int = 12) -> str:
    """A fraction as the shortest decimal text (rounded to ``digits`` significant digits when it does not end)."""
    fraction = Fraction(value)
    if fraction == 0:
        return "0"
    quotient = Decimal(fraction.numerator) / Decimal(fraction.denominator)
    text = f"{quotient:.{digits}g}"
    return str(Decimal(text).normalize()).replace("E+0", "").replace("E", "e") if "e" in text else _trim(text)


def finite(value: Fraction) -> float:
    """A number inside what a float can say."""
    return float(max(-LARGEST, min(LARGEST, value)))


def figure(value: float) -> str:
    """A number for people: four digits, or all whole ones."""
    return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:.4g}"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class Unit:
    """Whose presence is hidden. Make one with ``users``, ``rows``, ``labels`` or ``holdout``."""

    kind: str
    column: str | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    n: int | None = None
    per: str | None = None
    time: str | None = None
    period: str | None = None

    def __str__(self) -> str:
        within = "" if self.per is None else f" in {self._within} (by {self.time!r})"
        whose = {
            "users": f"all rows of one value of {self._user!r}{within}",
            "periods": f"all rows of one value of {self.column!r}{within}",
            "rows": "one row",
            "labels": f"the label {self.column!r} of one row",
            "holdout": f"the holdout {self.column!r}",
        }[self.kind]
        how = {
            Neighbours.ADD_REMOVE: "added or removed",
            Neighbours.REPLACE: f"replaced (n = {self.n} is public)",
            Neighbours.CHANGE_LABEL: "changed",
        }[self.neighbours]
        return whose if self.kind == "holdout" else f"{whose}, {how}"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Unit.from_json`` reads it back."""
        known = {"kind": self.kind, "column": self.column, "neighbours": str(self.neighbours), "n": self.n}
        return known if self.per is None else known | {"per": self.per, "time": self.time, "period": self.period}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Unit:
        """Read back what ``to_json`` wrote."""
        known = data["kind"], data["column"], Neighbours(data["neighbours"]), data["n"]
        return cls(*known, data.get("per"), data.get("time"), data.get("period"))

    @property
    def _user(self) -> str | None:
        """The column of users, also where the unit is one of them in one of several periods."""
        column = self.column
        return column.removesuffix(f" by {self.per}") if column is not None and self.spans else column

    @property
    def _within(self) -> str:
        if self.period is None or self.spans:
            return f"one {self.per}" + (f" of {self.period}" if self.period else "")
        return self.period

    @property
    def spans(self) -> bool:
        """Whether this is the unit of several periods at once, in which what one user has in one period is hidden."""
        return self.period is not None and _TO in self.period

    @property
    def periods(self) -> list[str]:
        """The periods that a unit names, in order; none where it names none.

        >>> users("user", per="quarter", time="day").during("2025-Q4", "2026-Q1").periods
        ['2025-Q4', '2026-Q1']
        """
        if self.period is None or self.per is None:
            return []
        first, _, last = self.period.partition(_TO)
        found = [first]
        while found[-1] < last and len(found) <= MOST_PERIODS:
            found.append(_next(self.per, found[-1]))
        return found

    def during(self, period: str, last: str | None = None) -> Unit:
        """The unit of one period, such as ``"2026-03"`` where it is counted by the month; with ``last``, of all from one to the other."""
        if last is not None and last != period:
            ends = self.during(period).period, self.during(last).period
            if str(ends[0]) > str(ends[1]):
                raise InvalidTask(f"{last!r} is before {period!r}; name the first {self.per} first.")
            several = replace(self, period=f"{ends[0]}{_TO}{ends[1]}")
            if len(several.periods) > MOST_PERIODS:
                raise InvalidTask(f"a release is of at most {MOST_PERIODS} periods; these are more.")
            return several
        if self.per is None or self.period is not None:
            raise InvalidTask(f"only users(column, per=..., time=...) is counted by periods; this hides {self}.")
        if not isinstance(period, str) or not re.fullmatch(_PERIODS[self.per], period, re.ASCII):
            raise InvalidTask(f"a {self.per} is written like {_SUCH[self.per]!r}; got {period!r:.40}.")
        if self.per == "day":
            with contextlib.suppress(ValueError):
                return replace(self, period=date.fromisoformat(period).isoformat())
            raise InvalidTask(f"there is no day {period!r}.")
        return replace(self, period=period)

    @property
    def inside(self) -> Unit:
        """The unit within the table of one period's rows: there it is a user, and the rows are all that he has.

        In the table of several periods it is a user in one of them, whom a column of the table's own names (docs/proofs/periods.md).
        """
        if self.kind == "users" or not self.spans:
            return replace(self, kind="users")
        return replace(self, kind="users", column=f"{self.column} by {self.per}")


_YEAR, _SUCH = "(?!0000|9999)[0-9]{4}", {"day": "2026-03-31", "month": "2026-03", "quarter": "2026-Q1", "year": "2026"}
_PERIODS = {
    "day": f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}", "month": f"{_YEAR}-(0[1-9]|1[0-2])", "quarter": f"{_YEAR}-Q[1-4]", "year": _YEAR,
}  # fmt: skip
"""How the periods of each length are written: in one way, so that two names are never one period."""
_TO, MOST_PERIODS = "..", 100


def _next(per: str, period: str) -> str:
    """The period after one."""
    if per == "day":
        return (date.fromisoformat(period) + timedelta(days=1)).isoformat()
    year, _, rest = period.partition("-")
    within = {"month": 12, "quarter": 4, "year": 1}[per]
    place = within * int(year) + (int(rest.removeprefix("Q")) if rest else 1)
    form = {"month": "{:04}-{:02}", "quarter": "{:04}-Q{}", "year": "{:04}"}[per]
    return form.format(place // within, place % within + 1)


def _name(column: str, what: str) -> str:
    if not isinstance(column, str) or not column:
        raise InvalidTask(f"{what} needs a name; got {column!r}.")
    return column


def users(
    column: str,
    *,
    neighbours: str = "add-remove",
    n: int | None = None,
    per: str | None = None,
    time: str | None = None,
) -> Unit:
    """Hide all rows of one user. Replaced, it gives way to another with at least one row; that needs the public ``n``.

    With ``per="month"`` (day, quarter, year) and ``time``, a column of dates or times, what is hidden is one user's rows of one month: each month has a budget of
    its own (docs/ledger.md). A user with rows in several months is hidden in each by itself, and not in all of them together.
    """
    relation = _relation("users", neighbours, n)
    if per is None and time is None:
        return Unit("users", _name(column, "users(column)"), *relation)
    if per not in _PERIODS or relation[0] is not Neighbours.ADD_REMOVE:
        raise InvalidTask(f"per must be one of {', '.join(_PERIODS)}, with users added or removed; got {per!r}.")
    return Unit(
        "periods", _name(column, "users(column)"), *relation, per, _name(time or "", "users(per=..., time=...)")
    )


def rows(*, neighbours: str = "add-remove", n: int | None = None) -> Unit:
    """Hide one row. ``neighbours="replace"`` needs the public number of rows ``n``; declaring it makes it public."""
    return Unit("rows", None, *_relation("rows", neighbours, n))


def _relation(kind: str, neighbours: str, n: int | None) -> tuple[Neighbours, int | None]:
    """How neighbours of whole rows or users differ, with the public number of them where they are replaced."""
    try:
        relation = Neighbours(neighbours)
    except ValueError:
        raise InvalidTask(f"neighbours must be 'add-remove' or 'replace'; got {neighbours!r}.") from None
    if relation is Neighbours.CHANGE_LABEL:
        raise InvalidTask(f"{kind}() hides whole {kind}; to hide labels only use labels(column).")
    if relation is Neighbours.REPLACE and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise InvalidTask(f"{kind}(neighbours='replace') needs the public number of {kind}, n >= 1; got {n!r}.")
    if relation is Neighbours.ADD_REMOVE and n is not None:
        raise InvalidTask(f"under add-remove the number of {kind} is secret; give n only with neighbours='replace'.")
    return relation, n


def labels(column: str) -> Unit:
    """Hide one row's label; everything else about the row is public."""
    return Unit("labels", _name(column, "labels(column)"), Neighbours.CHANGE_LABEL)


def holdout(name: str) -> Unit:
    """A holdout whose validity (not privacy) is spent, in nats."""
    return Unit("holdout", _name(name, "holdout(name)"), Neighbours.REPLACE)


@dataclass(frozen=True, repr=False)
class Loss:
    """An exact amount in one currency: micro-epsilon, 1e-12 of mu squared, or micro-nats; ``delta`` in 1e-18.

    >>> Loss.pure("0.1") + Loss.pure(0.2) == Loss.pure("0.3")
    True
    >>> str(Loss.mu("0.5"))
    'mu 0.5'
    """

    currency: Currency
    amount: int
    delta: int = 0

    def __post_init__(self) -> None:
        if self.amount < 0 or self.delta < 0:
            raise InvalidTask(f"a loss cannot be negative; got {self.amount} and delta {self.delta}.")

    @classmethod
    def pure(cls, epsilon: Number) -> Loss:
        """A requested epsilon, rounded down to a micro; below one micro it is refused."""
        return cls(Currency.PURE, _floor(epsilon, "epsilon"))

    @classmethod
    def mu(cls, mu: Number) -> Loss:
        """A requested mu, rounded down to a micro."""
        return cls(Currency.GAUSSIAN, _floor(mu, "mu") ** 2)

    @classmethod
    def nats(cls, nats: Number) -> Loss:
        """A requested number of nats, rounded down to a micro."""
        return cls(Currency.NATS, _floor(nats, "nats"))

    @classmethod
    def cost(cls, currency: Currency, exact_amount: Fraction | int, delta: Fraction | int = 0) -> Loss:
        """A computed cost (epsilon, mu squared or nats), rounded up to the currency's integer."""
        scale = MICRO**2 if currency is Currency.GAUSSIAN else MICRO
        return cls(currency, math.ceil(exact_amount * scale), math.ceil(delta * ATTO))

    @classmethod
    def zero(cls, currency: Currency) -> Loss:
        """Nothing spent."""
        return cls(currency, 0)

    @property
    def value(self) -> Fraction:
        """The amount in its natural unit: epsilon, mu squared, or nats."""
        return Fraction(self.amount, MICRO**2 if self.currency is Currency.GAUSSIAN else MICRO)

    @property
    def additive_delta(self) -> Fraction:
        """The part of delta charged as a probability of failure."""
        return Fraction(self.delta, ATTO)

    def __add__(self, other: Loss) -> Loss:
        self._same(other)
        return Loss(self.currency, self.amount + other.amount, self.delta + other.delta)

    def __sub__(self, other: Loss) -> Loss:
        self._same(other)
        return Loss(self.currency, self.amount - other.amount, self.delta - other.delta)

    def __le__(self, other: Loss) -> bool:
        self._same(other)
        return self.amount <= other.amount and self.delta <= other.delta

    def __str__(self) -> str:
        number = decimal_text(self.value)
        text = {Currency.PURE: f"epsilon {number}", Currency.NATS: f"{number} nats"}.get(self.currency)
        if text is None:
            text = f"mu {_root_text(self.amount)}"
        return text + (f" and delta {decimal_text(self.additive_delta, 4)}" if self.delta else "")

    def __repr__(self) -> str:
        return f"Loss({str(self)!r})"

    def _same(self, other: Loss) -> None:
        if self.currency is not other.currency:
            raise CurrencyMismatch(f"{self.currency} and {other.currency} losses cannot be compared or added.")

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of integers; ``Loss.from_json`` reads it back."""
        return {"currency": str(self.currency), "amount": self.amount, "delta": self.delta}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Loss:
        """Read back what ``to_json`` wrote."""
        return cls(Currency(data["currency"]), data["amount"], data["delta"])


def _floor(value: Number, name: str) -> int:
    micro = math.floor(positive(value, name) * MICRO)
    if micro < 1:
        raise InvalidTask(f"{name} is counted in steps of 0.000001; {value!r} is below one step.")
    return micro


def _root_text(amount: int) -> str:
    root = math.isqrt(amount)
    return decimal_text(Fraction(root, MICRO)) if root * root == amount else f"{math.sqrt(amount) / MICRO:.6g}"


@dataclass(frozen=True, repr=False)
class Event:
    """What was done, with every parameter needed to account for it for ever.

    Names and their meanings never change and are never removed; a new meaning gets a new name. Parameters are
    integers or text, so an event reads the same on every machine. ``neighbours`` is the relation under which the
    parameters (a sensitivity, say) were derived.
    """

    name: str
    parameters: Mapping[str, int | str | list[int]] = field(default_factory=dict)
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    status: Status = Status.PROVED

    @classmethod
    def of(
        cls, name: str, neighbours: Neighbours = Neighbours.ADD_REMOVE, /, **given: int | str | list[int] | Fraction
    ) -> Event:
        """An event with these parameters, a fraction among them as two whole numbers.

        >>> Event.of("laplace", sensitivity=3, scale=Fraction(1, 2)).parameters
        {'sensitivity': 3, 'scale_numerator': 1, 'scale_denominator': 2}
        """
        parameters: dict[str, int | str | list[int]] = {}
        for key, value in given.items():
            if isinstance(value, Fraction):
                parameters |= {f"{key}_numerator": value.numerator, f"{key}_denominator": value.denominator}
            else:
                parameters[key] = value
        return cls(name, parameters, neighbours)

    def fraction(self, name: str) -> Fraction:
        """A parameter that is a fraction."""
        over, under = (int(str(self.parameters[f"{name}_{part}"])) for part in ("numerator", "denominator"))
        return Fraction(over, under)

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        shown = told if len(told) <= _EVENT_SHOWN else f"{told[:_EVENT_SHOWN]}…"
        return f"Event({self.name!r}: {shown}; {self.neighbours}, {self.status})"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Event.from_json`` reads it back."""
        return {
            "name": self.name,
            "parameters": dict(self.parameters),
            "neighbours": str(self.neighbours),
            "status": str(self.status),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Event:
        """Read back what ``to_json`` wrote."""
        return cls(data["name"], data["parameters"], Neighbours(data["neighbours"]), Status(data["status"]))


def composed(*events: Event) -> Event:
    """Several steps as one event: its price is the sum of theirs, its status the least of theirs."""
    text = json.dumps([event.to_json() for event in events], sort_keys=True)
    order = list(Status)
    return Event("composed", {"events": text}, status=max((event.status for event in events), key=order.index))


@dataclass(frozen=True)
class Terms:
    """What an account promises, all of it public: the unit, the cap, and the (epsilon, delta) it was opened with.

    ``delta`` is the whole delta of a Gaussian account; ``cap.delta`` of it is set aside for steps that fail with a
    probability, and the mu cap was solved at the rest. ``parent`` is the account above, which every charge is charged to as well.
    """

    unit: Unit
    cap: Loss
    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    parent: str | None = None

    @property
    def currency(self) -> Currency:
        """What the account counts in."""
        return self.cap.currency

    @property
    def filter_delta(self) -> Fraction:
        """The delta at which a task's epsilon is read: the account's, less what is set aside."""
        return self.delta - self.cap.additive_delta

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Terms.from_json`` reads it back."""
        epsilon = None if self.epsilon is None else str(self.epsilon)
        above = {} if self.parent is None else {"parent": self.parent}
        known = {"unit": self.unit.to_json(), "cap": self.cap.to_json(), "epsilon": epsilon, "delta": str(self.delta)}
        return known | above

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Terms:
        """Read back what ``to_json`` wrote."""
        epsilon = None if data["epsilon"] is None else written(data["epsilon"], "epsilon")
        unit, cap, delta = Unit.from_json(data["unit"]), Loss.from_json(data["cap"]), written(data["delta"], "delta")
        return cls(unit, cap, epsilon, delta, data.get("parent"))


def canonical(data: Any) -> bytes:
    """The one byte string of a JSON value: sorted keys, no spaces, no NaN; what hashes and chains are taken over."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
