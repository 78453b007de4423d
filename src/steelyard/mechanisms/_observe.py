"""The audit's window: what went into a mechanism, seen only when the noise protects nobody anyway.

Inside ``with observing() as seen:`` every mechanism that is fed insecure noise appends the event it will be charged for
and the exact integers it is about to hide. A mechanism fed secure noise shows nothing, whatever the window.
Law: the test on ``noise.secure`` comes first and has no switch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.noise import Noise
    from steelyard.privacy import Event


@dataclass(frozen=True)
class Observed:
    """One call of a mechanism: the event it claims and its integers before noise."""

    event: Event
    values: tuple[int, ...]


_WINDOW: ContextVar[list[Observed] | None] = ContextVar("steelyard_window", default=None)


@contextmanager
def observing() -> Iterator[list[Observed]]:
    """Open the window in this context; the list fills as mechanisms run on insecure noise."""
    seen: list[Observed] = []
    token = _WINDOW.set(seen)
    try:
        yield seen
    finally:
        _WINDOW.reset(token)


def show(event: Event, values: Sequence[int], noise: Noise) -> None:
    """Called by every mechanism before it draws; silent unless the noise is insecure and a window is open."""
    if noise.secure is not False:
        return
    window = _WINDOW.get()
    if window is not None:
        window.append(Observed(event, tuple(int(value) for value in values)))
