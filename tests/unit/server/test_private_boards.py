"""Boards over labels of people: a budget that two persons open, scores with noise, and no way to the same labels beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsing import Browser, Seen, Team, new_team
from steelyard.server._judge import Judging
from steelyard.server._worker import Worker

ROWS = 2000
LABELS = np.arange(ROWS) % 5 > 0  # 80 % are true
SETTINGS = {"mode": "private", "rows": ROWS, "classes": "0,1", "questions": 2, "tolerance": "0.2"}
ACCOUNT = "board:spend/returns"
BOARDS = "/api/v1/sets/spend/boards"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    found = new_team(tmp_path)
    (tmp_path / "data" / "labels.csv").write_text("y\n" + "\n".join(map(str, LABELS.astype(int))) + "\n")
    return found


def propose(team: Team, name: str = "returns", source: str = "data/labels.csv", **more: Any) -> Seen:
    given = {"name": name, "source": source, "label": "y", "settings": {**SETTINGS, **more}}
    return team.browser("carl", by="session").post(BOARDS, given)


def decide(team: Team, approve: bool = True) -> Seen:
    officer = team.browser("officer", by="session")
    waiting = officer.get("/api/v1/approvals").json["proposals"]
    return officer.post(f"/api/v1/approvals/{waiting[0]['id']}", {"approve": approve})


def opened(team: Team, **more: Any) -> Browser:
    assert propose(team, **more).status == 201
    assert decide(team).status == 200
    team.worker.once()
    carl = team.browser("carl", by="session")
    assert carl.get("/api/v1/boards/returns").json["state"] == "open"
    assert carl.post("/api/v1/boards/returns/teams", {"team": "reds", "person": "tess"}).status == 201
    return team.browser("tess")


def send(browser: Browser, predictions: Any, key: str, more: str = "") -> Seen:
    text = "p\n" + "\n".join(map(str, predictions)) + "\n"
    path, key_told = f"/api/v1/boards/returns/submissions?format=csv{more}", {"Idempotency-Key": key}
    return browser.ask("PUT", path, raw=text.encode(), headers=key_told)


def told(team: Team, browser: Browser, predictions: Any, key: str) -> dict[str, Any]:
    sent = send(browser, predictions, key)
    assert sent.status == 202, sent.text
    team.worker.once()
    found: dict[str, Any] = browser.get(sent.headers["location"]).json
    return found


def test_nothing_is_opened_and_no_label_read_before_an_officer_has_approved(team: Team) -> None:
    made = propose(team)
    assert (made.status, made.json["state"]) == (201, "proposed")
    team.worker.once()
    carl = team.browser("carl", by="session")
    assert carl.get("/api/v1/boards/returns").json["state"] == "proposed"
    assert ACCOUNT not in {account.name for account in team.server.ledger.accounts()}
    assert carl.post("/api/v1/approvals/1", {"approve": True}).status == 403
    proposed = team.browser("officer", by="session").get("/api/v1/approvals").json["proposals"][0]
    assert (proposed["account"], proposed["terms"]["unit"]) == (ACCOUNT, f"rows:{ROWS}")
    assert decide(team).status == 200
    terms = team.server.account(ACCOUNT).terms
    assert (str(float(terms.epsilon or 0)), terms.unit.n, terms.parent) == (proposed["terms"]["epsilon"], ROWS, None)
    set_account = team.server.sets.named("spend")
    assert set_account is not None and set_account.account == "spend"  # noqa: PT018


def test_scores_are_noisy_paid_for_one_by_one_and_refused_after_the_last(team: Team) -> None:
    tess = opened(team)
    account = team.server.account(ACCOUNT)
    assert account.spent.amount == 0
    first = told(team, tess, np.ones(ROWS, dtype=int), "one")
    assert (first["state"], first["answer"]["kind"], first["answer"]["left"]) == ("answered", "paid", 1)
    assert first["answer"]["low"] < 0.8 < first["answer"]["high"]
    spent = account.spent.amount
    assert 0 < spent <= account.terms.cap.amount
    again = told(team, tess, np.ones(ROWS, dtype=int), "two")
    assert again["answer"]["value"] == first["answer"]["value"]
    assert account.spent.amount == spent  # told again, and not drawn again
    told(team, tess, np.zeros(ROWS, dtype=int), "three")
    last = told(team, tess, np.arange(ROWS) % 2, "four")
    assert (last["answer"]["kind"], last["answer"]["value"], last["answer"]["left"]) == ("refused", None, 0)
    assert account.spent.amount <= account.terms.cap.amount
    assert tess.get("/api/v1/boards/returns").json["teams"][0]["team"] == "reds"
    assert team.server.ledger.verify().ok


def test_the_set_tells_of_the_boards_account_beside_its_own(team: Team) -> None:
    carl = team.browser("carl", by="session")
    assert carl.get("/api/v1/sets/spend").json["over_the_same_people"] == ["spend"]
    opened(team)
    assert carl.get("/api/v1/sets/spend").json["over_the_same_people"] == ["spend", ACCOUNT]
    assert "2 accounts over the same people" in carl.get("/sets/spend", headers={"accept": "text/html"}).text


def test_a_declined_board_never_opens_and_its_labels_may_be_proposed_again(team: Team) -> None:
    assert propose(team).status == 201
    assert decide(team, approve=False).status == 200
    team.worker.once()
    carl = team.browser("carl", by="session")
    assert carl.get("/api/v1/boards/returns").json["state"] == "declined"
    assert carl.post("/api/v1/boards/returns/close").status == 409
    assert propose(team, "again").status == 201


@pytest.mark.parametrize(
    "more",
    [
        {"rows": 0}, {"rows": "many"}, {"rows": 10**9}, {"classes": ""}, {"metric": "auc"}, {"final": "data/other.csv"}, {"separate": "no"},
        {"tolerance": "0.0001"}, {"epsilon": "-1"}, {"steps": 5}, {"mode": "certified"}, {"mode": "classic"},
    ],
)  # fmt: skip
def test_what_cannot_be_private_is_refused_before_it_is_proposed(team: Team, more: dict[str, Any]) -> None:
    before = team.server.ledger.verify().entries
    assert propose(team, **more).status == 422
    assert team.server.proposals.waiting() == []
    assert team.server.boards.named("returns") is None
    assert team.server.ledger.verify().entries == before


def test_labels_in_another_number_than_was_declared_are_not_opened(team: Team) -> None:
    assert propose(team, rows=ROWS + 1).status == 201
    assert decide(team).status == 200
    team.worker.once()
    assert team.browser("carl").get("/api/v1/boards/returns").json["state"] == "broken"
    assert propose(team, "again").status == 201  # nothing was told of them


def test_the_same_labels_have_no_second_board_under_any_name(team: Team, tmp_path: Path) -> None:
    """Exact scores of hidden labels, or a second budget for them: refused by the file's name, by where a link leads, and by the ledger."""
    opened(team)
    carl = team.browser("carl", by="session")
    other = {"name": "exact", "source": "data/./labels.csv", "label": "y"}
    refused = carl.post(BOARDS, other)
    assert (refused.status, "one budget" in refused.json["detail"]) == (422, True)
    assert propose(team, "second", "data/./labels.csv").status == 422
    (tmp_path / "data" / "alias.csv").symlink_to(tmp_path / "data" / "labels.csv")
    (tmp_path / "data" / "copy.csv").write_bytes((tmp_path / "data" / "labels.csv").read_bytes())
    for name in ("alias", "copy"):
        assert carl.post(BOARDS, {**other, "name": name, "source": f"data/{name}.csv"}).status == 201
    team.worker.once()
    assert [carl.get(f"/api/v1/boards/{name}").json["state"] for name in ("alias", "copy")] == ["broken", "broken"]


