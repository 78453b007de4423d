"""What an account was spent on, told and drawn; and acts of whoever keeps it, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.bounding import Count, Sum
from steelyard.cli import main
from steelyard.ledger import Account, Ledger, open_account
from steelyard.privacy import Loss, users
from steelyard.requests._spending import task_in_words
from steelyard.session import Session
from steelyard.tables import read

ROWS = {"user": [1, 1, 2, 3], "amount": [1.0, 2.0, 3.0, 4.0], "country": ["a", "b", "a", "b"]}


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """A year of an account: two people, one below, one reservation that waits, a note with markup in it."""
    path = str(tmp_path / "budget.db")
    whole = open_account(path, "spend", unit=users("user"), epsilon=4)
    team = open_account(path, "research", parent="spend", epsilon=3)
    table = read(ROWS, name="purchases")
    Session(table, whole, person="ann").release(Count(epsilon="0.5", cap=2, by="country", keys=["a", "b"]), key="first")
    Session(table.where("amount > 1"), team, person="bob").release(Sum("amount", epsilon=1, cap=10), key="second")
    Session(table, team, person="<script>alert(1)</script>").reserve(Sum("amount", epsilon="0.25", cap=10), key="third")
    path_like = team.charge(Loss.pure("0.125"), key="path", request=b"path")
    path_like.raise_to(Loss.pure("0.25"))
    whole.by("olga").note("published the <b>first</b> count", act="publish")
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_history_says_when_who_what_of_which_table_and_at_what_cost(
    ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(capsys, "account", "history", ledger, "spend")["charges"]
    assert [(each["account"], each["person"], each["answered"]) for each in told[:3]] == [
        ("spend", "ann", True), ("research", "bob", True), ("research", "<script>alert(1)</script>", False)
    ]  # fmt: skip
    assert told[0]["task"]["by"] == "country"
    assert "amount" in told[1]["view"]
    assert told[3]["receipt"]["cost"]["amount"] == 250_000, "a path costs what it was raised to"
    assert [
        each["person"] for each in run(capsys, "account", "history", ledger, "research", "--last", "2")["charges"]
    ] == [each["person"] for each in told[2:]]
    assert main(["account", "history", ledger, "spend"]) == 0
    text = capsys.readouterr().out
    assert "Count by country (epsilon 0.5)" in text
    assert "epsilon 0.25, not answered yet" in text
    assert main(["account", "history", ledger, "spend", "--last", "0"]) == 2


def test_history_and_its_receipts_agree_with_the_ledger(ledger: str) -> None:
    account = Account(ledger, "spend")
    spent = account.history()
    total = sum((each.cost for each in spent), Loss.zero(account.terms.currency))
    assert total == account.spent
    assert Ledger(ledger).verify(receipts=[each.receipt for each in spent]).ok


def test_the_page_holds_it_all_and_lets_no_markup_through(
    ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "spend.html"
    assert main(["account", "report", ledger, "spend", "--out", str(out), "--plan"]) == 0
    assert not out.exists()
    assert main(["account", "report", ledger, "spend", "--out", str(out)]) == 0
    page = out.read_text()
    assert main(["account", "report", ledger, "spend", "--out", str(out)]) == 2, "a page that is there is not replaced"
    for words in ("What spend was spent on", "ann", "bob", "olga", "research", "agree", "Count by country", "the table named",
                  Ledger(ledger).public_key, "of the cap is left", "<svg", "verify-receipt"):  # fmt: skip
        assert words in page, words
    assert "<script" not in page
    assert "<b>first" not in page
    assert main(["account", "report", ledger, "spend", "--out", str(tmp_path / "page.txt")]) == 2
    assert main(["account", "report", ledger, "spend", "--out", ledger + ".html", "--plan"]) == 0
    capsys.readouterr()


def test_an_account_without_a_charge_has_a_page_too(tmp_path: Path) -> None:
    path = str(tmp_path / "budget.db")
    open_account(path, "new", unit=users("user"), epsilon=1, delta="1e-6")
    assert main(["account", "report", path, "new", "--out", str(tmp_path / "new.html")]) == 0
    assert "Nothing was spent." in (tmp_path / "new.html").read_text()
    assert main(["account", "history", path, "new"]) == 0


def test_shares_are_opened_and_acts_are_done_from_the_command_line(
    ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["account", "share", ledger, "spend", "eve", "--epsilon", "0.5", "--plan"]) == 0
    assert "eve" not in [each.name for each in Ledger(ledger).accounts()]
    opened = run(capsys_cleared(capsys), "account", "share", ledger, "spend", "eve", "--epsilon", "0.5")
    assert opened["terms"]["parent"] == "spend"
    assert main(["account", "share", ledger, "spend", "bad", "--epsilon", "5"]) == 2
    assert main(["account", "freeze", ledger, "eve", "--why", "away", "--person", "olga"]) == 0
    assert "state      frozen" in capsys.readouterr().out
    assert Account(ledger, "eve").state == "frozen"
    assert main(["account", "list", ledger]) == 0
    assert "frozen" in capsys.readouterr().out
    assert main(["account", "unfreeze", ledger, "eve", "--plan"]) == 0
    assert Account(ledger, "eve").state == "frozen"
    assert main(["account", "unfreeze", ledger, "eve"]) == 0
    assert main(["account", "close", ledger, "eve"]) == 0
    assert main(["account", "unfreeze", ledger, "eve"]) == 3
    capsys.readouterr()
    noted = run(
        capsys, "account", "note", ledger, "eve", "handed over", "--act", "hand over", "--key", "n1", "--person", "olga"
    )
    assert noted == run(capsys, "account", "note", ledger, "eve", "handed over", "--act", "hand over", "--key", "n1")
    acts = [(entry.kind, entry.name, entry.person) for entry in Ledger(ledger).notes("eve")]
    assert acts[0] == ("freeze", "", "olga")
    assert acts[-1] == ("note", "hand over", "olga")


def capsys_cleared(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    capsys.readouterr()
    return capsys


@pytest.mark.parametrize(("task", "words"), [
    (None, "not said"), ("sum", "sum"), ({"holdout": "board", "kind": "answer"}, "holdout board, kind answer"),
    ({"type": "enter", "what": "a network"}, "run elsewhere: a network"),
    ({"type": "Quantile", "column": "x", "mu": "1/10", "step": "step 3"}, "Quantile of x (mu 0.1) step 3"),
    ({"type": "Sum", "column": "x" * 99, "by": ["a", "b"]}, f"Sum of {'x' * 57}… by a, b"),
])  # fmt: skip
def test_a_task_is_told_in_a_few_words(task: Any, words: str) -> None:
    assert task_in_words(task) == words
