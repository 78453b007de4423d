"""A small table of two classes, a search and a pure account for it."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.ledger import open_account
from steelyard.ledger._account import LedgerAccount
from steelyard.models._columns import Features, Plain
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.privacy import rows
from steelyard.tables import Table, read

N = 3000
DRAWN = np.random.default_rng(2)
X = DRAWN.uniform(-1, 1, (N, 2)) / math.sqrt(2)
Y = (DRAWN.random(N) < 1 / (1 + np.exp(-X @ [8.0, -6.0]))).astype(int)
SEARCH = LogisticSearch(Features([Plain("a"), Plain("b")], "clip", 1), "y", (0, 1), Fraction(1, 1000))


def table(y: Any = Y) -> Table:
    """The rows, with these classes."""
    return read({"a": X[:, 0], "b": X[:, 1], "y": y})


def account(place: str | Path = ":memory:", epsilon: float = 50) -> LedgerAccount:
    """A pure account for them."""
    return open_account(place, "pure", unit=rows(neighbours="replace", n=N), epsilon=epsilon)
