"""What a request is answered with: text for a person, data for a program; and how plans and releases are put into words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.privacy import decimal_text
from steelyard.release import figure

if TYPE_CHECKING:
    from steelyard.account import Account
    from steelyard.charts import Chart
    from steelyard.release import Error, Release
    from steelyard.session import Session, Task

Lines = list[tuple[str, str]]


@dataclass(frozen=True)
class Reply:
    """One request's result: of an account, of a plan, of a release or of a model; or as whoever answers puts it."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0

    @classmethod
    def of_account(cls, account: Account) -> Reply:
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
        data = {
            "account": account.name,
            "terms": terms.to_json(),
            "spent": spent.to_json(),
            "remaining": left.to_json(),
        }
        return cls(columns(lines), data)

    @classmethod
    def of_plan(cls, session: Session, task: Task) -> Reply:
        """What a task would spend; of a release the error to expect, where it is known, of a model its features."""
        from steelyard.accounting import price

        account, plan = session.account, session.plan(task)
        cost, left = price(plan.event, account.terms), account.remaining
        lines = [("would spend", str(cost)), ("left now", str(left))]
        lines.append(("enough", "yes" if cost <= left else "no: it would be refused"))
        data: dict[str, Any] = {"cost": cost.to_json(), "enough": cost <= left}
        features, error = getattr(task, "features", None), plan.predicted
        if features is not None:
            lines += [("hides", str(account.terms.unit)), ("features", str(features.width))]
            return cls(columns(lines), {**data, "features": features.names()})
        told = str(error) if error else "known after the release; a profile or a public cap tells it before"
        lines += [("error", told), *_truth(error)]
        return cls(columns(lines), {**data, "error": error.to_json() if error else None})

    @classmethod
    def of_release(cls, release: Release, problems: Sequence[str]) -> Reply:
        """A release for people, and all of it for programs; ``problems`` are files that could not be written after the payment."""
        return cls._released(release, [value_text(release.value), *release.told], [], problems)

    @classmethod
    def of_model(cls, release: Release, note: str, saved: str, problems: Sequence[str]) -> Reply:
        """A fitted model: its coefficients and what is known of its accuracy; ``note`` stands where there is no receipt to show."""
        excess, warning = release.point.get("expected_excess"), release.point.get("warning")
        lines = [coefficients_text(release.value)]
        lines += [] if excess is None else [f"the noise adds about {excess:.3g} to the mean squared error"]
        lines += [] if warning is None else [f"warning: {warning}"]
        return cls._released(release, lines, [] if problems else [saved], problems, note)

    @classmethod
    def _released(
        cls, release: Release, value: list[str], after: list[str], problems: Sequence[str], note: str = ""
    ) -> Reply:
        receipt = release.receipt
        proof = f"receipt: entry {receipt.sequence} of account {receipt.account}, head {receipt.head[:16]}…"
        lines = [*value, str(release.guarantee), *([release.again] if release.again else []), note or proof]
        data = json.loads(release.to_json()) | {"stored_on": release.stored_on}
        return cls("\n".join([*lines, *after, *problems]), data, exit_code=2 if problems else 0)


def _truth(error: Error | None) -> Lines:
    """Where the truth will lie around what is released, and what could not be noticed."""
    ends = None if error is None or not error.offsets else error.span(error.confidence)
    if error is None or ends is None:
        return []
    around = f"from {figure(-ends[0])} below to {figure(ends[1])} above the answer, {error.confidence:.0%}"
    blind = [("blind spot", error.blind_spot)] if error.blind_spot else []
    return [("truth", f"{around}, {error.status}"), *blind]


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of text as aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


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
    """A released value as bars, with whiskers for the noise; of a model, its coefficients."""
    from steelyard.charts import bars

    value, error, name = release.value, release.error, release.task["type"]
    ranks = name == "Quantile"  # whose error is in rows, not in values
    half = 0.0 if error is None or ranks else error.interval
    about: dict[str, Any] = {"subtitle": f"Whiskers: {error}" if half else "", "caption": str(release.guarantee)}
    if hasattr(value, "coefficients"):
        value, name = value.coefficients, f"Coefficients for {release.task['label']}"
    elif hasattr(value, "plan"):
        tops = [f"up to {top * float(value.step):,.4g}" for top in value.histogram.grid.tops]
        return bars(tops, value.counts, [half] * len(tops), title="Units by what they contribute", **about)
    flat = _flat(value)
    return bars([key or name for key in flat], list(flat.values()), [half] * len(flat), title=name, **about)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Every number of a value under one name of its own."""
    if not isinstance(value, dict | list):
        return {name: value}
    items = value.items() if isinstance(value, dict) else enumerate(value, 1)
    start = f"{name}, " if name else ""
    return {key: each for part, item in items for key, each in _flat(item, f"{start}{_name(part)}").items()}


def _name(key: Any) -> str:
    return f"{key[0]:g} to {key[1]:g}" if isinstance(key, tuple) else str(key)
