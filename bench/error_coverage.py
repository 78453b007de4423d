"""Whether the intervals of private totals hold the truth, and how wide they are for it.

For every real set of totals, on a pure and on a Gaussian account (delta 1e-6), with a profile at epsilon 0.2 before a sum
at 1, and with the cap chosen inside the release at epsilon 0.3, 1 and 3: how often the 95 % interval held the true total,
and the median width of the interval over the median error. Noise is drawn here for speed, the histogram directly;
a check at the start compares what a released profile says of a sum with what is computed here from the same counts.
The constants of the tail model are round numbers that were settled on generated sets and on the real ones marked "seen";
the others were not looked at before.

    python bench/error_coverage.py --draws 200 [--data folder] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import steelyard as sy
from bounding_accuracy import tuned, unseen
from steelyard.accounting import mu_request
from steelyard.bounding._cap_choice import NoisyHistogram, choice_share, choose_cap
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._cut import Added, Cut
from steelyard.bounding._laws import spread_noise

Floats = NDArray[np.float64]
UPPER = 2**20
GRID = CapGrid(1, UPPER)
SCHEMES = (("profile", 0.2, 1.0), ("auto", 0.3, 0.3), ("auto", 1.0, 1.0), ("auto", 3.0, 3.0))


@dataclass(frozen=True)
class Cell:
    """One set on one kind of account with one way to its cap."""

    group: str
    name: str
    law: str
    scheme: str
    users: int
    covered: float
    above: float
    width: float
    noise: float
    error: float
    cut: float
    said: float

    @property
    def beyond(self) -> bool:
        """Whether what the cap cuts off lies beyond the noise."""
        return self.cut > self.noise


def real(folder: Path) -> dict[str, Floats]:
    """Per-user totals of public sets; where a set has no users, each of its rows is one."""
    import pyarrow.parquet as parquet

    def read(name: str) -> Any:
        return parquet.read_table(folder / f"{name}.parquet").to_pandas()

    retail, adult, bank = read("online_retail"), read("adult"), read("bank")
    retail["spend"] = retail.quantity * retail.unit_price
    customers = retail.groupby("customer")
    return {
        "retail revenue": customers.spend.sum().to_numpy(float),
        "retail quantity": customers.quantity.sum().to_numpy(float),
        "retail lines": customers.size().to_numpy(float),
        "retail invoices": customers.invoice.nunique().to_numpy(float),
        "github edges": read("github_follow").groupby("user").size().to_numpy(float),
        "gowalla check-ins": read("gowalla").groupby("user").size().to_numpy(float),
        **{f"adult {name}": adult[name].to_numpy(float) for name in ADULT},
        **{f"bank {name}": bank[name].to_numpy(float) for name in BANK},
    }


ADULT = ("capital_gain", "fnlwgt", "hours_per_week")
BANK = ("balance", "duration", "campaign")
SEEN = ("retail revenue", "retail lines", "gowalla check-ins", "adult capital_gain", "bank balance")
"""The real sets that were looked at while the tail model was settled; the others were not."""


def levels(law: str, scheme: str, look: float, whole: float) -> tuple[float, float, str]:
    """What the look and the sum have, and the noise of the sum."""
    if law == "gaussian":
        look, whole = (mu_request(Fraction(str(e)), Fraction("1e-6")) / 1e6 for e in (look, whole))
    if scheme == "profile":
        first, rest = look, whole
    else:
        share = float(choice_share(whole, law))
        first = share * whole
        rest = whole * (math.sqrt(1 - share**2) if law == "gaussian" else 1 - share)
    return first, rest, "gaussian" if law == "gaussian" else "staircase"


def noised(counts: NDArray[np.int64], law: str, level: float, draw: np.random.Generator) -> tuple[float, ...]:
    if law == "gaussian":
        return tuple(counts + np.rint(draw.normal(scale=1 / level, size=counts.size)))
    chance = -math.expm1(-level)
    return tuple((counts + draw.geometric(chance, counts.size) - draw.geometric(chance, counts.size)).astype(float))


def measure(group: str, name: str, totals: Floats, law: str, scheme: tuple[str, float, float], draws: int) -> Cell:
    whole = np.clip(np.ceil(totals), 0, UPPER)
    counts = np.bincount(np.searchsorted(GRID.tops, whole), minlength=GRID.bins)
    first, rest, noise = levels(law, *scheme)
    draw = np.random.default_rng(7)
    unit, rows = spread_noise(rest, noise, 2000), []
    for _ in range(draws):
        seen = NoisyHistogram(GRID, noised(counts, law, first, draw), law, first)
        cap = float(choose_cap(seen, rest, noise).cap)
        said = Cut.of(seen, Fraction(0), Fraction(cap), Fraction(1), Added(cap, rest, noise, scalar=True))
        low, high = said.offsets["0.95"]
        lost = float(np.maximum(whole - cap, 0).sum())
        off = lost - cap * float(draw.choice(unit))  # the truth less the released value
        half = cap * float(unit[int(0.975 * unit.size)])
        rows.append((low <= off <= high, off > high, high - low, half, abs(off), lost, said.amount.value))
    table = np.array(rows, dtype=float)
    covered, above = table[:, :2].mean(axis=0)
    width, half, error, lost, said = np.median(table[:, 2:], axis=0)
    return Cell(
        group, name, law, f"{scheme[0]} {scheme[1]:g}", totals.size, covered, above, width, half, error, lost, said
    )


def check() -> None:
    """A sum with a released profile must say what is said here of the profile's counts."""
    draw = np.random.default_rng(3)
    table = sy.read({"user": np.arange(3000), "x": np.ceil(np.exp(3 + 1.5 * draw.normal(size=3000)))})
    account = sy.open_account(":memory:", "check", unit=sy.users("user"), epsilon=3)
    session = sy.Session(table, account)
    profile = session.release(sy.Profile("x", epsilon=1, upper=2**20, resolution=1)).value
    predicted = session.plan(sy.Sum("x", epsilon=1, cap=profile)).predicted
    cap = choose_cap(profile.histogram, 1.0, "staircase").cap * profile.step
    added = Added(float(cap), 1.0, "staircase", scalar=True)
    said = Cut.of(profile.histogram, Fraction(0), cap, profile.step, added)
    assert predicted is not None
    assert predicted.span() == said.offsets["0.95"], "the product says something else"


