"""A report in a file: planned for nothing, released as one request, and refused by name where it means nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli import main
from steelyard.demo._story import make_purchases, write_parquet
from steelyard.requests import paper_schema, read_report, report_terms

REPORT = """
unit = "users:user_id"
profile = ["spent.json"]

[numbers.revenue]
task = "sum"
column = "amount"
cap = "spent.json"
tolerance = "30%"

[numbers.people]
task = "count-users"
tolerance = 25

[numbers."people by land"]
task = "CountUsers"
by = "country"
keys = ["FR", "DE"]
max_keys = 2
tolerance = 30

[numbers.price]
task = "mean"
column = "amount"
lower = 0
upper = 100
cap = 20
tolerance = 9
rows = 900
noise_alone = true
"""
PAY = ["--ledger", "b.db", "--account", "a"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    write_parquet(make_purchases(200), tmp_path / "spend.parquet")
    assert main(["account", "open", "b.db", "a", "--unit", "users:user_id", "--epsilon", "20"]) == 0
    look = ["profile", "spend.parquet", "amount", "--upper", "10000", "--epsilon", "5", "--out", "spent.json", *PAY]
    assert main(look) == 0
    (tmp_path / "report.toml").write_text(REPORT)
    capsys.readouterr()
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_report_is_planned_without_a_table_and_then_released_at_that_price(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, paper = run(capsys, "plan", "report.toml", "--chart", "money.svg")
    assert code == 0
    assert Path("money.svg").read_text().startswith("<svg")
    code, planned = run(capsys, "report", "spend.parquet", "report.toml", *PAY, "--plan")
    assert (code, planned["cost"], planned["enough"]) == (0, paper["cost"], True)
    assert run(capsys, "account", "show", "b.db", "a")[1]["spent"]["amount"] == 5_000_000
    code, found = run(capsys, "report", "spend.parquet", "report.toml", *PAY, "--key", "june", "--chart", "june.svg")
    assert (code, found["receipt"]["cost"]) == (0, paper["cost"])
    assert [name for name, _ in found["value"]] == ["revenue", "people", "people by land", "price"]
    again = run(capsys, "report", "spend.parquet", "report.toml", *PAY, "--key", "june")[1]
    assert again["value"] == found["value"]
    spent = run(capsys, "account", "show", "b.db", "a")[1]["spent"]["amount"]
    assert spent == 5_000_000 + paper["cost"]["amount"]


def test_a_person_reads_what_is_expensive_and_what_it_would_save(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "report.toml", "--epsilon", "0.01"]) == 0
    text = capsys.readouterr().out
    for words in ("the expensive one is", "dropping it saves", "noise alone", "enough: no", "people by land  ± 30"):
        assert words in text
    assert main(["report", "spend.parquet", "report.toml", *PAY]) == 0
    text = capsys.readouterr().out
    assert "people by land: FR" in text
    assert "receipt: entry" in text


def test_on_a_gaussian_account_mu_squared_is_divided(capsys: pytest.CaptureFixture[str]) -> None:
    pure, gaussian = (run(capsys, "plan", "report.toml", *more)[1] for more in ([], ["--delta", "1e-6"]))
    assert pure["cost"]["currency"] == "pure"
    assert gaussian["cost"]["currency"] == "gaussian"
    assert gaussian["epsilon"] > 0
    assert run(capsys, "plan", "report.toml", *PAY)[1]["cost"] == pure["cost"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('tolerance = "30%"', "", "numbers.revenue needs task and tolerance"),
        ('task = "sum"', 'task = "sun"', "numbers.revenue.task must be one of"),
        ('cap = "spent.json"', 'cup = "spent.json"', "has no field 'cup'"),
        ('cap = "spent.json"', 'cap = "spend.json"', "no file spend.json to read a saved profile"),
        ('unit = "users:user_id"', 'united = "users:user_id"', "has no 'united'"),
        ('unit = "users:user_id"', "", "say whom the report hides"),
        ('unit = "users:user_id"', "unit = 3", "say whom the report hides"),
        ('profile = ["spent.json"]', "profile = [3]", "profile is the name of a file"),
        ("tolerance = 25", "tolerance = nan", "tolerance"),
        ("tolerance = 25", "tolerance = -1", "above zero"),
        ("tolerance = 25", "tolerance = 25\nepsilon = 1", "leave epsilon and mu out"),
        ("tolerance = 25", "tolerance = 25\nrows = 3", "rows is for means"),
        ('keys = ["FR", "DE"]', "keys = [2026-01-01T10:00:00]", "no times of day"),
        ("noise_alone = true", 'noise_alone = "yes"', "noise_alone is True or False"),
        ("[numbers.revenue]", "[numbers.revenue", "is no report in TOML"),
    ],
)
def test_what_means_nothing_is_refused_by_name_before_a_charge(
    old: str, new: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in REPORT
    (folder / "report.toml").write_text(REPORT.replace(old, new, 1))
    code, answer = run(capsys, "plan", "report.toml")
    assert code == 2
    assert told in answer["error"]["message"]
    if "whom" not in told:
        assert run(capsys, "report", "spend.parquet", "report.toml", *PAY)[0] == 2
    assert run(capsys, "account", "show", "b.db", "a")[1]["spent"]["amount"] == 5_000_000


@pytest.mark.parametrize("words", [["plan", "report.toml", "--mu", "1"], ["plan", "report.toml", "--ledger", "b.db"],
                                   ["plan", "spent.json", "--epsilon", "1", "--unit", "rows"], ["plan", "nowhere.toml"],
                                   ["plan", "report.toml", "--keys", "4"]])  # fmt: skip
def test_options_that_would_be_ignored_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *words)[0] == 2


def test_a_report_names_the_columns_it_needs() -> None:
    plan, given = read_report("report.toml")
    schema = paper_schema(plan, report_terms(given, None, None).unit)
    assert dict(schema.columns) == {"user_id": "string", "amount": "float", "country": "string"}
