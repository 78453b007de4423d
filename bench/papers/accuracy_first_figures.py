"""The two figures of the accuracy-first paper redrawn: what an excess risk costs, by each method, and one path followed.

Ridge by covariance perturbation and logistic regression by output perturbation as in 2017 (theory, doubling, noise
reduction: as published for ridge, and corrected with the smallest check that holds), beside what is used here. Rows: kegg
and adult from the data folder (or STEELYARD_DATA) and a generated set like the paper's Twitter rows; without the folder,
the generated set alone. The paper's own rows are not shipped, so its numbers cannot be compared digit by digit; the order
of the curves can. 2017 is pure epsilon; ours is (epsilon, 1e-6), but for the curve that says pure.

    python bench/papers/accuracy_first_figures.py --out figures [--data FOLDER] [--trials 3] [--png]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from accuracy_first import (
    DELTA,
    GAMMA,
    ODOMETER,
    Array,
    Data,
    _Private,
    adult,
    kegg,
    logistic_cells,
    ours,
    solved,
    twitter,
)  # fmt: skip
from papers import noise_reduction as classic
from papers.noise_reduction import log_loss
from steelyard.charts import Chart, Line, lines
from steelyard.models._columns import SIZE
from steelyard.models._regression import LinearRegression
from steelyard.models.accuracy import _one_shot as one_shot
from steelyard.models.accuracy._designs import Ridge
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._goal import Goal
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Terms, rows

ALPHAS = (0.005, 0.01, 0.02, 0.05, 0.1)
LEVELS = 300
Curves = dict[str, list[float]]


def middle(run: Callable[[int], float], trials: int) -> float:
    """The median over a few seeds."""
    return float(np.median([run(seed) for seed in range(trials)]))


def reduced(problem: classic.Classic, alpha: float, seed: int) -> float:
    """One run of noise reduction watched by AboveThreshold."""
    return classic.noise_reduction(problem, alpha, GAMMA, np.random.default_rng([2, seed]), LEVELS).epsilon


def doubled(problem: classic.Classic, alpha: float, seed: int) -> float:
    """One run of doubling."""
    return classic.doubling(problem, alpha, GAMMA, np.random.default_rng([3, seed])).epsilon


def walked(data: Data, penalty: float, alpha: float, seed: int) -> float:
    """One ridge path of ours, ex post."""
    n, width = data.x.shape
    ridge = Ridge(n, width, penalty / data.length**2)
    found = ours(_Private(data.stretched()), ridge, Goal("excess", alpha, 1 - GAMMA), seed)
    return ODOMETER.epsilon(found.spent)


def ridge_curves(data: Data, penalty: float, trials: int) -> Curves:
    """Epsilon against alpha for ridge."""
    x, y = (part / SIZE for part in data.rows)
    curves: Curves = {"theory": [], "doubling": [], "2017": [], "2017, corrected": [], "steelyard, ex post": []}
    for alpha in ALPHAS:
        published = classic.ridge(x, y, penalty, alpha)
        corrected = classic.ridge(x, y, penalty, alpha, published=False, length=data.length)
        curves["theory"].append(published.theory)
        curves["doubling"].append(middle(partial(doubled, published, alpha), trials))
        curves["2017"].append(middle(partial(reduced, published, alpha), trials))
        curves["2017, corrected"].append(middle(partial(reduced, corrected, alpha), trials))
        curves["steelyard, ex post"].append(middle(partial(walked, data, penalty, alpha), trials))
    return curves


def logistic_curves(data: Data, penalty: float, trials: int) -> Curves:
    """Epsilon against alpha for logistic regression."""
    signed: Array = data.x * np.sign(data.y)[:, None]
    n, width = signed.shape
    best, risk = solved(signed, penalty, np.zeros(width)), partial(log_loss, signed=signed, penalty=penalty)
    ridge = Fraction(str(penalty)) * n
    terms = Terms(rows(neighbours="replace", n=n), Loss.mu(100), Fraction(5), Fraction(str(DELTA)))
    alone = partial(one_shot.epsilon_before, terms=terms)
    names = ("theory", "doubling", "2017, corrected", "steelyard, pure", "steelyard, (epsilon, 1e-6)")
    curves: Curves = {name: [] for name in names}
    for alpha in ALPHAS:
        problem = classic.logistic(best, risk, n, penalty, alpha, published=False)
        curves["theory"].append(problem.theory)
        curves["doubling"].append(middle(partial(doubled, problem, alpha), trials))
        curves["2017, corrected"].append(middle(partial(reduced, problem, alpha), trials))
        curves["steelyard, pure"].append(alone(one_shot.pure(width, n, ridge, alpha, GAMMA).event))
        curves["steelyard, (epsilon, 1e-6)"].append(alone(one_shot.gaussian(width, n, ridge, alpha, GAMMA).event))
    return curves


def drawn(title: str, curves: Curves) -> Chart:
    """Curves of epsilon against alpha, and the same as a table."""
    print(title, flush=True)
    for name, values in curves.items():
        print(f"  {name}: " + ", ".join(f"{alpha:g}: {value:.3g}" for alpha, value in zip(ALPHAS, values, strict=True)))
    series = [Line(name, ALPHAS, values) for name, values in curves.items()]
    return lines(series, title=title, x_title="excess risk allowed", y_title="epsilon", log_x=True, log_y=True)


def path_chart() -> Chart:
    """One path, step by step, on the generated rows."""
    data = twitter(50_000, 20)
    model = LinearRegression(x_bound=data.length, fit_intercept=False)
    wanted = AccuracyFirst(model, excess_loss=0.002, epsilon=50, penalty=0.04, noise=TestNoise(1))
    return wanted.fit(data.x, data.y).chart()  # type: ignore[no-any-return]


def main() -> None:
    """Draw them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="figures")
    parser.add_argument("--data", default=os.environ.get("STEELYARD_DATA"))
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--png", action="store_true")
    options = parser.parse_args()
    out, folder = Path(options.out), Path(options.data) if options.data else None
    out.mkdir(parents=True, exist_ok=True)
    generated = next(data for data, _, _ in logistic_cells(None))
    regressions = {"twitter": (twitter(), 0.0005)} | ({} if folder is None else {"kegg": (kegg(folder, 1), 0.001)})
    classifiers = {"twitter": (generated, 0.0005)} | ({} if folder is None else {"adult": (adult(folder), 0.0005)})
    charts = {"path": path_chart()}
    for name, (data, penalty) in regressions.items():
        charts[f"ridge_{name}"] = drawn(f"Ridge, {data.name}", ridge_curves(data, penalty, options.trials))
    for name, (data, penalty) in classifiers.items():
        curves = logistic_curves(data, penalty, options.trials)
        charts[f"logistic_{name}"] = drawn(f"Logistic regression, {data.name}", curves)
    for name, chart in charts.items():
        chart.save(out / f"accuracy_first_{name}.{'png' if options.png else 'svg'}")


if __name__ == "__main__":
    main()