def cells(groups: dict[str, dict[str, Floats]], draws: int, laws: list[str]) -> Iterator[Cell]:
    """One law and scheme after the other, so that tables serve all sets."""
    for law in laws:
        for scheme in SCHEMES:
            for group, sets in groups.items():
                for name, totals in sets.items():
                    yield measure(group, name, totals, law, scheme, draws)


def summary(found: list[Cell], title: str) -> str:
    covered = np.array([cell.covered for cell in found])
    far = [cell for cell in found if cell.beyond]
    wide = np.exp(np.mean([math.log(cell.width / cell.error) for cell in far])) if far else math.nan
    near = [cell for cell in found if not cell.beyond]
    within = np.exp(np.mean([math.log(cell.width / (2 * cell.noise)) for cell in near])) if near else math.nan
    most = max((cell.width / (2 * cell.noise) for cell in near), default=math.nan)
    return (f"{title}: {len(found)} cells, covered {covered.mean():.1%} (least {covered.min():.1%}, "
            f"{(covered < 0.9).sum()} below 90 %); beyond the noise ({len(far)}): width over error {wide:.1f}; "
            f"within it ({len(near)}): width over that of the noise {within:.2f}, at most {most:.1f}")  # fmt: skip


def main() -> None:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STEELYARD_DATA", beside)))
    parser.add_argument("--groups", nargs="+", default=["real"])
    parser.add_argument("--laws", nargs="+", default=["laplace", "gaussian"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    groups = {name: made() for name, made in (("tuned", tuned), ("unseen", unseen)) if name in options.groups}
    if "real" in options.groups:
        if (options.data / "online_retail.parquet").exists():
            sets = real(options.data)
            groups["real, seen"] = {name: sets[name] for name in SEEN}
            groups["real, not looked at"] = {name: totals for name, totals in sets.items() if name not in SEEN}
        else:
            print(f"skipped: no real data in {options.data} (give --data or set STEELYARD_DATA)")
    check()
    start, found = time.process_time(), []
    print(
        "| set | account | look | covered | width / error | cut off, median | said, median | noise ± |\n"
        + "|---" * 8
        + "|"
    )
    for cell in cells(groups, options.draws, options.laws):
        found.append(cell)
        print(f"| {cell.name} | {cell.law} | {cell.scheme} | {cell.covered:.1%} | {cell.width / max(cell.error, 1e-9):.1f} "
              f"| {cell.cut:,.0f} | {cell.said:,.0f} | {cell.noise:,.0f} |", flush=True)  # fmt: skip
    for group in groups:
        print(summary([cell for cell in found if cell.group == group], group))
    print(f"{options.draws} draws a cell, {time.process_time() - start:.0f} s of CPU")
    if options.json:
        options.json.write_text(json.dumps([asdict(cell) for cell in found], indent=1))


if __name__ == "__main__":
    main()
