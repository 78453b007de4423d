"""Public keys: a list of keys, of tuples over several columns, a product of lists, a frame or a file of them.

Whatever they were given as, they are a list in the end, none twice, and travel to the engine as a small table (``key_frame``) that
rows are joined with: its columns have the types of the table's own, and the last is a key's place in the list.
A request writes a short list out and names a long one by its digest, so that a ledger holds no million keys.
Law: keys are public. They come from the caller or from an answer that was paid for, never from the rows.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from steelyard.documents import plain
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.privacy import canonical
from steelyard.tables._kinds import MOST_KEYS

_SHOWN = 8  # keys, of a list that is looked at
LISTED = 10_000
"""The most keys that a request writes out; more are named by their digest."""

_KINDS = (str, int, float, Decimal, datetime.date)
_AS_THEY_ARE = {str, int, float, bool}
_FILES = (".csv", ".tsv", ".parquet", ".pq")


class KeyList(tuple[Any, ...]):
    """Public keys in their order: values of one column, or tuples over several; ``width`` of them, once that was checked.

    ``found`` ones came from the columns themselves: they fit, whatever they are. ``fitted`` keeps what was checked last. Where ``listed`` is
    there it has the keys, and one more at the end here stands for everything else: None, or a tuple of nothing else.
    """

    width = 0
    found = False
    listed: KeyList | None = None
    fitted: tuple[Any, list[list[Any]]] | None = None

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:_SHOWN]))
        return f"({shown}, … {len(self):,} keys)" if len(self) > _SHOWN else tuple.__repr__(self)

    def to_json(self) -> Any:
        """The keys, or what names them: their number and the SHA-256 of their canonical JSON."""
        if len(self) <= LISTED:
            return _listed(self)
        return {"type": "KeyDigest", "count": len(self), "sha256": self.sha256}

    @lazy
    def sha256(self) -> str:
        """The digest of the keys as a request would write them out, worked out once."""
        try:
            return hashlib.sha256(canonical(_listed(self))).hexdigest()
        except ValueError:
            raise InvalidTask("a key must be a finite number, text or a date.") from None

    def with_others(self, width: int) -> KeyList:
        """The same keys and a last one for everything else; a null that no row's key equals."""
        more = KeyList([*self, None if width == 1 else (None,) * width])
        more.found, more.listed, more.width = self.found, self, self.width
        return more

    def columns(self, width: int) -> list[Sequence[Any]]:
        """The keys column by column."""
        return [self] if width == 1 else list(zip(*self, strict=True)) or [()] * width


@dataclass(frozen=True)
class KeyDigest:
    """Keys that a request names without writing them out; ``KeyList.sha256`` is their digest.

    A task that was read back from such a request is the same request, but cannot be planned before it is given its keys.
    """

    count: int
    sha256: str

    def checked(self, keys: KeyList | Keys | None) -> KeyList:
        """The very keys that this names; others are refused."""
        given = keys.listed() if isinstance(keys, Keys) else keys
        if given is None or len(given) != self.count or given.sha256 != self.sha256:
            raise InvalidTask(
                f"these are not the {self.count:,} keys of the request (their SHA-256 is {self.sha256[:16]}…)."
            )
        return given

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, repr=False)
class Keys:
    """All combinations of public values of several columns; make one with ``keys``."""

    names: Sequence[str]
    values: Sequence[Sequence[Any]]

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.values) or len(set(self.names)) != len(self.names):
            raise InvalidTask("keys need a list of values for each of their columns, and no column twice.")
        for values in self.values:
            check_list(values)
            if len(values) > LISTED:
                raise InvalidTask(f"at most {LISTED} values of one column can be combined; give a list of keys.")
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "values", tuple(map(tuple, self.values)))
        if len(self) > MOST_KEYS:
            raise InvalidTask(f"at most {MOST_KEYS} keys can be asked for at once; got {len(self)}.")

    def __repr__(self) -> str:
        told = " × ".join(f"{len(values):,} of {name}" for name, values in zip(self.names, self.values, strict=True))
        return f"Keys({told})"

    def __len__(self) -> int:
        return math.prod(map(len, self.values))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.listed())

    def listed(self) -> KeyList:
        """The keys one by one, the last column changing fastest."""
        return KeyList(self.values[0] if len(self.values) == 1 else itertools.product(*self.values))

    def ordered(self, names: Sequence[str]) -> Keys:
        """The same keys over columns in this order."""
        if sorted(names) != sorted(self.names):
            raise InvalidTask(f"the keys are of {', '.join(self.names)}, and by= names {', '.join(names)}.")
        return Keys(tuple(names), tuple(self.values[self.names.index(name)] for name in names))


