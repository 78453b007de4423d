"""How long a private ridge takes from Parquet, beside scikit-learn's Ridge and diffprivlib: CPU seconds and peak memory.

Each contender runs in a process of its own, so that peaks do not mix. scikit-learn and diffprivlib load the file whole;
give ``--peer-python`` an interpreter that has diffprivlib (its own environment) to include it. ``--logistic`` compares logistic
fits of arrays instead, in one process with one thread, taking turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OURS = """
import steelyard as sy
from steelyard.models import FitLinear
account = sy.open_account(":memory:", "bench", unit=sy.rows(), epsilon="1", delta="1e-6")
columns = [f"x{i}" for i in range(%(columns)d)]
task = FitLinear(columns, "y", -4, 4, epsilon="1", x_bound=%(bound)r)
model = sy.Session(sy.read(%(path)r), account).release(task).value
weights = [model.coefficients[name] for name in columns]
"""
RIDGE = """
import pyarrow.parquet as pq, numpy as np
from sklearn.linear_model import Ridge
table = pq.read_table(%(path)r)
y = table.column("y").to_numpy()
X = np.column_stack([table.column(f"x{i}").to_numpy() for i in range(%(columns)d)])
weights = Ridge().fit(X, y).coef_.tolist()
"""
DIFFPRIVLIB = """
import pyarrow.parquet as pq, numpy as np
from diffprivlib.models import LinearRegression
table = pq.read_table(%(path)r).slice(0, %(few)d)
y = table.column("y").to_numpy().astype(float)
X = np.column_stack([table.column(f"x{i}").to_numpy() for i in range(%(columns)d)]).astype(float)
weights = LinearRegression(epsilon=1.0, bounds_X=(-5, 5), bounds_y=(-4, 4)).fit(X, y).coef_.ravel().tolist()
"""


def generate(path: Path, rows: int, columns: int) -> None:
    """Write the table in pieces, so that memory stays small."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    weights = random.normal(size=columns).astype(np.float32)
    weights /= np.linalg.norm(weights)
    names = [*(f"x{i}" for i in range(columns)), "y"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        for start in range(0, rows, 100_000):
            x = random.standard_normal((min(100_000, rows - start), columns), dtype=np.float32)
            y = x @ weights + 0.1 * random.standard_normal(len(x), dtype=np.float32)
            arrays = [np.ascontiguousarray(column) for column in (*x.T, y)]
            writer.write_table(pa.table(dict(zip(names, arrays, strict=True)), schema))


def measure(python: str, script: str) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak memory (MB) of a script in a process of its own."""
    tail = "\nimport resource, json; u = resource.getrusage(resource.RUSAGE_SELF)\n"
    tail += "print(json.dumps([u.ru_utime + u.ru_stime, u.ru_maxrss / 1024]))"
    began = time.perf_counter()
    done = subprocess.run([python, "-c", script + tail], capture_output=True, text=True, check=True)
    cpu, peak = json.loads(done.stdout.splitlines()[-1])
    return cpu, time.perf_counter() - began, peak


def logistic(repeats: int) -> None:
    """CPU seconds of both logistic regressions on the same arrays, the least of some turns, and their ratio."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression as Peer
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    from steelyard.models import LogisticRegression

    print(f"{'rows x columns':>18}{'scikit-learn':>14}{'steelyard':>11}{'ratio':>7}")
    random = np.random.default_rng(0)
    for rows, columns in ((300_000, 20), (32_000, 107)):
        x = random.normal(size=(rows, columns))
        y = (0.3 * x @ random.normal(size=columns) + random.logistic(size=rows) > 0).astype(int)
        fits = [Peer(), LogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1], x_bound=columns**0.5)]
        least = [float("inf")] * 2
        for _ in range(repeats):
            for place, fit in enumerate(fits):
                began = time.process_time()
                with threadpool_limits(1, user_api="blas"):
                    fit.fit(x, y)
                least[place] = min(least[place], time.process_time() - began)
        print(f"{f'{rows:,} x {columns}':>18}{least[0]:14.3f}{least[1]:11.3f}{least[1] / least[0]:7.2f}", flush=True)


def main() -> None:
    """Generate, run, print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--folder", help="where the generated file lies (a temporary folder by default)")
    parser.add_argument("--peer-python", help="a Python that has diffprivlib, pyarrow and numpy")
    parser.add_argument("--only", help="run only contenders whose name contains this")
    parser.add_argument(
        "--logistic", type=int, metavar="TURNS", help="compare logistic fits, the best of so many turns"
    )
    args = parser.parse_args()
    if args.logistic:
        logistic(args.logistic)
        return
    with tempfile.TemporaryDirectory() as made:
        path = Path(args.folder or made) / f"ridge-{args.rows}-{args.columns}.parquet"
        if not path.exists():
            generate(path, args.rows, args.columns)
        few = min(args.rows, 100_000)
        facts = {"path": str(path), "columns": args.columns, "bound": 1.2 * args.columns**0.5, "few": few}
        contenders = [
            ("steelyard, private, streaming", sys.executable, OURS),
            ("scikit-learn Ridge", sys.executable, RIDGE),
        ]
        if args.peer_python:
            contenders.append((f"diffprivlib on {few:,} rows", args.peer_python, DIFFPRIVLIB))
        print(f"{args.rows:,} rows x {args.columns} columns, {path.stat().st_size / 1e6:,.0f} MB of Parquet")
        print(f"{'':34}{'CPU s':>8}{'wall s':>8}{'peak MB':>9}")
        for name, python, script in contenders:
            if args.only is None or args.only in name:
                cpu, wall, peak = measure(python, script % facts)
                print(f"{name:34}{cpu:8.2f}{wall:8.2f}{peak:9.0f}", flush=True)
    return


if __name__ == "__main__":
    main()
