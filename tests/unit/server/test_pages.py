"""Pages: what they say, what they cost, and that no text from rows or people becomes markup."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow
import pyarrow.parquet
import pytest

import steelyard.server.pages as pages
from browsing import Browser, Seen, Team, new_team
from steelyard.bounding import Sum
from steelyard.ledger import open_account
from steelyard.privacy import users
from steelyard.server._acts import acts
from steelyard.server.pages._plan import epsilon_for
from steelyard.server.pages._questions import KINDS

HOSTILE = '"><script>alert(1)</script>\u202e'
NASTY = '"><img src=x onerror=alert(1)>'  # a person's name has no slash
FOLDER = Path(pages.__file__).parent


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return new_team(tmp_path)


def look(browser: Browser, path: str, **query: str) -> Seen:
    return browser.get(f"{path}?{urlencode(query)}" if query else path, headers={"accept": "text/html"})


def ask(team: Team, browser: Browser, **query: str) -> str:
    """Plan a question on its page, press the button of that page, let the worker answer; where the answer is."""
    planned = look(browser, "/sets/spend/plan", **query)
    hidden = dict(re.findall(r'<input type="hidden" name="(request|key)" value="([^"]*)">', planned.text))
    assert set(hidden) == {"request", "key"}, planned.text
    asked = browser.post("/sets/spend/releases", form={name: html.unescape(value) for name, value in hidden.items()})
    assert asked.status == 303, asked.text
    team.worker.once()
    return asked.headers["location"]


def test_a_question_is_planned_asked_and_answered_by_pages_alone(team: Team) -> None:
    ana = team.browser("ana", by="session")
    planned = look(ana, "/sets/spend/plan", kind="sum", column="amount", cap="10", epsilon="0.25").text
    assert "Costs ε 0.25 of your ε 2" in planned
    assert "Ask: spends ε 0.25" in planned
    place = ask(team, ana, kind="sum", column="amount", cap="10", epsilon="0.25")
    answered = look(ana, place).text
    job = team.server.jobs.of_sequence(int(place.rpartition("/")[2]))
    assert job is not None
    assert all(
        words in answered
        for words in ("Sum of amount", "Guarantee", "Receipt", "sy.Sum(column=", f"entry</dt><dd>{job.sequence}")
    )
    assert "ε 1.75 left of ε 2" in look(ana, "/sets/spend").text


def test_accuracy_drives_the_price_and_the_price_the_accuracy(team: Team) -> None:
    ana = team.browser("ana", by="session")
    form = {"kind": "sum", "column": "amount", "cap": "10"}
    by_error = look(ana, "/sets/spend/plan", **form, by_side="error", error="50").text
    epsilon = _field(by_error, "epsilon")
    by_price = look(ana, "/sets/spend/plan", **form, by_side="epsilon", epsilon=epsilon).text
    assert float(_field(by_price, "error")) <= 50
    dataset = team.server.sets.named("spend")
    assert dataset is not None
    session = team.server.paper(dataset, "spend/ana")
    for wanted in (3.0, 50.0, 1234.5):
        least = float(epsilon_for(session, lambda cost: Sum("amount", epsilon=cost, cap=10), wanted))
        errors = [
            session.plan(Sum("amount", epsilon=f"{cost:.4g}", cap=10)).predicted for cost in (least, 0.98 * least)
        ]
        sizes = [each.interval for each in errors if each is not None]
        assert sizes[0] <= wanted < sizes[1]


def _field(page: str, name: str) -> str:
    found = re.search(rf'<input id="{name}" name="{name}" value="([^"]*)"', page)
    assert found is not None, page
    return found[1]


def test_a_published_answer_is_found_before_it_is_paid_for_again(team: Team) -> None:
    ana, ben, carl = (team.browser(name, by="session") for name in ("ana", "ben", "carl"))
    place = ask(team, ana, kind="people", epsilon="0.5")
    assert look(ben, place).status == 404
    for _ in range(2):
        assert carl.post(f"{place}/publish", form={}).status == 303
    told = [each for each in acts(team.server) if each["act"] == "published an answer"]
    assert [(each["person"], each["thing"], each["account"]) for each in told] == [
        ("carl", f"spend: entry {place.rpartition('/')[2]}", "spend/ana")
    ]
    found = look(ben, "/sets/spend/plan", kind="people", epsilon="0.5").text
    assert "Answered before: free." in found
    assert f'href="{place}"' in found
    assert look(ben, place).status == 200


def test_what_is_too_dear_has_no_button_and_is_refused(team: Team) -> None:
    ana = team.browser("ana", by="session")
    dear = look(ana, "/sets/spend/plan", kind="people", epsilon="3").text
    assert "it would be refused" in dear
    assert "<button>Ask" not in dear
    request = json.dumps({"type": "CountUsers", "epsilon": "3"})
    refused = ana.post("/sets/spend/releases", form={"request": request, "key": "k"}, headers={"accept": "text/html"})
    assert refused.status == 402
    assert "Nothing was charged and no row was read" in refused.text


def test_every_kind_of_question_can_be_planned(team: Team) -> None:
    ana = team.browser("ana", by="session")
    filled = {
        "column": "amount",
        "cap": "3",
        "lower": "0",
        "upper": "10",
        "quantile": "0.5",
        "edges": "0, 5, 10",
        "by": "country",
        "keys": "FR, DE",
    }
    for kind, known in KINDS.items():
        names = {each.name for each in known.fields}
        shown = look(
            ana, "/sets/spend/plan", kind=kind, epsilon="0.5", **{k: v for k, v in filled.items() if k in names}
        )
        assert "Ask: spends ε 0.5" in shown.text, (kind, shown.text)


def test_a_look_gives_the_curve_of_every_later_total(team: Team) -> None:
    ana = team.browser("ana", by="session")
    place = ask(team, ana, kind="look", column="amount", upper="100", epsilon="0.5")
    shown = look(
        ana, "/sets/spend/plan", kind="sum", column="amount", epsilon="0.5", look=place.rpartition("/")[2]
    ).text
    assert "Where the cap balances noise and bias" in shown
    assert "Ask: spends ε 0.5" in shown


@pytest.mark.parametrize(
    "given", [{"cap": "-3"}, {"cap": "nonsense"}, {"by": "nothing", "keys": "a"}, {"by": "country", "keys": ""}]
)
def test_what_makes_no_sense_is_said_at_its_field(team: Team, given: dict[str, str]) -> None:
    shown = look(
        team.browser("ana", by="session"), "/sets/spend/plan", **{"kind": "count", "cap": "3", "epsilon": "1", **given}
    )
    assert shown.status == 200
    assert shown.text.count('aria-invalid="true"') == 1
    assert "Refused." in shown.text


def test_keys_are_never_read_from_a_file_of_the_server(team: Team, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("country\ntop secret\n", "utf-8")
    ana = team.browser("ana", by="session")
    for keys in (f"@{secret}", f" @{secret}"):
        shown = look(ana, "/sets/spend/plan", kind="people", epsilon="1", by="country", keys=keys).text
        assert "Refused." in shown
        assert "top secret" not in shown


def test_text_of_rows_and_people_never_becomes_markup(tmp_path: Path) -> None:
    team = hostile(tmp_path)
    mallory = team.browser(NASTY, by="session")
    place = ask_hostile(team, mallory)
    pages = [
        "/",
        "/sets/spend",
        "/me",
        "/rights",
        place,
        f"/sets/spend/plan?kind=count&cap={urlencode({'': HOSTILE})[1:]}&epsilon=1",
    ]
    for path in pages:
        shown = look(mallory, path).text
        assert "<script>alert" not in shown, path
        assert "<img" not in shown, path
        assert not re.search(">[^<]*\u202e", shown), path  # values of forms go back as they came
    assert "&lt;script&gt;alert(1)" in look(mallory, place).text
    assert "&lt;script&gt;alert(1)" in look(mallory, "/sets/spend").text


def hostile(folder: Path) -> Team:
    """A set whose title, column, key and analyst are all called something nasty."""
    team = new_team(folder)
    rows = {"user_id": [1, 2, 3], HOSTILE: [HOSTILE, HOSTILE, "x"]}
    pyarrow.parquet.write_table(pyarrow.table(rows), folder / "data" / "nasty.parquet")
    server, name = team.server, NASTY
    spend = server.sets.named("spend")
    assert spend is not None
    server.sets.set_source(spend.id, "root", "data/nasty.parquet", {})
    own = open_account(server.config.ledger_address, "spend/mallory", parent="spend", epsilon="2")
    server.sets.join(spend.id, server.people.add(name).id, "analyst", own.name)
    team.worker.once()
    return team


def ask_hostile(team: Team, browser: Browser) -> str:
    return ask(team, browser, kind="people", epsilon="1", by=HOSTILE, keys='"' + HOSTILE.replace('"', '""') + '"')


def test_a_table_for_a_spreadsheet_holds_no_formula(tmp_path: Path) -> None:
    team = new_team(tmp_path)
    ana = team.browser("ana", by="session")
    place = ask(team, ana, kind="people", epsilon="1", by="country", keys="=1+1,-2,@x,FR")
    lines = look(ana, f"{place}.csv").text.splitlines()
    assert [line.partition(",")[0] for line in lines[1:]] == ["'=1+1", "'-2", "'@x", "FR"]
    assert json.loads(look(ana, f"{place}.json").text)["task"]["keys"] == ["=1+1", "-2", "@x", "FR"]
    assert look(ana, f"{place}.svg").text.startswith("<svg")
    receipt = json.loads(look(ana, f"{place}.receipt.json").text)
    assert receipt["account"] == "spend/ana"
    assert look(ana, f"{place}.exe").status == 404


def test_an_answer_that_is_not_there_yet_says_when_to_look(tmp_path: Path) -> None:
    team = new_team(tmp_path, slot=3.0)
    ana = team.browser("ana", by="session")
    shown = look(ana, ask(team, ana, kind="people", epsilon="1")).text
    assert "Charged and being computed" in shown
    assert re.search(r'id="answer" data-look="[1-3]"', shown)
    assert "Receipt" in shown


def test_signing_in_leads_to_no_other_site(team: Team) -> None:
    ana = team.server.people.named("ana")
    assert ana is not None
    team.server.people.set_password(ana.id, "a long enough password")
    for wanted, led in {
        "/me": "/me",
        "//evil.example": "/",
        "https://evil.example": "/",
        "/\\evil.example": "/",
    }.items():
        form = {"name": "ana", "password": "a long enough password", "next": wanted}
        assert Browser(team.app).post("/sign-in", form=form).headers["location"] == led
    wrong = Browser(team.app).post("/sign-in", form={"name": "ana", "password": "no"})
    assert (wrong.status, "Name and password do not fit." in wrong.text) == (401, True)
    assert look(Browser(team.app), "/sets/spend").headers["location"] == "/sign-in?next=%2Fsets%2Fspend"


def test_no_page_brings_style_or_script_of_its_own() -> None:
    """The content policy forbids both; a template that had some would be broken without anybody noticing."""
    for path in (FOLDER / "templates").iterdir():
        text = path.read_text("utf-8")
        assert not re.search(r"style=|<style|\son[a-z]+=|javascript:|\|\s*safe|autoescape", text), path.name
        assert not re.search(r"<script(?! src=)", text), path.name


def test_what_every_page_uses_is_kept_by_browsers_for_good(team: Team) -> None:
    home = look(team.browser("ana", by="session"), "/").text
    for kind, words in (("style.css", "--blue"), ("page.js", "use strict"), ("icon.svg", "<svg")):
        address = re.search(rf'"(/static/[0-9a-f]+/{kind})"', home)
        assert address is not None
        found = Browser(team.app).get(address[1])
        assert words in found.text
        assert "immutable" in found.headers["cache-control"]
    assert Browser(team.app).get("/static/x/../_parts.py").status == 404


def test_a_decision_is_explained(team: Team) -> None:
    carl: Any = team.browser("carl", by="session")
    assert "refused" in look(carl, "/rights", act="ask", thing="spend").text
    assert "allowed" in look(team.browser("ana", by="session"), "/rights", act="ask", thing="spend").text


def test_a_gaussian_budget_is_told_in_epsilon_at_its_delta(team: Team) -> None:
    server, spend = team.server, team.server.sets.named("spend")
    assert spend is not None
    open_account(server.config.ledger_address, "gauss", unit=users("user_id"), epsilon="2", delta="1e-6")
    open_account(server.config.ledger_address, "gauss/gina", parent="gauss", epsilon="1")
    made = server.sets.add("gauss")
    server.sets.set_source(made.id, "root", "data/spend.parquet", {})
    server.sets.set_account(made.id, "gauss")
    server.sets.join(made.id, server.people.add("gina").id, "analyst", "gauss/gina")
    team.worker.once()
    gina = team.browser("gina", by="session")
    assert "ε = 2, δ = 1e-06" in look(gina, "/sets/gauss").text
    form = {"kind": "sum", "column": "amount", "cap": "10"}
    planned = look(gina, "/sets/gauss/plan", **form, by_side="error", error="100").text
    assert "of your ε 1" in planned
    assert "Exactly: epsilon" in planned
    assert (
        float(_field(look(gina, "/sets/gauss/plan", **form, epsilon=_field(planned, "epsilon")).text, "error")) <= 100
    )
    looked = look(gina, "/sets/gauss/plan", kind="look", column="amount", upper="100", epsilon="0.5")
    assert "Ask: spends ε 0.5" in looked.text
