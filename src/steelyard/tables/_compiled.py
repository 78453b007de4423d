"""Questions in the SQL of engines that this library does not run: Databricks, Snowflake, BigQuery, Trino.

Ibis writes the question as for the engines that run, and what these engines do otherwise is put right: exact integers of 38 digits
(BigQuery's NUMERIC ends at 29), SHA-256 as hexadecimal digits in lower case, products of doubles that cannot overflow
(in BigQuery that is an error, and one row would decide it), truth as a number. The text is read back by sqlglot's grammar of the
dialect. Nothing here was run on such an engine, and the text says so.
Law: no text is given out for an engine whose sums may wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from steelyard.errors import InvalidTask, TableError
from steelyard.tables._engine import Engine, InPlace
from steelyard.tables._folding import Step
from steelyard.tables._plain import KEYS
from steelyard.tables._schema import Schema
from steelyard.tables._table import Table
from steelyard.tables._totals import DIGEST, LARGEST, Dialect, digest, factor_of, held
from steelyard.tables._unit_blocks import Convert, UnitBlocks

NOT_RUN = "compiled, not run here"
MOST_WRITTEN = 1000
"""The most public keys that are written into a text."""

_TYPES = {"integer": "int64", "float": "float64", "boolean": "boolean", "string": "string", "date": "date"}
_ROOM = 1 - 2.0**-50


@dataclass(frozen=True)
class OnPaper(Dialect):
    """A dialect that is written and not run.

    ``digest``: SHA-256 of a text in lower-case hexadecimal. ``exact``: its type for 38 digits, where Ibis writes another.
    """

    digest: str
    exact: str | None = None

    def written(self, question: Any) -> str:
        """An Ibis question as SQL of this dialect, read back by sqlglot."""
        import sqlglot
        from ibis.common.exceptions import IbisError
        from sqlglot.errors import SqlglotError

        try:
            text = super().written(total(question))
            tree = sqlglot.parse_one(text, dialect=self.name).transform(self._put_right)
            return str(tree.sql(dialect=self.name, pretty=True))
        except (IbisError, SqlglotError) as fault:
            raise InvalidTask(f"this question cannot be written for {self.name}: {fault}.") from None

    def _put_right(self, node: Any) -> Any:
        import sqlglot
        from sqlglot import exp

        if isinstance(node, exp.Anonymous) and node.name.lower() == DIGEST:
            said = node.expressions[0].transform(self._put_right).sql(dialect=self.name)
            return sqlglot.parse_one(self.digest.format(said), dialect=self.name)
        if self.exact and isinstance(node, exp.DataType) and node.this == exp.DataType.Type.DECIMAL:
            return exp.DataType.build(self.exact, dialect=self.name)
        if isinstance(node, exp.Window) and not node.args.get("order"):
            node.set("spec", None)  # the whole group either way, and not every engine takes a frame without an order
        return node


def _careful(name: str, digest: str, exact: str | None = None) -> OnPaper:
    """A dialect of which nothing is taken for granted."""
    return OnPaper(name, widens=False, rereads=False, local=False, clocked=False, digest=digest, exact=exact)


DIALECTS = {
    "databricks": _careful("databricks", "sha2({}, 256)"),
    "snowflake": _careful("snowflake", "sha2({}, 256)"),
    "bigquery": _careful("bigquery", "to_hex(sha256({}))", "BIGNUMERIC"),
    "trino": _careful("trino", "lower(to_hex(sha256(to_utf8({}))))"),
}
_REFUSED = {
    "clickhouse": "its sums of integers wrap around without a word, and its decimals are checked only when they are read from text, "
    "so that a sum need not be exact and its sensitivity is not known",
}


def compiled(question: Callable[[Table], object], columns: Mapping[str, str], dialect: str, table: str) -> str:
    """The SQL of one question about a table of public columns, for Databricks, Snowflake, BigQuery or Trino; nothing is run.

    The answer to it is private: exact integers for a mechanism to add noise to. A question that samples (``Limits``, ``keep_rows``,
    ``distinct_values``) has its secret in the text: keep that text as you keep the rows.

    >>> from steelyard.privacy import users
    >>> print(compiled(lambda t: t.count_units(users("user")), {"user": "integer"}, "trino", "shop.orders"))
    -- trino: compiled, not run here
    SELECT
      COUNT(*) FILTER(WHERE
        NOT "t1"."u" IS NULL) AS "n"
    FROM (
      SELECT DISTINCT
        "t0"."user" AS "u"
      FROM "shop"."orders" AS "t0"
    ) AS "t1"
    """
    import ibis

    engine = PaperEngine(_dialect(dialect))
    *above, name = _parts(table)
    path = dict(zip(("database", "catalog"), reversed(above), strict=False))
    asked = Table(engine, ibis.table(_types(columns), name=name, **path))
    try:
        question(asked)
    except _Written as written:
        return f"-- {dialect}: {NOT_RUN}\n{written.text}"
    raise InvalidTask("the question asks the table nothing, so there is no SQL to write.")


def _dialect(name: str) -> OnPaper:
    if name in _REFUSED:
        raise TableError(f"no question is written for {name}: {_REFUSED[name]}. Use one of {', '.join(DIALECTS)}.")
    if name not in DIALECTS:
        raise TableError(f"a question is written for one of {', '.join(DIALECTS)}; got {name!r}.")
    return DIALECTS[name]


def _parts(table: str) -> list[str]:
    parts = table.split(".") if isinstance(table, str) else []
    if not 1 <= len(parts) <= 3 or not all(parts) or parts[-1] == KEYS:
        raise InvalidTask(f"a table is named 'orders', 'shop.orders' or 'project.shop.orders'; got {table!r}.")
    return parts


def _types(columns: Mapping[str, str]) -> dict[str, str]:
    for name, kind in Schema(columns).columns.items():
        if kind not in _TYPES:
            raise TableError(
                f"column {name!r} holds {kind} values, which are not written for other engines; "
                f"leave it out, or make it one of {', '.join(_TYPES)}."
            )
    return {name: _TYPES[kind] for name, kind in columns.items()}


def total(question: Any) -> Any:
    """The same question with the digest under a name of its own, truth a number first, and no product of doubles that overflows.

    A number is held where its product with a public factor stays finite. What lies beyond has a product beyond ±2^53, which a
    row's integer ends at, so no integer changes.
    """
    import ibis.expr.operations as ops

    def put_right(node: Any, kwargs: Any) -> Any:
        made = node.__recreate__(kwargs) if kwargs else node
        if isinstance(made, ops.HexDigest):
            return digest()(made.arg.to_expr()).op()
        if isinstance(made, ops.Cast) and made.arg.dtype.is_boolean() and made.to.is_floating():
            return made.arg.to_expr().cast("int64").cast("float64").op()
        if isinstance(made, ops.Multiply | ops.Divide) and (factor := factor_of(made)) > 1:
            return type(made)(held(made.left.to_expr(), LARGEST / factor * _ROOM), made.right)
        return made

    return question.op().replace(put_right).to_expr()


class _Written(Exception):
    """The SQL of the question that was asked."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class PaperEngine:
    """An engine that answers no question: the first one ends with its text."""

    def __init__(self, dialect: OnPaper) -> None:
        self.dialect: Dialect = dialect
        self.token: object = object()
        self.held: object = None
        self.server: InPlace | None = None
        self.origin: frozenset[str] = frozenset()

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """The text of a question."""
        raise _Written(sql)

    def arrow(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> Any:
        """The text of a question, its public keys among it."""
        raise _Written(_beside(sql, beside, self.dialect.name))

    def beside(self) -> str:
        """The name of the public keys."""
        return KEYS

    def showing(self, more: Mapping[str, Callable[[], Any]]) -> Engine:
        """Refused."""
        _refuse("views")

    def bind(self, sql: str, columns: Sequence[str], empty: Mapping[str, Any]) -> bool:
        """Refused."""
        _refuse("views")

    def batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Refused."""
        _refuse("streams of rows")

    def held_batches(self, columns: Sequence[str], size: int) -> None:
        """None: there are no rows."""

    def fold(self, sql: str, columns: Sequence[str], size: int, step: Step, start: Sequence[Any]) -> list[Any]:
        """Refused."""
        _refuse("fits")

    def unit_blocks(
        self,
        sql: str,
        columns: Sequence[str],
        whose: str | None,
        convert: Convert,
        width: int,
        aside: Step | None = None,
    ) -> UnitBlocks:
        """Refused."""
        _refuse("fits by users")


def _refuse(what: str) -> NoReturn:
    raise TableError(
        f"{what} are not written for other engines, only totals, counts of units, histograms and sums by key."
    )


def _beside(sql: str, beside: Mapping[str, Any], dialect: str) -> str:
    """The text with each public table written where it is named."""
    import sqlglot
    from sqlglot import exp

    if any(content.num_rows > MOST_WRITTEN for content in beside.values()):
        raise InvalidTask(f"at most {MOST_WRITTEN} public keys are written into a text.")

    def written(node: Any) -> Any:
        if isinstance(node, exp.Table) and node.name in beside:
            rows = sqlglot.parse_one(_values(beside[node.name], dialect), dialect=dialect)
            return exp.Subquery(this=rows, alias=node.args["alias"].copy())
        return node

    return str(sqlglot.parse_one(sql, dialect=dialect).transform(written).sql(dialect=dialect, pretty=True))


def _values(content: Any, dialect: str) -> str:
    """A public Arrow table as a query: no engine needs more than SELECT and casts for it."""
    rows = zip(*(column.to_pylist() for column in content.columns), strict=True)
    kinds = [_sql_type(kind) for kind in content.schema.types]
    names = content.column_names
    return " UNION ALL ".join(f"SELECT {_cells(row, kinds, names, dialect)}" for row in rows)


def _cells(row: Sequence[Any], kinds: Sequence[str], names: Sequence[str], dialect: str) -> str:
    from sqlglot import exp

    cells = [exp.cast(_literal(value), kind) for value, kind in zip(row, kinds, strict=True)]
    named = [exp.alias_(cell, name, quoted=True) for cell, name in zip(cells, names, strict=True)]
    return ", ".join(each.sql(dialect=dialect) for each in named)


def _literal(value: Any) -> Any:
    from sqlglot import exp

    if value is None:
        return exp.null()
    return exp.Literal.string(str(value).lower() if isinstance(value, bool) else str(value))


def _sql_type(kind: Any) -> str:
    import pyarrow as pa

    named = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.date32(): "DATE"}
    return named.get(kind, "TEXT")
