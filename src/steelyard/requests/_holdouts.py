"""The settings of a holdout as typed, and as the ledger remembers them: they are given once, when it is opened.

A holdout's settings are public and stand in its first entry; whoever asks it again reads them from there, and what is given
again must agree (the holdout itself refuses anything else).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.documents import load
from steelyard.errors import InvalidTask, LedgerError
from steelyard.holdout import HIDING, AbsoluteError, Cost, Holdout, LogLoss, R2Score, RootSquaredError, SquaredError
from steelyard.ledger import Ledger
from steelyard.tables import decoded, finite_of, read_column

_CUT = {"log_loss": LogLoss, "absolute_error": AbsoluteError, "squared_error": SquaredError, "rmse": RootSquaredError}
_WRITTEN = {"log loss": "log_loss", "AbsoluteError": "absolute_error", "SquaredError": "squared_error", "rmse": "rmse"}
_NAMES = ("accuracy", "error", "brier", "auc", "balanced_accuracy", "f1")
METRICS = (*_NAMES, *(f"{name}:CUT" for name in _CUT), "r2:LOW:HIGH", "cost:FILE")
"""What --metric takes; CUT is the largest loss of one row that counts."""

_OPTIONS = ("questions", "budget", "steps", "start", "epsilon", "delta", "noise", "threshold", "sigma")
_TYPED = ("mode", "metric", "tolerance", "confidence", *_OPTIONS)


def settings_typed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among what was typed; classes stay text until the labels' kind is known."""
    found = {name: given[name] for name in (*_TYPED, "classes") if given[name] is not None}
    if "metric" in found:
        found["metric"] = metric_typed(found["metric"])
    if given["between"] is not None:
        found["between"] = tuple(given["between"].split(","))
        if len(found["between"]) != 2:
            raise InvalidTask(f"--between takes two scores such as 0.9,1; got {given['between']!r}.")
    return found


def metric_typed(text: str) -> Any:
    """A metric as typed: a name, or one of the losses with where it is cut, such as log_loss:3."""
    name, colon, cut = text.partition(":")
    if name == "r2":
        low, _, high = cut.partition(":")
        if not low or not high:
            raise InvalidTask("r2 needs public bounds of the label, such as r2:0:100.")
        return R2Score(low, high)
    if name == "cost" and cut:
        return ("cost", load(Sequence[Sequence[float]], cut, "a cost matrix", "cost"))
    if colon and name in _CUT:
        return _CUT[name](upper=cut)
    if name in _CUT:
        raise InvalidTask(f"{name} has no bound: say the largest loss of one row that counts, such as {name}:3.")
    if text not in METRICS:
        raise InvalidTask(f"--metric takes {', '.join(METRICS)}; got {text!r}.")
    return text


def settings_kept(ledger: Ledger, account: str | None, holdout: str) -> tuple[str, dict[str, Any]]:
    """The account that keeps a holdout, and the settings in its first entry; an error says how to open one."""
    first = f"holdout/{holdout}/0"
    opened = [entry for entry in ledger.charges(first) if entry.name == first and account in (None, entry.account)]
    found = {entry.account: json.loads(entry.detail)["parameters"] for entry in opened}
    if len(found) > 1 and holdout not in found:
        raise InvalidTask(f"several accounts keep a holdout {holdout!r}: say --account {' or '.join(sorted(found))}.")
    if not found:
        raise LedgerError(f"no holdout {holdout!r} is kept there; open it first, with: steelyard holdout open")
    kept = holdout if holdout in found else next(iter(found))
    return kept, _read(found[kept])


def _read(kept: Mapping[str, Any]) -> dict[str, Any]:
    metric = _metric_kept(str(kept["metric"]).partition(" of ")[0])
    options = {
        name.removeprefix("option "): json.loads(text) for name, text in kept.items() if name.startswith("option ")
    }
    classes = {"classes": json.loads(kept["classes"])} if "classes" in kept else {}
    return {
        **{name: kept[name] for name in ("mode", "tolerance", "confidence")},
        "metric": metric,
        **classes,
        **options,
    }


def _metric_kept(text: str) -> Any:
    """A metric as it stands in the ledger."""
    name, _, cut = text.partition(" cut at ")
    if text.startswith("r2 between "):
        return R2Score(*text.removeprefix("r2 between ").split(" and "))
    if text.startswith("cost "):
        return "cost", json.loads(text.removeprefix("cost ").translate({ord("("): "[", ord(")"): "]"}))
    metric = f"{_WRITTEN.get(name, name)}:{cut}" if cut else name.replace(" ", "_")
    if name not in _WRITTEN if cut else metric not in _NAMES:
        raise InvalidTask(f"this holdout's metric is {name!r}; the command line cannot make it. Ask it from Python.")
    return metric_typed(metric)


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
