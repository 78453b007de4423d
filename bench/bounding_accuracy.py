"""How close private caps come to the best cap one could choose by looking, with everything inside the budget.

For every set of totals and every epsilon: the mean error of a method (cap chosen privately, sum released with what is
left) over the smallest exact expected error of any cap at the full epsilon, which pays nothing for choosing. The noise
of the sum is integrated exactly, so only the choice is drawn. Cases where even that optimum misses half are left out.
Constants were tuned on the "tuned" families alone; "unseen" shapes and real sets are held out.

    python bench/bounding_accuracy.py --draws 30 [--data folder] [--json out.json] [--keys]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.bounding._cap_choice import NoisyHistogram, choice_share, choose_cap
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._cut import Added, correction
from steelyard.bounding._laws import mean_error
from steelyard.bounding._serving import Serving
from steelyard.bounding._theory import capping_bias, expected_error, optimal_cap

Floats = NDArray[np.float64]
Totals = dict[str, Floats]
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
UPPER = 2**20
GRID = CapGrid(1, UPPER)
CAPS = np.array(GRID.caps, dtype=float)
BANDS = ((0.0, 30.0), (30.0, 300.0), (300.0, 1000.0), (1000.0, math.inf), (300.0, math.inf))


@dataclass(frozen=True)
class Case:
    """One set of totals at one level of one currency (epsilon, or mu for Gaussian noise)."""

    name: str
    group: str
    totals: Floats
    level: float
    law: str
    best: float

    @property
    def size(self) -> float:
        return self.totals.size * self.level

    def error(self, caps: Floats, level: float, law: str, added: Floats | float = 0.0) -> float:
        """The mean over drawn caps, and what is added back at each, of the exact expected error."""
        short = np.abs(capping_bias(self.totals, caps) - added)  # noise is symmetric
        return float(mean_error(short, caps, level, law).mean())


Method = Callable[[Case, int, np.random.Generator], float]


def tuned() -> Totals:
    """The families on which constants may be tuned."""
    draw, made = np.random.default_rng(1), {}
    for n in (300, 3000, 40_000):
        made[f"pareto 1.5, {n}"] = 10 * (1 - draw.random(n)) ** (-1 / 1.5)
        made[f"pareto 2.5, {n}"] = 10 * (1 - draw.random(n)) ** (-1 / 2.5)
        made[f"lognormal 1, {n}"] = np.exp(3 + draw.normal(size=n))
        made[f"lognormal 1.6, {n}"] = np.exp(3 + 1.6 * draw.normal(size=n))
        made[f"gamma .7, {n}"] = draw.gamma(0.7, 60, n)
        made[f"uniform, {n}"] = draw.integers(1, 1000, n).astype(float)
        made[f"constant, {n}"] = np.full(n, 37.0)
    return made


def unseen() -> Totals:
    """Shapes no constant was tuned on: a few values, stretched, two humps, very heavy."""
    draw, made = np.random.default_rng(2), {}
    for n in (1000, 20_000):
        made[f"steps, {n}"] = draw.choice([1.0, 10.0, 250.0], n)
        made[f"weibull .5, {n}"] = 200 * draw.weibull(0.5, n)
        bots = np.exp(8 + 0.5 * draw.normal(size=n))
        made[f"people and bots, {n}"] = np.where(draw.random(n) < 0.01, bots, draw.poisson(5, n) + 1.0)
        made[f"zipf 2.2, {n}"] = draw.zipf(2.2, n).astype(float)
    return made


def real(folder: Path) -> Totals:
    """Per-user totals of public sets, where the folder holds them."""
    import pyarrow.parquet as parquet

    def read(name: str) -> Any:
        return parquet.read_table(folder / f"{name}.parquet").to_pandas()

    retail = read("online_retail")
    retail["spend"] = retail.quantity * retail.unit_price
    by_customer = retail.groupby("customer")
    return {
        "gowalla check-ins": read("gowalla").groupby("user").size().to_numpy(float),
        "github degrees": read("github_follow").groupby("user").size().to_numpy(float),
        "retail rows": by_customer.size().to_numpy(float),
        "retail invoices": by_customer.invoice.nunique().to_numpy(float),
        "retail quantity": by_customer.quantity.sum().to_numpy(float),
        "retail spend": by_customer.spend.sum().to_numpy(float),
    }


def cases(groups: dict[str, Totals], law: str) -> Iterator[Case]:
    """Level by level, so that the tables of one level serve all sets."""
    for level in EPSILONS:
        for group, sets in groups.items():
            for name, totals in sets.items():
                whole = np.clip(np.ceil(totals), 0, UPPER)
                best = expected_error(whole, optimal_cap(whole, level, law), level, law)
                if best < whole.sum() / 2:
                    yield Case(name, group, whole, level, law, best)


def counted(case: Case) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(GRID.tops, case.totals), minlength=GRID.bins)


def noisy(counts: NDArray[np.int64], law: str, level: float, draws: int, draw: np.random.Generator) -> Floats:
    shape = (draws, counts.size)
    if law == "gaussian":
        return np.asarray(counts + np.rint(draw.normal(scale=1 / level, size=shape)))
    chance = -math.expm1(-level)
    return np.asarray(counts + draw.geometric(chance, shape) - draw.geometric(chance, shape), dtype=float)


def chosen(
    case: Case, count_level: float, level: float, law: str, draws: int, draw: np.random.Generator, *, back: bool
) -> float:
    rows, picks, added = noisy(counted(case), case.law, count_level, draws, draw), [], []
    for row in rows:
        seen = NoisyHistogram(GRID, tuple(row), case.law, count_level)
        cap = float(choose_cap(seen, level, law).cap)
        picks.append(cap)
        added.append(correction(seen, cap, Added(cap, level, law, scalar=True)) if back else 0.0)
    return case.error(np.array(picks), level, law, np.array(added))


def split(level: float, share: float, law: str) -> tuple[float, float]:
    rest = math.sqrt(1 - share**2) if law == "gaussian" else 1 - share
    return share * level, rest * level


def posterior_cap(noise: str, *, back: bool = False) -> Method:
    """This library: the choice and the sum share the budget; the sum carries ``noise``; ``back``: ``release.estimate``, not ``release.value``."""

    def method(case: Case, draws: int, draw: np.random.Generator) -> float:
        first, rest = split(case.level, float(choice_share(case.level, noise)), case.law)
        return chosen(case, first, rest, noise, draws, draw, back=back)

    return method


def with_profile(times: float, *, back: bool = False) -> Method:
    """A histogram bought apart at ``times`` the query's budget; the sum keeps its whole budget."""

    def method(case: Case, draws: int, draw: np.random.Generator) -> float:
        if not 0.03 <= case.level <= 1 or case.size < 30:
            return math.nan
        return chosen(case, times * case.level, case.level, case.law, draws, draw, back=back)

    return method


