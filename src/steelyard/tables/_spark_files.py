"""Records of a Spark frame copied into files by its executors, one column made anew: no row comes to the driver.

Every record has a public name: 16 bytes of the SHA-256 of its id, or of the file and the number of the row it lies in. Records are
divided and sorted by their names, so which file and place one is written to owes nothing to any other column (the sizes of
the source's files do), and records of one name meet in one task, which ends the work. Files appear when all are whole.
Law: what an executor does to a record is a function of the record and its name, so a task that is tried again does the same again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from steelyard.errors import ColumnMissing, EngineMissing, InvalidTask, TableError
from steelyard.interrupts import attempt
from steelyard.tables._identity import is_stored, simple_name, warn_unchecked
from steelyard.tables._spark import INSTALL, _leaves, _scans

Renew = Callable[[bytes, Any], Any]
"""From the names of a batch's records, one after another, and the batch to the new column."""
_NAME = "steelyard_name_{}"
_ONCE = (
    "{} of {} records have an id of their own. An id names one record (a row, not a user): rows that share one would share "
    "one draw. Nothing was charged."
)
_IN_FOLDERS = (
    "folders name the labels in column {!r} (partitionBy): a record's file tells its label, and the labels that occur decide the column's type. "
    "Write the records to files without that, and use those. Nothing was charged."
)
_BY_CHANCE = (
    "the frame is made with chance (rand, uuid, monotonically_increasing_id, ...): a record that is computed again may get another id, "
    "and with it a second draw. Write the frame to files first, and use those. Nothing was charged."
)


class SparkRecords:
    """A Spark frame whose records have names; making it looks at its plan and schema alone."""

    def __init__(self, frame: Any, column: str, ids: str | None = None, others: Sequence[str] = ()) -> None:
        _check_frame(frame)
        self._column = column
        _check_columns(frame.schema, column, [*([] if ids is None else [ids]), *others])
        _check_folders(frame, column)
        if not is_stored(frame, "pyspark"):
            warn_unchecked(level=3)
        name = _NAME.format(secrets.token_hex(8))
        self._frame, self._name = frame.select("*", _named(frame, ids).alias(name)), name
        self._schema = _renewed(frame.schema, column)
        self._session = frame.sparkSession

    def count(self) -> int:
        """The public number of records; refuses names that are none or that come twice. One job, of names alone."""
        from pyspark.sql import functions as f

        own = f.col(self._name)
        asked = self._frame.select(own).agg(f.count(f.lit(1)), f.count(own), f.countDistinct(own))
        rows, named, different = _before(asked.collect)[0]
        if named != rows or different != rows:
            raise InvalidTask(_ONCE.format(min(named, different), rows))
        return int(rows)

    def values(self, column: str) -> list[Any]:
        """The values of a public column that occur."""
        return [row[0] for row in _before(self._frame.select(_quoted(column)).distinct().collect)]

    def place(self, target: str | os.PathLike[str]) -> SparkPlace:
        """A folder beside the target, made before anything is paid for."""
        return SparkPlace(self._session, os.fspath(target))

    def copy(self, renew: Renew, target: SparkPlace, parts: int | None = None) -> None:
        """Write all records with the column made anew, as so many files. One job."""
        import pyspark.sql.types as kinds
        from pyspark.sql import functions as f

        own, names = f.col(self._name), self._schema.names
        plain = [f"c{i}" for i in range(len(names))]  # PySpark reads a dot or a backtick in a name as more than a name
        held = [f.col(_quoted(name)) for name in names]
        place = names.index(self._column)
        held[place] = held[place].cast(kinds.DoubleType())
        wide = parts or int(self._session.conf.get("spark.sql.shuffle.partitions"))
        chosen = self._frame.select(*(each.alias(name) for each, name in zip(held, plain, strict=True)), own)
        placed = chosen.repartition(wide, own).sortWithinPartitions(own)
        schema = kinds.StructType(
            [
                kinds.StructField(name, each.dataType, each.nullable)
                for name, each in zip(plain, self._schema, strict=True)
            ]
        )
        made = placed.mapInArrow(_on_executor(renew, place, names), schema).toDF(*names)
        made.write.mode("append").parquet(target.own)


