"""The pictures of the accuracy-first paper, on generated rows: what an accuracy costs, by each method.

Ridge by covariance perturbation and logistic regression by output perturbation, as in 2017 (theory, doubling, noise
reduction), and what is used here. The paper's Twitter and KDD-99 rows are not shipped, so its numbers cannot be compared
digit by digit; the order of the curves can. The last picture follows one path step by step. 2017 is pure epsilon; ours is
(epsilon, 1e-6), but for the curve that says pure.

    python bench/papers/accuracy_first_figures.py --out figures [--trials 3] [--png]
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from steelyard.accounting.gaussian import epsilon_of
from steelyard.accounting.prices import price
from steelyard.charts import Chart, Line, lines
from steelyard.models.first import classic, one_shot
from steelyard.models.first.estimator import AccuracyFirst
from steelyard.models.linear_regression import LinearRegression
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Terms, rows

Array = NDArray[np.float64]
N, WIDTH, PENALTY, FAILURE = 50_000, 20, 0.005, 0.1
ALPHAS = (0.005, 0.01, 0.02, 0.05, 0.1)


def made() -> tuple[Array, Array]:
    """Heavy-tailed features with L1 norm at most one, and a linear label."""
    draws = np.random.default_rng(1)
    x = np.clip(draws.lognormal(-1, 1, (N, WIDTH)), 0, 3) / 3 / WIDTH
    y = np.clip(8 * (x[:, :5].sum(axis=1) - x[:, 5:10].sum(axis=1)) + 0.2 * draws.standard_normal(N), -1, 1)
    return x, y


def fitted(x: Array, y: Array, alpha: float, seed: int) -> AccuracyFirst:
    """One run of ours; rows are far inside the bound, which is what the L1 norm allows."""
    model = LinearRegression(x_bound=1, fit_intercept=False)
    wanted = AccuracyFirst(model, excess_loss=alpha, epsilon=50, penalty=PENALTY, noise=TestNoise(seed))
    return wanted.fit(x, y)


def ridge_chart(x: Array, y: Array, trials: int) -> Chart:
    """Epsilon against alpha for ridge."""
    draws = np.random.default_rng(2)
    problems = [classic.ridge(x, y, PENALTY, alpha) for alpha in ALPHAS]
    curves = {
        "theory": [problem.theory for problem in problems],
        "doubling": [median(trials, lambda p=p, a=a: classic.doubling(p, a, FAILURE, draws).epsilon)
                     for p, a in zip(problems, ALPHAS, strict=True)],
        "noise reduction (2017)": [median(trials, lambda p=p, a=a: classic.noise_reduction(p, a, FAILURE, draws, 300).epsilon)
                                   for p, a in zip(problems, ALPHAS, strict=True)],
        "steelyard, ex post": [float(np.median([fitted(x, y, alpha, seed).epsilon_ for seed in range(trials)]))
                               for alpha in ALPHAS],
    }  # fmt: skip
    return drawn("What an excess risk costs: ridge", curves)


def logistic_chart(x: Array, y: Array, trials: int) -> Chart:
    """Epsilon against alpha for logistic regression."""
    signed = x * np.where(y > np.median(y), 1.0, -1.0)[:, None] * WIDTH / math.sqrt(WIDTH)
    draws, unit, ridge = np.random.default_rng(2), rows(neighbours="replace", n=N), Fraction(str(PENALTY)) * N

    def risk(model: Array) -> float:
        return one_shot.log_loss(model, signed, PENALTY)

    best = np.asarray(minimize(risk, np.zeros(WIDTH), tol=1e-10).x)
    problems = [classic.logistic(best, risk, N, PENALTY, alpha) for alpha in ALPHAS]
    pure = [one_shot.pure(WIDTH, N, ridge, alpha, FAILURE) for alpha in ALPHAS]
    normal = [one_shot.gaussian(WIDTH, N, ridge, alpha, FAILURE) for alpha in ALPHAS]
    gauss, alone = Terms(unit, Loss.mu(100), Fraction(5), Fraction(1, 10**6)), Terms(unit, Loss.pure(1000))
    curves = {
        "theory": [problem.theory for problem in problems],
        "noise reduction (2017)": [median(trials, lambda p=p, a=a: classic.noise_reduction(p, a, FAILURE, draws, 100).epsilon)
                                   for p, a in zip(problems, ALPHAS, strict=True)],
        "steelyard, pure": [float(price(each.event, alone).value) for each in pure],
        "steelyard, (epsilon, 1e-6)": [epsilon_of(math.sqrt(price(each.event, gauss).value), 1e-6) for each in normal],
    }  # fmt: skip
    return drawn("What an excess risk costs: logistic regression", curves)


def median(trials: int, run: object) -> float:
    """The median of a few runs."""
    return float(np.median([run() for _ in range(trials)]))  # type: ignore[operator]


def drawn(title: str, curves: dict[str, list[float]]) -> Chart:
    """Curves of epsilon against alpha, and the same as a table."""
    print(title)
    for name, values in curves.items():
        print(f"  {name}: " + ", ".join(f"{alpha:g}: {value:.3g}" for alpha, value in zip(ALPHAS, values, strict=True)))
    series = [Line(name, ALPHAS, values) for name, values in curves.items()]
    return lines(series, title=title, x_title="excess risk allowed", y_title="epsilon", log_x=True, log_y=True)


def main() -> None:
    """Draw them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="figures")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--png", action="store_true")
    options = parser.parse_args()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    x, y = made()
    charts = {
        "ridge": ridge_chart(x, y, options.trials),
        "logistic": logistic_chart(x, y, options.trials),
        "path": fitted(x, y, 0.02, 1).chart(),
    }
    for name, chart in charts.items():
        chart.save(folder / f"accuracy_first_{name}.{'png' if options.png else 'svg'}")


if __name__ == "__main__":
    main()
