"""The mark of rows that are kept with workers: theirs alone, in whatever order and blocks they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from steelyard.tables._unit_blocks import MarkedBlocks

ROWS = np.random.default_rng(3).integers(-(2**31), 2**31, (500, 4)).astype(np.int32)
ROWS[0], ROWS[1] = 0, (1, 1, 2, 2)


def marked(rows: Any, *ends: int, step: int | None = None) -> int:
    """The mark of rows that come in blocks, of which a pass looks at some."""

    def blocks() -> Iterator[tuple[Any, Any]]:
        for part in np.split(rows, list(ends)):
            yield part, np.ones(len(part), dtype=bool)

    seen = MarkedBlocks(blocks())
    for _, _ in zip(range(step or 0), seen, strict=False):
        pass
    return seen.mark()


def test_the_order_of_rows_and_the_ends_of_blocks_show_in_no_mark() -> None:
    mixed = np.random.default_rng(4).permutation(ROWS)
    assert len({marked(ROWS), marked(mixed, 1, 77, 77, 300), marked(ROWS, 250, step=1), marked(ROWS[::-1], 9)}) == 1


@pytest.mark.parametrize(
    "change", ["a cell", "columns", "cells of two rows", "a row less", "a row twice", "a row of zeros less"]
)
def test_other_rows_have_another_mark(change: str) -> None:
    other = ROWS.copy()
    if change == "a cell":
        other[7, 2] ^= 1
    elif change == "columns":
        other = np.ascontiguousarray(other[:, [0, 1, 3, 2]])
    elif change == "cells of two rows":
        other[[5, 6], 0] = other[[6, 5], 0]
    else:
        chosen = {"a row less": range(499), "a row twice": [*range(500), 3], "a row of zeros less": range(1, 500)}
        other = other[list(chosen[change])]
    assert marked(other) != marked(ROWS)
