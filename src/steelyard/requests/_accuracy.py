"""A model asked for by its accuracy: walked until it is reached, planned without a charge, and put into words.

Each step is charged before it is drawn and told as it is released. Losses are told in the label's own units throughout, and a
model that nothing is certified of is not handed out.
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
from steelyard.models.accuracy import Goal, Reached, Stop, epsilons, loss_unit, reach, within
from steelyard.privacy import Loss, Number, Terms, decimal_text
from steelyard.requests._dry_run import DryRun, WouldCharge
from steelyard.requests._replies import Lines, Reply, columns
from steelyard.session import Session
from steelyard.tables import Table

_MET = ("target_met", "null_model_ok")
_REASONS = {
    "target_met": "reached",
    "null_model_ok": "reached with the constant model: {constant} is good enough",
    "cap_reached": "NOT reached: the budget ended first",
    "target_impossible": "NOT reached: no level of the path could be shown to be good enough",
    "not_shown": "NOT reached yet: the path is at its end and could not be shown to be good enough; ask again under the same key",
}
_HEADER = f"{'step':<24} {'epsilon so far':<16} loss (a look's is noisy)"
_MISSED = 3


@dataclass(frozen=True)
class AccuracyRequest:
    """What to fit (``task``; its epsilon is the account's), how good it must be, and how the path to it is walked.

    ``most`` limits what is added to an account that has other uses; ``key`` names the path on it.
    """

    task: FitLinear | FitLogistic
    target_loss: Number | None = None
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
        return Goal.read(self.target_loss, self.excess_loss, None, self.confidence, self.check)

    @property
    def scale(self) -> float:
        """What a loss of one means in the label's own units."""
        return loss_unit(self.task.target) if isinstance(self.task, FitLinear) else 1.0

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

    def teller(self, account: Account) -> Callable[[Stop], list[str]]:
        """The lines for each step as it is released, a header before the first.

        What was spent so far is read from the account, which knows where parts of a path cost the dearer one alone; what an
        earlier call paid under the same key belongs to the path too.
        """
        paid = 0 if self.key is None else sum(cost for _, cost in account.answered(self.key).values())
        before, header = account.spent.amount - paid, [_HEADER]

        def tell(stop: Stop) -> list[str]:
            lines = [*header, _line(stop, epsilons(account.terms, account.spent.amount - before)[0], self.scale)]
            header.clear()
            return lines

        return tell

    @staticmethod
    def is_met(found: Reached) -> bool:
        """Whether there is a model of which the accuracy is certified."""
        return found.reason in _MET and found.model is not None

    def reply(self, terms: Terms, found: Reached, out: str, note: str, problems: list[str]) -> Reply:
        """What was found, and where the model is; ``problems`` are files that could not be written after the payment."""
        met = self.is_met(found)
        data = {
            "reason": found.reason,
            "certificate": str(found.certificate),
            "bound": found.certificate.bound if found.certificate.met else None,
            "epsilon": found.epsilon,
            "epsilon_filter": found.epsilon_filter,
            "path": [_step(stop, self.scale) for stop in found.path],
            "model": out if met else None,
        }
        text = columns(self._lines(terms, found, out if met and not problems else None, out, note))
        if not problems:
            return Reply(text, data, exit_code=0 if met else _MISSED)
        return Reply(
            "\n".join([text, *problems]), {**data, "model": found.model and found.model.to_json()}, exit_code=2
        )

    def _lines(self, terms: Terms, found: Reached, saved: str | None, out: str, note: str) -> Lines:
        promised = "" if terms.epsilon is None else f" of epsilon {decimal_text(terms.epsilon)}"
        linear = isinstance(self.task, FitLinear)
        constant = "predicting the middle of the label's bounds" if linear else "giving both classes one half"
        none = f"none: nothing is certified, and nothing was written to {out}"
        spent = f"{found.epsilon:.4g} for everything released on the way (ex post); {found.epsilon_filter:.4g} on the account"
        return [
            ("accuracy", _REASONS[found.reason].format(constant=constant)),
            ("certificate", str(found.certificate)),
            ("epsilon", f"{spent}, whose promise{promised} holds"),
            ("steps", str(len(found.path))),
            ("model", none if saved is None else f"saved to {saved}"),
            ("account", note or "charged to the account that was named"),
        ]


def accuracy_from(request: Any) -> AccuracyRequest:
    """A request for an accuracy, as JSON text or already parsed, that ``request_of`` wrote; strict as for a task."""
    data = parse(request) if isinstance(request, str | bytes) else request
    return cast(AccuracyRequest, decode(AccuracyRequest, data, "request"))


def _line(stop: Stop, spent: float, scale: float) -> str:
    said = [] if stop.bound is None else [f"at most {stop.bound * scale:.4g}"]
    said += [] if stop.loss is None else [f"about {stop.loss * scale:.4g},"]
    said += [] if stop.passed is None else ["passed" if stop.passed else "not yet"]
    return f"{stop.step:<24} {spent:<16.4g} {' '.join(said)}".rstrip()


def _step(stop: Stop, scale: float) -> dict[str, Any]:
    """A step with its losses in the label's own units, as the bound is."""
    told = stop.to_json()
    return {**told, **{name: None if told[name] is None else told[name] * scale for name in ("bound", "loss")}}


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
