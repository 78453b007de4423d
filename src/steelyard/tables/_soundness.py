"""A trial of an engine before it sees its first private row: does it do what the proofs assume of it?

A few made-up values are turned into integers, and the integers must be the reference's. DuckDB must besides read a file
of one row whose statistics are those of another row, and one whose statistics cannot be converted: whoever believes the
first answers wrongly, whoever looks at the second fails, and both are refused. It must find the first rows of a group, all of them. Once per
process and engine (a Spark Connect server: per session), in milliseconds; what it says is public, since nothing private was read.
Law: an engine that fails its trial answers nothing.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from steelyard.errors import TableError
from steelyard.tables._kinds import literal
from steelyard.tables._totals import DUCKDB, SPARK, Dialect, Quantity, finite, identity, wide_sum

UNSOUND = (
    "this {engine} does not compute what the guarantees rest on: its planner trusts statistics, or its arithmetic differs. "
    "Nothing was read. Install a version that steelyard was tested with (its requirements name them)."
)
TRIAL = "steelyard_trial"
_DECOY = (0.1, 1_234_567_890_123, "decoy-key")
_HIDDEN = (float("nan"), 9_876_543_210_987, "other-key")
_MOMENT, _NO_MOMENT = 1_234_567_890_321, 2**62  # milliseconds; the second are more than microseconds can count
_VALUES = ("NaN", "Infinity", "-Infinity", "-0.0", "0.49999999999999994", "5e-324", "2.5", "-7.25", "1e300", "-1e300")

_FIRST = (
    "SELECT u, x FROM (SELECT u, x, row_number() OVER (PARTITION BY u ORDER BY x) - 1 AS r FROM "
    "(SELECT i % 3 AS u, i AS x FROM range(30) AS t(i))) WHERE r < 2"
)

_passed: set[str] = set()
_lock = threading.Lock()


def once(engine: str, trial: Callable[[], bool], session: str = "") -> None:
    """Hold a trial unless this process has seen the engine pass it; of an engine of another process, in this session of it."""
    named = f"{engine} {session}".rstrip()
    with _lock:
        if named not in _passed:
            if not trial():
                raise TableError(UNSOUND.format(engine=engine))
            _passed.add(named)


def duckdb_passes(connection: Any, folder: str) -> bool:
    """Whether a DuckDB connection computes rightly, and by rows rather than by their statistics."""
    import duckdb

    path = Path(folder) / "trial.parquet"
    try:
        cursor = connection.cursor()
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {TRIAL} AS {made_up()}")
        if not computes(DUCKDB, lambda sql: cursor.execute(sql).fetchall()):
            return False
        if sorted(cursor.execute(_FIRST).fetchall()) != [(0, 0), (0, 3), (1, 1), (1, 4), (2, 2), (2, 5)]:
            return False
        _write_lie(cursor, path)
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {TRIAL} AS SELECT * FROM read_parquet({literal(str(path))})")
        if not all(cursor.execute(sql).fetchall() == expected for sql, expected in _about_lie()):
            return False
        _write_unreadable(cursor, path)
        return bool(
            cursor.execute(f"SELECT sum(x) FROM (FROM read_parquet({literal(str(path))}))").fetchall() == [(7,)]
        )
    except (duckdb.Error, OSError):
        return False
    finally:
        path.unlink(missing_ok=True)


def spark_passes(session: Any) -> bool:
    """Whether a Spark session computes rightly; it is asked about values of the question's own, not about files."""
    import secrets

    name = f"{TRIAL}_{secrets.token_hex(8)}"
    session.sql(made_up()).createOrReplaceTempView(name)
    try:
        return computes(SPARK, lambda sql: [tuple(row) for row in session.sql(sql).collect()], name)
    finally:
        session.catalog.dropTempView(name)


def computes(engine: Dialect, ask: Callable[[str], list[tuple[Any, ...]]], name: str = TRIAL) -> bool:
    """Whether an engine turns the made-up values into the reference's integers, and adds them without overflow."""
    import ibis

    rows = ibis.table({"i": "int64", "x": "float64"}, name=name)
    quantities = [Quantity("x"), Quantity("x", Fraction(3, 7)), Quantity("x", Fraction(1, 10**9))]
    shown = rows.select("i", *(each.expression(rows).name(f"q{i}") for i, each in enumerate(quantities)))
    numbers = [None, *map(float, _VALUES)]
    expected = [(i, *(each.integer(value) for each in quantities)) for i, value in enumerate(numbers)]
    named = rows.select(n=identity(rows.x).notnull().cast("int64"), i=ibis.literal(2**63 - 1, "int64"))
    added = named.agg(n=named.n.sum(), s=wide_sum(named.i, engine))
    if sorted(ask(engine.written(shown))) != expected:
        return False
    return [tuple(map(int, row)) for row in ask(engine.written(added))] == [
        (len(_VALUES) - 1, len(numbers) * (2**63 - 1))
    ]


def made_up(double: str = "DOUBLE") -> str:
    """The made-up values as a query."""
    texts = ["NULL", *(f"'{value}'" for value in _VALUES)]
    return " UNION ALL ".join(
        f"SELECT CAST({i} AS BIGINT) AS i, CAST({text} AS {double}) AS x" for i, text in enumerate(texts)
    )


def _write_lie(cursor: Any, path: Path) -> None:
    """A file of one row that was exchanged after its statistics were written."""
    number, whole, text = _DECOY
    row = f"SELECT CAST({number} AS DOUBLE) AS x, CAST({whole} AS BIGINT) AS i, '{text}' AS k"
    cursor.execute(f"COPY ({row}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION uncompressed)")
    content = path.read_bytes()
    for kind, told, held in zip(("<d", "<q", "9s"), _DECOY, _HIDDEN, strict=True):
        old, new = _packed(kind, told), _packed(kind, held)
        content = content.replace(old, new, 1)  # the row lies before its statistics
    path.write_bytes(content)


def _write_unreadable(cursor: Any, path: Path) -> None:
    """A file with a column that nobody asks for, and in it a moment that DuckDB cannot convert."""
    row = f"SELECT 7 AS x, CAST(epoch_ms({_MOMENT}) AS TIMESTAMP_MS) AS t"
    cursor.execute(f"COPY ({row}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION uncompressed)")
    path.write_bytes(path.read_bytes().replace(_packed("<q", _MOMENT), _packed("<q", _NO_MOMENT)))


def _about_lie() -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Questions about the file, each with the answer of its row (its statistics give another)."""
    import ibis

    rows = ibis.table({"x": "float64", "i": "int64", "k": "string"}, name=TRIAL)
    _, whole, text = _HIDDEN
    integers = rows.select(q=Quantity("x", Fraction(1, 100)).expression(rows), u=identity(rows.x))
    held = [rows.filter(finite(rows.x)), rows.filter(identity(rows.x).notnull())]
    kept = [rows.filter(rows.i == whole), rows.filter(rows.k.isin([text]))]
    grouped = rows.group_by("i", "k").agg(n=rows.count())
    questions: list[tuple[Any, list[tuple[Any, ...]]]] = [(integers, [(0, None)]), (grouped, [(whole, text, 1)])]
    questions += [(each.agg(n=each.count()), [(n,)]) for n, some in enumerate((held, kept)) for each in some]
    return [(DUCKDB.written(question), expected) for question, expected in questions]


def _packed(kind: str, value: Any) -> bytes:
    return struct.pack(kind, value.encode() if isinstance(value, str) else value)
