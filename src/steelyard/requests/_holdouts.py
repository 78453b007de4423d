"""The settings of a holdout as typed, and as the ledger remembers them: they are given once, when it is opened.

A holdout's settings are public and stand in its first entry; whoever asks it again reads them from there, and what is given
again must agree (the holdout itself refuses anything else).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from steelyard.documents import load
from steelyard.errors import InvalidTask, LedgerError
from steelyard.holdout import AbsoluteError, LogLoss, R2Score, RootSquaredError, SquaredError

if TYPE_CHECKING:
    from steelyard.ledger import Ledger

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
