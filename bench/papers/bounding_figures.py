"""Figures 1, 2 and 3 of "Bounding User Contributions" (ICML 2019) with the private cap drawn in.

Figure 1: relative error of a sum against epsilon for several caps. The papers average 1000 runs; the expected error is
exact here. Their MovieLens 20M may not be shipped, so totals of the same size are generated (138,493 users, 20 million
ratings). Figure 2: participation mass of uncapped users. Figure 3: bias bound plus C tau/(n_tau epsilon) at epsilon 1,
and how many users the best cap cuts; the papers leave the constant C open, so several are shown.

    python bench/papers/bounding_figures.py [--data folder] [--out folder]

With ``--out`` the figures are drawn too.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.bounding._bias import bias_bounds
from steelyard.bounding._cap_choice import NoisyHistogram, choice_share, choose_cap
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._theory import bound_cap, expected_error, optimal_cap
from steelyard.charts import Line, lines

Floats = NDArray[np.float64]
GRID = CapGrid(1, 2**20)
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def ratings() -> Floats:
    """Ratings per user as MovieLens 20M has them in outline: 138,493 users, at least 20 each, 20 million in all."""
    source = np.random.default_rng(20)
    above = np.exp(3.9 + 1.25 * source.normal(size=138_493))
    return np.asarray(20 + np.round(above * (20_000_263 / 138_493 - 20) / above.mean()))


def private_error(totals: Floats, epsilon: float, draws: int) -> float:
    """The mean error of a cap bought inside epsilon."""
    source, share = np.random.default_rng(1), float(choice_share(epsilon))
    first, rest = share * epsilon, (1 - share) * epsilon
    counts = np.bincount(np.searchsorted(GRID.tops, np.minimum(totals, GRID.upper)), minlength=GRID.bins)
    chance, errors = -math.expm1(-first), []
    for _ in range(draws):
        noise = source.geometric(chance, GRID.bins) - source.geometric(chance, GRID.bins)
        cap = choose_cap(NoisyHistogram(GRID, tuple(counts + noise), "laplace", first), rest).cap
        errors.append(expected_error(totals, cap, rest))
    return float(np.mean(errors))


def draw(folder: Path | None, name: str, curves: dict[str, list[float]], x: list[float], **words: Any) -> None:
    """Save curves over a common logarithmic axis, if a folder was given."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        series = [Line(label, x, values) for label, values in curves.items()]
        lines(series, log_x=True, **words).save(folder / f"{name}.svg")


def figure_1(name: str, totals: Floats, draws: int, out: Path | None) -> None:
    print(f"\nFigure 1, {name}: mean relative error ({totals.size} users, sum {totals.sum():.0f})")
    print("epsilon   papers' cap  exact optimum  median     95 %       private, all inside epsilon")
    median, high = np.quantile(totals, [0.5, 0.95])
    curves: dict[str, list[float]] = {label: [] for label in ("papers' cap", "optimum", "median", "95 %", "private")}
    for epsilon in EPSILONS:
        caps = (bound_cap(totals, epsilon), optimal_cap(totals, epsilon), float(median), float(high))
        errors = [expected_error(totals, cap, epsilon) for cap in caps] + [private_error(totals, epsilon, draws)]
        print(f"{epsilon:<8g}  " + "  ".join(f"{error / totals.sum():<10.3g}" for error in errors))
        for line, error in zip(curves.values(), errors, strict=True):
            line.append(float(error / totals.sum()))
    title, about = f"Figure 1, {name}", "Mean relative error of the sum; the private cap pays for itself inside epsilon"
    words = {"title": title, "subtitle": about, "x_title": "epsilon", "y_title": "relative error", "log_y": True}
    draw(out, f"figure_1_{name.split()[0].lower()}", curves, list(EPSILONS), **words)


def participation(alpha: float, users: int) -> Floats:
    shares = 1 / np.arange(1.0, users + 1) ** (1 + alpha)
    return np.asarray(shares / shares.sum())


def figure_2(out: Path | None) -> None:
    print("\nFigure 2: participation mass of users with p_j <= tau0 (p_j ~ 1/j^(1+alpha), a million users)")
    print("alpha   " + "  ".join(f"tau0 {cap:<7g}" for cap in (1e-4, 1e-3, 1e-2, 1e-1)))
    grid = [float(cap) for cap in np.geomspace(1e-5, 0.5, 60)]
    curves = {}
    for alpha in (0.1, 0.5, 1.0):
        shares = participation(alpha, 10**6)
        curves[f"alpha {alpha:g}"] = [float(shares[shares <= cap].sum()) for cap in grid]
        masses = [shares[shares <= cap].sum() for cap in (1e-4, 1e-3, 1e-2, 1e-1)]
        print(f"{alpha:<6g}  " + "  ".join(f"{mass:<12.3f}" for mass in masses))
    words = {"title": "Figure 2", "subtitle": "Participation mass of users below the cap", "x_title": "tau0"}
    draw(out, "figure_2", curves, grid, y_title="mass", **words)


def figure_3(out: Path | None, rows: int = 10_000, runs: int = 20) -> None:
    print(f"\nFigure 3: least of bias bound + C tau/(n_tau epsilon), and users capped there (n = {rows}, epsilon 1)")
    print("bound             C    alpha  least cost  users capped")
    source, caps = np.random.default_rng(3), np.unique(np.geomspace(1, rows, 80).round())
    costs: dict[str, list[float]] = {}
    cuts: dict[str, list[float]] = {}
    for alpha in (0.1, 0.5, 1.0):
        shares, tables = participation(alpha, 10**5), []
        for _ in range(runs):
            counts = source.multinomial(rows, shares)
            counts = counts[counts > 0].astype(float)
            found = [bias_bounds(counts, float(cap)) for cap in caps]
            cut = [(counts > cap).sum() for cap in caps]
            tables.append([[b.entropy, b.total_variation, b.kept, c] for b, c in zip(found, cut, strict=True)])
        entropy, distance, kept, users = np.array(tables).mean(axis=0).T
        costs[f"alpha {alpha:g}"] = (entropy + 2 * caps / kept).tolist()
        cuts[f"alpha {alpha:g}"] = users.tolist()
        for name, bias in (("papers' entropy", entropy), ("total variation", distance)):
            for constant in (1, 2, 4):
                cost = bias + constant * caps / kept
                at = int(cost.argmin())
                print(f"{name:<16}  {constant:<3}  {alpha:<5g}  {cost[at]:<10.3f}  {users[at]:.1f}")
    tau = (caps / rows).tolist()
    bound = {"title": "Figure 3a", "subtitle": "The papers' bias bound plus noise, C = 2, epsilon 1", "x_title": "tau0"}
    draw(out, "figure_3a", costs, tau, y_title="bound", **bound)
    draw(out, "figure_3b", cuts, tau, title="Figure 3b", subtitle="Users cut by the cap", x_title="tau0", log_y=True)


def main() -> None:
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=20, help="histograms drawn for the private cap")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STEELYARD_DATA", beside)))
    parser.add_argument("--out", type=Path, help="draw the figures into this folder")
    options = parser.parse_args()
    figure_1("generated ratings", ratings(), options.draws, options.out)
    file = options.data / "gowalla.parquet"
    if file.exists():
        import pyarrow.parquet as parquet

        users = parquet.read_table(file, columns=["user"]).to_pandas()
        figure_1("Gowalla check-ins", users.groupby("user").size().to_numpy(float), options.draws, options.out)
    else:
        print(f"skipped: no {file} (give --data or set STEELYARD_DATA)")
    figure_2(options.out)
    figure_3(options.out)


if __name__ == "__main__":
    main()
