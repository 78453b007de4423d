"""``steelyard holdout``: open, check, show, plan and attack."""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.cli import _holdouts as holdouts
from steelyard.errors import BudgetExceeded, InvalidTask, LedgerError, UnitMismatch
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._metrics import PerExample
from steelyard.ledger import Ledger, open_account
from steelyard.privacy import rows
from steelyard.requests import Reply

N = 5000


def run(*words: Any) -> Reply:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true")
    shared.add_argument("--plan", action="store_true")
    root = argparse.ArgumentParser()
    holdouts.add_commands(root.add_subparsers(), shared)
    args = root.parse_args(["holdout", *map(str, words)])
    answer: Reply = args.run(args)
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
    assert opened.data["left"] > 1
    free = run("check", labels, array, *given, "--guess", "0.8")
    assert (free.data["kind"], free.data["value"]) == ("free", 0.8)
    assert run("check", labels, table, *given, "--guess", "0.8").data == free.data
    paid = run("check", labels, table, *given, "--guess", "0.5")
    assert paid.data["kind"] == "paid"
    shown = run("show", labels, *given)
    assert shown.data["left"] < opened.data["left"]
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
    with pytest.raises(InvalidTask, match=r"no file .*gone\.npy"):
        run("open", tmp_path / "gone.npy", *given)
    (tmp_path / "empty.npy").write_bytes(b"")
    with pytest.raises(InvalidTask, match="cannot be read as"):
        run("open", tmp_path / "empty.npy", *given)
    with pytest.raises(LedgerError, match="no ledger"):
        run("check", labels, array, *given, "--column", "y")


WRONG: dict[str, tuple[list[Any], str]] = {
    "short": ([0] * (N - 1), "4,999 predictions for 5,000 rows"),
    "missing": (["", *[0] * (N - 1)], "not a number"),
    "text": (["cat"] * N, "predictions are text, but the classes are numbers"),
    "foreign": ([7] + [0] * (N - 1), r"none of the declared classes \[0, 1\]"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_predictions_are_named_before_anything_is_charged(files: tuple[Path, ...], kind: str) -> None:
    labels, _, table, ledger = files
    given = ["--column", "y", "--ledger", ledger, "--name", "spring", "--classes", "0,1"]
    before = run("open", labels, *given).data
    values, message = WRONG[kind]
    table.write_text("p\n" + "\n".join(map(str, values)) + "\n")
    with pytest.raises(InvalidTask, match=message):
        run("check", labels, table, *given)
    assert run("show", labels, *given).data == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["--tolerance", "0.001"], "even one question needs"),
        (["--mode", "private"], "--classes 0,1"),
        (["--classes", "0,2"], "none of the declared classes"),
        (["--classes", "no,yes"], "'no' is not one"),
        (["--between", "0.5"], "two scores"),
        (["--epsilon", "1"], "mode 'certified' takes"),
        (["--mode", "private", "--classes", "0,1", "--questions", "500"], "certain to within"),
    ],
)
def test_wrong_settings_are_named_and_leave_no_ledger(
    files: tuple[Path, ...], settings: list[str], message: str
) -> None:
    labels, _, _, ledger = files
    with pytest.raises(InvalidTask, match=message):
        run("open", labels, "--column", "y", "--ledger", ledger, "--name", "spring", *settings)
    assert not ledger.exists()


def test_settings_are_given_once_and_then_read_from_the_ledger(files: tuple[Path, ...]) -> None:
    labels, array, _, ledger = files
    place = ["--column", "y", "--ledger", ledger, "--name", "spring"]
    settings = [
        "--tolerance",
        "0.1",
        "--between",
        "0.5,1",
        "--confidence",
        "0.9",
        "--classes",
        "0,1",
        "--metric",
        "error",
    ]
    opened = run("open", labels, *place, *settings)
    assert run("show", labels, *place).data == opened.data
    assert run("check", labels, array, *place, "--guess", "0.2").data["high"] == pytest.approx(0.3)
    with pytest.raises(UnitMismatch, match="open it as it was"):
        run("show", labels, *place, "--tolerance", "0.2")
    with pytest.raises(LedgerError, match="no holdout 'autumn'"):
        run("show", labels, *place[:-1], "autumn")


