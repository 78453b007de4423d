"""The driver of the cluster tests: asks every kind of question of rows that lie with the workers, and loses workers meanwhile.

    python -m faults.cluster_asker FOLDER MASTER WORKER_GROUPS

The driver may take in a megabyte of results for each job, and has little memory: rows that come to it end the question with the fixed
text. What happened is printed as one JSON document; the tests look at it.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import steelyard as sy
from spark import SETTINGS
from steelyard.errors import TableError, UncheckedQuery
from steelyard.holdout import Question
from steelyard.labels import randomize_spark
from steelyard.labels._executors import KeyedDraws
from steelyard.models import Numeric, _user_descent
from steelyard.noise import TestNoise, new_key

ROWS, USERS, KEYS = 200_000, 5_000, [0, 1, 2]
FEATURES = [Numeric("a", 0, 1), Numeric("b", 0, 1)]
RESULTS = 2**20
FLAGS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
PLACE = Path(sy.__file__).parents[1]
TESTS = Path(__file__).parents[1]


def start(master: str) -> Any:
    """A session on the cluster, one core on each worker."""
    from pyspark.sql import SparkSession

    own = SETTINGS | {
        "spark.driver.memory": "512m",
        "spark.driver.maxResultSize": str(RESULTS),
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": FLAGS,
        "spark.executor.extraJavaOptions": FLAGS,
        "spark.sql.codegen.wholeStage": "false",  # compiling Java for so few rows takes longer than reading them
        "spark.executorEnv.PYTHONPATH": f"{PLACE}:{TESTS}",
        "spark.task.maxFailures": "1",
        "spark.python.worker.reuse": "true",
    }
    builder = SparkSession.builder.master(master).appName("steelyard-cluster")
    for key, value in own.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def write(spark: Any, path: str) -> None:
    """The rows, made and written by the executors: they never were anywhere else."""
    made = spark.range(0, ROWS, numPartitions=2).selectExpr(
        "id", f"id % {USERS} AS user", "id % 4 AS k", "CAST(id % 97 AS DOUBLE) AS amount", "CAST(id % 7 < 3 AS INT) AS y",
        "CAST(id % 101 AS DOUBLE) / 101 AS a", "CAST(id % 103 AS DOUBLE) / 103 AS b",
    )  # fmt: skip
    made.write.parquet(path)


def tasks() -> dict[str, tuple[Any, Any]]:
    """One of every kind of task: whose presence is hidden, and what is asked."""
    users, rows, fixed = sy.users("user"), sy.rows(), sy.rows(neighbours="replace", n=ROWS)
    keyed: dict[str, Any] = {"by": "k", "keys": KEYS}
    linear, logistic = (
        sy.FitLinear(FEATURES, "amount", 0, 100, epsilon=1),
        sy.FitLogistic(FEATURES, "y", [0, 1], epsilon=1),
    )
    return {
        "Sum": (users, sy.Sum("amount", epsilon=1, cap=4000)),
        "Sum, cap chosen, by key": (users, sy.Sum("amount", epsilon=1, upper=10**5, **keyed)),
        "Sum by found keys": (users, sy.Sum("amount", epsilon=1, cap=4000, by="k", max_keys=4)),
        "Count": (users, sy.Count(epsilon=1, cap=40, **keyed)),
        "CountUsers": (users, sy.CountUsers(epsilon=1, max_keys=2, **keyed)),
        "CountDistinct": (users, sy.CountDistinct("k", epsilon=1, cap=2)),
        "Mean": (users, sy.Mean("amount", epsilon=1, upper=100, cap=40)),
        "Variance": (users, sy.Variance("amount", epsilon=1, upper=100, cap=40)),
        "Std": (users, sy.Std("amount", epsilon=1, upper=100, cap=40)),
        "Ratio": (users, sy.Ratio("y", "amount", epsilon=1, cap=40, over_cap=4000)),
        "Quantile": (users, sy.Quantile("amount", epsilon=1, upper=100, cap=40)),
        "Median": (users, sy.Median("amount", epsilon=1, upper=100, cap=40)),
        "Histogram": (users, sy.Histogram("amount", epsilon=1, edges=[0, 50, 100], cap=40)),
        "TopK": (users, sy.TopK("k", k=2, epsilon=1, keys=KEYS)),
        "Profile": (users, sy.Profile("amount", epsilon=1, upper=10**5)),
        "Together": (users, sy.Together([sy.Sum("amount", epsilon=1, cap=4000), sy.Mean("amount", epsilon=1, upper=100, cap=40)])),
        "Question": (fixed, Question("amount", epsilon=1, lower=0, upper=100)),
        "FitLinear": (rows, linear),
        "FitLogistic": (rows, logistic),
        "FitLinear, users": (users, linear),
        "FitLogistic, some rows of a user": (users, sy.FitLogistic(FEATURES, "y", [0, 1], epsilon=1, cap=5)),
        "AccuracyFirst, linear": (fixed, sy.AccuracyFirst(linear, excess_loss=50)),
        "AccuracyFirst, logistic": (fixed, sy.AccuracyFirst(logistic, excess_loss=0.1)),
        "AccuracyFirst, disjoint": (rows, sy.AccuracyFirst(linear, target_loss=1200, check="disjoint")),
        "AccuracyFirst, sum": (users, sy.AccuracyFirst(sy.Sum("amount", epsilon=1, cap=4000), relative_error=0.1)),
    }  # fmt: skip


def few_steps() -> None:
    """Descents of three steps in place of forty: every step is a job of its own, and they are alike."""
    _user_descent._STEPS, _user_descent._COUNTS = 3, (1, 1, 3, 3)
    _user_descent._PILOT_AVERAGED = _user_descent._MAIN_AVERAGED = 2


def account(folder: str, name: str, unit: Any) -> Any:
    """A new account of the one ledger."""
    return sy.open_account(f"{folder}/budget.db", name, unit=unit, epsilon=40, delta=1e-6, additive_delta="1e-7")


def ask_all(table: Any, folder: str) -> dict[str, dict[str, Any]]:
    """What became of every task, and how long it took."""
    told = {}
    for number, (name, (unit, task)) in enumerate(tasks().items()):
        began, at = time.monotonic(), account(folder, f"task-{number}", unit)
        session = sy.Session(table, at)
        try:
            found = (
                task.release(session, key="k") if isinstance(task, sy.AccuracyFirst) else session.release(task, key="k")
            )
            told[name] = {"ok": True, "said": type(found).__name__}
        except TableError as error:
            told[name] = {"ok": False, "said": str(error)}
        told[name]["seconds"] = time.monotonic() - began
    return told


def slowly(batches: Iterator[Any]) -> Iterator[Any]:
    """The same rows, so late that somebody can be killed meanwhile."""
    for batch in batches:
        time.sleep(2)
        yield batch


def during_a_job(spark: Any, action: Callable[[], None]) -> threading.Thread:
    """Do something as soon as tasks run."""
    tracker = spark.sparkContext.statusTracker()

    def wait() -> None:
        while not any((info := tracker.getStageInfo(i)) and info.numActiveTasks for i in tracker.getActiveStageIds()):
            time.sleep(0.05)
        time.sleep(0.5)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def executors(groups: list[int]) -> list[int]:
    """The executors of some workers, by their process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in groups:
            try:
                group, words = os.getpgid(int(entry.name)), (entry / "cmdline").read_bytes()
            except (OSError, ProcessLookupError):
                continue
            if group in groups and b"CoarseGrainedExecutorBackend" in words:
                found.append(int(entry.name))
    return found


