"""A private search over settings, beside paying for every fit, beside a setting picked blindly, beside the best one known.

``python bench/private_search.py [--seeds 5] [--data ../shared/data]``: Adult's income by a private logistic model, six lengths of a row (``x_bound``) as candidates, pure epsilon.
Printed are medians of the accuracy on rows that were never touched. Paying for every fit gives each of the K candidates epsilon / K, fit and score on two parts of the rows.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import steelyard as sy
from label_fits import adult

GRID = [0.1, 0.5, 2.0, 10.0, 50.0, 500.0]
Floats = NDArray[np.float64]


def _model(x_bound: float, epsilon: float) -> Any:
    return sy.LogisticRegression(epsilon=epsilon, delta=None, classes=[0, 1], x_bound=x_bound)


def paying(x: Floats, y: Any, epsilon: float, draw: np.random.Generator) -> Any:
    """Every candidate fitted and scored at its share of epsilon; the best by its noisy score."""
    scored, share = draw.uniform(size=len(y)) < 0.25, epsilon / len(GRID)
    models = [_model(each, share).fit(x[~scored], y[~scored]) for each in GRID]
    right = [float(np.sum(each.predict(x[scored]) == y[scored])) + draw.laplace(scale=1 / share) for each in models]
    return models[int(np.argmax(right))]


def searched(x: Floats, y: Any, epsilon: float, law: str) -> Any:
    base = sy.LogisticRegression(classes=[0, 1])
    return sy.PrivateSearchCV(base, {"x_bound": GRID}, epsilon=epsilon, law=law, runs=4 * len(GRID)).fit(x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    x, income, _ = adult(given.data)
    y = income.astype(int)
    for epsilon in (0.1, 0.3, 1.0):
        found: dict[str, list[float]] = {}
        for seed in range(given.seeds):
            draw = np.random.default_rng(seed)
            order = draw.permutation(len(y))
            here, there = order[: len(y) * 2 // 3], order[len(y) * 2 // 3 :]
            alone = {each: _model(each, epsilon).fit(x[here], y[here]).score(x[there], y[there]) for each in GRID}
            told = {
                "geometric": searched(x[here], y[here], epsilon, "geometric").score(x[there], y[there]),
                "logarithmic": searched(x[here], y[here], epsilon, "logarithmic").score(x[there], y[there]),
                "paying each": paying(x[here], y[here], epsilon, draw).score(x[there], y[there]),
                "picked blindly": float(np.mean(list(alone.values()))),
                "best, were it known": max(alone.values()),
            }
            for name, score in told.items():
                found.setdefault(name, []).append(score)
        print(
            f"epsilon {epsilon:<4}",
            "  ".join(f"{name} {np.median(each):.4f}" for name, each in found.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
