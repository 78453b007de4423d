"""From text to a syntax tree; the text goes no further.

DuckDB's dialect is read, whichever engine will answer. One statement, and only a query or an expression.
"""

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from steelyard.errors import InvalidTask

_LONGEST = 50_000


def query(text: str) -> Any:
    """The tree of one query."""
    tree = _parsed(text, "a view")
    if not isinstance(tree, exp.Query):
        raise InvalidTask("a view is one SELECT statement.")
    return tree


def expression(text: str, what: str) -> Any:
    """The tree of one expression over the columns of a row."""
    tree = _parsed(f"SELECT {text}", what)
    items = tree.expressions if type(tree) is exp.Select else []
    if len(items) != 1 or any(value for name, value in tree.args.items() if name != "expressions"):
        raise InvalidTask(f"{what} is one expression over the columns of a row; got {text[:80]!r}.")
    if type(items[0]) is exp.Alias:
        raise InvalidTask(f"{what} is an expression without AS; the name stands before it.")
    return items[0]


def condition(text: str) -> Any:
    """The tree of a condition."""
    return expression(f"({text}\n)", "where")


def _parsed(text: str, what: str) -> Any:
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise InvalidTask(f"{what} is SQL text of 1 to {_LONGEST:,} characters; got {str(text)[:80]!r}.")
    try:
        trees = sqlglot.parse(text, dialect="duckdb")
    except (SqlglotError, RecursionError, ValueError):
        trees = []
    if len(trees) != 1 or trees[0] is None:
        raise InvalidTask(f"{what} cannot be read as one SQL statement (in DuckDB's dialect): {text[:200]!r}.")
    return trees[0]
