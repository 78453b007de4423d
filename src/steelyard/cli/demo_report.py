"""The demo's page: what was asked, what it cost, and how close the private answers came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steelyard.charts import Code, Figure, Figures, Report, Section, Spend, Tabular, budget, intervals, tradeoff


def write(path: Path, facts: dict[str, Any]) -> Path:
    """Write the page and return where it is."""
    lead = (
        "Everything here was computed a moment ago, on this machine, from purchases that were made up for the occasion. "
        "Because they are made up, the truth may be shown beside the private answers."
    )
    sections = [_balance(facts), _answers(facts), _countries(facts), _cost(facts), _ledger(facts)]
    return Report(f"A private look at {facts['purchases']:,} purchases", sections, lead).save(path)


def _balance(facts: dict[str, Any]) -> Section:
    curve = facts["curve"]
    picture = tradeoff(
        curve.caps,
        curve.noise,
        curve.bias,
        curve.error,
        subtitle="Expected error of the total at epsilon 0.5, for every cap on one customer",
        x_title="cap on one customer's total",
        caption="Left of the ring the cap cuts off too much; right of it the noise must cover too much.",
    )
    words = (
        f"One customer spent {facts['largest']:,.0f}; half spent less than {facts['median']:,.0f}. To hide the first whole "
        f"takes noise of that size; to cap everybody at the second loses most of the total. The best cap is near "
        f"{facts['cap']:,.0f}. "
        "It was computed from the made-up data in the clear; on real data a cap must be public knowledge."
    )
    return Section("Where the balance is", [words, picture])


def _answers(facts: dict[str, Any]) -> Section:
    total, truth = facts["total"], facts["truth"]
    off = abs(total.value - truth) / truth
    figures = Figures(
        [
            Figure(f"{total.value:,.0f}", "total spent, private"),
            Figure(f"{truth:,.0f}", "total spent, truth"),
            Figure(f"{off:.1%}", "apart"),
        ]
    )
    return Section("The total", [figures, f"{total.error}.", str(total.guarantee)])


def _countries(facts: dict[str, Any]) -> Section:
    orders, truth = facts["orders"], facts["orders_truth"]
    half = orders.error.interval
    picture = intervals(
        list(orders.value),
        list(orders.value.values()),
        [value - half for value in orders.value.values()],
        [value + half for value in orders.value.values()],
        truths=[truth[country] for country in orders.value],
        title="Purchases by country",
        subtitle="At most 150 purchases of one customer count; the interval covers the noise alone",
        confidence="95 %",
        x_title="purchases",
    )
    words = "What the cap of 150 cuts off pulls every answer towards zero; the interval does not know about it."
    return Section("By country", [picture, words])


def _cost(facts: dict[str, Any]) -> Section:
    account = facts["account"]
    entries = [Spend("total spent", 0.5), Spend("by country", 0.3), Spend("total, once more", 0.5, refused=True)]
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
