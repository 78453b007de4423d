"""The client of the Spark Connect tests: asks every kind of question over the wire, and of DuckDB, and loses the server at the end.

    python -m conformance.connect_asker FOLDER URL SERVER_GROUP

It is a process of its own, which never starts a Java. What happened is printed as one JSON document; the tests look at it.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import steelyard as sy
from conformance.test_questions import QUESTIONS, ROWS, released, sold
from faults.cluster_asker import few_steps
from steelyard.errors import SteelyardError, UncheckedQuery, WeakPromise
from steelyard.labels import LabelRandomizer, randomize_spark
from steelyard.mechanisms._observe import observing
from steelyard.models import Categorical, Numeric
from steelyard.noise import TestNoise
from steelyard.tables import Quantity, _sampling, _soundness, _table, spark_frame
from steelyard.tables import _spark_connect as connect

N = 600
ASKED: dict[str, Any] = {
    "caps that are chosen": sy.Together(
        [sy.Sum("revenue", mu=2, upper=500), sy.Median("price", mu=2, upper=13, cap=4)]
    ),
    **{
        name: QUESTIONS[name]
        for name in ("by public keys of two columns and the rest", "by keys that are found", "profile")
    },
}
FEATURES = [Numeric("a", 0, 1), Categorical("c", ["x", "y"])]
SECRET, TOLD = "a cell that nobody may see", "a word that PySpark prints"


def people() -> Any:
    """Rows for models: cells that are no numbers, and rows of nobody, among them."""
    values = [
        None if i % 13 == 0 else [np.nan, np.inf][i % 2] if i % 17 == 0 else (i * 37 % 101) / 101 for i in range(N)
    ]
    return pa.table(
        {
            "user": pa.array([None if i % 19 == 0 else i % 83 for i in range(N)], pa.int64()),
            "a": pa.array(values, pa.float64()),
            "c": pa.array([["x", "y", None, "ÅΣß"][i % 4] for i in range(N)]),
            "y": pa.array([(i * 37 % 101) // 40 for i in range(N)], pa.int64()),
        }
    )


def fits() -> dict[str, tuple[Any, Any, float]]:
    """Each way that rows are passed through Python: whose presence is hidden, what is asked, and how near doubles must come."""
    users, rows, fixed = sy.users("user"), sy.rows(), sy.rows(neighbours="replace", n=N)
    linear = sy.FitLinear(FEATURES, "y", 0, 2, epsilon=4)
    short, classes = sy.FitLinear(FEATURES[:1], "y", 0, 2, epsilon=4), sy.FitLogistic(FEATURES, "y", [0, 1], epsilon=4)
    return {
        "FitLinear": (rows, linear, 0),
        "FitLogistic": (rows, classes, 1e-3),
        "FitLinear of users": (users, linear, 0),
        # which rows of a user count is decided by their cells, of which doubles are told apart by each engine's own text
        "FitLinear of some rows of users": (users, sy.FitLinear(FEATURES[1:], "y", 0, 2, epsilon=4, cap=3), 0),
        "AccuracyFirst": (fixed, sy.AccuracyFirst(linear, excess_loss=0.1), 0),
        "AccuracyFirst, disjoint": (rows, sy.AccuracyFirst(short, target_loss=0.3, check="disjoint"), 0),
    }


def account(unit: Any, place: str = ":memory:", name: str = "a") -> Any:
    """A new account."""
    return sy.open_account(place, name, unit=unit, epsilon=400, delta=1e-6, additive_delta="1e-7")


def fitted(table: Any, name: str) -> tuple[list[float], int]:
    """The coefficients of one fit, and how many charges it took."""
    unit, task, _ = fits()[name]
    at = account(unit)
    session = sy.Session(table, at, noise=TestNoise(5))
    search = isinstance(task, sy.AccuracyFirst)
    found: Any = task.release(session, key="k").model if search else session.release(task, key="k").value
    return [float(each) for each in found.theta], len(at.history())


def said(ask: Callable[[], Any]) -> list[Any]:
    """What a refusal says, of what kind it is, and whether it hides where it came from."""
    try:
        found = ask()
    except SteelyardError as error:
        return [type(error).__name__, str(error), error.__cause__ is None and error.__context__ is None]
    return ["", repr(found), False]


def questions(here: Any, there: Any) -> dict[str, Any]:
    """Whether each question fed the noise the same integers, and gave the same answer."""
    told = {}
    for name, task in ASKED.items():
        began = time.monotonic()
        expected, found = (released(sold(table), task) for table in (here, there))
        zeros = not any(any(each.values) for each in expected[0])
        told[name] = {"same": expected == found, "zeros": zeros, "seconds": time.monotonic() - began}
    return told


def models(here: Any, there: Any) -> dict[str, Any]:
    """How far each model over the wire is from that of DuckDB."""
    told = {}
    for name, (_, _, near) in fits().items():
        began = time.monotonic()
        with observing() as local:
            expected = fitted(here, name)
        with observing() as remote:
            found = fitted(there, name)
        far = max(abs(one - other) for one, other in zip(expected[0], found[0], strict=True))
        told[name] = {
            "near": far <= near,
            "far": far,
            "charges": [expected[1], found[1]],
            "size": max(map(abs, expected[0])),
        }
        told[name] |= {"integers": near > 0 or list(local) == list(remote), "seconds": time.monotonic() - began}
    return told


def trials(spark: Any, frame: Any) -> dict[str, Any]:
    """Whether a session is tried before its first table, each by itself, and what becomes of one that fails."""
    own, other = f"Spark {spark.session_id}", type(spark).builder.remote(sys.argv[2]).create()
    told: dict[str, Any] = {"before": own in _soundness._passed}
    sy.read(frame)
    told["after"] = own in _soundness._passed
    made, kept_up = other.createDataFrame(ROWS), _soundness.made_up
    before = _soundness._passed.copy()
    _soundness.made_up = lambda double="DOUBLE": kept_up(double).replace(
        "'2.5'", "'4.5'"
    )  # it computes with other values
    told["broken"] = said(lambda: sy.read(made))
    _soundness.made_up = kept_up
    told["forgotten"] = _soundness._passed == before
    other.stop()
    return told


def refusals(spark: Any, folder: str) -> dict[str, Any]:
    """What cannot be had over the wire, and what it cost."""
    frame, at = spark.createDataFrame(people()), account(sy.rows(), f"{folder}/budget.db", "refused")
    table = sy.read(frame)
    session = sy.Session(table, at)
    told: dict[str, Any] = {}
    spark.conf.set("spark.sql.execution.pyspark.python", f"{folder}/no-python")
    task, search = fits()["FitLinear"][1], fits()["AccuracyFirst, disjoint"][1]
    told["fit without Python"] = said(lambda: session.release(task, key="fit"))
    told["reserved without Python"] = said(lambda: session.reserve(task, key="fit"))
    told["search without Python"] = said(lambda: search.release(session, key="search"))
    told["entries before"] = len(at.history())
    connect._able.add(spark.session_id)
    told["reserved before"] = session.reserve(task, key="later").sequence
    connect._able.clear()  # as in another process, which finds other workers
    told["answered without Python"] = said(lambda: session.release(task, key="later"))
    session.release(sy.Count(epsilon=1), key="count")  # which needs none
    spark.conf.unset("spark.sql.execution.pyspark.python")
    session.release(task, key="fit")
    told["answered later"] = session.release(task, key="later").receipt.sequence
    told["entries after"] = len(at.history())
    randomizer = LabelRandomizer(epsilon=1, lower=0, upper=2).fit()
    told["labels"] = said(lambda: randomize_spark(randomizer, frame, f"{folder}/labels", "y", ids="user"))
    for name, given in {"transform": frame, "transform column": frame["y"]}.items():
        told[name] = said(partial(randomizer.transform, given))
    told["labels spent"] = str(randomizer.account_.spent)
    told["stream"] = said(lambda: sy.read(spark.readStream.format("rate").load()))
    told["missing column"] = said(lambda: sy.read(frame.select("nobody")))
    told["missing file"] = said(lambda: sy.read(spark.read.parquet(f"{folder}/nothing")))
    told["column"] = said(lambda: sy.read(frame["y"]))
    spark.sql("SELECT 1 AS x").createOrReplaceTempView("by_name")
    told["by its place"] = list(sy.read(spark_frame(sys.argv[2], "by_name")).columns)
    spark.catalog.dropTempView("by_name")
    told["no table"] = said(lambda: spark_frame(sys.argv[2], "nowhere"))
    return told


def files(spark: Any, folder: str) -> dict[str, Any]:
    """Files, frames in memory and queries: which are stored, and which columns can be used."""
    moments = pa.array(range(4), pa.timestamp("us"))
    rows = pa.table({"user": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0], "t": moments, "la nd": ["1", "2", "1", "2"]})
    pq.write_to_dataset(rows, f"{folder}/by_land", partition_cols=["la nd"])
    Path(f"{folder}/rows.csv").write_text("1,2.0\n")
    held, parquet = spark.createDataFrame(rows), spark.read.parquet(f"{folder}/by_land")
    strict = spark.read.schema("u int, v double").option("Mode", "failfast").csv(f"{folder}/rows.csv")
    told: dict[str, Any] = {}
    given = {"held": held, "parquet": parquet, "filtered": parquet.filter("x > 1"), "computed": spark.range(3)}
    given["cached"] = spark.read.parquet(f"{folder}/by_land").cache()
    given["renamed"] = parquet.toDF("user", "x", "t", "country")
    for name, frame in given.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UncheckedQuery)
            table = sy.read(frame)
        warned = any(issubclass(each.category, UncheckedQuery) for each in caught)
        told[name] = {"stored": table.stored, "warned": warned, "kinds": dict(table.columns)}
    told["strict"] = [said(partial(sy.read, frame))[1] for frame in (strict, strict.filter("v > 1"))]
    guesses = "spark.sql.sources.partitionColumnTypeInference.enabled"
    spark.conf.set(guesses, "false")
    told["as text"] = [sy.read(frame).columns["la nd"] for frame in (spark.read.parquet(f"{folder}/by_land"), parquet)]
    spark.conf.unset(guesses)
    given["cached"].unpersist()
    asked = sy.read(parquet).capped_sum(sy.users("user"), Quantity("x"), 0, 10)
    told["braces"] = sy.read(held).where("\"la nd\" <> '{user}' and \"la nd\" <> '2'").count_units(sy.users("user"))
    told["sum"] = [asked, sy.read(held).capped_sum(sy.users("user"), Quantity("x"), 0, 10)]
    return told


def guessed(spark: Any, folder: str) -> dict[str, Any]:
    """Files whose columns are guessed from rows, asked after a row came that would change the guess; and columns that rows name."""
    told: dict[str, Any] = {}
    lines = {"csv": ["user,x", "1,2.5", "2,3"], "json": ['{"user": 1, "x": 2.5}', '{"user": 2, "x": 3}']}
    for kind, row in (("csv", "3,oops"), ("json", '{"user": 3, "x": "oops"}')):
        path = Path(f"{folder}/guessed.{kind}")
        path.write_text("\n".join(lines[kind]))
        table = sy.read(getattr(spark.read.option("header", True).option("inferSchema", True), kind)(str(path)))
        path.write_text("\n".join([*lines[kind], row]))
        for number in range(40):  # the server forgets what it guessed
            _ = spark.range(number + 1).schema
        told[kind] = [dict(table.columns), table.stored, table.capped_sum(sy.users("user"), Quantity("x"), 0, 10)]
    frame = spark.createDataFrame(pa.table({"user": [1, 2], "c": ["1", SECRET]}))
    numbers = frame.selectExpr("user", "CAST(c AS INT) AS n")
    pivot = numbers.groupBy("user").pivot("n").count()
    named = {"pivot": pivot, "pivot of text": frame.groupBy("user").pivot("c").count()}
    named |= {
        "crosstab": numbers.crosstab("user", "n"),
        "transpose": frame.transpose(),
        "filter": pivot.filter("user > 1"),
    }
    told["named"] = {name: said(partial(sy.read, each)) for name, each in named.items()}
    told["pivot with values"] = list(sy.read(frame.groupBy("user").pivot("c", ["1", "2"]).count()).columns)
    return told


def kept(spark: Any, folder: str) -> dict[str, Any]:
    """Rows that are laid aside with the workers: read once, kept for all passes, and let go of."""
    mark = f"{folder}/passes"

    def marked(batches: Iterator[Any]) -> Iterator[Any]:
        with open(mark, "ab") as file:
            file.write(b".")
        yield from batches

    frame = spark.createDataFrame(people())
    table = sy.read(frame.mapInArrow(marked, frame.schema))

    def convert(batch: Any) -> Any:
        import numpy

        return numpy.array([[1]] * batch.num_rows, dtype=numpy.int32).reshape(-1, 1)

    held = table.blocks_by_unit(["a"], sy.users("user"), convert, 1)

    def thousandths(batch: Any) -> Any:
        import numpy

        found = numpy.array(batch.column(0).to_pylist(), dtype=float)
        return (found * 1000).astype(numpy.int32).reshape(-1, 1)

    def count(batches: Iterator[Any]) -> list[Any]:
        import numpy

        return [numpy.array([sum(len(rows) for rows, _ in batches)])]

    found, read = list[int](), list[int]()
    for _ in range(3):
        found.append(int(held.fold(count, [np.array([0])])[0][0]))
        read.append(len(Path(mark).read_bytes()))
        for number in range(7):  # a server remembers its last five plans; these are others
            _ = spark.range(number + 1).schema
    chance = sy.read(spark.createDataFrame(people()).selectExpr("user", "rand() AS a"))
    drawn = chance.blocks_by_unit(["a"], sy.users("user"), thousandths, 1)

    def passed() -> Any:
        for _ in range(3):
            drawn.fold(count, [np.array([0])])
            for number in range(40):  # the server forgets its plan, and draws anew
                _ = spark.range(number + 1).schema

    drew = said(passed)
    frame = held._blocks._frame  # type: ignore[attr-defined]
    told = {"rows": found, "read": read, "drew": drew, "cached": bool(frame.is_cached)}
    del held
    return told | {"let go": not frame.is_cached}


def quiet(spark: Any) -> dict[str, Any]:
    """What becomes of a cell that Spark cannot cast, and says so with the cell in its words."""
    frames = [spark.createDataFrame(pa.table({"user": [1], "c": [text]})) for text in (SECRET, TOLD)]
    wrong, told = (sy.read(frame.selectExpr("user", "CAST(c AS INT) AS n")) for frame in frames)
    session = sy.Session(wrong, account(sy.users("user"), name="quiet"))
    tasks: list[Any] = [sy.Sum("n", epsilon=1, cap=3), sy.FitLinear([Numeric("n", 0, 1)], "user", 0, 1, epsilon=1)]
    found = [said(partial(session.release, task)) for task in tasks]
    with suppress(Exception):
        told._engine._frame.collect()  # type: ignore[attr-defined]  # as anybody asks
    return {"said": found}


def lost(spark: Any, folder: str, group: int) -> dict[str, Any]:
    """One release during which the server is killed, a second try by its key, and what both cost."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    spark.client.set_retry_policies([DefaultPolicy(max_retries=2, initial_backoff=50)])  # else for ten minutes
    mark = Path(folder) / "began"

    def slowly(batches: Iterator[Any]) -> Iterator[Any]:
        mark.touch()
        for batch in batches:
            time.sleep(20)
            yield batch

    frame = spark.createDataFrame(people())
    table = sy.read(frame.mapInArrow(slowly, frame.schema), name="slow rows")
    at = account(sy.users("user"), f"{folder}/budget.db", "lost")
    session = sy.Session(table, at)

    def kill() -> None:
        while not mark.exists():
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)

    stored = sy.Session(sy.read(frame), account(sy.rows(), name="stored"))
    answers = [stored.release(fits()["FitLinear"][1], key="fit").value.theta]
    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    told: dict[str, Any] = {"said": [], "entries": [], "spent": []}
    for _ in range(2):
        told["said"].append(said(lambda: session.release(sy.Sum("a", epsilon=1, cap=3), key="one")))
        told["entries"].append(len(at.history()))
        told["spent"].append(str(at.spent))
    thread.join(60)
    told["killed"] = not thread.is_alive()
    connect._able.clear()  # as in another process, which does not know that the workers were able
    told["stored answer"] = [*answers, stored.release(fits()["FitLinear"][1], key="fit").value.theta]
    told["read again"] = said(lambda: sy.read(frame))
    return told


