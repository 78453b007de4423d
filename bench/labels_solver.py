"""CPU seconds and certified gap of the optimal unbiased label randomizer, beside general linear programmes.

Every cell is solved on one core and judged by the independent checker (its time apart). HiGHS gets the same labels and
OUR outputs as its grid, in the min-variable form (k m rows) and, where it finishes, in the naive form (k^2 m rows).

With --noise-loss absolute the least absolute error is asked for instead: CPU seconds, certified gap, and how much more
the mechanism of least variance has; then HiGHS on all tables over an even grid of outputs in the same range (a grid has fewer
tables, so it may be worse, never better), on 20 smaller cells.

    python bench/labels_solver.py --quick          k = 64, 128 and a few cells of 400; HiGHS at 32 and 64
    python bench/labels_solver.py                  k = 64 ... 1000, 11 epsilons, 5 priors; HiGHS at 64 and 128
    python bench/labels_solver.py --noise-loss absolute      40 cells at k = 64, 40 at 200, HiGHS at 24; about two minutes
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
from numpy.typing import NDArray

from steelyard.labels.solve._solution import Solution
from steelyard.labels.solve._unbiased import solve_unbiased

Floats = NDArray[np.float64]
EPSILONS = (0.05, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


def priors(size: int) -> dict[str, Floats]:
    """Log-normal with 0.9 at zero, log-normal, uniform, two lumps, and one with 90 % of the labels unused."""
    y = np.linspace(0.0, 400.0, size)
    positive = np.maximum(y, 0.2)
    log_normal = np.exp(-(np.log(positive / 40) ** 2) / 2.88) / positive
    log_normal[0] = 0
    log_normal /= log_normal.sum()
    atom = 0.1 * log_normal
    atom[0] += 0.9
    lumps = np.exp(-(((y - 80) / 20) ** 2) / 2) + np.exp(-(((y - 300) / 30) ** 2) / 2)
    rng, sparse = np.random.default_rng(0), np.zeros(size)
    used = rng.choice(np.arange(1, size - 1), max(2, size // 10), replace=False)
    sparse[used] = rng.dirichlet(np.ones(len(used)))
    return {"atom": atom, "log-normal": log_normal, "uniform": np.ones(size) / size, "lumps": lumps, "sparse": sparse}


def labels(size: int) -> list[float]:
    """``size`` labels from 0 to 400, on a grid of a millionth."""
    return [round(float(y), 6) for y in np.linspace(0, 400, size)]


def timed(size: int, prior: Floats, epsilon: float, loss: str = "squared") -> tuple[Solution, float, float, bool]:
    """Solve and judge one cell: the solution, both CPU times, and whether the judge passed it."""
    started = time.process_time()
    solution = solve_unbiased(labels(size), prior.tolist(), epsilon, loss=loss)
    solved = time.process_time()
    passed = solution.mechanism.verify().passed
    return solution, solved - started, time.process_time() - solved, passed


def min_variable_programme(y: Floats, p: Floats, z: Floats, epsilon: float, power: int = 2) -> tuple[float, float]:
    """HiGHS on M = a + x, 0 <= x <= (E - 1) a over all tables with outputs z: the value and the CPU seconds."""
    from scipy.sparse import coo_matrix, hstack, identity, kron, vstack

    k, m = len(y), len(z)
    cost = p[:, None] * np.abs(z[None, :] - y[:, None]) ** power
    ones, rows = coo_matrix(np.ones((k, m))), identity(k)
    sums = hstack([ones, kron(rows, np.ones((1, m)))])
    means = hstack([coo_matrix(np.tile(z, (k, 1))), kron(rows, z[None, :])])
    limits = hstack([-math.expm1(epsilon) * kron(np.ones((k, 1)), identity(m)), identity(k * m)])
    return _solve(np.concatenate([cost.sum(0), cost.ravel()]), limits, vstack([sums, means]), y)


def naive_programme(y: Floats, p: Floats, z: Floats, epsilon: float) -> tuple[float, float]:
    """HiGHS on M_ij <= E M_lj for every pair of rows: k (k - 1) m rows."""
    from scipy.sparse import coo_matrix, identity, kron, vstack

    k, m = len(y), len(z)
    pairs = [(i, j) for i in range(k) for j in range(k) if i != j]
    first, second = np.array(pairs).T
    at = np.arange(len(pairs))
    ones = np.ones(len(pairs))
    pick = coo_matrix((ones, (at, first)), (len(pairs), k)) - math.exp(epsilon) * coo_matrix((ones, (at, second)))
    cost = p[:, None] * (z[None, :] - y[:, None]) ** 2
    equal = vstack([kron(identity(k), np.ones((1, m))), kron(identity(k), z[None, :])])
    return _solve(cost.ravel(), kron(pick, identity(m)), equal, y)


def _solve(cost: Floats, limits: object, equal: object, y: Floats) -> tuple[float, float]:
    from scipy.optimize import linprog

    right = np.concatenate([np.ones(len(y)), y])
    zero = np.zeros(limits.shape[0])  # type: ignore[attr-defined]
    started = time.process_time()
    found = linprog(cost, A_ub=limits, b_ub=zero, A_eq=equal, b_eq=right, bounds=(0, None), method="highs")
    return float(found.fun) if found.fun is not None else math.nan, time.process_time() - started


def grid(sizes: list[int], epsilons: tuple[float, ...]) -> None:
    """The table: CPU seconds of solving / certified gap, one row per prior."""
    for size in sizes:
        worst, slowest, slowest_check, outputs, missed = 0.0, 0.0, 0.0, 0, 0
        print(f"\nk = {size}: CPU seconds / certified gap")
        print("| prior | " + " | ".join(f"{e:g}" for e in epsilons) + " |")
        print("|---" * (len(epsilons) + 1) + "|")
        for name, prior in priors(size).items():
            cells = []
            for epsilon in epsilons:
                solution, solve, judge, passed = timed(size, prior, epsilon)
                good = passed and solution.converged
                missed += not good
                worst, outputs = max(worst, solution.gap), max(outputs, len(solution.outputs))
                slowest, slowest_check = max(slowest, solve), max(slowest_check, judge)
                cells.append(f"{solve:.2f}/{solution.gap:.0e}" + ("" if good else " MISSED"))
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        print(f"worst gap {worst:.1e}, slowest {slowest:.2f} s, slowest check {slowest_check:.2f} s,", end=" ")
        print(f"most outputs {outputs}, cells missed {missed}", flush=True)


def beside(cells: list[tuple[int, str, float]], naive: bool) -> None:
    """Ours and HiGHS on the same cells, in one run."""
    print("\n| k | prior | epsilon | ours s | HiGHS s | ratio | HiGHS value in [lower bound, value] | naive s |")
    print("|---|---|---|---|---|---|---|---|")
    for size, name, epsilon in cells:
        prior = priors(size)[name]
        solution, solve, _, _ = timed(size, prior, epsilon)
        y, p, z = np.array(labels(size)) / 400, prior / prior.sum(), np.unique(solution.outputs.round(7)) / 400
        value, seconds = min_variable_programme(y, p, z, epsilon)
        low, high = solution.lower_bound / 160_000 * (1 - 2e-6), solution.value / 160_000 * (1 + 2e-6)
        slow = f"{naive_programme(y, p, z, epsilon)[1]:.1f}" if naive and size <= 24 else "-"
        row = [f"{size}", name, f"{epsilon:g}", f"{solve:.3f}", f"{seconds:.2f}", f"{seconds / solve:.0f}x"]
        print("| " + " | ".join([*row, str(low <= value <= high), slow]) + " |", flush=True)


def absolute_error(solution: Solution, size: int, prior: Floats) -> float:
    """The absolute error of a mechanism under a prior."""
    far = np.abs(solution.outputs[None, :] - np.array(labels(size))[:, None])
    return float(prior @ (solution.probabilities * far).sum(axis=1) / prior.sum())


def absolute(size: int, epsilons: tuple[float, ...]) -> None:
    """The table for the absolute loss: CPU seconds / certified gap / the least variance's absolute error over ours."""
    print(f"\nk = {size}, least absolute error: CPU seconds / certified gap / absolute error of the least variance")
    print("| prior | " + " | ".join(f"{e:g}" for e in epsilons) + " |")
    print("|---" * (len(epsilons) + 1) + "|")
    worst, slowest, slowest_check, missed, ratios = 0.0, 0.0, 0.0, 0, []
    for name, prior in priors(size).items():
        cells = []
        for epsilon in epsilons:
            solution, solve, judge, passed = timed(size, prior, epsilon, "absolute")
            good = passed and solution.converged
            ratios.append(absolute_error(timed(size, prior, epsilon)[0], size, prior) / solution.value)
            missed, worst = missed + (not good), max(worst, solution.gap)
            slowest, slowest_check = max(slowest, solve), max(slowest_check, judge)
            cells.append(f"{solve:.2f}/{solution.gap:.0e}/{ratios[-1]:.3f}" + ("" if good else " MISSED"))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(
        f"{len(ratios)} cells: worst gap {worst:.1e}, slowest {slowest:.2f} s, slowest check {slowest_check:.2f} s,",
        end=" ",
    )
    print(
        f"missed {missed}; least variance's absolute error {min(ratios):.3f} to {max(ratios):.3f}, median {np.median(ratios):.3f}"
    )


