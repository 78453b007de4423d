"""Labels of a Spark frame, drawn by executors into files: one charge, every record once, nothing told after the charge."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from steelyard.cli import main
from steelyard.errors import ColumnMissing, InvalidTask, TableError, UncheckedQuery
from steelyard.labels import LabelRandomizer, randomize_spark
from steelyard.labels._files import FAILED
from steelyard.ledger import open_account
from steelyard.noise import TestNoise
from steelyard.privacy import labels
from steelyard.tables import SparkRecords

ROWS = 2000
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")


@contextmanager
def _unchecked() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedQuery)
        yield


@pytest.fixture(scope="module")
def source(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Records in four files."""
    place = tmp_path_factory.mktemp("labels") / "rows"
    made = spark.range(0, ROWS, numPartitions=4).selectExpr(
        "id",
        "CAST(id % 11 AS INT) AS y",
        "concat('shop ', id % 2) AS shop",
        "id / 7 AS x",
        "array(id, 1) AS `held ``so.```",
    )
    made.write.parquet(str(place))
    return str(place)


def fitted(seed: int | None = None, **more: Any) -> LabelRandomizer:
    noise = {} if seed is None else {"noise": TestNoise(seed)}
    account = open_account(":memory:", "labels", unit=labels("y"), epsilon=2)
    return LabelRandomizer(1, 0, 10, missing=0, account=account, **noise, **more).fit()


def noisy(path: Path) -> dict[int, float]:
    table = pq.read_table(path)
    return dict(zip(table["id"].to_pylist(), table["y"].to_pylist(), strict=True))


def test_executors_write_every_record_once_for_one_charge(spark: Any, source: str, tmp_path: Path) -> None:
    made, before = fitted(), pq.read_table(source).sort_by("id")
    assert randomize_spark(made, spark.read.parquet(source), tmp_path / "out", "y", parts=3) == ROWS
    after = pq.read_table(tmp_path / "out").sort_by("id")
    assert after.column_names == before.column_names
    assert after.drop_columns("y").equals(before.drop_columns("y").cast(after.drop_columns("y").schema))
    assert set(after["y"].to_pylist()) <= set(made.sampler_.values.tolist())
    assert len(set(after["y"].to_pylist())) > 2
    assert str(made.account_.spent) == "epsilon 1"
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3
    assert not list(tmp_path.glob(".steelyard*"))


def test_a_record_gets_its_label_by_key_and_id_however_the_frame_is_divided(
    spark: Any, source: str, tmp_path: Path
) -> None:
    frame = spark.read.parquet(source)
    divided = [(frame, 2, 1), (frame, 3, 1), (frame.repartition(5, "x"), 4, 1), (frame, 2, 2)]
    found = []
    for number, (each, parts, seed) in enumerate(divided):
        with pytest.warns(UncheckedQuery) if number == 2 else nullcontext():
            randomize_spark(fitted(seed), each, tmp_path / str(number), "y", ids="id", parts=parts)
        found.append(noisy(tmp_path / str(number)))
    assert found[0] == found[1] == found[2]
    assert found[0] != found[3]


def test_neither_files_nor_places_of_records_depend_on_labels(spark: Any, source: str, tmp_path: Path) -> None:
    frame = spark.read.parquet(source)
    other = tmp_path / "other"
    frame.selectExpr("id", "CAST(id * 7919 % 10007 AS INT) AS y", "shop", "x", "`held ``so.```").write.parquet(
        str(other)
    )
    for name, each in (("a", frame), ("b", spark.read.parquet(str(other)))):
        randomize_spark(fitted(), each, tmp_path / name, "y", ids="id", parts=3)
    places = [
        [pq.read_table(file)["id"].to_pylist() for file in sorted((tmp_path / n).glob("*.parquet"))] for n in "ab"
    ]
    assert places[0] == places[1]


