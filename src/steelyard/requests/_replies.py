"""What a request is answered with: text for a person, data for a program; and how plans and releases are put into words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import steelyard.answers as answers
from steelyard.interrupts import attempt
from steelyard.privacy import figure

if TYPE_CHECKING:
    from steelyard.ledger import Account as LedgerAccount
    from steelyard.plan import Error, Task
    from steelyard.release import Release
    from steelyard.session import Session

Lines = list[tuple[str, str]]


@dataclass(frozen=True)
class Reply:
    """One request's result: of an account, of a plan, of a release or of a model; or as whoever answers puts it."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0

    @classmethod
    def of_account(cls, account: LedgerAccount) -> Reply:
        """What an account promises, has spent and has left."""
        terms, spent, left = account.terms, account.spent, account.remaining
        lines = account.statement()
        data = {
            "account": account.name,
            "terms": terms.to_json(),
            "spent": spent.to_json(),
            "remaining": left.to_json(),
        }
        return cls(columns(lines), data)

    @classmethod
    def of_plan(cls, session: Session, task: Task, *, work: bool = False) -> Reply:
        """What a task would spend; of a release the error to expect, where it is known, of a model its features.

        ``work`` asks how often rows would be read too, for which the plan is run on no rows.
        """
        from steelyard.accounting import price
        from steelyard.accounting import told as in_words
        from steelyard.session import affordable

        account, plan = session.account, session.plan(task)
        cost, left = price(plan.event, account.terms), account.remaining
        fits = affordable(cost, left)
        lines = [("would spend", in_words(cost, account.terms, cost=True)), ("left now", in_words(left, account.terms))]
        lines.append(("enough", f"yes, for {fits:,} such" if cost <= left else "no: it would be refused"))
        data: dict[str, Any] = {
            "cost": cost.to_json(),
            "enough": cost <= left,
            "affords": fits,
            "remaining": left.to_json(),
        }
        if work and (found := attempt(lambda: session.work(task))):  # no plan fails because it cannot be rehearsed
            lines.append(("work", str(found[0])))
            data["work"] = found[0].to_json()
        if place := session.place_of(task):
            lines.append(("rows", place))
            data["rows"] = place
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
        return cls._released(release, [_value(release), *release.told], [], problems)

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


def _value(release: Release) -> str:
    """A released value for people: its numbers, or what to do with a profile."""
    if hasattr(release.value, "plan"):
        return f"profile of {len(release.value.counts)} bins; plan from it for free with: steelyard plan"
    return answers.text(release.parts)


def coefficients_text(model: Any) -> str:
    """A model's coefficients by name; of several classes, class by class."""
    if hasattr(model, "models"):
        return "\n".join(f"{each.positive}\n{coefficients_text(each)}" for each in model.models)
    return columns([(name, f"{value:,.6g}") for name, value in model.coefficients.items()])
