"""Reach an accuracy on an account: the functions under the estimator, the tasks and the command line.

They open the search that fits the model, and say what was found in the label's own units, with the ex-post epsilon of
everything that was released on the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from steelyard.accounting import mu_cap
from steelyard.bounding import Count, Sum
from steelyard.errors import InvalidTask
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models.accuracy._goal import (
    CAP,
    IMPOSSIBLE,
    MET,
    NULL,
    SHARES,
    UNSHOWN,
    Certificate,
    Found,
    Goal,
    Progress,
    Stop,
)
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._split import Split
from steelyard.models.accuracy._telling import epsilons
from steelyard.models.accuracy._total import TotalSearch
from steelyard.privacy import Currency, Loss, Number, Terms, decimal_text, positive
from steelyard.release import Release
from steelyard.session import Session, named

ENDINGS = {
    MET: "reached",
    NULL: "reached with the constant model, which is good enough",
    CAP: "NOT reached: the budget ended first; what was found is the best that it bought, and nothing is certain of it",
    IMPOSSIBLE: "NOT reached: no level of the path could be shown to be good enough",
    UNSHOWN: "NOT reached yet: the path is at its end and could not be shown to be good enough; ask again under the same key",
}
ABOVE = (
    "an ex-post epsilon holds at whatever moment a search stopped, which is harder to promise than one for steps that were fixed "
    "beforehand, so it may be the larger although nothing went beyond the account"
)
NOTHING = "the model that predicts nothing is already good enough"
UNCHANGED = "its rows are those that the path began with"
GRANTED = "; it takes for granted that {}"
LATER = (
    "; the confidence is that of a target fixed beforehand, and this path was walked for another one first, so it does not "
    "cover a target chosen from what that one showed"
)


@dataclass(frozen=True)
class Reached:
    """A model that answers the question, or the best guess where nothing is certified; or a total, as its ``release``.

    ``model`` is a ``Model``, of more than two classes a ``OneVsRest``, or None.
    Losses of the ``path`` are in the label's own units. ``epsilon`` is ex post and speaks of everything this path has released;
    ``epsilon_filter`` is what the same spending means on the account's own scale, ``promised`` the account's epsilon; ``spent`` is
    in the ledger's smallest units; ``key`` names the path. ``str()`` says how it ended, what is certain, and what it cost.
    """

    model: Any
    certificate: Certificate
    reason: str
    path: tuple[Stop, ...]
    spent: int
    epsilon: float
    epsilon_filter: float
    release: Release | None = None
    promised: Fraction | None = None
    key: str = ""

    @property
    def met(self) -> bool:
        """Whether what was asked for is certain of what was found."""
        return self.certificate.met

    @property
    def ending(self) -> str:
        """How the search ended."""
        return ENDINGS[self.reason]

    @property
    def cost(self) -> str:
        """What it cost, and how the two figures stand to what the account promises."""
        promise = "" if self.promised is None else f" of epsilon {decimal_text(self.promised)}"
        said = f"{self.epsilon:.4g} for everything released on the way (ex post); {self.epsilon_filter:.4g} on the account, whose promise{promise} holds"
        if self.promised is None or self.epsilon <= float(self.promised) * (1 + 1e-9):
            return said
        return f"{said}: {ABOVE}"

    def __str__(self) -> str:
        return f"{self.ending}\n{self.certificate}\nepsilon: {self.cost}"


def reach(
    session: Session,
    task: FitLinear | FitLogistic | Sum | Count,
    goal: Goal,
    *,
    penalty: Number = 1,
    key: str | None = None,
    progress: Progress | None = None,
    ids: str | None = None,
) -> Reached:
    """The most private model of a task, or the least sharp total, that is accurate enough.

    Losses of a linear model are in the label's own units, squared. *Privacy:* every step is charged to the session's account before
    it is drawn. *Cost:* known only at the end, and never above the account's cap; of a classifier's excess known beforehand,
    and of a tighter one under the same key its full price again.
    """
    search, tell = _search(task, goal, penalty, ids), progress
    asked, scale = search.asked(goal), 1.0 if goal.kind in SHARES else search.scale
    if progress is not None:
        tell = lambda stop: progress(stop.scaled(scale))  # noqa: E731
    name, terms = named(key), session.account.terms
    found = session.open(search, key=name).reach(asked, tell)
    question, model = search.told(goal, found)
    if terms.unit.kind != "rows" and not isinstance(search, TotalSearch):
        question = f"with every user counting once, {question}"
    bound = math.sqrt(found.bound * scale) if goal.rooted else found.bound * scale
    how = _how(found, goal, terms)
    certificate = Certificate(question, bound, goal.confidence, how, goal.kind in SHARES)
    costs, release = epsilons(terms, found.spent, found.events), None
    if goal.kind == "relative" and found.release is not None:
        release = found.release if certificate.met else _missed(found.release, goal, how)
    path = tuple(stop.scaled(scale) for stop in found.path)
    return Reached(model, certificate, found.reason, path, found.spent, *costs, release, terms.epsilon, name)


def _missed(release: Release, goal: Goal, how: str) -> Release:
    """A total whose own error says that it is not as accurate as was asked."""
    assert release.error is not None
    said = f"the relative error asked for, {goal.amount:g}, was NOT reached: {how}"
    return replace(release, error=replace(release.error, missed=said))


def _search(
    task: FitLinear | FitLogistic | Sum | Count, goal: Goal, penalty: Number, ids: str | None
) -> RidgeSearch | LogisticSearch | TotalSearch:
    """What is searched for; it is bound to the key."""
    if isinstance(task, Sum | Count):
        return TotalSearch(task)
    given = positive(penalty, "penalty"), Split(ids=ids) if goal.check == "disjoint" else None
    if task.weight is not None:
        raise InvalidTask("an accuracy is that of rows which count alike; leave the weight out. Nothing was charged.")
    if isinstance(task, FitLinear):
        return RidgeSearch(task.features, task.target, *given)
    return LogisticSearch(task.features, task.label, task.classes, *given)


def _how(found: Found, goal: Goal, terms: Terms) -> str:
    """Why the bound holds and what it takes for granted: what nobody compares with the table, because that costs."""
    if found.reason == IMPOSSIBLE:
        return "every level of the path was tried and none could be shown to be good enough, which does not say that none is"
    if found.reason == UNSHOWN:
        return "the path is at its end and its last models could not be shown to be good enough, by the noise of what was asked: ask again"
    if found.reason == CAP:
        return why(found)
    if goal.kind == "relative":
        return f"the last interval is that narrow; what the cap cuts off comes on top{GRANTED.format(UNCHANGED)}"
    counted = f"the table has the {terms.unit.n or 0:,} {terms.unit.kind} that its account declares"
    if found.release is not None:
        return "the noise alone bounds it, whatever the rows it was drawn from" + GRANTED.format(counted)
    granted = GRANTED.format(UNCHANGED if goal.check == "disjoint" else f"{counted}, and {UNCHANGED}")
    return shown(found, goal) + (granted if found.path else "")


def shown(found: Found, goal: Goal) -> str:
    """What showed that a model is good enough."""
    if found.reason == NULL:
        return NOTHING
    looked = found.path and found.path[-1].passed
    if looked and found.path[-1].step.startswith("question"):
        return "the watch over the models said so"
    if looked:
        return "paid looks at the rows said so"
    return "the released statistics alone say so" + ("" if goal.kind == "loss" or found.alone else LATER)


def why(found: Found) -> str:
    """Why a search ended at its cap: what the refused step wanted and what was left are public numbers."""
    refused, reached = found.refused, "the cap was reached first"
    if refused is None:
        return f"{reached}: what was left went into a last level and a last look, and the next level would have left too little for one"
    if refused.wanted is None:
        return reached
    if not found.path:
        return f"{reached}: the first step wants {refused.wanted}, and {refused.remaining} is left"
    return f"{reached}: the next step wanted {refused.wanted}, and {refused.remaining} was left"


def within(session: Session, epsilon: Number | None) -> Session:
    """The same session, through which no more than this epsilon is added; None: all that the account has left.

    On a Gaussian account it is the mu that alone would mean this epsilon at the account's own delta.
    """
    if epsilon is None:
        return session
    terms, most = session.account.terms, positive(epsilon, "epsilon")
    if terms.currency is Currency.PURE:
        return session.up_to(Loss.pure(most))
    if not terms.filter_delta:
        raise InvalidTask(f"account {session.account.name!r} counts mu and has no delta; leave epsilon out.")
    return session.up_to(mu_cap(most, terms.filter_delta))
