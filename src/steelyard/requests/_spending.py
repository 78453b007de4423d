"""What an account was spent on, in words, in a table and on a page that a privacy officer can keep.

All of it is public: prices are fixed before a row is read, and who asked what is what the asker wrote. No answer is shown.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from steelyard.accounting import told
from steelyard.errors import InvalidTask
from steelyard.privacy import Currency, Loss, decimal_text, exact

if TYPE_CHECKING:
    from steelyard.charts import Block, Chart, Report, Section
    from steelyard.ledger import Account, Ledger, Spent

_COLUMNS = ("column", "columns", "value", "label", "numerator", "denominator")
_SHOWN, _RECEIPTS = 500, 100


def task_in_words(task: Any) -> str:
    """What was asked, in a few words: the kind of task, its columns, by what, and the price it was asked at.

    >>> task_in_words({"type": "Sum", "column": "amount", "by": "country", "epsilon": "1/2"})
    'Sum of amount by country (epsilon 0.5)'
    """
    if not isinstance(task, Mapping):
        return str(task)[:80] if task else "not said"
    if "type" not in task:
        return ", ".join(f"{name} {_short(part)}" for name, part in list(task.items())[:2])
    if task["type"] == "enter":
        return f"run elsewhere: {_short(task.get('what'))}"
    of = [_short(task[name]) for name in _COLUMNS if task.get(name) not in (None, "", [])]
    by, step = task.get("by"), task.get("step")
    price = [f"{name} {_number(task[name])}" for name in ("epsilon", "mu") if task.get(name) is not None]
    words = [str(task["type"]), *([f"of {', '.join(of)}"] if of else []), *([f"by {_short(by)}"] if by else [])]
    return " ".join([*words, *([f"({', '.join(price)})"] if price else []), *([str(step)] if step else [])])


def _number(part: Any) -> str:
    try:
        return decimal_text(exact(part, "a price"), 6)
    except InvalidTask:
        return _short(part)


def _short(part: Any, width: int = 60) -> str:
    text = (
        ", ".join(map(_short, part)) if isinstance(part, list) else part if isinstance(part, str) else json.dumps(part)
    )
    return text if len(text) <= width else f"{text[: width - 3]}…"


def spending_rows(spent: Sequence[Spent], account: Account, width: int = 60) -> list[tuple[str, ...]]:
    """A header, and a row for each charge: when, who, what, of which table (in at most ``width`` letters), what it cost, and its entry."""
    terms = account.terms
    below = any(each.account != account.name for each in spent)
    head = ("when", *(("account",) if below else ()), "who", "what", "of", "cost", "entry")
    rows = [head]
    for each in spent:
        cost = told(each.cost, terms, cost=True) + ("" if each.answered else ", not answered yet")
        named = (each.account,) if below else ()
        what = (task_in_words(each.task), _short(each.view or each.table or "no named table", width))
        rows.append((each.at.replace("T", " ").rstrip("Z"), *named, each.person or "-", *what, cost, str(each.receipt.sequence)))  # fmt: skip
    return rows


def spending_report(ledger: Ledger, account: Account) -> Report:
    """A page for a privacy officer: what was spent on what, by whom and when, what is left, acts, verification and receipts."""
    from steelyard.charts import Report

    spent = account.history()
    promise = dict(account.statement())
    lead = (
        f"This account hides {promise['hides']}, and promises {promise['promises']} for everything that is ever released from it. "
        f"Spent: {promise['spent']}. Left: {promise['left']}."
    )
    sections = [
        _budget(account, spent), _people(account, spent), *_shares(account), _charges(account, spent),
        *_acts(ledger, account, spent), _proof(ledger, spent),
    ]  # fmt: skip
    return Report(f"What {account.name} was spent on", sections, lead)


def _budget(account: Account, spent: Sequence[Spent]) -> Section:
    from steelyard.charts import Figure, Figures, Section

    people = {each.person for each in spent}
    left, cap = account.remaining, account.terms.cap
    part = 100 * left.amount / cap.amount if cap.amount else 0
    figures = Figures([
        Figure(str(len(spent)), "charges"), Figure(str(len(people)), "people"), Figure(f"{part:.0f} %", "of the cap is left"),
    ])  # fmt: skip
    state = [] if account.state == "open" else [f"The account is {account.state}: it refuses charges."]
    return Section("The budget", [figures, *state, spending_chart(account, spent)])


def spending_chart(account: Account, spent: Sequence[Spent]) -> Chart:
    """The staircase of charges against the cap."""
    from steelyard.charts import Spending, budget

    cap = account.terms.cap
    unit = {Currency.PURE: "epsilon", Currency.GAUSSIAN: "mu squared", Currency.NATS: "nats"}[cap.currency]
    steps = [
        Spending(
            f"{task_in_words(each.task).partition(' (')[0]}, {each.person or 'nobody named'}", float(each.cost.value)
        )
        for each in spent
    ]
    return budget(steps, float(cap.value), unit=unit)


def _people(account: Account, spent: Sequence[Spent]) -> Section:
    from steelyard.charts import Section, Tabular

    sums: dict[str, Loss] = defaultdict(lambda: Loss.zero(account.terms.currency))
    counts: dict[str, int] = defaultdict(int)
    for each in spent:
        sums[each.person] += each.cost
        counts[each.person] += 1
    order = sorted(sums, key=lambda person: -sums[person].amount)
    rows = [
        (
            person or "nobody named",
            counts[person],
            told(sums[person], account.terms, cost=True),
            f"{100 * sums[person].amount / max(1, account.terms.cap.amount):.1f} %",
        )
        for person in order
    ]
    note = "The names are as they were told to the ledger when the charge was made." if rows else "Nothing was spent."
    blocks: list[Block] = [note]
    return Section("Who spent it", [*blocks, *([Tabular(("who", "charges", "spent", "of the cap"), rows)] if rows else [])])  # fmt: skip


def _shares(account: Account) -> list[Section]:
    from steelyard.charts import Section, Tabular

    rows = [_share(child, 0) for child in account.children()]
    if not rows:
        return []
    over = account.terms.cap.amount < account.allotted.amount
    words = "The shares add up to more than the account has; its own cap holds all the same." if over else ""
    flat = [row for rows_of_child in rows for row in rows_of_child]
    table = Tabular(("account", "allotted", "spent", "left to it", "state"), flat)
    return [Section("Accounts below", [*([words] if words else []), table])]


def _share(account: Account, depth: int) -> list[tuple[str, ...]]:
    terms = account.terms
    name = "\N{NO-BREAK SPACE}" * (4 * depth) + account.name
    row = (name, told(terms.cap, terms), told(account.spent, terms, cost=True), told(account.remaining, terms), account.state)  # fmt: skip
    return [row, *(each for child in account.children() for each in _share(child, depth + 1))]


def _charges(account: Account, spent: Sequence[Spent]) -> Section:
    from steelyard.charts import Section, Tabular

    header, *rows = spending_rows(spent[-_SHOWN:], account, 300)
    cut = f"The last {_SHOWN} of {len(spent):,} charges." if len(spent) > _SHOWN else ""
    return Section("Every charge", [Tabular(header, rows, cut)] if rows else ["None."])


def _acts(ledger: Ledger, account: Account, spent: Sequence[Spent]) -> list[Section]:
    from steelyard.charts import Section, Tabular

    names = {account.name, *(each.account for each in spent)}
    noted = [entry for entry in ledger.notes() if entry.account in names]
    rows = [
        (entry.at.replace("T", " ").rstrip("Z"), entry.person, entry.account, entry.name or entry.kind, entry.detail)
        for entry in noted
    ]
    return [Section("Acts and notes", [Tabular(("when", "who", "account", "act", "words"), rows)])] if rows else []


def _proof(ledger: Ledger, spent: Sequence[Spent]) -> Section:
    from steelyard.charts import Code, Section, Tabular

    found = ledger.verify(receipts=[each.receipt for each in spent])
    rows = [
        ("entries of the ledger", f"{found.entries:,}"),
        ("chain, balances, caps, prices, anchor, receipts", "agree" if found.ok else "DO NOT AGREE"),
    ]
    known = f"head of the chain {found.head}\npublic key        {ledger.public_key}"
    blocks: list[Block] = [Tabular(("check", "result"), rows), Code(known)]
    blocks += [Code("\n".join(found.findings), "What was found wrong")] if found.findings else []
    kept = [each.receipt for each in spent if each.receipt.signature][-_RECEIPTS:]
    if kept:
        lines = "\n".join(json.dumps(receipt.to_json(), sort_keys=True) for receipt in kept)
        caption = (
            "The receipts. A line saved as a file is checked by: steelyard ledger verify-receipt FILE --public-key KEY"
            + (f" (the last {_RECEIPTS} of {len(spent):,})" if len(spent) > len(kept) else "")
        )
        blocks.append(Code(lines, caption))
    return Section("Verification", blocks)
