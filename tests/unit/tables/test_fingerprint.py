"""A fingerprint tells whether the rows are the same, whatever their order, and nothing without its secret."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from steelyard.errors import ColumnMissing, InvalidTask
from steelyard.tables import Table, read

SECRET = b"a secret of enough bytes"


def made(x: Sequence[float | None], who: list[str]) -> Table:
    return read({"x": x, "who": who})


def test_the_order_of_rows_does_not_matter_and_every_change_of_a_row_does() -> None:
    same = made([1.5, 2.0, 2.0, None], ["a", "b", "b", "c"]).fingerprint(["x", "who"], SECRET)
    assert made([2.0, None, 1.5, 2.0], ["b", "c", "a", "b"]).fingerprint(["x", "who"], SECRET) == same
    for x, who in (
        ([1.5, 2.0, 2.0, 0.0], ["a", "b", "b", "c"]),
        ([1.5, 2.0, None], ["a", "b", "c"]),
        ([1.5, 2.0, 2.0, 2.0, None], ["a", "b", "b", "b", "c"]),
        ([2.0, 1.5, 2.0, None], ["a", "b", "b", "c"]),
        ([1.5, 2.0, 2.0, None], ["a", "b", "bc", ""]),
    ):
        assert made(x, who).fingerprint(["x", "who"], SECRET) != same


def test_another_secret_gives_another_fingerprint() -> None:
    table = made([1.0], ["a"])
    assert table.fingerprint(["x"], SECRET) != table.fingerprint(["x"], SECRET + b"!")


def test_an_empty_table_and_a_large_one_have_one() -> None:
    empty = read({"x": np.empty(0)})
    assert len(empty.fingerprint(["x"], SECRET)) == 64
    large = np.arange(200_000)
    assert read({"x": large}).fingerprint(["x"], SECRET) == read({"x": large[::-1].copy()}).fingerprint(["x"], SECRET)


def test_a_missing_column_or_a_short_secret_is_refused() -> None:
    with pytest.raises(ColumnMissing):
        made([1.0], ["a"]).fingerprint(["y"], SECRET)
    with pytest.raises(InvalidTask):
        made([1.0], ["a"]).fingerprint(["x"], b"short")
