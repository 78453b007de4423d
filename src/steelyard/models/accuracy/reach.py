"""Reach an accuracy on an account: the one function under the estimator, the tasks and the command line.

It opens the path that fits the model, walks it, and reports what was found with the ex-post epsilon of everything that
was released on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.accounting.gaussian import epsilon_of
from steelyard.accounting.odometers import MixtureOdometer
from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.models.accuracy.disjoint import DisjointSearch
from steelyard.models.accuracy.disjoint_logistic import DisjointLogistic
from steelyard.models.accuracy.logistic_search import LogisticSearch
from steelyard.models.accuracy.near_best import NearBest
from steelyard.models.accuracy.one_shot import LogisticTask, epsilon_before
from steelyard.models.accuracy.outcome import Found, Stop
from steelyard.models.accuracy.pure_logistic import PureLogistic
from steelyard.models.accuracy.pure_ridge import PureRidge
from steelyard.models.accuracy.refusals import Listening
from steelyard.models.accuracy.ridge_search import RidgeSearch
from steelyard.models.accuracy.transcript import Transcript
from steelyard.models.accuracy.wanted import Certificate, Wanted, loss_unit
from steelyard.models.columns import Features
from steelyard.models.model import Model
from steelyard.models.rows import Target
from steelyard.privacy import MICRO, Currency, Event, Number, Terms, positive
from steelyard.release import Release
from steelyard.session import Session, named

Progress = Callable[[Stop], None]
_TUNED = 1024
UNSEEN = "check rows that the model has not seen"
EXCESS = "the penalized half mean squared error above the best possible"
LOSS = "the mean squared error on these rows, predictions held within the label's bounds,"
NOTHING = "the model that predicts nothing is already good enough"
UNCHANGED = "its rows are those that the path began with"
GRANTED = "; it takes for granted that {}"
LATER = (
    "; the confidence is that of a target fixed beforehand, and this path was walked for another one first, so it does not "
    "cover a target chosen from what that one showed"
)


@dataclass(frozen=True)
class Reached:
    """A model that answers the question, or the best guess where nothing is certified.

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


