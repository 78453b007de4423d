"""An answer for people: every released number on a row of its own, as a table, a chart, a few lines of text, or a piece of a page.

A ``Part`` is one released value with the request it answers and its error, fresh from a session or read back from JSON. Its
``cells`` are its numbers, each beside its keys, its noise, and where the truth lies. Printed numbers end where their error
begins; what is stored keeps every digit. Nothing here sees a row or an account, so all of it may be published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from steelyard.charts import at_error, short
from steelyard.errors import EngineMissing

if TYPE_CHECKING:
    from steelyard.charts import Chart

__all__ = ["Cell", "Part"]

_SHOWN, _DRAWN = 20, 96
_NUMBERS = ("value", "noise", "bias", "low", "high")
_COUNTS = (
    "Count",
    "CountUsers",
    "Histogram",
    "Profile",
    "CountDistinct",
    "TopK",
    "Variance",
    "Std",
)  # which lie above zero
_OF = {
    "Count": "Count of rows",
    "CountUsers": "Count of units",
    "CountDistinct": "Different values",
    "GradualSum": "Sum",
}
_OWN_UNIT = ("Profile",)  # whose noise is told in a unit of its own that is the value's


class Cell(NamedTuple):
    """One released number: what it is of, under which keys, how wide its noise is, what was cut off, where the truth lies."""

    of: str
    keys: tuple[tuple[str, Any], ...]
    value: Any
    noise: float | None = None
    bias: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def label(self) -> str:
        """Its keys in words, or what it is of where it has none."""
        return _label(self.keys) or self.of

    def __str__(self) -> str:
        width = "" if self.noise is None else f" ± {at_error(self.noise, self.noise)}"
        if self.noise is None and self.low is not None and self.high is not None:
            width = f" ({number(self.low, None)} to {number(self.high, None)})"
        return f"{number(self.value, self.noise)}{width}"


@dataclass(frozen=True)
class Part:
    """A released value, the request it answers, and its error (of ``steelyard.release``) or None; ``tops`` are the bins of a profile.

    A number of a report is ``called`` by its name there.
    """

    task: Mapping[str, Any]
    value: Any
    error: Any = None
    tops: Sequence[float] = ()

    @property
    def title(self) -> str:
        """What of what by what.

        >>> Part({"type": "Sum", "column": "amount", "by": "country"}, {}).title
        'Sum of amount by country'
        """
        by = () if "called" in self.task else _names(self.task.get("by"))
        return self.of + (f" by {' and '.join(by)}" if by else "")

    @property
    def of(self) -> str:
        """What of what, or its name in a report."""
        kind, column = str(self.task.get("type", "Answer")), self.task.get("column")
        if "called" in self.task:
            return str(self.task["called"])
        if kind == "Profile":
            return f"Units by their {'number of rows' if column is None else f'total of {column}'}"
        if kind == "TopK":
            return f"Top {self.task['k']} of {' and '.join(_names(column))}"
        if "label" in self.task:
            return f"Coefficients for {self.task['label']}"
        if kind == "Quantile":
            kind = "Quantiles" if isinstance(self.task["quantile"], list) else _quantile(self.task["quantile"])
        name = _OF.get(kind, kind)
        over = f" to {self.task['over']}" if "over" in self.task else ""
        return name if column is None else f"{name} of {column}{over}"

    @property
    def cells(self) -> list[Cell]:
        """Every number of the value."""
        return list(self.each())

    @property
    def size(self) -> int:
        """How many numbers the value has."""
        if keyed(self.task) is None:
            return sum(1 for _ in self._found())
        if self.task.get("type") == "TopK":  # under a key there may be fewer than k
            return sum(1 for _ in self._found())
        one = next(iter(self._by_key()), None)  # every key has as many
        return 0 if one is None else len(self.value) * sum(1 for _ in _numbers(self, [one]))

    def each(self) -> Iterator[Cell]:
        """The numbers one by one: an answer may have a million of them, and be shown by its first few."""
        ends = getattr(self.error, "ends", ()) or ()
        if not ends or len(ends) != self.size:
            return self._each()
        return (cell._replace(low=low, high=high) for cell, (low, high) in zip(self._each(), ends, strict=True))

    def _each(self) -> Iterator[Cell]:
        error, of = self.error, self.of
        bias = None if error is None or not (error.bias == 0 or keyed(self.task) is None) else error.bias
        span = None if error is None or self._half is None else error.span(error.confidence)
        modelled = span is not None and bool(error.offsets)
        for (keys, value), half in zip(self._found(), self._halves(), strict=False):
            if span is None:
                yield Cell(of, keys, value, half, bias)
            else:
                below, above = (span[0], span[1]) if modelled or half is None else (-half, half)
                yield Cell(of, keys, value, half, bias, value + below, value + above)

    def _found(self) -> Iterator[tuple[tuple[tuple[str, Any], ...], Any]]:
        return _numbers(self, self._by_key())

    def _halves(self) -> Iterator[float | None]:
        each = getattr(self.error, "each", ()) or ()
        return iter(each) if each and len(each) == self.size else repeat(self._half)

    @property
    def _half(self) -> float | None:
        error = self.error
        if error is None or (error.unit and self.task.get("type") not in _OWN_UNIT):
            return None
        return float(error.interval)

    def _by_key(self) -> Iterator[tuple[tuple[tuple[str, Any], ...], Any]]:
        names = _names(keyed(self.task))
        if not names:
            yield (), self.value
            return
        for key, item in self.value.items() if isinstance(self.value, Mapping) else self.value:
            yield tuple(zip(names, _parts(key, len(names)), strict=False)), item

    def whisker(self, cell: Cell) -> tuple[float, float]:
        """Where the noise may have moved a number from, as far as its public bounds allow; or where the truth is said to lie outright."""
        if cell.noise is None and cell.low is not None and cell.high is not None:
            return min(cell.low, cell.value), max(cell.high, cell.value)
        half = cell.noise or 0.0
        low, high = cell.value - half, cell.value + half
        if self.task.get("type") in _COUNTS:
            low = max(low, min(0.0, cell.value))
        elif "quantile" in self.task or self.task.get("type") == "Mean":
            low, high = (max(low, _exact(self.task.get("lower"), low)), min(high, _exact(self.task.get("upper"), high)))
        return min(low, cell.value), max(high, cell.value)


def _numbers(
    part: Part, by_key: Iterable[tuple[tuple[tuple[str, Any], ...], Any]]
) -> Iterator[tuple[tuple[tuple[str, Any], ...], Any]]:
    """Every number with all its keys: those of the request, and the quantile, range, bin or coefficient it is."""
    for keys, value in by_key:
        if type(value) in (int, float):
            yield keys, value
            continue
        for inner, each in _inside(part, value):
            yield (*keys, *inner), each


def _inside(part: Part, value: Any) -> Iterator[tuple[tuple[tuple[str, Any], ...], Any]]:
    kind = part.task.get("type")
    if kind == "Profile":
        counts = value.counts if hasattr(value, "counts") else value["histogram"]["counts"]
        tops = part.tops or range(1, len(counts) + 1)
        yield from (((("up_to", top),), _whole(count)) for top, count in zip(tops, counts, strict=False))
    elif kind == "Histogram":
        rows = (
            value.items()
            if isinstance(value, Mapping)
            else ((row[0] if len(row) == 2 else row[:2], row[-1]) for row in value)
        )
        yield from (((("from", low), ("to", high)), count) for (low, high), count in rows)
    elif kind == "TopK":
        names = _names(part.task["column"])
        for each, count in value.items() if isinstance(value, Mapping) else value:
            yield tuple(zip(names, _parts(each, len(names)), strict=False)), count
    elif kind == "Quantile" and isinstance(part.task["quantile"], list):
        asked = [float(Fraction(each)) for each in part.task["quantile"]]
        yield from (((("quantile", q),), each) for q, each in zip(asked, value, strict=True))
    elif models := coefficients(value):
        several = len(models) > 1
        for name, weights in models:
            told = (("class", name),) if several else ()
            yield from (((*told, ("feature", feature)), weight) for feature, weight in weights.items())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield (), value


def coefficients(value: Any) -> list[tuple[Any, Mapping[str, float]]]:
    """The coefficients of a model, or of one for each class, each with its class; none of anything else."""
    models = value.get("models") if isinstance(value, Mapping) else getattr(value, "models", None)
    found = [(_part(model, "positive"), _part(model, "coefficients")) for model in models or [value]]
    return [(name, weights) for name, weights in found if isinstance(weights, Mapping)]


def _part(model: Any, name: str) -> Any:
    return model.get(name) if isinstance(model, Mapping) else getattr(model, name, None)


def first(parts: Sequence[Part], most: int = _SHOWN) -> list[Cell]:
    """The first few numbers of an answer."""
    return list(islice(chain.from_iterable(part.each() for part in parts), most))


def size(parts: Sequence[Part]) -> int:
    """How many numbers an answer has."""
    return sum(part.size for part in parts)


def text(parts: Sequence[Part]) -> str:
    """The numbers on lines of their own, each with its error; a long list by its beginning."""
    cells, more = first(parts), size(parts) - _SHOWN
    if len(cells) == 1 and not cells[0].keys:
        return number(cells[0].value, cells[0].noise)
    if not cells:
        value = parts[0].value if len(parts) == 1 else ""
        return "no key reached its threshold" if value in ({}, []) else _brief(value)
    several = len(parts) > 1
    lines = [(f"{cell.of}: {cell.label}" if several and cell.keys else cell.label, str(cell)) for cell in cells]
    wide = max(len(name) for name, _ in lines)
    rest = [f"… and {more:,} more; all of them are in release.table"] if more > 0 else []
    return "\n".join([*(f"{name.ljust(wide)}  {said}" for name, said in lines), *rest])


def table(parts: Sequence[Part]) -> Any:
    """All numbers as an Arrow table: a row for each, with its keys, value, noise, bias, low and high."""
    import pyarrow as pa

    cells = [cell for part in parts for cell in part.cells]
    names = list(dict.fromkeys(name for cell in cells for name, _ in cell.keys))
    names = names or [name for part in parts[:1] for name in _all_names(part.task)]
    columns = {} if len(parts) == 1 else {"answer": pa.array([cell.of for cell in cells], pa.string())}
    own = {*_NUMBERS, *columns}
    for name in names:
        columns[f"{name}_key" if name in own else name] = array([_key(cell, name) for cell in cells])
    whole = all(isinstance(cell.value, int) and abs(cell.value) < 2**63 for cell in cells) and bool(cells)
    columns["value"] = pa.array([cell.value for cell in cells], pa.int64() if whole else pa.float64())
    for name in _NUMBERS[1:]:
        columns[name] = pa.array([getattr(cell, name) for cell in cells], pa.float64())
    return pa.table(columns)


def rows(parts: Sequence[Part]) -> tuple[list[str], list[list[str]], str]:
    """Header, rows and a note for a small table on a page; a long answer by its beginning."""
    cells, more = first(parts), size(parts) - _SHOWN
    names = [*([] if len(parts) == 1 else ["answer"]), *dict.fromkeys(name for cell in cells for name, _ in cell.keys)]
    known = [name for name in _NUMBERS[1:] if any(getattr(cell, name) is not None for cell in cells)]
    body = [
        [*(_shown(cell, name) for name in names), number(cell.value, cell.noise),
         *(_width(getattr(cell, name), cell.noise) for name in known)]
        for cell in cells
    ]  # fmt: skip
    header = [*names, "value", *("± noise" if name == "noise" else name for name in known)]
    rest = f"… and {more:,} more in release.table" if more > 0 else ""
    return [name.replace("_", " ") for name in header], body, rest


def _shown(cell: Cell, name: str) -> str:
    if name == "answer":
        return cell.of
    key = dict(cell.keys).get(name, "")
    return _short(key) if name in ("from", "to", "up_to") else _said(name, key)


def _width(value: float | None, noise: float | None) -> str:
    return "" if value is None else number(value, noise)


def frame(found: Any, library: str) -> Any:
    """An Arrow table as a data frame of pandas or Polars, where that is installed."""
    try:
        if library == "polars":
            import polars

            return polars.from_arrow(found)
        return found.to_pandas()
    except ImportError:
        raise EngineMissing(
            f"{library} is not installed; release.table needs it not.", install=f"pip install {library}"
        ) from None


def _key(cell: Cell, wanted: str) -> Any:
    return next((key for name, key in cell.keys if name == wanted), None)


def array(values: Sequence[Any]) -> Any:
    """Keys or numbers as an Arrow array; keys that no one type holds, as text."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def chart(parts: Sequence[Part], title: str, error: str, promise: str) -> Chart:
    """Every number as a bar with a whisker for its noise, grouped by key, under a title that says what of what by what."""
    from steelyard.charts import bars

    shown = ((part, cell) for part in parts for cell in part.each())
    pairs, more = list(islice(shown, _DRAWN)), size(parts) - _DRAWN
    promise = f"{promise} The first {_DRAWN} of {more + _DRAWN:,} numbers are drawn." if more > 0 else promise
    ends = [part.whisker(cell) for part, cell in pairs]
    by = _names(keyed(parts[0].task))
    inner = any(len(cell.keys) > len(by) for _, cell in pairs)
    several, nested = len(parts) > 1, bool(by) and inner
    groups = [cell.of if several else _label(cell.keys[: len(by)]) if nested else "" for _, cell in pairs]
    labels = [_label(cell.keys[len(by) if nested else 0 :]) or cell.of for _, cell in pairs]
    noisy = any(high > low for low, high in ends)
    if any(cell.noise is None and cell.low is not None for _, cell in pairs):
        error = f"where the truth lies; {error}"
    return bars(
        labels, [cell.value for _, cell in pairs], title=title,
        ends=ends, groups=groups, subtitle=f"Whiskers: {error}" if noisy and error else error, caption=promise,
        own_scales=several,
    )  # fmt: skip


