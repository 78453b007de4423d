"""The settings of a holdout as typed, and as the ledger remembers them: they are given once, when it is opened.

A holdout's settings are public and stand in its first entry; ``check`` and ``show`` read them from there, and what is
typed again must agree (the holdout itself refuses anything else).
"""

from __future__ import annotations

import argparse
import ast
import json
from typing import Any

from steelyard.errors import InvalidTask, LedgerError
from steelyard.privacy import whole_number

DEFAULTS = {"mode": "certified", "metric": "accuracy", "tolerance": "0.05", "confidence": "0.95"}
_WHOLE = ("questions", "budget", "steps")
_TEXT = ("start", "epsilon", "delta", "noise", "threshold", "sigma")


def add_settings(verb: argparse.ArgumentParser) -> None:
    """Everything that ``Holdout`` takes; defaults are filled in later, so that what was typed can be told."""
    verb.add_argument("--tolerance", help="how far an answer may be off (default 0.05)")
    verb.add_argument("--confidence", help="for all answers together (default 0.95)")
    verb.add_argument(
        "--mode",
        choices=["certified", "ladder", "rounds", "private", "classic"],
        help="certified (default): guesses; ladder: best so far; rounds: winners; private, classic: noisy scores (classic: one command is one row of answers)",
    )
    verb.add_argument("--metric", choices=["accuracy", "error", "brier"], help="default accuracy")
    verb.add_argument("--classes", help="what labels may be, separated by commas; private and classic need it")
    verb.add_argument(
        "--questions", type=whole_number, help="the most questions ever asked; how many, where labels are hidden"
    )
    verb.add_argument("--between", metavar="LOW,HIGH", help="the scores that must be answered within the tolerance")
    verb.add_argument("--steps", type=whole_number, help="certified, ladder: the grid of answers")
    verb.add_argument("--start", help="ladder: the score shown before any record")
    verb.add_argument("--epsilon", help="private: the most that all answers may cost")
    verb.add_argument("--delta", help="private: default 1e-6")
    verb.add_argument("--noise", choices=["gaussian", "bounded"], help="private: default gaussian")
    verb.add_argument("--budget", type=whole_number, help="classic: how many answers are paid for")
    verb.add_argument("--threshold", help="classic: how far a guess may be off")
    verb.add_argument("--sigma", help="classic: the noise of a paid answer")


def typed(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were typed, as text."""
    names = (*DEFAULTS, "classes", "between", *_WHOLE, *_TEXT)
    return {name: str(getattr(args, name)) for name in names if getattr(args, name) is not None}


def remembered(ledger: Any, account: str | None, holdout: str) -> tuple[str, dict[str, Any]]:
    """The account that keeps a holdout, and the settings in its first entry; an error says how to open one."""
    found = {
        entry.account: entry.detail
        for entry in ledger.entries()
        if entry.kind == "charge" and entry.name == f"holdout/{holdout}/0" and account in (None, entry.account)
    }
    if len(found) > 1 and holdout not in found:
        raise InvalidTask(f"several accounts keep a holdout {holdout!r}: say --account {' or '.join(sorted(found))}.")
    if not found:
        raise LedgerError(f"no holdout {holdout!r} is kept there; open it first, with: steelyard holdout open")
    kept = holdout if holdout in found else next(iter(found))
    return kept, _read(json.loads(found[kept])["parameters"])


def _read(kept: dict[str, Any]) -> dict[str, Any]:
    metric, _, classes = str(kept["metric"]).partition(" of ")
    if metric not in ("accuracy", "error", "brier"):
        raise InvalidTask(f"this holdout's metric is {metric!r}; the command line cannot make it. Ask it from Python.")
    found = {name: str(kept[name]) for name in ("mode", "tolerance", "confidence")} | {"metric": metric}
    if classes:
        found["classes"] = ast.literal_eval(classes)
    for name, value in kept.items():
        if name.startswith("option "):
            found[name.removeprefix("option ")] = str(value).strip("()[]").replace("'", "").replace(" ", "")
    return found


def arguments(settings: dict[str, Any], numeric: bool | None) -> dict[str, Any]:
    """What ``Holdout`` is called with; ``numeric``: the labels are numbers, and so the classes are (None: as typed)."""
    found: dict[str, Any] = {name: settings.get(name, usual) for name, usual in DEFAULTS.items()}
    if "classes" in settings:
        kept = settings["classes"]
        found["classes"] = _classes(kept.split(","), numeric) if isinstance(kept, str) else kept
    if "between" in settings:
        ends = tuple(settings["between"].split(","))
        if len(ends) != 2:
            raise InvalidTask(f"--between takes two scores such as 0.9,1; got {settings['between']!r}.")
        found["between"] = ends
    found |= {name: int(settings[name]) for name in _WHOLE if name in settings}
    return found | {name: settings[name] for name in _TEXT if name in settings}


def _classes(texts: list[str], numeric: bool | None) -> list[Any]:
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
