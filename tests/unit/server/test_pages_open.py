"""Coming in by a one-time link."""

from __future__ import annotations

from pathlib import Path

import pytest

from browsing import Browser, Team, new_team


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return new_team(tmp_path)


def test_a_link_signs_in_once_and_only_by_its_button(team: Team) -> None:
    ana = team.server.people.named("ana")
    assert ana is not None
    path = f"/enter/{team.server.people.new_code(ana.id)}"
    browser = Browser(team.app)
    assert b"<form" in browser.get(path, headers={"accept": "text/html"}).body
    assert browser.post(path, form={}, headers={"sec-fetch-site": "cross-site"}).status == 403
    entered = browser.post(path, form={})
    assert entered.status == 303
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith("__Host-steelyard-8020=")
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"))
    assert b"ana" in browser.get("/", headers={"accept": "text/html"}).body
    assert Browser(team.app).post(path, form={}).status == 401
    assert browser.post("/sign-out", form={}).status == 303
    assert browser.get("/api/v1/me").status == 401