def _label(keys: Sequence[tuple[str, Any]]) -> str:
    named = dict(keys)
    if {"from", "to"} <= set(named):
        named = {**{k: v for k, v in named.items() if k not in ("from", "to")}, "between": (named["from"], named["to"])}
    return ", ".join(dict.fromkeys(_said(name, key) for name, key in named.items()))


def _said(name: str, key: Any) -> str:
    if key is None:
        return "everything else"
    if name == "between":
        return f"{_short(key[0])} to {_short(key[1])}"
    if name == "up_to":
        return f"up to {short(key)}"
    if name == "quantile":
        return _quantile(key)
    return str(key)


def _short(edge: Any) -> str:
    """An edge of a histogram: a number in few digits, a date as it is written."""
    return edge if isinstance(edge, str) else short(edge)


def number(value: Any, error: float | None) -> str:
    """A number to what its error supports; without one, to ten digits."""
    return f"{value:,.10g}" if error is None else at_error(value, error)


def _brief(value: Any) -> str:
    words = str(value)
    return words if len(words) <= 400 else f"{words[:400]}…"


def _quantile(share: Any) -> str:
    asked = float(Fraction(share)) if isinstance(share, str) else float(share)
    return "Median" if asked == 0.5 else f"{100 * asked:g}% quantile"


