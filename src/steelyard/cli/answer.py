"""What a command hands back: text for a person, data for a program; and progress for whoever waits."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One command's result."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0


@contextmanager
def waiting(stage: str) -> Iterator[None]:
    """Say on a terminal which stage is running once it takes over two seconds; never anything about rows."""
    done = threading.Event()
    if sys.stderr.isatty():
        threading.Thread(target=_tick, args=(stage, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _tick(stage: str, done: threading.Event) -> None:
    start = time.monotonic()
    if done.wait(2):
        return
    while not done.wait(1):
        print(f"\r… {stage} ({time.monotonic() - start:.0f} s)", end="", file=sys.stderr, flush=True)
    print("\r" + " " * (len(stage) + 20) + "\r", end="", file=sys.stderr, flush=True)


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of text as aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
