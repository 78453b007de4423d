"""Budgets: two persons open them, everybody has their own below the set's, and every act stands on the chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from browsing import SUM, Browser, Team, new_team
from steelyard.ledger import Ledger
from steelyard.server._store import Proposal

ASKS = "/api/v1/sets/spend/releases"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return new_team(tmp_path)


def ask(browser: Browser, epsilon: str, key: str) -> int:
    return browser.post(ASKS, {"task": {**SUM, "epsilon": epsilon}}, headers={"Idempotency-Key": key}).status


def test_a_charge_is_charged_to_the_set_as_well_so_that_analysts_together_cannot_pass_its_cap(team: Team) -> None:
    ana, ben, root = team.browser("ana"), team.browser("ben"), team.server.account("spend")
    carl = team.browser("carl", by="session")
    assert carl.post("/api/v1/sets/spend/members", {"person": "cy", "role": "analyst", "epsilon": "4"}).status == 201
    assert [ask(ana, "2", "a"), ask(ben, "2", "a")] == [202, 202]
    assert root.spent.amount == 4_000_000
    seen = team.browser("cy").post(ASKS, {"task": SUM}, headers={"Idempotency-Key": "a"})
    assert (seen.status, seen.json["account"]) == (402, "spend")


def test_a_set_gets_its_budget_from_two_persons(team: Team, tmp_path: Path) -> None:
    carl, officer = team.browser("carl", by="session"), team.browser("officer", by="session")
    assert officer.post("/api/v1/sets", {"name": "visits", "custodian": "carl", "title": "Visits"}).status == 201
    assert officer.post("/api/v1/sets", {"name": "more", "custodian": "officer"}).status == 422
    where = {"kind": "root", "source": "data/spend.parquet"}
    assert carl.post("/api/v1/sets/visits/account", {"unit": "users:user_id", "epsilon": "3"}).status == 409
    assert carl.post("/api/v1/sets/visits/source", where).status == 202
    team.worker.once()
    assert carl.get("/api/v1/sets/visits").json["columns"]["amount"] == "float"
    assert carl.post("/api/v1/sets/visits/members", {"person": "ana", "role": "analyst", "epsilon": "1"}).status == 409
    assert carl.post("/api/v1/sets/visits/account", {"unit": "users:nobody", "epsilon": "3"}).status == 422
    proposed = carl.post("/api/v1/sets/visits/account", {"unit": "users:user_id", "epsilon": "3"})
    assert proposed.status == 201
    path = f"/api/v1/approvals/{proposed.json['id']}"
    assert carl.post(path, {"approve": True}).status == 403
    assert officer.get("/api/v1/approvals").json["proposals"][0]["proposer"] == "carl"
    assert officer.post(path, {"approve": True}).status == 200
    assert officer.post(path, {"approve": True}).status == 409
    assert team.server.account("visits").terms.cap.amount == 3_000_000
    assert carl.post("/api/v1/sets/visits/members", {"person": "ana", "role": "analyst", "epsilon": "1"}).status == 201
    assert team.browser("ana").get("/api/v1/sets/visits").json["own_account"] == "visits/ana"


def test_more_budget_is_another_account_over_the_same_people_and_everybody_sees_both(team: Team) -> None:
    carl, officer = team.browser("carl", by="session"), team.browser("officer", by="session")
    for expected in ("spend", "spend/2"):
        made = carl.post("/api/v1/sets/spend/account", {"unit": "users:user_id", "epsilon": "4"}).json
        assert made["account"] == expected
        assert officer.post(f"/api/v1/approvals/{made['id']}", {"approve": True}).status == 200
    assert team.browser("ana").get("/api/v1/sets/spend").json["over_the_same_people"] == ["spend", "spend/2"]
    shown = team.browser("ana", by="session").get("/sets/spend", headers={"accept": "text/html"}).text
    assert "ε = 8, the sum of 2 accounts" in shown
    assert "account spend/2" in shown


def test_an_account_that_nobody_proposed_here_is_shown_and_summed_too(team: Team) -> None:
    """Such as one from before the server's records were lost: the ledger has it."""
    carl, officer = team.browser("carl", by="session"), team.browser("officer", by="session")
    for approve in (False, True):
        made = carl.post("/api/v1/sets/spend/account", {"unit": "rows", "epsilon": "3"}).json
        assert officer.post(f"/api/v1/approvals/{made['id']}", {"approve": approve}).status == 200
    assert team.browser("ana").get("/api/v1/sets/spend").json["over_the_same_people"] == ["spend", "spend/2"]
    shown = team.browser("ana", by="session").get("/sets/spend", headers={"accept": "text/html"}).text
    assert "There are 2 accounts over the same people, whose losses add up." in shown


