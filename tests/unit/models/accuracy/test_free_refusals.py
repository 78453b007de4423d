"""What is said before a charge does not depend on rows: changed, more of them or none to be read, it is the same word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steelyard.account import Account
from steelyard.bounding import Count, Sum
from steelyard.cli import main
from steelyard.desk import Desk
from steelyard.errors import SteelyardError, TableError
from steelyard.ledger import Ledger, open_account
from steelyard.ledger._account import LedgerAccount
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._family import TRAIN
from steelyard.models.accuracy._reach import Reached
from steelyard.models.accuracy._transcript import Transcript
from steelyard.noise import Noise, TestNoise
from steelyard.privacy import Event, Unit, rows, users
from steelyard.requests._dry_run import DryRun, WouldCharge
from steelyard.session import Session
from steelyard.tables import Table, read

N = 800
LINEAR = FitLinear(["a", "b"], "y", -1, 1, x_bound=1)
LOGISTIC = FitLogistic(["a", "b"], "c", [0, 1], x_bound=1)
SWAPPED, SWAPPED_USERS = rows(neighbours="replace", n=N), users("who", neighbours="replace", n=N // 2)

# what is asked, of which unit, whether on a Gaussian account, and how to ask for more of it
PATHS: dict[str, tuple[Any, Unit, bool, dict[str, Any], dict[str, Any]]] = {
    "ridge target": (LINEAR, SWAPPED, True, {"target_loss": 0.1}, {"target_loss": 0.0001}),
    "ridge excess": (LINEAR, SWAPPED_USERS, True, {"excess_loss": 0.1}, {"excess_loss": 0.0001}),
    "logistic target": (LOGISTIC, SWAPPED, True, {"target_loss": 0.65}, {"target_loss": 0.1}),
    "logistic excess": (LOGISTIC, SWAPPED, True, {"excess_loss": 0.3}, {"excess_loss": 0.2}),
    "pure ridge": (LINEAR, SWAPPED, False, {"target_loss": 0.15}, {"target_loss": 0.0001}),
    "pure logistic": (LOGISTIC, SWAPPED, False, {"target_loss": 0.65}, {"target_loss": 0.1}),
    "pure excess": (LOGISTIC, SWAPPED, False, {"excess_loss": 0.3}, {"excess_loss": 0.2}),
    "disjoint rows": (LINEAR, rows(), True, {"target_loss": 0.2, "check": "disjoint"}, {"target_loss": 0.0001}),
    "disjoint users": (LOGISTIC, users("who"), True, {"target_loss": 0.65, "check": "disjoint"}, {"target_loss": 0.1}),
    "gaussian total": (
        Sum("y", lower=-1, cap=1),
        users("who"),
        True,
        {"relative_error": 0.3},
        {"relative_error": 1e-6},
    ),
    "laplace total": (Count(cap=2), users("who"), False, {"relative_error": 0.3}, {"relative_error": 1e-6}),
}


def frame(count: int = N, *, changed: bool = False) -> pd.DataFrame:
    draws = np.random.default_rng(5)
    a, b, noise = (draws.uniform(-0.6, 0.6, 2 * N)[:count] for _ in range(3))
    y = np.clip(a - b + 0.1 * noise, -1, 1)
    if changed:
        y[3], a[3] = -y[3], 0.25
    return pd.DataFrame({"a": a, "b": b, "y": y, "c": (y > 0).astype(int), "who": np.arange(count) // 2})


def named(source: Any) -> Table:
    """A table under the one name that all have: what a table is called is public, and a key is bound to it."""
    return read(source, name="people")


def gone(tmp_path: Path) -> Table:
    """A table whose rows can no longer be read at all."""
    frame().to_parquet(tmp_path / "gone.parquet")
    table = named(tmp_path / "gone.parquet")
    (tmp_path / "gone.parquet").unlink()
    return table


def others(tmp_path: Path) -> list[Table]:
    return [named(frame(changed=True)), *(named(frame(count)) for count in (2 * N, 7, 0)), gone(tmp_path)]


def account(kind: str) -> LedgerAccount:
    _, unit, gaussian, _, _ = PATHS[kind]
    return open_account(":memory:", kind, unit=unit, epsilon=40, **({"delta": "1e-6"} if gaussian else {}))


def ask(
    kind: str, at: Account, table: Table, *, more: bool, epsilon: str | None = None, noise: Noise | None = None
) -> Any:
    task, _, _, easy, hard = PATHS[kind]
    return AccuracyFirst(task, epsilon=epsilon, **{**easy, **(hard if more else {})}).release(
        Session(table, at, noise=noise), key="k"
    )


def transcript(kind: str, at: LedgerAccount, table: Table, *, more: bool, plan: bool) -> tuple[Any, ...]:
    """All that whoever asks without paying is told, and what the ledger holds afterwards."""
    told: tuple[Any, ...]
    try:
        found = ask(kind, DryRun(at) if plan else at, table, more=more, epsilon=None if plan else "0.000001")
        told = (str(found.certificate), found.reason, found.path) if isinstance(found, Reached) else (found.to_json(),)
    except (SteelyardError, WouldCharge) as fault:
        told = (type(fault), str(fault))
    return (*told, list(Ledger(at.location).export()), at.spent)


def differs(kind: str, tables: list[Table]) -> bool:
    """Whether any table is told from the one that a path began with, before or after its first step, for nothing."""
    own, at = named(frame()), account(kind)
    seen: list[bool] = []
    for begun in (False, True):
        if begun:
            # with some noise the looks of a divided path are the dearer part, and its next level is paid for by them
            ask(kind, at, own, more=False, noise=TestNoise(1))
            assert at.spent.amount
        for plan in (False, True):
            same = transcript(kind, at, own, more=begun, plan=plan)
            seen += [transcript(kind, at, other, more=begun, plan=plan) != same for other in tables]
    return any(seen)


@pytest.mark.parametrize("kind", PATHS)
def test_whoever_does_not_pay_is_told_the_same_of_every_table(kind: str, tmp_path: Path) -> None:
    assert not differs(kind, others(tmp_path))


def test_a_desk_that_counts_before_it_charges_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    charge = Desk.charge

    def counts(self: Desk, event: Event, step: str = "") -> Any:
        if self._table.count_units(self.terms.unit) != self.terms.unit.n:
            raise TableError("the table has another number of rows")
        return charge(self, event, step)

    monkeypatch.setattr(Desk, "charge", counts)
    assert differs("ridge target", [named(frame(7))])


def test_a_path_that_compares_before_its_level_rises_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    rise = Transcript.rise

    def compares(self: Transcript, step: Any, goal: Any) -> Any:
        told = f"integers {step.values(self.rows(self.desk._table, TRAIN))}".encode()
        if self._path and self.desk.seal(told).hex() != self._path[0].point.get("integers"):
            raise TableError("these are other rows")
        return rise(self, step, goal)

    monkeypatch.setattr(Transcript, "rise", compares)
    assert differs("laplace total", [named(frame(7))])


@pytest.mark.parametrize("unit", [(), ("--user", "who")])
def test_a_plan_prints_the_same_of_tables_of_any_size(
    unit: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A false --rows or --users under --plan gets no count out of anything."""
    said = []
    for count in (7, N, 2 * N):
        frame(count).to_parquet(tmp_path / "t.parquet")
        words = ["fit", str(tmp_path / "t.parquet"), "--label", "y", "--lower", "-1", "--upper", "1", "--epsilon", "1"]
        words += ["--features", "a:-1:1", "--target-loss", "0.05", "--out", str(tmp_path / "m.json"), "--plan"]
        code = main([*words, *unit, "--users" if unit else "--rows", "1"])
        out = capsys.readouterr()
        said.append((code, out.out, out.err))
    assert said[0][0] == 0
    assert said[0] == said[1] == said[2]
