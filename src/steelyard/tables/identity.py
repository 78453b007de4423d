"""Which table a request is about: its public identity, to which a request's key is bound.

It is the name given to ``read``, or else the path, glob or address as it was written, the text of a query where its library
tells it, and for whatever has neither (a frame in memory, a lazy frame, a Spark data frame) the kind of source and its schema.
Law: nothing in it depends on rows. Not the files that a glob finds, nor their sizes, times or contents: the same file with
other rows is the same table, and asking again under the same key is a retry.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from steelyard.errors import InvalidTask

_SHOWN = 240
_PASSWORD = re.compile(r"(://[^/@:]*):[^@]*@|([?&](?:password|pwd)=)[^&:]*", re.IGNORECASE)
_IN_QUERY = re.compile(r"(://[^\s'/@:]*:)[^\s'@]*(?=@)|(\b(?:password|pwd)=)[^\s'&;]+", re.IGNORECASE)
_MADE_UP = re.compile(
    r'"?\b(?:__duckdb_source_\w+|(?:unnamed_relation|df|arrow_object)_[0-9a-f]{16}|'
    r'ibis_\w*memtable_\w+|ibis_\w+_[a-z2-7]{26})\b"?'
)
_BARE = re.compile(r"SELECT \* FROM _(?: AS _)?")
_VALUES = re.compile(r"\bVALUES\s*\(", re.IGNORECASE)  # rows, written into the text
_TEXT = r"'(?:[^']|'')*'"
_GUESSED = re.compile(rf", \w+ := (?:{_TEXT}|\{{(?:{_TEXT}|[^'}}])*\}}|\[(?:{_TEXT}|[^'\]])*\]|[^,)]*)")
"""How a relation reads its file, in DuckDB's words; most of it was found by looking at rows."""


def identify(source: Any, name: str | None, options: Mapping[str, Any]) -> str:
    """The identity of a source as it was given, without its schema; empty where the schema has to stand for it.

    >>> identify("sales/*.parquet", None, {}), identify("postgres://ann:secret@db/shop::orders", None, {})
    ("'sales/*.parquet'", "'postgres://ann:***@db/shop::orders'")
    """
    if name is not None:
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
            raise InvalidTask("name must be text of 1 to 200 printable characters.")
        return f"the table named {name!r}"
    if isinstance(source, str | os.PathLike):
        return _short(_path(source) + _written(options))
    if _paths(source):
        return _short(", ".join(map(_path, source)) + _written(options))
    text = _query(source)
    return _short(f"the query {text!r}") if text else ""


def _paths(source: Any) -> bool:
    return isinstance(source, Sequence) and bool(source) and all(isinstance(p, str | os.PathLike) for p in source)


def in_words(kind: str, columns: Mapping[str, str]) -> str:
    """What stands for a source that has no address: its kind and its schema."""
    return _short(f"a {kind} table of " + ", ".join(f"{name!r}: {kind}" for name, kind in columns.items()))


def _path(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return repr(_PASSWORD.sub(lambda m: f"{m[1]}:***@" if m[1] else f"{m[2]}***", text) if "://" in text else text)


def _written(options: Mapping[str, Any]) -> str:
    plain = {
        name: dict(sorted(value.items())) if isinstance(value, Mapping) else value for name, value in options.items()
    }
    return "".join(f", {name}={value!r}" for name, value in sorted(plain.items()))


def _query(source: Any) -> str:
    """The text of a query, without the names that a library makes up for what it holds in memory; empty where it holds rows."""
    library = type(source).__module__.partition(".")[0]
    text = ""
    with suppress(Exception):  # a source that has no text has its schema; nothing here reads rows
        if library in ("duckdb", "_duckdb"):
            text = str(source.sql_query())
        elif library == "ibis":
            import ibis

            text = str(ibis.to_sql(source))
    told = " ".join(_MADE_UP.sub("_", _GUESSED.sub("", text)).split())
    told = _IN_QUERY.sub(lambda m: f"{m[1] or m[2]}***", told)
    return "" if _BARE.fullmatch(told) or _VALUES.search(told) else told


def _short(text: str) -> str:
    """A long identity by its beginning and its digest."""
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN - 80]}… (sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()})"