def main() -> None:
    """Ask, refuse, lose, print."""
    folder, url, group = sys.argv[1], sys.argv[2], int(sys.argv[3])
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for kind in (UncheckedQuery, WeakPromise):
        warnings.simplefilter("ignore", kind)
    fixed = SimpleNamespace(token_bytes=lambda size: b"k" * size, token_hex=secrets.token_hex)
    for module in (_sampling, _table):
        vars(module)["secrets"] = fixed  # which rows of a unit count is decided by one secret
    few_steps()
    spark = SparkSession.builder.remote(url).getOrCreate()
    steps: dict[str, Callable[[], Any]] = {
        "trials": lambda: trials(spark, spark.createDataFrame(ROWS)),
        "questions": lambda: questions(sy.read(ROWS), sy.read(spark.createDataFrame(ROWS))),
        "refusals": lambda: refusals(spark, folder),
        "models": lambda: models(sy.read(people()), sy.read(spark.createDataFrame(people()))),
        "files": lambda: files(spark, folder),
        "guessed": lambda: guessed(spark, folder),
        "kept": lambda: kept(spark, folder),
        "quiet": lambda: quiet(spark),
        "catalogue": lambda: [table.name for table in spark.catalog.listTables()],
        "java": lambda: SparkContext._gateway is not None,
        "lost": lambda: lost(spark, folder, group),
    }
    report, began = dict[str, Any](), time.monotonic()
    seconds = dict[str, float]()
    for name, step in steps.items():
        report[name] = step()
        seconds[name], began = time.monotonic() - began, time.monotonic()
    print(json.dumps(report | {"seconds": seconds}))
    sys.stdout.flush()
    os._exit(0)  # a client that says goodbye to a server that is gone waits for it


if __name__ == "__main__":
    main()
