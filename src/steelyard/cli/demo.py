"""``steelyard demo``: the main job, end to end, on made-up purchases, ending in a report.

It opens an account on a real ledger, looks for the cap, releases two totals, retries one for free, is refused when
the budget is gone, verifies the ledger, puts an old backup back to show that it notices, and writes one HTML page.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.cli.answer import Answer
from steelyard.cli.purchases import COUNTRIES, Purchases, purchases, totals_by_user, write_parquet

EPSILON = "1"
SHARE = "0.5"
_STEPS = (
    "make up the purchases of 20,000 customers",
    f"open an account of epsilon {EPSILON} on an SQLite ledger",
    "find the cap where noise and bias balance",
    "release the total spent and the purchases by country",
    "retry for free, and be refused when the budget is gone",
    "verify the ledger; put an old backup back, verify again",
    "write report.html",
)


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``demo``."""
    demo = commands.add_parser("demo", parents=[shared], help="the whole path on made-up data, ending in a report")
    demo.add_argument("--folder", default="steelyard-demo", help="where its files go (default: steelyard-demo)")
    demo.set_defaults(run=_demo)


@dataclass
class Story:
    """What the demo has found out so far, for the terminal and for the report."""

    folder: Path
    quiet: bool
    facts: dict[str, Any]

    def say(self, text: str) -> None:
        """Tell whoever is watching."""
        if not self.quiet:
            print(text, flush=True)


def _demo(args: argparse.Namespace) -> Answer:
    if args.plan:
        steps = [f"{number}. {step}" for number, step in enumerate(_STEPS, 1)]
        return Answer("\n".join(["would, spending nothing of yours:", *steps]), {"steps": list(_STEPS)})
    folder = Path(args.folder)
    _clear(folder)
    story = Story(folder, args.json, {})
    story.say(f"1. {_STEPS[0]}")
    data = purchases()
    write_parquet(data, folder / "purchases.parquet")
    _balance(story, data)
    _release(story, data)
    _verify(story)
    from steelyard.cli.demo_report import write

    page = write(story.folder / "report.html", story.facts)
    return Answer(f"\nAll of it, with pictures: {page}", {"report": str(page), **_summary(story.facts)})


def _clear(folder: Path) -> None:
    """An empty folder of our own: what an earlier demo left is removed, anything else is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("purchases.parquet", "report.html", "budget.db", "restored.db"):
        for left in folder.glob(f"{name}*"):
            left.unlink()


def _balance(story: Story, data: Purchases) -> None:
    from steelyard.bounding.theory import tradeoff

    totals = totals_by_user(data)
    curve = tradeoff(totals, epsilon=float(SHARE))
    cap = round(curve.best.cap, -2)
    story.facts |= {"curve": curve, "cap": cap, "largest": max(totals), "purchases": len(data.amount)}
    story.facts["median"] = sorted(totals)[len(totals) // 2]
    story.say(f"2. {_STEPS[1]}\n3. {_STEPS[2]}")
    story.say(f"     at epsilon {SHARE} a cap of {cap:,.0f} per customer balances noise and bias")


def _release(story: Story, data: Purchases) -> None:
    from steelyard.bounding import Count, Sum
    from steelyard.errors import BudgetExceeded
    from steelyard.ledger import open_account
    from steelyard.privacy import users
    from steelyard.session import Session
    from steelyard.tables import read

    account = open_account(story.folder / "budget.db", "demo", unit=users("user_id"), epsilon=EPSILON)
    session = Session(read(story.folder / "purchases.parquet"), account)
    story.say(f"4. {_STEPS[3]}")
    task = Sum("amount", epsilon=SHARE, cap=story.facts["cap"])
    total = session.release(task, key="total")
    _back_up(story.folder)
    orders = session.release(Count(epsilon="0.3", cap=150, by="country", keys=COUNTRIES), key="orders")
    story.facts |= {"total": total, "orders": orders, "truth": sum(data.amount)}
    story.facts["orders_truth"] = {country: data.country.count(country) for country in COUNTRIES}
    story.say(
        f"     total spent: {total.value:,.0f}   (truth, known only because it is made up: {sum(data.amount):,.0f})"
    )
    story.say(f"     {total.error}")
    story.say(f"5. {_STEPS[4]}")
    again = session.release(task, key="total")
    story.facts["retry"] = again.to_json() == total.to_json()
    story.say(f"     asked again with the same key: the same answer, {account.spent} spent as before")
    try:
        session.release(task)
    except BudgetExceeded as refusal:
        story.facts["refusal"] = str(refusal)
        story.say(f"     asked anew: {refusal}")
    story.facts["account"] = account


def _verify(story: Story) -> None:
    from steelyard.ledger import Ledger

    story.say(f"6. {_STEPS[5]}")
    source = story.folder / "budget.db"
    report = Ledger(source).verify()
    story.facts["verified"] = report
    story.say(f"     {report.entries} entries, chain whole: {report.ok}")
    restored = story.folder / "restored.db"
    for suffix in (".key", ".anchor"):
        shutil.copy(f"{source}{suffix}", f"{restored}{suffix}")
    caught = Ledger(restored).verify()
    story.facts["caught"] = caught
    found = caught.findings[0] if caught.findings else "NOT NOTICED"
    story.say(f"     a backup from before the last release, put back to win its cost back: {found}")
    story.say(f"7. {_STEPS[6]}")


def _back_up(folder: Path) -> None:
    """Copy the ledger's database as a backup would."""
    for suffix in ("", "-wal"):
        if (folder / f"budget.db{suffix}").exists():
            shutil.copy(folder / f"budget.db{suffix}", folder / f"restored.db{suffix}")


def _summary(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "cap": facts["cap"],
        "total": json.loads(facts["total"].to_json()),
        "orders": json.loads(facts["orders"].to_json()),
        "retry_was_free": facts["retry"],
        "refusal": facts["refusal"],
        "ledger_ok": facts["verified"].ok,
        "rollback_found": not facts["caught"].ok,
    }