def absolute_beside(size: int, epsilons: tuple[float, ...]) -> None:
    """HiGHS over an even grid of outputs, and over the grid with all labels: its value over our proved bound."""
    print(f"\nk = {size}: HiGHS over our lower bound: even grid of 161 outputs / grid and labels")
    print("| prior | " + " | ".join(f"{e:g}" for e in epsilons) + " |")
    print("|---" * (len(epsilons) + 1) + "|")
    for name, prior in priors(size).items():
        cells = []
        for epsilon in epsilons:
            solution, *_ = timed(size, prior, epsilon, "absolute")
            assert solution.mechanism.certificate is not None
            low, high = (float(z) / 400 for z in solution.mechanism.certificate.loss.outputs)
            y, even = np.array(labels(size)) / 400, np.linspace(low, high, 161)
            found = [
                min_variable_programme(y, prior / prior.sum(), z, epsilon, 1)[0] * 400 / solution.lower_bound
                for z in (even, np.unique([*even, *y]))
            ]
            cells.append(f"{found[0]:.6f}/{found[1]:.7f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="about a minute instead of about a quarter of an hour")
    parser.add_argument("--noise-loss", choices=["squared", "absolute"], default="squared")
    args = parser.parse_args()
    quick = args.quick
    solve_unbiased(range(4), [1] * 4, 1, loss=args.noise_loss)  # load everything first
    if args.noise_loss == "absolute":
        for size in (64,) if quick else (64, 200):
            absolute(size, (0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0))
        absolute_beside(24, (0.3, 1.0, 2.0, 4.0))
        return
    small = [(24, "uniform", 2.0), (24, "atom", 0.5)]
    if quick:
        grid([64, 128], (0.05, 1.0, 8.0))
        grid([400], (1.0,))
        beside([*small, (32, "lumps", 1.0), (64, "atom", 4.0)], naive=True)
    else:
        grid([64, 128, 256, 400, 1000], EPSILONS)
        large = list(itertools.product([64], ["atom", "uniform", "lumps"], [0.5, 2.0, 6.0]))
        beside([*small, *large, (128, "atom", 0.5), (128, "uniform", 4.0), (128, "lumps", 1.0)], naive=True)


if __name__ == "__main__":
    main()
