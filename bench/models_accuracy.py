"""Accuracy of private logistic and linear models beside diffprivlib, on real and generated data, with paired splits.

One table: test log-loss (mean over splits, its standard error, the worst split) and accuracy. diffprivlib runs in its
own Python (``--peer-python``, with diffprivlib 0.6.6 and scikit-learn 1.7.2), all fits in one process, on the
same row-normalized features at its default C; it is pure, so the pure column is the like-for-like one. "Redberg" is
objective perturbation with the noise that Redberg, Koskela and Wang's 2023 bound needs at the same ridge: accounting only,
not shipped. "no privacy" has a ridge of one. Adult and Bank are read from ``--data`` as parquet files.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from steelyard.accounting._gaussian import mu_request
from steelyard.bounding._amounts import Spend
from steelyard.models._columns import SIZE
from steelyard.models._losses import Memory
from steelyard.models._newton import Problem
from steelyard.models._objective import gaussian_objective, pure_objective
from steelyard.models._statistics import StatisticsRelease
from steelyard.noise import ExactNoise
from steelyard.privacy import MICRO, Neighbours

Floats = NDArray[np.float64]
Orders = NDArray[np.int64]
Found = dict[tuple[float, str], tuple[float, float]]
DATA = ["adult", "bank", "generated", "linear"]
EPSILONS = [0.05, 0.1, 0.3, 1.0, 3.0]
DELTA = Fraction(1, 10**6)
NUMERIC = {
    "adult": {"age": (17, 90), "education_num": (1, 16), "capital_gain": (0, 20_000), "capital_loss": (0, 3000),
              "hours_per_week": (1, 99)},
    "bank": {"age": (18, 95), "balance": (-2000, 20_000), "day": (1, 31), "duration": (0, 2000), "campaign": (1, 20),
             "pdays": (-1, 400), "previous": (0, 20)},
}  # fmt: skip
LEFT_OUT = {"adult": {"fnlwgt", "education", "native_country", "output", "split"}, "bank": {"y"}}
PEER = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LogisticRegression
job = json.load(sys.stdin)
with np.load(job["file"]) as data:
    x, y, orders = data["x"], data["y"], data["orders"]
def fit(kept, epsilon):
    model = LogisticRegression(epsilon=epsilon, data_norm=1.0, fit_intercept=False, max_iter=1000)
    return model.fit(x[kept], y[kept]).coef_[0].tolist()
print(json.dumps([[fit(order[len(x) // 5:], epsilon) for epsilon in job["epsilons"]] for order in orders]))
"""


def real(name: str, folder: Path) -> tuple[Floats, Floats]:
    """Features with public bounds and one-hot values (taken as public here, for all methods alike), rows of length one with a constant; labels plus or minus one."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / f"{name}.parquet")
    columns = []
    for column in table.column_names:
        values = table[column].to_numpy()
        if column in NUMERIC[name]:
            low, high = NUMERIC[name][column]
            columns.append(np.clip((values.astype(float) - low) / (high - low) * 2 - 1, -1, 1))
        elif column not in LEFT_OUT[name]:
            columns += [(values == value).astype(float) for value in sorted(set(values.tolist()))]
    label = table["output" if name == "adult" else "y"].to_numpy().astype(str)
    return _unit(np.column_stack(columns)), np.where(np.isin(label, ["yes", ">50K", "1", "True", ">50K."]), 1.0, -1.0)


def generated(n: int, width: int, seed: int) -> tuple[Floats, Floats]:
    """A logistic model's own data."""
    draw = np.random.default_rng(seed)
    x = _unit(draw.normal(size=(n, width)))
    return x, np.where(draw.random(n) < 1 / (1 + np.exp(-8 * x @ draw.normal(size=x.shape[1]))), 1.0, -1.0)


def _unit(x: Floats) -> Floats:
    x = np.column_stack([x, np.ones(len(x))])
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def steps(x: Floats, y: Floats) -> Memory:
    """Signed rows on the grid."""
    return Memory(np.trunc(x * (SIZE - 1 - x.shape[1])) * y[:, None])


def redberg(epsilon: float, ridge: float) -> float:
    """The sigma that the 2023 bound needs at this epsilon and ridge: bisection on its delta."""

    def bound(sigma: float) -> float:
        s = 1 / sigma
        h = epsilon + math.log1p(-0.25 / ridge) - s * s / 2
        if h < 0:
            return 1.0
        return 2 * float(ndtr(-h / s) - math.exp(h + s * s / 2 + float(log_ndtr(-h / s - s))))

    low, high = 0.01, 1e5
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if bound(middle) <= float(DELTA) else (middle, high)
    return high


def fits(rows: Memory, width: int, epsilon: float, seed: int) -> dict[str, Floats]:
    """The coefficients of our methods, and of the same mechanism under the bound of 2023."""
    noise = ExactNoise()
    fit = gaussian_objective(width, mu_request(Fraction(str(epsilon)), DELTA))
    pure = pure_objective(width, round(epsilon * MICRO))
    found = {"steelyard": fit.solve(rows, noise), "steelyard pure": pure.solve(rows, noise)}
    if (ridge := float(fit.ridge)) > 0.25:
        draw = np.random.default_rng(seed).standard_normal(width)
        linear = [Fraction(float(b)) for b in redberg(epsilon, ridge) * draw]
        found["Redberg bound"] = Problem(rows, fit.ridge, linear, Fraction(1, 2**16)).solve()
    return found


