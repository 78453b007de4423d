"""``steelyard holdout``: open, check, show, plan and attack."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.cli import holdouts
from steelyard.cli.answer import Answer
from steelyard.errors import InvalidTask, LedgerError

N = 5000


def run(*words: Any) -> Answer:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true")
    shared.add_argument("--plan", action="store_true")
    root = argparse.ArgumentParser()
    holdouts.add_commands(root.add_subparsers(), shared)
    args = root.parse_args(["holdout", *map(str, words)])
    answer: Answer = args.run(args)
    json.dumps(answer.data)
    return answer


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, ...]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, N)
    guesses = np.where(rng.random(N) < 0.8, labels, 1 - labels)
    pq.write_table(pa.table({"y": labels, "other": labels}), tmp_path / "labels.parquet")
    np.save(tmp_path / "predictions.npy", guesses)
    (tmp_path / "predictions.csv").write_text("p\n" + "\n".join(map(str, guesses)) + "\n")
    return tmp_path / "labels.parquet", tmp_path / "predictions.npy", tmp_path / "predictions.csv", tmp_path / "b.db"


def test_open_check_and_show_share_one_budget(files: tuple[Path, ...]) -> None:
    labels, array, table, ledger = files
    given = ["--column", "y", "--ledger", ledger, "--name", "spring"]
    assert run("open", labels, *given, "--plan").text.startswith("would open")
    assert not ledger.exists()
    opened = run("open", labels, *given)
    assert opened.data["surprises_left"] > 1
    free = run("check", labels, array, *given, "--guess", "0.8")
    assert (free.data["kind"], free.data["value"]) == ("free", 0.8)
    assert run("check", labels, table, *given, "--guess", "0.8").data == free.data
    paid = run("check", labels, table, *given, "--guess", "0.5")
    assert paid.data["kind"] == "paid"
    shown = run("show", labels, *given)
    assert shown.data["surprises_left"] < opened.data["surprises_left"]
    assert "1 paid" in shown.text


def test_a_refusal_leaves_with_the_exit_code_of_refusals(files: tuple[Path, ...]) -> None:
    labels, array, _, ledger = files
    given = ["--column", "y", "--ledger", ledger, "--name", "spring", "--questions", "1"]
    run("open", labels, *given)
    run("check", labels, array, *given, "--guess", "0.8")
    refused = run("check", labels, array, *given, "--guess", "0.81")
    assert (refused.exit_code, refused.data["kind"]) == (3, "refused")


def test_checking_plans_for_nothing(files: tuple[Path, ...]) -> None:
    labels, array, _, ledger = files
    given = ["--column", "y", "--ledger", ledger, "--name", "spring"]
    before = run("open", labels, *given).data
    planned = run("check", labels, array, *given, "--guess", "0.8", "--plan")
    assert planned.data["spent"] == before["spent"]


def test_mistakes_are_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    labels, array, _, ledger = files
    given = ["--ledger", ledger, "--name", "spring"]
    with pytest.raises(InvalidTask, match="has 2 columns"):
        run("open", labels, *given)
    with pytest.raises(InvalidTask, match="no column 'z'"):
        run("open", labels, *given, "--column", "z")
    with pytest.raises(InvalidTask, match=r"must be a \.csv"):
        run("open", tmp_path / "x.txt", *given)
    with pytest.raises(InvalidTask, match="cannot be read"):
        run("open", tmp_path / "gone.npy", *given)
    with pytest.raises(LedgerError, match="no ledger"):
        run("check", labels, array, *given, "--column", "y")


def test_plan_and_attack_say_what_is_certified(files: tuple[Path, ...]) -> None:
    planned = run("plan", "--rows", 10_000, "--questions", 8)
    assert planned.data["half_width"] > 0
    attacked = run("attack", "--rows", 2000, "--questions", 20, "--tolerance", "0.1")
    assert attacked.data["attacks"]
    assert all(attack["missed"] == 0 for attack in attacked.data["attacks"])
