"""How many checks a second a holdout answers, its ledger synced to disk.

    python bench/holdout_speed.py [--checks 20000] [--folder DIR]

Two holdouts: 10,000 labels with predictions as arrays, and 1,000,000 labels with packed predictions. ``--checks`` is the
number measured. Clock time includes every sync of the disk; on a shared machine trust the processor's time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.holdout._classes import Packed, pack
from steelyard.holdout._holdout import Holdout


def measure(rows: int, checks: int, place: Path, *, packed: bool) -> tuple[float, float, str]:
    """Seconds on the clock and of processor for so many different questions, and what kinds of answers came."""
    rng = np.random.default_rng(rows)
    holdout = Holdout(rng.integers(0, 2, rows).astype(bool), ledger=place, name=f"{rows} rows")
    some = [rng.integers(0, 2, rows).astype(bool) for _ in range(64)]
    bits = [pack(each) for each in some]
    kinds: dict[str, int] = {}
    spent = worked = 0.0
    for number in range(checks):
        asked: Any = _changed(bits[number % 64], number) if packed else _moved(some[number % 64], number)
        start, busy = time.perf_counter(), time.process_time()
        answer = holdout.check(asked, guess=0.5)
        spent, worked = spent + time.perf_counter() - start, worked + time.process_time() - busy
        kinds[answer.kind] = kinds.get(answer.kind, 0) + 1
    return spent, worked, ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))


def _changed(one: Packed, number: int) -> Packed:
    """Other predictions each time, made cheaply: the words turned round, and the number in the first of them."""
    words = np.roll(one.words[:-1], number // 64)
    words[0] ^= np.uint64(number)
    return Packed(np.append(words, one.words[-1]), one.rows)


def _moved(one: Any, number: int) -> Any:
    return np.roll(one, number // 64)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", type=int, default=20_000)
    parser.add_argument("--folder", help="where the ledger is written (default: a temporary folder)")
    given = parser.parse_args()
    print(f"{'rows':>10} {'checks':>9} {'us each':>8} {'us of processor':>16} {'a second of it':>15}  answers")
    with tempfile.TemporaryDirectory() as folder:
        for rows, packed in ((10_000, False), (1_000_000, True)):
            place = Path(given.folder or folder) / f"speed-{rows}.db"
            seconds, worked, kinds = measure(rows, given.checks, place, packed=packed)
            clock, core = seconds / given.checks, worked / given.checks
            print(f"{rows:>10,} {given.checks:>9,} {clock * 1e6:>8.0f} {core * 1e6:>16.0f} {1 / core:>15,.0f}  {kinds}")


if __name__ == "__main__":
    main()