def lose(spark: Any, frame: Any, folder: str, name: str, action: Callable[[], None]) -> dict[str, Any]:
    """One release during which something is lost, a second try by its key, and what both cost."""
    table, at = (
        sy.read(frame.mapInArrow(slowly, frame.schema), name="slow rows"),
        account(folder, name, sy.users("user")),
    )
    said, values = [], []
    lost = during_a_job(spark, action)
    for _ in range(2):
        try:
            values.append(sy.Session(table, at).release(sy.Sum("amount", epsilon=1, cap=4000), key="one").value)
        except TableError as error:
            said.append([str(error), error.__cause__ is None and error.__context__ is None])
    lost.join()
    return {"said": said, "values": values, "spent": str(at.spent), "entries": len(at.history())}


def randomized(
    spark: Any, frame: Any, folder: str, name: str, action: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Labels that executors draw, while something may be lost; whether every record has what key and id give it."""
    at = sy.open_account(":memory:", name, unit=sy.labels("y"), epsilon=2)
    made = sy.LabelRandomizer(1, 0, 1, missing=0, account=at, noise=TestNoise(name)).fit()
    lost, opened = list[threading.Thread](), made._open_keyed

    def open_and_lose(size: int) -> bytes:
        if action is not None:
            lost.append(during_a_job(spark, action))
        return opened(size)

    made._open_keyed = open_and_lose  # type: ignore[method-assign]
    rows = randomize_spark(made, frame, f"{folder}/{name}", "y", ids="id", parts=3)
    for thread in lost:
        thread.join()
    return {"rows": rows, "entries": len(at.history()), "key": new_key(TestNoise(name)).hex(), "lost": len(lost)}


def keyed(folder: str, name: str, told: dict[str, Any]) -> bool:
    """Whether a folder holds each record once, with the label that the key gives it."""
    found = pq.read_table(f"{folder}/{name}", columns=["id", "y"]).sort_by("id")
    ids = np.arange(ROWS)
    names = b"".join(hashlib.sha256(str(i).encode()).digest()[:16] for i in range(ROWS))
    draws = KeyedDraws(bytes.fromhex(told["key"]), sy.LabelRandomizer(1, 0, 1, missing=0).fit()._sampler, "y")
    expected = draws.sampler.at(draws.drawn(names, (ids % 7 < 3).astype(float)))
    return bool(np.array_equal(found["id"], ids) and np.array_equal(found["y"], expected))


def a_little_slowly(batches: Iterator[Any]) -> Iterator[Any]:
    """The same rows, late."""
    for batch in batches:
        time.sleep(0.3)
        yield batch


def main() -> None:
    """Ask, lose, print."""
    folder, master, groups = sys.argv[1], sys.argv[2], [int(text) for text in sys.argv[3].split(",")]
    warnings.simplefilter("ignore", UncheckedQuery)
    few_steps()
    began = time.monotonic()
    spark = start(master)
    write(spark, f"{folder}/rows")
    frame = spark.read.parquet(f"{folder}/rows")
    table, told = sy.read(frame), {"started": time.monotonic() - began}
    sy.Session(table, account(folder, "first", sy.users("user"))).release(sy.Count(epsilon=1, cap=40))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report: dict[str, Any] = {"tasks": ask_all(table, folder), "workers": len(executors(groups))}
    report["labels"] = randomized(spark, frame, folder, "labels")
    report["grown_mb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    try:
        report["rows_fetched"] = sum(batch.num_rows for batch in table.batches(["user", "amount", "a", "b"]))
    except TableError as error:
        report["rows_fetched"] = str(error)

    def kill_executors() -> None:
        for process in executors(groups):
            os.kill(process, signal.SIGKILL)

    slow = frame.mapInArrow(a_little_slowly, frame.schema)
    lost = lambda: os.killpg(groups[2], signal.SIGKILL)  # noqa: E731
    report["labels lost"] = randomized(spark, slow, folder, "labels-lost", lost)
    for name in ("labels", "labels lost"):
        report[name]["keyed"] = keyed(folder, name.replace(" ", "-"), report[name])
    report["executors lost"] = lose(spark, frame, folder, "executors", kill_executors)
    report["worker lost"] = lose(spark, frame, folder, "worker", lambda: os.killpg(groups[0], signal.SIGKILL))
    report["seconds"] = told["started"], time.monotonic() - began
    print(json.dumps(report))
    spark.stop()


if __name__ == "__main__":
    main()