def reach_linear(
    session: Session,
    features: Features,
    label: Target,
    wanted: Wanted,
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
    session = heard = Listening(session)
    search, scale = RidgeSearch(features, label, positive(penalty, "penalty")), loss_unit(label)
    amount = wanted.of(label)
    if wanted.check == "disjoint":
        apart = DisjointSearch(features, label, search.penalty, ids=ids)
        found = session.open(apart, key=key).reach_loss(amount, wanted.confidence, progress=progress)
        question = f"the mean squared error on {UNSEEN}, predictions held within the label's bounds,"
    elif session.account.terms.currency is Currency.PURE:
        found, question = _under_watch(session, search, wanted, key, progress)
    elif wanted.kind == "excess":
        looks, walk = 0 if wanted.check == "certificate" else 2, session.open(search, key=key)
        found = walk.reach_excess(amount, wanted.confidence, looks=looks, progress=progress)
        question = EXCESS
    else:
        every, walk = wanted.check == "every", session.open(search, key=key)
        found = walk.reach_loss(amount, wanted.confidence, every=every, progress=progress)
        question = LOSS
    theta = None if found.model is None else found.model.tolist()
    model = (
        None
        if theta is None
        else Model("linear", features, label.column, theta, label.lower, label.upper, reach=found.reach)
    )
    how = _how(found, heard, covered=wanted.kind == "loss") + _granted(found, wanted, session.account.terms)
    certificate = Certificate(_asked(question, session), found.bound * scale, wanted.confidence, how)
    return Reached(
        model, certificate, found.reason, found.path, found.spent, *epsilons(session.account.terms, found.spent)
    )


def _under_watch(
    session: Session, search: RidgeSearch, wanted: Wanted, key: str | None, progress: Progress | None
) -> tuple[Found, str]:
    """The same questions on a pure account: a Laplace path, and a watch that asks of each model."""
    if wanted.check == "certificate":
        raise InvalidTask(
            "check='certificate' is made of Gaussian steps; open the account with a delta, or leave it out."
        )
    walk = session.open(PureRidge(search.features, search.label, search.penalty), key=key)
    amount = wanted.of(search.label)
    if wanted.kind == "excess":
        return walk.reach_excess(amount, wanted.confidence, progress=progress), EXCESS
    return walk.reach_loss(amount, wanted.confidence, progress=progress), LOSS


def reach_logistic(
    session: Session,
    features: Features,
    label: str,
    classes: Sequence[Any],
    wanted: Wanted,
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
    heard, key = Listening(session), named(key)
    if wanted.check == "disjoint":
        apart = DisjointLogistic(features, label, classes, positive(penalty, "penalty"), ids=ids)
        return _reach_log_loss(heard, apart, wanted, key, progress)
    kind = PureLogistic if session.account.terms.currency is Currency.PURE else LogisticSearch
    search = kind(features, label, classes, positive(penalty, "penalty"))
    if wanted.kind == "excess":
        return _near_best(heard, search, wanted, key, progress)
    return _reach_log_loss(heard, search, wanted, key, progress)


def _near_best(
    session: Listening, search: LogisticSearch | PureLogistic, wanted: Wanted, key: str, progress: Progress | None
) -> Reached:
    task = LogisticTask(search.features, search.label, search.classes, wanted.amount, wanted.confidence, search.penalty)
    null = task.null()
    if null is None:
        session.quote(task)  # refuses what cannot be asked, before anything is charged
    else:
        session.open(search, key=key)
    terms, desk = session.account.terms, session.desk(search, key)
    near = NearBest(desk)
    question = _asked("the penalized mean log loss above the best possible", session)
    if null is not None:
        free = Certificate(question, math.log(2), wanted.confidence, NOTHING)
        return Reached(null, free, "null_model_ok", (), *_costs(near, desk))
    try:
        release = near.reach(task)
    except BudgetExceeded:
        nothing = Certificate(question, math.inf, wanted.confidence, session.why(0))
        return Reached(None, nothing, "cap_reached", (), *_costs(near, desk))
    stop = _drawn(release, terms)
    if progress is not None:
        progress(stop)
    bound = float(release.point["excess"])
    how = "the noise alone bounds it, whatever the rows it was drawn from" + GRANTED.format(counted(terms))
    certificate = Certificate(question, bound, wanted.confidence, how)
    return Reached(Model.from_json(release.value), certificate, "target_met", (stop,), *_costs(near, desk))


def _drawn(release: Release, terms: Terms) -> Stop:
    """One line for one draw; on a pure account its epsilon stands where mu squared would."""
    pure, spent = terms.currency is Currency.PURE, release.guarantee.spent.amount
    bound = float(release.point["excess"])
    return Stop("pure objective", spent / MICRO, bound) if pure else Stop("objective", spent / MICRO**2, bound)


def _costs(near: NearBest, desk: Desk) -> tuple[int, float, float]:
    """What the key has spent, and both epsilons: whoever saw one draw may stop there or ask for another.

    So even one alone is told by the odometer.
    """
    spent = Transcript.of(desk).spent
    events = [release.event for release in near.kept] if near.spent == spent else []
    return spent, *epsilons(desk.terms, spent, events)


def _reach_log_loss(
    session: Listening,
    search: LogisticSearch | PureLogistic | DisjointLogistic,
    wanted: Wanted,
    key: str,
    progress: Progress | None,
) -> Reached:
    where = UNSEEN if wanted.check == "disjoint" else "these rows"
    walk: Any = session.open(search, key=key)
    more = (
        {"every": True} if wanted.check == "every" and isinstance(search, LogisticSearch) else {}
    )  # a watch always asks
    found = walk.reach_loss(wanted.amount, wanted.confidence, progress=progress, **more)
    theta = None if found.model is None else found.model.tolist()
    model = (
        None
        if theta is None
        else Model(
            "logistic", search.features, search.label, theta, positive=tuple(search.classes)[1], margin=found.margin
        )
    )
    question = _asked(f"the mean log loss on {where}", session)
    how = _how(found, session, covered=True) + _granted(found, wanted, session.account.terms)
    certificate = Certificate(question, found.bound, wanted.confidence, how)
    costs = found.spent, *epsilons(session.account.terms, found.spent)
    return Reached(model, certificate, found.reason, found.path, *costs)


def _asked(question: str, session: Session) -> str:
    """The question as it is asked of a session: where users are hidden, each of them counts once."""
    return question if session.account.terms.unit.kind == "rows" else f"with every user counting once, {question}"


def _how(found: Found, heard: Listening, *, covered: bool) -> str:
    if found.reason == "target_impossible":
        return "every level of the path was tried and none could be shown to be good enough, which does not say that none is"
    if found.reason == "cap_reached":
        return heard.why(len(found.path))
    if found.reason == "null_model_ok":
        return NOTHING
    looked = found.path and found.path[-1].passed
    if looked and found.path[-1].step.startswith("question"):
        return "the watch over the models said so"
    how = "paid looks at the rows said so" if looked else "the released statistics alone say so"
    return how if covered or looked or found.alone else how + LATER


def _granted(found: Found, wanted: Wanted, terms: Terms) -> str:
    """What nobody compares with the table, because an answer would have to be paid for."""
    if not math.isfinite(found.bound) or not found.path:
        return ""
    return GRANTED.format(UNCHANGED if wanted.check == "disjoint" else f"{counted(terms)}, and {UNCHANGED}")


def counted(terms: Terms) -> str:
    """That a declared n is true: a mean is a total over it."""
    return f"the table has the {terms.unit.n:,} {terms.unit.kind} that its account declares"


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
