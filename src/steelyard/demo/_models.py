"""The demo's models: which parcels come back, learnt from customers of whom no one may be recognized.

Whether a parcel was returned is made up here: dear parcels come back more often, some countries send more back, and
whoever buys much returns little. Everything is fitted on an account that hides a whole
customer; half of the customers are kept aside to measure by, which only made-up data allows for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.charts import Chart, Line, Section, lines
from steelyard.demo._story import COUNTRIES, Story
from steelyard.ledger import open_account
from steelyard.models import Categorical, Features, FitLogistic, Numeric
from steelyard.privacy import users
from steelyard.session import Session
from steelyard.tables import read

EPSILONS = ("0.01", "0.03", "0.1", "0.3", "1")
CAPS = (1, 4, 16, 64, 256)
CAP_EPSILON = "1"
DELTA = "1e-6"


def tell(story: Story) -> Section:
    """Fit models at several budgets and caps, and tell how good they are."""
    rows = parcels(story)
    mine = rows["user_id"] % 2 == 0
    learnt, aside = ({name: values[part] for name, values in rows.items()} for part in (mine, ~mine))
    budgets = {e: _loss(_task(e, public_rows=60_000), learnt, aside) for e in EPSILONS}
    caps = {cap: _loss(_task(CAP_EPSILON, cap=cap), learnt, aside) for cap in CAPS}
    share = float(np.mean(learnt["returned"]))
    back = float(np.mean(aside["returned"]))
    nobody = -(back * np.log(share) + (1 - back) * np.log(1 - share))
    exact = _exact(learnt, aside)
    found = {"budgets": budgets, "caps": caps, "base rate": float(nobody), "without privacy": exact}
    story.facts["models"] = found
    best = min(caps, key=lambda cap: caps[cap])
    story.say(
        f"     log loss {budgets[CAP_EPSILON]:.3f} at epsilon {CAP_EPSILON} per customer (without privacy {exact:.3f}, "
        f"knowing only the share {nobody:.3f}); best fixed cap, seen afterwards: {best} rows, {caps[best]:.3f}"
    )
    return _section(found, len(learnt["returned"]))


def parcels(story: Story) -> dict[str, NDArray[Any]]:
    """Every purchase with whether it came back."""
    user, amount, country = story.columns()
    draw = np.random.default_rng(2026)
    bought = np.bincount(user)[user]
    rank = np.select([country == name for name in COUNTRIES], range(len(COUNTRIES)))
    lean = np.array([0.4, -0.3, 0.1, -0.6, 0.7, 0.0])[rank]
    score = -1.0 + 1.3 * (np.log(amount) - 2.5) + lean - 0.4 * np.minimum(np.log2(bought), 8)
    returned = draw.random(len(user)) < 1 / (1 + np.exp(-score))
    return {"user_id": user, "price": np.log(amount), "country": country, "returned": returned}


def features() -> Features:
    """What is known of a parcel: the logarithm of its price, and where it goes."""
    return Features([Numeric("price", 0, 6), Categorical("country", COUNTRIES)], norm="scale")


def _task(epsilon: str, *, cap: int | None = None, public_rows: int | None = None) -> FitLogistic:
    return FitLogistic(features(), "returned", [False, True], epsilon, cap=cap, public_rows=public_rows)


def _loss(task: FitLogistic, learnt: dict[str, Any], aside: dict[str, Any]) -> float:
    """The log loss on customers kept aside, of a model released for an account of its own that hides customers."""
    account = open_account(":memory:", "model", unit=users("user_id"), epsilon=task.epsilon, delta=DELTA)
    model = Session(read(learnt), account).release(task).value
    return _log_loss(model.predict(aside), aside["returned"])


def _log_loss(chance: NDArray[np.float64], came: NDArray[np.bool_]) -> float:
    held = np.clip(chance, 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(came, np.log(held), np.log1p(-held))))


def _exact(learnt: dict[str, Any], aside: dict[str, Any]) -> float:
    """The same without privacy, by Newton's method."""

    def matrix(rows: dict[str, Any]) -> NDArray[np.float64]:
        where = [(rows["country"] == name).astype(float) for name in COUNTRIES[1:]]
        return np.column_stack([np.ones(len(rows["price"])), rows["price"], *where])

    X, y = matrix(learnt), learnt["returned"].astype(float)
    theta = np.zeros(X.shape[1])
    for _ in range(12):
        p = 1 / (1 + np.exp(-X @ theta))
        theta += np.linalg.solve((X * (p * (1 - p))[:, None]).T @ X, X.T @ (y - p))
    return _log_loss(1 / (1 + np.exp(-matrix(aside) @ theta)), aside["returned"])


def _section(found: dict[str, Any], size: int) -> Section:
    words = (
        f"Will a parcel come back? {size:,} parcels of half the customers taught a logistic model, in which a customer "
        "with all their parcels is hidden. It was then asked about the other half. Lower is better; the model without "
        "privacy and the one that knows only how many parcels come back frame what can be reached."
    )
    told = (
        "One may also keep only so many parcels of each customer. Few lose the customers who buy much; many make "
        "everybody's noise as large as the largest customer. The default clips what a customer says instead, as far as "
        "a private look at the customers allows, and needs no cap."
    )
    return Section("A model that recognizes nobody", [words, _by_budget(found), told, _by_cap(found)])


def _by_budget(found: dict[str, Any]) -> Chart:
    x = [float(e) for e in EPSILONS]
    return lines(
        [
            Line("private", x, list(found["budgets"].values())),
            Line("without privacy", x, [found["without privacy"]] * len(x)),
            Line("base rate only", x, [found["base rate"]] * len(x)),
        ],
        title="What a model is worth at each epsilon",
        subtitle=f"log loss on other customers; one fit each, delta {DELTA}",
        x_title="epsilon for a whole customer",
        y_title="log loss",
        log_x=True,
    )


def _by_cap(found: dict[str, Any]) -> Chart:
    x = [float(cap) for cap in CAPS]
    return lines(
        [
            Line("fixed cap", x, list(found["caps"].values())),
            Line("no cap asked for", x, [found["budgets"][CAP_EPSILON]] * len(x)),
        ],
        title="A cap on parcels per customer",
        subtitle=f"log loss on other customers at epsilon {CAP_EPSILON}; one fit each",
        x_title="parcels kept of each customer",
        y_title="log loss",
        log_x=True,
    )