def test_a_holdout_opened_from_python_is_asked_from_the_command_line(files: tuple[Path, ...]) -> None:
    labels, array, _, ledger = files
    held = np.asarray(pq.read_table(labels)["y"])
    Holdout(held, ledger=ledger, name="spring", between=(0.5, 1.0), questions=50, classes=list(np.array([0, 1])))
    given = ["--column", "y", "--ledger", ledger, "--name", "spring"]
    assert run("check", labels, array, *given, "--guess", "0.8").data["kind"] == "free"
    Holdout(1.0 - held, ledger=ledger, name="loss", metric=PerExample(abs_gap, Fraction(1)))
    with pytest.raises(InvalidTask, match="Ask it from Python"):
        run("show", labels, *given[:-1], "loss")


def abs_gap(label: float, prediction: float) -> float:
    return abs(label - prediction)


@pytest.mark.parametrize("metric", ["auc", "balanced_accuracy", "log_loss:3", "absolute_error:1", "squared_error:2.5"])
def test_every_metric_is_opened_and_asked_again(metric: str, files: tuple[Path, ...], tmp_path: Path) -> None:
    labels, array, _, ledger = files
    given = ["--column", "y", "--ledger", ledger, "--name", "spring"]
    classes = [] if "error" in metric else ["--classes", "0,1"]
    opened = run("open", labels, *given, "--metric", metric, "--tolerance", "0.3", *classes)
    assert run("show", labels, *given).data == opened.data
    told = run("check", labels, array, *given).data
    assert told["low"] < told["value"] < told["high"]


@pytest.mark.parametrize("metric", ["f1", "log_loss", "log_loss:0", "squared_error:x", "AUC"])
def test_a_metric_that_is_none_is_refused(metric: str, files: tuple[Path, ...]) -> None:
    with pytest.raises(InvalidTask):
        run("open", files[0], "--column", "y", "--ledger", files[3], "--name", "spring", "--metric", metric)
    assert not files[3].exists()


def test_a_ladder_shows_the_best_so_far(files: tuple[Path, ...]) -> None:
    labels, array, table, ledger = files
    given = ["--column", "y", "--ledger", ledger, "--name", "board"]
    run("open", labels, *given, "--mode", "ladder", "--start", "0.5")
    first = run("check", labels, array, *given)
    table.write_text("p\n" + "0\n" * N)
    assert run("check", labels, table, *given).data["value"] == first.data["value"]


def test_rounds_name_a_winner_and_tell_one_score(files: tuple[Path, ...], tmp_path: Path) -> None:
    labels, array, _, ledger = files
    given = ["--column", "y", "--ledger", ledger, "--name", "search"]
    run("open", labels, *given, "--mode", "rounds")
    np.save(tmp_path / "zeros.npy", np.zeros(N, dtype=int))
    won = run("check", labels, tmp_path / "zeros.npy", array, *given)
    assert won.data["best"] == 1
    assert "predictions.npy is the best of 2" in won.text
    with pytest.raises(InvalidTask, match="--finish asks for the score of one"):
        run("check", labels, array, *given)
    assert run("check", labels, array, *given, "--finish").data["value"] == pytest.approx(0.8, abs=0.02)
    with pytest.raises(BudgetExceeded, match="is finished"):
        run("check", labels, array, tmp_path / "zeros.npy", *given)


def test_private_answers_are_paid_by_their_own_account_or_by_one_that_is_named(files: tuple[Path, ...]) -> None:
    labels, array, _, ledger = files
    settings = ["--mode", "private", "--classes", "0,1", "--tolerance", "0.1", "--questions", "3"]
    given = ["--column", "y", "--ledger", ledger]
    opened = run("open", labels, *given, "--name", "own", *settings)
    assert (opened.data["left"], opened.data["account"]) == (3, "own")
    first = run("check", labels, array, *given, "--name", "own")
    assert first.data["low"] < 0.8 < first.data["high"]
    assert run("check", labels, array, *given, "--name", "own").data == first.data
    open_account(ledger, "team", unit=rows(neighbours="replace", n=N), epsilon="0.1", delta="1e-6")
    with pytest.raises(UnitMismatch, match=r"keeps the holdout 'own' .* say so with separate=True \(--separate\)"):
        run("open", labels, *given, "--name", "theirs", "--account", "team", *settings)
    run("open", labels, *given, "--name", "theirs", "--account", "team", "--separate", *settings)
    assert run("show", labels, *given, "--name", "theirs").data["account"] == "team"
    assert run("check", labels, array, *given, "--name", "theirs").data["kind"] == "paid"
    assert Ledger(ledger).account("team").spent.amount > 0


