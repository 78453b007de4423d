"""Parquet in, Parquet out: bounded memory, one charge, no raw label left behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from steelyard.errors import BudgetExceeded, ColumnMissing, InvalidTask, TableError
from steelyard.labels import _files as files
from steelyard.labels import _row_files as row_files
from steelyard.labels._files import LabelFile, randomize_parquet
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.ledger import Account, open_account
from steelyard.noise import TestNoise
from steelyard.privacy import labels


def account(epsilon: str = "2") -> Account:
    return open_account(":memory:", "labels", unit=labels("spend"), epsilon=epsilon)


def write(path: Path, spend: Any, start: int = 0) -> Path:
    size = len(spend)
    table = pa.table({"id": np.arange(start, start + size), "spend": spend, "x": np.linspace(0, 1, size)})
    pq.write_table(table.replace_schema_metadata({"pandas": "max spend 399.99"}), path, row_group_size=1000)
    return path


def fitted(budget: Account | None = None, **more: Any) -> LabelRandomizer:
    return LabelRandomizer(2, 0, 400, account=budget, nodes=5, missing=0, **more).fit()


def test_a_file_is_copied_with_its_labels_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BATCH", 700)
    spend = np.random.default_rng(1).uniform(0, 400, 5000)
    source, budget = write(tmp_path / "in.parquet", spend), account()
    made = fitted(budget)
    assert randomize_parquet(made, source, tmp_path / "out.parquet", "spend") == 5000
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column_names == ["id", "spend", "x"]
    assert out["id"].to_pylist() == list(range(5000))
    assert set(out["spend"].to_pylist()) <= set(made.sampler_.values.tolist())
    assert str(budget.spent) == "epsilon 2"
    raw = (tmp_path / "out.parquet").read_bytes()
    assert b"399.99" not in raw
    assert not list(tmp_path.glob("*.part"))


def test_streamed_labels_have_no_bias(tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", np.full(200_000, 123.4))
    made = fitted(noise=TestNoise(4))
    randomize_parquet(made, source, tmp_path / "out.parquet", "spend")
    noisy = pq.read_table(tmp_path / "out.parquet")["spend"].to_numpy()
    assert abs(noisy.mean() - 123.4) < 5 * noisy.std() / np.sqrt(200_000)


def test_files_of_one_collection_are_one_charge_and_agree_on_shared_records(tmp_path: Path) -> None:
    budget = account()
    made = fitted(budget)
    for name, start in (("a", 0), ("b", 50)):
        source = write(tmp_path / f"{name}.parquet", np.full(100, 5.0 * start), start)
        randomize_parquet(made, source, tmp_path / f"{name}.out", "spend", ids="id")
    first, second = (pq.read_table(tmp_path / f"{n}.out")["spend"].to_pylist() for n in "ab")
    assert first[50:] == second[:50]
    assert str(budget.spent) == "epsilon 2"


def test_nulls_and_odd_numbers_count_as_declared(tmp_path: Path) -> None:
    table = pa.table({"spend": pa.array([None, float("nan"), float("inf"), 1e300, -5.0])})
    pq.write_table(table, tmp_path / "in.parquet")
    randomize_parquet(fitted(), tmp_path / "in.parquet", tmp_path / "out.parquet", "spend")
    assert pq.read_table(tmp_path / "out.parquet")["spend"].null_count == 0


def test_what_is_wrong_with_the_request_is_told_before_a_charge(tmp_path: Path) -> None:
    source, budget = write(tmp_path / "in.parquet", np.zeros(3)), account()
    made, out = fitted(budget), tmp_path / "out.parquet"
    with pytest.raises(ColumnMissing):
        randomize_parquet(made, source, out, "spent")
    with pytest.raises(InvalidTask):
        randomize_parquet(made, source, source, "spend")
    with pytest.raises(InvalidTask, match="ids"):
        randomize_parquet(made, source, out, "spend", key="k")
    with pytest.raises(InvalidTask, match="missing"):
        randomize_parquet(LabelRandomizer(2, 0, 400, nodes=5).fit(), source, out, "spend")
    pq.write_table(pa.table({"spend": ["a"]}), tmp_path / "text.parquet")
    with pytest.raises(TableError, match="numbers"):
        randomize_parquet(made, tmp_path / "text.parquet", out, "spend")
    (tmp_path / "bad.parquet").write_bytes(b"no")
    with pytest.raises(TableError):
        LabelFile(tmp_path / "bad.parquet", "spend")
    assert budget.spent.amount == 0
    assert not out.exists()


@pytest.mark.parametrize("twice", ["spend", "id", "shop"])
def test_a_column_that_stands_twice_is_refused_before_a_charge(twice: str, tmp_path: Path) -> None:
    budget, names = account(), ["spend", "id", "shop"]
    columns = [pa.array([0.0, 1.0]), pa.array([1, 2]), pa.array(["a", "b"])]
    table = pa.Table.from_arrays([*columns, columns[names.index(twice)]], names=[*names, twice])
    pq.write_table(table, tmp_path / "in.parquet")
    made = LabelRandomizer(2, 0, 400, account=budget, nodes=5, missing=0).fit(groups=["a", "b"])
    with pytest.raises(TableError, match="several columns"):
        randomize_parquet(made, tmp_path / "in.parquet", tmp_path / "out.parquet", "spend", ids="id", groups="shop")
    assert budget.spent.amount == 0


def test_a_file_system_without_links_gets_its_noisy_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    source = write(tmp_path / "in.parquet", np.zeros(3))
    assert randomize_parquet(fitted(), source, tmp_path / "out.parquet", "spend") == 3
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_labels_that_are_paid_for_stay_where_the_error_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out, copy = write(tmp_path / "in.parquet", np.zeros(3)), tmp_path / "out.parquet", files._copy

    def meanwhile(*given: Any) -> None:
        copy(*given)
        out.write_text("somebody else's")

    monkeypatch.setattr(files, "_copy", meanwhile)
    with pytest.raises(TableError, match="paid for and whole") as refusal:
        randomize_parquet(fitted(), source, out, "spend")
    assert out.read_text() == "somebody else's"
    (kept,) = tmp_path.glob(".steelyard-*.parquet")
    assert str(kept) in str(refusal.value)
    assert pq.read_table(kept).num_rows == 3


def test_a_refused_charge_makes_no_file(tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", np.zeros(3))
    with pytest.raises(BudgetExceeded):
        randomize_parquet(fitted(account("1")), source, tmp_path / "out.parquet", "spend")
    assert not (tmp_path / "out.parquet").exists()


def test_a_file_damaged_in_the_middle_gives_one_message_and_no_file(tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", np.random.default_rng(1).uniform(0, 400, 5000))
    raw = bytearray(source.read_bytes())
    raw[len(raw) // 3 : len(raw) // 2] = bytes(len(raw) // 2 - len(raw) // 3)
    source.write_bytes(raw)
    with pytest.raises(TableError) as refusal:
        randomize_parquet(fitted(), source, tmp_path / "out.parquet", "spend")
    assert str(refusal.value) == files.FAILED
    assert refusal.value.__context__ is None
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def most_held(file: LabelFile) -> int:
    """The most bytes Arrow held while the file was read from end to end."""
    before, most = pa.total_allocated_bytes(), 0
    for _ in file.batches():
        most = max(most, pa.total_allocated_bytes() - before)
    return most


def test_a_file_is_never_held_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BATCH", 20_000)
    rng = np.random.default_rng(1)
    table = pa.table({"spend": rng.random(1_000_000), "x": rng.random(1_000_000)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=50_000, use_dictionary=False)
    del table
    size = (tmp_path / "in.parquet").stat().st_size
    assert most_held(LabelFile(tmp_path / "in.parquet", "spend")) < size / 3
    twin = LabelFile(tmp_path / "in.parquet", "spend")
    twin._file._file = pq.ParquetFile(tmp_path / "in.parquet", pre_buffer=True)  # type: ignore[union-attr]
    assert most_held(twin) > size / 3


def test_a_csv_file_is_text_whose_labels_are_the_numbers_they_spell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "BATCH", 7)
    odd = ["0", "400", "", "abc", "1e2", " 25", "nan", "007", "9" * 400]
    lines = [f'{number},{label},"a, {number}"' for number, label in enumerate(odd * 5)]
    (tmp_path / "in.csv").write_text("\n".join(["id,spend,note", *lines]) + "\n")
    budget = account("4")
    made = fitted(budget)
    for name in ("out.csv", "out.parquet"):
        assert randomize_parquet(made, tmp_path / "in.csv", tmp_path / name, "spend") == 45
    text = pyarrow.csv.read_csv(tmp_path / "out.csv")
    for out in (text, pq.read_table(tmp_path / "out.parquet")):
        assert [str(each) for each in out["id"].to_pylist()] == [str(n) for n in range(45)]
        assert out["note"].to_pylist() == [f"a, {n}" for n in range(45)]
        assert set(out["spend"].to_pylist()) <= set(made.sampler_.values.tolist())
    assert str(budget.spent) == "epsilon 4"


def test_how_long_a_label_is_written_moves_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BATCH", 100_000)
    sizes = []
    for label in ("1", "1" + "0" * 300):
        (tmp_path / "in.csv").write_text(
            "id,spend\n" + "".join(f"{n},{label if n == 5 else 1}\n" for n in range(250_000))
        )
        sizes.append([batch.num_rows for batch in LabelFile(tmp_path / "in.csv", "spend").batches()])
    assert sizes[0] == sizes[1] == [100_000, 100_000, 50_000]


def test_a_csv_file_buys_a_prior_and_draws_records_once(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,spend,shop\n" + "".join(f"{n},{n % 4},{'ab'[n % 2]}\n" for n in range(3000)))
    file = LabelFile(tmp_path / "in.csv", "spend", ids="id", groups="shop")
    assert (file.rows, file.known_groups()) == (3000, ("a", "b"))
    made = LabelRandomizer(4, 0, 3, "unbiased", prior="private", missing=0, account=account("4"))
    grid = made.grid()
    made.fit_counts(lambda: file.counts(*grid, ("a", "b")), file.rows, groups=("a", "b"))
    assert randomize_parquet(made, tmp_path / "in.csv", tmp_path / "o.csv", "spend", ids="id", groups="shop") == 3000


@pytest.mark.parametrize("text", ["", "id,spend\n1,2,3\n", "id,spend\n1\n"])
def test_a_csv_file_that_is_none_is_refused_before_anything_is_charged(tmp_path: Path, text: str) -> None:
    (tmp_path / "in.csv").write_text(text)
    with pytest.raises(TableError):
        LabelFile(tmp_path / "in.csv", "spend")
