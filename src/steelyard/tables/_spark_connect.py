"""Spark Connect: a session in another process, which gets every question as a message.

A frame there is a description that the server analyses anew whenever it is asked, so what a question looks at travels within the
question, and the session's catalogue holds nothing of ours. There is no Java to look into either: what classic Spark tells by its plan is told by the
description, as far as that goes, and by the files that the server would read. The server's workers have a Python of their own; whether it
can run what is sent to it is tried on made-up rows before anything is paid for.
Law: only schemas, names of files and made-up values are asked for here, so nothing said here depends on a row. Even a plan is not
asked for: to make one, Spark's optimizer computes on rows in memory, and one that cannot be cast is an error. Nor is the schema of a frame
whose columns are named by its rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from steelyard.errors import TableError
from steelyard.interrupts import attempt
from steelyard.tables import _soundness as soundness
from steelyard.tables._quiet_spark import quiet_spark

T = TypeVar("T")
STRICT = "the files are read with mode FAILFAST, in which one row decides a failure; read them with PERMISSIVE."
NAMED = (
    "the rows of this frame name its columns, and the Spark Connect server would read them to tell those, before anything is paid for. Give a "
    'pivot its values, as in pivot("land", ["fr", "de"]); what crosstab and transpose make cannot be asked.'
)
UNTOLD = (
    "the Spark Connect server does not answer, or cannot tell the columns of this frame; nothing was read. Ask it for frame.schema to see "
    "why. steelyard needs a server of Spark 4.0."
)
UNABLE = (
    "the workers of this Spark Connect server do not answer, or cannot run what this task sends them. Install this version of steelyard, with NumPy and Arrow, for the server's "
    "Python (PYSPARK_PYTHON), which must be of the same version as the one here; or read the rows from files on this machine. Sums, counts, means, "
    "quantiles and whatever else is asked in SQL need no Python there. Nothing was charged for it just now, and a charge that was made before still stands to be answered."
)
_OPTION = "steelyard"
_BY_ROWS = {"StatCrosstab", "Transpose", "StatCov", "StatCorr", "StatApproxQuantile"}
"""What a server computes on rows as it analyses a frame."""
_SOURCES = {"DataSource", "NamedTable"}
"""What a description reads: files, other systems' tables, and tables by name, each with its options."""
_GUESSED = {"csv", "json", "xml"}
_able: set[str] = set()


def told(ask: Callable[[], T]) -> T:
    """What a server says of a schema; a failure is told without its words, which may quote what it looked at."""
    with quiet_spark():
        found = attempt(ask)
    if found is None:
        raise TableError(UNTOLD)
    return found[0]


def asked(session: Any, sql: str, shown: Mapping[str, Any]) -> Any:
    """The data frame of a question, with the frames that it names."""
    text = sql.replace("{", "{{").replace("}", "}}")
    for name in shown:
        text = text.replace(name, "{" + name + "}")
    return session.sql(text, **shown)


def check_description(frame: Any) -> None:
    """Refuse, before the server is asked anything of it, what a single row makes unreadable, and columns that rows name."""
    for message in _messages(frame):
        kind = message.DESCRIPTOR.name
        if kind in _BY_ROWS or (kind == "Pivot" and not message.values):
            raise TableError(NAMED)
        if kind in _SOURCES and any(_strict(*option) for option in message.options.items()):
            raise TableError(STRICT)


def _strict(option: str, value: str) -> bool:
    return option.casefold() == "mode" and value.upper() == "FAILFAST"


def pinned(frame: Any) -> Any:
    """The same files with the columns that they are told to have now: else the server guesses them from the rows for every question."""
    plan = frame._plan
    if type(plan).__name__ != "DataSource" or plan._format not in _GUESSED or plan._schema:
        return frame
    schema = told(lambda: frame.schema.json())
    return _read(frame.sparkSession, plan._format, schema, plan._options, plan._paths, [])


def by_folders(frame: Any) -> set[str]:
    """The columns that folders name, in lower case, of all files that the frame's description reads; what stands before = in the way to one.

    Only the plain files are asked about. Of the frame as it is the server would tell by its optimizer, which computes on rows that lie in memory.
    """
    named = set()
    for source in _messages(frame):
        if source.DESCRIPTOR.name == "DataSource":
            for path in told(partial(_files_of, source, frame.sparkSession)):
                named |= {name.casefold() for name in _names(path)}
    return named


def _messages(frame: Any) -> Iterator[Any]:
    """All parts of a description."""
    waiting = [frame._plan.to_proto(frame.sparkSession.client)]
    while waiting:
        message = waiting.pop()
        yield message
        for field, value in message.ListFields():
            if field.message_type is not None:
                mapped = field.message_type.GetOptions().map_entry
                held = value.values() if mapped else value if field.is_repeated else [value]
                waiting += [each for each in held if hasattr(each, "ListFields")]


def _files_of(source: Any, session: Any) -> list[str]:
    """The files of one source, under an option that nobody set: one that was cached would not tell."""
    options = {**source.options, _OPTION: secrets.token_hex(8)}
    asked = _read(session, source.format or None, source.schema or None, options, source.paths, source.predicates)
    return list(asked.inputFiles())


def _read(
    session: Any,
    kind: str | None,
    schema: str | None,
    options: Mapping[str, str],
    paths: Iterable[str],
    predicates: Iterable[str],
) -> Any:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import DataSource

    return DataFrame(DataSource(kind, schema, dict(options), [*paths], [*predicates]), session)


def _names(path: str) -> Iterator[str]:
    """What folders of a path name; Spark escapes odd letters once by itself, and once more in an address."""
    from urllib.parse import unquote

    for part in path.split("/")[:-1]:
        name, equals, _ = part.partition("=")
        if equals:
            yield from (unquote(name), unquote(unquote(name)))


def require_workers(session: Any) -> None:
    """Refuse a session whose workers cannot run steelyard's functions; made-up rows are all they see."""
    if session.session_id in _able:
        return
    made = session.range(1, numPartitions=1)
    with quiet_spark():
        found = attempt(lambda: made.mapInArrow(version_there, "version string").collect())
    if found is None or [row[0] for row in found[0]] != [_version()]:
        raise TableError(UNABLE)
    _able.add(session.session_id)


def version_there(batches: Iterator[Any]) -> Iterator[Any]:
    """Which steelyard a worker has."""
    import pyarrow

    for _ in batches:
        pass
    yield pyarrow.RecordBatch.from_pydict({"version": [_version()]})


def _version() -> str:
    from importlib import import_module

    return str(import_module("steelyard").__version__)


def check_sound(session: Any) -> None:
    """Hold the trial of engines once for each session: its server may be of any version, and another than the last."""
    soundness.once("Spark", lambda: told(lambda: soundness.spark_passes(session)), session.session_id)
