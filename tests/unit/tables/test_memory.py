"""How much memory a table's engine works in, and what happens where that is too little."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

import steelyard as sy
from steelyard.errors import TableError
from steelyard.tables._engine import MEMORY, DuckEngine

DATA = {"who": np.arange(1000) % 50, "amount": np.ones(1000)}


def limit_of(table: Any) -> str:
    [(found,)] = table._engine._cursor().execute("SELECT current_setting('memory_limit')").fetchall()
    return str(found)


def released(table: Any) -> float:
    account = sy.open_account(":memory:", "memory", unit=sy.users("who"), epsilon=50)
    return float(sy.Session(table, account).release(sy.Sum("amount", epsilon=40, cap=20)).value)


def test_duckdb_works_in_what_it_was_given_or_in_the_default() -> None:
    assert limit_of(sy.read(DATA)) == f"{MEMORY / 2**20:.1f} MiB"
    assert limit_of(sy.read(DATA, memory=200 * 2**20)) == "200.0 MiB"


@pytest.mark.parametrize("memory", [0, True, 1.5e9, "1GB", 99_999_999])
def test_what_is_no_memory_is_refused(memory: Any) -> None:
    with pytest.raises(TableError, match="whole number of bytes"):
        sy.read(DATA, memory=memory)


def test_a_question_that_needs_more_is_asked_again_with_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    whole = DuckEngine._rows

    def too_small(self: DuckEngine, sql: str, columns: Any) -> Any:
        asked.append(limit_of(sy.read(DATA)) if not asked else "more")
        if len(asked) == 1:
            raise duckdb.OutOfMemoryException("a text that may depend on rows")
        return whole(self, sql, columns)

    monkeypatch.setattr(DuckEngine, "_rows", too_small)
    table = sy.read(DATA)
    assert abs(released(table) - 1000) < 20
    assert len(asked) == 2
    assert limit_of(table).endswith("GiB")


def test_a_million_groups_are_added_up_within_a_hundred_megabytes() -> None:
    """They go to disk: the same answer, and no failure."""
    many = {"who": np.arange(1_000_000) % 400_000, "amount": np.ones(1_000_000)}
    assert abs(released(sy.read(many, memory=100_000_000)) - 1_000_000) < 20