def test_labels_that_were_told_of_exactly_cannot_be_hidden_afterwards(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carl = team.browser("carl", by="session")
    assert carl.post(BOARDS, {"name": "exact", "source": "data/labels.csv", "label": "y"}).status == 201
    team.worker.once()
    assert propose(team).status == 422
    (tmp_path / "data" / "alias.csv").symlink_to(tmp_path / "data" / "labels.csv")
    assert propose(team, "alias", "data/alias.csv", separate="yes").status == 201
    assert decide(team).status == 200
    team.worker.once()
    assert carl.get("/api/v1/boards/alias").json["state"] == "broken"
    monkeypatch.setattr(Judging, "_labels_apart", lambda self, board: set())  # the twin that looks at names alone
    assert propose(team, "twin", "data/alias.csv", separate="yes").status == 201
    assert decide(team).status == 200
    team.worker.once()
    assert carl.get("/api/v1/boards/twin").json["state"] == "open"


def test_labels_that_were_told_of_exactly_while_a_budget_waited_cannot_be_hidden(team: Team, tmp_path: Path) -> None:
    """The private board was asked for first, but its link led nowhere when the other one was opened."""
    assert propose(team, "alias", "data/alias.csv", separate="yes").status == 201
    carl = team.browser("carl", by="session")
    assert carl.post(BOARDS, {"name": "exact", "source": "data/labels.csv", "label": "y"}).status == 201
    team.worker.once()
    (tmp_path / "data" / "alias.csv").symlink_to(tmp_path / "data" / "labels.csv")
    assert decide(team).status == 200
    team.worker.once()
    states = [carl.get(f"/api/v1/boards/{name}").json["state"] for name in ("exact", "alias")]
    assert states == ["open", "broken"]


def test_the_worker_makes_no_account_for_hidden_labels(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    assert propose(team).status == 201
    team.server.boards.set_state(1, "new")  # as if somebody had written to the server's database
    team.worker.once()
    assert ACCOUNT not in {account.name for account in team.server.ledger.accounts()}
    assert team.browser("carl").get("/api/v1/boards/returns").json["state"] == "new"
    where = {"name": ACCOUNT, "ledger": team.server.config.ledger_address}
    monkeypatch.setattr(
        Judging, "_budget", lambda self, board, final: where
    )  # the twin that opens one where there is none
    team.worker.once()
    assert ACCOUNT in {account.name for account in team.server.ledger.accounts()}


def test_a_guess_is_refused_and_costs_nothing(team: Team) -> None:
    tess = opened(team)
    assert send(tess, np.ones(ROWS, dtype=int), "one", "&guess=0.8").status == 422
    assert team.server.account(ACCOUNT).spent.amount == 0


def test_a_label_that_is_none_of_the_classes_changes_no_outcome(team: Team, tmp_path: Path) -> None:
    texts = ["odd", "", *map(str, LABELS.astype(int)[2:])]
    (tmp_path / "data" / "labels.csv").write_text("y\n" + "\n".join(texts) + "\n")
    tess = opened(team)
    assert told(team, tess, np.ones(ROWS, dtype=int), "one")["state"] == "answered"


def test_a_restarted_worker_tells_the_same_and_spends_nothing_more(team: Team) -> None:
    tess = opened(team)
    first = told(team, tess, np.ones(ROWS, dtype=int), "one")["answer"]
    spent = team.server.account(ACCOUNT).spent
    team.worker = Worker(team.server)
    again = told(team, tess, np.ones(ROWS, dtype=int), "two")["answer"]
    assert (again["value"], again["left"]) == (first["value"], first["left"])
    assert team.server.account(ACCOUNT).spent == spent


def test_pages_tell_of_the_budget_and_take_no_guess(team: Team) -> None:
    page = {"accept": "text/html"}
    carl, officer = team.browser("carl", by="session"), team.browser("officer", by="session")
    form = {
        "name": "returns",
        "root": "data",
        "path": "labels.csv",
        "label": "y",
        "metric": "accuracy",
        "confidence": "0.95",
    }
    sent = carl.ask(
        "POST",
        "/sets/spend/boards",
        form={**form, **{name: str(each) for name, each in SETTINGS.items()}},
        headers=page,
    )
    assert sent.status == 303, sent.text
    assert "an officer has to approve" in carl.get("/boards/returns", headers=page).text
    waiting = officer.get("/officer", headers=page).text
    assert "one row of 2,000, replaced, for the board returns and nothing else" in waiting
    assert officer.ask("POST", "/approvals/1", form={"decision": "approve"}, headers=page).status == 303
    team.worker.once()
    assert carl.post("/api/v1/boards/returns/teams", {"team": "reds", "person": "tess"}).status == 201
    tess = team.browser("tess", by="session")
    shown = tess.get("/boards/returns", headers=page).text
    assert "answers left" in shown
    assert f"δ {1e-6:g}" in shown
    assert 'name="guess"' not in shown
    answer = told(team, tess, np.ones(ROWS, dtype=int), "one")
    text = tess.get(f"/submissions/{answer['id']}", headers=page).text
    assert "With noise, so that no label shows. 1 answer is left on this board." in text
