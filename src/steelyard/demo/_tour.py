"""The demo's path from the first look to the report.

It opens an account on a real ledger, looks once, plans the cap, releases totals, retries one for free, is refused when
the budget is gone, trains on private labels, fits private models, buys accuracy, wears out a holdout, verifies the ledger, puts an old
backup back to show that it notices, and writes one HTML page.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

from steelyard.bounding import Count, Profile, Quantile, Sum, expected_error, optimal_cap
from steelyard.charts import Section
from steelyard.demo import EPSILON, STEPS
from steelyard.demo import _labels as labels
from steelyard.demo import _models as models
from steelyard.demo import _questions as questions
from steelyard.demo import _report as report
from steelyard.demo._models import features, parcels
from steelyard.demo._story import COUNTRIES, Purchases, Story, make_purchases, totals_by_user, write_parquet
from steelyard.errors import BudgetExceeded
from steelyard.ledger import Ledger, open_account
from steelyard.models import AccuracyFirst, FitLogistic
from steelyard.models.accuracy import Goal, reach
from steelyard.privacy import rows, users
from steelyard.session import Session
from steelyard.tables import read

SHARE = "0.5"
UPPER = 1_000_000
PENALTY = "0.001"


def run_tour(folder: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Go through every step in a folder of its own, telling each unless quiet; what was found, and where the report is."""
    _clear(folder)
    story = Story(folder, quiet, {})
    story.say(f"1. {STEPS[0]}")
    data = make_purchases()
    write_parquet(data, story.purchases)
    session = _open(story)
    _balance(story, session, data)
    _release(story, session, data)
    told = []
    for number, chapter in enumerate((labels.tell, models.tell, _accuracy, questions.tell), 5):
        story.say(f"{number + 1}. {STEPS[number]}")
        told.append(chapter(story))
    _verify(story)
    page = report.write(story.folder / "report.html", story.facts, told)
    return {"report": str(page), **_summary(story.facts)}


