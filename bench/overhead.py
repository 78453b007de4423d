"""What one small release costs after the first: processor time, and where it goes.

    python bench/overhead.py [--releases 20] [--profile "sum by 3 keys"] [--processes 8]

A table of a thousand rows, so that almost nothing is reading. Each line is one kind of release, asked again and again of one session:
the median of its CPU milliseconds (all threads of the process), the first one's, and how the time of the calling thread divides among
what runs: the engine, the compiler of its SQL, the ledger (with its waits for the disk), the plan and the noise. ``--processes`` adds how many
releases a second so many processes make on one ledger file (all are at work before the count begins), beside the two limits of the machine in the
same minute: how often a second its disk syncs, of which a release takes two, and how many releases its cores could make if they did nothing else.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ledger import syncs

PLACES = {
    "engine": ("duckdb", "_duckdb", "execute", "fetchall", "to_arrow", "register", "tables/_engine", "pyarrow"),
    "SQL": ("ibis", "sqlglot", "koerce", "toolz"),
    "ledger": ("steelyard/ledger", "sqlite3", "hmac", "hashlib", "ed25519", "cryptography", "lock", "threading", "queue"),
    "plan and noise": ("steelyard/bounding", "steelyard/noise", "steelyard/mechanisms", "steelyard/accounting", "numpy"),
}  # fmt: skip


def jobs(sy: Any) -> dict[str, Callable[[], Any]]:
    """Small releases of several kinds."""
    keys = ["a", "b", "c"]
    return {
        "sum, cap given": lambda: sy.Sum("amount", epsilon="0.001", cap=100),
        "sum, cap chosen": lambda: sy.Sum("amount", epsilon="0.001", upper=1000),
        "count": lambda: sy.Count(epsilon="0.001", cap=5),
        "sum by 3 keys": lambda: sy.Sum("amount", epsilon="0.001", cap=100, by="k", keys=keys),
        "mean": lambda: sy.Mean("amount", epsilon="0.001", upper=100, cap=5),
    }


def session(folder: str, name: str) -> Any:
    """A session over a small Parquet file, on a ledger file that is synced for every charge."""
    import steelyard as sy

    account = sy.open_account(f"{folder}/budget.db", name, unit=sy.users("user"), epsilon=50)
    return sy.Session(sy.read(f"{folder}/rows.parquet"), account)


def make(folder: str) -> None:
    """A thousand rows of two hundred users."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = range(1000)
    found = pa.table(
        {"user": [i % 200 for i in rows], "amount": [i % 97 / 7 for i in rows], "k": ["abcd"[i % 4] for i in rows]}
    )
    pq.write_table(found, f"{folder}/rows.parquet")


def asked(held: Any, task: Callable[[], Any]) -> Any:
    """One release."""
    return held.release(task())


def timed(work: Callable[[], Any], times: int) -> list[float]:
    """CPU milliseconds of each."""
    took = []
    for _ in range(times):
        begun = time.process_time()
        work()
        took.append(1000 * (time.process_time() - begun))
    return took


def place_of(file: str, name: str) -> str:
    """Which part of the work a function belongs to."""
    text = f"{file} {name}"
    return next((place for place, words in PLACES.items() if any(word in text for word in words)), "rest")


def profiled(work: Callable[[], Any], times: int) -> tuple[Counter[str], cProfile.Profile]:
    """The share of each part of the work, by the time its own functions took."""
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(times):
        work()
    profile.disable()
    shares: Counter[str] = Counter()
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        shares[place_of(file, name)] += own
    return shares, profile


def table(folder: str, releases: int, shown: str | None) -> None:
    """One line for each kind."""
    import steelyard as sy

    print(f"{'':18}{'first ms':>9}{'then ms':>9}   {'   '.join(PLACES)}   rest (shares of the calling thread's time)")
    for number, (name, task) in enumerate(jobs(sy).items()):
        again = partial(asked, session(folder, f"job-{number}"), task)
        [first], rest = timed(again, 1), timed(again, releases)
        shares, profile = profiled(again, max(3, releases // 4))
        whole = sum(shares.values())
        parts = "   ".join(f"{shares[each] / whole:{len(each)}.0%}" for each in [*PLACES, "rest"])
        print(f"{name:18}{first:9.1f}{statistics.median(rest):9.1f}   {parts}", flush=True)
        if name == shown:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def together(folder: str, processes: int, seconds: float) -> None:
    """How many releases a second so many processes make on one ledger, and what the disk and the cores would allow."""
    command = [sys.executable, __file__, "--worker", folder, "--seconds", str(seconds), "--name"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    crew: list[Any] = [subprocess.Popen([*command, f"p{i}"], **pipes) for i in range(processes)]
    for each in crew:
        assert each.stdout.readline() == "ready\n"
    rate = syncs(Path(folder))
    for each in crew:
        each.stdin.write("go\n")
        each.stdin.flush()
    told = [each.communicate()[0].split() for each in crew]
    made, busy = sum(int(found[0]) for found in told), sum(float(found[1]) for found in told)
    cores = len(os.sched_getaffinity(0))
    print(
        f"{processes} processes: {made / seconds:,.0f} releases a second, {1000 * busy / made:.1f} ms of CPU each. The disk alone: {rate:,.0f} syncs a second, "
        f"so {rate / 2:,.0f} releases; {cores} cores alone: {cores * made / busy:,.0f} releases (load {os.getloadavg()[0]:.1f})"
    )


def work(folder: str, name: str, seconds: float) -> None:
    """One process of ``together``: gets ready, waits for the others, then counts; its releases and their CPU seconds."""
    import steelyard as sy

    held, made, task = session(folder, name), 0, jobs(sy)["sum, cap given"]
    for _ in range(3):
        held.release(task())
    print("ready", flush=True)
    sys.stdin.readline()
    begun, end = time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        held.release(task())
        made += 1
    print(made, time.process_time() - begun)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--profile", help="the kind whose profile is shown in full")
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--worker")
    parser.add_argument("--name", default="")
    given = parser.parse_args()
    if given.worker:
        return work(given.worker, given.name, given.seconds)
    with tempfile.TemporaryDirectory(prefix="steelyard-overhead-") as folder:
        os.environ["STEELYARD_HOME"] = str(Path(folder) / "home")
        make(folder)
        table(folder, given.releases, given.profile)
        if given.processes:
            together(folder, given.processes, given.seconds)
    return None


if __name__ == "__main__":
    main()
