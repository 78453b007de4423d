"""An n that is not the table's: no sensitivity rests on it, and what is certified is the total over it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from off_ledger import InMemory
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._designs import Design, Exact, best_triangle
from steelyard.models.accuracy._losses import MARGIN, ClippedLoss, LoggedLoss, LossLook
from steelyard.models.accuracy._split import Whole
from steelyard.models.accuracy._users import as_exact, weighed, weights
from steelyard.privacy import rows as rows_of
from steelyard.tables import read

N = 60
CLAIMED = (1, 7, N, 10**5, 10**12)
DRAWS = np.random.default_rng(9)


def rows(first: int) -> tuple[Any, Any]:
    """Rows as long as may be, all alike but for one, whose label says the opposite in the neighbour."""
    x = np.tile([float(SIZE), 0.0], (N, 1))
    y = np.full(N, float(SIZE))
    x[0], y[0] = (float(SIZE), 0.0) if first else (0.0, float(SIZE)), float(SIZE if first else -SIZE)
    return x, y


@pytest.mark.parametrize("claimed", CLAIMED)
def test_one_row_moves_the_statistics_no_further_whatever_n_is_declared(claimed: int) -> None:
    one, other = (replace(Exact.of_rows(*rows(first)), n=claimed) for first in (0, 1))
    for design in (Design(SIZE, 2, 32), Design(SIZE, 2, 20)):
        apart = [int(a) - int(b) for a, b in zip(design.values(one), design.values(other), strict=True)]
        assert sum(each**2 for each in apart) <= design.square
    triangle = best_triangle(SIZE, 2, 1.0, 2)
    moved = sum(abs(a - b) for a, b in zip(triangle.values(one), triangle.values(other), strict=True))
    assert moved <= triangle.sensitivity


@pytest.mark.parametrize("claimed", CLAIMED)
def test_one_user_moves_the_size_of_labels_no_further_whatever_n_is_declared(claimed: int) -> None:
    found = []
    for first in (0, 1):
        x, y = rows(first)
        sums = weighed(np.vstack([x.T, y]), weights(np.full(N, 2)))
        found.append(as_exact(claimed, sums, N * int(weights(np.array([2]))[0])).square)
    assert abs(found[0] - found[1]) <= (SIZE * 2**10) ** 2


@pytest.mark.parametrize("claimed", CLAIMED)
def test_a_look_adds_up_the_same_whatever_n_is_declared_and_compares_it_with_n_targets(claimed: int) -> None:
    held = Whole(
        read({"a": [0.1], "y": [0.2]}),
        Features([Plain("a")], "clip", 1),
        Target("y", -1, 1),
        rows_of(neighbours="replace", n=claimed),
    )
    assert held.units == claimed
    looks: list[LossLook] = [ClippedLoss((2**47, 0), 0.25), LoggedLoss((2**20, 0), 0.25, 3 << MARGIN)]
    for look in looks:
        told = [look.value(Declared(rows(1), n)) for n in (claimed, N)]
        assert told[0] - told[1] == (N - claimed) * look.allowed
        assert look.limit() == 0


@dataclass
class Declared(InMemory):
    """Rows on an account that declares another number of them."""

    n: int

    @property
    def units(self) -> int:
        return self.n
