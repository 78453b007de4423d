"""Figures 1, 2 and 3 of Amin et al., "Bounding User Contributions" (ICML 2019), with the private cap drawn in.

Figure 1: relative error of a sum against epsilon for several caps. Amin et al. average 1000 runs; the expected error is
exact here. Their MovieLens 20M may not be shipped, so totals of the same size are generated (138,493 users, 20 million
ratings). Figure 2: participation mass of uncapped users. Figure 3: bias bound plus C tau/(n_tau epsilon) at epsilon 1,
and how many users the best cap cuts; the constant C is left open there, so several are shown.

    python bench/papers/bounding_figures.py [--data folder] [--out folder]

With ``--out`` the figures are drawn too.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from papers.shown import AMIN, Check, Shown
from steelyard.bounding._bias import bias_bounds
from steelyard.bounding._cap_choice import NoisyHistogram, choice_share, choose_cap
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._theory import bound_cap, expected_error, optimal_cap
from steelyard.charts import Line, lines

Floats = NDArray[np.float64]
GRID = CapGrid(1, 2**20)
EPSILONS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
ALPHAS = (0.1, 0.5, 1.0)


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


def figure_1(name: str, totals: Floats, draws: int) -> Shown:
    """The error of a sum over epsilon: caps that follow epsilon, and caps that do not."""
    print(f"\nFigure 1, {name}: mean relative error ({totals.size} users, sum {totals.sum():.0f})")
    print("epsilon   Amin's cap   exact optimum  median     95 %       private, all inside epsilon")
    median, high = np.quantile(totals, [0.5, 0.95])
    curves: dict[str, list[float]] = {
        label: [] for label in ("1 - 1/(n epsilon)", "optimum", "median", "95 %", "private")
    }
    for epsilon in EPSILONS:
        caps = (bound_cap(totals, epsilon), optimal_cap(totals, epsilon), float(median), float(high))
        errors = [expected_error(totals, cap, epsilon) for cap in caps] + [private_error(totals, epsilon, draws)]
        print(f"{epsilon:<8g}  " + "  ".join(f"{error / totals.sum():<10.3g}" for error in errors))
        for line, error in zip(curves.values(), errors, strict=True):
            line.append(float(error / totals.sum()))
    title, about = f"Figure 1, {name}", "Mean relative error of the sum; the private cap pays for itself inside epsilon"
    series = [Line(label, EPSILONS, values) for label, values in curves.items()]
    chart = lines(
        series, title=title, subtitle=about, x_title="epsilon", y_title="relative error", log_x=True, log_y=True
    )
    claim = ("a fixed quantile is near the best cap at one epsilon only: elsewhere it either cuts too much, where its error is flat, or "
             "needs too much noise, where its error falls like 1/epsilon; the cap that follows epsilon is hardly ever beaten.")  # fmt: skip
    return Shown(AMIN, title, claim, (chart,), tuple(_quantile_checks(curves)))


def _quantile_checks(curves: dict[str, list[float]]) -> list[Check]:
    follows, checks = np.array(curves["1 - 1/(n epsilon)"]), []
    for name in ("median", "95 %"):
        ratio = np.array(curves[name]) / follows
        at, worst = int(ratio.argmin()), int(ratio.argmax())
        words = f"{name}: {ratio[at]:.2f} times the following cap's error at {EPSILONS[at]:g}, {ratio[worst]:.0f} times at {EPSILONS[worst]:g}"
        checks.append(Check(words, bool(ratio[at] < 1.15 and ratio[worst] > 3)))
        slope = np.diff(np.log(curves[name])) / np.diff(np.log(EPSILONS))
        words = f"{name}: error falls like epsilon^{slope[0]:.2f} at the left end and like epsilon^{slope[-1]:.2f} at the right"
        checks.append(Check(words, bool(slope[-1] > -0.1 and (name == "median" or slope[0] < -0.7))))
    best = np.min([curves["median"], curves["95 %"]], axis=0)
    most = float((follows / best).max())
    checks.append(
        Check(f"the following cap is at most {100 * most - 100:.0f} % above the better fixed one", most < 1.15)
    )
    return checks


def participation(alpha: float, users: int) -> Floats:
    shares = 1 / np.arange(1.0, users + 1) ** (1 + alpha)
    return np.asarray(shares / shares.sum())


def figure_2() -> Shown:
    """How much of all rows comes from users below a cap."""
    print("\nFigure 2: participation mass of users with p_j <= tau0 (p_j ~ 1/j^(1+alpha), a million users)")
    shown = (1e-4, 1e-3, 1e-2, 1e-1)
    print("alpha   " + "  ".join(f"tau0 {cap:<7g}" for cap in shown))
    grid = [float(cap) for cap in np.geomspace(1e-5, 0.5, 60)]
    curves, at = [], []
    for alpha in ALPHAS:
        shares = participation(alpha, 10**6)
        curves.append(Line(f"alpha {alpha:g}", grid, [float(shares[shares <= cap].sum()) for cap in grid]))
        masses = [float(shares[shares <= cap].sum()) for cap in shown]
        at.append(masses[-1])
        print(f"{alpha:<6g}  " + "  ".join(f"{mass:<12.3f}" for mass in masses))
    claim = "the more evenly users take part (small alpha), the more of the mass lies with users whom a given cap leaves alone."
    told = f"mass below tau0 = 0.1 at alpha 0.1, 0.5, 1: {', '.join(f'{mass:.3f}' for mass in at)}"
    about = "Participation mass of users below the cap"
    chart = lines(curves, title="Figure 2", subtitle=about, x_title="tau0", y_title="mass", log_x=True)
    return Shown(AMIN, "Figure 2", claim, (chart,), (Check(told, at[0] > at[1] > at[2]),))


def figure_3(rows: int = 10_000, runs: int = 100) -> Shown:
    """The bound's bias plus noise over caps, and the users that a cap cuts."""
    print(
        f"\nFigure 3: least of bias bound + C tau/(n_tau epsilon), and users capped there (n = {rows}, epsilon 1, {runs} runs)"
    )
    print("bound             C    alpha  least cost  users capped")
    caps = np.unique(np.geomspace(1, rows, 80).round())
    tau, costs, cuts = (caps / rows).tolist(), [], []
    least: dict[int, list[float]] = {1: [], 2: [], 4: []}
    capped: dict[int, list[float]] = {1: [], 2: [], 4: []}
    for alpha in ALPHAS:
        entropy, distance, kept, users = _averaged(alpha, caps, rows, runs)
        costs.append(Line(f"alpha {alpha:g}", tau, (entropy + 4 * caps / kept).tolist()))
        cuts.append(Line(f"alpha {alpha:g}", tau, users.tolist()))
        for constant in least:
            for name, bias in (("total variation", distance), ("Amin's entropy", entropy)):
                cost = bias + constant * caps / kept
                at = int(cost.argmin())
                print(f"{name:<16}  {constant:<3}  {alpha:<5g}  {cost[at]:<10.3f}  {users[at]:.1f}")
            least[constant].append(float(cost[at]))
            capped[constant].append(float(users[at]))
    about = "Amin's bias bound plus noise, C = 4, epsilon 1"
    bound = lines(costs, title="Figure 3a", subtitle=about, x_title="tau0", y_title="bound", log_x=True)
    cut = lines(cuts, title="Figure 3b", subtitle="Users cut by the cap", x_title="tau0", log_x=True, log_y=True)
    claim = (
        "the least cost over caps stays well above zero for every alpha, and the best cap cuts very few users, 2 to 8."
    )
    told = "; ".join(f"C = {c}: {', '.join(f'{users:.1f}' for users in cut)}" for c, cut in capped.items())
    few = any(all(2 <= round(users) <= 8 for users in cut) for cut in capped.values())
    costly = "; ".join(f"C = {c}: {', '.join(f'{cost:.2f}' for cost in cost)}" for c, cost in least.items())
    checks = (
        Check(f"least bias plus noise at alpha 0.1, 0.5, 1: {costly}", min(map(min, least.values())) > 0.1),
        Check(f"users cut there: {told}; 2 to 8 were said, for a C that is not told: one of these gives them", few),
    )
    return Shown(AMIN, "Figure 3", claim, (bound, cut), checks)


