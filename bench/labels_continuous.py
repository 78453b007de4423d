"""How few nodes serve 10,000 labels: certified gap, nodes and CPU seconds of the sandwich, for four priors.

python bench/labels_continuous.py              epsilon 0.3 to 8, tolerance 1e-4, at most 600 nodes: about a minute
python bench/labels_continuous.py --labels 1001 --most 300
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
from numpy.typing import NDArray

from steelyard.labels.solve._continuous import solve_continuous

EPSILONS = (0.3, 1.0, 2.0, 4.0, 8.0)


def priors(y: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Log-normal with 0.9 at zero, log-normal, uniform and two lumps, as densities on the labels."""
    positive = np.maximum(y, 0.2)
    log_normal = np.exp(-(np.log(positive / 40) ** 2) / 2.88) / positive
    atom = 0.1 * log_normal / log_normal.sum()
    atom[0] += 0.9
    lumps = np.exp(-(((y - 80) / 20) ** 2) / 2) + np.exp(-(((y - 300) / 30) ** 2) / 2)
    return {"atom": atom, "log-normal": log_normal, "uniform": np.ones(len(y)), "lumps": lumps}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=10_000)
    parser.add_argument("--most", type=int, default=600)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    y = np.linspace(0, 400, args.labels).round(4)
    solve_continuous(range(9), [1] * 9, 1)  # load everything first
    print(f"{args.labels:,} labels: certified gap / nodes / CPU seconds")
    print("| prior | " + " | ".join(f"{e:g}" for e in EPSILONS) + " |")
    print("|---" * (len(EPSILONS) + 1) + "|")
    for name, prior in priors(y).items():
        cells = []
        for epsilon in EPSILONS:
            started = time.process_time()
            found = solve_continuous(y, prior, epsilon, args.tolerance, args.most)
            cells.append(f"{found.gap:.0e} / {len(found.nodes.labels)} / {time.process_time() - started:.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
