"""A plan is made of public facts: on paper it is the one that is made on rows, and making it reads none of them."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import pytest

from steelyard.audit._corpus import Corpus
from steelyard.audit._suite import PLACED, WHO, Item, gaussian, pure, set_aside, tasks
from steelyard.bounding import Count, CountUsers, Sum, Together
from steelyard.errors import ColumnMissing, InvalidTask, TableError
from steelyard.models.accuracy import GradualSum
from steelyard.plan import Plan
from steelyard.privacy import Terms, users
from steelyard.tables import Schema, Table, read
from steelyard.tables._engine import DuckEngine

BY: dict[str, Any] = {"by": "land", "keys": ["FR", "DE"]}
MORE = {
    "sum, private cap and keys": Item(
        Sum("amount", epsilon=1, upper=9, by="land", max_keys=2), set_aside(WHO), {**PLACED}
    ),
    "users, private keys": Item(CountUsers(epsilon=1, by="land", max_keys=2), set_aside(WHO), {**PLACED}),
    "together": Item(
        Together([Sum("amount", epsilon=1, upper=9, **BY), Count(epsilon=1, cap=2, **BY)]), pure(WHO), PLACED
    ),
}
ITEMS = {**tasks(), **MORE}
KINDS = {"float64": "float", "int64": "integer", "string": "string", "date32": "date"}


def paper(item: Item) -> Schema:
    """The columns of an item as somebody writes them down who has never seen a row."""
    assert item.columns is not None
    return Schema({name: KINDS.get(pool.arrow, pool.arrow.split("128")[0]) for name, pool in item.columns.items()})


def table_of(item: Item, number: int) -> Table:
    """A table of that many rows of hostile values."""
    assert item.terms is not None
    assert item.columns is not None
    held = list(Corpus(item.terms.unit, item.columns, share=20).tables().values())
    return read(Corpus(item.terms.unit, item.columns).arrow(max(held, key=len)[:number]))


def faults(item: Item, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where a plan depends on more than public facts."""
    tables = [table_of(item, number) for number in (0, 50)]
    with monkeypatch.context() as patch:
        for question in ("rows", "batches", "fold"):
            patch.setattr(DuckEngine, question, reads)
        try:
            made = [item.subject.plan(schema, item.terms) for schema in (paper(item), *(t.schema for t in tables))]
        except RowsRead:
            return ["rows were read"]
    first = made[0]
    same = all((plan.event, plan.predicted) == (first.event, first.predicted) for plan in made)
    return [] if same else ["the plan is another on other rows"]


class RowsRead(Exception):
    """A table was asked."""


def reads(*_: Any) -> Any:
    raise RowsRead


@pytest.mark.parametrize("name", ITEMS)
def test_a_task_is_planned_on_paper_as_on_a_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not faults(ITEMS[name], monkeypatch)


class Peeks(Sum):
    """Has kept a table, and looks at it to set its price."""

    held = read({"who": ["a", "b"], "amount": [1.0, 2.0]})

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        return Sum("amount", epsilon=self.held.count_units(WHO), cap=1).plan(schema, terms)


class Learns(Sum):
    """Costs more each time."""

    times: ClassVar = [1]

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        self.times.append(self.times[-1] + 1)
        return Sum("amount", epsilon=self.times[-1], cap=1).plan(schema, terms)


@pytest.mark.parametrize("twin", [Peeks, Learns])
def test_a_plan_of_more_than_public_facts_is_caught(twin: type[Sum], monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults(Item(twin("amount", epsilon=1, cap=1), pure(WHO), PLACED), monkeypatch)


def test_a_dialogue_is_checked_on_paper() -> None:
    GradualSum("amount", cap=1).check(Schema({"who": "string", "amount": "float"}), gaussian(WHO))
    with pytest.raises(ColumnMissing):
        GradualSum("amount", cap=1).check(Schema({"who": "string"}), gaussian(WHO))


def test_a_schema_refuses_what_it_rules_out() -> None:
    schema = Schema({"who": "string", "amount": "float", "odd": "other"})
    assert dict(schema.columns) == {"who": "string", "amount": "float", "odd": "other"}
    assert (schema.numeric["amount"], schema.naming["who"], schema.naming[None]) == ("float", "string", "row")
    schema.require_unit(users("who"))
    assert schema.require_keys("who", ["a"]) == ["a"]
    for refused in (
        lambda: schema.require("whom"),
        lambda: schema.require_numeric("who"),
        lambda: schema.require_unit(users("odd")),
        lambda: schema.require_keys("odd"),
        lambda: schema.numeric["who"],
        lambda: schema.numeric["whom"],
        lambda: schema.naming["odd"],
        lambda: pickle.loads(pickle.dumps(schema)).naming["whom"],  # noqa: S301 - our own bytes
    ):
        with pytest.raises(TableError):
            refused()
    with pytest.raises(InvalidTask):
        schema.require_keys("amount", ["a"])


def test_a_schema_has_columns_of_known_kinds_and_travels() -> None:
    with pytest.raises(InvalidTask, match="got 'int'"):
        Schema({"who": "int"})
    with pytest.raises(TableError, match="letter case"):
        Schema({"who": "string", "Who": "string"})
    with pytest.raises(TableError, match="no columns"):
        Schema({})
    schema = pickle.loads(pickle.dumps(read({"who": ["a"]}).schema))  # noqa: S301 - our own bytes
    assert repr(schema) == "Schema({'who': 'string'})"
    with pytest.raises(TypeError):
        schema.columns["who"] = "integer"
