"""How accuracy-first searches end: met, budget gone, or not shown; and how good the model is that is handed out without a promise.

    python bench/accuracy_first_endings.py                          150 searches for an excess on a pure account, the hardest setting known
    python bench/accuracy_first_endings.py --runs 1000 --all        more settings, more runs
    python bench/accuracy_first_endings.py --part targets --data FOLDER --runs 40 --caps 3 5 --quick --keep runs.jsonl
    python bench/accuracy_first_endings.py --part unseen --runs 40 --quick       generated rows and sets of scikit-learn, looked at by nobody before
    python bench/accuracy_first_endings.py --part missed --data FOLDER --runs 20 --caps 0.3 1 3

*Excess:* it is within reach whatever the rows, so a search that has budget left should end with a model. Told for each setting: how
many runs ended how, with how many watches, the median epsilon, and the largest true excess beside what was asked.
*Targets:* ten real (table, label, target) triples, targets 1.02 to 1.5 times the best loss. Told: how many searches ended how, how many
without a look, how many that met their target were wrong, and how many an oracle could have met at the same cap: one who fits once for the whole cap,
where a row is replaced, and looks at the true loss for nothing. ``oracle`` is the least epsilon at which his median fit of five is good enough.
*Unseen:* the same of tables that no rule of the search was chosen by. With ``--keep`` every run is written down as it ends, and a run that is
written down is not made again: such a bench may be stopped and taken up, and several processes may share it (``--seeds 0 20`` and ``--seeds 20 40``).
*Missed:* the same tables with targets at 0.98 of the best loss, which nothing meets: the median loss of what is handed out at the cap, beside that of
a plain fit of the same epsilon for the same promise (a row replaced), and of one for the weaker promise of plain fits (a row added or removed).
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.accounting import epsilon_of, mu_cap
from steelyard.models import AccuracyFirst, LinearRegression, LogisticRegression
from steelyard.noise import TestNoise

Floats = NDArray[np.float64]
DELTA = 1e-6


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


def rows_of(setting: Setting) -> tuple[Floats, Floats]:
    """Even features, a linear label and some noise."""
    draws = np.random.default_rng(0)
    x = draws.uniform(-1, 1, (setting.rows, setting.width)) / np.sqrt(setting.width)
    return x, np.clip(x @ np.linspace(1, -0.5, setting.width) + 0.1 * draws.standard_normal(setting.rows), -1, 1)


def excess_of(model: Floats, x: Floats, y: Floats, penalty: float) -> float:
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


ADULT: dict[str, Any] = {
    "age": (17, 90),
    "education_num": (1, 16),
    "hours_per_week": (1, 99),
    "sex": "Male",
    "marital_status": "Married-civ-spouse",
    "capital_gain": (0, 20_000),
}
BANK: dict[str, Any] = {
    "age": (18, 95),
    "balance": (-2_000, 10_000),
    "duration": (0, 1_500),
    "campaign": (1, 10),
    "housing": "yes",
    "loan": "yes",
    "marital": "married",
    "previous": (0, 5),
}
KEGG: dict[str, Any] = {f"x{i}": None for i in range(27)}


@dataclass(frozen=True)
class Triple:
    """A real table, its label with bounds (or the class that counts as one), features, and how far above the best loss the target is."""

    table: str
    label: str
    bounds: Any
    features: dict[str, Any]
    times: float

    @property
    def model(self) -> LinearRegression | LogisticRegression:
        """What is fitted."""
        return (
            LogisticRegression(classes=[0, 1])
            if isinstance(self.bounds, str)
            else LinearRegression(y_bounds=self.bounds)
        )

    def rows(self, folder: Path) -> tuple[Floats, NDArray[Any]]:
        """Features brought to [-1, 1] by their bounds (kegg's by quantiles of the data), and the label."""
        import pandas as pd

        frame = pd.read_parquet(folder / f"{self.table}.parquet")
        found = [_feature(frame[name], bounds) for name, bounds in self.features.items()]
        columns = [column for column in found if column is not None]
        x, y = np.column_stack(columns) / math.sqrt(len(columns)), frame[self.label]
        if isinstance(self.bounds, str):
            return x, (y.str.strip() == self.bounds).to_numpy().astype(int)
        return x, np.clip(y.to_numpy(dtype=float), *self.bounds)


def _feature(column: Any, bounds: Any) -> Floats | None:
    if isinstance(bounds, str):
        return np.asarray((column.str.strip() == bounds).to_numpy() * 2.0 - 1)
    low, high = np.quantile(column, [0.01, 0.99]) if bounds is None else bounds
    return (
        None if low == high else np.asarray(np.clip((column.to_numpy(dtype=float) - low) / (high - low) * 2 - 1, -1, 1))
    )


def _of(known: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: known[name] for name in names}


TRIPLES = (
    Triple("adult", "hours_per_week", (0, 100), _of(ADULT, "age", "education_num", "sex"), 1.05),
    Triple("adult", "age", (17, 90), _of(ADULT, "education_num", "hours_per_week", "sex", "marital_status"), 1.02),
    Triple("adult", "education_num", (1, 16), _of(ADULT, "age", "hours_per_week", "sex", "capital_gain"), 1.1),
    Triple("bank", "age", (18, 95), _of(BANK, "balance", "housing", "loan", "marital", "campaign"), 1.2),
    Triple("bank", "balance", (-2_000, 10_000), _of(BANK, "age", "housing", "loan", "marital", "duration"), 1.3),
    Triple("kegg", "y", (-4, 4), KEGG, 1.5),
    Triple("online_retail", "unit_price", (0, 20), {"quantity": (0, 50), "country": "United Kingdom"}, 1.05),
    Triple("adult", "output", ">50K", ADULT, 1.05),
    Triple(
        "adult",
        "marital_status",
        "Married-civ-spouse",
        _of(ADULT, "age", "education_num", "hours_per_week", "sex"),
        1.1,
    ),
    Triple("bank", "y", "yes", BANK, 1.2),
)


def loss_of(model: Any, x: Floats, y: NDArray[Any]) -> float:
    """The mean squared error, or log loss."""
    if not hasattr(model, "predict_proba"):
        return float(np.mean((y - model.predict(x)) ** 2))
    chance = np.clip(model.predict_proba(x)[:, 1], 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(y == 1, np.log(chance), np.log(1 - chance))))