def _before(ask: Callable[[], list[Any]]) -> list[Any]:
    """Small answers about public columns, asked before anything is charged; what fails there may depend on rows that a query reads."""
    found = attempt(ask)
    if found is None:
        raise TableError("the public ids or groups of the frame could not be read; nothing was charged.")
    return found[0]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _on_executor(renew: Renew, place: int, names: Sequence[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What an executor does with the sorted records of one part, whose columns are called ``names``; two records of one name end it."""
    called = list(names)

    def part(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        last = b""
        for batch in batches:
            held = [last, *batch.column(batch.num_columns - 1).to_pylist()]
            if any(one == other for one, other in pairwise(held)):
                raise ValueError("two records have one name")
            last = held[-1]
            shown = pyarrow.RecordBatch.from_arrays(batch.columns[:-1], names=called)
            new = renew(b"".join(held[1:]), shown)
            columns = [new if i == place else batch.column(i) for i in range(batch.num_columns - 1)]
            yield pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names[:-1])

    return part


class SparkPlace:
    """Where files are written by executors before they get their name."""

    def __init__(self, session: Any, target: str) -> None:
        jvm, conf = session._jvm, session._jsc.hadoopConfiguration()
        self.target = target
        try:
            wanted = jvm.org.apache.hadoop.fs.Path(target)
            self._files = wanted.getFileSystem(conf)
            taken = self._files.exists(wanted)
            self._own = jvm.org.apache.hadoop.fs.Path(wanted.getParent(), f".steelyard-{secrets.token_hex(16)}")
            made = taken or self._files.mkdirs(self._own)
        except Exception:  # a Java error, whose class only a running Java has
            made = False
        if not made:
            raise InvalidTask(f"{target} cannot be written; nothing was charged.")
        if taken:
            raise InvalidTask(f"{target} exists; noisy labels are not written over anything.")
        self._wanted, self.own = wanted, str(self._own.toString())

    def deliver(self) -> None:
        """Give the whole folder its name; it is paid for, so where the name cannot be had it stays, and the error says where."""
        try:
            told = not self._files.exists(self._wanted) and self._files.rename(self._own, self._wanted)
        except Exception:  # as above
            told = False
        if not told:
            raise TableError(
                f"{self.target} could not be made. The noisy labels are paid for and whole, in {self.own}."
            )

    def drop(self) -> None:
        """Take away what was written."""
        with suppress(Exception):  # as above; whoever calls has something of more weight to say
            self._files.delete(self._own, True)


def _check_frame(frame: Any) -> None:
    try:
        from pyspark.sql import DataFrame
    except ImportError:
        raise EngineMissing("Spark frames need PySpark.", install=INSTALL) from None
    if not isinstance(frame, DataFrame):
        raise TableError(f"a {type(frame).__name__} is not a Spark data frame.")
    if not hasattr(frame, "_jdf"):
        raise TableError("a Spark Connect session cannot give files their names; use a session of the cluster's own.")
    if frame.isStreaming:
        raise TableError("a streaming Spark DataFrame never ends; give a batch one.")
    if not frame._jdf.queryExecution().analyzed().deterministic():
        raise InvalidTask(_BY_CHANCE)
    list(_scans(_leaves(frame)))  # refuses files that one row makes unreadable


def _check_columns(schema: Any, column: str, public: Sequence[str]) -> None:
    import pyspark.sql.types as kinds
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    for name in (column, *public):
        if name not in schema.names:
            raise ColumnMissing(name, schema.names)
    if len({name.casefold() for name in schema.names}) != len(schema.names):
        raise TableError("several columns of the frame have one name; nothing was charged.")
    if column in public:
        raise InvalidTask("the label column cannot name records or groups: labels are what is hidden.")
    if not isinstance(schema[column].dataType, kinds.NumericType | kinds.BooleanType):
        raise TableError(f"the label column {column!r} must hold numbers; it holds {schema[column].dataType}.")
    for name in public:
        if not isinstance(schema[name].dataType, kinds.IntegralType | kinds.StringType):
            raise InvalidTask(f"column {name!r} names records or groups, so it must hold integers or texts.")
    odd = False
    try:
        to_arrow_schema(schema)
    except PySparkException:
        odd = True
    if odd:
        raise TableError("a column of the frame has a type that executors cannot copy; leave it out.")


def _check_folders(frame: Any, column: str) -> None:
    """Refuse labels that stand in the names of folders, a catalogue's too: names of records are made of the names of their files."""
    folders = [name for scan in _scans(_leaves(frame)) for name in scan.relation().partitionSchema().fieldNames()]
    if column.casefold() in (name.casefold() for name in folders):
        raise InvalidTask(_IN_FOLDERS.format(column))


def _named(frame: Any, ids: str | None) -> Any:
    """The name of each record, as an expression that no row makes fail."""
    from pyspark.sql import functions as f

    if ids is None:
        plan = frame._jdf.queryExecution().analyzed()
        files = simple_name(plan) == "LogicalRelation" and simple_name(plan.relation()) == "HadoopFsRelation"
        if not files or "Parquet" not in simple_name(plan.relation().fileFormat()):
            raise InvalidTask(
                "records of a frame that is no plain Parquet scan need public ids, so that one that is drawn again gets what it got: "
                "give ids= (a column of integers or texts). Nothing was charged."
            )
        told = f.concat(f.col("_metadata.file_path"), f.lit("\n"), f.col("_metadata.row_index").cast("string"))
    else:
        told = f.col(_quoted(ids)).cast("string")
    return f.unhex(f.substring(f.sha2(told.cast("binary"), 256), 1, 32))


def _renewed(schema: Any, column: str) -> Any:
    """The schema with the column as doubles, and without metadata, which may hold what is known of labels."""
    import pyspark.sql.types as kinds

    fields = [kinds.StructField(each.name, each.dataType, each.nullable) for each in schema.fields]
    place = schema.names.index(column)
    fields[place] = kinds.StructField(column, kinds.DoubleType(), False)
    return kinds.StructType(fields)
