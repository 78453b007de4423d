"""What ``bench/scale.py --spark`` measures: each job on a standalone Spark cluster, beside plain Spark doing the same grouping.

A master and two workers of one core run on loopback, as in the tests. Every job is a driver and two executors of its own and is done
twice, of which the second is counted: the first compiles Java and imports Python. CPU is that of whole processes, so the compiling and
tidying of Java counts as well as the tasks; memory is the peak of each process of the executors, added up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import steelyard as sy

ROOT = Path(__file__).parents[1]
JOBS = ("sum", "sum, cap chosen", "users by 50 keys", "quantile", "sum by found keys", "linear fit, rows", "linear fit, users")  # fmt: skip
OWN = {"quantile": "SELECT percentile_approx(amount, 0.5) FROM t"}
"""What Spark does otherwise than DuckDB: its exact percentile of 2 million values was aborted in executors of 512 MB."""
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "bench")]),
}
EXECUTOR, PYTHON, DRIVER = "executor", "python", "driver"


@dataclass(frozen=True)
class Cost:
    """CPU seconds of the executors' Java, of their Python and of the driver, and the executors' peak megabytes, Java's and Python's."""

    java: float
    python: float
    driver: float
    java_mb: float
    python_mb: float

    @property
    def cpu(self) -> float:
        """CPU seconds of the executors."""
        return self.java + self.python

    @property
    def peak(self) -> float:
        """Peak megabytes of the executors."""
        return self.java_mb + self.python_mb


def table(path: Path, rows: int, only: Sequence[str] | None) -> None:
    """Print each job beside its plain grouping."""
    import tempfile

    sys.path.insert(0, str(ROOT / "tests"))
    from cluster import cluster
    from scale import tasks

    print(f"{f'{rows:,} rows, Spark':26}{'Java s':>8}{'Python s':>9}{'driver s':>9}{'peak MB':>9}{'plain s':>9}{'plain MB':>9}{'CPU / plain':>12}{'MB / plain':>11}")  # fmt: skip
    beside = dict[str, Cost]()
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as made:
        told = [made.java, made.url, ",".join(str(worker.group) for worker in made.workers)]
        for name in only or JOBS:
            grouping = tasks(sy)[name][1]
            if grouping not in beside:
                beside[grouping] = apart([*told, "plain", grouping, str(path)])
            cost, least = apart([*told, "private", name, str(path)]), beside[grouping]
            print(f"{name:26}{cost.java:8.1f}{cost.python:9.1f}{cost.driver:9.1f}{cost.peak:9.0f}{least.cpu:9.1f}{least.peak:9.0f}{cost.cpu / least.cpu:12.1f}{cost.peak / least.peak:11.1f}", flush=True)  # fmt: skip


def apart(told: list[str]) -> Cost:
    """One job, by a driver of its own in a session of its own."""
    done = subprocess.run([sys.executable, __file__, *told], capture_output=True, text=True, start_new_session=True)
    if done.returncode:
        raise SystemExit(f"{told[3]} {told[4]}: {done.stderr.strip()[-2000:]}")
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def job(java: str, master: str, workers: str, kind: str, name: str, path: str) -> None:
    """Do one job twice and print what the second took."""
    os.environ |= {"JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    warnings.simplefilter("ignore")
    spark = started(master)
    try:
        frame = spark.read.parquet(path)
        work = private(frame, name, path) if kind == "private" else plain(spark, frame, name)
        work()
        with watched({int(group) for group in workers.split(",")}) as cost:
            work()
        print(json.dumps(cost))
    finally:
        spark.stop()


def started(master: str) -> Any:
    """A session on the cluster, one core on each worker, once both executors are there."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("steelyard-scale")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.config("spark.scheduler.minRegisteredResourcesRatio", "1.0").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def private(frame: Any, name: str, path: str) -> Callable[[], object]:
    """A release, from a new account each time."""
    import scale

    read = sy.read(frame)
    return lambda: scale.private(name, path, read)()


def plain(spark: Any, frame: Any, name: str) -> Callable[[], object]:
    """The same grouping in Spark, as it comes."""
    from scale import PLAIN

    frame.createOrReplaceTempView("t")
    return lambda: spark.sql(OWN.get(name, PLAIN[name])).collect()


@contextmanager
def watched(workers: set[int]) -> Iterator[list[float]]:
    """What is spent within; looked at twice a second, since a Python worker that ended is counted nowhere."""
    sessions = {os.getsid(0): True} | dict.fromkeys(workers, False)
    before, seen, ended = living(sessions), dict[int, tuple[str, float, float]](), threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            seen.update(living(sessions))

    watcher, cost = threading.Thread(target=watch), list[float]()
    watcher.start()
    try:
        yield cost
    finally:
        ended.set()
        watcher.join()
        seen.update(living(sessions))
    for kind in (EXECUTOR, PYTHON, DRIVER):
        cost.append(sum(cpu - before.get(pid, ("", 0.0, 0.0))[1] for pid, (of, cpu, _) in seen.items() if of == kind))
    for kind in (EXECUTOR, PYTHON):
        cost.append(sum(peak for of, _, peak in seen.values() if of == kind))


def living(sessions: dict[int, bool]) -> dict[int, tuple[str, float, float]]:
    """Every process of the driver and the executors: which it is, its CPU seconds so far and its peak megabytes."""
    found, tick = {}, os.sysconf("SC_CLK_TCK")
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) not in sessions:
                continue
            kind = DRIVER if sessions[int(fields[3])] else executor((place / "cmdline").read_text())
            peak = next(int(line.split()[1]) for line in (place / "status").read_text().splitlines() if line.startswith("VmHWM"))  # fmt: skip
        except (OSError, StopIteration):  # it ended meanwhile
            continue
        if kind:
            found[int(place.name)] = kind, sum(map(int, fields[11:13])) / tick, peak / 1024
    return found


def executor(command: str) -> str | None:
    """Whether a process of a worker's session is an executor, its Python, or neither (the worker itself)."""
    if "pyspark.daemon" in command:
        return PYTHON
    return EXECUTOR if "CoarseGrainedExecutorBackend" in command else None


if __name__ == "__main__":
    job(*sys.argv[1:])
