from __future__ import annotations

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli import main, parser
from steelyard.demo._story import make_purchases, write_parquet

pytestmark = pytest.mark.usefixtures("data")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_parquet(make_purchases(200), tmp_path / "spend.parquet")
    return tmp_path / "spend.parquet"


@pytest.fixture
def account(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "open", "b.db", "a", "--unit", "users:user_id", "--epsilon", "2"]) == 0
    capsys.readouterr()


PAY = ["--ledger", "b.db", "--account", "a"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    code = main([*words, "--json"])
    out = capsys.readouterr()
    return code, json.loads(out.out), out.err


@pytest.mark.usefixtures("account")
def test_a_sum_comes_with_its_error_its_guarantee_and_its_receipt(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sum", "spend.parquet", "amount", "--cap", "200", "--epsilon", "1", *PAY]) == 0
    text = capsys.readouterr().out
    for word in ("noise ±", "2-differential privacy", "epsilon 1", "receipt: entry"):
        assert word in text


@pytest.mark.usefixtures("account")
def test_json_holds_the_whole_release(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["count", "spend.parquet", "--cap", "5", "--epsilon", "0.5", "--by", "country", "--keys", "FR,DE,XX", *PAY]
    code, release, _ = run(capsys, *words)
    assert code == 0
    assert [key for key, _ in release["value"]] == ["FR", "DE", "XX"]
    assert release["receipt"]["cost"] == {"currency": "pure", "amount": 500_000, "delta": 0}


@pytest.mark.usefixtures("account")
def test_a_profile_is_paid_once_and_plans_are_free(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    look = ["profile", "spend.parquet", "amount", "--upper", "10000", "--epsilon", "1", "--out", "p.json", *PAY]
    assert run(capsys, *look, "--chart", "p.svg")[0] == 0
    code, plan, _ = run(capsys, "plan", "p.json", "--epsilon", "0.5", "--chart", "plan.html")
    assert code == 0
    assert 0 < plan["best"]["cap"] <= 10_000
    code, release, _ = run(capsys, "sum", "spend.parquet", "amount", "--cap", "p.json", "--epsilon", "0.5", *PAY)
    assert code == 0
    assert release["point"]["cap"] == pytest.approx(plan["best"]["cap"])
    assert release["error"]["bias"] == pytest.approx(plan["best"]["bias"])
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    assert "<svg" in (tmp_path / "plan.html").read_text()
    (tmp_path / "junk.json").write_text("{}")
    assert run(capsys, "plan", "junk.json", "--epsilon", "1")[0] == 2


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    "words",
    [
        ["sum", "spend.parquet", "amount", "--upper", "10000"],
        ["count", "spend.parquet", "--upper", "1000"],
        ["mean", "spend.parquet", "amount", "--lower", "0", "--upper", "100", "--cap", "5"],
        [
            "quantile",
            "spend.parquet",
            "amount",
            "--lower",
            "0",
            "--upper",
            "100",
            "--cap",
            "5",
            "--quantile",
            "0.2,0.5",
        ],
        ["histogram", "spend.parquet", "amount", "--edges", "0,10,100", "--cap", "5"],
        [
            "histogram",
            "spend.parquet",
            "amount",
            "--edges",
            "0,10,100",
            "--cap",
            "5",
            "--by",
            "country",
            "--keys",
            "FR,DE",
        ],
        [
            "mean",
            "spend.parquet",
            "amount",
            "--lower",
            "0",
            "--upper",
            "9",
            "--cap",
            "5",
            "--by",
            "country",
            "--keys",
            "FR",
        ],
        ["profile", "spend.parquet", "--rows", "--upper", "1000"],
        *(
            [kind, "spend.parquet", "amount", "--lower", "0", "--upper", "100", "--cap", "5"]
            for kind in ("variance", "std", "median")
        ),
        [
            "ratio",
            "spend.parquet",
            "amount",
            "more",
            "--cap",
            "90",
            "--over-cap",
            "9",
            "--derive",
            "more=amount / 2 + 1",
        ],
        ["count-users", "spend.parquet", "--by", "country", "--keys", "FR,DE", "--max-keys", "1"],
        ["count-distinct", "spend.parquet", "country", "--cap", "2"],
        ["top-k", "spend.parquet", "country", "--k", "2", "--keys", "FR,DE,IT,XX"],
        ["top-k", "spend.parquet", "user_id", "--by", "country", "--keys", "FR,DE", "--values", "1,2,3", "--cap", "4"],
        ["histogram", "spend.parquet", "country", "--values", "FR,DE", "--cap", "5"],
        ["together", "spend.parquet", "--part", "count cap=9", "--part", "top-k country k=1 values=FR,DE"],
        ["together", "spend.parquet", "--part", "sum amount cap=90", "--part", "std amount upper=100 cap=5"],
    ],
)
def test_every_release_costs_what_it_says_and_draws_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]
) -> None:
    code, release, _ = run(capsys, *words, "--epsilon", "0.7", *PAY, "--chart", "out.svg", "--overwrite")
    assert code == 0
    assert release["receipt"]["cost"]["amount"] == 700_000
    assert (tmp_path / "out.svg").exists()
    assert main([*words, "--epsilon", "0.7", *PAY]) == 0
    assert "receipt: entry" in capsys.readouterr().out
    assert run(capsys, *words, "--epsilon", "0.7", *PAY, "--plan")[1]["enough"] is False


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("target", ["out.gif", "nowhere/out.svg", "out"])
def test_a_chart_that_cannot_be_saved_is_refused_before_anything_is_spent(
    capsys: pytest.CaptureFixture[str], target: str
) -> None:
    words = ["count", "spend.parquet", "--cap", "1", "--epsilon", "0.5", *PAY, "--chart", target]
    assert run(capsys, *words)[0] == 2
    assert run(capsys, "account", "show", "b.db", "a")[1]["spent"]["amount"] == 0


@pytest.mark.usefixtures("account")
def test_a_missing_png_engine_is_named_before_anything_is_spent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    words = ["count", "spend.parquet", "--cap", "1", "--epsilon", "0.5", *PAY, "--chart", "out.png"]
    code, answer, _ = run(capsys, *words)
    assert (code, answer["error"]["kind"]) == (2, "EngineMissing")
    assert "steelyard[charts]" in answer["error"]["message"]
    assert run(capsys, "account", "show", "b.db", "a")[1]["spent"]["amount"] == 0


@pytest.mark.usefixtures("account")
def test_keys_are_read_in_the_kind_of_their_column(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["count", "spend.parquet", "--by", "user_id", "--cap", "1", "--epsilon", "0.5", *PAY]
    assert [key for key, _ in run(capsys, *words, "--keys", "1,2")[1]["value"]] == [1, 2]
    assert run(capsys, *words, "--keys", "x")[0] == 2


@pytest.mark.usefixtures("account")
def test_a_plan_spends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, plan, _ = run(capsys, "sum", "spend.parquet", "amount", "--cap", "9", "--epsilon", "3", *PAY, "--plan")
    assert (code, plan["enough"], plan["cost"]["amount"]) == (0, False, 3_000_000)
    _, shown, _ = run(capsys, "account", "show", "b.db", "a")
    assert shown["spent"]["amount"] == 0


@pytest.mark.usefixtures("account")
def test_a_retry_with_a_key_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sum", "spend.parquet", "amount", "--cap", "9", "--epsilon", "2", "--key", "k", *PAY]
    first, again = run(capsys, *words)[1], run(capsys, *words)[1]
    assert (first.pop("stored_on"), again.pop("stored_on")) == (None, f"{datetime.now(UTC):%Y-%m-%d}")
    assert first == again
    assert main([*words]) == 0
    assert "returned again" in capsys.readouterr().out


@pytest.mark.usefixtures("account")
def test_a_key_is_bound_to_the_file_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("spend.parquet", "june.parquet")
    words = ["amount", "--cap", "9", "--epsilon", "1", "--key", "k", *PAY]
    assert run(capsys, "sum", "spend.parquet", *words)[0] == 0
    code, answer, _ = run(capsys, "sum", "june.parquet", *words)
    assert (code, answer["error"]["kind"]) == (3, "KeyConflict")
    assert "'spend.parquet'" in answer["error"]["message"]
    assert "'june.parquet'" in answer["error"]["message"]


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("words", "code", "kind", "hint"),
    [
        (["sum", "spend.parquet", "amont", "--cap", "9", "--epsilon", "1"], 2, "ColumnMissing", "'amount'"),
        (["sum", "spend.parquet", "country", "--cap", "9", "--epsilon", "1"], 2, "TableError", "string"),
        (["sum", "spend.parquet", "amount", "--cap", "0", "--epsilon", "1"], 2, "InvalidTask", "cap"),
        (["sum", "spend.parquet", "amount", "--cap", "9", "--epsilon", "abc"], 2, "InvalidTask", "'abc'"),
        (["sum", "spend.parquet", "amount", "--cap", "9", "--epsilon", "0"], 2, "InvalidTask", "above zero"),
        (["sum", "spend.parquet", "amount", "--cap", "9", "--epsilon", "nan"], 2, "InvalidTask", "finite"),
        (["sum", "spend.parquet", "amount", "--cap", "9"], 2, "InvalidTask", "epsilon"),
        (
            ["sum", "spend.parquet", "amount", "--cap", "9", "--lower", "10", "--epsilon", "1"],
            2,
            "InvalidTask",
            "lower",
        ),
        (["sum", "missing.parquet", "amount", "--cap", "9", "--epsilon", "1"], 2, "TableError", "missing.parquet"),
        (["count", "spend.parquet", "--epsilon", "1"], 2, "InvalidTask", "cap"),
        (["count", "spend.parquet", "--cap", "1", "--mu", "1"], 3, "CurrencyMismatch", "mu"),
        (["sum", "spend.parquet", "amount", "--cap", "9", "--epsilon", "2.5"], 3, "BudgetExceeded", "2"),
    ],
)
def test_bad_input_gets_a_named_error_and_its_exit_code(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, kind: str, hint: str
) -> None:
    found, answer, _ = run(capsys, *words, *PAY)
    assert found == code
    assert answer["error"]["kind"] == kind
    assert hint in answer["error"]["message"]
    assert main([*words, *PAY]) == code
    assert capsys.readouterr().err.startswith(f"{kind}: ")


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["account", "open", "b.db", "a", "--unit", "people", "--epsilon", "1"], 2, "InvalidTask"),
        (["account", "open", "b.db", "a", "--unit", "rows:x", "--epsilon", "1"], 2, "InvalidTask"),
        (["account", "open", "b.db", "a", "--unit", "rows"], 2, "InvalidTask"),
        (["account", "open", "b.db", "a", "--unit", "rows", "--epsilon", "1", "--delta", "1"], 2, "InvalidTask"),
        (["account", "open", "b.db", "a", "--unit", "rows", "--epsilon", "1", "--delta", "-1"], 2, "InvalidTask"),
        (["account", "open", "spend.parquet", "a", "--unit", "rows", "--epsilon", "1"], 4, "LedgerForeign"),
        (["account", "show", "none.db", "a"], 4, "LedgerError"),
        (["ledger", "verify", "spend.parquet"], 4, "LedgerForeign"),
        (["ledger", "verify", "none.db"], 4, "LedgerError"),
    ],
)
def test_ledger_commands_refuse_by_name(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, kind: str
) -> None:
    found, answer, _ = run(capsys, *words)
    assert (found, answer["error"]["kind"]) == (code, kind)


