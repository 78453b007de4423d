"""The demo's page: what was asked, what it cost, and how close the private answers came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard.charts import (
    Chart,
    Code,
    Figure,
    Figures,
    Line,
    Report,
    Section,
    Spending,
    Tabular,
    budget,
    intervals,
    lines,
)

WITHIN = "0.03"
EXCESS = "0.01"
DELTA = "1e-6"
_SPENT = (("profile", 0.2), ("total spent", 0.5), ("by country", 0.4), ("prices", 0.2))


def write(path: Path, facts: dict[str, Any], chapters: Sequence[Section]) -> Path:
    """Write the page, ``chapters`` among its sections, and return where it is."""
    lead = (
        "Everything here was computed a moment ago, on this machine, from purchases that were made up for the occasion. "
        "Because they are made up, the truth may be shown beside the private answers."
    )
    sections = [_balance(facts), _answers(facts), _countries(facts), _cost(facts), *chapters, _ledger(facts)]
    return Report(f"A private look at {facts['purchases']:,} purchases", sections, lead).save(path)


def _balance(facts: dict[str, Any]) -> Section:
    words = (
        f"One customer spent {facts['largest']:,.0f}; half spent less than {facts['median']:,.0f}. To hide the first whole "
        "takes noise of that size; to cap everybody at the second loses most of the total. One private look at how "
        "spending is distributed, for epsilon 0.2, is enough to draw this curve; drawing it again for any other epsilon "
        "costs nothing."
    )
    picture = facts["curve"].chart("Predicted error of the total at epsilon 0.5, for every cap on one customer")
    rows = [(name, f"{cap:,.0f}", f"{error:,.0f}") for name, (cap, error) in facts["caps"].items()]
    best = facts["curve"].best
    said = f"about {best.error:,.0f}, between {best.low:,.0f} and {best.high:,.0f} at 95 %"
    table = Tabular(
        ("cap at", "amount", "true expected error"),
        rows,
        f"The last column is computed in the clear, which only made-up data allows. Of its own cap the private plan said: {said}.",
    )
    return Section("Where the balance is", [words, picture, table])


def _answers(facts: dict[str, Any]) -> Section:
    total, truth = facts["total"], facts["truth"]
    off = abs(total.value - truth) / truth
    figures = Figures(
        [
            Figure(str(total.parts[0].cells[0]), "total spent, private, and its noise"),
            Figure(f"{total.low:,.0f} to {total.high:,.0f}", "where the truth lies at 95 %"),
            Figure(f"{truth:,.0f}", "total spent, truth"),
            Figure(f"{off:.1%}", "apart"),
        ]
    )
    return Section("The total", [figures, *(f"{sentence}." for sentence in total.told), str(total.guarantee)])


def _countries(facts: dict[str, Any]) -> Section:
    orders, truth = facts["orders"], facts["orders_truth"]
    picture = intervals(
        list(orders.value),
        list(orders.value.values()),
        list(orders.low.values()),
        list(orders.high.values()),
        truths=[truth[country] for country in orders.value],
        title="Purchases by country",
        subtitle="The cap was chosen inside the release; intervals hold the noise and what it may have cut off",
        confidence="95 %",
        x_title="purchases",
    )
    words = (
        f"The cap came out at {orders.point['cap']:,.0f} purchases per customer, chosen with a part of this release's "
        "epsilon. What it cuts off pulls answers towards zero. How much is known of all countries together, so each interval "
        "allows for all of it."
    )
    prices = [
        (name, f"{private:,.2f}", f"{true:,.2f}")
        for name, private, true in zip(
            ("a quarter cost less than", "half cost less than", "three quarters cost less than"),
            facts["prices"].value,
            facts["prices_truth"],
            strict=True,
        )
    ]
    return Section(
        "By country, and what one purchase costs", [picture, words, Tabular(("price", "private", "truth"), prices)]
    )


def _cost(facts: dict[str, Any]) -> Section:
    account = facts["account"]
    entries = [*(Spending(name, amount) for name, amount in _SPENT), Spending("total, once more", 0.5, refused=True)]
    picture = budget(
        entries, float(account.terms.cap.value), unit="epsilon", subtitle="One account, one cap; a retry is free"
    )
    return Section("What it cost", [picture, Code(facts["refusal"], "The refusal, before a row was read")])


def _ledger(facts: dict[str, Any]) -> Section:
    report, caught, receipt = facts["verified"], facts["caught"], facts["total"].receipt
    rows = [
        ("entries", report.entries),
        ("chain, balances, caps, anchor", "agree" if report.ok else "DO NOT AGREE"),
        ("an old backup, put back", "found" if not caught.ok else "NOT FOUND"),
    ]
    text = f"entry   {receipt.sequence}\naccount {receipt.account}\ncost    {receipt.cost}\nhead    {receipt.head}"
    found = Code("\n".join(caught.findings[:3]), "What verification says of the backup")
    return Section("The ledger", [Tabular(("check", "result"), rows), found, Code(text, "The receipt of the total")])


def accuracy(total: dict[str, Any], model: dict[str, Any], path: Sequence[Any]) -> Section:
    """What an accuracy has cost: the total measured until it is good enough, and a model near the best."""
    words = (
        "How much should one spend on the total? Here nobody said; only that it should be within 3%, as far as noise goes, "
        f"with confidence 0.9. {total['steps']} measurements, each charged before it was drawn and all of them combined, "
        f"were enough: epsilon {total['epsilon']:.2f} at delta {DELTA} on an account of {total['cap']}. What a cap of "
        f"{total['kept']:,} cuts off comes on top; altogether the answer is off by {total['off']:.1%}."
    )
    more = (
        f"And a model of which parcels come back, within {EXCESS} of the best possible loss whatever that is: one release, "
        "whose noise alone keeps the promise."
    )
    rows = [
        ("steelyard", f"{model['epsilon']:.3f}"),
        ("inverting the theory of output perturbation", f"{model['theory']:.1f}"),
    ]
    table = Tabular(
        ("the same promise, by", "epsilon"),
        rows,
        f"The first at delta {DELTA}, the second pure; {model['certificate']}",
    )
    return Section("Accuracy first", [words, _steps(path, total["value"]), more, table])


def _steps(path: Sequence[Any], value: float) -> Chart:
    spent = [math.sqrt(stop.mu2) for stop in path]
    bounds = [100 * stop.bound / abs(value) for stop in path]
    return lines(
        [
            Line("half-width", spent, bounds),
            Line("asked for", [spent[0], max(spent[-1], 1.01 * spent[0])], [100 * float(WITHIN)] * 2),
        ],
        title="The total, measured until it is good enough",
        subtitle="half-width of the interval for the noise, per cent of the total",
        x_title="mu spent so far",
        y_title="per cent",
        log_x=True,
        log_y=True,
    )
