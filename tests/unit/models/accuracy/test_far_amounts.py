"""An amount or a label of any size is answered, or refused before anything is charged."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.models._fits import FitLinear
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.privacy import rows
from steelyard.session import Session
from steelyard.tables import read

N = 50
LINE = np.linspace(-1, 1, N)
TABLE = read({"a": LINE, "y": LINE})
AMOUNTS = ("1e-300", "1e-59", "1e-20", "1e300")
KINDS: list[tuple[str, bool, str]] = [
    ("target_loss", True, "auto"),
    ("excess_loss", True, "auto"),
    ("target_loss", False, "auto"),
    ("excess_loss", False, "auto"),
    ("target_loss", True, "disjoint"),
]


@pytest.mark.parametrize(("goal", "gaussian", "check"), KINDS)
def test_whatever_is_asked_is_answered_or_refused_before_it_is_charged(goal: str, gaussian: bool, check: str) -> None:
    unit = rows() if check == "disjoint" else rows(neighbours="replace", n=N)
    given: dict[str, Any] = {"delta": "1e-6"} if gaussian else {}
    refused = 0
    for upper, amount, penalty in product(("1e160", "1e99", "1", "1e-99", "1e-160"), AMOUNTS, ("1e-8", "100")):
        account = open_account(":memory:", "far", unit=unit, epsilon=5, **given)
        wanted: dict[str, Any] = {goal: amount, "penalty": penalty, "check": check}
        asked = AccuracyFirst(FitLinear(["a"], "y", 0, upper, x_bound=1), **wanted)
        try:
            asked.release(Session(TABLE, account), key="k")
        except InvalidTask:
            assert account.spent.amount == 0
            refused += 1
    assert 0 < refused < 40
