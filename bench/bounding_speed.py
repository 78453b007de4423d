"""How fast bounded totals are, beside two peers and beside the engine doing nothing but reading and grouping.

    python bench/bounding_speed.py [--only peers|group|memory] [--peer-python PATH] [--runs 2] [--huge]

Every job runs in a process of its own; shown are its wall and CPU seconds, its peak memory, and the same for the work
alone (after imports). Peers get a virtual environment of their own, made on demand in a temporary folder; where that
cannot be done they are skipped and the table says so. All data is generated, and deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PEERS = ("opendp[polars]==0.16.0", "pipeline-dp==0.3.1", "pyarrow")
KEYS = [f"k{i:02d}" for i in range(50)]
MAX_KEYS, ROWS_PER_KEY, LARGEST = 5, 20, 50.0


# The jobs. Imports are inside, so that the parent stays small and each python needs only its own libraries.


def make(path: str, rows: int, users: int) -> None:
    """Rows of users with log-normal weights (a few users hold thousands of rows), in chunks of constant memory."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(7)
    weights = np.cumsum(rng.lognormal(0, 1.85, users))
    schema = pa.schema([("user", pa.int64()), ("key", pa.string()), ("amount", pa.float64())])
    with pq.ParquetWriter(path, schema) as out:
        for start in range(0, rows, 2**20):
            size = min(2**20, rows - start)
            owner = np.searchsorted(weights, rng.uniform(0, weights[-1], size)).astype(np.int64)
            shown = (owner * 7 + rng.integers(0, 20, size)) % len(KEYS)
            key = pa.DictionaryArray.from_arrays(pa.array(shown.astype(np.int32)), pa.array(KEYS)).cast(pa.string())
            out.write_table(pa.table([pa.array(owner), key, pa.array(rng.gamma(2, 10, size))], schema=schema))


def _session(path: str) -> Any:
    import steelyard as sy

    account = sy.open_account(":memory:", "bench", unit=sy.users("user"), epsilon=10)
    return sy.Session(sy.read(path), account)


def steelyard_auto(path: str) -> Callable[[], object]:
    """Sum and count by key, both caps chosen privately inside the price."""
    import steelyard as sy

    session = _session(path)
    return lambda: (
        session.release(
            sy.Together(
                [
                    sy.Sum("amount", epsilon="0.5", upper=10**5, by="key", keys=KEYS),
                    sy.Count(epsilon="0.5", upper=10**4, by="key", keys=KEYS),
                ]
            )
        ),
    )


def steelyard_sampled(path: str) -> Callable[[], object]:
    """The peers' own bounds: at most 5 keys a user and 20 rows a key, sampled."""
    import steelyard as sy

    session = _session(path)
    limits: dict[str, Any] = {"by": "key", "keys": KEYS, "max_keys": MAX_KEYS, "rows_per_key": ROWS_PER_KEY}
    rows = MAX_KEYS * ROWS_PER_KEY
    return lambda: (
        session.release(
            sy.Together(
                [
                    sy.Sum("amount", epsilon="0.5", cap=rows * LARGEST, **limits),
                    sy.Count(epsilon="0.5", cap=rows, **limits),
                ]
            )
        ),
    )


