"""Questions in PostgreSQL's own SQL: every expression total, every integer that of the other engines.

PostgreSQL makes an error of what others give a value: a product of doubles that overflows or vanishes, a numeric that is no double, truth
as a double. So a number is held where its product with a public factor is finite and not lost, and cells are made plain before anything is
computed from them. Sums of 64-bit integers are numerics there, which have no end; sums of 32-bit ones are not, so that every integer literal is
written with its type. Text is compared and sorted by its bytes (collation "C"), and a digest is the same SHA-256 as everywhere.
Law: no cell can be an error, no cell decides a type, and no text of a question depends on a row (docs/proofs/postgres_in_place.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.tables._kinds import quoted
from steelyard.tables._plain import AFTER_LAST_DAY, FIRST_DAY, FIRST_MOMENT, LAST_MOMENT
from steelyard.tables._totals import DIGEST, LARGEST, Dialect, digest, double, factor_of, held

_LOST = 2.0**-60
"""A product below this added to one half is one half, whose floor is that of zero."""

_ROOM = 1 - 2.0**-50
_TOO_LARGE = 2**1024 - 2**970  # the least number that rounds to no double
_TOO_SMALL = f"{5**1075:01075d}"  # the digits of 2^-1075, the largest number that rounds to zero, behind the point
_DIGEST_SQL = "encode(sha256(convert_to({}, 'UTF8')), 'hex') COLLATE \"C\""

_AS_THEY_ARE = (16, 20, 21, 23, 700, 701, 2950)  # boolean, the integers, the floats, uuid
_TEXTS, _BYTES, _DATE, _MOMENT, _NUMERIC = (25, 1042, 1043), 17, 1082, 1114, 1700

_OWN = frozenset({
    "Abs", "Add", "Aggregate", "And", "Cast", "Coalesce", "CountStar", "DenseRank", "Distinct", "Divide", "DropColumns", "EndsWith", "Equals", "Field", "Filter",
    "Floor", "FloorDivide", "Greater", "GreaterEqual", "Greatest", "HexDigest", "IsNull", "JoinChain", "JoinLink", "JoinReference", "Least", "Less",
    "LessEqual", "Literal", "Lowercase", "Min", "MinRank", "Multiply", "Negate", "Not", "NotNull", "Or", "Project", "RowNumber", "SearchedCase", "SortKey",
    "Sqrt", "StringConcat", "StringLength", "Substring", "Subtract", "Sum", "UnboundTable", "Union", "WindowFunction",
})  # fmt: skip
"""The operations of this library's own questions, whose arguments are bounded by what the proofs say of them."""

_OF_ROWS = frozenset({
    "And", "Coalesce", "Equals", "Field", "Filter", "Greater", "GreaterEqual", "IsNull", "Less", "LessEqual", "Literal", "Not", "NotEquals", "NotNull", "Or", "Project",
    "SearchedCase", "StringSQLLike", "UnboundTable",
})  # fmt: skip
"""The operations of views that mean there what they mean here, and fail at nothing."""

_WRITTEN_ALIKE = ("integer", "string", "boolean", "date", "uuid", "decimal", "timestamp")


@dataclass(frozen=True)
class PostgresDialect(Dialect):
    """PostgreSQL's SQL with every expression total."""

    def written(self, question: Any) -> str:
        """An Ibis question as SQL that no cell can make fail."""
        text = super().written(total(question))
        if DIGEST not in text.lower():
            return text
        import sqlglot

        return str(sqlglot.parse_one(text, dialect=self.name).transform(_with_digest).sql(dialect=self.name))


POSTGRES = PostgresDialect("postgres", widens=True, rereads=True, local=True, clocked=True)


def _with_digest(node: Any) -> Any:
    import sqlglot
    from sqlglot import exp

    if isinstance(node, exp.Anonymous) and node.name.lower() == DIGEST:
        said = node.expressions[0].transform(_with_digest).sql(dialect=POSTGRES.name)
        return exp.Paren(this=sqlglot.parse_one(_DIGEST_SQL.format(said), dialect=POSTGRES.name))
    return node


def total(question: Any) -> Any:
    """The same question, in which no product is lost or infinite, truth is an integer first, and an integer literal has 64 bits."""
    import ibis
    import ibis.expr.operations as ops

    def put_right(node: Any, kwargs: Any) -> Any:
        made = node.__recreate__(kwargs) if kwargs else node
        if isinstance(made, ops.HexDigest):
            return digest()(made.arg.to_expr()).op()
        if isinstance(made, ops.Literal) and made.dtype.is_int64() and made.value is not None:
            return ibis.literal(str(made.value)).cast("int64").op()
        if isinstance(made, ops.Cast) and made.arg.dtype.is_boolean() and made.to.is_numeric():
            return made.arg.to_expr().cast("int32").cast(made.to).op()
        if isinstance(made, ops.Multiply | ops.Divide) and (factor := factor_of(made)) > 0:
            return type(made)(_kept(made.left.to_expr(), factor), made.right)
        return made

    return question.op().replace(put_right).to_expr()


def _kept(number: Any, factor: float) -> Any:
    """A number whose product with a factor is finite, and zero where that would be next to nothing."""
    import ibis

    near = held(number, LARGEST / factor * _ROOM) if factor > 1 else number
    return ibis.cases((near.abs() < double(_LOST / factor), double(0.0)), else_=near)


def cells(kinds: Mapping[str, str], types: Mapping[str, int], longest: int) -> dict[str, str]:
    """The columns that are read in place, each as SQL in plain form; told by the declared types alone."""
    found = {name: _cell(quoted(name), kind, types[name], longest) for name, kind in kinds.items()}
    return {name: f"{form} AS {quoted(name)}" for name, form in found.items() if form is not None}