def _clear(folder: Path) -> None:
    """An empty folder of our own: what an earlier demo left is removed, anything else is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("purchases.parquet", "report.html", "budget.db", "restored.db"):
        for left in folder.glob(f"{name}*"):
            left.unlink()


def _open(story: Story) -> Session:
    story.say(f"2. {STEPS[1]}")
    account = open_account(story.ledger, "demo", unit=users("user_id"), epsilon=EPSILON)
    story.facts["account"] = account
    return Session(read(story.purchases), account)


def _balance(story: Story, session: Session, data: Purchases) -> None:
    story.say(f"3. {STEPS[2]}")
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
    story.say(
        f"     at epsilon {SHARE}: cap {best.cap:,.0f} per customer, expected error {best.error:,.0f} "
        f"({best.low:,.0f} to {best.high:,.0f} at 95%)"
    )


def _release(story: Story, session: Session, data: Purchases) -> None:
    story.say(f"4. {STEPS[3]}")
    task = Sum("amount", epsilon=SHARE, cap=story.facts["profile"], lower=0)  # nobody is paid for buying
    total = session.release(task, key="total")
    orders = session.release(Count(epsilon="0.4", upper=2_000, by="country", keys=COUNTRIES), key="orders")
    _back_up(story.folder)
    usual = Quantile("amount", epsilon="0.2", quantile=("0.25", "0.5", "0.75"), lower=0, upper=200, cap=20)
    prices = session.release(usual, key="prices")
    truth, amounts = sum(data.amount), sorted(data.amount)
    story.facts |= {"total": total, "orders": orders, "prices": prices, "truth": truth, "purchases": len(amounts)}
    story.facts["prices_truth"] = [amounts[len(amounts) * quarter // 4] for quarter in (1, 2, 3)]
    story.facts["orders_truth"] = {country: data.country.count(country) for country in COUNTRIES}
    story.say(f"     total spent: {total.value:,.0f}   (truth, known only because it is made up: {truth:,.0f})")
    for sentence in total.told:
        story.say(f"     {sentence}")
    story.say(f"5. {STEPS[4]}")
    again, account = session.release(task, key="total"), session.account
    story.facts["retry"] = again.to_json() == total.to_json()
    story.say(f"     asked again with the same key: the same answer, {account.spent} spent as before")
    try:
        session.release(task)
    except BudgetExceeded as refusal:
        story.facts["refusal"] = str(refusal)
        story.say(f"     asked anew: {refusal}")


def _accuracy(story: Story) -> Section:
    """Buy a total within three per cent and a model near the best, each as private as that allows, and tell what they cost.

    Nobody says how much to spend. The total is measured again and again, a little finer each time, until its interval is
    narrow enough; the model's noise is chosen so that it alone bounds what it can cost. Beside the model stands what the
    textbook way to the same promise would have taken: reading epsilon off the worst case of output perturbation.
    """
    total, first = _total(story)
    model = _model(story)
    story.facts["first"] = {"total": total, "model": model}
    story.say(
        f"     the total, its noise within 3%, cost epsilon {total['epsilon']:.2f} of {total['cap']}; with what its cap cuts off "
        f"it is off by {total['off']:.1%}"
    )
    story.say(
        f"     a model within {report.EXCESS} of the best cost epsilon {model['epsilon']:.2f}; inverting the theory, "
        f"{model['theory']:.1f}"
    )
    return report.accuracy(total, model, first.path_)


def _total(story: Story) -> tuple[dict[str, Any], Any]:
    cap = "8"
    account = open_account(story.ledger, "demo accuracy", unit=users("user_id"), epsilon=cap, delta=report.DELTA)
    session = Session(read(story.purchases), account)
    kept = round(story.facts["profile"].plan("1").best.cap)
    first = AccuracyFirst(Sum("amount", epsilon=cap, cap=kept), relative_error=report.WITHIN)
    release: Any = first.release(session, key="total within 3%")
    truth = story.facts["truth"]
    found = {"value": release.value, "off": abs(release.value - truth) / truth, "epsilon": first.epsilon_filter_}
    return found | {"cap": cap, "kept": kept, "reason": first.stopped_reason_, "steps": len(first.path_)}, first


def _model(story: Story) -> dict[str, Any]:
    """A logistic model of what comes back, near the best one, and what inverting the theory would have asked for."""
    data = parcels(story)
    n, known = len(data["returned"]), features()
    unit = rows(neighbours="replace", n=n)
    account = open_account(story.ledger, "demo model", unit=unit, epsilon="5", delta=report.DELTA)
    wanted = Goal.read({"excess_loss": report.EXCESS}, "0.9")
    task = FitLogistic(known, "returned", [False, True])
    found = reach(Session(read(data), account), task, wanted, penalty=PENALTY, key="near the best")
    theory = 2 * math.sqrt(2) * known.width / (n * float(PENALTY) * float(report.EXCESS))
    return {"epsilon": found.epsilon, "theory": theory, "certificate": str(found.certificate), "rows": n}


def _verify(story: Story) -> None:
    story.say(f"10. {STEPS[9]}")
    source = story.ledger
    whole = story.facts["verified"] = Ledger(source).verify()
    story.say(f"     {whole.entries} entries, chain whole: {whole.ok}")
    restored = story.folder / "restored.db"
    for suffix in (".key", ".anchor"):
        shutil.copy(f"{source}{suffix}", f"{restored}{suffix}")
    caught = story.facts["caught"] = Ledger(restored).verify()
    found = caught.findings[0] if caught.findings else "NOT NOTICED"
    story.say(f"     a backup from before the last release, put back to win its cost back: {found}")
    story.say(f"11. {STEPS[10]}")


def _back_up(folder: Path) -> None:
    """Copy the ledger's database as a backup would."""
    for suffix in ("", "-wal"):
        if (folder / f"budget.db{suffix}").exists():
            shutil.copy(folder / f"budget.db{suffix}", folder / f"restored.db{suffix}")


def _summary(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "cap": facts["curve"].best.cap,
        "total": json.loads(facts["total"].to_json()),
        "orders": json.loads(facts["orders"].to_json()),
        "retry_was_free": facts["retry"],
        "ledger_ok": facts["verified"].ok,
        "rollback_found": not facts["caught"].ok,
        **{name: facts[name] for name in ("caps", "refusal", "labels", "models", "first", "holdout")},
    }
