"""Reach an accuracy on an account: the functions under the estimator, the tasks and the command line.

They open the search that fits the model, and say what was found in the label's own units, with the ex-post epsilon of
everything that was released on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from steelyard.accounting import MixtureOdometer, epsilon_of, mu_cap
from steelyard.bounding import Count, Sum
from steelyard.errors import InvalidTask
from steelyard.models._columns import Features
from steelyard.models._model import Model
from steelyard.models._rows import Target
from steelyard.models.accuracy._goal import (
    CAP,
    IMPOSSIBLE,
    NULL,
    UNSHOWN,
    Certificate,
    Found,
    Goal,
    Progress,
    Stop,
    loss_unit,
)
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.models.accuracy._one_shot import epsilon_before
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._split import Split
from steelyard.models.accuracy._total import TotalSearch
from steelyard.privacy import MICRO, Currency, Event, Loss, Number, Terms, positive
from steelyard.release import Release
from steelyard.session import Session

_TUNED = 1024
UNSEEN = "check rows that the model has not seen"
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

    ``epsilon`` is ex post and speaks of everything this path has released; ``epsilon_filter`` is what the same
    spending means on the account's own scale; ``spent`` is in the ledger's smallest units.
    """

    model: Model | None
    certificate: Certificate
    reason: str
    path: tuple[Stop, ...]
    spent: int
    epsilon: float
    epsilon_filter: float
    release: Release | None = None


def reach_linear(
    session: Session,
    features: Features,
    label: Target,
    goal: Goal,
    *,
    penalty: Number,
    key: str | None = None,
    progress: Progress | None = None,
    ids: str | None = None,
) -> Reached:
    """The most private ridge model that is accurate enough; losses are in the label's own units, squared.

    *Privacy:* every step is charged to the session's account before it is drawn. *Cost:* known only at the end, and
    never above the account's cap.
    """
    search = RidgeSearch(features, label, positive(penalty, "penalty"), _split(goal, ids))
    scale, asked = loss_unit(label), replace(goal, amount=goal.within(label))
    found = session.open(search, key=key).reach(asked, progress)
    model = None
    if found.model is not None:
        bounds = label.lower, label.upper
        model = Model("linear", features, label.column, found.model.tolist(), *bounds, reach=found.reach)
    question = f"the mean squared error on {_where(goal)}, predictions held within the label's bounds,"
    if goal.kind == "excess":
        question = "the penalized half mean squared error above the best possible"
    return _reached(session, goal, found, question, model, scale)


def reach_logistic(
    session: Session,
    features: Features,
    label: str,
    classes: Sequence[Any],
    goal: Goal,
    *,
    penalty: Number,
    key: str | None = None,
    progress: Progress | None = None,
    ids: str | None = None,
) -> Reached:
    """The most private logistic model that is near the best, in one release; or one whose log loss is low enough.

    *Cost:* of an excess, known beforehand, and of a tighter one under the same key its full price again; of a target, found
    out on the way.
    """
    search = LogisticSearch(features, label, classes, positive(penalty, "penalty"), _split(goal, ids))
    found = session.open(search, key=key).reach(goal, progress)
    model = None if found.release is None else Model.from_json(found.release.value)
    if found.model is not None:
        positive_class = tuple(search.classes)[1]
        model = Model("logistic", features, label, found.model.tolist(), positive=positive_class, margin=found.margin)
    question = f"the mean log loss on {_where(goal)}"
    if goal.kind == "excess":
        question = "the penalized mean log loss above the best possible"
    return _reached(session, goal, found, question, model)


def reach_total(
    session: Session, task: Sum | Count, goal: Goal, *, key: str | None = None, progress: Progress | None = None
) -> Reached:
    """The least sharp total whose noise is certainly small beside it."""
    found, terms = session.open(TotalSearch(task), key=key).reach(goal, progress), session.account.terms
    how = f"the last interval is that narrow; what the cap cuts off comes on top{GRANTED.format(UNCHANGED)}"
    if not math.isfinite(found.bound):
        how = why(found)
    certificate = Certificate("the noise, relative to the capped total,", found.bound, goal.confidence, how)
    costs = found.spent, *epsilons(terms, found.spent)
    return Reached(None, certificate, found.reason, found.path, *costs, found.release)


def _split(goal: Goal, ids: str | None) -> Split | None:
    return Split(ids=ids) if goal.check == "disjoint" else None


def _where(goal: Goal) -> str:
    return UNSEEN if goal.check == "disjoint" else "these rows"


def _reached(
    session: Session, goal: Goal, found: Found, question: str, model: Model | None, scale: float = 1.0
) -> Reached:
    terms = session.account.terms
    if terms.unit.kind != "rows":
        question = f"with every user counting once, {question}"
    certificate = Certificate(question, found.bound * scale, goal.confidence, _how(found, goal, terms))
    costs = found.spent, *epsilons(terms, found.spent, found.events)
    return Reached(model, certificate, found.reason, found.path, *costs)


def _how(found: Found, goal: Goal, terms: Terms) -> str:
    """Why the bound holds and what it takes for granted: what nobody compares with the table, because that costs."""
    if found.reason == IMPOSSIBLE:
        return "every level of the path was tried and none could be shown to be good enough, which does not say that none is"
    if found.reason == UNSHOWN:
        return "the path is at its end and its last models could not be shown to be good enough, by the noise of what was asked: ask again"
    if found.reason == CAP:
        return why(found)
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
    if refused is None or refused.wanted is None:
        return reached
    step = "next" if found.path else "first"
    return f"{reached}: the {step} step wants {refused.wanted}, and {refused.remaining} is left"


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


def epsilons(terms: Terms, spent: int, drawn: Sequence[Event] = ()) -> tuple[float, float]:
    """The ex-post epsilon (an odometer tuned by the account's terms, so before any step) and the filter's.

    ``drawn``, where given, is all that was ever released: if it is all pure, the sum of epsilon holds surely.
    """
    if terms.currency is Currency.PURE:
        return spent / MICRO, spent / MICRO
    delta, squared = float(terms.filter_delta), Fraction(spent, MICRO**2)
    if not spent or not delta:
        return (0.0, 0.0) if not spent else (math.inf, math.inf)
    odometer = MixtureOdometer(delta, tuned_at=float(terms.cap.value) / _TUNED)
    after = odometer.epsilon(squared)
    if drawn and all(event.name == "objective_pure" for event in drawn):
        after = min(after, sum(epsilon_before(event, terms) for event in drawn))
    return after, epsilon_of(math.sqrt(float(squared)) * (1 + 1e-12), delta)
