"""What a command writes: reserved before a charge, never over what matters, and never at the price of the answer."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.cli import main
from steelyard.cli._files import printable
from steelyard.ledger import Ledger
from steelyard.privacy import Loss

PAY = ["--ledger", "budget.db", "--account", "shop"]
PROFILE = ["profile", "d.parquet", "v", "--upper", "100", "--epsilon", "0.5", *PAY]
FIT = ["fit", "d.parquet", "--label", "v", "--lower", "0", "--upper", "9", "--features", "a:0:9", "--epsilon", "0.5"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"u": list(range(50)), "v": [1.0] * 50, "a": [2.0] * 50}), "d.parquet")
    Path("d.csv").write_text("u,v\n" + "".join(f"{i},n/a\n{i},2\n" for i in range(50)))
    assert main(["account", "open", "budget.db", "shop", "--unit", "users:u", "--epsilon", "9"]) == 0
    capsys.readouterr()
    yield tmp_path
    assert not list(tmp_path.glob(".steelyard-*"))


def spent() -> Any:
    return Ledger("budget.db").account("shop").spent.amount


@contextmanager
def looked_at(ledger: str) -> Iterator[None]:
    """One reader on a ledger's file: while it looks, no last handle that is closed folds the log into the file."""
    with closing(sqlite3.connect(ledger)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from sqlite_schema").fetchone()
        yield


def contents() -> dict[Path, tuple[int, bytes]]:
    """Every file here: which one it is, and its bytes (but for the marks that readers of a ledger share in memory)."""
    return {
        path: (path.stat().st_ino, b"" if path.name.endswith("-shm") else path.read_bytes())
        for path in Path().iterdir()
    }


@pytest.mark.parametrize("out", ["budget.db", "budget.db.key", "budget.db.anchor", "d.parquet", "new.key"])
@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_a_ledger_its_files_and_the_data_are_never_written_over(out: str, more: list[str]) -> None:
    with looked_at("budget.db"):
        before = contents()
        assert main([*PROFILE, "--out", out, *more]) == 2
        assert main([*FIT, "--user", "u", "--out", out, *more]) == 2
        assert contents() == before


@pytest.mark.parametrize("out", ["ours", "ours-wal", "ours-shm", "ours-journal", "ours.key", "ours.anchor"])
def test_nor_are_those_of_a_ledger_with_a_name_of_its_own(out: str) -> None:
    assert main(["account", "open", "ours", "shop", "--unit", "users:u", "--epsilon", "9"]) == 0
    with looked_at("budget.db"), looked_at("ours"):
        assert Ledger("ours").account("shop").charge(Loss.pure("1"), key="k", request=b"")  # so that its log is there
        before = contents()
        assert Path("ours-wal") in before
        assert main([*PROFILE, "--out", out, "--overwrite"]) == 2
        assert contents() == before


@pytest.mark.parametrize("out", ["x" * 300, "x" * 252 + ".json", "new/", "d.csv/new"])
def test_a_name_that_no_file_can_have_is_told_before_the_charge(out: str) -> None:
    assert main([*PROFILE, "--out", out]) == 2
    assert spent() == 0


@pytest.mark.parametrize("chart", ["one.svg", "./one.svg"])
def test_two_outputs_of_one_name_are_refused_before_the_charge(chart: str) -> None:
    assert main([*PROFILE, "--out", "one.svg", "--chart", chart]) == 2
    assert spent() == 0


def test_a_file_that_is_there_is_replaced_only_when_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.json").write_text("mine")
    assert main([*PROFILE, "--out", "p.json"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert Path("p.json").read_text() == "mine"
    assert spent() == 0
    assert main([*PROFILE, "--out", "p.json", "--overwrite"]) == 0
    assert json.loads(Path("p.json").read_text())["column"] == "v"


@pytest.mark.parametrize("link", ["out.json", "out.json.part"])
def test_a_planted_link_is_not_followed(link: str) -> None:
    Path("victim").write_text("mine")
    os.symlink("victim", link)
    main([*FIT, "--user", "u", "--out", "out.json", "--overwrite"])
    main(["predict", "out.json", "d.parquet", "--out", link, "--overwrite"])
    assert Path("victim").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_told_before_the_charge(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PROFILE, "--out", "nowhere/p.json"]) == 2
    assert main([*PROFILE, "--chart", "/proc/p.svg"]) == 2
    assert "nothing was charged" in capsys.readouterr().err
    assert spent() == 0


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_file_that_fails_after_the_payment_still_tells_answer_and_key(
    as_json: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    move = os.replace
    monkeypatch.setattr(os, "replace", lambda one, other: full() if str(other) == "c.svg" else move(one, other))
    words = ["sum", "d.parquet", "v", "--cap", "3", "--epsilon", "0.5", *PAY, "--chart", "c.svg", *as_json]
    assert main(words) == 2
    said = capsys.readouterr().out
    if as_json:
        assert json.loads(said)["receipt"]["account"] == "shop"
        return
    assert "noise ±" in said
    assert "No space left on device" in said
    key = said.rpartition("--key ")[2].split()[0]
    monkeypatch.setattr(os, "replace", move)
    assert not Path("c.svg").exists()
    before = spent()
    assert main(["sum", "d.parquet", "v", "--cap", "3", "--epsilon", "0.5", *PAY, "--key", key]) == 0
    assert spent() == before


def test_a_csv_column_that_is_added_up_is_a_number_and_types_can_be_stated(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sum", "d.csv", "v", "--cap", "3", "--epsilon", "2", *PAY, "--json"]
    assert main(words) == 0
    assert 60 < json.loads(capsys.readouterr().out)["value"] < 140
    assert main([*words, "--types", "v:string"]) == 2
    assert main([*words, "--types", "w:float"]) == 2
    assert main([*words, "--types", "nonsense"]) == 2


def test_a_terminal_is_not_steered_by_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\x1b]0;title\x07b\u202e\x9b1m\tc\n") == "a\\x1b]0;title\\x07b\\u202e\\x9b1m\tc\n"
    assert main(["sum", "no\x1b[31m.parquet", "v", "--cap", "3", "--epsilon", "1", *PAY]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_reader_who_stops_reading_gets_no_traceback() -> None:
    code = "import sys; from steelyard.cli import main; sys.exit(main(sys.argv[1:]))"
    asked = subprocess.Popen(
        [sys.executable, "-c", code, "audit", "--list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert asked.stdout is not None
    asked.stdout.close()
    assert asked.stderr is not None
    with asked.stderr as said:
        assert said.read() == b""
    assert asked.wait() == 0
