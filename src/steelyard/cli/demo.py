"""``steelyard demo``: the main job, end to end, on made-up purchases, ending in a report.

It opens an account on a real ledger, looks once, plans the cap, releases totals, retries one for free, is refused when
the budget is gone, trains on private labels, fits private models, buys accuracy, wears out a holdout, verifies the ledger, puts an old
backup back to show that it notices, and writes one HTML page.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.cli.answer import Answer
from steelyard.cli.purchases import COUNTRIES, Purchases, purchases, totals_by_user, write_parquet

if TYPE_CHECKING:
    from steelyard.session import Session

EPSILON = "1.5"
SHARE = "0.5"
UPPER = 1_000_000
_STEPS = (
    "make up the purchases of 20,000 customers",
    f"open an account of epsilon {EPSILON} on an SQLite ledger",
    "take one private look at what customers spend, and plan from it for free",
    "release the total, the purchases by country and the usual price",
    "retry for free, and be refused when the budget is gone",
    "make every price private and train a model on the noisy ones",
    "learn which parcels come back, hiding whole customers",
    "ask for a total and a model by their accuracy, and see what they cost",
    "ask a holdout ten thousand questions about pure noise",
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
    session = _open(story)
    _balance(story, session, data)
    _release(story, session, data)
    from steelyard.cli import demo_first, demo_holdout, demo_labels, demo_models, demo_report

    told = []
    for number, chapter in enumerate((demo_labels, demo_models, demo_first, demo_holdout), 5):
        story.say(f"{number + 1}. {_STEPS[number]}")
        told.append(chapter.tell(story))
    _verify(story)
    page = demo_report.write(story.folder / "report.html", story.facts, told)
    return Answer(f"\nAll of it, with pictures: {page}", {"report": str(page), **_summary(story.facts)})


def _clear(folder: Path) -> None:
    """An empty folder of our own: what an earlier demo left is removed, anything else is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("purchases.parquet", "report.html", "budget.db", "restored.db"):
        for left in folder.glob(f"{name}*"):
            left.unlink()


def _open(story: Story) -> Session:
    from steelyard.ledger import open_account
    from steelyard.privacy import users
    from steelyard.session import Session
    from steelyard.tables import read

    story.say(f"2. {_STEPS[1]}")
    account = open_account(story.folder / "budget.db", "demo", unit=users("user_id"), epsilon=EPSILON)
    story.facts["account"] = account
    return Session(read(story.folder / "purchases.parquet"), account)


def _balance(story: Story, session: Session, data: Purchases) -> None:
    from steelyard.bounding import Profile
    from steelyard.bounding.theory import expected_error, optimal_cap

    story.say(f"3. {_STEPS[2]}")
    profile = session.release(Profile("amount", epsilon="0.2", upper=UPPER), key="profile").value
    curve, totals, share = profile.plan(SHARE), sorted(totals_by_user(data)), float(SHARE)
    story.facts |= {"profile": profile, "curve": curve, "largest": totals[-1], "median": totals[len(totals) // 2]}
    caps = {
        "the private plan's": curve.best.cap,
        "the best there is, seen in the clear": optimal_cap(totals, share),
        "the largest customer": totals[-1],
        "19 of 20 customers": totals[len(totals) * 19 // 20],
    }
    story.facts["caps"] = {name: (cap, expected_error(totals, cap, share)) for name, cap in caps.items()}
    best = curve.best
    story.say(f"     at epsilon {SHARE}: cap {best.cap:,.0f} per customer, expected error {best.error:,.0f}")


def _release(story: Story, session: Session, data: Purchases) -> None:
    from steelyard.bounding import Count, Quantile, Sum
    from steelyard.errors import BudgetExceeded

    story.say(f"4. {_STEPS[3]}")
    task = Sum("amount", epsilon=SHARE, cap=story.facts["profile"])
    total = session.release(task, key="total")
    orders = session.release(Count(epsilon="0.4", upper=10_000, by="country", keys=COUNTRIES), key="orders")
    _back_up(story.folder)
    usual = Quantile("amount", epsilon="0.2", quantile=("0.25", "0.5", "0.75"), lower=0, upper=200, cap=20)
    prices = session.release(usual, key="prices")
    truth, amounts = sum(data.amount), sorted(data.amount)
    story.facts |= {"total": total, "orders": orders, "prices": prices, "truth": truth, "purchases": len(amounts)}
    story.facts["prices_truth"] = [amounts[len(amounts) * quarter // 4] for quarter in (1, 2, 3)]
    story.facts["orders_truth"] = {country: data.country.count(country) for country in COUNTRIES}
    story.say(f"     total spent: {total.value:,.0f}   (truth, known only because it is made up: {truth:,.0f})")
    story.say(f"     {total.error}")
    story.say(f"5. {_STEPS[4]}")
    again, account = session.release(task, key="total"), session.account
    story.facts["retry"] = again.to_json() == total.to_json()
    story.say(f"     asked again with the same key: the same answer, {account.spent} spent as before")
    try:
        session.release(task)
    except BudgetExceeded as refusal:
        story.facts["refusal"] = str(refusal)
        story.say(f"     asked anew: {refusal}")


def _verify(story: Story) -> None:
    from steelyard.ledger import Ledger

    story.say(f"10. {_STEPS[9]}")
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
    story.say(f"11. {_STEPS[10]}")


def _back_up(folder: Path) -> None:
    """Copy the ledger's database as a backup would."""
    for suffix in ("", "-wal"):
        if (folder / f"budget.db{suffix}").exists():
            shutil.copy(folder / f"budget.db{suffix}", folder / f"restored.db{suffix}")


def _summary(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "cap": facts["curve"].best.cap,
        "caps": facts["caps"],
        "total": json.loads(facts["total"].to_json()),
        "orders": json.loads(facts["orders"].to_json()),
        "retry_was_free": facts["retry"],
        "refusal": facts["refusal"],
        "ledger_ok": facts["verified"].ok,
        "rollback_found": not facts["caught"].ok,
        "labels": facts["labels"],
        "models": facts["models"],
        "first": facts["first"],
        "holdout": facts["holdout"],
    }
