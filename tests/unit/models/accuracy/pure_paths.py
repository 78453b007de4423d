"""What a ridge path on a pure account needs: a small table, a search and an account."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from steelyard.ledger import open_account
from steelyard.ledger._account import LedgerAccount
from steelyard.models._columns import Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.privacy import rows
from steelyard.tables import Table, read
from unit.models.accuracy.made_up import Array

N = 2000
DRAWS = np.random.default_rng(8)
X = DRAWS.uniform(-1, 1, (N, 2)) / 2
Y = np.clip(X @ [1.2, -0.8] + 0.05 * DRAWS.standard_normal(N), -1, 1)
SEARCH = RidgeSearch(Features([Plain("x0"), Plain("x1")], "clip", 1), Target("y", -1, 1), Fraction(1, 200))


def table(y: Array = Y) -> Table:
    """The rows, with these labels."""
    return read({"x0": X[:, 0], "x1": X[:, 1], "y": y})


def account(place: str | Path = ":memory:", epsilon: float = 100, name: str = "pure") -> LedgerAccount:
    """A pure account for them."""
    return open_account(place, name, unit=rows(neighbours="replace", n=N), epsilon=epsilon)