def google_style(case: Case, draws: int, draw: np.random.Generator) -> float:
    """The top bin of a doubling histogram above a threshold (half the budget; 8/epsilon, or four sigma)."""
    gaussian = case.law == "gaussian"
    first, rest = split(case.level, 0.6 if gaussian else 0.5, case.law)
    edges = np.ldexp(1.0, np.arange(21)).astype(np.float64)
    counts = np.bincount(np.searchsorted(edges, case.totals), minlength=edges.size)
    above = noisy(counts, case.law, first, draws, draw) >= (4 if gaussian else 8) / first
    top = np.where(above.any(axis=1), edges.size - 1 - above[:, ::-1].argmax(axis=1), 0)
    return case.error(edges[top], rest, case.law)


def doubling(case: Case, draws: int, draw: np.random.Generator) -> float:
    """AboveThreshold on how many totals exceed 1, 2, 4, ...: the first cap with about 12/epsilon of them left."""
    first, rest = split(case.level, 0.65, case.law)
    edges = np.ldexp(1.0, np.arange(21)).astype(np.float64)
    left = case.totals.size - np.searchsorted(np.sort(case.totals), edges, side="right")
    limit = 12 / first + draw.laplace(scale=2 / first, size=(draws, 1))
    stop = left + draw.laplace(scale=2 / first, size=(draws, edges.size)) <= limit
    return case.error(edges[np.where(stop.any(axis=1), stop.argmax(axis=1), edges.size - 1)], rest, case.law)


def quantile(case: Case, draws: int, draw: np.random.Generator) -> float:
    """The exponential mechanism for the cap with 25/epsilon totals above it, on the same public caps."""
    first, rest = split(case.level, 0.8, case.law)
    left = case.totals.size - np.searchsorted(np.sort(case.totals), CAPS, side="right")
    score = -np.abs(left - 25 / first) * first / 2
    pick = (score + draw.gumbel(size=(draws, CAPS.size))).argmax(axis=1)
    return case.error(CAPS[pick], rest, case.law)


def fixed_95(case: Case, draws: int, draw: np.random.Generator) -> float:
    """The exact 95 % quantile, not private, with the whole budget left for the sum."""
    return case.error(np.array([max(1.0, float(np.quantile(case.totals, 0.95)))]), case.level, case.law)


