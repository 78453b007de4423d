"""People in front of a real browser, a real server behind it: two processes, pages, and nobody who reads the code.

Every page that a walk passes is looked at twice, wide and light, and dark at the width of a small telephone: axe-core finds nothing there that
some people could not use, and nothing sticks out of the window.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from browser import PATIENCE, Browser, Page
from serving import prepare, running
from steelyard.server import Server

HOSTILE = "<script>document.title='taken'</script>"
ROWS = 2000


@dataclass
class Site:
    """A running server, and the folder of its data."""

    origin: str
    server: Server
    data: Path
    browser: Browser

    def person(self, name: str) -> Page:
        """Somebody who has come in by a link and its button."""
        known = self.server.people.named(name)
        assert known is not None, name
        page = self.browser.person()
        page.open(f"{self.origin}/enter/{self.server.people.new_code(known.id)}")
        page.press("Sign in")
        return page

    def visit(self, page: Page, path: str) -> None:
        page.open(f"{self.origin}{path}")

    def until(self, page: Page, path: str, words: str) -> None:
        """Load a page again until it says something: the worker has to do its part first."""
        ends = time.monotonic() + PATIENCE
        self.visit(page, path)
        while words not in page.text:
            assert time.monotonic() < ends, page.text
            self.visit(page, path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("walk")
    config, _ = prepare(folder, epsilon="10", slot=0.5)
    rows = {
        "user_id": [i // 4 for i in range(ROWS)],
        "amount": [float(i % 50) for i in range(ROWS)],
        HOSTILE: [HOSTILE, "plain"] * (ROWS // 2),
    }
    pyarrow.parquet.write_table(pyarrow.table(rows), folder / "data" / "parcels.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"left": _labels()}), folder / "data" / "labels.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"left": _labels(3)}), folder / "data" / "final.parquet")
    server = Server(config)
    server.people.add("olga", officer=True)
    server.people.add("carl")
    with running(config) as (_, origin):
        yield Site(origin, server, folder / "data", browser)


def _labels(each: int = 2) -> list[bool]:
    return [i % each == 0 for i in range(ROWS)]


def check(page: Page, *words: str) -> None:
    """See the words, and look at the page wide and narrow, light and dark."""
    page.see(*words)
    for width, dark in ((320, True), (1280, False)):
        page.size(width)
        page.dark(dark)
        assert page.faults() == [], (page.url, width)


def test_a_team_from_an_empty_set_to_a_verified_ledger(site: Site) -> None:
    olga, carl = site.person("olga"), site.person("carl")
    check(olga, "Hello, olga")
    olga.press("New data set")
    check(olga, "New data set")
    olga.fill("Name", "parcels")
    olga.fill("Title", "Parcels")
    olga.choose("Custodian", "carl")
    olga.press("Make it")
    check(olga, "The custodian has to say where the table is")
    _register(site, carl)
    _two_persons_open_a_budget(site, olga, carl)
    ana = _let_in(site, carl, "mia", "1")
    receipt = _ask(site, ana)
    _be_refused(site, ana)
    _publish(site, carl)
    _verify(site, olga, receipt)


def _register(site: Site, carl: Page) -> None:
    site.visit(carl, "/")
    check(carl, "Waiting for you")
    carl.press("Parcels: say where its table is")
    check(carl, "Nobody has said yet")
    carl.fill("File below it", "../secret.parquet")
    carl.press("Use this file")
    check(carl, "Refused.", "inside one of the folders")
    carl.click("Say where it is")  # which is open where nothing was said: this folds it, and the next unfolds it
    carl.click("Say where it is")
    carl.fill("File below it", "parcels.parquet")
    carl.press("Use this file")
    carl.see("Noted.")
    site.until(carl, "/sets/parcels/manage", "Who is hidden")


def _two_persons_open_a_budget(site: Site, olga: Page, carl: Page) -> None:
    carl.choose("Who is hidden", "users:user_id")
    carl.fill("Epsilon for ever", "2")
    carl.press("Propose")
    check(carl, "Proposed.", "epsilon 2, hiding all rows of one user_id")
    site.visit(carl, "/officer")
    check(carl, "Not allowed", "'see spending' is for officer")
    olga.press("Home")
    olga.press("1 budget to approve")
    check(olga, "Budgets to approve", "proposed by carl")
    olga.press("Approve")
    check(olga, "Approved: the account is open.")


def _let_in(site: Site, carl: Page, name: str, limit: str) -> Page:
    site.visit(carl, "/sets/parcels/manage")
    carl.fill("Name", name)
    carl.fill("May spend at most", limit)
    carl.press("Let in")
    check(carl, f"Give {name} this link", "ε 1 left of ε 1")
    page = site.browser.person()
    page.open(str(carl.evaluate("document.getElementById('link').textContent")))
    check(page, "Come in")
    page.press("Sign in")
    check(page, f"Hello, {name}", "ε 1 left of ε 1", "left of ε 2")
    return page


def _ask(site: Site, ana: Page) -> str:
    """Plan by accuracy, ask, see the answer and the receipt."""
    ana.press("Plan a question")
    ana.press("Total")
    ana.fill("At most this much of one person", "100")
    ana.tick("I know how exact it must be")
    ana.fill("off by at most", "1000")
    ana.press("Work it out")
    check(ana, "Costs ε 0.3", "of your ε 1", "What more budget buys")
    ana.press("Ask: spends ε 0.3")
    ana.see("Sum of amount")
    check(ana, "Guarantee", "± 1,000 in 95% of draws", "Receipt", "answer = session.release(task")
    value = float(str(ana.evaluate("document.querySelector('.big').firstChild.textContent")).replace(",", ""))
    assert abs(value - sum(float(i % 50) for i in range(ROWS))) < 20_000  # twenty times what noise does in 95% of draws
    receipt = str(ana.evaluate("document.getElementById('receipt-text').textContent"))
    assert json.loads(receipt)["account"] == "parcels/mia"
    site.visit(ana, "/sets/parcels")
    check(ana, "Your answers", "Sum of amount", "± 1,000")
    return receipt


def _be_refused(site: Site, ana: Page) -> None:
    """What is more than is left has no button; a form from before is refused when it is sent."""
    site.visit(ana, "/sets/parcels/plan?kind=people&epsilon=0.5")
    ana.see("Ask: spends ε 0.5")
    other = site.person("mia")
    site.visit(other, "/sets/parcels/plan?kind=people&epsilon=0.6")
    other.press("Ask: spends ε 0.6")
    other.see("Guarantee")
    ana.press("Ask: spends ε 0.5")
    check(ana, "The budget cannot pay for this", "Nothing was charged and no row was read")
    site.visit(ana, "/sets/parcels/plan?kind=people&epsilon=0.5")
    check(ana, "it would be refused")
    assert ana.evaluate("[...document.querySelectorAll('button')].every(e => !e.innerText.startsWith('Ask'))")
    site.visit(ana, "/sets/spend")
    check(ana, "Not found")


def _publish(site: Site, carl: Page) -> None:
    site.visit(carl, "/sets/parcels")
    carl.press("Count of units")
    carl.press("Publish")
    check(carl, "Published: everybody in the set may read it")
    ben = _let_in(site, carl, "nils", "1")
    site.visit(ben, "/sets/parcels/plan?kind=people&epsilon=0.6")
    check(ben, "Answered before: free.")


def _verify(site: Site, olga: Page, receipt: str) -> None:
    site.visit(olga, "/officer")
    check(olga, "Epsilon spent by person", "approved an account", "carl")
    olga.press("by set")
    olga.see("Epsilon spent by set")
    olga.press("Verify now")
    check(olga, "The ledger is whole.")
    olga.fill("Receipts, one after the other", receipt)
    olga.press("Check")
    check(olga, "Known.", "1 receipt is on the ledger")
    altered = {**json.loads(receipt), "head": "0" * 64}
    olga.fill("Receipts, one after the other", json.dumps(altered))
    olga.press("Check")
    check(olga, "Something is wrong.")
    olga.fill("Receipts, one after the other", "my receipt")
    olga.press("Check")
    check(olga, "This is no receipt.")


def test_a_competition_whose_ranks_say_what_is_known(site: Site, tmp_path: Path) -> None:
    server = site.server
    carl_known, spend = server.people.named("carl"), server.sets.named("spend")
    assert carl_known is not None
    assert spend is not None
    server.sets.join(spend.id, carl_known.id, "custodian")
    carl = site.person("carl")
    site.visit(carl, "/sets/spend/boards/new")
    check(carl, "Open a leaderboard")
    carl.fill("Name", "leavers")
    carl.fill("Title", "Who leaves?")
    carl.fill("File of labels below it", "labels.parquet")
    carl.fill("Labels of a final phase", "final.parquet")
    carl.press("Open it")
    site.until(carl, "/boards/leavers", "phase 1 of 2: open")
    check(carl, "Nobody has submitted yet.")
    carl.press("Manage")
    links = [_on_team(carl, team, person) for team, person in (("Owls", "ada"), ("Larks", "bob"), ("Wrens", "cyd"))]
    shares = ((0.80, "0.80"), (0.79, "0.79"), (0.30, ""))
    pages = [_compete(site, link, share, guess, tmp_path) for link, (share, guess) in zip(links, shares, strict=True)]
    site.visit(pages[0], "/boards/leavers")
    check(
        pages[0],
        "the first place is a tie of 2 teams",
        "1–2 Owls (you)",
        "1–2 Larks",
        "3 Wrens",
        "Your team's submissions",
    )
    _wrong_format(site, pages[0], tmp_path)
    site.visit(carl, "/boards/leavers/teams")
    check(carl, "Owls", "ada", "What the board promises")
    carl.press("Close the phase")
    check(carl, "2 of 2: final", "1–2 Owls")
    _final_phase(site, carl, pages, tmp_path)
    site.visit(pages[1], "/boards")
    check(pages[1], "Who leaves?", "1–2")


def _final_phase(site: Site, carl: Page, pages: list[Page], folder: Path) -> None:
    """On rows that were never asked: predictions are kept, then one of them wins."""
    for page, share in zip(pages, (0.7, 0.9, 0.5), strict=True):
        site.visit(page, "/boards/leavers")
        page.see("The final phase has rows of its own")
        page.attach("Predictions", _predictions(folder, _labels(3), share))
        page.press("Submit", "form")
        page.see("Kept for the end of the final phase")
    check(pages[0], "Kept for the end")
    site.visit(carl, "/boards/leavers/teams")
    carl.press("Close the phase")
    site.until(carl, "/boards/leavers", "Winner: Larks")
    check(carl, "best of 3 teams on rows that were never asked before", "0.900", "Closed: these ranks are final.")


def _on_team(carl: Page, team: str, person: str) -> str:
    carl.fill("Team", team)
    carl.fill("Person", person)
    carl.press("Put on the team")
    carl.see(f"Give {person} this link")
    return str(carl.evaluate("document.getElementById('link').textContent"))


def _compete(site: Site, link: str, share: float, guess: str, folder: Path) -> Page:
    """Come in by a link and send predictions in, of which this share is right."""
    page = site.browser.person()
    page.open(link)
    page.press("Sign in")
    site.visit(page, "/boards/leavers")
    page.attach("Predictions", _predictions(folder, _labels(), share))
    if guess:
        page.fill("Your own score", guess)
    page.press("Submit", "form")
    page.see("left on this board" if not guess else "the guess was right")
    check(page, "What was submitted")
    return page


def _predictions(folder: Path, labels: list[bool], share: float) -> Path:
    """A file of predictions of which this share is right."""
    right, file = round(share * ROWS), folder / "predictions.csv"
    given = [label if i < right else not label for i, label in enumerate(labels)]
    file.write_text("prediction\n" + "\n".join(str(each).lower() for each in given) + "\n", "utf-8")
    return file


def _wrong_format(site: Site, page: Page, folder: Path) -> None:
    """A fault of the format is told before the labels are touched, and nothing else."""
    file = folder / "short.csv"
    file.write_text("prediction\ntrue\nfalse\n", "utf-8")
    page.attach("Predictions", file)
    page.press("Submit", "form")
    check(page, "Not scored.", "2")


def test_a_question_without_a_mouse_and_without_a_script(site: Site) -> None:
    ana = site.server.people.named("ana")
    assert ana is not None
    page = site.browser.person()
    page.scripts(False)
    page.open(f"{site.origin}/enter/{site.server.people.new_code(ana.id)}")
    way = page.tab_to("Sign in")
    assert way[0] == "Skip to the page"
    page.enter()
    page.tab_to("Plan a question")
    page.enter()
    page.tab_to("How many people")
    page.enter()
    page.tab_to("epsilon to spend")
    page.type("0.5")
    page.tab_to("Work it out")
    page.enter()
    page.tab_to("Ask: spends ε 0.5")
    page.enter()
    for _ in range(1000):  # without a script one looks again oneself
        if "Guarantee" in page.text:
            break
        page.tab_to("Look again")
        page.enter()
    assert "Count of units" in page.text
    page.tab_to("The whole receipt")
    page.key("Enter")
    page.see('"sequence"')
    page.tab_to("Sign out")
    page.enter()
    assert page.url.endswith("/sign-in")


def test_a_plan_follows_what_is_typed_and_an_answer_comes_by_itself(site: Site) -> None:
    page = site.person("ana")
    site.visit(page, "/sets/spend/plan?kind=sum&column=amount")
    page.evaluate("window.sameToken = 1")
    page.fill("At most this much of one person", "10")
    page.fill("off by at most", "100")
    page.see("Ask: spends ε 0.")
    assert 0.1 < float(str(page.evaluate("document.getElementById('epsilon').value"))) < 0.5
    page.fill("epsilon to spend", "1")
    page.see("Ask: spends ε 1")
    assert 25 < float(str(page.evaluate("document.getElementById('error').value"))) < 35
    assert page.evaluate("window.sameToken") == 1  # no other page was loaded
    page.press("Ask: spends ε 1")
    page.evaluate("window.sameToken = 2")
    page.see("Guarantee")
    assert page.evaluate("window.sameToken") == 2


def test_texts_of_rows_are_read_and_not_run(site: Site) -> None:
    server, name = site.server, "nasty"
    if server.sets.named(name) is None:
        ana = server.people.named("ana")
        assert ana is not None
        made = server.sets.add(name, HOSTILE)
        server.sets.set_source(made.id, "root", "data/parcels.parquet", {})
        server.sets.set_account(made.id, "spend")
        server.sets.join(made.id, ana.id, "analyst", "spend/ana")
    page = site.person("ana")
    site.until(page, f"/sets/{name}", "user_id integer")
    check(page, HOSTILE)
    site.visit(page, f"/sets/{name}/plan?kind=people&epsilon=0.5")
    page.choose("For each", HOSTILE)
    page.fill("Values", f"{HOSTILE},plain")
    page.press("Work it out")
    page.press("Ask: spends ε 0.5")
    page.see("Guarantee")
    check(page, HOSTILE)
    assert "taken" not in str(page.evaluate("document.title")).split(" · ")[-1]
    assert page.evaluate("[...document.scripts].every(e => e.src.endsWith('/page.js'))")


def test_pages_of_oneself_and_of_an_officer_can_be_used_by_everybody(site: Site) -> None:
    page = site.person("olga")
    for path, words in {
        "/me": "Where you are signed in",
        "/people": "Somebody new",
        "/rights?act=ask&thing=spend": "refused",
        "/boards": "Leaderboards",
    }.items():
        site.visit(page, path)
        check(page, words)
    site.visit(page, "/me")
    page.fill("New password", "a password of olga")
    page.press("Set it")
    check(page, "Your password is set.")
    page.fill("What it is for", "a notebook")
    page.press("Make a token")
    check(page, "Copy it now.", "sy.connect(")
    page.press("End a notebook")
    page.see("The token has ended.")
    page.press("Sign out")
    page.fill("Name", "olga")
    page.fill("Password", "not it")
    page.press("Sign in", "main")
    check(page, "Name and password do not fit.")
    page.fill("Name", "olga")
    page.fill("Password", "a password of olga")
    page.press("Sign in", "main")
    check(page, "Hello, olga")
