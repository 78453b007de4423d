"""A Laplace path outlives its process, and knows the total it began with by a seal that says nothing to others."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.bounding import Count, Sum
from steelyard.desk import FAILED
from steelyard.errors import TableError
from steelyard.ledger import Account, open_account
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._total import TotalSearch
from steelyard.privacy import users
from steelyard.session import Session
from steelyard.tables import Table, read

SPEND = np.random.default_rng(3).uniform(0, 10, 2000)
SEARCH = TotalSearch(Sum("spend", cap=10))


def rows_with(changed: float = 0.0) -> Table:
    spend = SPEND.copy()
    spend[7] += changed
    return read({"who": np.arange(2000), "spend": spend})


def account(place: str | Path = ":memory:", name: str = "totals") -> Account:
    return open_account(place, name, unit=users("who"), epsilon=4)


def begun(at: Account, key: str = "k") -> Any:
    found = Session(rows_with(), at).open(SEARCH, key=key).reach(Goal("relative", 0.05, 0.9))
    assert found.release is not None
    return found


def goes_on_with(at: Account, table: Table) -> Any:
    return Session(table, at).open(SEARCH, key="k").reach(Goal("relative", 0.002, 0.9))


def test_a_path_is_sharpened_by_whoever_opens_its_key_and_costs_its_last_level(tmp_path: Path) -> None:
    first = begun(account(tmp_path / "budget.db"))
    at = Account(tmp_path / "budget.db", "totals")
    more = goes_on_with(at, rows_with())
    assert more.path[: len(first.path)] == first.path
    assert more.reason == "target_met"
    assert more.path[-1].bound < first.path[-1].bound / 2
    assert at.spent.amount == more.spent == round(more.path[-1].mu2 * 10**6)
    assert abs(more.release.value - SPEND.sum()) <= more.path[-1].bound


def test_the_order_of_the_rows_does_not_matter() -> None:
    at = account()
    begun(at)
    order = np.random.default_rng(1).permutation(2000)
    assert goes_on_with(at, read({"who": order, "spend": SPEND[order]})).reason == "target_met"


def fails(at: Account, table: Table) -> bool:
    """Whether going on with this table pays, says no more than any failure does, and refines nothing."""
    before = at.spent.amount
    try:
        goes_on_with(at, table)
    except TableError as fault:
        return str(fault) == FAILED and at.spent.amount > before
    return False


def test_another_total_fails_a_level_that_is_paid_for_and_ends_the_path() -> None:
    at = account()
    kept = begun(at)
    assert fails(at, rows_with(0.5))
    paid = at.spent
    again = Session(rows_with(0.5), at).open(SEARCH, key="k").reach(Goal("relative", 0.05, 0.9))
    assert again.release is not None
    assert again.release.value == kept.release.value, "what was answered before stays answered"
    for asked in (0.002, 0.001):  # for good, whatever the rows, and for nothing more
        with pytest.raises(TableError, match="for good"):
            Session(rows_with(), at).open(SEARCH, key="k").reach(Goal("relative", asked, 0.9))
    assert at.spent == paid


def test_a_change_that_the_cap_cuts_off_changes_no_total_and_goes_on() -> None:
    at, spend = account(), SPEND.copy()
    spend[7] = 11
    Session(read({"who": np.arange(2000), "spend": spend}), at).open(SEARCH, key="k").reach(Goal("relative", 0.05, 0.9))
    spend[7] = 12
    assert goes_on_with(at, read({"who": np.arange(2000), "spend": spend})).reason == "target_met"


def test_a_path_that_does_not_compare_its_total_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    at = account()
    begun(at)
    monkeypatch.setattr("steelyard.models.accuracy._transcript.hmac.compare_digest", lambda *_: True)
    assert not fails(at, rows_with(0.5))


def test_a_table_that_cannot_be_read_fails_like_a_changed_one(tmp_path: Path) -> None:
    at, file = account(), tmp_path / "spend.parquet"
    pq.write_table(pa.table({"who": np.arange(2000), "spend": SPEND}), file)
    table = read(file)
    Session(table, at).open(SEARCH, key="k").reach(Goal("relative", 0.05, 0.9))
    file.unlink()
    assert fails(at, table)


def seals() -> set[str]:
    """What is stored about the same rows under two ledgers, two accounts and two keys."""
    places = [account(), account(), account(name="other")]
    found = [begun(at, key).release.point["integers"] for at in places for key in ("k", "l")]
    assert len(found) == 6
    return set(found)


def test_equal_rows_cannot_be_recognized_by_their_seals() -> None:
    assert len(seals()) >= 4  # places in memory are one ledger or several; keys and accounts differ anyway


def test_an_unkeyed_digest_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Account, "seal", lambda self, purpose, data: hashlib.sha256(data).digest())
    assert len(seals()) == 1


def test_a_count_of_rows_goes_on_too() -> None:
    at = account()
    search = TotalSearch(Count(cap=1))
    Session(rows_with(), at).open(search, key="c").reach(Goal("relative", 0.1, 0.9))
    more = Session(rows_with(), at).open(search, key="c").reach(Goal("relative", 0.01, 0.9))
    assert abs(more.release.value - 2000) <= more.path[-1].bound  # type: ignore[union-attr]
