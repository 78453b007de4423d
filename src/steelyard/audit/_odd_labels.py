"""Labels that hurt: odd values, the containers they come in, and how a run on neighbouring labels is listened to.

A loose container (a list, a tuple, an array or column of objects) takes any value. A typed one takes what its type holds:
missing values, NaN, infinities, far numbers, text that is no class. Neighbouring labels differ in one row of one container;
its type is a public fact and the same on both sides. Whatever is told, raised or warned is heard.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np

from steelyard.interrupts import INTERRUPTS
from steelyard.mechanisms._observe import Observed, observing

ODD: tuple[Any, ...] = (
    float("nan"), None, float("inf"), float("-inf"), -0.0, 5e-324, 1e308, 1.5, -1, 7, True, False, 2**53 + 1, 2**64,
    10**400, 10**5000, -(10**5000), "x", "", " 1 ", "1.0", "1e400", "nan", "true", "1_0", b"1", b"\xff", np.str_("1"), [1, 2], [], (1,), {}, 1j,
    np.complex128(1j), Decimal("1"), Decimal("sNaN"), Fraction(1, 3), date(2026, 1, 1), np.datetime64("NaT"),
    np.timedelta64(1), np.float16(1), np.array([1, 2]), np.array(1), object(), len,
)  # fmt: skip
_WHOLE = (None, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63))
_REAL = (None, float("nan"), float("inf"), -0.0, 5e-324, 1e308, 0.5)
_TEXT = (None, "x", "", "1.0", "true", "nan", "é" * 300)


@dataclass(frozen=True)
class Container:
    """What labels come in: made of a list in which one value may be odd, and which odd values it takes."""

    name: str
    make: Callable[[list[Any]], Any]
    odd: Sequence[Any]


@dataclass(frozen=True)
class LabelTrace:
    """Everything one run let the world see; for the audit alone ``seen``, what was noised, and ``written``, into what."""

    heard: tuple[str, ...]
    seen: tuple[Observed, ...]
    noisy: tuple[float, ...] = ()
    written: list[list[int]] = field(default_factory=list)


def labels_in(container: Container, usual: Sequence[Any], place: int | None = None, odd: Any = None) -> Any:
    """The usual labels, with one odd value if a place is given."""
    values = list(usual)
    if place is not None:
        values[place] = odd
    return container.make(values)


def changes(
    ways: Sequence[str], places: Sequence[int], share: int, seed: int
) -> Iterator[tuple[str, Container, Any, int]]:
    """One in ``share`` of all ways to change one label: a way of use, a container, an odd value, a row."""
    rows = places if share == 1 else places[:1]
    every = ((way, each, odd, row) for row in rows for each in containers() for odd in each.odd for way in ways)
    return islice(every, seed % share, None, share)


@contextmanager
def listening(heard: list[str]) -> Iterator[list[Observed]]:
    """A window on what is noised; warnings are heard at the end."""
    with warnings.catch_warnings(record=True) as warned, observing() as window:
        warnings.simplefilter("always")
        yield window
    heard += [f"warning {each.message}" for each in warned]


def answer_of(ask: Callable[[], str], told: str = "told") -> str:
    """What was told, or the error that the world would see, be it an exception or a panic of an engine that is none."""
    try:
        return f"{told} {ask()}"
    except INTERRUPTS:
        raise
    except BaseException as failure:
        return f"error {type(failure).__name__}: {failure}"


def containers() -> list[Container]:
    """Every container there is; those of pandas and polars where they are installed."""
    found = [*_loose(), *_arrays(), *_arrow()]
    return found + (_pandas() if find_spec("pandas") else []) + (_polars() if find_spec("polars") else [])


def odd_values() -> tuple[Any, ...]:
    """Everything that a row of a loose container may hold."""
    if not find_spec("pandas"):
        return ODD
    pandas = import_module("pandas")
    return (*ODD, pandas.NaT, pandas.NA, pandas.Timestamp(0))


def objects(values: list[Any]) -> Any:
    """Values as an array of objects, each as it is."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _loose() -> list[Container]:
    ways: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "objects": objects}
    if find_spec("pandas"):
        ways["pandas objects"] = lambda values: import_module("pandas").Series(objects(values), dtype=object)
    return [Container(name, make, odd_values()) for name, make in ways.items()]


def _cast(kind: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [None if value is None else kind(value) for value in values]


def _arrays() -> list[Container]:
    def typed(kind: Any) -> Callable[[list[Any]], Any]:
        return lambda values: np.array(values).astype(kind)

    return [
        Container("int64 array", typed(np.int64), _WHOLE[1:]),
        Container("int8 array", typed(np.int8), (-1, 7, -128)),
        Container("float64 array", typed(np.float64), _REAL[1:]),
        Container("float32 array", typed(np.float32), (float("nan"), float("-inf"), 0.5)),
        Container("bool array", typed(np.bool_), (False,)),
        Container("text array", lambda values: np.array(list(map(str, values)), dtype="U9"), ("x", "", "1.0", "nan")),
        Container("bytes array", lambda values: np.array(list(map(str, values)), dtype="S9"), ("x", "", "1.0")),
    ]


def _arrow() -> list[Container]:
    pa: Any = import_module("pyarrow")

    def chunks(values: list[Any]) -> Any:
        return pa.chunked_array([values[:3], values[3:]], type=pa.int64())

    return [
        Container("arrow int64", lambda values: pa.array(values, type=pa.int64()), _WHOLE),
        Container("arrow chunks", chunks, _WHOLE),
        Container("arrow float64", lambda values: pa.array(_cast(float)(values), type=pa.float64()), _REAL),
        Container("arrow text", lambda values: pa.array(_cast(str)(values), type=pa.string()), _TEXT),
        Container("arrow bool", lambda values: pa.array(_cast(bool)(values), type=pa.bool_()), (None, False)),
        Container("arrow dictionary", lambda values: pa.array(_cast(str)(values)).dictionary_encode(), _TEXT),
        Container(
            "arrow decimal", lambda values: pa.array(_cast(Decimal)(values), type=pa.decimal128(20, 2)), (None, 7)
        ),
    ]


def _pandas() -> list[Container]:
    pd: Any = import_module("pandas")

    def series(kind: str, cast: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
        return lambda values: pd.Series(_cast(cast)(values), dtype=kind)

    return [
        Container("pandas Int64", series("Int64", int), _WHOLE),
        Container("pandas Float64", series("Float64", float), (None, 0.5, 1e308)),
        Container("pandas boolean", series("boolean", bool), (None, False)),
        Container("pandas string", series("string", str), _TEXT),
        Container("pandas category", series("category", lambda value: value), (None, 7, -1, "x")),
        Container("pandas arrow", series("int64[pyarrow]", int), _WHOLE),
        Container("pandas float64", series("float64", float), _REAL),
    ]


def _polars() -> list[Container]:
    pl: Any = import_module("polars")

    def series(kind: Any, cast: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
        return lambda values: pl.Series(_cast(cast)(values), dtype=kind)

    return [
        Container("polars Int64", series(pl.Int64, int), _WHOLE),
        Container("polars Float64", series(pl.Float64, float), _REAL),
        Container("polars String", series(pl.String, str), _TEXT),
        Container("polars Boolean", series(pl.Boolean, bool), (None, False)),
    ]