def best_of(triple: Triple, x: Floats, y: NDArray[Any]) -> float:
    """The loss of a model without privacy or penalty."""
    from sklearn import linear_model

    free = (
        linear_model.LogisticRegression(C=1e4, max_iter=1000)
        if isinstance(triple.bounds, str)
        else linear_model.LinearRegression()
    )
    return loss_of(free.fit(x, y), x, y)


def plain(triple: Triple, epsilon: float, seed: int) -> Any:
    """A plain fit at this price."""
    return type(triple.model)(
        **{**triple.model.get_params(), "epsilon": epsilon, "delta": DELTA, "noise": TestNoise(seed)}
    )


def replaced(epsilon: float) -> float:
    """The epsilon of a fit for a row added or removed that means this one where a row is replaced."""
    mu = math.sqrt(float(mu_cap(Fraction(str(epsilon)), Fraction(str(DELTA))).value))
    return epsilon_of(mu / 2, DELTA)


def oracle(triple: Triple, x: Floats, y: NDArray[Any], target: float) -> float:
    """The least epsilon at which the median plain fit of five, where a row is replaced, meets the target."""
    for epsilon in (0.01 * 1.25**k for k in range(40)):
        losses = [loss_of(plain(triple, replaced(round(epsilon, 6)), seed).fit(x, y), x, y) for seed in range(5)]
        if np.median(losses) <= target:
            return epsilon
    return math.inf


def searched(triple: Triple, x: Floats, y: NDArray[Any], target: float, cap: float, seed: int) -> AccuracyFirst:
    """One search."""
    return AccuracyFirst(triple.model, target_loss=target, epsilon=cap, delta=DELTA, noise=TestNoise(seed)).fit(x, y)


@dataclass(frozen=True)
class Unseen(Triple):
    """A table without a file: made up, or one of scikit-learn's with every row repeated, features brought to [-1, 1] by their quantiles."""

    def rows(self, folder: Path) -> tuple[Floats, NDArray[Any]]:
        """Features of length at most one, and the label."""
        x, y = made(self.table) if self.table.startswith("made") else _repeated(self.table, self.label)
        return x, y if isinstance(self.bounds, str) else np.clip(y, *self.bounds)


