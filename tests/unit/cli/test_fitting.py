"""``steelyard fit`` and ``predict``: plan, spend, save, predict in order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.cli import _fitting as fitting
from steelyard.errors import BudgetExceeded, ColumnMissing, InvalidTask, TableError, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models.accuracy._goal import CHECKS
from steelyard.privacy import rows
from unit.cli.commands import FEATURES, command


def test_the_command_offers_the_ways_to_check_that_there_are() -> None:
    assert fitting._CHECKS == CHECKS


def test_a_model_is_fitted_saved_and_predicts_in_the_order_of_the_rows(spend: Path, tmp_path: Path) -> None:
    out, told, chart = tmp_path / "model.json", tmp_path / "told.parquet", tmp_path / "c.svg"
    answer = command("fit", spend, *FEATURES, "--epsilon", 1, "--out", out, "--chart", chart)
    assert "intercept" in answer.text
    assert "differential privacy" in answer.text
    assert "nothing adds up" in answer.text
    assert chart.read_text().startswith("<svg")
    assert json.loads(out.read_text())["format"] == "steelyard model 1"
    assert json.dumps(answer.data)
    assert command("predict", out, spend, "--out", told).data["rows"] == 20_000
    found = pq.read_table(told).column("prediction").to_numpy()
    truth = pd.read_parquet(spend)["spend"].to_numpy()
    assert 1 - np.mean((found - truth) ** 2) / np.var(truth) > 0.9
    assert not list(tmp_path.glob("*.part"))


def test_users_are_hidden_where_named(spend: Path, tmp_path: Path) -> None:
    answer = command("fit", spend, *FEATURES, "--epsilon", 4, "--user", "who", "--out", tmp_path / "m.json")
    assert "all rows of one value of 'who'" in answer.text


def test_a_logistic_model_tells_chances(spend: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(spend).assign(rich=lambda f: np.where(f["spend"] > 160, "yes", "no"))
    frame.to_parquet(tmp_path / "rich.parquet")
    words = ("fit", tmp_path / "rich.parquet", "--features", "age:0:100", "--label", "rich", "--model", "logistic",
             "--epsilon", 1, "--out", tmp_path / "m.json")  # fmt: skip
    with pytest.raises(InvalidTask, match="--classes"):
        command(*words)
    command(*words, "--classes", "no,yes")
    command("predict", tmp_path / "m.json", tmp_path / "rich.parquet", "--out", tmp_path / "p.parquet")
    told = pq.read_table(tmp_path / "p.parquet").to_pandas()
    assert list(told) == ["prediction", "probability_no", "probability_yes"]
    assert np.mean(told["prediction"] == frame["rich"]) > 0.85
    assert (told["prediction"] == np.where(told["probability_yes"] > 0.5, "yes", "no")).all()
    assert np.allclose(told["probability_no"] + told["probability_yes"], 1)


def test_rows_count_by_a_column_of_weights(spend: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(spend)
    heavy = frame.assign(times=np.where(frame["spend"] > frame["spend"].median(), 7, 0))
    heavy.to_csv(tmp_path / "heavy.csv", index=False)
    words = ("fit", tmp_path / "heavy.csv", *FEATURES, "--epsilon", 5, "--out", tmp_path / "m.json")
    told = command(*words, "--weight", "times", "--weight-bound", 7)
    assert "saved to" in told.text
    command("predict", tmp_path / "m.json", tmp_path / "heavy.csv", "--out", tmp_path / "p.parquet")
    weighed = pq.read_table(tmp_path / "p.parquet").column("prediction").to_numpy().mean()
    assert weighed > frame["spend"].mean() + 3, "only the upper half counts"
    for more in (("--weight-bound", 7), ("--weight", "times", "--target-loss", 5, "--rows", 10)):
        with pytest.raises(InvalidTask, match="--weight"):
            command(*words, *more, "--overwrite")


def test_an_account_pays_and_a_plan_does_not(spend: Path, tmp_path: Path) -> None:
    ledger, out = tmp_path / "l.db", tmp_path / "m.json"
    account = open_account(str(ledger), "models", unit=rows(), epsilon=1, delta="1e-6")
    paid = (
        "fit",
        spend,
        *FEATURES,
        "--epsilon",
        1,
        "--ledger",
        ledger,
        "--account",
        "models",
        "--out",
        out,
        "--overwrite",
    )
    plan = command(*paid, "--plan")
    assert plan.data["enough"] is True
    assert not out.exists()
    assert account.spent.amount == 0
    first = command(*paid, "--key", "k")
    assert "receipt: entry" in first.text
    again = out.read_text()
    command(*paid, "--key", "k")
    assert out.read_text() == again
    with pytest.raises(BudgetExceeded):
        command(*paid)


def test_what_makes_no_sense_is_refused(spend: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    with pytest.raises(InvalidTask, match="--lower"):
        command("fit", spend, "--features", "age:0:9", "--label", "spend", "--epsilon", 1, "--out", out)
    with pytest.raises(InvalidTask, match="x_bound"):
        command("fit", spend, "--features", "age", *FEATURES[3:], "--epsilon", 1, "--out", out)
    with pytest.raises(InvalidTask, match="both"):
        command("fit", spend, *FEATURES, "--epsilon", 1, "--out", out, "--ledger", "l.db")
    with pytest.raises(InvalidTask, match="no folder"):
        command("fit", spend, *FEATURES, "--epsilon", 1, "--out", tmp_path / "nowhere" / "m.json")
    with pytest.raises(InvalidTask, match="saved model"):
        command("predict", out, spend, "--out", tmp_path / "p.parquet")
    assert not out.exists()


def test_predicting_needs_the_columns_and_a_file(spend: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    command(
        "fit", spend, "--features", "age", "--x-bound", 100, *FEATURES[3:], "--epsilon", 1, "--delta", 0, "--out", out
    )
    assert "spends nothing" in command("predict", out, spend, "--out", tmp_path / "p.parquet", "--plan").text
    pq.write_table(pa.table({"other": [1.0]}), tmp_path / "o.parquet")
    with pytest.raises(ColumnMissing):
        command("predict", out, tmp_path / "o.parquet", "--out", tmp_path / "p.parquet")
    with pytest.raises(TableError):
        command("predict", out, tmp_path / "none.parquet", "--out", tmp_path / "p.parquet")


def test_an_accuracy_can_be_named_instead_of_a_price(
    spend: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, rows = tmp_path / "m.json", pq.ParquetFile(spend).metadata.num_rows
    named = ("fit", spend, *FEATURES, "--epsilon", 20, "--rows", rows, "--out", out, "--overwrite")
    with pytest.raises(InvalidTask, match="--rows"):
        command("fit", spend, *FEATURES, "--epsilon", 20, "--target-loss", 4000, "--out", out)
    with pytest.raises(InvalidTask, match="exactly one"):
        command(*named, "--target-loss", 4000, "--excess-loss", 1)
    assert "at most" in command(*named, "--target-loss", 4000, "--plan").text
    assert not out.exists()
    reached = command(*named, "--target-loss", 12000, "--chart", tmp_path / "path.svg")
    assert reached.data["reason"] in ("target_met", "null_model_ok")
    assert reached.data["bound"] <= 12000
    assert out.exists()
    assert (tmp_path / "path.svg").read_text().startswith("<svg")
    told = capsys.readouterr().err
    assert "epsilon so far" in told
    assert "about" in told or reached.data["reason"] == "null_model_ok"
    assert command(*named, "--target-loss", "0.0001").data["reason"] in ("cap_reached", "target_impossible")


def test_an_accuracy_can_be_named_where_users_are_hidden(spend: Path, tmp_path: Path) -> None:
    people = len(set(pq.read_table(spend, columns=["who"]).column(0).to_pylist()))
    named = (
        "fit",
        spend,
        *FEATURES,
        "--epsilon",
        20,
        "--target-loss",
        12000,
        "--out",
        tmp_path / "m.json",
        "--overwrite",
    )
    for wrong in (("--users", people), ("--user", "who"), ("--user", "who", "--users", people, "--rows", 9)):
        with pytest.raises(InvalidTask, match=r"--users|--rows"):
            command(*named, *wrong)
    reached = command(*named, "--user", "who", "--users", people)
    assert "every user counting once" in reached.data["certificate"]
    false = command(
        *named, "--user", "who", "--users", people + 1
    )  # counted nowhere: the certificate says what it rests on
    assert f"takes for granted that the table has the {people + 1:,} users" in false.data["certificate"]


def test_an_accuracy_can_be_promised_on_rows_apart(
    spend: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = (
        "fit",
        spend,
        *FEATURES,
        "--epsilon",
        20,
        "--overwrite",
        "--out",
        tmp_path / "m.json",
        "--check",
        "disjoint",
    )
    with pytest.raises(InvalidTask, match="stay secret"):
        command(*named, "--target-loss", 12000, "--rows", 9)
    with pytest.raises(InvalidTask, match="--ids"):
        command(
            "fit", spend, *FEATURES, "--epsilon", 20, "--rows", 9, "--target-loss", 12000, "--ids", "who", "--out", "m"
        )
    for whose in ((), ("--ids", "who"), ("--user", "who")):
        reached = command(*named, "--target-loss", 12000, *whose)
        assert "has not seen" in reached.data["certificate"]
        told = capsys.readouterr().err.splitlines()[-1]
        assert f" {reached.data['epsilon']:.4g} " in told  # the dearer part, as the account counts it


def test_every_method_keeps_rows_of_users_where_a_cap_is_named(spend: Path, tmp_path: Path) -> None:
    near = tmp_path / "near.json"
    near.write_text(json.dumps([[0.8, 0.0], [0.0, 0.8]]))
    linear = ("--features", "age:0:100", *FEATURES[3:])
    frame = pd.read_parquet(spend).assign(rich=lambda f: f["spend"] > 160)
    frame.to_parquet(tmp_path / "rich.parquet")
    ways = ((), ("--method", "objective"), ("--method", "output", "--ridge", 9), ("--method", "choice", "--radius", 1))
    for place, way in enumerate((*ways, ("--method", "choice", "--candidates", near))):
        out, delta = tmp_path / "m.json", (0, "1e-6")[place % 2]
        words = ("--epsilon", 8, "--delta", delta, "--user", "who", "--cap", 3, *way, "--out", out, "--overwrite")
        told = command("fit", spend, *linear, *words)
        assert "all rows of one value of 'who'" in told.text
        assert json.loads(out.read_text())["kind"] == "linear"
    logistic = ("fit", tmp_path / "rich.parquet", "--features", "age:0:100", "--label", "rich", "--model", "logistic",
                "--classes", "false,true", "--epsilon", 8, "--user", "who", "--cap", 3, "--out", out, "--overwrite")  # fmt: skip
    for method in ("objective", "output", "descent"):
        assert "who" in command(*logistic, "--method", method).text


def test_a_way_that_cannot_be_meant_is_refused(spend: Path, tmp_path: Path) -> None:
    out, words = tmp_path / "m.json", ("fit", spend, *FEATURES, "--epsilon", 1, "--out", tmp_path / "m.json")
    with pytest.raises(InvalidTask, match="--method choice"):
        command(*words, "--radius", 1)
    with pytest.raises(InvalidTask, match="accuracy"):
        command(*words, "--method", "output", "--target-loss", 9, "--rows", 100)
    with pytest.raises(UnitMismatch, match="cap"):
        command(*words, "--cap", 3)
    with pytest.raises(UnitMismatch, match="cap"):
        command(*words, "--method", "output", "--user", "who")
    with pytest.raises(InvalidTask, match="method"):
        command(*words, "--method", "descent")
    with pytest.raises(InvalidTask, match="list of candidates"):
        command(*words, "--method", "choice", "--candidates", spend)
    assert not out.exists()