def test_opening_with_other_terms_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "account", "open", "b.db", "a", "--unit", "rows", "--epsilon", "1")[0] == 0
    assert run(capsys, "account", "open", "b.db", "a", "--unit", "rows", "--epsilon", "1.0")[0] == 0
    code, answer, _ = run(capsys, "account", "open", "b.db", "a", "--unit", "rows", "--epsilon", "9")
    assert code == 4
    assert "other terms" in answer["error"]["message"]


def test_planning_an_account_leaves_no_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, answer, _ = run(
        capsys, "account", "open", "new.db", "a", "--unit", "rows", "--epsilon", "1", "--delta", "1e-6", "--plan"
    )
    assert code == 0
    assert answer["plan"]["terms"]["cap"]["currency"] == "gaussian"
    assert not (tmp_path / "new.db").exists()


@pytest.mark.usefixtures("account")
def test_the_ledger_is_listed_verified_and_exported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, release, _ = run(capsys, "count", "spend.parquet", "--cap", "5", "--epsilon", "0.5", *PAY)
    (tmp_path / "release.json").write_text(json.dumps(release))
    code, report, _ = run(capsys, "ledger", "verify", "b.db", "--receipt", "release.json")
    assert (code, report["ok"]) == (0, True)
    _, listed, _ = run(capsys, "account", "list", "b.db")
    assert listed["accounts"][0]["remaining"]["amount"] == 1_500_000
    _, exported, _ = run(capsys, "ledger", "export", "b.db")
    assert [entry["kind"] for entry in exported["entries"]][-2:] == ["charge", "answer"]


