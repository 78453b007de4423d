"""What public keys cost: sum and count by 100 to a million of them, beside a plain GROUP BY and OpenDP's frame of keys.

    python bench/keys.py [--rows 5000000] [--users 500000] [--keys 100 10000 100000 1000000] [--skip opendp] [--opendp-python PATH]

Every job runs in a process of its own; shown are the CPU seconds of the work alone (after imports, the keys read from their Parquet file
included), their ratio to DuckDB's plain GROUP BY of the same run, and the peak memory of the process. ``list`` gives the keys as a Python
list, ``file`` as the path of their file. OpenDP takes the plans of one release of Polars alone; where the installed one is another, give
the interpreter of an environment made by ``pip install 'opendp[polars]' pyarrow``. A job that fails says why. All data is generated, and deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_KEYS, ROWS_PER_KEY, LARGEST = 20, 20, 50.0


def make(folder: Path, rows: int, users: int, keys: int) -> None:
    """Rows of users, each with one of the keys (some often), and the public list of all keys."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(7)
    names = pa.array([f"key {i:07d}" for i in range(keys)])
    pq.write_table(pa.table({"key": names}), folder / "keys.parquet")
    schema = pa.schema([("user", pa.int64()), ("key", pa.string()), ("amount", pa.float64())])
    with pq.ParquetWriter(folder / "rows.parquet", schema) as out:
        for start in range(0, rows, 2**20):
            size = min(2**20, rows - start)
            place = np.floor(keys * rng.uniform(0, 1, size) ** 2).astype(np.int64)
            owner, amount = rng.integers(0, users, size), rng.gamma(2, 10, size)
            out.write_table(pa.table([pa.array(owner), names.take(pa.array(place)), pa.array(amount)], schema=schema))


def steelyard_file(folder: Path) -> Callable[[], object]:
    """Sum and count by the keys of a file."""
    return _steelyard(folder, lambda: folder / "keys.parquet")


def steelyard_list(folder: Path) -> Callable[[], object]:
    """The same by a Python list."""
    import pyarrow.parquet as pq

    listed = pq.read_table(folder / "keys.parquet")["key"].to_pylist()
    return _steelyard(folder, lambda: listed)


def _steelyard(folder: Path, keys: Callable[[], Any]) -> Callable[[], object]:
    import steelyard as sy

    account = sy.open_account(str(folder / f"{time.time_ns()}.db"), "bench", unit=sy.users("user"), epsilon=10)
    session = sy.Session(sy.read(folder / "rows.parquet"), account)

    def work() -> object:
        public = keys()
        first = sy.Sum("amount", epsilon="0.5", cap=500, by="key", keys=public)
        second = sy.Count(epsilon="0.5", cap=20, by="key", keys=first.keys)
        total, count = session.release(sy.Together([first, second])).value
        return len(total), len(count)

    return work


def opendp(folder: Path) -> Callable[[], object]:
    """OpenDP's frame interface; keep="first" because its default sampling fails at release in 0.16."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")

    def work() -> object:
        context = dp.Context.compositor(
            data=pl.scan_parquet(folder / "rows.parquet"),
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user")),
            privacy_loss=dp.loss_of(epsilon=1.0),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=["key"], max_length=10**7)],
        )
        query = (
            context.query()
            .truncate_per_group(ROWS_PER_KEY, by=["key"])
            .truncate_num_groups(MAX_KEYS, by=["key"], keep="first")
            .group_by("key")
            .agg(dp.len(signed=True), pl.col("amount").fill_nan(0.0).fill_null(0.0).dp.sum((0.0, LARGEST)))  # type: ignore[attr-defined]
            .with_keys(pl.scan_parquet(folder / "keys.parquet"))
        )
        return query.release().collect()

    return work


def duckdb(folder: Path) -> Callable[[], object]:
    """The floor: a plain GROUP BY, its answer fetched as Arrow."""
    import duckdb as engine

    ask = "SELECT key, sum(amount), count(*) FROM read_parquet(?) GROUP BY key"
    connection = engine.connect()
    return lambda: connection.sql(ask, params=[str(folder / "rows.parquet")]).to_arrow_table().num_rows


JOBS: dict[str, Callable[[Path], Callable[[], object]]] = {
    "duckdb": duckdb,
    "file": steelyard_file,
    "list": steelyard_list,
    "opendp": opendp,
}


def run(job: str, folder: Path) -> None:
    """Do one job in this process and print what its work took."""
    work = JOBS[job](folder)
    start, used = time.perf_counter(), time.process_time()
    work()
    took = {"cpu": time.process_time() - used, "wall": time.perf_counter() - start}
    print(json.dumps({**took, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def measured(job: str, folder: Path, python: str) -> dict[str, float] | str:
    """What a job took in a process of its own; where it failed, why."""
    done = subprocess.run([python, __file__, "--job", job, str(folder)], capture_output=True, text=True)
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    said = [line.strip() for line in done.stderr.splitlines() if "Error" in line or "version" in line]
    return f"failed: {(said or ['no reason given'])[-1][:200]}"


def main() -> None:
    """Run every job for every number of keys."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--users", type=int, default=500_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[100, 10_000, 100_000, 1_000_000])
    parser.add_argument("--skip", nargs="*", default=[])
    parser.add_argument("--opendp-python", default=sys.executable)
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        return run(args.job[0], Path(args.job[1]))
    print(f"{args.rows:,} rows, {args.users:,} users\n{'keys':>10}  {'job':8}{'CPU s':>8}{'ratio':>8}{'peak MB':>9}")
    for keys in args.keys:
        with tempfile.TemporaryDirectory(prefix="steelyard-keys-") as name:
            make(Path(name), args.rows, args.users, keys)
            floor = None
            for job in JOBS:
                python = args.opendp_python if job == "opendp" else sys.executable
                took = "not run" if job in args.skip else measured(job, Path(name), python)
                start = f"{keys:>10,}  {job:8}"
                if isinstance(took, str):
                    print(f"{start}  {took}", flush=True)
                    continue
                floor = floor or took["cpu"]
                print(f"{start}{took['cpu']:>8.2f}{took['cpu'] / floor:>8.1f}{took['peak']:>9,.0f}", flush=True)
    return None


if __name__ == "__main__":
    main()
