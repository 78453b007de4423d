"""No accepted view lets one unit change another's rows, and no row makes one fail; a checker that lets a mixing clause through is caught."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlglot import expressions as exp

from steelyard.views import Checker, Relation
from steelyard.views import _functions as functions
from steelyard.views import _numbers as numbers
from steelyard.views import _windows as windows
from steelyard.views._values import Value
from view_fuzz import found_in


@pytest.mark.parametrize("seed", range(4))
def test_five_hundred_accepted_views_keep_people_apart(seed: int) -> None:
    drawn, problems = found_in(seed, 500, deep=1)
    assert problems == []
    assert drawn > 600, "hardly anything was refused: the grammar has lost its mixing clauses"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_two_thousand_deeper_views_keep_people_apart(seed: int) -> None:
    assert found_in(seed, 2_000)[1] == []


class Unpartitioned(Checker):
    """Lets a window read everybody's rows."""

    def partitioned(
        self, relation: Relation, kept: Mapping[str, Any], group: Sequence[Value], node: Any
    ) -> Mapping[str, Any]:
        return kept


class Limited(Checker):
    """Lets LIMIT through, in an order that is fixed."""

    def _select(self, node: Any, named: Mapping[str, Relation]) -> Relation:
        limit = node.args.get("limit")
        node = node.copy()
        node.set("limit", None)
        made = super()._select(node, named)
        rows = made.expr
        return made if limit is None else replace(made, expr=rows.order_by(list(rows.columns)).limit(6))


class Joining(Checker):
    """Joins private tables by any column and keeps the left one's unit."""

    def _joined_units(self, left: Relation, right: Relation, equal: Any, outer: bool) -> Relation:
        return replace(left, leaves=left.leaves | right.leaves, weights={})


class Stacking(Checker):
    """Takes a table twice and calls its rows single."""

    def _stacked(self, left: Relation, right: Relation, node: Any) -> Relation:
        return replace(super()._stacked(left, right, node), single=True)


@pytest.mark.parametrize(
    ("broken", "about"),
    [(Unpartitioned, " over ("), (Limited, " limit "), (Joining, " join o "), (Stacking, " union all ")],
)
def test_a_checker_that_lets_a_mixing_clause_through_is_caught(broken: type[Checker], about: str) -> None:
    assert found_in(7, 50, broken, deep=1, about=about)[1]


def test_a_checker_that_lets_a_scalar_sub_query_through_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    import ibis

    from view_fuzz import SCHEMAS

    number = ibis.table(SCHEMAS["t"], name="t").count().as_scalar()
    monkeypatch.setitem(functions._TRANSLATIONS, exp.Subquery, lambda to, node: Value(number, "integer"))
    assert found_in(8, 50, deep=1, about="(select max")[1]


def test_a_window_that_leaves_ties_to_the_engine_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows.Windows, "_rest", lambda self, order: [])
    assert found_in(9, 50, deep=1, about="row_number")[1]


def test_arithmetic_that_overflows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(left: Value, right: Value) -> Value:
        return Value(left.expr * right.expr, "integer" if left.kind == right.kind == "integer" else "float")

    monkeypatch.setattr(numbers, "multiplied", plain)
    assert any("makes it fail" in each for each in found_in(10, 50, deep=1, about="n * n")[1])
