"""How wrong a private linear model can be: R² on fresh rows over many seeds, beside diffprivlib's LinearRegression.

The statistics of a generated table are added up once; noise and solution are redone for every seed by the objects that
``FitLinear`` uses. For each table and epsilon: the worst seed, the 5 % quantile, the median, and the share of seeds below 0
(worse than predicting the mean). diffprivlib 0.6.6 is pure, so the pure lines are like for like; it runs in its own Python
(``--peer-python``, with scikit-learn 1.7.2) with the same public bounds, its predictions kept within them too. "floor
alone" is the rule without shrinking.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.accounting._gaussian import mu_request
from steelyard.bounding._amounts import Spend
from steelyard.models._columns import SIZE, Features, Floats, Numeric
from steelyard.models._rows import Products, Target
from steelyard.models._statistics import NoisyStatistics, StatisticsRelease
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO

DELTA = Fraction(1, 10**6)
FRESH = 5_000
PEER = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LinearRegression
job = json.load(sys.stdin)
with np.load(job["file"]) as data:
    x, y, fresh, truth = data["x"], data["y"], data["fresh"], data["truth"]
found, bounds = [], tuple(job["bounds"])
for seed in range(job["seeds"]):
    model = LinearRegression(epsilon=job["epsilon"], bounds_X=(np.array(job["low"]), np.array(job["high"])),
                             bounds_y=bounds, random_state=seed).fit(x, y)
    told = np.clip(model.predict(fresh), *bounds)
    found.append(float(1 - np.mean((truth - told) ** 2) / np.var(truth)))
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Case:
    """A generated table: rows to fit and fresh ones, with public bounds of every column and of the label."""

    name: str
    x: Floats
    y: Floats
    ranges: list[tuple[float, float]]
    bounds: tuple[float, float]

    @property
    def features(self) -> Features:
        """The columns between their bounds."""
        return Features([Numeric(f"x{i}", *pair) for i, pair in enumerate(self.ranges)])

    def batch(self, rows: slice) -> Any:
        """Some rows as Arrow, the label last."""
        arrays = [pa.array(np.ascontiguousarray(column[rows])) for column in (*self.x.T, self.y)]
        return pa.RecordBatch.from_arrays(arrays, [*self.features.source, "y"])

    @property
    def cut(self) -> int:
        """Where the fresh rows begin."""
        return len(self.y) - FRESH


def plant(name: str, bounds: tuple[float, float]) -> Case:
    """Like the power plant: 9,568 rows, temperature, vacuum, pressure and humidity, correlated; output explained to .93."""
    random = np.random.default_rng(1)
    n = 9_568 + FRESH
    t = random.normal(size=n)
    x = np.column_stack([
        19.65 + 7.45 * t,
        54.3 + 12.7 * (0.844 * t + 0.536 * random.normal(size=n)),
        1013.3 + 5.94 * (-0.507 * t + 0.862 * random.normal(size=n)),
        73.3 + 14.6 * (-0.543 * t + 0.84 * random.normal(size=n)),
    ])  # fmt: skip
    ranges = [(0.0, 40.0), (20.0, 90.0), (990.0, 1040.0), (20.0, 105.0)]
    x = np.clip(x, *np.array(ranges).T)
    y = 454.6 + (x - [19.65, 54.3, 1013.3, 73.3]) @ [-1.98, -0.234, 0.062, -0.158] + 4.5 * random.normal(size=n)
    return Case(name, x, y, ranges, bounds)


def uniform(name: str, rows: int, columns: int, noise: float, bounds: tuple[float, float]) -> Case:
    """Independent columns in [-1, 1], a label of deviation about one."""
    random = np.random.default_rng(2)
    x = random.uniform(-1, 1, (rows + FRESH, columns))
    weights = random.normal(size=columns)
    y = x @ weights * (3**0.5 / float(np.linalg.norm(weights))) + noise * random.normal(size=len(x))
    return Case(name, x, y, [(-1.0, 1.0)] * columns, bounds)


CASES: dict[str, Callable[[str], Case]] = {
    "plant, bounds 420..500": lambda name: plant(name, (420, 500)),
    "plant, bounds 0..500": lambda name: plant(name, (0, 500)),
    "100,000 x 50": lambda name: uniform(name, 100_000, 50, 0.1, (-4, 4)),
    "20,000 x 10": lambda name: uniform(name, 20_000, 10, 0.5, (-4, 4)),
    "2,000 x 10": lambda name: uniform(name, 2_000, 10, 0.5, (-4, 4)),
}


def floor_alone(noisy: NoisyStatistics) -> Floats:
    """Eigenvalues lifted to the floor and nothing else."""
    values, axes = np.linalg.eigh(noisy.matrix)
    return np.asarray(axes @ ((axes.T @ noisy.vector) / np.maximum(values, noisy.floor)))


def quality(case: Case, thetas: Sequence[Floats]) -> Floats:
    """R² of each model on the fresh rows, predictions kept within the label's bounds."""
    batch = case.batch(slice(case.cut, None))
    z, target = case.features.scaled(batch).T / SIZE, Target("y", *case.bounds)
    truth = (case.y[case.cut :] - target.middle) / target.half
    told = np.clip(z @ np.array(thetas).T, -1, 1)
    return np.asarray(1 - np.mean((truth[:, None] - told) ** 2, axis=0) / np.var(truth))