def made(name: str) -> tuple[Floats, NDArray[Any]]:
    """60,000 generated rows: ``even`` features, a few common ``factors``, ``houses`` with skewed features, or two ``classes``."""
    draws, n = np.random.default_rng(len(name)), 60_000
    if name.endswith("factors"):
        z = draws.standard_normal((n, 6))
        x = np.clip(z @ draws.standard_normal((6, 15)) / 6 + 0.1 * draws.standard_normal((n, 15)), -1, 1)
        return x / math.sqrt(15), z @ draws.standard_normal(6) / 8 + 0.02 * draws.standard_normal(n)
    if name.endswith("houses"):
        x = np.clip(np.exp(0.8 * draws.standard_normal((n, 8))) / 4 - 0.5, -1, 1)
        return x / math.sqrt(8), x @ draws.uniform(0, 0.4, 8) + 0.15 * x[:, 0] * x[:, 1] + 0.1 * draws.standard_normal(
            n
        )
    x = draws.uniform(-1, 1, (n, 8)) / math.sqrt(8)
    score = x @ draws.standard_normal(8)
    if name.endswith("classes"):
        return x, (draws.random(n) < 1 / (1 + np.exp(-3 * score))).astype(int)
    return x, 0.5 * score + 0.2 * draws.standard_normal(n)


def _repeated(name: str, label: str) -> tuple[Floats, NDArray[Any]]:
    """A set of scikit-learn's: its own label, a column as the label ("column 0"), or one class of it ("class 0"); about 50,000 rows."""
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    kind, _, which = label.partition(" ")
    if kind == "column":
        x, y = np.delete(x, int(which), axis=1), x[:, int(which)]
    if kind == "class":
        y = (y == int(which)).astype(int)
    low, high = np.quantile(x, [0.01, 0.99], axis=0)
    x = np.clip((x - low) / np.where(high > low, high - low, 1) * 2 - 1, -1, 1)[:, high > low]
    times = 50_000 // len(x)
    return np.repeat(x, times, axis=0) / math.sqrt(x.shape[1]), np.repeat(y, times)


UNSEEN = (
    Unseen("made even", "y", (-1, 1), {}, 1.02),
    Unseen("made factors", "y", (-1, 1), {}, 1.5),
    Unseen("made houses", "y", (-1, 2), {}, 1.3),
    Unseen("diabetes", "y", (25, 350), {}, 1.1),
    Unseen("diabetes", "column 3", (-0.12, 0.14), {}, 1.2),
    Unseen("wine", "column 12", (250, 1700), {}, 1.2),
    Unseen("breast_cancer", "column 8", (0.1, 0.31), {}, 1.3),
    Unseen("made classes", "y", "1", {}, 1.05),
    Unseen("breast_cancer", "class 0", "0", {}, 1.5),
    Unseen("wine", "class 0", "0", {}, 1.5),
)


@dataclass(frozen=True)
class Run:
    """How one search ended: its triple by place, cap, seed and reason, what it cost, and whether it looked, was wrong, and an oracle met the target."""

    part: str
    place: int
    cap: float
    seed: int
    reason: str
    spent: float
    looked: bool
    wrong: bool
    could: bool

    @property
    def good(self) -> bool:
        """Whether it ended with a promise."""
        return self.reason in ("target_met", "null_model_ok")