def keyed(task: Mapping[str, Any]) -> Any:
    """The columns that a request's numbers are given by: its keys, the values that it counts, or both."""
    if task.get("type") == "TopK":
        return task.get("column") if task.get("by") is None else task.get("by")
    if task.get("type") == "Histogram" and not task.get("edges", True):
        return [*_names(task.get("by")), task["column"]]
    return task.get("by")


def _all_names(task: Mapping[str, Any]) -> list[str]:
    """The columns of keys that an empty answer has, too."""
    inner = _names(task["column"]) if task.get("type") == "TopK" and task.get("by") is not None else []
    return [*_names(keyed(task)), *inner]


def _names(by: Any) -> list[str]:
    return [] if by is None else [by] if isinstance(by, str) else [str(name) for name in by]


def _parts(key: Any, wanted: int) -> Sequence[Any]:
    return key if wanted > 1 and isinstance(key, list | tuple) else (key,)


def _whole(count: float) -> float:
    return int(count) if count == int(count) else count


def _exact(value: Any, otherwise: float) -> float:
    return otherwise if value is None or value == "auto" else float(Fraction(value))


def shaped(value: Any, numbers: Sequence[float | None]) -> Any:
    """Numbers in the shape of a value: one, a list, or either by key.

    >>> shaped({"a": [1, 2], "b": [3, 4]}, [5, 6, 7, 8])
    {'a': [5, 6], 'b': [7, 8]}
    """
    left = iter(numbers)

    def same(each: Any) -> Any:
        if isinstance(each, Mapping):
            return {key: same(item) for key, item in each.items()}
        return [same(item) for item in each] if isinstance(each, list | tuple) else next(left)

    return same(value)