def test_labels_that_folders_name_are_refused_before_the_charge(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders, made = str(tmp_path / "folders"), fitted()
    rows = spark.range(0, 60, numPartitions=1).selectExpr("id", "CAST(id % 3 AS INT) AS y", "id % 2 AS half")
    rows.write.partitionBy("half", "y").parquet(folders)
    frame = spark.read.parquet(folders)
    for ids in (None, "id"):
        with pytest.raises(InvalidTask, match="Nothing was charged"):
            randomize_spark(made, frame, tmp_path / "out", "y", ids=ids)
    assert made.account_.spent.amount == 0
    other = str(tmp_path / "other")
    rows.write.partitionBy("half").parquet(other)
    randomize_spark(made, spark.read.parquet(other), tmp_path / "out", "y")  # what is public may be a folder's name
    assert len(noisy(tmp_path / "out")) == 60
    # a broken twin that does not look at folders: the names, and with them the places of records, are made of labels
    monkeypatch.setattr("steelyard.tables._spark_files._check_folders", lambda frame, column: None)
    told = SparkRecords(frame, "y")
    files = told._frame.select("y", "_metadata.file_path").distinct().collect()
    assert all(f"/y={row.y}/" in row.file_path for row in files)


def test_groups_are_public_and_known_before_the_charge(spark: Any, source: str, tmp_path: Path) -> None:
    frame, made = spark.read.parquet(source), LabelRandomizer(1, 0, 10, missing=0)
    randomize_spark(made.fit(groups=["shop 0", "shop 1"]), frame, tmp_path / "out", "y", ids="id", groups="shop")
    assert len(noisy(tmp_path / "out")) == ROWS
    few = LabelRandomizer(1, 0, 10, missing=0).fit(groups=["shop 0"])
    with pytest.raises(InvalidTask, match="shop 1"):
        randomize_spark(few, frame, tmp_path / "few", "y", ids="id", groups="shop")
    assert few.account_.spent.amount == 0


def test_what_is_wrong_with_the_request_is_told_before_a_charge(spark: Any, source: str, tmp_path: Path) -> None:
    from pyspark.sql.functions import expr, monotonically_increasing_id, udf

    frame, made, out = spark.read.parquet(source), fitted(), tmp_path / "out"
    twice = frame.selectExpr("id % 5 AS id", "y")
    none = frame.selectExpr("nullif(id, 3) AS id", "y")
    refused: list[tuple[type[Exception], str, Any, str, dict[str, Any]]] = [
        (ColumnMissing, "z", frame, "z", {}),
        (ColumnMissing, "z", frame, "y", {"ids": "z"}),
        (InvalidTask, "id of their own", twice, "y", {"ids": "id"}),
        (InvalidTask, "id of their own", none, "y", {"ids": "id"}),
        (InvalidTask, "integers or texts", frame, "y", {"ids": "x"}),
        (InvalidTask, "need public ids", frame.where("id > 3"), "y", {}),
        (InvalidTask, "cannot name", frame, "y", {"ids": "y"}),
        (TableError, "numbers", frame, "shop", {}),
        (TableError, "not a Spark data frame", [1, 2], "y", {}),
        (InvalidTask, "column of groups", frame, "y", {"groups": "shop"}),
        (InvalidTask, "with chance", frame.withColumn("i", monotonically_increasing_id()), "y", {"ids": "i"}),
        (InvalidTask, "with chance", frame.withColumn("i", expr("uuid()")), "y", {"ids": "i"}),
        (InvalidTask, "with chance", frame.where("rand() < 0.5"), "y", {"ids": "id"}),
        *((InvalidTask, "from 1 on", frame, "y", {"parts": parts}) for parts in (0, -1, True, 2**31)),
        (
            TableError,
            "could not be read; nothing was charged",
            frame.withColumn("id", udf(_fails, "int")("y")),
            "y",
            {"ids": "id"},
        ),
    ]
    for kind, text, each, column, more in refused:
        with pytest.raises(kind, match=text), _unchecked():
            randomize_spark(made, each, out, column, **more)
    out.mkdir()
    with pytest.raises(InvalidTask, match="exists"):
        randomize_spark(made, frame, out, "y")
    with pytest.raises(InvalidTask, match="cannot be written"):
        randomize_spark(made, frame, "/proc/out", "y")
    for other, text in (({"method": "laplace"}, "chance decides"), ({}, "missing")):
        again = LabelRandomizer(1, 0, 10, missing=0 if other else None, account=made.account_, **other).fit()
        with pytest.raises(InvalidTask, match=text):
            randomize_spark(again, frame, tmp_path / "new", "y")
    assert made.account_.spent.amount == 0
    assert list(out.iterdir()) == []


def test_a_failure_after_the_charge_has_one_text_and_leaves_nothing_behind(
    spark: Any, source: str, tmp_path: Path
) -> None:
    from pyspark.sql.functions import udf

    frame, made = spark.read.parquet(source), fitted()
    lost = frame.withColumn("y", udf(_fails, "int")("y"))
    with pytest.raises(TableError) as told, _unchecked():
        randomize_spark(made, lost, tmp_path / "out", "y", ids="id")
    assert (str(told.value), told.value.__cause__, told.value.__context__) == (FAILED, None, None)
    assert str(made.account_.spent) == "epsilon 1"
    assert list(tmp_path.iterdir()) == []


def _fails(label: int) -> int:
    return 1 // (label - 3)


def test_the_command_line_lets_a_cluster_do_it(
    spark: Any, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path / "budget.db")
    open_account(ledger, "labels", unit=labels("y"), epsilon=2)
    fitted().save(tmp_path / "made.json")
    asked = [
        "labels",
        "apply",
        str(tmp_path / "made.json"),
        source,
        str(tmp_path / "out"),
        "--ledger",
        ledger,
        "--account",
        "labels",
    ]
    assert main([*asked, "--spark", "local[2]", "--key", "k"]) == 2
    nowhere = [str(tmp_path / "none") if word == source else word for word in asked]
    assert main([*nowhere, "--spark", "local[2]"]) == 2
    assert main([*asked, "--spark", "local[2]"]) == 0
    assert "2,000 labels randomized" in capsys.readouterr().out
    assert np.isfinite(list(noisy(tmp_path / "out").values())).all()
