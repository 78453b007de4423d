"""The demo's accuracy first: a total within three per cent and a model near the best, each as private as that allows.

Nobody says how much to spend. The total is measured again and again, a little finer each time, until its interval is
narrow enough; the model's noise is chosen so that it alone bounds what it can cost. Beside the model stands what the
textbook way to the same promise would have taken: reading epsilon off the worst case of output perturbation.
"""

from __future__ import annotations

import math
from typing import Any

from steelyard.bounding import Sum
from steelyard.charts import Chart, Line, Section, Tabular, lines
from steelyard.demo.models import features, parcels
from steelyard.demo.story import Story
from steelyard.ledger import open_account
from steelyard.models import AccuracyFirst
from steelyard.models.accuracy import Goal, reach_logistic
from steelyard.privacy import rows, users
from steelyard.session import Session
from steelyard.tables import read

WITHIN = "0.03"
EXCESS = "0.01"
PENALTY = "0.001"
DELTA = "1e-6"


def tell(story: Story) -> Section:
    """Buy a total and a model at an accuracy, and tell what they cost."""
    total, first = _total(story)
    model = _model(story)
    story.facts["first"] = {"total": total, "model": model}
    story.say(
        f"     the total, its noise within 3%, cost epsilon {total['epsilon']:.2f} of {total['cap']}; with what its cap cuts off "
        f"it is off by {total['off']:.1%}"
    )
    story.say(
        f"     a model within {EXCESS} of the best cost epsilon {model['epsilon']:.2f}; inverting the theory, "
        f"{model['theory']:.1f}"
    )
    return _section(total, model, _steps(first, total["value"]))


def _total(story: Story) -> tuple[dict[str, Any], Any]:
    cap = "8"
    account = open_account(story.ledger, "demo accuracy", unit=users("user_id"), epsilon=cap, delta=DELTA)
    session = Session(read(story.purchases), account)
    kept = round(story.facts["profile"].plan("1").best.cap)
    first = AccuracyFirst(Sum("amount", epsilon=cap, cap=kept), relative_error=WITHIN)
    release: Any = first.release(session, key="total within 3%")
    truth = story.facts["truth"]
    found = {"value": release.value, "off": abs(release.value - truth) / truth, "epsilon": first.epsilon_filter_}
    return found | {"cap": cap, "kept": kept, "reason": first.stopped_reason_, "steps": len(first.path_)}, first


def _model(story: Story) -> dict[str, Any]:
    """A logistic model of what comes back, near the best one, and what inverting the theory would have asked for."""
    data = parcels(story)
    n, known = len(data["returned"]), features()
    unit = rows(neighbours="replace", n=n)
    account = open_account(story.ledger, "demo model", unit=unit, epsilon="5", delta=DELTA)
    wanted = Goal.read(None, EXCESS, None, "0.9")
    found = reach_logistic(
        Session(read(data), account), known, "returned", [False, True], wanted, penalty=PENALTY, key="near the best"
    )
    theory = 2 * math.sqrt(2) * known.width / (n * float(PENALTY) * float(EXCESS))
    return {"epsilon": found.epsilon, "theory": theory, "certificate": str(found.certificate), "rows": n}


def _section(total: dict[str, Any], model: dict[str, Any], picture: Chart) -> Section:
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
    return Section("Accuracy first", [words, picture, more, table])


def _steps(first: Any, value: float) -> Chart:
    spent = [math.sqrt(stop.mu2) for stop in first.path_]
    bounds = [100 * stop.bound / abs(value) for stop in first.path_]
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
