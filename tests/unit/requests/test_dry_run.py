"""A dry run goes through all checks of a request and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from steelyard.account import Allowance
from steelyard.desk import Desk, NoTable
from steelyard.ledger import open_account
from steelyard.mechanisms import Laplace
from steelyard.noise import ExactNoise, Noise
from steelyard.privacy import Loss, rows
from steelyard.requests._dry_run import DryRun, WouldCharge


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


def test_no_row_is_read_for_a_step_that_a_dry_run_could_not_store(tmp_path: Path) -> None:
    real, event = open_account(str(tmp_path / "p.db"), "pure", unit=rows(), epsilon=1), Laplace(1, Fraction(2)).event
    read: list[str] = []

    def reads(noise: Noise) -> Any:
        read.append("a row")
        return {"total": 1}

    paid = Desk(NoTable(), ExactNoise(), real, "k", {})
    paid.claim(paid.charge(event), {"first": 1})  # a path of which one step was answered, and no more
    for at in (DryRun(real), Allowance(DryRun(real), Loss.pure("0.5")), DryRun(Allowance(real, Loss.pure("0.5")))):
        desk = Desk(NoTable(), ExactNoise(), at, "k", {})
        charge = desk.charge(event)
        steps: list[Callable[[], object]] = [
            lambda desk=desk, charge=charge: desk.claim(charge, reads, step=1),  # type: ignore[misc]
            lambda desk=desk, charge=charge: desk.draw(charge, lambda noise: bytes(reads(noise)), step=1),  # type: ignore[misc]
            lambda desk=desk, charge=charge: desk.answer(charge, event, lambda _, noise: reads(noise), step=1),  # type: ignore[misc]
        ]
        for step in steps:
            with pytest.raises(WouldCharge):
                step()
    assert read == []
