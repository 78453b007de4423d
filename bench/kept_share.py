"""The share of rows that a limit on rows per user keeps (n_tau/n of Amin et al. 2019), estimated from one private look.

Users are those of Amin et al.: user j takes part with probability proportional to 1/j^(1 + alpha), and 100,000 rows are drawn.
For every alpha, cap and epsilon: the truth, the median estimate, the median relative error and how often the interval
that is to hold 95 % of the time held the truth. Every draw has new noise; every tenth new users.

    python bench/kept_share.py [--draws 200]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from steelyard.bounding import ContributionProfile
from steelyard.bounding._cap_choice import NoisyHistogram
from steelyard.bounding._cap_grid import CapGrid

ALPHAS, CAPS, EPSILONS, ROWS = (0.1, 0.5, 1.0), (10, 100, 1000), (0.5, 1.0, 2.0), 100_000
GRID = CapGrid(1, ROWS)


def users(alpha: float, draw: np.random.Generator) -> NDArray[np.int64]:
    """How many rows each user has who has any."""
    weights = np.arange(1, 10**6 + 1) ** -(1 + alpha)
    counts = draw.multinomial(ROWS, weights / weights.sum())
    return np.asarray(counts[counts > 0])


def looks(alpha: float, epsilon: float, draws: int) -> Iterator[tuple[NDArray[np.int64], ContributionProfile]]:
    """Users, and what a profile of theirs released."""
    draw = np.random.default_rng([int(10 * alpha), int(10 * epsilon)])
    chance = -np.expm1(-epsilon)
    for at in range(draws):
        if at % 10 == 0:
            sizes = users(alpha, draw)
            counts = np.bincount(np.searchsorted(GRID.tops, sizes), minlength=GRID.bins)
        noisy = counts + draw.geometric(chance, GRID.bins) - draw.geometric(chance, GRID.bins)
        seen = NoisyHistogram(GRID, tuple(map(float, noisy)), "laplace", epsilon)
        yield sizes, ContributionProfile(None, "users", Fraction(1), seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    print("| alpha | epsilon | cap | truth | median estimate | median relative error | covered |\n" + "|---" * 7 + "|")
    for epsilon in EPSILONS:
        errors, held = [], []
        for alpha in ALPHAS:
            rows: dict[int, list[tuple[float, float, bool]]] = {cap: [] for cap in CAPS}
            for sizes, profile in looks(alpha, epsilon, draws):
                for cap in CAPS:
                    truth, found = float(np.minimum(sizes, cap).sum() / ROWS), profile.kept(cap)
                    rows[cap].append((truth, found.value, found.low <= truth <= found.high))
            for cap in CAPS:
                truths, values, inside = map(np.array, zip(*rows[cap], strict=True))
                off = np.abs(values / truths - 1)
                errors.append(off)
                held.append(inside)
                print(f"| {alpha:g} | {epsilon:g} | {cap:,} | {np.median(truths):.3f} | {np.median(values):.3f} "
                      f"| {np.median(off):.0%} | {inside.mean():.0%} |", flush=True)  # fmt: skip
        cells = [float(np.median(each)) for each in errors]
        print(f"epsilon {epsilon:g}: median relative error over all draws {np.median(errors):.0%}, of the worst cell "
              f"{max(cells):.0%}; covered {np.mean(held):.0%}, in the worst cell {np.mean(held, axis=1).min():.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
