"""Whether the intervals of private totals hold the truth, and how wide they are for it.

For every real set of totals, on a pure and on a Gaussian account (delta 1e-6), with a profile at epsilon 0.2 before a sum
at 1, and with the cap chosen inside the release at epsilon 0.3, 1 and 3: how often the 95 % interval held the true total,
and the median width of the interval over the median error; the same where nobody said that totals are not negative (``lower=0``),
so that the interval looks to both sides. Histograms are drawn; the noise of the sum is integrated, so
each of them counts as two thousand sums. A check at the start compares what a released profile says of a sum with what is computed
here from the same counts.
Leave one out: how often a trend that broke breaks again decides how wide intervals are. For every source of sets it is fitted on the
other sources and on generated totals: the most (hence narrowest) of ``AGAIN`` with which every cell of theirs is covered in 90 %, all of
them in 95 %, and companies among customers, who are drawn anew for each look, in four of five. A set is judged with what was fitted
without its source, and the table says with what.
Further groups: ``more`` are other columns and other units of the same files, and ``shapes`` generated totals, users drawn anew for each
look; both were in view when heavy trends were made to break less often. ``fresh`` are shapes that nothing was fitted or tried on,
and ``drawn`` twenty families on which narrower intervals were tried, without any coming of it.

    python bench/error_coverage.py --draws 200 [--fit 20] [--groups real more shapes fresh drawn] [--room 10] [--data folder] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
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
from steelyard.bounding._tails import BROKEN, behind

Floats = NDArray[np.float64]
Totals = Floats | Callable[[np.random.Generator], Floats]
UPPER = 2**20
GRID = CapGrid(1, UPPER)
AGAIN = (0.05, 0.1, 0.15, 0.2)
"""What ``Trend.again`` is fitted among."""

STATED = ("0.5", "0.8", "0.9", "0.95", "0.99")
"""The confidences that a release states intervals at: what is gained in width by stating less is lost in coverage."""

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
    over: float
    either: float
    either_width: float
    again: float
    stated: dict[str, tuple[float, float]]
    known: float
    follows: float

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


def more(folder: Path) -> dict[str, Floats]:
    """Other totals of the same files: of invoices, places and returns, and columns that no one chose for their shape."""
    import pyarrow.parquet as parquet

    def read(name: str) -> Any:
        return parquet.read_table(folder / f"{name}.parquet").to_pandas()

    retail, kegg = read("online_retail"), read("kegg")
    retail["spend"] = retail.quantity * retail.unit_price
    invoices, back = retail.groupby("invoice"), retail[retail.quantity < 0].groupby("customer")
    abroad = retail[retail.country != "United Kingdom"].groupby("customer")
    return {
        "gowalla places": read("gowalla").groupby("item").size().to_numpy(float),
        "retail invoice revenue": invoices.spend.sum().to_numpy(float),
        "retail invoice quantity": invoices.quantity.sum().to_numpy(float),
        "retail returns": -back.quantity.sum().to_numpy(float),
        "retail value of returns": -back.spend.sum().to_numpy(float),
        "retail largest line": retail.groupby("customer").spend.max().to_numpy(float),
        "retail revenue abroad": abroad.spend.sum().to_numpy(float),
        "adult capital_loss": read("adult").capital_loss.to_numpy(float),
        "bank previous": read("bank").previous.to_numpy(float),
        **{
            f"kegg {name}": (kegg[name] - kegg[name].min()).to_numpy(float)
            for name in ("x1", "x4", "x11", "x14", "x26")
        },
    }


ADULT = ("capital_gain", "fnlwgt", "hours_per_week")
BANK = ("balance", "duration", "campaign")
TRAINING = ("pareto 1.5", "pareto 2.5", "lognormal 1", "lognormal 1.6", "gamma .7", "uniform")
"""The generated families that help to fit."""

COMPANIES = "companies"
"""Totals whose giants are mostly in the blind spot: they are held to four of five, over all cells."""


def source(name: str) -> str:
    """Where a set comes from: sets of one source are left out together."""
    return name.split()[0]


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


def within(totals: Floats, room: float) -> CapGrid:
    """The public grid: up to a million, or, where there is ``room``, up to the power of two above so many times the largest total."""
    if not room:
        return GRID
    largest = room * max(float(np.max(totals, initial=1)), 1.0)
    return CapGrid(1, min(UPPER, 2 ** math.ceil(math.log2(largest))))


def measure(
    group: str, name: str, totals: Totals, law: str, scheme: tuple[str, float, float], draws: int, again: float, room: float = 0
) -> Cell:  # fmt: skip
    """One cell, with trends that break so often again; totals that are a function are drawn anew for each look."""
    first, rest, noise = levels(law, *scheme)
    draw, trend = np.random.default_rng(7), replace(BROKEN, again=again)
    unit, rows = spread_noise(rest, noise, 2000), []
    for at in range(draws):
        if at == 0 or callable(totals):
            made = totals(np.random.default_rng([9, at])) if callable(totals) else totals
            grid = within(made, room)
            whole = np.clip(np.ceil(made), 0, grid.upper)
            counts = np.bincount(np.searchsorted(grid.tops, whole), minlength=grid.bins)
        seen = NoisyHistogram(grid, noised(counts, law, first, draw), law, first)
        if trend != BROKEN:
            seen.__dict__["broken"] = (behind(grid, np.array(seen.counts), law, first, trend),)
        cap = float(choose_cap(seen, rest, noise).cap)
        rows.append(judged(seen, Added(cap, rest, noise, scalar=True), float(np.maximum(whole - cap, 0).sum()), unit))
    table = np.array(rows, dtype=float)
    held, above, over, either = (float(v) for v in table[:, :4].mean(axis=0))
    width, wide, half, error, lost, median = (float(v) for v in np.median(table[:, 4:10], axis=0))
    way, ends = f"{scheme[0]} {scheme[1]:g}", table[:, 10:].reshape(draws, 2, len(STATED))
    stated = {c: (float(ends[:, 0, i].mean()), float(np.median(ends[:, 1, i]))) for i, c in enumerate(STATED)}
    far = float(np.quantile(table[:, 8], 0.95))  # an end that knows this set, and what its looks' caps cut off
    told, cut = (np.log1p(table[:, column]) for column in (4, 8))
    follows = float(np.corrcoef(told, cut)[0, 1]) if min(told.std(), cut.std()) > 1e-9 else math.nan
    return Cell(
        group, name, law, way, whole.size, held, above, width, half, error, lost, median, over, either, wide, again, stated,
        half + math.hypot(far, half), follows,
    )  # fmt: skip


def judged(seen: NoisyHistogram, added: Added, lost: float, unit: Floats) -> tuple[float, ...]:
    """What is said of one look, and how it holds over all noise of the sum."""
    cap = added.bound
    said = Cut.of(seen, Fraction(0), Fraction(cap), Fraction(1), added)
    both = Cut.of(seen, Fraction(-cap), Fraction(cap), Fraction(1), replace(added, scalar=False))
    (low, high), (_, far) = said.offsets["0.95"], both.offsets["0.95"]
    off, median = lost - cap * unit, said.amount.value  # the truth less the released value, for every noise
    held, half = float(((low <= off) & (off <= high)).mean()), cap * float(unit[int(0.975 * unit.size)])
    over = 0.5 if abs(median - lost) < 1e-9 else float(median > lost)
    either, error = float((np.abs(off) <= far).mean()), float(np.median(np.abs(off)))
    ends = [said.offsets[confidence] for confidence in STATED]
    held_at, widths = [float(((a <= off) & (off <= b)).mean()) for a, b in ends], [b - a for a, b in ends]
    return (
        held, float((off > high).mean()), over, either, high - low, 2 * far, half, error, lost, median, *held_at, *widths
    )  # fmt: skip


def companies(draw: np.random.Generator) -> Floats:
    """A lognormal crowd of 4,000, and 40 Pareto totals that begin at its 99 % point."""
    crowd = np.exp(3 + 1.3 * draw.normal(size=4000))
    few = float(np.quantile(crowd, 0.99)) * (1 - draw.random(40)) ** (-1 / 1.2)
    return np.concatenate([crowd, few])


def hidden(law: str, scheme: tuple[str, float, float], draws: int, again: float) -> float:
    """How often companies are covered, drawn anew for each look."""
    return measure("fit", COMPANIES, companies, law, scheme, draws, again).covered


def shapes() -> dict[str, Totals]:
    """Generated totals that were in view."""

    def giants(draw: np.random.Generator) -> Floats:
        return np.concatenate([draw.poisson(20, 5000), 2000 * 10 ** draw.random(12)])

    def humps(draw: np.random.Generator) -> Floats:
        return np.exp(np.where(draw.random(8000) < 0.02, 7 + 0.8 * draw.normal(size=8000), 3 + draw.normal(size=8000)))

    return {
        "pareto 1.0, 5000": lambda draw: 10 * (1 - draw.random(5000)) ** -1.0,
        "pareto 1.1, 50000": lambda draw: 10 * (1 - draw.random(50_000)) ** (-1 / 1.1),
        "pareto 1.3, 20000": lambda draw: 5 * (1 - draw.random(20_000)) ** (-1 / 1.3),
        "pareto 1.8, 1000": lambda draw: 20 * (1 - draw.random(1000)) ** (-1 / 1.8),
        "pareto 3, 5000": lambda draw: 20 * (1 - draw.random(5000)) ** (-1 / 3),
        "zipf 1.5, 8000": lambda draw: np.minimum(draw.zipf(1.5, 8000), UPPER).astype(float),
        "lognormal 0.7, 5000": lambda draw: np.exp(5 + 0.7 * draw.normal(size=5000)),
        "lognormal 1.3, 20000": lambda draw: np.exp(4 + 1.3 * draw.normal(size=20_000)),
        "lognormal 2, 2000": lambda draw: np.exp(3 + 2 * draw.normal(size=2000)),
        "lognormal 1.2, 400": lambda draw: np.exp(4 + 1.2 * draw.normal(size=400)),
        "twelve giants, 5000": giants,
        "two humps, 8000": humps,
        "rare crowd, 20200": lambda draw: np.concatenate([draw.gamma(2, 20, 20_000), draw.gamma(2, 2000, 200)]),
        "beta, 5000": lambda draw: 1000 * draw.beta(2, 5, 5000),
        "weekdays, 3000": lambda draw: draw.binomial(5, 0.6, 3000).astype(float),
        "all equal, 4000": lambda draw: np.full(4000, 100.0),
        "up to three, 5000": lambda draw: draw.integers(0, 4, 5000).astype(float),
        "negative binomial, 10000": lambda draw: draw.negative_binomial(0.4, 0.01, 10_000).astype(float),
        "mostly zero, 30000": lambda draw: np.where(draw.random(30_000) < 0.95, 0, np.exp(6 + draw.normal(size=30_000))),
        "nearly all zero, 20000": lambda draw: np.where(draw.random(20_000) < 0.99, 0, np.exp(5 + 1.5 * draw.normal(size=20_000))),
        "one user": lambda draw: np.array([500.0]),
        "nobody": lambda draw: np.zeros(0),
    }  # fmt: skip


def fresh() -> dict[str, Totals]:
    """Shapes that were written down before anything was measured on them, and changed nothing."""
    return {
        "lomax 1.2, 3000": lambda draw: 50 * ((1 - draw.random(3000)) ** (-1 / 1.2) - 1),
        "lognormal 1.8, 12000": lambda draw: np.exp(3 + 1.8 * draw.normal(size=12_000)),
        "ranks to the 0.9, 20000": lambda draw: 1e5 / np.arange(1.0, 20_001.0) ** 0.9,
        "crowd and pareto 2, 30300": lambda draw: np.concatenate(
            [draw.gamma(2, 10, 30_000), 100 * (1 - draw.random(300)) ** -0.5]
        ),
        "sixty bots, 25060": lambda draw: np.concatenate(
            [draw.poisson(3, 25_000), np.exp(6.5 + 0.7 * draw.normal(size=60))]
        ),
        "student 2, 8000": lambda draw: 40 * np.abs(draw.standard_t(2, 8000)),
        "three classes, 6000": lambda draw: draw.choice([10.0, 100.0, 1000.0], 6000, p=[0.9, 0.09, 0.01]),
        "log-gamma, 10000": lambda draw: np.exp(draw.gamma(2, 0.8, 10_000)),
        "sessions, 15000": lambda draw: draw.gamma(draw.geometric(0.05, 15_000), 5),
        "wald, 9000": lambda draw: draw.wald(100, 20, 9000),
        "half zero, pareto 1.6, 10000": lambda draw: np.where(
            draw.random(10_000) < 0.5, 0, 30 * (1 - draw.random(10_000)) ** (-1 / 1.6)
        ),
        "twenty users": lambda draw: np.exp(5 + draw.normal(size=20)),
    }


def drawn() -> dict[str, Totals]:
    """Twenty families on which it was tried whether the stated level may be lowered; nothing was changed for them."""

    def bots(draw: np.random.Generator) -> Floats:
        return np.concatenate([draw.poisson(4, 10_000) + 1.0, np.exp(6 + 0.8 * draw.normal(size=40))])

    def firms(draw: np.random.Generator) -> Floats:
        return np.concatenate([np.exp(3 + 1.2 * draw.normal(size=4000)), 600 * (1 - draw.random(40)) ** (-1 / 1.3)])

    def mixed(draw: np.random.Generator) -> Floats:
        far = 200 * (1 - draw.random(5000)) ** (-1 / 1.1)
        return np.where(draw.random(5000) < 0.02, far, np.exp(4 + 0.8 * draw.normal(size=5000)))

    return {
        "lomax 1.4, 4000": lambda draw: 30 * ((1 - draw.random(4000)) ** (-1 / 1.4) - 1),
        "lognormal 1.3, 9000": lambda draw: np.exp(2.5 + 1.3 * draw.normal(size=9000)),
        "geometric mixture, 12000": lambda draw: draw.geometric(1 / (1 + draw.gamma(1.0, 12, 12_000))).astype(float),
        "zipf 1.9, 30000": lambda draw: np.minimum(draw.zipf(1.9, 30_000), UPPER).astype(float),
        "burr, 6000": lambda draw: 50 * ((1 - draw.random(6000)) ** (-1 / 1.1) - 1) ** (1 / 1.6),
        "lognormal and pareto 1.1, 5000": mixed,
        "negative binomial, 25000": lambda draw: (1 + draw.negative_binomial(0.5, 0.01, 25_000)).astype(float),
        "double pareto 1.7, 20000": lambda draw: np.exp(2 + 0.7 * draw.normal(size=20_000) + draw.exponential(1 / 1.7, 20_000)),
        "double pareto 1.2, 3500": lambda draw: np.exp(4 + 0.9 * draw.normal(size=3500) + draw.exponential(1 / 1.2, 3500)),
        "weibull .4, 7000": lambda draw: 20 * draw.weibull(0.4, 7000),
        "gamma 2, 5000": lambda draw: draw.gamma(2, 40, 5000),
        "pareto 1 up to 800, 20000": lambda draw: np.minimum(3 / (1 - draw.random(20_000)), 800),
        "normal, 8000": lambda draw: np.maximum(300 + 60 * draw.normal(size=8000), 0),
        "lognormal 1.9, 2500": lambda draw: np.exp(3 + 1.9 * draw.normal(size=2500)),
        "pareto .9, 5000": lambda draw: np.minimum(4 * (1 - draw.random(5000)) ** (-1 / 0.9), UPPER),
        "pareto 1.2, 15000": lambda draw: 4 * (1 - draw.random(15_000)) ** (-1 / 1.2),
        "pareto 2, 4000": lambda draw: 20 * (1 - draw.random(4000)) ** -0.5,
        "three classes, 7000": lambda draw: draw.choice([5.0, 60.0, 900.0], 7000, p=[0.88, 0.1, 0.02]),
        "forty bots, 10040": bots,
        "forty firms, 4040": firms,
    }  # fmt: skip


def fitted(sets: dict[str, Totals], draws: int, laws: list[str]) -> dict[str, float]:
    """For every source what the others, and generated totals, would have: the most breaks with which their cells hold."""
    made = {name: totals for name, totals in tuned().items() if name in {f"{family}, 3000" for family in TRAINING}}
    held: dict[float, list[tuple[str, float]]] = {again: [] for again in AGAIN}
    for again in AGAIN:
        for law in laws:
            for scheme in SCHEMES:
                for name, totals in {**sets, **made}.items():
                    cell = measure("fit", name, totals, law, scheme, draws, again)
                    held[again].append((source(name), cell.covered))
                held[again].append((COMPANIES, hidden(law, scheme, draws, again)))
    return {left: taken(held, left) for left in sorted({source(name) for name in sets})}


def taken(held: dict[float, list[tuple[str, float]]], left: str) -> float:
    """What is fitted without the source ``left``, from the source and coverage of every cell at each candidate."""
    good, told = [min(held)], []
    for again, cells in held.items():
        others = [covered for whose, covered in cells if whose not in (left, COMPANIES)]
        giants = float(np.mean([covered for whose, covered in cells if whose == COMPANIES] or [1.0]))
        told.append(f"{again:g}: least {min(others):.1%}, mean {np.mean(others):.1%}, companies {giants:.0%}")
        if min(others) >= 0.9 and np.mean(others) >= 0.95 and giants >= 0.8:
            good.append(again)
    print(f"without {left}: {'; '.join(told)}; taken {max(good):g}", flush=True)
    return max(good)


def check() -> None:
    """A sum with a released profile must say what is said here of the profile's counts."""
    draw = np.random.default_rng(3)
    table = sy.read({"user": np.arange(3000), "x": np.ceil(np.exp(3 + 1.5 * draw.normal(size=3000)))})
    account = sy.open_account(":memory:", "check", unit=sy.users("user"), epsilon=3)
    session = sy.Session(table, account)
    profile = session.release(sy.Profile("x", epsilon=1, upper=2**20, resolution=1)).value
    predicted = session.plan(sy.Sum("x", epsilon=1, lower=0, cap=profile)).predicted
    cap = choose_cap(profile.histogram, 1.0, "staircase").cap * profile.step
    added = Added(float(cap), 1.0, "staircase", scalar=True)
    said = Cut.of(profile.histogram, Fraction(0), cap, profile.step, added)
    assert predicted is not None
    assert predicted.span() == said.offsets["0.95"], "the product says something else"


