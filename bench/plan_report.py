"""What a plan for a whole report saves, and whether its tolerances hold: twelve numbers on retail sales.

The price of ``sy.Plan`` against (a) the same epsilon (or mu) for every number, as little as all tolerances allow, (b) each number
by itself at its least price, and (c) the same with the totals searched for by accuracy first (``reach`` for a relative error,
which counts the noise alone). In (a) to (c) each number has a twelfth of the chance of missing. Profiles are drawn anew several
times and planned from each time; every draw runs the plan's own computation with exact noise, and one goes through
``session.release``. A report is kept when all cells of all twelve numbers are within their tolerances, bias and noise together;
quantiles are judged by ranks beyond those of the grid's best point. Sales are the lines with a positive quantity.

    python bench/plan_report.py --draws 200 --profiles 10 [--data folder] [--currency pure gaussian]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import steelyard as sy
from steelyard.bounding._reading import ErrorReading
from steelyard.models.accuracy import Goal, reach
from steelyard.noise import ExactNoise

CHANCE = 0.05
KEYS = ["United Kingdom", "Germany", "France", "EIRE", "Spain"]
BY: dict[str, Any] = {"by": "country", "keys": KEYS}
LOOK = "0.3"
SEARCHED = ("revenue", "pieces", "lines")


def sales(folder: Path) -> Any:
    import pyarrow.parquet as parquet

    rows = parquet.read_table(folder / "online_retail.parquet").to_pandas()
    rows = rows[rows.quantity > 0].reset_index(drop=True)
    rows["spend"] = rows.quantity * rows.unit_price
    return rows[["customer", "country", "quantity", "unit_price", "spend"]]


def looks(session: Any) -> tuple[Any, Any, Any]:
    """The three profiles that the report is planned from."""
    spend = session.release(sy.Profile("spend", epsilon=LOOK, upper=2**19)).value
    pieces = session.release(sy.Profile("quantity", epsilon=LOOK, upper=2**18)).value
    lines = session.release(sy.Profile(rows=True, epsilon=LOOK, upper=2**13)).value
    return spend, pieces, lines


def report(spend: Any, pieces: Any, lines: Any) -> Any:
    """Twelve numbers, each within what its reader can live with."""
    return sy.Plan(
        {
            "revenue": (sy.Sum("spend", cap=spend), "10%"),
            "pieces": (sy.Sum("quantity", cap=pieces), "10%"),
            "lines": (sy.Count(cap=lines), "5%"),
            "customers": (sy.CountUsers(), 40),
            "customers by country": (sy.CountUsers(max_keys=5, **BY), 60),
            "lines by country": (sy.Count(cap=lines, **BY), 25_000),
            "revenue by country": (sy.Sum("spend", cap=spend, **BY), 1_000_000),
            "mean price": (sy.Mean("unit_price", lower=0, upper=20, cap=8192), "0.6"),
            "mean pieces per line": (sy.Mean("quantity", lower=0, upper=50, cap=8192), "1.5"),
            "median price": (sy.Quantile("unit_price", lower=0, upper=20, cap=8192), "10%"),
            "ninth decile of price": (sy.Quantile("unit_price", quantile="0.9", lower=0, upper=20, cap=8192), "10%"),
            "lines by price": (sy.Histogram("unit_price", edges=[0, 1, 2, 4, 8, 20], cap=8192), 30_000),
        },
        profile=[spend, pieces, lines],
        confidence=1 - CHANCE,
    )


def judges(rows: Any) -> dict[str, Callable[[Any], float]]:
    """How far a value is from the truth, in the unit of its tolerance (shares as shares)."""
    price = np.clip(rows.unit_price.to_numpy(), 0, 20)
    ordered, n = np.sort(price), len(rows)

    def cells(truth: Any) -> Callable[[Any], float]:
        return lambda value: float(max(abs(value[key] - truth[key]) for key in truth))

    def off(truth: float, scale: float = 1.0) -> Callable[[Any], float]:
        return lambda value: abs(float(value) - truth) / scale

    def rank(q: float) -> Callable[[Any], float]:
        grid = np.arange(0, 20 + 0.01, 0.02)
        best = np.abs(np.searchsorted(ordered, grid - 1e-9) - q * n).min()
        return lambda value: (abs(float(np.searchsorted(ordered, value - 1e-9)) - q * n) - best) / n

    edges = [0, 1, 2, 4, 8, 20]
    inside = np.clip(np.searchsorted(edges, price, side="right") - 1, 0, 4)
    by_price = {(float(edges[i]), float(edges[i + 1])): int((inside == i).sum()) for i in range(5)}
    country = rows[rows.country.isin(KEYS)].groupby("country")
    return {
        "revenue": off(rows.spend.sum(), rows.spend.sum()),
        "pieces": off(rows.quantity.sum(), rows.quantity.sum()),
        "lines": off(n, n),
        "customers": off(rows.customer.nunique()),
        "customers by country": cells(country.customer.nunique().to_dict()),
        "lines by country": cells(country.size().to_dict()),
        "revenue by country": cells(country.spend.sum().to_dict()),
        "mean price": off(float(price.mean())),
        "mean pieces per line": off(float(np.clip(rows.quantity, 0, 50).mean())),
        "median price": rank(0.5),
        "ninth decile of price": rank(0.9),
        "lines by price": cells(by_price),
    }


class Once:
    """A table that asks its engine each question once, for many draws of one plan."""

    def __init__(self, table: Any) -> None:
        self._table, self._known = table, dict[str, Any]()

    def __getattr__(self, name: str) -> Any:
        def ask(*asked: Any) -> Any:
            question = repr((name, asked))
            if question not in self._known:
                self._known[question] = getattr(self._table, name)(*asked)
            return self._known[question]

        return ask


def amount(levels: list[float], currency: str) -> float:
    return sum(level**2 if currency == "gaussian" else level for level in levels)


def searched(table: Any, division: Any, currency: str, kind: dict[str, str]) -> float:
    """What accuracy first spends on the three totals, one after the other, at the plan's caps."""
    spent = 0.0
    for share in division.shares:
        if share.name in SEARCHED:
            account = sy.open_account(":memory:", "one", unit=sy.users("customer"), epsilon=10, **kind)
            task = replace(share.task, epsilon=None, mu=None, cap=int(share.cap))
            reach(sy.Session(table, account), task, Goal("relative", share.wish.size[0], 1 - CHANCE / 12))
            spent += float(account.spent.value)
    return spent