def _averaged(alpha: float, caps: Floats, rows: int, runs: int) -> Floats:
    """Entropy bound, total variation, kept rows and cut users for every cap, averaged over samples."""
    source, shares, tables = np.random.default_rng(3), participation(alpha, 10**5), []
    for _ in range(runs):
        counts = source.multinomial(rows, shares)
        counts = counts[counts > 0].astype(float)
        found = [bias_bounds(counts, float(cap)) for cap in caps]
        cut = [(counts > cap).sum() for cap in caps]
        tables.append([[b.entropy, b.total_variation, b.kept, c] for b, c in zip(found, cut, strict=True)])
    return np.asarray(np.array(tables).mean(axis=0).T)


def figures(quick: bool, folder: Path | None = None) -> list[Shown]:
    """Every figure; quickly, with fewer runs."""
    found = [figure_1("generated ratings", ratings(), 5 if quick else 20)]
    file = None if folder is None else folder / "gowalla.parquet"
    if file is not None and file.exists():
        import pyarrow.parquet as parquet

        users = parquet.read_table(file, columns=["user"]).to_pandas()
        found.append(figure_1("Gowalla check-ins", users.groupby("user").size().to_numpy(float), 5 if quick else 20))
    return [*found, figure_2(), figure_3(runs=10 if quick else 100)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    parser.add_argument("--data", type=Path, default=os.environ.get("STEELYARD_DATA"), help="holds gowalla.parquet")
    parser.add_argument("--out", type=Path, help="draw the figures into this folder")
    options = parser.parse_args()
    for shown in figures(options.quick, options.data):
        shown.save(options.out)


if __name__ == "__main__":
    main()
