"""A model asked for by its accuracy: walked until it is reached, planned without a charge, and put into words.

Each step is charged before it is drawn and told as it is released. Losses are told in the label's own units throughout. Where the
accuracy was missed the best model that the budget bought is handed out all the same, and every line about it says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from steelyard.account import Account
from steelyard.documents import decode, parse
from steelyard.errors import KeyConflict
from steelyard.lazy import lazy
from steelyard.models import FitLinear, FitLogistic
from steelyard.models.accuracy import Goal, Reached, Stop, epsilons, reach, within
from steelyard.privacy import Loss, Number, Terms, decimal_text
from steelyard.requests._dry_run import DryRun, WouldCharge
from steelyard.requests._replies import Lines, Reply, columns
from steelyard.session import Session
from steelyard.tables import Table

ACCURACIES = ("target_loss", "target_rmse", "target_r2", "target_accuracy", "excess_loss")
_MISSED = 3


@dataclass(frozen=True)
class AccuracyRequest:
    """What to fit (``task``; its epsilon is the account's), how good it must be, and how the path to it is walked.

    ``most`` limits what is added to an account that has other uses; ``key`` names the path on it.
    """

    task: FitLinear | FitLogistic
    target_loss: Number | None = None
    target_rmse: Number | None = None
    target_r2: Number | None = None
    target_accuracy: Number | None = None
    excess_loss: Number | None = None
    confidence: Number = "0.9"
    check: str = "auto"
    penalty: Number = "0.001"
    key: str | None = None
    ids: str | None = None
    most: Number | None = None

    def __post_init__(self) -> None:
        _ = self.goal  # refuses what makes no sense

    @lazy
    def goal(self) -> Goal:
        """The one question that is asked."""
        return Goal.read({name: getattr(self, name) for name in ACCURACIES}, self.confidence, self.check)

    def walk(self, table: Table, account: Account, progress: Callable[[Stop], None] | None = None) -> Reached:
        """Go on until the model is accurate enough, or the budget is gone."""
        session = within(Session(table, account), self.most)
        told: dict[str, Any] = {"penalty": self.penalty, "key": self.key, "ids": self.ids, "progress": progress}
        try:
            return reach(session, self.task, self.goal, **told)
        except KeyConflict as conflict:
            if not conflict.other_request:
                raise
            raise self._named(account) from None

    def _named(self, account: Account) -> KeyConflict:
        """A conflict by the key that was given: a path's steps have names of their own under it."""
        return KeyConflict(
            f"the key {self.key!r} already names another request on account {account.name!r}: another setting than now was given "
            "then (model, label, its bounds or classes, features, penalty, or --check disjoint). Repeat that one to go on "
            "along its path, or choose a new key.",
            other_request=True,
        )

    def plan(self, table: Table, account: Account) -> Reply:
        """The same request up to its first charge, which for a classifier near the best is the only one."""
        try:
            found = self.walk(table, DryRun(account))
        except WouldCharge as first:
            once = isinstance(self.task, FitLogistic) and self.goal.kind == "excess"
            if not once or first.cost is None or first.event is None:
                return _planned_path(account)
            return _planned_release(account, first.cost, epsilons(account.terms, first.cost.amount, [first.event])[0])
        return _planned_path(account) if found.reason == "cap_reached" else _planned_nothing(account)

    def reply(self, found: Reached, out: str, note: str, problems: list[str]) -> Reply:
        """What was found, and where the model is; ``problems`` are files that could not be written after the payment."""
        data = {
            "reason": found.reason,
            "certificate": str(found.certificate),
            "bound": found.certificate.bound if found.certificate.met else None,
            "epsilon": found.epsilon,
            "epsilon_filter": found.epsilon_filter,
            "path": [stop.to_json() for stop in found.path],
            "model": None if found.model is None else out,
        }
        text = columns(self._lines(found, out, note, saved=not problems))
        if not problems:
            return Reply(text, data, exit_code=0 if found.met else _MISSED)
        return Reply(
            "\n".join([text, *problems]), {**data, "model": found.model and found.model.to_json()}, exit_code=2
        )

    def _lines(self, found: Reached, out: str, note: str, *, saved: bool) -> Lines:
        linear = isinstance(self.task, FitLinear)
        several = isinstance(self.task, FitLogistic) and len(self.task.classes) > 2
        constant = "giving all classes alike" if several else "giving both classes one half"
        constant = "predicting the middle of the label's bounds" if linear else constant
        model = "none" if found.model is None else f"saved to {out}" if saved else f"not written to {out}"
        return [
            ("accuracy", found.ending.replace("the constant model, which", f"the constant model: {constant}")),
            ("certificate", str(found.certificate)),
            ("epsilon", found.cost),
            ("steps", str(len(found.path))),
            ("model", model if found.met or found.model is None else f"{model}, of which nothing is certain"),
            ("account", note or "charged to the account that was named"),
        ]


def accuracy_from(request: Any) -> AccuracyRequest:
    """A request for an accuracy, as JSON text or already parsed, that ``request_of`` wrote; strict as for a task."""
    data = parse(request) if isinstance(request, str | bytes) else request
    return cast(AccuracyRequest, decode(AccuracyRequest, data, "request"))


def _planned_path(account: Account) -> Reply:
    """What is known of a path beforehand: that it ends where the account does."""
    spends = "what the accuracy turns out to cost, step by step, each charged before it is drawn; try public rows first"
    return _planned(account, [("would spend", spends)], "at most", {})


def _planned_release(account: Account, cost: Loss, alone: float) -> Reply:
    """The exact price of the one release that answers, and its epsilon by itself."""
    enough = cost <= account.remaining
    lines = [
        ("would spend", f"{_priced(account.terms, cost)}, exactly"),
        ("by itself", f"epsilon {alone:.4g}"),
        ("enough", "yes" if enough else "no: the accuracy would not be reached, and nothing be spent"),
    ]
    return _planned(account, lines, "left now", {"cost": cost.to_json(), "epsilon": alone, "enough": enough})


def _planned_nothing(account: Account) -> Reply:
    """What needs no charge: stored under its key already, or true of the constant model without a look."""
    lines = [("would spend", "nothing more: it costs nothing, or was paid for under this key before")]
    return _planned(account, lines, "left now", {"cost": Loss.zero(account.terms.currency).to_json()})


def _planned(account: Account, lines: Lines, most: str, data: dict[str, Any]) -> Reply:
    terms, left = account.terms, account.remaining
    lines = [*lines, (most, _priced(terms, left)), ("hides", str(terms.unit))]
    at_most = {"at_most": left.to_json(), "epsilon_at_most": epsilons(terms, left.amount)[1]}
    return Reply(columns(lines), {**data, **at_most})


def _priced(terms: Terms, loss: Loss) -> str:
    """A loss, with the epsilon it means beside a mu."""
    if not terms.filter_delta:
        return str(loss)
    return f"{loss} (epsilon {epsilons(terms, loss.amount)[1]:.4g} at delta {decimal_text(terms.filter_delta)})"