class Kept:
    """Runs that are written down as they end, where a file is given."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._runs = {self._name(run): run for run in (Run(**json.loads(line)) for line in lines)}

    @staticmethod
    def _name(run: Run) -> tuple[str, int, float, int]:
        return run.part, run.place, run.cap, run.seed

    def get(self, part: str, place: int, cap: float, seed: int) -> Run | None:
        """A run that was made before."""
        return self._runs.get((part, place, cap, seed))

    def add(self, run: Run) -> Run:
        """Write one down."""
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(run.__dict__) + "\n")
        return run


def triples(chosen: dict[int, Triple], folder: Path) -> Iterator[tuple[int, Triple, Floats, NDArray[Any], float]]:
    """Each with its rows and its best loss."""
    for place, triple in chosen.items():
        x, y = triple.rows(folder)
        yield place, triple, x, y, best_of(triple, x, y)


def run_of(
    part: str, place: int, triple: Triple, rows: tuple[Floats, NDArray[Any]], target: float, cap: float, seed: int
) -> Run:
    """One search, and what an oracle would have met."""
    first = searched(triple, *rows, target, cap, seed)
    good = first.stopped_reason_ in ("target_met", "null_model_ok")
    return Run(
        part,
        place,
        cap,
        seed,
        first.stopped_reason_,
        first.epsilon_filter_,
        good or any(stop.passed is not None for stop in first.path_),
        good and loss_of(first, *rows) > target,
        loss_of(plain(triple, replaced(cap), seed).fit(*rows), *rows) <= target,
    )


def targets(
    part: str, chosen: dict[int, Triple], folder: Path, seeds: range, caps: list[float], quick: bool, kept: Kept
) -> None:
    """How searches for targets end, one line for each triple and cap, and all together."""
    print(
        "table, label | times the best | cap | oracle | ends | unlooked | wrong | an oracle met | epsilon: median, largest"
    )
    whole: dict[float, list[Run]] = {cap: [] for cap in caps}
    for place, triple, x, y, best in triples(chosen, folder):
        target = triple.times * best
        least = math.nan if quick else oracle(triple, x, y, target)
        for cap in caps:
            runs = [
                kept.get(part, place, cap, seed) or kept.add(run_of(part, place, triple, (x, y), target, cap, seed))
                for seed in seeds
            ]
            whole[cap] += runs
            spent = [run.spent for run in runs]
            print(
                f"{triple.table}, {triple.label} | {triple.times} | {cap:g} | {least:.3g} | {dict(Counter(run.reason for run in runs))} | "
                f"{sum(not run.looked for run in runs)} | {sum(run.wrong for run in runs)} | {sum(run.could for run in runs)} | "
                f"{np.median(spent):.3f}, {max(spent):.3f}",
                flush=True,
            )
    for cap, runs in whole.items():
        ends, able = Counter(run.reason for run in runs), [run for run in runs if run.could]
        print(f"cap {cap:g}: {dict(ends)}; of {len(able)} that an oracle met, {sum(run.good for run in able)} were met")


def missed(chosen: dict[int, Triple], folder: Path, runs: int, caps: list[float]) -> None:
    """What is handed out where the cap ends a search, beside plain fits."""
    print("table, label | cap | ends | median loss / best | / plain, a row replaced | / plain, a row added or removed")
    ratios: dict[float, list[float]] = {cap: [] for cap in caps}
    for _, triple, x, y, best in triples(chosen, folder):
        for cap in caps:
            found = [searched(triple, x, y, 0.98 * best, cap, seed) for seed in range(runs)]
            ends = Counter(first.stopped_reason_ for first in found)
            mine = float(np.median([loss_of(first, x, y) for first in found]))
            at = (replaced(cap), cap)
            beside = [np.median([loss_of(plain(triple, e, seed).fit(x, y), x, y) for seed in range(runs)]) for e in at]
            ratios[cap].append(mine / float(beside[0]))
            print(
                f"{triple.table}, {triple.label} | {cap:g} | {dict(ends)} | {mine / best:.4f} | {mine / beside[0]:.4f} | {mine / beside[1]:.4f}",
                flush=True,
            )
    for cap in caps:
        print(
            f"cap {cap:g}: beside a plain fit for the same promise, median {np.median(ratios[cap]):.4f}, largest {max(ratios[cap]):.4f}"
        )


def main() -> None:
    """Every setting asked for, one a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["excess", "targets", "unseen", "missed"], default="excess")
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--caps", type=float, nargs="+", default=[3.0])
    parser.add_argument(
        "--only", type=int, nargs="+", default=list(range(len(TRIPLES))), help="of the triples, by place"
    )
    parser.add_argument("--data", default=os.environ.get("STEELYARD_DATA", "../shared/data"))
    parser.add_argument("--seeds", type=int, nargs=2, help="from and up to; every seed below --runs where left out")
    parser.add_argument("--keep", type=Path, help="a file of runs, read and added to")
    parser.add_argument("--quick", action="store_true", help="without the oracle's own price")
    parser.add_argument("--all", action="store_true", help="the other settings too")
    args = parser.parse_args()
    folder = Path(args.data)
    if args.part == "excess":
        for setting in (HARDEST, *(OTHERS if args.all else ())):
            print(told(setting, args.runs), flush=True)
    elif args.part != "unseen" and not folder.is_dir():
        print(f"skipped: there is no folder {folder}; give --data.")
    else:
        known = UNSEEN if args.part == "unseen" else TRIPLES
        chosen: dict[int, Triple] = {place: known[place] for place in args.only}
        seeds = range(*(args.seeds or (0, args.runs)))
        if args.part == "missed":
            missed(chosen, folder, args.runs, args.caps)
        else:
            targets(args.part, chosen, folder, seeds, args.caps, args.quick, Kept(args.keep))


if __name__ == "__main__":
    main()
