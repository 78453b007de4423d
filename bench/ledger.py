"""Durable charges a second: one writer, eight processes, 256 threads (group commit), on SQLite and on PostgreSQL.

    python bench/ledger.py [--folder DIR] [--seconds 3] [--postgres]

Each charge is synced to disk before it counts. Beside every rate stands the machine's own: how often a second it can
sync a small write to the same folder, so that a rate can be read as charges for each sync; and the processor time of
each charge, which a busy machine changes less than the rate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from steelyard.ledger import Account, Ledger, open_account
from steelyard.privacy import Currency, Loss, rows


def charge_for(account: Account, label: str, seconds: float, took: list[float]) -> None:
    """Charge as fast as one caller can, noting how long each charge took."""
    end = time.perf_counter() + seconds
    number = 0
    while (start := time.perf_counter()) < end:
        account.charge(Loss(Currency.PURE, 1), key=f"{label}-{number}", request=b"bench")
        took.append(time.perf_counter() - start)
        number += 1


def by_threads(location: str, threads: int, seconds: float) -> list[float]:
    """All the callers in one process, sharing its writer."""
    account = open_account(location, f"threads-{threads}", unit=rows(), epsilon=10**6)
    took: list[list[float]] = [[] for _ in range(threads)]
    crew = [
        threading.Thread(target=charge_for, args=(account, str(number), seconds, took[number]))
        for number in range(threads)
    ]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return [each for times in took for each in times]


def by_processes(location: str, processes: int, threads: int, seconds: float) -> list[float]:
    """Callers in processes of their own; each prints how long its charges took."""
    open_account(location, f"processes-{processes}", unit=rows(), epsilon=10**6)
    command = [sys.executable, __file__, "--worker", location, "--threads", str(threads), "--seconds", str(seconds)]
    crew = [
        subprocess.Popen([*command, "--name", f"{number}-of-{processes}"], stdout=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    return [float(text) for each in crew for text in each.communicate()[0].split()]


def work(location: str, name: str, threads: int, seconds: float) -> None:
    """One process of ``by_processes``."""
    account = Account(location, f"processes-{name.split('-')[-1]}")
    account.charge(Loss(Currency.PURE, 1), key=f"{name}-warm", request=b"bench")  # imports and connects
    took: list[list[float]] = [[] for _ in range(threads)]
    crew = [
        threading.Thread(target=charge_for, args=(account, f"{name}-{number}", seconds, took[number]))
        for number in range(threads)
    ]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    print(" ".join(f"{each:.6f}" for times in took for each in times))


def syncs(folder: Path, seconds: float = 1.0) -> float:
    """How often a second a small append can be synced in this folder."""
    handle = os.open(folder / "sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        os.write(handle, bytes(4096))
        os.fdatasync(handle)
        count += 1
    os.close(handle)
    return count / seconds


def row(engine: str, what: str, measure: Callable[[], list[float]], seconds: float, rate_of_syncs: float) -> None:
    """Measure, and print one line of the table; the processor time is that of this process alone."""
    before = time.process_time()
    took = measure()
    busy = (time.process_time() - before) / len(took)
    cuts = statistics.quantiles(took, n=100) if len(took) > 1 else [took[0]] * 99
    rate = len(took) / seconds
    print(
        f"{engine:<10} {what:<32} {rate:>9,.0f}/s  p50 {cuts[49] * 1e3:7.2f} ms  p99 {cuts[98] * 1e3:7.2f} ms  "
        f"{rate / rate_of_syncs:6.2f} charges per sync  {busy * 1e6:6.0f} us of processor"
    )


def table(engine: str, location: str, seconds: float, rate: float) -> None:
    """Measure one engine."""
    row(engine, "1 caller", lambda: by_threads(location, 1, seconds), seconds, rate)
    row(engine, "8 processes", lambda: by_processes(location, 8, 1, seconds), seconds, rate)
    row(engine, "256 threads, one process", lambda: by_threads(location, 256, seconds), seconds, rate)
    row(engine, "2 processes of 128 threads", lambda: by_processes(location, 2, 128, seconds), seconds, rate)
    start, busy = time.perf_counter(), time.process_time()
    report = Ledger(location).verify()
    pace, work = report.entries / (time.perf_counter() - start), report.entries / (time.process_time() - busy)
    told = f"{work:,.0f} for a second of processor ({report.entries:,} entries, ok: {report.ok})"
    print(f"{engine:<10} {'verify':<32} {pace:>9,.0f}/s  {told}")


def start_postgres() -> str:
    """A server of our own."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import postgres

    return str(postgres.new_database())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--worker")
    parser.add_argument("--name", default="")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.name, options.threads, options.seconds)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        os.environ["STEELYARD_HOME"] = f"{name}/home"
        rate = syncs(Path(name))
        print(f"the disk alone: {rate:,.0f} syncs/s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        table("SQLite", f"{name}/bench.db", options.seconds, rate)
        if options.postgres:
            table("PostgreSQL", start_postgres(), options.seconds, rate)


if __name__ == "__main__":
    main()
