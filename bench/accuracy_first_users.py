"""What an accuracy costs where users are hidden, beside the same path over rows charged for a user's rows at once.

Generated users have 1 to --most rows each. The peer is group privacy: a path over rows, whose neighbours replace one
row, costs --most times its mu where they replace that many. Both promise the same loss to the same confidence, the one
as a mean over users, the other over rows. Prices are the filter's epsilon at delta 1e-6, medians over runs with test noise.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from steelyard.accounting._gaussian import epsilon_of
from steelyard.models import AccuracyFirst, LinearRegression, LogisticRegression
from steelyard.noise import TestNoise

DELTA, PENALTY = 1e-6, 0.005


def generated(people: int, most: int, width: int) -> tuple[Any, Any, Any, Any]:
    """Features of length at most one, a linear label, a class, and whose each row is."""
    draws = np.random.default_rng(0)
    whose = np.repeat(np.arange(people), draws.integers(1, most + 1, people))
    x = draws.standard_normal((len(whose), width))
    x /= np.linalg.norm(x, axis=1)[:, None]
    best = draws.standard_normal(width) / math.sqrt(width)
    y = np.clip(x @ best + 0.2 * draws.standard_normal(len(whose)), -1, 1)
    return x, y, (draws.uniform(size=len(whose)) < 1 / (1 + np.exp(-8 * x @ best))).astype(int), whose


def price(mu2: float) -> float:
    """Mu squared as the filter's epsilon."""
    return epsilon_of(math.sqrt(mu2), DELTA)


def main() -> None:
    """One line for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    x, y, classes, whose = generated(args.people, args.most, args.width)
    ridge, logistic = LinearRegression(x_bound=1), LogisticRegression(x_bound=1, classes=[0, 1])
    asked: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("ridge target .1", ridge, y, {"target_loss": 0.1}),
        ("ridge excess .02", ridge, y, {"excess_loss": 0.02}),
        ("logistic target .6", logistic, classes, {"target_loss": 0.6}),
        ("logistic excess .05", logistic, classes, {"excess_loss": 0.05}),
    ]
    print(f"{'question':<20} {'users':>8} {'group':>8} {'lower by':>9}   reached")
    for name, model, label, wanted in asked:
        paid: dict[bool, list[float]] = {True: [], False: []}
        met = 0
        for seed in range(args.runs):
            for hidden in (True, False):
                search = AccuracyFirst(
                    model, epsilon=1000, delta=DELTA, penalty=PENALTY, noise=TestNoise(seed), **wanted
                )
                found = search.fit(x, label, users=whose if hidden else None)
                met += found.stopped_reason_ == "target_met"
                paid[hidden].append(price((found.mu2_spent_ or 0.0) * (1 if hidden else args.most**2)))
        ours, group = np.median(paid[True]), np.median(paid[False])
        print(f"{name:<20} {ours:>8.3f} {group:>8.3f} {group / ours:>8.1f}x   {met} of {2 * args.runs}")


if __name__ == "__main__":
    main()