def opendp(path: str) -> Callable[[], object]:
    """OpenDP's frame interface; keep="first" because its default sampling fails at release in 0.16."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")

    def work() -> object:
        context = dp.Context.compositor(
            data=pl.scan_parquet(path),
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
            .with_keys(pl.LazyFrame({"key": KEYS}))
        )
        return query.release().collect()

    return work


def pipelinedp(path: str) -> Callable[[], object]:
    """PipelineDP on its local backend."""
    import pipeline_dp  # type: ignore[import-not-found]
    import pyarrow.parquet as pq

    def work() -> object:
        table = pq.read_table(path)
        rows = list(zip(*(table[name].to_pylist() for name in ("user", "key", "amount")), strict=True))
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-9)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        parameters = pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM],
            max_partitions_contributed=MAX_KEYS,
            max_contributions_per_partition=ROWS_PER_KEY,
            min_value=0.0,
            max_value=LARGEST,
            noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        )
        columns = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: row[2],
        )
        found = engine.aggregate(rows, parameters, columns, public_partitions=KEYS)
        accountant.compute_budgets()
        return list(found)

    return work


def duckdb(path: str) -> Callable[[], object]:
    """The floor: read two columns and add one up by the other."""
    import duckdb as engine

    ask = "SELECT sum(least(s, 5000)) FROM (SELECT user, sum(amount) AS s FROM read_parquet(?) GROUP BY user)"
    return lambda: engine.connect().execute(ask, [path]).fetchall()


def capped(path: str) -> Callable[[], object]:
    """One capped sum with a public cap."""
    import steelyard as sy

    session = _session(path)
    return lambda: session.release(sy.Sum("amount", epsilon=1, cap=5000))


def capped_auto(path: str) -> Callable[[], object]:
    """One capped sum, the cap chosen privately: two passes."""
    import steelyard as sy

    session = _session(path)
    return lambda: session.release(sy.Sum("amount", epsilon=1, upper=10**6))


JOBS = {
    job.__name__: job for job in (steelyard_auto, steelyard_sampled, opendp, pipelinedp, duckdb, capped, capped_auto)
}


def work_of(job: str, path: str) -> None:
    """Run one job in this process and print what the work alone took."""
    task = JOBS[job](path)
    wall, used = time.perf_counter(), time.process_time()
    task()
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - used}))


# The parent: starts processes, measures them, prints.


@dataclass(frozen=True)
class Took:
    """What a process, and the work inside it, took."""

    wall: float
    cpu: float
    peak: float
    work_wall: float = 0.0
    work_cpu: float = 0.0


def measure(python: str, *arguments: str) -> Took:
    """Run this file in a process of its own and wait for it; fails loudly if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen([python, __file__, "--worker", *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    work = json.loads(text.splitlines()[-1]) if text.strip() else {"wall": 0.0, "cpu": 0.0}
    cpu = used.ru_utime + used.ru_stime
    return Took(time.perf_counter() - start, cpu, used.ru_maxrss / 1024, work["wall"], work["cpu"])


def best(python: str, job: str, path: Path, runs: int) -> Took | None:
    """The quickest run by the CPU of its work; none if the job cannot run here."""
    try:
        took = [measure(python, job, str(path)) for _ in range(runs)]
    except RuntimeError as error:
        print(f"{job:20} skipped: {error}")
        return None
    return min(took, key=lambda each: each.work_cpu)


def show(name: str, took: Took | None, floor: Took | None = None) -> None:
    """One line of the table, with ratios to the job it is compared with."""
    if took is None:
        return
    line = f"{name:20} {took.wall:7.2f} {took.cpu:7.2f} {took.peak:8.0f} {took.work_wall:9.2f} {took.work_cpu:9.2f}"
    if floor is not None:
        line += f" {took.work_wall / floor.work_wall:8.2f}x {took.work_cpu / floor.work_cpu:8.2f}x"
    print(line, flush=True)


def title(text: str) -> None:
    """The head of a table."""
    print(f"\n{text}\n{'':20} {'wall s':>7} {'CPU s':>7} {'peak MB':>8} {'work wall':>9} {'work CPU':>9}", flush=True)


def peer_python(folder: Path, given: str | None) -> str | None:
    """A python that has the peers; made on demand, or none with the reason printed."""
    if given is not None:
        return given
    try:
        venv.create(folder / "peers", with_pip=True)
        python = str(folder / "peers" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"peers skipped: their environment could not be made ({type(error).__name__}); give --peer-python.")
        return None
    return python


def peers(folder: Path, given: str | None, runs: int, rows: int) -> None:
    """Sum and count by 50 keys with user-level bounds, beside the peers; ratios are to the sampled job."""
    python, path = peer_python(folder, given), folder / "peers.parquet"
    measure(sys.executable, "make", str(path), str(rows), "100000")
    title(f"Sum and count by key: {rows:,} rows, 100,000 users, 50 keys (ratios to the first line)")
    floor = best(sys.executable, "steelyard_auto", path, runs)
    show("steelyard, auto caps", floor, floor)
    show("steelyard, sampled", best(sys.executable, "steelyard_sampled", path, runs), floor)
    if python is not None:
        show("opendp 0.16", best(python, "opendp", path, runs), floor)
        show("pipeline-dp 0.3.1", best(python, "pipelinedp", path, 1), floor)
    path.unlink()


def group(folder: Path, runs: int, rows: int) -> None:
    """A capped sum beside the engine merely grouping the same two columns."""
    path = folder / "group.parquet"
    measure(sys.executable, "make", str(path), str(rows), "138493")
    title(f"Capped sum: {rows:,} rows, 138,493 users (ratios to DuckDB alone)")
    floor = best(sys.executable, "duckdb", path, runs)
    show("duckdb, group only", floor, floor)
    show("steelyard, cap given", best(sys.executable, "capped", path, runs), floor)
    show("steelyard, auto cap", best(sys.executable, "capped_auto", path, runs), floor)
    path.unlink()


def memory(folder: Path, sizes: list[int]) -> None:
    """The same capped sum over more and more rows: cost is linear and memory flat."""
    title("Capped sum, cap given: growing tables, 138,493 users")
    for rows in sizes:
        path = folder / "memory.parquet"
        measure(sys.executable, "make", str(path), str(rows), "138493")
        show(f"{rows:,} rows", best(sys.executable, "capped", path, 1))
        path.unlink()


def main() -> None:
    """Read the command line and run what it asks for."""
    if sys.argv[1:2] == ["--worker"]:
        job, path, *numbers = sys.argv[2:]
        make(path, int(numbers[0]), int(numbers[1])) if job == "make" else work_of(job, path)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["peers", "group", "memory"])
    parser.add_argument("--peer-python", help="a python that already has " + ", ".join(PEERS))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="shrink or grow every table")
    parser.add_argument("--huge", action="store_true", help="also 200 million rows")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as name:
        folder = Path(name)
        five, twenty, fifty, most = (round(millions * 10**6 * chosen.scale) for millions in (5, 20, 50, 200))
        if chosen.only in (None, "peers"):
            peers(folder, chosen.peer_python, chosen.runs, five)
        if chosen.only in (None, "group"):
            group(folder, chosen.runs, twenty)
        if chosen.only in (None, "memory"):
            memory(folder, [five, twenty, fifty, *([most] if chosen.huge else [])])


if __name__ == "__main__":
    main()