def cells(
    groups: dict[str, dict[str, Totals]], draws: int, laws: list[str], again: dict[str, float], room: float
) -> Iterator[Cell]:
    """Every set on every account by every way."""
    for law in laws:
        for scheme in SCHEMES:
            for group, sets in groups.items():
                for name, totals in sets.items():
                    yield measure(group, name, totals, law, scheme, draws, again.get(source(name), BROKEN.again), room)


def typical(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if values else math.nan


def summary(found: list[Cell], title: str) -> str:
    covered = np.array([cell.covered for cell in found])
    far, near = [c for c in found if c.beyond], [c for c in found if not c.beyond]
    wide, within = typical([c.width / c.error for c in far]), [c.width / (2 * c.noise) for c in near]
    over, either = np.mean([cell.over for cell in found]), np.array([cell.either for cell in found])
    wider = typical([c.either_width / c.width for c in found])
    return (f"{title}: {len(found)} cells, covered {covered.mean():.1%} (least {covered.min():.1%}, "
            f"{(covered < 0.9).sum()} below 90 %); beyond the noise ({len(far)}): width over error {wide:.1f}; "
            f"within it ({len(near)}): width over that of the noise {typical(within):.2f}, at most {max(within, default=math.nan):.1f}; "
            f"the median said was above the truth in {over:.0%} of draws; of either sign: covered {either.mean():.1%} "
            f"(least {either.min():.1%}), {wider:.2f} times as wide")  # fmt: skip


def frontier(found: list[Cell]) -> str:
    """Coverage against width, at every confidence that is stated; and how wide an interval is that was told the set."""
    far, lines = [cell for cell in found if cell.beyond], []
    for confidence in STATED:
        covered = np.array([cell.stated[confidence][0] for cell in found])
        wide = typical([cell.stated[confidence][1] / cell.error for cell in far])
        near = typical([cell.stated[confidence][1] / (2 * cell.noise) for cell in found if not cell.beyond])
        lines.append(
            f"| {float(confidence):.0%} | {covered.mean():.1%} | {covered.min():.1%} | {(covered < 0.9).sum()} of {covered.size} | {wide:.1f} | {near:.1f} |"
        )
    known, follows = typical([cell.known / cell.error for cell in far]), np.nanmean([cell.follows for cell in far])
    head = "| stated | held | least cell | cells below 90 % | beyond the noise: width over error | within it: over that of the noise |"
    return "\n".join(
        [
            head,
            "|---" * 6 + "|",
            *lines,
            f"beyond the noise: an interval that was told the set, and what caps cut off it in 95 % of looks: {known:.1f} times the "
            f"error; correlation from look to look of the width with what was cut off: {follows:.2f}",
        ]
    )


def main() -> None:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--fit", type=int, default=0, help="draws a cell for the fit; 0 takes what the library has")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STEELYARD_DATA", beside)))
    parser.add_argument("--groups", nargs="+", default=["real"])
    parser.add_argument("--room", type=float, default=0, help="upper is so many times the largest total; 0: a million")
    parser.add_argument("--laws", nargs="+", default=["laplace", "gaussian"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    groups: dict[str, dict[str, Totals]] = {
        name: dict(made())
        for name, made in (("tuned", tuned), ("unseen", unseen), ("shapes", shapes), ("fresh", fresh), ("drawn", drawn))
        if name in options.groups
    }  # fmt: skip
    for name, read in (("real", real), ("more", more)):
        if name in options.groups and (options.data / "online_retail.parquet").exists():
            groups[name] = dict(read(options.data))
        elif name in options.groups:
            print(f"skipped: no real data in {options.data} (give --data or set STEELYARD_DATA)")
    check()
    start, found = time.process_time(), []
    again = fitted(groups["real"], options.fit, options.laws) if options.fit and "real" in groups else {}
    print(
        "| set | account | look | breaks again, fitted without its source | covered | width / error | of either sign: covered | width / error | cut off, median "
        "| said, median | noise ± |\n" + "|---" * 11 + "|"
    )
    for cell in cells(groups, options.draws, options.laws, again, options.room):
        found.append(cell)
        print(f"| {cell.name} | {cell.law} | {cell.scheme} | {cell.again:g} | {cell.covered:.1%} "
              f"| {cell.width / max(cell.error, 1e-9):.1f} | {cell.either:.1%} | {cell.either_width / max(cell.error, 1e-9):.1f} | {cell.cut:,.0f} | {cell.said:,.0f} | {cell.noise:,.0f} |", flush=True)  # fmt: skip
    for group in groups:
        mine = [cell for cell in found if cell.group == group]
        print(f"{summary(mine, group)}\n{frontier(mine)}")
    print(f"{options.draws} draws a cell, {time.process_time() - start:.0f} s of CPU")
    if options.json:
        options.json.write_text(json.dumps([asdict(cell) for cell in found], indent=1))


if __name__ == "__main__":
    main()
