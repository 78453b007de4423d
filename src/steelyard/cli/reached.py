"""What ``steelyard fit`` tells of a search for an accuracy: a line for each step as it is released, then what was found.

Losses are in the label's own units throughout. A model that nothing is certified of is not written anywhere.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steelyard.cli.answer import Answer, columns
from steelyard.cli.files import Outputs
from steelyard.privacy import Loss, Terms, decimal_text

if TYPE_CHECKING:
    from steelyard.ledger import Account
    from steelyard.models.accuracy import Reached, Stop

_MET = ("target_met", "null_model_ok")
_REASONS = {
    "target_met": "reached",
    "null_model_ok": "reached with the constant model: {constant} is good enough",
    "cap_reached": "NOT reached: the budget ended first",
    "target_impossible": "NOT reached: no level of the path could be shown to be good enough",
}
_CONSTANT = {"linear": "predicting the middle of the label's bounds", "logistic": "giving both classes one half"}
_MISSED = 3


def teller(args: argparse.Namespace, account: Account, scale: float) -> Callable[[Stop], None] | None:
    """A line for each step on standard error, from what was released; nothing when a program listens.

    What was spent so far is read from the account, which knows where parts of a path cost the dearer one alone; what an
    earlier call paid under the same key belongs to the path too.
    """
    from steelyard.models.accuracy import epsilons

    if args.json:
        return None
    before, told = account.spent.amount - _paid(account, args.key), False

    def tell(stop: Stop) -> None:
        nonlocal told
        if not told:
            print(f"{'step':<24} {'epsilon so far':<16} loss (a look's is noisy)", file=sys.stderr)
        told = True
        spent, _ = epsilons(account.terms, account.spent.amount - before)
        said = [] if stop.bound is None else [f"at most {stop.bound * scale:.4g}"]
        said += [] if stop.loss is None else [f"about {stop.loss * scale:.4g},"]
        said += [] if stop.passed is None else ["passed" if stop.passed else "not yet"]
        print(f"{stop.step:<24} {spent:<16.4g} {' '.join(said)}".rstrip(), file=sys.stderr, flush=True)

    return tell


def _paid(account: Account, key: str | None) -> int:
    """What the steps under a key have cost before, in the ledger's smallest units; a raised charge costs its last level."""
    from steelyard.ledger import Ledger

    if key is None or not account.durable:
        return 0
    levels: dict[int, int] = {}
    for entry in Ledger(account.location).entries():
        if entry.kind == "charge" and entry.account == account.name and f"{entry.name}/".startswith(f"{key}/"):
            levels[entry.sequence] = entry.amount
        elif entry.kind == "raise" and entry.charge in levels:
            levels[entry.charge] = entry.amount
    return sum(levels.values())


def answer(
    args: argparse.Namespace, terms: Terms, found: Reached, target: float, note: str, scale: float, files: Outputs
) -> Answer:
    """Save the model where it was reached, draw the path, and tell both."""
    met = found.reason in _MET and found.model is not None
    if met and found.model is not None:
        files.write(args.out, found.model.save)
    if args.chart:
        from steelyard.models.accuracy import path_chart

        files.write(args.chart, path_chart(found.path, target, scale=scale).save)
    data = {
        "reason": found.reason,
        "certificate": str(found.certificate),
        "bound": found.certificate.bound if found.certificate.met else None,
        "epsilon": found.epsilon,
        "epsilon_filter": found.epsilon_filter,
        "path": [_step(stop, scale) for stop in found.path],
        "model": args.out if met else None,
    }
    text = columns(_lines(args, terms, found, note, met=met and not files.problems))
    if not files.problems:
        return Answer(text, data, exit_code=0 if met else _MISSED)
    model = "" if found.model is None else json.dumps(found.model.to_json())
    told = [text, *(f"warning: {problem}" for problem in files.problems), f"what was paid for: {model}"]
    return Answer("\n".join(told), {**data, "model": found.model and found.model.to_json()}, exit_code=2)


def _lines(args: argparse.Namespace, terms: Terms, found: Reached, note: str, *, met: bool) -> list[tuple[str, str]]:
    promised = "" if terms.epsilon is None else f" of epsilon {decimal_text(terms.epsilon)}"
    return [
        ("accuracy", _REASONS[found.reason].format(constant=_CONSTANT[args.model])),
        ("certificate", str(found.certificate)),
        (
            "epsilon",
            f"{found.epsilon:.4g} for everything released on the way (ex post); {found.epsilon_filter:.4g} on the account, "
            f"whose promise{promised} holds",
        ),
        ("steps", str(len(found.path))),
        (
            "model",
            f"saved to {args.out}" if met else f"none: nothing is certified, and nothing was written to {args.out}",
        ),
        ("account", note or "charged to the account that was named"),
    ]


def _step(stop: Stop, scale: float) -> dict[str, Any]:
    """A step with its losses in the label's own units, as the bound is."""
    told = stop.to_json()
    return {**told, **{name: None if told[name] is None else told[name] * scale for name in ("bound", "loss")}}


def planned_path(account: Account) -> Answer:
    """What is known of a path beforehand: that it ends where the account does."""
    spends = "what the accuracy turns out to cost, step by step, each charged before it is drawn; try public rows first"
    return _planned(account, [("would spend", spends)], "at most", {})


def planned_release(account: Account, cost: Loss, alone: float) -> Answer:
    """The exact price of the one release that answers, and its epsilon by itself."""
    enough = cost <= account.remaining
    lines = [
        ("would spend", f"{_priced(account.terms, cost)}, exactly"),
        ("by itself", f"epsilon {alone:.4g}"),
        ("enough", "yes" if enough else "no: the accuracy would not be reached, and nothing be spent"),
    ]
    return _planned(account, lines, "left now", {"cost": cost.to_json(), "epsilon": alone, "enough": enough})


def planned_nothing(account: Account) -> Answer:
    """What needs no charge: stored under its key already, or true of the constant model without a look."""
    lines = [("would spend", "nothing more: it costs nothing, or was paid for under this key before")]
    return _planned(account, lines, "left now", {"cost": Loss.zero(account.terms.currency).to_json()})


def _planned(account: Account, lines: list[tuple[str, str]], most: str, data: dict[str, Any]) -> Answer:
    terms, left = account.terms, account.remaining
    lines = [*lines, (most, _priced(terms, left)), ("hides", str(terms.unit))]
    return Answer(columns(lines), {**data, "at_most": left.to_json(), "epsilon_at_most": _epsilon(terms, left)})


def _priced(terms: Terms, loss: Loss) -> str:
    """A loss, with the epsilon it means beside a mu."""
    delta = decimal_text(terms.filter_delta)
    return str(loss) if not terms.filter_delta else f"{loss} (epsilon {_epsilon(terms, loss):.4g} at delta {delta})"


def _epsilon(terms: Terms, loss: Loss) -> float:
    from steelyard.models.accuracy import epsilons

    return epsilons(terms, loss.amount)[1]