METHODS: dict[str, dict[str, Method]] = {
    "laplace": {
        "posterior cap": posterior_cap("laplace"),
        "posterior cap, staircase sum": posterior_cap("staircase"),
        "posterior cap, staircase sum, estimate": posterior_cap("staircase", back=True),
        "profile at 3x": with_profile(3.0),
        "profile at 3x, estimate": with_profile(3.0, back=True),
        "google-style bounds": google_style,
        "svt doubling": doubling,
        "em quantile": quantile,
        "fixed 95 % (not private)": fixed_95,
    },
    "gaussian": {
        "posterior cap": posterior_cap("gaussian"),
        "posterior cap, estimate": posterior_cap("gaussian", back=True),
        "profile at 3x": with_profile(3.0),
        "profile at 3x, estimate": with_profile(3.0, back=True),
        "google-style bounds": google_style,
        "fixed 95 % (not private)": fixed_95,
    },
}


def measure(groups: dict[str, Totals], law: str, draws: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for place, case in enumerate(cases(groups, law)):
        for name, method in METHODS[law].items():
            many = draws if "cap" in name or "profile" in name else 400
            error = method(case, many, np.random.default_rng([place, many]))
            row: dict[str, Any] = {
                "law": law,
                "method": name,
                "group": case.group,
                "set": case.name,
                "level": case.level,
            }
            rows.append({**row, "size": case.size, "ratio": error / case.best})
    return [row for row in rows if not math.isnan(row["ratio"])]


def summary(rows: list[dict[str, Any]], low: float, high: float) -> str:
    ratios = np.array([row["ratio"] for row in rows if low <= row["size"] < high])
    return f"{np.exp(np.log(ratios).mean()):.2f} / {ratios.max():.1f} ({ratios.size})" if ratios.size else "-"


def table(rows: list[dict[str, Any]], law: str, group: str) -> str:
    heads = [f"{low:g}-{high:g}" if math.isfinite(high) else f">= {low:g}" for low, high in BANDS]
    unit = "mu" if law == "gaussian" else "epsilon"
    lines = [
        f"\n{law}, {group}: geometric mean / largest ratio (cases) by n*{unit}",
        "| method | " + " | ".join(heads) + " |",
    ]
    lines.append("|---" * (len(heads) + 1) + "|")
    for name in METHODS[law]:
        mine = [row for row in rows if (row["law"], row["group"], row["method"]) == (law, group, name)]
        lines.append(f"| {name} | " + " | ".join(summary(mine, *band) for band in BANDS) + " |")
    return "\n".join(lines)


def by_level(rows: list[dict[str, Any]], law: str) -> str:
    mine = [row for row in rows if row["law"] == law and row["method"].startswith("posterior") and row["size"] >= 300]
    lines = [f"\n{law}, all sets, n*level >= 300, by level"]
    for name in METHODS[law]:
        cells = []
        for level in EPSILONS:
            ratios = [row["ratio"] for row in mine if row["method"] == name and row["level"] == level]
            cells += [f"{level:g}: {np.exp(np.log(ratios).mean()):.2f}"] if ratios else []
        lines += [f"{name}: " + ", ".join(cells)] if cells else []
    return "\n".join(lines)


@dataclass(frozen=True)
class Panel:
    """What units bring under each of some keys: one entry for each unit and key."""

    units: NDArray[np.int64]
    keys: NDArray[np.int64]
    amounts: Floats

    @property
    def width(self) -> int:
        return int(self.keys.max()) + 1

    def norms(self, law: str) -> Floats:
        """What a cap bounds: the L1 norm of a unit over the keys, or under Gaussian noise the L2 norm."""
        if law == "laplace":
            return np.asarray(np.bincount(self.units, np.abs(self.amounts)), dtype=float)
        return np.asarray(np.sqrt(np.bincount(self.units, self.amounts**2)))

    def totals(self) -> Floats:
        return np.abs(np.bincount(self.units, self.amounts))

    def error(self, cap: float, level: float, law: str) -> float:
        """The exact mean over keys of the expected absolute error."""
        kept = np.minimum(1.0, cap / np.maximum(self.norms(law), 1e-300))
        lost = np.bincount(self.keys, self.amounts * (1 - kept[self.units]), self.width)
        return float(mean_error(np.abs(lost), np.full(self.width, cap), level, law).mean())


def country_months(folder: Path) -> Panel:
    """Retail revenue of the ten largest countries by thirteen parts of the run of invoice numbers, the set's own clock."""
    import pyarrow.parquet as parquet

    retail = parquet.read_table(folder / "online_retail.parquet").to_pandas()
    retail = retail[retail.customer.notna()]
    number = retail.invoice.astype(str).str.extract(r"(\d+)")[0].astype(float)
    retail["month"] = ((number - number.min()) / (number.max() + 1 - number.min()) * 13).astype(int)
    largest = retail.groupby("country").size().nlargest(10).index
    retail = retail[retail.country.isin(largest)].assign(spend=retail.quantity * retail.unit_price)
    cells = retail.groupby(["customer", "country", "month"]).spend.sum().reset_index()
    where = cells.country.map({name: place for place, name in enumerate(largest)}) * 13 + cells.month
    return Panel(
        np.unique(cells.customer, return_inverse=True)[1], where.to_numpy(np.int64), cells.spend.to_numpy(float)
    )


def made_panel(seed: int, width: int) -> Panel:
    """Heavy totals, each spread over some keys of which few are large."""
    draw = np.random.default_rng(seed)
    totals = 100 * (1 - draw.random(5000)) ** (-1 / 1.3)
    reach = np.minimum(draw.geometric(0.3, totals.size), width)
    sizes = 1 / np.arange(1, width + 1)
    units = np.repeat(np.arange(totals.size), reach)
    keys = draw.choice(width, units.size, p=sizes / sizes.sum())
    return Panel(units, keys, totals[units] / reach[units])


def serve(panel: Panel, seen: Floats, share: Fraction, level: float, law: str, serving: Serving, row: int) -> float:
    """The mean error per key of one drawn choice."""
    first, rest = split(level, float(share), law)
    counts = np.bincount(np.searchsorted(GRID.tops, np.clip(np.ceil(seen), 0, UPPER)), minlength=GRID.bins)
    (drawn,) = noisy(counts, law, first, 1, np.random.default_rng([row, panel.width]))
    cap = choose_cap(NoisyHistogram(GRID, tuple(drawn), law, first), rest, law, serving).cap
    return panel.error(float(cap), rest, law)


def by_key(panels: dict[str, Panel], draws: int) -> str:
    """Mean error per key, over that of the best fixed cap at the full budget: the choice for K keys beside the one for a single total."""
    lines = [
        "\nby key, (epsilon 1, delta 1e-6 where Gaussian): mean error per key over the best fixed cap chosen in the clear"
    ]
    lines += [
        "| set | keys | noise | best | cap for one total, of totals | cap for K keys, of norms |",
        "|---" * 6 + "|",
    ]
    for name, panel in panels.items():
        for law, level in (("laplace", 1.0), ("gaussian", 0.2367)):
            best = min(panel.error(cap, level, law) for cap in CAPS)
            keys, gaussian = panel.width, law == "gaussian"
            old = choice_share(level, law), Serving()
            new = choice_share(level, law, keys), Serving(keys, gaussian=gaussian)
            ratios = [
                np.mean([serve(panel, seen, way[0], level, law, way[1], row) for row in range(draws)]) / best
                for seen, way in ((panel.totals(), old), (panel.norms(law), new))
            ]
            lines.append(f"| {name} | {keys} | {law} | {best:,.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    return "\n".join(lines)


def main() -> None:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=30, help="histograms drawn for every case")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STEELYARD_DATA", beside)))
    parser.add_argument("--groups", nargs="+", default=["tuned", "unseen", "real"], help="'none' with --keys alone")
    parser.add_argument("--laws", nargs="+", default=["laplace", "gaussian"])
    parser.add_argument("--keys", action="store_true", help="also caps that serve many keys")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    groups = {name: made() for name, made in (("tuned", tuned), ("unseen", unseen)) if name in options.groups}
    if "real" in options.groups and (options.data / "online_retail.parquet").exists():
        groups["real"] = real(options.data)
    elif "real" in options.groups:
        print(f"skipped: no real data in {options.data} (give --data or set STEELYARD_DATA)")
    rows, start = [], time.process_time()
    if options.keys:
        panels = {f"made, {width} keys": made_panel(width, width) for width in (3, 30, 300)}
        if (options.data / "online_retail.parquet").exists():
            panels["retail country-months"] = country_months(options.data)
        print(by_key(panels, options.draws), flush=True)
    for law in options.laws:
        rows += measure(groups, law, options.draws)
        for group in groups:
            print(table(rows, law, group), flush=True)
        print(by_level(rows, law), flush=True)
    print(f"\n{options.draws} histograms a case, {time.process_time() - start:.0f} s of CPU")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
