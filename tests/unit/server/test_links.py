"""Who may make a link that signs somebody in: whoever holds one can act as that person."""

from __future__ import annotations

from pathlib import Path

import pytest

from browsing import Browser, Team, new_team

ORIGIN = "http://127.0.0.1:8020"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return new_team(tmp_path)


def test_an_officer_cannot_sign_in_as_a_custodian_and_open_a_budget_alone(team: Team) -> None:
    team.browser("carl", by="session")
    officer = team.browser("officer", by="session")
    refused = officer.post("/api/v1/people/carl/link")
    assert (refused.status, refused.json["kind"]) == (409, "HasEntered")
    shown = officer.post("/people/carl/link", form={}, headers={"accept": "text/html"})
    assert (shown.status, "/enter/" in shown.text) == (422, False)
    assert "New link for carl" not in officer.get("/people", headers={"accept": "text/html"}).text
    assert "made a link" not in [each["act"] for each in officer.get("/api/v1/officer/acts").json["acts"]]


def test_somebody_who_never_signed_in_gets_another_link_which_ends_the_one_before(team: Team) -> None:
    officer = team.browser("officer", by="session")
    first = officer.post("/api/v1/people", {"name": "dora"}).json["link"].removeprefix(ORIGIN)
    second = officer.post("/api/v1/people/dora/link").json["link"].removeprefix(ORIGIN)
    told = officer.get("/api/v1/officer/acts").json["acts"][-1]
    assert (told["person"], told["act"], told["thing"]) == ("officer", "made a link", "dora")
    assert Browser(team.app).post(first, form={}).status == 401
    assert Browser(team.app).post(second, form={}).status == 303
    assert officer.post("/api/v1/people/dora/link").status == 409


def test_signing_in_by_password_counts_as_well(team: Team) -> None:
    ana = team.server.people.named("ana")
    assert ana is not None
    assert not team.server.people.has_entered(ana.id)
    team.server.people.set_password(ana.id, "a long enough password")
    assert team.server.people.sign_in("ana", "a long enough password") is not None
    assert team.server.people.has_entered(ana.id)
