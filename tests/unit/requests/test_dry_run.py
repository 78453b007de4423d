"""A dry run goes through all checks of a request and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.account import Allowance
from steelyard.ledger import open_account
from steelyard.privacy import Loss, rows
from steelyard.requests import DryRun, WouldCharge


def test_a_dry_run_lets_nothing_be_added(tmp_path: Path) -> None:
    real = open_account(str(tmp_path / "p.db"), "pure", unit=rows(), epsilon=1)
    one, dry = Loss.pure("0.1"), DryRun(real)
    with pytest.raises(WouldCharge) as checked:
        dry.charge(one, key="a", request=b"a")
    assert checked.value.cost == one
    made = real.charge(one, key="a", request=b"a")
    with pytest.raises(WouldCharge):
        dry.charge(one, key="a", request=b"a")
    made.store(b"answer")
    kept = dry.charge(one, key="a", request=b"a")
    assert kept.answer == b"answer"
    kept.raise_to(one)
    lent = Allowance(dry, Loss.pure("0.5"))  # a handle that is made of it charges by itself
    adding: list[Callable[[], object]] = [
        lambda: kept.raise_to(Loss.pure("0.2")),
        lambda: kept.store(b"another", step=1),
        lambda: lent.charge(one, key="b", request=b"b"),
    ]
    for add in adding:
        with pytest.raises(WouldCharge):
            add()
    assert real.spent == one