def one_by_one(plan: Any, table: Any, terms: Any) -> dict[str, float]:
    """The least level of each number at a twelfth of the chance."""
    readings = [ErrorReading.of(each, plan.profiles, table.schema, terms) for each in plan.wishes]
    return {reading.wish.name: reading.odds().least(CHANCE / 12)[0] for reading in readings}


def measure(rows: Any, table: Any, currency: str, draws: int, profiles: int) -> None:
    kind = {"delta": "1e-6"} if currency == "gaussian" else {}
    told, held, prices, far = judges(rows), 0, list[list[float]](), dict.fromkeys(judges(rows), 0)
    start, checked = time.process_time(), False
    for turn in range(profiles):
        account = sy.open_account(":memory:", "report", unit=sy.users("customer"), epsilon=50, **kind)
        session = sy.Session(table, account)
        plan = report(*looks(session))
        division: Any = session.plan(plan)
        alone = one_by_one(plan, table, account.terms)
        whole, each = float(division.cost.value), amount(list(alone.values()), currency)
        first = each
        if turn < 1:  # a search takes seconds
            rest = amount([level for name, level in alone.items() if name not in SEARCHED], currency)
            first = rest + searched(table, division, currency, kind)
        same = amount([max(alone.values())] * 12, currency)
        prices.append([whole, same / whole, each / whole, first / whole if turn < 1 else float("nan")])
        if turn == 0:
            print(division, flush=True)
        once, noise = Once(table), ExactNoise()
        for draw in range(draws // profiles):
            value = division.present(division.run(once, noise).value)
            if turn == 0 and draw == 0:
                value, checked = session.release(plan, key="report").value, True
            missed = [
                share.name for share in division.shares if told[share.name](value[share.name]) > share.wish.size[0]
            ]
            held += not missed
            for name in missed:
                far[name] += 1
    total = draws // profiles * profiles
    whole, same, each, first = np.nanmedian(np.array(prices), axis=0)
    unit = "mu squared" if currency == "gaussian" else "epsilon"
    print(
        f"\n{currency}: plan {whole:.3g} {unit} (median of {profiles} sets of profiles at {LOOK} each, not counted anywhere)"
    )
    print(f"  equal shares              {same:.2f} times as much")
    print(f"  one by one, own least     {each:.2f} times")
    print(f"  one by one, accuracy first {first:.2f} times (first set of profiles)")
    print(f"  all twelve within their tolerances in {held} of {total} draws ({held / total:.1%}); "
          f"one through session.release: {checked}; misses {({k: v for k, v in far.items() if v})}; "
          f"{time.process_time() - start:.0f} s", flush=True)  # fmt: skip


def main() -> None:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--profiles", type=int, default=10)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STEELYARD_DATA", beside)))
    parser.add_argument("--currency", nargs="+", default=["pure", "gaussian"], choices=["pure", "gaussian"])
    options = parser.parse_args()
    import pyarrow as pa

    rows = sales(options.data)
    table = sy.read(pa.Table.from_pandas(rows, preserve_index=False))
    for currency in options.currency:
        measure(rows, table, currency, options.draws, options.profiles)


if __name__ == "__main__":
    main()