@pytest.mark.usefixtures("account")
def test_a_restored_backup_is_refused_until_it_is_accepted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    old = {
        path.name: path.read_bytes() for path in tmp_path.glob("b.db*") if not path.name.endswith((".key", ".anchor"))
    }
    run(capsys, "count", "spend.parquet", "--cap", "5", "--epsilon", "0.5", *PAY)
    for suffix in (".key", ".anchor"):
        (tmp_path / f"old.db{suffix}").write_bytes((tmp_path / f"b.db{suffix}").read_bytes())
    for name, content in old.items():
        (tmp_path / name.replace("b.db", "old.db")).write_bytes(content)
    assert run(capsys, "ledger", "verify", "old.db")[0] == 4
    assert run(capsys, "ledger", "accept", "old.db", "--plan")[1]["ok"] is False
    assert run(capsys, "ledger", "accept", "old.db")[0] == 0
    assert run(capsys, "ledger", "verify", "old.db")[0] == 0


@pytest.mark.usefixtures("account")
def test_a_receipt_of_another_ledger_is_noticed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, release, _ = run(capsys, "count", "spend.parquet", "--cap", "5", "--epsilon", "0.5", *PAY)
    release["receipt"]["head"] = "0" * 64
    (tmp_path / "release.json").write_text(json.dumps(release))
    code, answer, _ = run(capsys, "ledger", "verify", "b.db", "--receipt", "release.json")
    assert (code, answer["error"]["kind"]) == (4, "LedgerTampered")
    (tmp_path / "junk.json").write_text("[1]")
    assert run(capsys, "ledger", "verify", "b.db", "--receipt", "junk.json")[0] == 2


