"""Logistic models per user: the automatic rule against the best cap and the best clipped descent, both found afterwards.

Generated users take part with probability proportional to 1/j^(1 + alpha); with heterogeneity h the heavier ones have
coefficients of their own, or (--heavy together) move away from the light ones all in one direction. The two rivals see the test set: of 15 caps and ridges (objective perturbation with the least
noise any proof allows) and of 6 clips (true row count given) the best by one run is taken, then run afresh. The automatic
rule never sees anything but its releases; once with the row count declared, once without. Settings were fixed on seeds 11
to 13; the seeds here were run once. Mean test log-loss; the null model has 0.6931.

    python bench/models_users.py            a few sets, about a minute
    python bench/models_users.py --full     27 generated sets and Online Retail (--data), about ten
    python bench/models_users.py --linear   squared error over variance of linear models: statistics against descents
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard.accounting._gaussian import mu_request
from steelyard.models._columns import SIZE
from steelyard.models._losses import LOGISTIC, SQUARED
from steelyard.models._rows import Rows
from steelyard.models._user_descent import Descent, UserDescent
from steelyard.models._user_rows import UserRows
from steelyard.models._user_sums import UserSum
from steelyard.noise import TestNoise
from user_statistics import UserStatistics

Floats = NDArray[np.float64]
Arm = Callable[[int], float]
CAPS, RIDGES = (1, 4, 16, 64, 256), (0.3, 1.0, 3.0)
CLIPS = (1.0, 4.0, 16.0, 64.0)
ROOT_CLIPS = (0.5, 1.0)
DELTA = Fraction(1, 10**6)
NULL = math.log(2)


@dataclass(frozen=True)
class Data:
    """Training rows with their users, and test rows."""

    name: str
    x: Floats
    y: Floats
    users: NDArray[np.int64]
    test_x: Floats
    test_y: Floats

    @property
    def rows(self) -> Rows:
        """The training rows on the grid."""
        return Rows(np.trunc(self.x * SIZE), self.y, self.users)

    def loss(self, theta: Floats) -> float:
        """Mean log-loss on the test rows."""
        return float(np.logaddexp(0, -self.test_y * (self.test_x @ theta)).mean())


def generated(alpha: float, h: int, seed: int, together: bool = False, size: tuple[int, int] = (100_000, 10)) -> Data:
    """Users p_j ~ 1/j^(1+alpha); user j's coefficients differ by h times the squared share of its log weight."""
    rows, width, test = *size, 30_000
    source, apart = np.random.default_rng([seed, int(alpha * 10)]), np.random.default_rng([seed, int(alpha * 10), h, 7])
    shares = 1 / np.arange(1.0, 200_001) ** (1 + alpha)
    shared = source.normal(size=width)
    shared *= 6.5 / np.linalg.norm(shared)
    _, users = np.unique(source.choice(200_000, size=rows + test, p=shares / shares.sum()), return_inverse=True)
    counts = np.bincount(users)
    weight = (np.log1p(counts) / np.log1p(counts.max())) ** 2
    away = apart.normal(size=(1 if together else counts.size, width))
    theta = shared + 2 * h * weight[:, None] * away
    x = source.normal(size=(rows + test, width))
    x[:, -1] = 1.0
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    chance = 1 / (1 + np.exp(-np.einsum("ij,ij->i", x, theta[users])))
    y = np.where(source.random(rows + test) < chance, 1.0, -1.0)
    return Data(f"alpha {alpha} h {h} seed {seed}", x[:rows], y[:rows], users[:rows], x[rows:], y[rows:])


def retail(folder: Path, what: str, seed: int) -> Data | None:
    """Purchases of Online Retail by customer: is the quantity at least 12 (or the price above 2.5)?"""
    file = folder / "online_retail.parquet"
    if not file.exists():
        return None
    import pyarrow.parquet as parquet

    table = parquet.read_table(file).to_pandas()
    table = table[(table["quantity"] > 0) & (table["unit_price"] > 0) & table["customer"].notna()]
    other = np.log2(table["unit_price" if what == "quantity" else "quantity"].to_numpy(float))
    y = np.where(table["quantity"] >= 12 if what == "quantity" else table["unit_price"] > 2.5, 1.0, -1.0)
    bins = np.clip(np.floor(other) + 2, 0, 7).astype(int)
    lands = ("United Kingdom", "Germany", "France", "EIRE", "Spain", "Netherlands")
    land = np.stack([table["country"].to_numpy() == name for name in lands], axis=1)
    x = np.column_stack([np.eye(8)[bins], land, np.ones(len(y))]) / math.sqrt(3)
    _, users = np.unique(table["customer"].to_numpy(), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: int(0.7 * len(y))], order[int(0.7 * len(y)) :]
    return Data(f"retail {what}", x[train], y[train], users[train], x[test], y[test])