def keys(**columns: Sequence[Any]) -> Keys:
    """Every combination of public values: ``by=["country", "month"], keys=sy.keys(country=[...], month=sy.months(...))``.

    >>> list(keys(country=["FR", "DE"], year=[2024, 2025]))
    [('FR', 2024), ('FR', 2025), ('DE', 2024), ('DE', 2025)]
    """
    return Keys(tuple(columns), tuple(columns.values()))


def months(first: str | datetime.date, last: str | datetime.date) -> list[datetime.date]:
    """The first days of all months from one to another, both included; written ``"2025-01"``.

    >>> months("2024-12", "2025-01")
    [datetime.date(2024, 12, 1), datetime.date(2025, 1, 1)]
    """
    start, end = _month(first), _month(last)
    if start > end:
        raise InvalidTask(f"the last month must not come before the first; got {first!r} and {last!r}.")
    return [datetime.date(each // 12, each % 12 + 1, 1) for each in range(start, end + 1)]


def _month(written: str | datetime.date) -> int:
    try:
        text = written.isoformat()[:7] if isinstance(written, datetime.date) else written
        day = datetime.date.fromisoformat(f"{text}-01")
        if len(text) != 7:
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidTask(f"a month is written as '2025-01'; got {written!r}.") from None
    return day.year * 12 + day.month - 1


def read_keys(given: Any, by: Sequence[str]) -> KeyList | Keys | KeyDigest | None:
    """Public keys of these columns, in whatever form they were given; what is none is refused."""
    if given is None or isinstance(given, KeyDigest) or (isinstance(given, KeyList) and given.width == len(by)):
        return given
    if isinstance(given, Keys):
        return given.ordered(by)
    if isinstance(given, os.PathLike) or (isinstance(given, str) and given.lower().endswith(_FILES)):
        given = _from_file(os.fspath(given), by)
    elif hasattr(given, "__arrow_c_stream__") and hasattr(given, "columns"):
        given = _from_frame(given, by)
    elif hasattr(given, "tolist"):
        given = given.tolist()
    check_list(given, len(by))
    found = KeyList(given if len(by) == 1 else map(tuple, given))
    if len(set(found)) != len(found):
        raise InvalidTask("keys must not name the same key twice.")
    if len(found) > MOST_KEYS:
        raise InvalidTask(f"at most {MOST_KEYS} keys can be asked for at once; got {len(found)}.")
    found.width = len(by)
    return found


def check_list(given: Sequence[Any], width: int = 1) -> None:
    """Refuse what is no list of keys, each a value or a tuple of so many."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence) or len(given) == 0:
        shown = repr(given)
        raise InvalidTask(f"keys must be a non-empty list of keys; got {shown[:80]}.")
    if width > 1:
        odd = next((key for key in given if not isinstance(key, tuple | list) or len(key) != width), None)
        if odd is not None:
            raise InvalidTask(f"by= names {width} columns, so each key is a tuple of {width} values; got {odd!r}.")
        given = [value for key in given for value in key]
    if not {*map(type, given)} <= _AS_THEY_ARE:
        odds = [
            value
            for value in given
            if not isinstance(value, _KINDS) or (isinstance(value, Decimal) and value.is_snan())
        ]
        if odds:
            raise InvalidTask(f"keys must be text, numbers or dates; got {odds[0]!r}.")


def _listed(found: Sequence[Any]) -> list[Any]:
    """Keys as JSON; values that JSON can say are left as they are."""
    wide = bool(found) and type(found[0]) is tuple
    if {*map(type, itertools.chain.from_iterable(found) if wide else found)} <= _AS_THEY_ARE:
        return list(map(list, found)) if wide else list(found)
    return [plain(key, typed=True) for key in found]


def _from_frame(frame: Any, by: Sequence[str]) -> list[Any]:
    """The keys of a data frame: the columns that ``by`` names, or its only column."""
    import pyarrow as pa

    table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    names = list(by)
    if len(by) == 1 and table.num_columns == 1:
        names = table.column_names
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise InvalidTask(f"the keys have no column {missing[0]!r}; they have {', '.join(table.column_names)}.")
    columns = [_as_dates(table.column(name)).to_pylist() for name in names]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _as_dates(column: Any) -> Any:
    """A column of moments that are all midnight, as frames keep days, is one of dates."""
    import pyarrow as pa

    if (pa.types.is_timestamp(column.type) and column.type.tz is None) or pa.types.is_date64(column.type):
        days = column.cast(pa.date32())
        if not days.cast(column.type).equals(column):
            raise InvalidTask("a key is a date or another value, not a moment of the day.")
        return days
    return column


def _from_file(path: str, by: Sequence[str]) -> list[Any]:
    """The keys of a Parquet file, or of a CSV file whose first line names its columns; CSV keys are text."""
    import pyarrow as pa
    from pyarrow import parquet

    fault = (
        f"no keys can be read from {path!r}; give a Parquet file, or a CSV file whose first line names {', '.join(by)}."
    )
    try:
        if Path(path).suffix.lower() in (".parquet", ".pq"):
            with parquet.ParquetFile(path) as file:
                return _from_frame(file.read(), by)
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file, delimiter="\t" if path.lower().endswith(".tsv") else ",", strict=True))
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowInvalid):
        raise InvalidTask(fault) from None
    header, rows = lines[0] if lines else [], [line for line in lines[1:] if line]
    if not set(by) <= set(header) or any(len(row) != len(header) for row in rows):  # a first line may be a key
        raise InvalidTask(fault)
    columns = [[row[header.index(name)] for row in rows] for name in by]
    return columns[0] if len(by) == 1 else list(zip(*columns, strict=True))


@dataclass(frozen=True)
class KeyFrame:
    """Keys as a table for the engine: a column ``steelyard_k0``, … for each of theirs, and their ``steelyard_place``."""

    name: str
    schema: Any
    content: Any

    @property
    def expression(self) -> Any:
        """The table as Ibis sees it."""
        import ibis

        return ibis.table(self.schema, name=self.name)


def key_frame(name: str, kinds: Sequence[Any], columns: Sequence[Sequence[Any]], short: Sequence[bool]) -> KeyFrame:
    """Keys in the types of the table's own columns; one that a column cannot hold is null there, which equals no row's.

    ``short`` says which columns hold floats of 32 bits, compared as doubles: a key of theirs is the nearest such float.
    """
    import ibis
    import pyarrow as pa

    names = [f"steelyard_k{i}" for i in range(len(kinds))]
    rounded = [_nearest(values) if each else values for each, values in zip(short, columns, strict=True)]
    arrays = [
        _array(kind, values) for kind, values in zip(kinds, _distinct(rounded) if any(short) else rounded, strict=True)
    ]
    places = _in_words(pa.int64(), range(len(columns[0])))
    schema = ibis.schema({**dict(zip(names, kinds, strict=True)), "steelyard_place": "int64"})
    return KeyFrame(name, schema, pa.table([*arrays, places], [*names, "steelyard_place"]))


def _array(kind: Any, values: Sequence[Any]) -> Any:
    import pyarrow as pa

    if kind.is_integer():
        return _in_words(pa.int64(), [v if -(2**63) <= v < 2**63 else None for v in values])
    if kind.is_decimal():
        wanted = pa.decimal128(kind.precision, kind.scale)
        return pa.array([Decimal(v) if _holds(kind, Decimal(v)) else None for v in values], wanted)
    if kind.is_floating():
        return _in_words(pa.float64(), values)
    if kind.is_boolean() or kind.is_date():
        return pa.array(values, pa.bool_() if kind.is_boolean() else pa.date32())
    return _in_bytes(values)


def _in_words(kind: Any, values: Sequence[Any]) -> Any:
    """Numbers of 64 bits, written where Arrow holds them: its own way there from a list loads pandas first."""
    import numpy as np
    import pyarrow as pa

    if {type(value) for value in values} - {float if kind == pa.float64() else int}:
        return pa.array(values, kind)
    words = np.array(values, dtype=kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(words)])


def _in_bytes(values: Sequence[Any]) -> Any:
    """Texts, in the same way."""
    import numpy as np
    import pyarrow as pa

    if {type(value) for value in values} - {str}:
        return pa.array(values, pa.string())
    held = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, held)])
    if ends[-1] >= 2**31:
        return pa.array(values, pa.string())
    parts = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(held))]
    return pa.Array.from_buffers(pa.string(), len(held), parts)


def _nearest(values: Sequence[Any]) -> list[Any]:
    """Floats of 32 bits as doubles; None for what is too large to be one. An infinity, which is a key that was found, is one."""
    import numpy as np

    with np.errstate(over="ignore"):
        near = np.array([math.nan if v is None else v for v in values], np.float64).astype(np.float32)
    return [
        float(v) + 0.0 if math.isfinite(v) or (given is not None and math.isinf(given)) else None
        for v, given in zip(near, values, strict=True)
    ]


def _distinct(columns: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The keys again; one that rounding made equal to an earlier one equals no row's, so that no row has two places."""
    first: dict[tuple[Any, ...], int] = {}
    for place, key in enumerate(zip(*columns, strict=True)):
        first.setdefault(key, place)
    return [
        [
            v if first[key] == place else None
            for place, (v, key) in enumerate(zip(c, zip(*columns, strict=True), strict=True))
        ]
        for c in columns
    ]


def _holds(kind: Any, number: Decimal) -> bool:
    """Whether a decimal type has this very number among its values."""
    digits = "".join(map(str, number.as_tuple().digits))
    last = int(number.as_tuple().exponent) + len(digits) - len(digits.rstrip("0"))  # the place of the last digit
    return not number or (last >= -kind.scale and number.adjusted() < kind.precision - kind.scale)
