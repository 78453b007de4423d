"""A small table for ridge models and classifiers on Gaussian accounts, of rows and of users."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.ledger import open_account
from steelyard.ledger._account import LedgerAccount
from steelyard.models._columns import Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._goal import Found
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.privacy import rows, users
from steelyard.tables import Table, read

N = 3000
DRAWS = np.random.default_rng(21)
X = DRAWS.uniform(-0.7, 0.7, (N, 2))
Y = np.clip(X @ [0.8, -0.5] + 0.05 * DRAWS.standard_normal(N), -1, 1)
C = (DRAWS.uniform(size=N) < 1 / (1 + np.exp(-(X @ [6.0, -4.0])))).astype(int)
WHO = DRAWS.integers(0, N // 3, N)
WHO[: N // 3] = np.arange(N // 3)

FEATURES = Features((Plain("a"), Plain("b")), norm="clip", x_bound=1)
RIDGE = RidgeSearch(FEATURES, Target("y", -1, 1), Fraction(1, 1000))
LOGISTIC = LogisticSearch(FEATURES, "c", (0, 1), Fraction(1, 1000))


def table(**other: Any) -> Table:
    """The rows, with these columns instead."""
    return read({"a": X[:, 0], "b": X[:, 1], "y": Y, "c": C, "who": WHO, **other})


def account(unit: str) -> LedgerAccount:
    """An account that hides one of the rows, or users."""
    hidden = rows(neighbours="replace", n=N) if unit == "rows" else users("who", neighbours="replace", n=N // 3)
    return open_account(":memory:", "bound", unit=hidden, epsilon=50, delta="1e-6")


def changed() -> Table:
    """The same rows but for one, which says the opposite."""
    y, c = Y.copy(), C.copy()
    y[5], c[5] = -y[5], 1 - c[5]
    return table(y=y, c=c)


def is_repeated(first: Found, again: Found) -> bool:
    """Whether an answer is an earlier one over again: the same model, clipped alike, for what was spent then."""
    told = [(each.reason, each.spent, each.reach, each.margin, each.path) for each in (first, again)]
    return told[0] == told[1] and np.array_equal(again.model, first.model)  # type: ignore[arg-type]