def test_the_demo_plans_and_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, plan, _ = run(capsys, "demo", "--plan")
    assert code == 0
    assert len(plan["steps"]) == 11
    assert not (tmp_path / "steelyard-demo").exists()
    code, answer, _ = run(capsys, "demo")
    assert code == 0
    assert answer["retry_was_free"]
    assert answer["ledger_ok"]
    assert answer["rollback_found"]
    assert "left" in answer["refusal"]
    told, models = answer["labels"], answer["labels"]["models"]
    assert told["verified"]
    assert (told["bias"], told["spent"]) == ("0", "epsilon 3")
    assert told["spread"]["ours"] < 0.7 * told["spread"]["Laplace"]
    assert (
        models["trained on noisy prices"]
        < (models["trained on true prices"] + models["the average price for every parcel"]) / 2
    )
    learnt = answer["models"]
    assert learnt["without privacy"] - 0.01 < learnt["budgets"]["1"] < learnt["base rate"] - 0.05
    bought = answer["first"]
    assert bought["total"]["reason"] == "target_met"
    assert bought["model"]["epsilon"] < bought["model"]["theory"] / 20
    asked = answer["holdout"]
    assert asked["plain"] > 0.6
    assert asked["missed"] == 0
    assert asked["low"] <= 0.5 <= asked["high"]
    page = Path(answer["report"]).read_text()
    assert page.count("<svg") >= 8
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["sum", "--help"], ["account", "open", "--help"], ["ledger", "verify", "--help"]):
        with pytest.raises(SystemExit) as done:
            parser().parse_args(words)
        assert done.value.code == 0
    assert "--plan" in capsys.readouterr().out


def test_a_bug_of_ours_says_so_without_a_word_about_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("row 17")

    monkeypatch.setattr("steelyard.requests.Reply.of_account", broken)
    assert main(["account", "open", "b.db", "a", "--unit", "rows", "--epsilon", "1"]) == 1
    said = capsys.readouterr().err
    assert "row 17" not in said
    assert "STEELYARD_TRACEBACK" in said
    monkeypatch.setenv("STEELYARD_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        main(["account", "open", "b.db", "a", "--unit", "rows", "--epsilon", "1"])
