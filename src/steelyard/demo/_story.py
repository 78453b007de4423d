"""What the demo tells about: made-up purchases of many small customers and a few enormous ones, and what was found.

Generated, so that truth may be shown beside the private answers. The generator is Python's own and seeded: it makes
data, never noise.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

COUNTRIES = ("DE", "ES", "FR", "IT", "NL", "PL")
_SHARES = (30, 12, 25, 15, 10, 8)


@dataclass
class Story:
    """What the demo has found out so far, for the terminal and for the report."""

    folder: Path
    quiet: bool
    facts: dict[str, Any]

    def say(self, text: str) -> None:
        """Tell whoever is watching."""
        if not self.quiet:
            print(text, flush=True)

    @property
    def purchases(self) -> Path:
        """The file of purchases."""
        return self.folder / "purchases.parquet"

    @property
    def ledger(self) -> Path:
        """The file of all its accounts."""
        return self.folder / "budget.db"

    def columns(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Who bought, for how much, and where."""
        table = pyarrow.parquet.read_table(self.purchases)
        return table["user_id"].to_numpy(), table["amount"].to_numpy(), np.asarray(table["country"].to_pylist())


@dataclass
class Purchases:
    """One row per purchase, as columns."""

    user_id: list[int] = field(default_factory=list)
    country: list[str] = field(default_factory=list)
    amount: list[float] = field(default_factory=list)


def make_purchases(customers: int = 20_000) -> Purchases:
    """Purchases whose spending per customer has a Pareto tail."""
    draw, made = random.Random(2026), Purchases()
    for user in range(customers):
        country = draw.choices(COUNTRIES, _SHARES)[0]
        size = draw.paretovariate(1.8)
        for _ in range(min(5000, 1 + int(draw.expovariate(0.4) * size))):
            made.user_id.append(user)
            made.country.append(country)
            made.amount.append(round(draw.lognormvariate(2.9, 0.8), 2))
    return made


def totals_by_user(data: Purchases) -> list[float]:
    """What each customer spent: a fact one may look at only because the data is made up."""
    totals: dict[int, float] = {}
    for user, amount in zip(data.user_id, data.amount, strict=True):
        totals[user] = totals.get(user, 0.0) + amount
    return list(totals.values())


def write_parquet(data: Purchases, path: Path) -> None:
    """The purchases as a Parquet file."""
    pyarrow.parquet.write_table(pyarrow.table(asdict(data)), path)