def test_a_budget_that_another_officer_declines_meanwhile_is_not_opened(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    carl, officer, server = team.browser("carl", by="session"), team.browser("officer", by="session"), team.server
    carl.post("/api/v1/sets/spend/account", {"unit": "users:user_id", "epsilon": "4"})
    made = carl.post("/api/v1/sets/spend/account", {"unit": "users:user_id", "epsilon": "50"}).json
    other, known = server.people.add("odd", officer=True), server.proposals.known

    def declined_after(number: int) -> Proposal | None:
        found = known(number)
        server.proposals.decide(number, other.id, "declined")
        return found

    monkeypatch.setattr(server.proposals, "known", declined_after)
    assert officer.post(f"/api/v1/approvals/{made['id']}", {"approve": True}).status == 409
    assert "spend/2" not in [account.name for account in server.ledger.accounts()]


def test_an_approval_whose_account_cannot_be_opened_is_taken_back(team: Team) -> None:
    carl, officer = team.browser("carl", by="session"), team.browser("officer", by="session")
    made = carl.post("/api/v1/sets/spend/account", {"unit": "users:user_id", "epsilon": "50"}).json
    assert officer.post(f"/api/v1/approvals/{made['id']}", {"approve": True}).status >= 400  # spend has other terms
    assert [each["state"] for each in carl.get("/api/v1/sets/spend/account").json["proposals"]] == ["proposed"]


def test_somebody_who_leaves_spends_no_more_and_what_was_spent_stays(team: Team) -> None:
    carl, ana = team.browser("carl", by="session"), team.browser("ana")
    assert ask(ana, "1", "a") == 202
    assert carl.ask("DELETE", "/api/v1/sets/spend/members/ana/analyst").status == 200
    assert ask(ana, "1", "b") == 404
    assert team.server.account("spend/ana").state == "frozen"
    assert team.server.account("spend").spent.amount == 1_000_000
    assert (
        carl.post("/api/v1/sets/spend/members", {"person": "ana", "role": "analyst", "epsilon": "1"}).json["account"]
        == "spend/ana/2"
    )


def test_a_new_person_gets_a_link_and_a_known_one_does_not(team: Team) -> None:
    carl = team.browser("carl", by="session")
    new = carl.post("/api/v1/sets/spend/members", {"person": "dora", "role": "analyst", "epsilon": "1"}).json
    path = new["link"].removeprefix("http://127.0.0.1:8020")
    dora = Browser(team.app)
    assert dora.post(path, form={}).status == 303
    assert dora.get("/api/v1/me").json["sets"] == ["spend"]
    assert (
        carl.post("/api/v1/sets/spend/members", {"person": "eve", "role": "analyst", "epsilon": "1"}).json["link"] == ""
    )


def test_every_act_stands_on_the_chain_with_who_did_it_and_survives_the_servers_records(team: Team) -> None:
    carl, ana, officer = team.browser("carl", by="session"), team.browser("ana"), team.browser("officer", by="session")
    carl.post("/api/v1/sets/spend/members", {"person": "eve", "role": "analyst", "epsilon": "1"})
    assert ask(ana, "1", "a") == 202
    team.worker.once()
    told = officer.get("/api/v1/officer/acts").json["acts"]
    assert (told[-1]["person"], told[-1]["act"]) == ("carl", "gave a role")
    spent = officer.get("/api/v1/officer/spending?by=person").json["spending"]
    assert spent == [{"person": "ana", "currency": "pure", "amount": 1_000_000, "charges": 1}]
    for path in team.server.config.folder.glob("server.db*"):
        path.unlink()
    ledger = Ledger(team.server.config.ledger_address)
    assert ledger.verify().ok
    assert [(entry.person, entry.name) for entry in ledger.notes()][-1] == ("carl", "gave a role")
    assert {account.name: account.spent.amount for account in ledger.accounts()}["spend"] == 1_000_000
    assert not ledger.pending()


def test_verify_finds_a_receipt_that_the_ledger_does_not_hold(team: Team) -> None:
    ana, officer = team.browser("ana"), team.browser("officer")
    asked = ana.post(ASKS, {"task": SUM}, headers={"Idempotency-Key": "a"})
    team.worker.once()
    receipt = ana.get(asked.headers["location"]).json["release"]["receipt"]
    assert officer.post("/api/v1/officer/verify", {"receipts": [receipt]}).json["ok"]
    found = officer.post("/api/v1/officer/verify", {"receipts": [{**receipt, "head": "0" * 64}]}).json
    assert not found["ok"]
    assert found["findings"]
    assert officer.post("/api/v1/officer/verify", {"receipts": [{"sequence": 1}]}).status == 422
    lines = officer.get("/api/v1/officer/ledger.ndjson").text.splitlines()
    assert len(lines) == officer.post("/api/v1/officer/verify", {}).json["entries"]
