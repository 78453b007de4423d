"""How searches for an excess on pure accounts end, on small generated problems: met, budget gone, or not shown.

    python bench/accuracy_first_endings.py                    150 runs of the hardest setting known
    python bench/accuracy_first_endings.py --runs 1000 --all  more settings, more runs

An excess is within reach whatever the rows, so a search that has budget left should end with a model. Told for each setting: how
many runs ended how, with how many watches, the median epsilon, and the largest true excess beside what was asked.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.models import AccuracyFirst, LinearRegression
from steelyard.noise import TestNoise


@dataclass(frozen=True)
class Setting:
    """One small problem: so many rows and features, an excess, and the account's cap."""

    rows: int
    width: int
    alpha: float
    cap: float
    penalty: float = 0.001


HARDEST = Setting(20_000, 3, 0.01, 20, 0.01)
OTHERS = (
    Setting(20_000, 3, 0.003, 20),
    Setting(20_000, 8, 0.01, 20),
    Setting(5_000, 3, 0.01, 50),
    Setting(50_000, 3, 0.01, 20),
    Setting(20_000, 3, 0.01, 20),
)


def rows_of(setting: Setting) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Even features, a linear label and some noise."""
    draws = np.random.default_rng(0)
    x = draws.uniform(-1, 1, (setting.rows, setting.width)) / np.sqrt(setting.width)
    return x, np.clip(x @ np.linspace(1, -0.5, setting.width) + 0.1 * draws.standard_normal(setting.rows), -1, 1)


def excess_of(model: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64], penalty: float) -> float:
    """The true excess of weights on features of length at most one, the intercept last."""
    z = np.column_stack([x, np.ones(len(y))]) / np.sqrt(2)
    matrix = z.T @ z + len(y) * penalty * np.eye(z.shape[1])
    off = model - np.linalg.solve(matrix, z.T @ y)
    return float(off @ matrix @ off) / (2 * len(y))


def told(setting: Setting, runs: int) -> str:
    """One line for a setting."""
    x, y = rows_of(setting)
    ends, watches, spent, worst = Counter[str](), Counter[int](), list[float](), 0.0
    for run in range(runs):
        ridge = LinearRegression(x_bound=1, y_bounds=(-1, 1))
        first = AccuracyFirst(
            ridge,
            excess_loss=setting.alpha,
            epsilon=setting.cap,
            delta=None,
            penalty=setting.penalty,
            noise=TestNoise(run),
        ).fit(x, y)
        ends[first.stopped_reason_] += 1
        watches[sum(stop.step.startswith("watch") for stop in first.path_)] += 1
        spent.append(first.epsilon_)
        if first.stopped_reason_ == "target_met":
            weights = np.append(first.coef_, first.intercept_) * np.sqrt(2)
            worst = max(worst, excess_of(weights, x, y, setting.penalty))
    return f"{setting}: {dict(ends)}, watches {dict(sorted(watches.items()))}, median epsilon {np.median(spent):.3g}, largest excess {worst:.2g}"


def main() -> None:
    """Every setting asked for, one a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--all", action="store_true", help="the other settings too")
    args = parser.parse_args()
    for setting in (HARDEST, *(OTHERS if args.all else ())):
        print(told(setting, args.runs), flush=True)


if __name__ == "__main__":
    main()
