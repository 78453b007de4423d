"""Small generated rows on the grid of features, for tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from off_ledger import InMemory
from steelyard.models._columns import SIZE

Array = NDArray[np.float64]


@dataclass
class Data(InMemory):
    """What a step may read."""

    def solve(self, penalty: float) -> tuple[Array, Array]:
        """A and the best model, in doubles."""
        x, y = (part / SIZE for part in self.rows)
        matrix = x.T @ x + len(y) * penalty * np.eye(x.shape[1])
        return matrix, np.asarray(np.linalg.solve(matrix, x.T @ y), dtype=np.float64)

    def excess(self, model: Array, penalty: float) -> float:
        """The true excess risk."""
        matrix, best = self.solve(penalty)
        off = model - best
        return float(off @ matrix @ off) / (2 * len(self.rows[1]))


def whole(x: Array) -> Array:
    """Rows of length at most one as whole steps, rounded toward zero."""
    return np.trunc(x * SIZE)


def generated(n: int, width: int, seed: int, noise: float = 0.1, decay: float = 0.0) -> Data:
    """Rows in the unit ball and labels of a linear model, features of falling size if ``decay`` is given."""
    draws = np.random.default_rng(seed)
    x = draws.standard_normal((n, width)) * np.exp(-decay * np.arange(width))
    x /= np.maximum(np.linalg.norm(x, axis=1), 1.0)[:, None]
    y = np.clip(x @ (draws.standard_normal(width) / 2) + noise * draws.standard_normal(n), -1, 1)
    return Data((whole(x), np.rint(y * SIZE)))
