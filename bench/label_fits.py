"""Fits that hide labels alone, beside noisy labels, beside fits that hide whole rows, beside none: excess test loss.

``python bench/label_fits.py [--seeds 5] [--data ../shared/data]``: Adult (income, logistic; hours, linear), a generated table, and generated counts. Each line is one task at
one epsilon; numbers are the test loss above that of the same model without privacy, medians over seeds.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression as Plain
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.linear_model import PoissonRegressor as PlainPoisson

import steelyard as sy

Floats = NDArray[np.float64]
DELTA = "1e-6"


def adult(folder: Path) -> tuple[Floats, Floats, Floats]:
    """Numbers and one-hot columns of public range, income as 0 or 1, hours."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "adult.parquet").to_pandas()
    numbers = (table[["age", "education_num"]].to_numpy(float) - [45, 9]) / [30, 6]
    texts = ("sex", "relationship", "workclass")
    hot = [(table[name] == value).to_numpy(float) for name in texts for value in sorted(table[name].dropna().unique())]
    income = table["output"].astype(str).isin(["1", "1.0", "True", ">50K", ">50K."]).to_numpy(float)
    return np.column_stack([numbers, *hot]), income, table["hours_per_week"].to_numpy(float)


def generated(seed: int) -> tuple[Floats, Floats]:
    """60,000 rows of fifteen features, some wide and some narrow, and a label between -4 and 4."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(60_000, 15)) * np.geomspace(1, 0.1, 15)
    return x, np.clip(0.3 * x @ draw.normal(size=15) + 0.5 * draw.normal(size=60_000), -4, 4)


def on_generated(epsilon: float, seed: int) -> dict[str, float]:
    """The generated table of this seed."""
    return linear(*generated(seed), (-4.0, 4.0), epsilon, seed)


def _account(unit: Any, epsilon: float) -> Any:
    return sy.open_account(":memory:", "bench", unit=unit, epsilon=str(epsilon), delta=DELTA)


def linear(x: Floats, y: Floats, bounds: tuple[float, float], epsilon: float, seed: int) -> dict[str, float]:
    """Mean squared test error above that without privacy, in squared label units."""
    here, there = _halves(len(y), seed)
    long = float(np.quantile(np.linalg.norm(x, axis=1), 0.99))

    def error(predict: Callable[[Floats], Floats]) -> float:
        return float(np.mean((predict(x[there]) - y[there]) ** 2))

    def private(unit: Any) -> float:
        paying = _account(unit, epsilon)
        model = sy.LinearRegression(epsilon=epsilon, delta=DELTA, x_bound=long, y_bounds=bounds, account=paying)
        return error(model.fit(x[here], y[here]).predict)

    noisy = sy.LabelRandomizer(epsilon=epsilon, lower=bounds[0], upper=bounds[1]).fit().transform(y[here])
    none = error(Plain().fit(x[here], y[here]).predict)
    return {
        "label fit": private(sy.labels("y")) - none,
        "noisy labels": error(Plain().fit(x[here], noisy).predict) - none,
        "row fit": private(sy.rows()) - none,
    }


def logistic(x: Floats, y: Floats, epsilon: float, seed: int) -> dict[str, float]:
    """Test log loss above that without privacy."""
    here, there = _halves(len(y), seed)
    long = float(np.quantile(np.linalg.norm(x, axis=1), 0.99))

    def loss(chance: Floats) -> float:
        held = np.clip(chance, 1e-6, 1 - 1e-6)
        return float(-np.mean(y[there] * np.log(held) + (1 - y[there]) * np.log(1 - held)))

    def private(unit: Any) -> float:
        paying = _account(unit, epsilon)
        model = sy.LogisticRegression(epsilon, DELTA, [0, 1], long, account=paying, norm="clip")
        return loss(model.fit(x[here], y[here].astype(int)).predict_proba(x[there])[:, 1])

    flipped = np.where(
        np.random.default_rng(seed).uniform(size=len(here)) < 1 / (1 + np.exp(epsilon)), 1 - y[here], y[here]
    )
    none = loss(PlainLogistic(C=1e4, max_iter=500).fit(x[here], y[here]).predict_proba(x[there])[:, 1])
    response = PlainLogistic(C=1e4, max_iter=500).fit(x[here], flipped).predict_proba(x[there])[:, 1]
    return {
        "label fit": private(sy.labels("y")) - none,
        "randomized response": loss(response) - none,
        "row fit": private(sy.rows()) - none,
    }


def counts(epsilon: float, seed: int) -> dict[str, float]:
    """Generated counts up to 30: nats above the Poisson loss of the fit without privacy, on held-out means."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-1, 1, size=(60_000, 8))
    means = np.exp(1 + 0.3 * x @ draw.normal(size=8))
    y = np.clip(draw.poisson(means), 0, 30).astype(float)
    here, there = _halves(len(y), seed)
    names = [f"x{place}" for place in range(8)]

    def loss(told: Floats) -> float:
        held = np.maximum(told, 1e-3)
        return float(np.mean(held - means[there] * np.log(held)))

    task = sy.FitPoisson([sy.Numeric(name, -1, 1) for name in names], "y", 0, 30, epsilon=str(epsilon))
    table = sy.read({**dict(zip(names, x[here].T, strict=True)), "y": y[here]})
    model = sy.Session(table, _account(sy.labels("y"), epsilon)).release(task).value
    noisy = sy.LabelRandomizer(epsilon=epsilon, lower=0, upper=30).fit().transform(y[here])
    none = loss(PlainPoisson(alpha=0, max_iter=500).fit(x[here], y[here]).predict(x[there]))
    return {
        "label fit": loss(model.predict(dict(zip(names, x[there].T, strict=True)))) - none,
        "noisy labels": loss(np.asarray(sy.PoissonRegression().fit(x[here], noisy).predict(x[there]))) - none,
        "one mean": loss(np.full(len(there), y[here].mean())) - none,
    }


def _halves(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.random.default_rng(1000 + seed).permutation(count)
    return order[: count * 2 // 3], order[count * 2 // 3 :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    x, income, hours = adult(given.data)
    for epsilon in (0.05, 0.1, 0.3, 1.0):
        cases: dict[str, Callable[[int], dict[str, float]]] = {
            "generated, linear": partial(on_generated, epsilon),
            "generated, counts": partial(counts, epsilon),
            "adult hours, linear": partial(linear, x, hours, (0.0, 100.0), epsilon),
            "adult income, logistic": partial(logistic, x, income, epsilon),
        }
        for name, case in cases.items():
            found = [case(seed) for seed in range(given.seeds)]
            shown = {way: np.median([each[way] for each in found]) for way in found[0]}
            print(f"epsilon {epsilon:<5} {name:<24}", "  ".join(f"{way} {value:.4g}" for way, value in shown.items()))


if __name__ == "__main__":
    main()
