"""Columns in plain form: what reaches a question can be compared, fetched and written as text without ever failing.

Chosen from the schema alone, before anything is read. Text is compared by its bytes, whatever collation its column has,
and bytes that are no text are replaced by a mark; dates that Python cannot hold and integers of more than 38 digits are missing.
What DuckDB may fail to read at all is made a kind that no question takes.
Law: a plain form is a total function of the cell alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import Any

SOURCE = "steelyard_source"
"""What a source is called inside its engine, as it comes."""

PLAIN = "steelyard_plain"
"""The same with every column in plain form: what questions are asked of."""

KEYS = "steelyard_keys"
"""What the table of public keys is called beside it."""

Bind = Callable[[Any, Sequence[str], bool], None]
"""Makes the source visible on a fresh DuckDB cursor under the name ``SOURCE``.

It is given the columns that are needed (none: the schema alone), and whether they are certainly read only once.
"""

AS_IT_IS = "{}"
"""For text that its reader has repaired and that has no collation."""

BY_BYTES = '{} COLLATE "binary"'
"""For text of a DuckDB database, which is valid but may be collated."""

REPAIRED = "decode(encode({}), 'replace')"
"""For text that nobody has checked."""

FIRST_DAY, AFTER_LAST_DAY = "0001-01-01", "10000-01-01"
FIRST_MOMENT, LAST_MOMENT = "0001-01-03", "9999-12-30"  # in whatever time zone Python then reads them
_NARROW = 18  # the digits of decimals that DuckDB keeps in 64 bits, all of which it can write
_MOMENTS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE")


def unusable(names: Sequence[str]) -> str:
    """What follows ``SELECT *`` so that columns are seen but cannot be used: DuckDB may fail as soon as it reads them."""
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    return f" REPLACE ({', '.join(f'struct_pack(v := {name}) AS {name}' for name in quoted)})" if quoted else ""


def in_duckdb(name: str, kind: str, text: str) -> str:
    """A column of a DuckDB type as SQL; ``text`` says how text becomes plain."""
    column = '"' + name.replace('"', '""') + '"'
    if kind == "VARCHAR":
        return text.format(column)
    if kind.startswith("ENUM"):
        return f"CAST({column} AS VARCHAR)"
    if kind == "HUGEINT":
        return f"TRY_CAST({column} AS DECIMAL(38, 0))"
    if kind == "DATE":
        return _between(column, kind, FIRST_DAY, AFTER_LAST_DAY)
    if kind == "TIMESTAMP_NS":
        return f"CASE WHEN isfinite({column}) THEN {column} END"
    if kind.startswith("DECIMAL(") and int(kind[8:].partition(",")[0]) > _NARROW:
        return _within_digits(column, kind)
    return _between(column, kind, FIRST_MOMENT, LAST_MOMENT) if kind in _MOMENTS else column


def _within_digits(column: str, kind: str) -> str:
    """A decimal that has more digits than its type, as a file can hold them, is missing: not every one can be written."""
    digits, places = map(int, kind[8:-1].split(","))
    most = "9" * (digits - places) + "." + "9" * places
    return f"CASE WHEN {column} BETWEEN CAST('-{most}' AS {kind}) AND CAST('{most}' AS {kind}) THEN {column} END"


def _between(column: str, kind: str, first: str, after: str) -> str:
    lower, upper = f"CAST('{first}' AS {kind})", f"CAST('{after}' AS {kind})"
    return f"CASE WHEN {column} >= {lower} AND {column} < {upper} THEN {column} END"


def in_spark(frame: Any, doubtful: Collection[str]) -> Any:
    """A Spark data frame with its columns in plain form; nothing runs. The doubtful ones are seen but cannot be used."""
    spark = _functions(frame)
    return frame.select(
        *(_spark_column(field, field.name in doubtful, spark).alias(field.name) for field in frame.schema.fields)
    )


def _functions(of: Any) -> Any:
    """The functions of the kind of session that a frame or column is of: classic ones make nothing for Spark Connect."""
    remote = type(of).__module__.startswith("pyspark.sql.connect.")
    return import_module("pyspark.sql.connect.functions" if remote else "pyspark.sql.functions")


def _spark_column(field: Any, doubtful: bool, spark: Any) -> Any:
    from pyspark.sql.types import DateType, StringType, TimestampNTZType, TimestampType

    column, kind = spark.col("`" + field.name.replace("`", "``") + "`"), field.dataType
    if doubtful:
        return spark.struct(column.alias("v"))
    if isinstance(kind, StringType):
        return spark.collate(spark.make_valid_utf8(spark.collate(column, "UTF8_BINARY")), "UTF8_BINARY")
    if isinstance(kind, DateType):
        return spark.when(
            (column >= spark.lit(FIRST_DAY).cast("date")) & (column <= spark.lit("9999-12-31").cast("date")), column
        )
    if not isinstance(kind, TimestampType | TimestampNTZType):
        return column
    held = spark.when(
        (column >= spark.lit(FIRST_MOMENT).cast(kind)) & (column < spark.lit(LAST_MOMENT).cast(kind)), column
    )
    return _on_one_clock(held) if isinstance(kind, TimestampType) else held


def _on_one_clock(moment: Any) -> Any:
    """A moment by the clock of UTC: where clocks are set back, the session's own shows two moments alike, in text and in Python."""
    spark = _functions(moment)
    since = spark.unix_micros(moment) * spark.expr("INTERVAL '0.000001' SECOND")
    return spark.lit("1970-01-01").cast("timestamp_ntz") + since