def ours(case: Case, epsilon: str, seeds: range) -> dict[str, Floats]:
    """R² over the seeds, by rule."""
    step = Products(case.features, Target("y", *case.bounds))
    gram, moment = step(case.batch(slice(0, case.cut)))
    found: dict[str, Floats] = {}
    for name, gaussian in (("delta 1e-6", True), ("pure", False)):
        micro = mu_request(Fraction(epsilon), DELTA) if gaussian else int(Fraction(epsilon) * MICRO)
        statistics = StatisticsRelease(case.features.width, Spend(gaussian, micro))
        noisy = [statistics.release(gram, moment, TestNoise(seed)) for seed in seeds]
        found[f"steelyard, {name}"] = quality(case, [each.solve()[0] for each in noisy])
        if gaussian:
            found["floor alone, delta 1e-6"] = quality(case, [floor_alone(each) for each in noisy])
    return found


def peer(case: Case, epsilon: str, seeds: int, python: str) -> Floats:
    """The same for diffprivlib."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case.npz"
        cut = case.cut
        np.savez(file, x=case.x[:cut], y=case.y[:cut], fresh=case.x[cut:], truth=case.y[cut:])
        low, high = (list(side) for side in zip(*case.ranges, strict=True))
        job = {"file": str(file), "seeds": seeds, "epsilon": float(epsilon), "low": low, "high": high}
        text = json.dumps({**job, "bounds": case.bounds})
        done = subprocess.run([python, "-c", PEER], input=text, capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Generate, fit, print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--epsilon", nargs="+", default=["0.05", "0.1", "0.3", "1", "3"])
    parser.add_argument("--only", default="", help="run only tables whose name contains this")
    parser.add_argument("--peer-python", help="a Python that has diffprivlib")
    parser.add_argument("--peer-seeds", type=int, default=20)
    args = parser.parse_args()
    print(f"{'':24}{'epsilon':>8}  {'':26}{'seeds':>6}{'worst':>10}{'5 %':>10}{'median':>10}{'below 0':>9}")
    for name, make in CASES.items():
        if args.only not in name:
            continue
        case = make(name)
        for epsilon in args.epsilon:
            found = ours(case, epsilon, range(args.first_seed, args.first_seed + args.seeds))
            if args.peer_python:
                found["diffprivlib, pure"] = peer(case, epsilon, args.peer_seeds, args.peer_python)
            for who, values in found.items():
                figures = "".join(f"{v:10.3g}" for v in (values.min(), np.quantile(values, 0.05), np.median(values)))
                print(f"{name:24}{epsilon:>8}  {who:26}{len(values):6}{figures}{np.mean(values < 0):9.1%}", flush=True)


if __name__ == "__main__":
    main()
