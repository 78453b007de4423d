"""A question in SQL: the outermost aggregation becomes tasks, what stands below it a view, and the rest acts on released numbers.

``select country, sum(quantity * price) as revenue from orders where quantity > 0 group by country order by revenue desc`` is a view with the
columns that are grouped and added up, a ``Sum`` by country, and a sort of its answer. HAVING, ORDER BY and LIMIT are free, since they read
what was released. Several aggregates are one ``Together``: one price, one choice of keys, one pass. epsilon is divided equally among them (on a
Gaussian account mu squared is).
Law: nothing here reads a row; a statement that has no tasks is refused before anything is charged, with what could be asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from steelyard.accounting import mu_request, price, told
from steelyard.answers import Cell
from steelyard.bounding import Count, CountDistinct, CountUsers, Together
from steelyard.documents import request_of
from steelyard.errors import InvalidTask
from steelyard.privacy import Currency, Loss, Number, Terms, positive
from steelyard.requests._replies import columns
from steelyard.requests._selects import (
    COULD,
    KEYED,
    LIMITS,
    Outer,
    aggregates,
    below,
    check_groups,
    name_of,
    part,
    tables_of,
)
from steelyard.requests._sql_answers import Answers
from steelyard.tables import chosen, read_keys, view_of
from steelyard.views import query

if TYPE_CHECKING:
    from steelyard.plan import Error, Task
    from steelyard.session import Session
    from steelyard.tables import Work

_MADE_UP: dict[str, Any] = {
    "integer": 1,
    "float": 1.5,
    "decimal": Decimal("1.5"),
    "boolean": True,
    "date": date(2000, 1, 1),
}
_WHOLE = (Count, CountUsers, CountDistinct)


def _made_up(kind: str, found: bool) -> Any:
    """A key of a column; of one that is found, as JSON tells it: a decimal as a whole number or as text, by the places of its type."""
    key = _MADE_UP.get(kind, "a")
    if not found or kind not in ("date", "decimal"):
        return key
    return str(key) if kind == "date" else None


@dataclass(frozen=True, repr=False)
class Asked:
    """What a statement became: a session over its view, tasks by the name of their column, and what is done with the answers."""

    session: Session
    keys: tuple[str, ...]
    tasks: Mapping[str, Task]
    names: tuple[str, ...]
    having: Any
    order: tuple[tuple[str, bool], ...]
    limit: int | None
    offset: int

    def request(self) -> Task:
        """All of it as one task: one price, one choice of keys, one pass over the rows."""
        tasks: list[Any] = list(self.tasks.values())
        return tasks[0] if len(tasks) == 1 else Together(tasks)

    def plan(self) -> str:
        """The tasks, their prices and the errors to expect, in words; spends nothing and reads no row."""
        lines, (how, spent, enough) = self._told()
        return columns([*lines, ("all", how, spent, f"enough: {enough}")])

    def work(self) -> Work:
        """How often all of it would read the rows, and in how many engine jobs; spends nothing and reads no row."""
        return self.session.work(self.request())

    def to_json(self) -> dict[str, Any]:
        """The same for a program: each task as its request, with its price and the error to expect; the whole price, and whether the account has it."""
        found = [
            {"name": name, "task": request_of(self.tasks[name]), "cost": cost.to_json(), "error": error and error.to_json()}
            for name, (cost, error) in self._planned().items()
        ]  # fmt: skip
        cost, left = self.session.quote(self.request()), self.session.account.remaining
        return {"tasks": found, "cost": cost.to_json(), "enough": cost <= left, "remaining": left.to_json()}

    def _planned(self) -> dict[str, tuple[Loss, Error | None]]:
        """The share of each task and the error to expect of it, beside the others: what is set aside for keys is paid once, by all."""
        terms, found = self.session.account.terms, {}
        for name, task in self.tasks.items():
            plan: Any = self.session.plan(task)
            event, error = plan.event, plan.predicted
            if len(self.tasks) > 1:  # a task that finds keys for itself alone may spend it otherwise
                beside: Any = task.request(self.session.schema, terms)  # type: ignore[attr-defined]
                event, error = beside.groups.event(beside.event), beside.predicted
            found[name] = replace(price(event, terms), delta=0), error
        return found

    def _told(self) -> tuple[list[tuple[str, ...]], tuple[str, str, str]]:
        terms = self.session.account.terms
        lines: list[tuple[str, ...]] = [
            (name, _in_words(self.tasks[name]), told(cost, terms, cost=True), str(error or "error known after the release"))
            for name, (cost, error) in self._planned().items()
        ]  # fmt: skip
        spent, left = self.session.quote(self.request()), self.session.account.remaining
        enough = "yes" if spent <= left else "no: it would be refused"
        how = f"{len(self.tasks)} together" if len(self.tasks) > 1 else ""
        return lines, (how, told(spent, terms, cost=True), enough)

    def __repr__(self) -> str:
        return f"Asked({', '.join(f'{name} = {type(task).__name__}' for name, task in self.tasks.items())}; {self.session.quote(self.request())})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        lines, (how, spent, enough) = self._told()
        header = ("column", "task", "price", "error to expect")
        table = Tabular(header, [*lines, ("all", how, spent, f"enough: {enough}")])
        return fragment("Plan of a question", table, "Nothing was spent and nothing was read.")

    def release(self, key: str | None = None) -> Answers:
        """Pay for the tasks, run them, and put their answers into one table."""
        release = self.session.release(self.request(), key=key)
        values = [release.value] if len(self.tasks) == 1 else release.value
        parts = dict(zip(self.tasks, release.parts, strict=True))
        rows = self._rows(dict(zip(self.tasks, values, strict=True)))
        known = {name: {tuple(k for _, k in cell.keys): cell for cell in part.each()} for name, part in parts.items()}
        cells = [{name: self._cell(row, name, known[name]) for name in self.tasks} for row in rows]
        return Answers(rows, release, self.names, parts, cells)

    def _cell(self, row: Mapping[str, Any], name: str, known: Mapping[Any, Cell]) -> Cell:
        """The number of a row with its error, under the names that the statement gives."""
        keys = tuple((key, row[key]) for key in self.keys)
        found = known.get(tuple(key for _, key in keys), Cell(name, keys, row[name]))
        return found._replace(of=name, keys=keys)

    def held(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that HAVING keeps; of none, whether it can be asked at all. A made-up row before them says what types the answer has."""
        if self.having is None:
            return rows
        found = any(getattr(task, "keys", None) is None for task in self.tasks.values())
        keys = {name: _made_up(self.session.schema.columns[name], found) for name in self.keys}
        first = keys | {name: 1 if type(task) in _WHOLE else 1.5 for name, task in self.tasks.items()}
        return [rows[place - 1] for place in chosen([first, *rows], self.having) if place]

    def _rows(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        if not self.keys:
            rows = [dict(values)]
        else:
            found = list(dict.fromkeys(key for value in values.values() for key in value))
            rows = [{**self._key(key), **{name: value.get(key) for name, value in values.items()}} for key in found]
        kept = self.held(rows)
        for name, down in reversed(self.order):
            kept.sort(key=lambda row: (row[name] is None) != down, reverse=down)
            there = [row for row in kept if row[name] is not None]
            there.sort(key=lambda row: row[name], reverse=down)
            kept = [*there, *(row for row in kept if row[name] is None)]
        end = None if self.limit is None else self.offset + self.limit
        return [{name: row[name] for name in self.names} for row in kept[self.offset : end]]

    def _key(self, key: Any) -> dict[str, Any]:
        return dict(zip(self.keys, key if len(self.keys) > 1 else (key,), strict=True))


def asked(
    session: Session,
    table: Any,
    text: str,
    price_: Mapping[str, Any],
    options: Mapping[str, Any],
    tables: Mapping[str, Any],
) -> Asked:
    """A statement as tasks and a view over a session's table; ``tables`` are public ones that it names."""
    tree = query(text)
    if type(tree) is not exp.Select or tree.args.get("distinct"):
        raise InvalidTask(f"a question is one SELECT with aggregates: {COULD}.")
    items = [
        (name_of(each, i), each.this if type(each) is exp.Alias else each) for i, each in enumerate(tree.expressions)
    ]
    if len({name.casefold() for name, _ in items}) < len(items):
        raise InvalidTask("two columns of the answer have one name; name one of them with AS.")
    hidden = session.account.terms.unit
    unit = hidden.column if hidden.kind == "users" else None
    found = {name: node for name, node in items if aggregates(node)}
    keys = {name: node for name, node in items if name not in found}
    if not found:
        raise InvalidTask(f"nothing is aggregated, and rows are private: {COULD}.")
    check_groups(tree, keys)
    made: dict[str, Any] = {} if unit is None else {unit: exp.column(unit, quoted=True)}
    made |= {} if hidden.time is None else {hidden.time: exp.column(hidden.time, quoted=True)}  # a period is told by it
    made |= keys
    parts = {name: part(name, node, made, unit) for name, node in found.items()}
    over = session.over(view_of(below(tree, made), tables_of(tree, table, tables)))
    shares = _shares(price_, len(parts), session.account.terms)
    by = None if not keys else (next(iter(keys)) if len(keys) == 1 else list(keys))
    if keys and options.get("keys") is not None:
        options = {**options, "keys": read_keys(options["keys"], list(keys))}  # once for all
    tasks = {name: each.priced(by, shares, _of(options, name)) for name, each in parts.items()}
    outer = Outer(tree, dict(items))
    made_of = Asked(over, tuple(keys), tasks, tuple(name for name, _ in items), outer.having(), outer.order(), outer.number("limit"), outer.number("offset") or 0)  # fmt: skip
    made_of.held([])  # refused before a charge
    return made_of


def _shares(price_: Mapping[str, Any], parts: int, terms: Terms) -> dict[str, Any]:
    """What each of so many aggregates may spend: an equal part of epsilon, or of mu squared."""
    given = {name: value for name, value in price_.items() if value is not None}
    if parts == 1 or not given:
        return given
    if terms.currency is not Currency.GAUSSIAN:
        return {name: positive(value, name) / parts for name, value in given.items()}
    if "mu" in given:
        micro = math.floor(positive(given["mu"], "mu") * 10**6)
    else:
        micro = mu_request(positive(given["epsilon"], "epsilon"), terms.filter_delta)
    return {"mu": Fraction(math.isqrt(micro * micro // parts), 10**6)}


def _of(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The options of one aggregate: those given for all, or by the name of its column."""
    found: dict[str, Any] = {}
    for option, value in options.items():
        each = value.get(name) if isinstance(value, Mapping) and option in LIMITS else value
        found |= {} if each is None else {option: each}
    return found


def _in_words(task: Any) -> str:
    """A task as it would be typed, without its keys and without what is so by itself."""
    chosen_ = [
        each for each in fields(task) if each.init and each.name != "keys" and getattr(task, each.name) != each.default
    ]
    told_ = ((each.name, getattr(task, each.name)) for each in chosen_)
    words = (f"{name}={_decimal(value) if isinstance(value, Fraction) else value}" for name, value in told_)
    return f"{type(task).__name__}({', '.join(words)})"


def _decimal(value: Fraction) -> str:
    return f"{float(value):.6g}"


def ask(
    session: Session,
    table: Any,
    text: str,
    *,
    epsilon: Number | None,
    mu: Number | None,
    tables: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Asked:
    """What ``Session.sql`` and ``steelyard ask`` share."""
    unknown = set(options) - {*LIMITS, *KEYED}
    if unknown:
        raise InvalidTask(f"unknown options {', '.join(sorted(unknown))}.")
    return asked(session, table, text, {"epsilon": epsilon, "mu": mu}, options, tables)
