"""What a request is answered with: text for a person, data for a program; and how plans and releases are put into words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.privacy import decimal_text

if TYPE_CHECKING:
    from steelyard.account import Account
    from steelyard.charts import Chart
    from steelyard.release import Release
    from steelyard.session import Plan, Session, Task

Lines = list[tuple[str, str]]


@dataclass(frozen=True)
class Reply:
    """One request's result."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of text as aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def account_reply(account: Account) -> Reply:
    """What an account promises, has spent and has left."""
    terms, spent, left = account.terms, account.spent, account.remaining
    promise = "" if terms.epsilon is None else f"epsilon {decimal_text(terms.epsilon)}"
    if terms.delta:
        promise += f", delta {decimal_text(terms.delta)}"
    lines = [
        ("account", account.name),
        ("promises", promise or str(terms.cap)),
        ("hides", str(terms.unit)),
        ("counts in", str(terms.currency)),
        ("cap", str(terms.cap)),
        ("spent", str(spent)),
        ("left", str(left)),
    ]
    data = {"account": account.name, "terms": terms.to_json(), "spent": spent.to_json(), "remaining": left.to_json()}
    return Reply(columns(lines), data)


def plan_reply(session: Session, task: Task) -> Reply:
    """What a release would spend, and the error to expect where it is known."""
    plan, lines, data = _priced(session, task)
    error = plan.predicted
    told = str(error) if error else "known after the release; a profile or a public cap tells it before"
    return Reply(columns([*lines, ("error", told)]), {**data, "error": error.to_json() if error else None})


def fit_plan_reply(session: Session, task: Any) -> Reply:
    """What a model would spend, and how many coefficients it has."""
    _, lines, data = _priced(session, task)
    lines += [("hides", str(session.account.terms.unit)), ("features", str(task.features.width))]
    return Reply(columns(lines), {**data, "features": task.features.names()})


def _priced(session: Session, task: Task) -> tuple[Plan, Lines, dict[str, Any]]:
    from steelyard.accounting import price

    account, plan = session.account, session.plan(task)
    cost, left = price(plan.event, account.terms), account.remaining
    enough = cost <= left
    told = "yes" if enough else "no: it would be refused"
    lines = [("would spend", str(cost)), ("left now", str(left)), ("enough", told)]
    return plan, lines, {"cost": cost.to_json(), "enough": enough}


def release_reply(release: Release, problems: Sequence[str]) -> Reply:
    """A release for people, and all of it for programs; ``problems`` are files that could not be written after the payment."""
    error = [str(release.error)] if release.error else []
    return _released(release, [value_text(release.value), *error], [], problems)


def model_reply(release: Release, note: str, saved: str, problems: Sequence[str]) -> Reply:
    """A fitted model: its coefficients and what is known of its accuracy; ``note`` stands where there is no receipt to show."""
    excess, warning = release.point.get("expected_excess"), release.point.get("warning")
    lines = [coefficients_text(release.value)]
    lines += [] if excess is None else [f"the noise adds about {excess:.3g} to the mean squared error"]
    lines += [] if warning is None else [f"warning: {warning}"]
    return _released(release, lines, [] if problems else [saved], problems, note)


def _released(release: Release, value: list[str], after: list[str], problems: Sequence[str], note: str = "") -> Reply:
    receipt = release.receipt
    proof = f"receipt: entry {receipt.sequence} of account {receipt.account}, head {receipt.head[:16]}…"
    lines = [*value, str(release.guarantee), *([release.again] if release.again else []), note or proof]
    data = json.loads(release.to_json()) | {"stored_on": release.stored_on}
    return Reply("\n".join([*lines, *after, *problems]), data, exit_code=2 if problems else 0)


def value_text(value: Any) -> str:
    """A released value for people: a number, a line for each key, or what to do with a profile."""
    if isinstance(value, dict):
        lines = [(_name(key), value_text(item).replace("\n", "\n  ")) for key, item in value.items()]
        if any(isinstance(item, dict) for item in value.values()):
            return "\n".join(f"{key}\n  {shown}" for key, shown in lines)
        return columns(lines) or "no key reached its threshold"
    if isinstance(value, list):
        return "  ".join(f"{item:,.10g}" for item in value)
    if hasattr(value, "plan"):
        return f"profile of {len(value.counts)} bins; plan from it for free with: steelyard plan"
    return f"{value:,.10g}"


def coefficients_text(model: Any) -> str:
    """A model's coefficients by name; of several classes, class by class."""
    if hasattr(model, "models"):
        return "\n".join(f"{each.positive}\n{coefficients_text(each)}" for each in model.models)
    return columns([(name, f"{value:,.6g}") for name, value in model.coefficients.items()])


def release_chart(release: Release) -> Chart:
    """A released value as bars, with whiskers for the noise."""
    from steelyard.charts import bars

    value, error, name = release.value, release.error, release.task["type"]
    ranks = name == "Quantile"  # whose error is in rows, not in values
    half = 0.0 if error is None or ranks else error.interval
    about: dict[str, Any] = {"subtitle": f"Whiskers: {error}" if half else "", "caption": str(release.guarantee)}
    if hasattr(value, "plan"):
        tops = [f"up to {top * float(value.step):,.4g}" for top in value.histogram.grid.tops]
        return bars(tops, value.counts, [half] * len(tops), title="Units by what they contribute", **about)
    flat = _flat(value)
    return bars([key or name for key in flat], list(flat.values()), [half] * len(flat), title=name, **about)


def model_chart(release: Release, label: str) -> Chart:
    """A model's coefficients as bars."""
    from steelyard.charts import bars

    names, values = zip(*release.value.coefficients.items(), strict=True)
    none, caption = [0.0] * len(names), str(release.guarantee)
    return bars(list(names), list(values), none, title=f"Coefficients for {label}", caption=caption)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Every number of a value under one name of its own."""
    if not isinstance(value, dict | list):
        return {name: value}
    items = value.items() if isinstance(value, dict) else enumerate(value, 1)
    start = f"{name}, " if name else ""
    return {key: each for part, item in items for key, each in _flat(item, f"{start}{_name(part)}").items()}


def _name(key: Any) -> str:
    return f"{key[0]:g} to {key[1]:g}" if isinstance(key, tuple) else str(key)
