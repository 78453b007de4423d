"""Whether a tree is slower than another: the same benches in both, in alternation, and the ratio of each figure.

    python bench/compare.py --before TREE [--runs 5] [--part labels,holdout,bounding,accuracy,ledger]

A shared machine's pace drifts by a fifth within minutes, so the two trees take turns and each figure is the least of its
runs; figures are processor seconds or rates of processor time, read from what the benches print.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

BENCHES = {
    "ledger": ["ledger.py", "--seconds", "1.5"],
    "labels": ["labels_speed.py"],
    "holdout": ["holdout_speed.py", "--checks", "10000"],
    "bounding": ["bounding_speed.py", "--only", "group", "--runs", "1"],
    "accuracy": ["accuracy_first.py", "--part", "speed"],
}
FIGURES = {
    "ledger": r"(SQLite +(?:1 caller|256 threads)).*?([\d,]+) us of processor",
    "labels": r"^(.*?):? +([\d.]+) CPU s for",
    "holdout": r"^ *([\d,]+ +10,000) +\d+ +(\d+) ",
    "bounding": r"^((?:duckdb|steelyard), .*?)  +[\d.]+ +[\d.]+ +[\d,]+ +[\d.]+ +([\d.]+)",
    "accuracy": r"^(.*?): ([\d.]+) CPU s",
}


def run(tree: Path, part: str) -> dict[str, float]:
    """The figures of one bench, run once on one tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(tree / "bench" / BENCHES[part][0]), *BENCHES[part][1:]]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    found = re.findall(FIGURES[part], printed, re.MULTILINE)
    return {" ".join(name.split()): float(value.replace(",", "")) for name, value in found}


def main() -> None:
    """Print, for each figure, both trees' least and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--part", default=",".join(BENCHES))
    options = parser.parse_args()
    trees = (options.before.resolve(), Path(__file__).resolve().parent.parent)
    print(f"{'figure':<60} {'before':>8} {'now':>8} {'ratio':>6}")
    for part in options.part.split(","):
        runs = [[run(tree, part) for tree in trees] for _ in range(options.runs)]
        for name in runs[0][0]:
            before, now = (min(pair[k][name] for pair in runs) for k in (0, 1))
            print(f"{part + ': ' + name:<60} {before:>8.3g} {now:>8.3g} {now / before:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