def test_classic_answers_several_files_in_one_go_and_none_after_it(files: tuple[Path, ...]) -> None:
    labels, array, table, ledger = files
    given = ["--column", "y", "--ledger", ledger, "--name", "classic"]
    run("open", labels, *given, "--mode", "classic", "--classes", "0,1", "--budget", "2")
    table.write_text("p\n" + "0\n" * N)
    both = run("check", labels, array, table, *given, "--guess", "0.8,0.9")
    assert [answer["kind"] for answer in both.data["answers"]] == ["free", "paid"]
    assert run("check", labels, array, *given, "--guess", "0.4").exit_code == 3
    with pytest.raises(InvalidTask, match="3 guesses for 2"):
        run("check", labels, array, table, *given, "--guess", "0.8,0.9,1")


def test_plan_and_attack_draw(files: tuple[Path, ...], tmp_path: Path) -> None:
    run("plan", "--rows", 10_000, "--questions", 8, "--chart", tmp_path / "plan.svg")
    run("attack", "--rows", 2000, "--questions", 5, "--tolerance", "0.1", "--chart", tmp_path / "attack.svg")
    assert all((tmp_path / name).read_text().startswith("<svg") for name in ("plan.svg", "attack.svg"))
    for wrong in (["--rows", "-4"], ["--rows", "100"], ["--questions", "0"], ["--chart", "x.doc"]):
        with pytest.raises(InvalidTask):
            run("attack", *wrong)


def test_plan_and_attack_say_what_is_certified(files: tuple[Path, ...]) -> None:
    planned = run("plan", "--rows", 10_000, "--questions", 8)
    assert planned.data["half_width"] > 0
    attacked = run("attack", "--rows", 2000, "--questions", 20, "--tolerance", "0.1")
    assert attacked.data["attacks"]
    assert all(attack["missed"] == 0 for attack in attacked.data["attacks"])


@pytest.mark.parametrize("mode", ["classic", "ladder", "private"])
def test_an_attack_takes_the_mode_that_answers(mode: str) -> None:
    given: list[Any] = ["--rows", 2000, "--questions", 3, "--tolerance", "0.3", "--mode", mode]
    attacked = run("attack", *given)
    assert attacked.data["mode"] == mode
    assert mode in attacked.text
    assert all(attack["missed"] == 0 for attack in attacked.data["attacks"])
    assert mode in run("attack", *given, "--plan").text


def test_thresholdout_as_a_defence_is_refused_after_its_budget_and_certifies_nothing() -> None:
    given: list[Any] = ["--rows", 2000, "--questions", 20, "--mode", "classic", "--budget", 2, "--sigma", "0.0001"]
    attacks = {attack["attack"]: attack for attack in run("attack", *given).data["attacks"]}
    assert attacks["memorising the training set"]["answered"] == 2
    assert all(attack["certified"] == 0 for attack in attacks.values())
    for wrong in (["--budget", "0"], ["--sigma", "-1"], ["--mode", "certified"]):
        with pytest.raises(InvalidTask):
            run("attack", *given, *wrong)


@pytest.mark.parametrize(
    ("zero", "one", "classes"), [("0", "1", "0,1"), ("0.0", "1.0", "0,1"), ("false", "true", "0,1")]
)
def test_one_odd_label_of_a_file_changes_nothing_that_is_told(
    tmp_path: Path, zero: str, one: str, classes: str
) -> None:
    """The type of a whole CSV column hangs on one row; settings and answers must not."""
    np.save(tmp_path / "p.npy", np.arange(N) % 5 > 0)
    lines = [one if number % 5 else zero for number in range(N)]
    told: list[Any] = []
    for odd in (zero, "x", "", "7", "\udcff"):
        text = "y\n" + "\n".join([odd, *lines[1:]]) + "\n"
        (tmp_path / "labels.csv").write_bytes(text.encode(errors="surrogateescape"))
        ledger = tmp_path / f"{len(told)}.db"
        given = ["--ledger", ledger, "--name", "spring"]
        settings = ["--mode", "private", "--classes", classes, "--tolerance", "0.1", "--questions", "3"]
        opened = run("open", tmp_path / "labels.csv", *given, *settings)
        answer = run("check", tmp_path / "labels.csv", tmp_path / "p.npy", *given)
        assert answer.data["low"] < 0.999 <= answer.data["high"]
        facts = json.loads(Ledger(ledger).charges("holdout/%/0")[0].detail)
        told.append((opened.text, opened.data, facts))
    assert all(each == told[0] for each in told)