def minimised(x: Floats, y: Floats, ridge: float, tilt: Floats) -> Floats:
    """Newton's method on the summed log-loss plus ridge/2 |t|^2 plus tilt t, with halving."""

    def value(t: Floats) -> float:
        return float(np.logaddexp(0, -y * (x @ t)).sum() + ridge / 2 * (t @ t) + tilt @ t)

    theta = np.zeros(x.shape[1])
    now = value(theta)
    for _ in range(30):
        p = 1 / (1 + np.exp(np.clip(y * (x @ theta), -40, 40)))
        slope = -(x * (y * p)[:, None]).sum(axis=0) + ridge * theta + tilt
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + ridge * np.eye(theta.size), slope)
        size = 1.0
        while value(theta - size * step) > now and size > 1e-6:
            size /= 2
        theta, before = theta - size * step, now
        now = value(theta)
        if before - now < 1e-6:
            break
    return theta


class Rivals:
    """Caps and clips for one data set and one mu."""

    def __init__(self, data: Data, mu: float) -> None:
        self.data, self.mu, self.signed = data, mu, UserRows.of(data.rows, LOGISTIC)
        shuffled = np.random.default_rng(1).permutation(data.y.size)
        order = shuffled[np.argsort(data.users[shuffled], kind="stable")]
        ordered = data.users[order]
        rank = np.arange(ordered.size) - np.searchsorted(ordered, ordered)
        self.kept = {cap: order[rank < cap] for cap in CAPS}

    def cap(self, cap: int, ridge: float, seed: int) -> float:
        """The loss of objective perturbation on capped rows."""
        data, keep = self.data, self.kept[cap]
        tilt: Floats = np.asarray(np.random.default_rng([seed, cap]).normal(0.0, cap / self.mu, (data.x.shape[1],)))
        return data.loss(minimised(data.x[keep], data.y[keep], ridge * cap / self.mu, tilt))

    def clip(self, clip: float, rooted: bool, seed: int) -> float:
        """The loss of one descent over clipped user gradients with the whole budget and the true row count."""
        sums = UserSum(int((self.mu * 1e6) ** 2 / 40))
        sizes = np.unique(self.data.users, return_counts=True)[1]
        descent = Descent(sums, clip, float((np.sqrt(sizes) if rooted else sizes).sum()), 20, rooted)
        return self.data.loss(descent.run(self.signed, np.zeros(self.data.x.shape[1]), TestNoise(seed)))

    def best(self, draws: int) -> tuple[float, float]:
        """The best cap and the best clip by one run on the test set, then the mean of fresh runs of each."""
        caps: list[Arm] = [partial(self.cap, cap, ridge) for cap in CAPS for ridge in RIDGES]
        clips: list[Arm] = [partial(self.clip, clip, False) for clip in CLIPS]
        clips += [partial(self.clip, clip, True) for clip in ROOT_CLIPS]
        return _afresh(caps, draws), _afresh(clips, draws)


def _afresh(arms: list[Arm], draws: int) -> float:
    chosen = min(arms, key=lambda arm: arm(1))
    return float(np.mean([chosen(100 + draw) for draw in range(draws)]))


def row(data: Data, epsilon: str, draws: int) -> list[float]:
    """Non-private, best cap, best clip, automatic with and without a declared row count."""
    micro = mu_request(Fraction(epsilon), DELTA)
    exact = data.loss(minimised(data.x, data.y, 0.01, np.zeros(data.x.shape[1])))
    cap, clip = Rivals(data, micro / 1e6).best(draws)
    methods = UserDescent(micro, data.y.size), UserDescent(micro)
    rows = data.rows
    autos = [
        float(np.mean([data.loss(m.fit(rows, TestNoise(draw)).coefficients) for draw in range(draws)])) for m in methods
    ]
    return [exact, cap, clip, *autos]


def linear(seeds: list[int]) -> None:
    """Both ways to fit a linear model per user; labels are the generated coefficients' answers, noised and clipped."""
    print("h  epsilon  least squares  statistics  descents, declared  descents, private")
    for h, epsilon in ((h, epsilon) for h in (0, 1, 3) for epsilon in ("1", "0.3")):
        micro, found = mu_request(Fraction(epsilon), DELTA), []
        for alpha, seed in ((alpha, seed) for alpha in (0.2, 0.5, 1.0) for seed in seeds):
            data, rows = linear_data(alpha, h, seed)
            methods = UserStatistics(micro), UserDescent(micro, data.y.size, SQUARED), UserDescent(micro, None, SQUARED)
            thetas = [np.linalg.lstsq(data.x, data.y, rcond=None)[0]]
            thetas += [method.fit(rows, TestNoise(seed)).coefficients for method in methods]
            error = [((data.test_y - data.test_x @ theta) ** 2).mean() / data.test_y.var() for theta in thetas]
            found.append(error)
        print(f"{h}  {epsilon:<7}  " + "  ".join(f"{value:<12.4f}" for value in np.mean(found, axis=0)), flush=True)


