"""The page on which a question is planned: say how exact it must be and read what that costs, or the other way round. Free.

Accuracy drives the price by asking the planner itself: the least epsilon, to three digits, whose predicted error is small enough. Nothing here
reads a row; the page is an address, so a plan can be kept and sent to a colleague.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from steelyard.accounting import price, told
from steelyard.charts import Line, at_error, lines, short
from steelyard.documents import request_of
from steelyard.errors import SteelyardError
from steelyard.plan import Error
from steelyard.privacy import Loss, canonical, exact
from steelyard.server import _asking as asking
from steelyard.server._call import Call, Endpoint
from steelyard.server._problems import Problem
from steelyard.server.pages import _questions as questions
from steelyard.server.pages._budgets import SETS, YOURS, Bar, amount, bar_of
from steelyard.server.pages._lines import looks_of, said_of
from steelyard.server.pages._parts import at, go, page
from steelyard.server.pages._pictures import Picture, shown
from steelyard.session import Session

_LEAST, _MOST, _STEPS = 1e-4, 100.0, 14  # finer than three digits
_TASTE = (0.25, 0.4, 0.63, 1.0, 1.6, 2.5, 4.0)


@dataclass(frozen=True)
class Shown:
    """A plan as its page tells it."""

    error: str
    error_about: str
    costs: str
    bars: list[Bar]
    told: list[str]
    request: str
    key: str
    python: str
    may_ask: bool
    ask: str = ""
    why_not: str = ""
    before: dict[str, str] | None = None
    charts: list[Picture] = field(default_factory=list)


def show_plan(call: Call) -> Response:
    """The form, and the plan of what was filled in."""
    dataset, given = call.set, call.query
    kind = given.get("kind", "count")
    if kind not in questions.KINDS:
        raise Problem(404, "NotFound", "there is no such kind of question.")
    if dataset.state != "described":
        raise Problem(409, "NoColumns", "the worker has not looked at the table's columns yet; try again in a moment.")
    account = asking.paying(call.server, dataset, call.who)
    session = call.server.paper(dataset, account)
    wanted = looks_of(call, given.get("column", "")) if kind == "sum" else ()
    looks = {str(job.sequence): (words, value) for job, words, value in wanted}
    plan, problem, filled = None, "", dict(given)
    if questions.is_filled(kind, given):
        try:
            plan, filled = _planned(call, session, kind, given, looks)
        except SteelyardError as refusal:
            problem = str(refusal)
        except Problem as refusal:
            problem = refusal.detail
    known, terms = questions.KINDS[kind], session.account.terms
    offered = tuple((name, words) for name, (words, _) in looks.items())
    href = at("sets", dataset.name, "plan")
    return page(
        call, "plan.html", "Plan a question",
        trail=(("/", "Home"), (at("sets", dataset.name), dataset.title or dataset.name)),
        kinds=[(f"{href}?{urlencode({'kind': name})}", each.words) for name, each in questions.KINDS.items()],
        kind=kind, kind_words=known.words, kind_told=known.told, here_plan=href, ask_href=at("sets", dataset.name, "releases"),
        fields=questions.fields_of(kind, filled, dataset.columns, terms.unit.column, offered, problem),
        side=given.get("by_side", "epsilon"), by_error=kind not in ("mean", "quantile", "spread"),
        error=filled.get("error", ""), epsilon=filled.get("epsilon", ""), error_unit=known.error, currency=questions.currency(terms),
        epsilon_hint=f"you have {amount(session.account.remaining, terms)} left", problem=problem, plan=plan,
        result_title="What you would get", nothing_yet=_NOTHING,
    )  # fmt: skip


_NOTHING = "Fill in the form: the error to expect and the price appear here, before anything is spent."


def _planned(
    call: Call, session: Session, kind: str, given: Mapping[str, str], looks: Mapping[str, tuple[str, Any]]
) -> tuple[Shown | None, dict[str, str]]:
    """The plan of a filled form, and the form with both sides of accuracy and price."""
    terms, look = session.account.terms, looks.get(given.get("look", ""), ("", None))[1]
    wished = questions.wishes(kind, given, call.set.columns, look)

    def task_at(cost: str) -> Any:
        return questions.priced(kind, wished, cost, terms)

    cost, filled = given.get("epsilon", "").strip(), dict(given)
    if given.get("by_side") == "error":
        wanted = given.get("error", "").strip().replace(",", "")
        if not wanted:
            return None, filled
        cost = epsilon_for(session, task_at, float(exact(wanted, "error")))
    if not cost:
        return None, filled
    task = task_at(cost)
    plan = session.plan(task)
    if given.get("by_side") != "error" and plan.predicted is not None:
        filled["error"] = _plain(plan.predicted.interval)
    shown_plan = _shown(
        call, session, task, plan.predicted, price(plan.event, terms), task_at, float(exact(cost, "epsilon"))
    )
    return shown_plan, {**filled, "epsilon": cost}


def epsilon_for(session: Session, task_at: Callable[[str], Any], wanted: float) -> str:
    """The least price, to three digits, at which the predicted error is no more than wanted."""
    if not wanted > 0:
        raise Problem(422, "InvalidTask", "error must be a number above zero.")

    def good(cost: float) -> bool:
        predicted = session.plan(task_at(f"{cost:.3g}")).predicted
        if predicted is None:
            raise Problem(
                422,
                "InvalidTask",
                "how exact this will be is known after the answer only: say what it may spend, or give a cap.",
            )
        return float(predicted.interval) <= wanted

    low, high = math.log10(_LEAST), math.log10(_MOST)
    if not good(_MOST):
        raise Problem(
            422,
            "InvalidTask",
            f"an error of ± {short(wanted)} would cost more than epsilon {_MOST:g}, which promises nothing: allow more.",
        )
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if good(10**middle) else (middle, high)
    found = float(f"{10**high:.3g}")
    return _plain(found if good(found) else found * 1.01)


def _plain(number: float) -> str:
    """A number of a field: digits and a point."""
    text = f"{number:.3g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text or "." in text else text


def _shown(
    call: Call,
    session: Session,
    task: Any,
    error: Error | None,
    cost: Loss,
    task_at: Callable[[str], Any],
    level: float,
) -> Shown:
    server, dataset, account = call.server, call.set, session.account
    terms, left, request = account.terms, account.remaining, canonical(request_of(task)).decode()
    own = account.name != dataset.account
    enough = cost <= left
    bars = [bar_of(server.account(account.name), YOURS if own else SETS, cost)]
    bars += [bar_of(server.account(dataset.account), SETS, cost)] if own and dataset.account else []
    before = server.jobs.published(dataset.id, request)
    key, whose = secrets.token_urlsafe(9), "your" if own else "the set's"
    return Shown(
        error=_size(error), error_about=_about(error),
        costs=f"Costs {amount(cost, terms, cost=True)} of {whose} {amount(left, terms)}",
        bars=bars, told=_sentences(error, cost, terms), request=request, key=key,
        python=questions.as_python(task, dataset.name, key, server.config.origin),
        may_ask=enough and call.may("ask"), ask=f"Ask: spends {amount(cost, terms, cost=True)}", why_not=_why_not(call, enough),
        before=None if before is None else {"href": at("releases", str(before)), "said": said_of(call, before)},
        charts=_charts(session, task, error, task_at, level),
    )  # fmt: skip


def _size(error: Error | None) -> str:
    return "known after the answer" if error is None else f"± {at_error(error.interval, error.interval)}"


def _about(error: Error | None) -> str:
    return "" if error is None else f"{error.unit} in {error.confidence:.0%} of draws".strip()


def _sentences(error: Error | None, cost: Loss, terms: Any) -> list[str]:
    said = [f"Exactly: {told(cost, terms, cost=True)}."] if terms.delta else []
    if error is None:
        return [*said, "How exact this will be depends on what is found, so it is told with the answer."]
    return [*said, *([_sentence(str(error))] if not error.unit else []), *map(_sentence, error.more)]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def _why_not(call: Call, enough: bool) -> str:
    if enough:
        return "You may plan here. Only an analyst with an account of their own can ask."
    return "This is more than is left, so it would be refused. Allow a larger error, or spend less."


def _charts(
    session: Session, task: Any, error: Error | None, task_at: Callable[[str], Any], level: float
) -> list[Picture]:
    """The balance of noise and bias where a look is known, and what more or less budget buys."""
    found = []
    look: Any = getattr(task, "cap", None)
    if hasattr(look, "histogram"):
        terms = session.account.terms
        keys = {"keys": len(task.keys)} if getattr(task, "keys", None) else {}
        curve = look.plan(**({"mu": level} if terms.epsilon is None else {"epsilon": level}),
                          **({"delta": terms.filter_delta} if terms.filter_delta and terms.epsilon is not None else {}), **keys)  # fmt: skip
        rows = [tuple(map(short, row)) for row in zip(curve.caps, curve.noise, curve.bias, curve.error, strict=True)]
        found.append(shown(curve.chart(), ("cap", "noise", "bias", "error"), rows))
    if error is not None:
        found.append(_taste(session, task_at, level))
    return found


def _taste(session: Session, task_at: Callable[[str], Any], level: float) -> Picture:
    """What half or twice the budget would buy."""
    costs = [float(f"{level * share:.3g}") for share in _TASTE]
    errors = [session.plan(task_at(_plain(cost))).predicted for cost in costs]
    sizes = [None if each is None else float(each.interval) for each in errors]
    letter = "epsilon" if session.account.terms.epsilon is not None else "mu"
    chart = lines(
        [Line("error", costs, sizes)],
        title="What more budget buys",
        x_title=letter,
        y_title="± in 95% of draws",
        log_x=True,
    )
    rows = [
        (_plain(cost), "" if size is None else f"± {at_error(size, size)}")
        for cost, size in zip(costs, sizes, strict=True)
    ]
    return shown(chart, (letter, "error"), rows)


def ask(call: Call) -> Response:
    """Charge what was planned, and go to where its answer will be."""
    form = call.form
    job = asking.ask(call.server, call.set, call.who, form.get("key", ""), json.loads(form.get("request") or "null"))
    call.told["sequence"] = job.sequence
    return go(at("releases", str(job.sequence)))


ENDPOINTS = (
    Endpoint("GET", "/sets/{set}/plan", show_plan, "plan", bucket="plan"),
    Endpoint("POST", "/sets/{set}/releases", ask, "ask", "form", bucket="ask", by_token=False, spends=True),
)
