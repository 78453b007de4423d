"""A holdout opened as typed: its labels read from a file, its settings given now or remembered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.holdout import HIDING, Cost, Holdout
from steelyard.tables import decoded, finite_of, read_column


def read_labels(path: str, column: str | None, ids: str | None, *, as_written: bool = False) -> tuple[Any, Any]:
    """One column of a file, and the column of public ids beside it, where there is one."""
    values = read_column(path, column, as_written=as_written, beside=ids)
    return values, None if ids is None else read_column(path, ids, as_written=True)


def open_holdout(
    path: str, column: str | None, settings: Mapping[str, Any], ids: str | None = None, **where: Any
) -> Holdout:
    """Open a holdout on the labels of a file, or open it again."""
    labels, names = read_labels(path, column, ids, as_written=True)
    as_written, found = Path(path).suffix.lower() == ".csv", dict(settings)
    if isinstance(found.get("classes"), str):
        found["classes"] = _classes(found["classes"].split(","), None if as_written else _numeric(labels))
    if as_written and found.get("mode") not in HIDING:
        labels = _of_one_kind(labels, path, found.get("classes"))
    if isinstance(found.get("metric"), tuple):
        if "classes" not in found:
            raise InvalidTask("cost needs --classes, in the order of the matrix.")
        found["metric"] = Cost(tuple(map(tuple, found["metric"][1])), tuple(found["classes"]))
    return Holdout(labels, **where, **found, ids=names)


def _numeric(labels: Any) -> bool:
    """Whether a file's own type, a public fact, says that labels are numbers."""
    kind = getattr(labels, "dtype", None)
    return kind.kind in "biuf" if kind is not None else str(labels.type).startswith(("int", "uint", "fl", "do", "bool"))


def _of_one_kind(labels: Any, path: str, classes: list[Any] | None) -> list[Any]:
    """Labels as written, as numbers if the classes are or if every one of them is one; no single row decides for others."""
    rows = labels.to_pylist()
    read = [finite_of(row) for row in rows]
    found = {number is None for number in read}
    numeric = not isinstance(classes[0], str) if classes else found == {False}
    if (numeric and True in found) or (not classes and len(found) > 1):
        raise InvalidTask(
            f"some labels of {path} are numbers and others are not, or are missing; say what they may be."
        )
    return read if numeric else [decoded(row) for row in rows]


def _classes(texts: list[str], numeric: bool | None) -> list[Any]:
    """Classes as numbers where the labels are (None: where all of them are)."""
    try:
        return texts if numeric is False else [_number(text) for text in texts]
    except InvalidTask:
        if numeric:
            raise
        return texts


def _number(text: str) -> int | float:
    try:
        number = float({"false": "0", "true": "1"}.get(text.lower(), text))
        return int(number) if number.is_integer() else number
    except ValueError:
        raise InvalidTask(f"the labels are numbers; --classes {text!r} is not one.") from None
