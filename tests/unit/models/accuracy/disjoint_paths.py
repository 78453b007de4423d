"""Paths with a check on rows that the model has never seen, on a small table, and what their accounts were charged."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.ledger import Account, Ledger, open_account
from steelyard.models._columns import Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._family import PARTS
from steelyard.models.accuracy._goal import Found
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._split import Split
from steelyard.noise import TestNoise
from steelyard.privacy import Event, Unit, rows
from steelyard.session import Session
from steelyard.tables import read

N = 3000
DRAWS = np.random.default_rng(11)
X = DRAWS.uniform(-0.6, 0.6, (N, 2))
Y = np.clip(X @ [0.7, -0.5] + 0.1 * DRAWS.standard_normal(N), -1, 1)
TABLE = read({"x0": X[:, 0], "x1": X[:, 1], "y": Y, "id": np.arange(N), "who": np.arange(N) // 3})
FEATURES = Features([Plain("x0"), Plain("x1")], "clip", 1)
SEARCH = RidgeSearch(FEATURES, Target("y", -1, 1), Fraction(1, 1000), Split())
SWAPPED = rows(neighbours="replace", n=N)


def account(unit: Unit, name: str = "a") -> Account:
    """A Gaussian account in memory."""
    return open_account(":memory:", name, unit=unit, epsilon=30, delta="1e-6")


def reach(at: Account, target: float, seed: int = 1, search: Any = SEARCH, key: str = "k") -> Found:
    """Where a path on this account comes to."""
    found: Found = Session(TABLE, at, noise=TestNoise(seed)).open(search, key=key).reach_loss(target, 0.9)
    return found


def charged(at: Account) -> list[tuple[Event, int]]:
    """Every charge on the account, drawn or not: what was done and what it cost."""
    entries = [entry for entry in Ledger(at.location).entries() if entry.kind == "charge" and entry.account == at.name]
    return [(Event.from_json(json.loads(entry.detail)), entry.amount) for entry in entries]


def rises(events: list[Event]) -> dict[str, int]:
    """What the steps cost each part, by their own noise: recomputed by whoever audits the ledger."""
    total = dict.fromkeys(PARTS, 0)
    for event in events:
        inner = Event.from_json(json.loads(str(event.parameters["events"]))[0])
        part = next(name for name in PARTS if event.parameters[f"{name}_after"] != event.parameters[f"{name}_before"])
        total[part] += math.ceil(mu_squared(inner) * 10**12)
    return total


def mu_squared(event: Event) -> Fraction:
    """What a Gaussian step costs, by its noise."""
    given = {name: Fraction(str(value)) for name, value in event.parameters.items()}
    square = given["sensitivity"] ** 2 if "sensitivity" in given else given["sensitivity_squared"]
    return square * (given["sigma_denominator"] / given["sigma_numerator"]) ** 2
