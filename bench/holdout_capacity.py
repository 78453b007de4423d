"""How many adaptive questions a holdout answers: published bounds, ours, and the differences to the known numbers.

Prints two tables at tolerance 0.05 and confidence 0.95 and fails if a published bound is reproduced worse than within one
per cent (or one question). ``--large`` adds ten million rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from papers.thresholdout_theory import paid_answers, paid_answers_tightened
from steelyard.holdout import _published as published
from steelyard.holdout._planner import plan
from steelyard.holdout._transfer import (
    Transfer,
    bounded_width,
    down,
    normal_design,
    positional_distance_at,
    shared_distance_at,
)

TAU = BETA = 0.05
DELTA = 1e-6  # the usual one of mode "private"; half of it is for rows given away by bounded noise
TRANSFERS = (positional_distance_at, shared_distance_at)
KNOWN = {
    1_000: (1, 1, 0, 0, 0),
    3_000: (3, 2, 0, 0, 0),
    10_000: (8, 8, 0, 0, 0),
    30_000: (22, 25, 0, 1, 2),
    100_000: (63, 87, 2, 16, 23),
    300_000: (169, 262, 16, 150, 183),
    1_000_000: (504, 876, 160, 1_532, 1_776),
    10_000_000: (4_144, 8_768, 12_672, 119_808, 142_848),
}
PUBLISHED = (published.splitting, published.rounding, published.bassily, published.rogers, published.jung)
MISSES = {
    10_000: (0, 2, 1),
    30_000: (0, 8, 6),
    100_000: (0, 36, 25),
    300_000: (0, 124, 84),
    1_000_000: (0, 482, 312),
    10_000_000: (1, 7_567, 3_797),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables and check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also ten million rows")
    large = parser.parse_args(arguments).large
    worst = max(capacities(large), misses(large))
    print(f"largest difference to a known number beyond one question: {worst:.2%}")
    assert worst <= 0.01
    promises()


def capacities(large: bool) -> float:
    """Questions of any kind: the published bounds beside normal and bounded noise."""
    print(
        f"{'n':>11} {'split':>7} {'round':>7} {'Bassily':>8} {'Rogers':>8} {'Jung':>8} {'normal':>8} {'bounded':>9} {'shared+':>9}"
    )
    worst = 0.0
    for n, known in KNOWN.items():
        found = [published.capacity(width, n, TAU, BETA) for width in PUBLISHED]
        worst = max(worst, *(difference(a, b) for a, b in zip(found, known, strict=True)))
        normal = published.capacity(normal_width, n, TAU, BETA)
        bounded = [most(n, transfer) if n <= 10**6 or large else -1 for transfer in TRANSFERS]
        shown = [f"{count:,}" if count >= 0 else "-" for count in (*found, normal, *bounded)]
        print(f"{n:>11,} " + " ".join(f"{text:>{w}}" for text, w in zip(shown, (7, 7, 8, 8, 8, 8, 9, 9), strict=True)))
    print("+ bounded noise as if a question were one function for all rows, which predictions need not be")
    return worst


def normal_width(n: int, questions: int, beta: float) -> float:
    """The half-width of normal noise in mode "private", before its prices are rounded to whole micros."""
    return normal_design(n, questions, beta, DELTA)[1]


def most(n: int, transfer: Transfer) -> int:
    """The most questions of bounded noise, in three digits."""
    low, high = 0, 4
    while bounded_width(n, high, BETA, DELTA / 2, transfer) <= TAU:
        low, high = high, 4 * high
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (middle, high) if bounded_width(n, middle, BETA, DELTA / 2, transfer) <= TAU else (low, middle)
    return down(low)


def misses(large: bool) -> float:
    """Wrong guesses allowed among ten thousand questions, and among a million."""
    print(f"\n{'n':>11} {'Thresholdout':>13} {'tightened':>10} {'good':>6} {'of 10^6':>8}")
    worst = 0.0
    for n, known in MISSES.items():
        classic = paid_answers(n, 10_000, TAU, BETA)
        tight = paid_answers_tightened(n, 10_000, TAU, BETA)
        good = [published.misses(n, questions, TAU, BETA) for questions in (10_000, 1_000_000)]
        print(f"{n:>11,} {classic:>13,} {tight:>10,} {good[0]:>6,} {good[1]:>8,}")
        worst = max(worst, *(difference(a, b) for a, b in zip((classic, *good), known, strict=True)))
    return worst


def difference(found: int, known: int) -> float:
    """The relative difference; one question is within rounding."""
    return 0.0 if abs(found - known) <= 1 else abs(found - known) / max(known, 1)


def promises() -> None:
    """What ours must reach: the goals, and the time a plan takes."""
    plan(1_000, 3, 0.1)
    print()
    for n, goal in ((100_000, 270), (1_000_000, 28_000)):
        ours = most(n, positional_distance_at)
        assert ours >= goal
        print(f"{n:>9,} rows: goal {goal:,} questions; {ours:,} ours ({ours / goal:.1f} times)")
    for n, questions, guess_error in (
        (100_000, 270, None),
        (1_000_000, 28_000, None),
        (1_000_000, 1_000_000, None),
        (10_000, 1_000_000, 0.019),
    ):
        started = time.process_time()
        found = plan(n, questions, TAU, 1 - BETA, guess_error)
        spent = time.process_time() - started
        assert found.possible or questions > found.allowed
        told = "" if guess_error is None else f", guesses within {guess_error}"
        print(
            f"{questions:>9,} questions on {n:>9,} rows{told}: ±{found.half_width:.4f} by {found.best.name} "
            f"({1000 * spent:.0f} ms to plan)"
        )


if __name__ == "__main__":
    main()
