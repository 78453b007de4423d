"""Named steps of a path at a desk: read back if stored, bought once, and bought anew only where a price was abandoned.

A step that was charged and never drawn keeps its price for ever. The same target asks for the same price and gets it
drawn; another target would pay another price, so the step is bought under a further name and the first is wasted. So it is
with a step that failed: whoever asks for it is told so, for good, and what other steps have answered stays answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from steelyard.account import Charge
from steelyard.desk import Desk
from steelyard.errors import KeyConflict, TableError
from steelyard.privacy import Event
from steelyard.release import Release

TRIES = 3
MEANWHILE = (
    "another question was asked of this path at the same time and took its next step. Nothing is lost: ask again, and both go "
    "on from what is stored."
)


def stored(desk: Desk, step: str) -> Release | None:
    """The stored answer of a step, under whichever name it was bought."""
    return next(_answers(desk, step), None)


def all_stored(desk: Desk, step: str) -> list[Release]:
    """Every stored answer of a step: two askers at once may each have bought it under a name of its own."""
    return list(_answers(desk, step))


def _answers(desk: Desk, step: str) -> Iterator[Release]:
    """What is stored under each name of a step; a failure answers nothing."""
    for attempt in range(TRIES):
        with suppress(TableError):
            found = desk.find(named(step, attempt))
            if found is not None:
                yield found


def bought(desk: Desk, event: Event, step: str) -> Charge:
    """A durable charge for a step."""
    for attempt in range(TRIES - 1):
        try:
            return desk.charge(event, named(step, attempt))
        except KeyConflict:
            continue
    return desk.charge(event, named(step, TRIES - 1))


def named(step: str, attempt: int) -> str:
    """What a step is called when it is bought for the first time, or again."""
    return step if attempt == 0 else f"{step} again {attempt}"