def linear_data(alpha: float, h: int, seed: int, rows: int = 50_000, width: int = 10) -> tuple[Data, Rows]:
    """As ``generated``, with labels in [-1, 1] and noise of deviation 0.15."""
    source, test = np.random.default_rng([seed, int(alpha * 10), h, 99]), 20_000
    shares = 1 / np.arange(1.0, 200_001) ** (1 + alpha)
    _, users = np.unique(source.choice(200_000, size=rows + test, p=shares / shares.sum()), return_inverse=True)
    counts = np.bincount(users)
    shared = source.normal(size=width)
    weight = (np.log1p(counts) / np.log1p(counts.max()))[:, None] ** 2
    theta = shared / np.linalg.norm(shared) + h * weight * source.normal(size=(counts.size, width)) / math.sqrt(width)
    x = source.normal(size=(rows + test, width))
    x[:, -1] = 1.0
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    y = np.clip(np.einsum("ij,ij->i", x, theta[users]) + 0.15 * source.normal(size=rows + test), -1, 1)
    data = Data("linear", x[:rows], y[:rows], users[:rows], x[rows:], y[rows:])
    return data, Rows(data.rows.x, np.rint(SIZE * data.y), data.users)


def sets(full: bool, folder: Path, seeds: list[int], together: bool) -> Iterator[tuple[str, Data]]:
    """The data sets, with the group each is counted in."""
    for alpha in (0.2, 0.5, 1.0) if full else (0.5,):
        for h in (0, 1, 3):
            for seed in seeds if full else seeds[:1]:
                yield ("alike" if h == 0 else "differ"), generated(alpha, h, seed, together)
    for what in ("quantity", "price") if full else ("quantity",):
        real = retail(folder, what, seeds[0])
        if real is None:
            print(f"skipped: no online_retail.parquet in {folder} (give --data or set STEELYARD_DATA)")
            return
        yield "real", real


def summary(epsilon: str, found: list[tuple[str, list[float]]]) -> None:
    """Means by group, the distance to the better rival, and how much of the best cap's excess is saved."""
    for group in ("alike", "differ", "real", "all"):
        mine = np.array([values for name, values in found if group in (name, "all")])
        if not mine.size:
            continue
        exact, cap, clip, public, private = mine.mean(axis=0)
        gaps = mine[:, 3:] - np.minimum(mine[:, 1], mine[:, 2])[:, None]
        error = gaps[:, 0].std() / math.sqrt(max(len(gaps) - 1, 1))
        saved = [1 - (auto - exact) / (cap - exact) for auto in (public, private)]
        worse = (mine[:, 3:] > NULL).sum(axis=0)
        print(f"epsilon {epsilon} {group:<6} {len(mine):>2} sets: exact {exact:.4f}, cap {cap:.4f}, clip {clip:.4f}, "
              f"auto declared {public:.4f}, private {private:.4f}; to the better rival {gaps[:, 0].mean():+.4f} ± {error:.4f}, "
              f"{gaps[:, 1].mean():+.4f}; excess saved {saved[0]:.0%}, {saved[1]:.0%}; worse than null {worse[0]}, {worse[1]}"
              )  # fmt: skip


def main() -> None:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="all 27 generated sets and both real ones")
    parser.add_argument("--draws", type=int, default=2, help="noise draws per quoted number")
    parser.add_argument("--seeds", type=int, nargs="+", default=[41, 42, 43])
    parser.add_argument("--heavy", choices=("apart", "together"), default="apart", help="how heavy users differ")
    parser.add_argument("--linear", action="store_true", help="linear models instead")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STEELYARD_DATA", beside)))
    options = parser.parse_args()
    if options.linear:
        linear(options.seeds)
        return
    print("set                      epsilon  non-private  best cap  best clip  auto, declared  auto, private")
    found: dict[str, list[tuple[str, list[float]]]] = {"1": [], "0.3": []}
    for group, data in sets(options.full, options.data, options.seeds, options.heavy == "together"):
        for epsilon, kept in found.items():
            values = row(data, epsilon, options.draws)
            kept.append((group, values))
            print(f"{data.name:<24} {epsilon:<7} " + "  ".join(f"{value:<10.4f}" for value in values), flush=True)
    for epsilon, kept in found.items():
        summary(epsilon, kept)


if __name__ == "__main__":
    main()