def _cell(column: str, kind: str, type_: int, longest: int) -> str | None:
    """A cell in plain form, or nothing for a type that is not read in place."""
    if type_ in _AS_THEY_ARE:
        return column
    if type_ == _DATE:
        return _between(column, "date", FIRST_DAY, AFTER_LAST_DAY)
    if type_ == _MOMENT:
        return _between(column, "timestamp", FIRST_MOMENT, LAST_MOMENT)
    if kind == "VARCHAR" and (type_ in _TEXTS or type_ == _BYTES):
        text = f"CAST({column} AS text)"
        size = f"2 * octet_length({column})" if type_ == _BYTES else f"octet_length({text})"
        return f'(CASE WHEN {size} <= {longest} THEN {text} END) COLLATE "C"'
    if kind.startswith("DECIMAL(") and type_ == _NUMERIC:
        return f"NULLIF({column}, CAST('NaN' AS numeric))"
    return _nearest(column) if kind == "DOUBLE" and type_ == _NUMERIC else None


def _between(column: str, kind: str, first: str, after: str) -> str:
    return f"CASE WHEN {column} >= CAST('{first}' AS {kind}) AND {column} < CAST('{after}' AS {kind}) THEN {column} END"


def _nearest(column: str) -> str:
    """A numeric without bounds as the nearest double, as reading its text gives it; what is cast is never out of range."""
    large, small = f"CAST('{_TOO_LARGE}' AS numeric)", f"CAST('0.{_TOO_SMALL}' AS numeric)"
    inside = f"abs({column}) < {large} AND abs({column}) > {small}"
    return (
        f"CASE WHEN {column} = CAST('NaN' AS numeric) THEN CAST('NaN' AS double precision) "
        f"WHEN {column} >= {large} THEN CAST('Infinity' AS double precision) "
        f"WHEN {column} <= -{large} THEN CAST('-Infinity' AS double precision) "
        f"ELSE CAST(CASE WHEN {inside} THEN {column} WHEN {column} IS NOT NULL THEN 0 END AS double precision) END"
    )


def is_own(question: Any) -> bool:
    """Whether a question has only operations that are known to be total, and hashes only what is written as text alike everywhere."""
    import ibis.expr.operations as ops

    asked = question.op()
    if not {type(node).__name__ for node in asked.find(ops.Node)} <= _OWN | _OF_ROWS:
        return False
    if not all(map(_is_held, asked.find((ops.Add, ops.Subtract, ops.Multiply, ops.Divide, ops.FloorDivide, ops.Sum)))):
        return False
    compared = {each.arg for each in asked.find(ops.Lowercase)}
    texts = (each for each in asked.find(ops.Cast) if each.to.is_string() and each not in compared)
    return all(_written_alike(each.arg.dtype) for each in texts)


def _is_held(node: Any) -> bool:
    """Whether arithmetic is of integers, or of one double with a public one, so that its size is known; a quotient may be by what is at least one."""
    import ibis.expr.operations as ops

    if isinstance(node, ops.Sum):
        return bool(node.arg.dtype.is_int64() or node.arg.dtype.is_decimal())
    if isinstance(node, ops.FloorDivide):
        return _is_public(node.right)
    if not (node.left.dtype.is_floating() or node.right.dtype.is_floating()):
        return not isinstance(node, ops.Divide)
    if isinstance(node, ops.Subtract):
        return bool(node.left == node.right)
    return _is_public(node.right) or (isinstance(node, ops.Divide) and isinstance(node.right, ops.Greatest))


def _written_alike(kind: Any) -> bool:
    if kind.is_decimal():
        return kind.scale is None or kind.precision is None or kind.scale < kind.precision
    return any(getattr(kind, f"is_{each}")() for each in _WRITTEN_ALIKE) and not getattr(kind, "timezone", None)


def is_plain_view(rows: Any) -> bool:
    """Whether the rows of a view are made by conditions alone that fail at nothing: comparisons of values of one type."""
    import ibis.expr.operations as ops

    return all(_is_plain(node) for node in rows.op().find(ops.Node))


def _is_plain(node: Any) -> bool:
    import ibis.expr.operations as ops

    if isinstance(node, ops.Cast):
        return _is_public(node.arg) or _is_wider(node.arg, node.to)
    if isinstance(node, ops.Subtract):
        return bool(node.dtype.is_floating() and node.left == node.right)  # how a number is asked whether it is finite
    if isinstance(node, ops.Comparison):
        return bool(node.left.dtype.copy(nullable=True) == node.right.dtype.copy(nullable=True))
    return type(node).__name__ in _OF_ROWS


def _is_public(node: Any) -> bool:
    """Whether a value is written in the question: if it cannot be cast, the server says so before it reads a row."""
    import ibis.expr.operations as ops

    return isinstance(node, ops.Literal) or (isinstance(node, ops.Cast) and _is_public(node.arg))


def _is_wider(arg: Any, to: Any) -> bool:
    """Whether every value of a type is one of another, or has a nearest one; a decimal may go through its text."""
    import ibis.expr.operations as ops

    kind = arg.dtype
    if to.is_float64():
        written = isinstance(arg, ops.Cast) and kind.is_string() and arg.arg.dtype.is_decimal()
        return bool(kind.is_integer() or kind.is_decimal() or kind.is_floating() or written)
    if to.is_string():
        return bool(kind.is_decimal())
    return bool(kind.is_integer() and to.is_integer() and to.nbytes >= kind.nbytes)