def _peer(python: str, x: Floats, y: Floats, orders: Orders, epsilons: list[float]) -> list[list[list[float]]]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/rows.npz"
        np.savez(file, x=x, y=y, orders=orders)
        job = json.dumps({"file": file, "epsilons": epsilons})
        done = subprocess.run([python, "-c", PEER], input=job, capture_output=True, text=True, check=True)
    found: list[list[list[float]]] = json.loads(done.stdout)
    return found


def split(x: Floats, y: Floats, order: Orders, epsilons: list[float], theirs: list[list[float]]) -> Found:
    """One split of 80/20: for each epsilon and method, log-loss and accuracy on the rows held out."""
    held, kept = order[: len(x) // 5], order[len(x) // 5 :]
    rows, width = steps(x[kept], y[kept]), x.shape[1]
    public = Problem(rows, Fraction(1), [Fraction(0)] * width, Fraction(1, 2**10)).solve()
    found: Found = {}
    for place, epsilon in enumerate(epsilons):
        each = {**fits(rows, width, epsilon, int(order[0])), "no privacy": public}
        if theirs:
            each["diffprivlib"] = np.array(theirs[place])
        for method, theta in each.items():
            margin = (x[held] @ theta) * y[held]
            found[epsilon, method] = float(np.logaddexp(0, -margin).mean()), float((margin > 0).mean())
    return found


def measure(name: str, x: Floats, y: Floats, splits: int, peer: str | None, epsilons: list[float]) -> list[list[Any]]:
    """Rows of the table: data, epsilon, method, log-loss (mean, its standard error, worst), accuracy."""
    orders = np.array([np.random.default_rng(seed).permutation(len(x)) for seed in range(splits)])
    theirs = _peer(peer, x, y, orders, epsilons) if peer else [[] for _ in orders]
    each = [split(x, y, order, epsilons, their) for order, their in zip(orders, theirs, strict=True)]
    table = []
    for epsilon, method in each[0]:
        loss, hit = np.array([found[epsilon, method] for found in each]).T
        error = float(loss.std(ddof=1)) / math.sqrt(splits) if splits > 1 else math.nan
        table.append([name, epsilon, method, loss.mean(), error, loss.max(), hit.mean()])
    return table


def linear(epsilons: list[float], draws: int) -> list[list[Any]]:
    """R squared of least squares on generated rows (100,000 x 20): mean and worst of many draws."""
    draw = np.random.default_rng(0)
    x = _unit(draw.normal(size=(100_000, 20)))
    y = np.clip(x @ draw.normal(size=21) / 4 + draw.normal(size=len(x)) * 0.02, -1, 1)
    grid, label = np.trunc(x * (SIZE - 30)), np.rint(y * SIZE)
    gram, moment = (grid.T @ grid).astype(np.int64), (grid.T @ label).astype(np.int64)
    table = []
    for epsilon in epsilons:
        release = StatisticsRelease(21, Spend(True, mu_request(Fraction(str(epsilon)), DELTA)), Neighbours.ADD_REMOVE)
        fitted = []
        for _ in range(draws):
            theta, _ = release.release(gram.astype(object), moment.astype(object), ExactNoise()).solve()
            fitted.append(1 - float(np.mean((y - x @ theta) ** 2)) / float(np.var(y)))
        table.append(
            ["linear 100k x 20", epsilon, "steelyard R^2", float(np.mean(fitted)), math.nan, min(fitted), math.nan]
        )
    return table


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", default=os.environ.get("STEELYARD_DATA"), help="folder of adult.parquet and bank.parquet"
    )
    parser.add_argument("--peer-python", default=None, help="a Python with diffprivlib 0.6.6")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--only", nargs="*", default=DATA, choices=DATA)
    args = parser.parse_args()
    print(f"{'data':>18} {'epsilon':>8} {'method':>16} {'log-loss':>9} {'error':>8} {'worst':>9} {'accuracy':>9}")
    for name in args.only:
        if name in NUMERIC and (args.data is None or not (Path(args.data) / f"{name}.parquet").exists()):
            print(f"{name}: not found; say where with --data")
            continue
        show(linear(args.epsilons, 3 * args.splits) if name == "linear" else logistic(name, args))


def logistic(name: str, args: argparse.Namespace) -> list[list[Any]]:
    """The rows of one set of data."""
    x, y = real(name, Path(args.data)) if name in NUMERIC else generated(50_000, 20, 1)
    return measure(name, x, y, args.splits, args.peer_python, args.epsilons)


def show(table: list[list[Any]]) -> None:
    """Print rows as soon as they are known."""
    for name, epsilon, method, loss, error, worst, hit in table:
        print(f"{name:>18} {epsilon:>8g} {method:>16} {loss:>9.4f} {error:>8.4f} {worst:>9.4f} {hit:>9.4f}", flush=True)


if __name__ == "__main__":
    main()
