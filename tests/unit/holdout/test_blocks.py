"""Where a block of question numbers ends follows from how many were asked before it, and from nothing else."""

from __future__ import annotations

import pytest

from steelyard.holdout._questions import LARGEST, Counter


def counter(asked: int, most: int | None = None, **state: object) -> Counter:
    made = object.__new__(Counter)
    made.__dict__.update({"asked": asked, "_most": most, **state})
    return made


@pytest.mark.parametrize(
    ("asked", "most", "size"),
    [(0, None, 1), (7, None, 1), (8, None, 2), (100, None, 13), (10**9, None, LARGEST), (100, 105, 5), (100, 100, 1)],
)
def test_the_size_of_a_block_is_pinned_because_old_entries_are_read_by_it(
    asked: int, most: int | None, size: int
) -> None:
    assert counter(asked, most)._size() == size


class Hasty(Counter):
    """The twin: a process that met others takes smaller blocks, and does not say so in its entry."""

    def _size(self) -> int:
        return 1 if self._crowded else super()._size()


def cut(kind: type[Counter], crowded: int) -> list[int]:
    """The numbers at which ten blocks end, as one process reads them; what it asks for needs nothing else."""
    asked, ends = 20, []
    for _ in range(10):
        made = counter(asked, _crowded=crowded)
        made.__class__ = kind
        asked += made._size()
        ends.append(asked)
    return ends


def test_all_processes_cut_the_numbers_alike_and_one_that_does_not_is_caught() -> None:
    assert cut(Counter, 0) == cut(Counter, 5)
    assert cut(Hasty, 0) != cut(Hasty, 5)
