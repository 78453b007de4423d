"""``steelyard predict`` for several classes and files, and what ``fit`` passes on where users are hidden."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from steelyard.errors import InvalidTask, TableError, UnitMismatch
from unit.cli.commands import FEATURES, command


def test_several_classes_are_saved_and_the_likeliest_is_told_from_parquet_and_csv_alike(
    spend: Path, tmp_path: Path
) -> None:
    frame = pd.read_parquet(spend)
    frame["band"] = np.select([frame["age"] < 30, frame["age"] < 70], ["low", "middle"], "high")
    frame.to_parquet(tmp_path / "bands.parquet")
    command("fit", tmp_path / "bands.parquet", "--features", "age:0:100", "--label", "band", "--model", "logistic",
            "--classes", "low,middle,high", "--epsilon", 4, "--out", tmp_path / "m.json")  # fmt: skip
    command("predict", tmp_path / "m.json", tmp_path / "bands.parquet", "--out", tmp_path / "p.parquet")
    told = pq.read_table(tmp_path / "p.parquet").to_pandas()
    assert list(told) == ["prediction", "probability_low", "probability_middle", "probability_high"]
    extreme = frame["band"] != "middle"
    assert np.mean((told["prediction"] == frame["band"])[extreme]) > 0.9
    assert told.iloc[:, 1:].sum(axis=1).to_numpy() == pytest.approx(1)
    for part in range(2):
        frame[part * 10_000 : (part + 1) * 10_000].to_csv(tmp_path / f"part-{part}.csv", index=False)
    again = command("predict", tmp_path / "m.json", tmp_path / "part-*.csv", "--out", tmp_path / "q.parquet")
    assert again.data["rows"] == 20_000
    assert pq.read_table(tmp_path / "q.parquet").to_pandas().equals(told)
    command("predict", tmp_path / "m.json", tmp_path / "part-*.csv", "--out", tmp_path / "q.CSV")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "q.CSV"), told, check_dtype=False)


def test_a_poisson_model_tells_expected_counts_and_hides_the_label_alone(spend: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(spend)
    means = np.exp(frame["age"].to_numpy() / 50)
    frame["orders"] = np.random.default_rng(3).poisson(means)
    frame.to_csv(tmp_path / "orders.csv", index=False)
    words = ("fit", tmp_path / "orders.csv", "--features", "age:0:100", "--label", "orders", "--model", "poisson",
             "--epsilon", 1, "--out", tmp_path / "m.json")  # fmt: skip
    for more in ((), ("--lower", 0, "--upper", 20, "--user", "who"), ("--lower", 0, "--upper", 20, "--target-loss", 1)):
        with pytest.raises(InvalidTask, match=r"Poisson"):
            command(*words, *more)
    with pytest.raises(InvalidTask, match="--classes"):
        command(*words, "--lower", 0, "--upper", 20, "--classes", "1,2")
    assert "the label 'orders' of one row" in command(*words, "--lower", 0, "--upper", 20).text
    command("predict", tmp_path / "m.json", tmp_path / "orders.csv", "--out", tmp_path / "p.parquet")
    told = pq.read_table(tmp_path / "p.parquet").to_pandas()
    assert list(told) == ["prediction"]
    assert np.mean(np.abs(told["prediction"] / means - 1)) < 0.2


def test_a_cap_and_a_declared_row_count_reach_the_fit_and_its_warning_is_said(spend: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(spend).assign(rich=lambda f: f["spend"] > 160, one=0)
    frame.to_parquet(tmp_path / "rich.parquet")
    logistic = ("fit", tmp_path / "rich.parquet", "--features", "age:0:100", "--label", "rich", "--model", "logistic",
                "--classes", "false,true", "--epsilon", 2, "--overwrite", "--out", tmp_path / "m.json")  # fmt: skip
    pure = command(*logistic, "--user", "who", "--delta", 0, "--cap", 2)
    assert "intercept" in pure.text
    with pytest.raises(UnitMismatch, match="bound users"):
        command(*logistic, "--cap", 2)
    linear = command("fit", spend, *FEATURES, "--epsilon", 4, "--user", "who", "--cap", 2, "--out", tmp_path / "l.json")
    assert linear.exit_code == 0
    few = command("fit", tmp_path / "rich.parquet", *FEATURES, "--epsilon", 1, "--user", "one", "--public-rows", 20_000,
                  "--overwrite", "--out", tmp_path / "m.json")  # fmt: skip
    assert "warning: " in few.text


def test_a_torn_file_is_refused_and_leaves_nothing(spend: Path, tmp_path: Path) -> None:
    command("fit", spend, *FEATURES, "--epsilon", 1, "--out", tmp_path / "m.json")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    whole = spend.read_bytes()
    (tmp_path / "cut.parquet").write_bytes(b"PAR1" + bytes(200) + whole[204:])
    for name in ("torn.parquet", "cut.parquet", "none.parquet", "*.json"):
        with pytest.raises(TableError):
            command("predict", tmp_path / "m.json", tmp_path / name, "--out", tmp_path / "p.parquet")
    assert not list(tmp_path.glob("p.parquet*"))
