"""The corpus: neighbours really differ in one unit, and the hostile values are really there."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from steelyard.audit._corpus import Corpus, decimals, floats, integers, texts
from steelyard.privacy import labels, rows, users

POOLS = {"who": texts("a"), "amount": floats(), "land": texts("FR")}


def bag(table: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table)


@pytest.mark.parametrize("share", [1, 3, 9])
def test_neighbours_differ_in_the_rows_of_one_user(share: int) -> None:
    corpus = Corpus(users("who"), POOLS, share=share)
    for base in corpus.tables().values():
        for neighbour in corpus.neighbours(base):
            changed = (bag(base) - bag(neighbour.rows)) + (bag(neighbour.rows) - bag(base))
            names = {row["who"] for row in [*base, *neighbour.rows] if repr(sorted(row.items())) in changed}
            assert len(names) <= 1
            assert not neighbour.same or not changed


def test_an_added_user_is_new_to_the_table() -> None:
    corpus = Corpus(users("who"), POOLS, share=1)
    for base in corpus.tables().values():
        for neighbour in corpus.neighbours(base):
            if "added" in neighbour.label:
                before, after = ({row["who"] for row in table} - {None} for table in (base, neighbour.rows))
                assert before <= after
                assert all(row in neighbour.rows for row in base[:1])


def test_a_replaced_user_gives_way_to_another_with_all_rows() -> None:
    corpus = Corpus(users("who", neighbours="replace", n=5), POOLS, share=1)
    for base in corpus.tables().values():
        before = {row["who"] for row in base} - {None}
        for neighbour in corpus.neighbours(base):
            after = {row["who"] for row in neighbour.rows} - {None}
            changed = (bag(base) - bag(neighbour.rows)) + (bag(neighbour.rows) - bag(base))
            names = {row["who"] for row in [*base, *neighbour.rows] if repr(sorted(row.items())) in changed}
            assert None not in names
            assert len(names) <= 2
            assert len(after) == len(before)


def test_rows_are_added_removed_replaced_or_relabelled_one_at_a_time() -> None:
    pools = {"y": floats(), "x": integers()}
    for unit, size in ((rows(), 1), (rows(neighbours="replace", n=5), 2), (labels("y"), 2)):
        corpus = Corpus(unit, pools, share=1)
        for base in corpus.tables().values():
            for neighbour in corpus.neighbours(base):
                changed = (bag(base) - bag(neighbour.rows)) + (bag(neighbour.rows) - bag(base))
                assert changed.total() <= size
                if unit == labels("y"):
                    pairs = zip(base, neighbour.rows, strict=True)
                    assert neighbour.same or all(a["x"] == b["x"] for a, b in pairs)


def test_every_hostile_value_reaches_some_table() -> None:
    corpus = Corpus(users("who"), POOLS, share=1)
    seen = [row["amount"] for n in corpus.neighbours([]) for row in n.rows]
    assert any(value is None for value in seen)
    assert any(value is not None and math.isnan(value) for value in seen)
    assert {math.inf, -math.inf, 5e-324, 2.0**53, 1.7976931348623157e308} <= {v for v in seen if v is not None}
    assert any(value == 0 and math.copysign(1, value) < 0 for value in seen if value is not None)


def test_arrow_tables_keep_their_schema_without_rows_and_in_chunks() -> None:
    corpus = Corpus(users("who"), {"who": integers(), "amount": decimals()})
    assert corpus.arrow([]).num_rows == 0
    assert corpus.arrow([]).column_names == ["who", "amount"]
    mixed = corpus.tables()["a mixed table"]
    assert corpus.arrow(mixed, chunks=7).column("who").num_chunks > 3
    assert corpus.arrow(mixed, chunks=7).num_rows == len(mixed)


def test_the_same_seed_makes_the_same_tables() -> None:
    one, two = (Corpus(users("who"), POOLS, seed=4) for _ in range(2))
    assert repr(one.tables()) == repr(two.tables())
    assert repr(one.tables()) != repr(Corpus(users("who"), POOLS, seed=5).tables())
