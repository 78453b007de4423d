"""What ``auto`` costs where nothing is known of the labels: its error beside the best of all methods, shape by shape.

Exact mean squared errors of noisy labels, for epsilon 0.1 to 20 and six shapes of labels (other formulas than those that ``balanced``
is made of). Each cell: auto's error as a multiple of the least of all unbiased methods that do not look at the labels, and which
method that was. A method that is best for one shape is far off for another; the last column is the worst cell of each line.

    python bench/labels_auto.py             11 and 101 labels: about a minute
    python bench/labels_auto.py --menu      the worst cell of every method beside auto's
    python bench/labels_auto.py --bound     auto's worst cell beside the least that any unbiased mechanism can have

*The bound.* For shares s of the shapes, a mechanism's worst cell is no better than the average of its cells with these shares, and that is no
better than the certified optimum for the weights sum s p/V, V the best of the menu for the shape p. Shares are moved towards the shapes that the optimum
serves worst, again and again; the largest average that was met is a bound for every unbiased mechanism, and the shares it was met at are printed.
"""

from __future__ import annotations

import argparse
import os
from fractions import Fraction

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
from numpy.typing import NDArray

from steelyard.labels import LabelRandomizer
from steelyard.labels.solve._unbiased import solve_unbiased

Floats = NDArray[np.float64]
EPSILONS = ("0.1", "0.3", "0.5", "1", "2", "3", "4", "6", "8", "12", "20")
MENU = ("two_point", "unbiased", "piecewise", "hybrid", "debiased", "laplace", "discrete_laplace", "staircase")


def shapes(size: int) -> dict[str, Floats]:
    """Even; nine in ten zero and a log-normal tail; exponential from either end; normal in the middle; both ends."""
    t = np.linspace(0, 1, size)
    tail = np.r_[0.0, np.exp(-(np.log(t[1:] / 0.1) ** 2) / 2.88) / t[1:]]
    found = {
        "even": np.ones(size),
        "zeros": np.r_[9 * tail.sum(), tail[1:]],
        "falling": np.exp(-t / 0.1),
        "rising": np.exp(-(1 - t) / 0.1),
        "middle": np.exp(-((t - 0.5) ** 2) / 0.02),
        "ends": np.exp(-t / 0.05) + np.exp(-(1 - t) / 0.05),
    }
    return {name: weights / weights.sum() for name, weights in found.items()}


def errors(method: str, epsilon: str, upper: int) -> Floats:
    """The exact squared error at every label."""
    made = LabelRandomizer(epsilon, 0, upper, method).fit()
    return np.array([float(e) for e in made.mechanism_.errors()])


def bound(known: dict[str, Floats], best: dict[str, tuple[float, str]], epsilon: str) -> tuple[float, dict[str, float]]:
    """The least worst cell that any unbiased mechanism can have, from below, and the shares of the shapes that show it."""
    shapes_of = np.array(list(known.values())) / np.array([[best[name][0]] for name in known])
    shares, found = np.full(len(known), 1 / len(known)), (0.0, dict[str, float]())
    for step in range(40):
        total = shares @ shapes_of
        weights = [max(1, round(weight / total.max() * 10**6)) for weight in total]
        mechanism = solve_unbiased(range(len(total)), weights, Fraction(epsilon)).mechanism
        cells = shapes_of @ np.array([float(e) for e in mechanism.errors()])
        found = max(
            found, (float(shares @ cells), dict(zip(known, shares.round(2).tolist(), strict=True))), key=lambda f: f[0]
        )
        shares = shares * np.exp((4 if step < 20 else 1.5) * (cells - shares @ cells))
        shares /= shares.sum()
    return found


def main() -> None:
    """Print one table for each number of labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--upper", type=int, nargs="*", default=[10, 100], help="labels are the integers from 0 to this"
    )
    parser.add_argument("--menu", action="store_true", help="the worst cell of every method")
    parser.add_argument("--bound", action="store_true", help="what no unbiased mechanism could do better")
    given = parser.parse_args()
    for upper in given.upper:
        known = shapes(upper + 1)
        head = ["auto", *MENU] if given.menu else [*known, "worst"]
        head = ["auto", "least possible", "shares"] if given.bound else head
        print(f"\n{upper + 1} labels\n| epsilon | {' | '.join(head)} |\n|---|{'---|' * len(head)}")
        for epsilon in EPSILONS:
            made = {method: errors(method, epsilon, upper) for method in ("auto", *MENU)}
            best = {name: min((float(p @ made[m]), m) for m in MENU) for name, p in known.items()}
            ratio = {m: [float(p @ made[m]) / best[name][0] for name, p in known.items()] for m in made}
            if given.bound:
                least, shares = bound(known, best, epsilon)
                told = ", ".join(f"{name} {share}" for name, share in shares.items() if share >= 0.01)
                cells = [f"{max(ratio['auto']):.3f}", f"{least:.3f}", told]
            elif given.menu:
                cells = [f"{max(ratio[m]):.2f}" for m in head]
            else:
                cells = [f"{r:.2f} {best[name][1]}" for r, name in zip(ratio["auto"], known, strict=True)]
                cells.append(f"{max(ratio['auto']):.2f}")
            print(f"| {epsilon} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
