"""What a check on unseen rows costs beside a look at the rows that were trained on; generated rows, test noise.

    python bench/accuracy_first_disjoint.py --trials 20

One line for each target and way: the median filter epsilon at delta 1e-6, its ratio to that of shared rows, the ratio of
mu, and how often a model that passed loses more than the target on 200,000 fresh rows.
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from statistics import median
from typing import Any

import numpy as np

from steelyard.accounting._gaussian import epsilon_of
from steelyard.ledger import open_account
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._split import Split
from steelyard.noise import TestNoise
from steelyard.privacy import rows
from steelyard.session import Session
from steelyard.tables import read

FRESH = 200_000


def generated(n: int, width: int, seed: int) -> tuple[Any, Any]:
    """Rows of a linear model with noise of deviation a tenth."""
    draws = np.random.default_rng(seed)
    x = draws.standard_normal((n, width)) * 0.4
    return x, np.clip(x @ (0.5 / (1 + np.arange(width))) + 0.1 * draws.standard_normal(n), -1, 1)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=5)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--targets", default="0.05,0.02,0.013")
    parser.add_argument("--mu", type=float, default=20, help="the cap of each account")
    options = parser.parse_args()
    x, y = generated(options.rows, options.width, 1)
    names = [f"x{i}" for i in range(options.width)]
    table = read({**dict(zip(names, x.T, strict=True)), "y": y})
    features, label = Features([Plain(name) for name in names], "clip", 2), Target("y", -1, 1)
    swapped = rows(neighbours="replace", n=options.rows)
    ways = (
        ("shared rows, replace", swapped, RidgeSearch(features, label, Fraction(1, 1000))),
        ("disjoint, replace", swapped, RidgeSearch(features, label, Fraction(1, 1000), Split())),
        ("disjoint, add/remove", rows(), RidgeSearch(features, label, Fraction(1, 1000), Split())),
    )
    fresh_x, fresh_y = generated(FRESH, options.width, 2)
    batch = read({**dict(zip(names, fresh_x.T, strict=True)), "y": fresh_y})
    whole = np.concatenate([features.whole(each).T for each in batch.batches(names)]) / SIZE
    fresh_y = np.concatenate([label.whole(each.column(0)) for each in batch.batches(["y"])]) / SIZE
    print(
        f"{'target':>7}  {'way':22} {'met':>4} {'epsilon':>8} {'ratio':>6} {'mu ratio':>8} {'worse on fresh rows':>20}"
    )
    for target in map(float, options.targets.split(",")):
        base = None
        for name, unit, search in ways:
            spent, met, worse = [], 0, 0
            for seed in range(options.trials):
                account = open_account(":memory:", "bench", unit=unit, mu=options.mu)
                walk: Any = Session(table, account, noise=TestNoise(seed)).open(search, key="k")
                found = walk.reach_loss(target, 0.9)
                spent.append(found.spent / 10**12)
                if found.reason in ("target_met", "null_model_ok"):
                    met += 1
                    told = np.clip(whole @ found.model, -found.reach, found.reach)
                    worse += bool(np.mean((fresh_y - told) ** 2) > target)
            mu = math.sqrt(median(spent))
            base = base or mu
            epsilon = epsilon_of(mu, 1e-6)
            print(
                f"{target:7g}  {name:22} {met:4d} {epsilon:8.3f} {epsilon / epsilon_of(base, 1e-6):6.2f} "
                f"{mu / base:8.2f} {worse:20d}"
            )


if __name__ == "__main__":
    main()