def test_a_file_in_which_one_row_would_decide_for_all_is_refused_without_classes(tmp_path: Path) -> None:
    lines, path = ["1", "0"] * (N // 2), tmp_path / "labels.csv"
    given = ["--ledger", tmp_path / "b.db", "--name"]
    for number, odd in enumerate(("x", "", "nan")):
        path.write_text("y\n" + "\n".join([odd, *lines[1:]]) + "\n")
        with pytest.raises(InvalidTask, match="numbers and others are not"):
            run("open", path, *given, f"{number}")
        with pytest.raises(InvalidTask, match="say what they may be"):
            run("open", path, *given, f"{number}", "--classes", "0,1")
    path.write_text("y\n" + "\n".join(["yes", "no"] * (N // 2)) + "\n")
    assert run("open", path, *given, "text").data["rows"] == N
    path.write_text("y\n" + "\n".join(lines) + "\n")
    np.save(tmp_path / "p.npy", np.arange(N) % 2 == 0)
    run("open", path, *given, "numbers")
    assert run("check", path, tmp_path / "p.npy", *given, "numbers", "--guess", "1").data["kind"] == "free"


def test_files_of_ids_and_predictions_are_matched_by_id(tmp_path: Path) -> None:
    draw, given = np.random.default_rng(1), ["--ledger", tmp_path / "b.db", "--name", "spring", "--id", "id"]
    labels, order = draw.integers(0, 2, N), draw.permutation(N)
    (tmp_path / "y.csv").write_text("id,y\n" + "".join(f"r{i},{y}\n" for i, y in enumerate(labels)))
    (tmp_path / "p.csv").write_text("id,prediction\n" + "".join(f"r{i},{labels[i]}\n" for i in order))
    (tmp_path / "short.csv").write_text("id,prediction\n" + "".join(f"r{i},{labels[i]}\n" for i in order[1:]))
    run("open", tmp_path / "y.csv", *given)
    before = run("show", tmp_path / "y.csv", *given).data
    for wrong in ("short.csv",):
        with pytest.raises(InvalidTask, match="have no prediction"):
            run("check", tmp_path / "y.csv", tmp_path / wrong, *given)
    assert run("show", tmp_path / "y.csv", *given).data == before
    assert run("check", tmp_path / "y.csv", tmp_path / "p.csv", *given, "--guess", 0.97).data["value"] == 0.97
    with pytest.raises(InvalidTask, match="has no column"):
        run("check", tmp_path / "y.csv", tmp_path / "p.npy", *given)


@pytest.mark.parametrize(
    ("metric", "more"),
    [
        ("f1", ["--classes", "0,1"]),
        ("rmse:1", []),
        ("r2:0:1", ["--between", "0.9,1"]),
        ("cost:COSTS", ["--classes", "0,1"]),
    ],
)
def test_scores_of_every_kind_are_typed_and_asked_again(files: tuple[Path, ...], metric: str, more: list[str]) -> None:
    labels, _, _, ledger = files
    costs = ledger.with_name("costs.json")
    costs.write_text("[[0, 1.5], [5, 0]]")
    given = ["--column", "y", "--ledger", ledger, "--name", "spring"]
    words = [
        "--metric",
        metric.replace("COSTS", str(costs)),
        "--tolerance",
        "0.5" if "cost" in metric else "0.2",
        *more,
    ]
    opened = run("open", labels, *given, *words)
    assert run("show", labels, *given).data["metric"] == opened.data["metric"]
    pq.write_table(pa.table({"p": pq.read_table(labels).column("y")}), ledger.with_name("perfect.parquet"))
    best = 1 if metric.startswith(("f1", "r2")) else 0
    assert run("check", labels, ledger.with_name("perfect.parquet"), *given, "--guess", best).data["value"] == best
    with pytest.raises(InvalidTask, match=r"bounds|--classes"):
        run(
            "open",
            labels,
            *given,
            "--metric",
            "r2:1" if "cost" not in metric else f"cost:{costs}",
            "--tolerance",
            "0.2",
        )
