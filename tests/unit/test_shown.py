"""Whatever a person sees in a notebook is a short page: a table, a picture, a sentence, all of it escaped, and nothing of the rows."""

from __future__ import annotations

import re
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.accounting import epsilon_of, mu_cap, mu_request, told
from steelyard.bounding import tradeoff
from steelyard.errors import BudgetExceeded
from steelyard.holdout import plan as holdout_plan
from steelyard.privacy import Loss, Terms, rows

EVIL = "<script>alert(1)</script>"
SCREEN = 1200


class Tags(HTMLParser):
    """Every element that opens and closes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    users = [user for user in range(300) for _ in range(3)]
    amounts = [float(i % 9) for i in range(900)]
    table = sy.read({"user": users, EVIL: amounts, "country": ["FR", EVIL, "DE"] * 300, "x": amounts})
    account = sy.open_account(":memory:", EVIL, unit=sy.users("user"), epsilon=30)
    session = sy.Session(table, account)
    total = sy.Sum(EVIL, epsilon=1, cap=30, by="country", keys=["FR", EVIL])
    profile = session.release(sy.Profile(EVIL, epsilon=1, upper=1000)).value
    rows_account = sy.open_account(":memory:", "rows", unit=sy.rows(), epsilon=5)
    features = sy.Features([sy.Numeric("x", 0, 9)])
    model = sy.Session(table, rows_account).release(sy.FitLinear(features, EVIL, 0, 9, epsilon=1)).value
    several = sy.Session(table, rows_account).release(
        sy.FitLogistic(features, "country", ["FR", EVIL, "DE"], epsilon=1)
    )
    holdout = sy.Holdout(np.arange(1000) % 2, tolerance=0.1, name=EVIL)
    release = session.release(total)
    return {
        "release": release, "guarantee": release.guarantee, "account": account, "session": session, "table": table,
        "plan": session.plan(total), "profile": profile, "profile's chart": profile.chart(), "trade-off": profile.plan(epsilon=1),
        "known trade-off": tradeoff([1, 2, 3, 50], epsilon=1), "model": model, "models": several.value,
        "release of models": several, "holdout": holdout, "answer": holdout.check(np.ones(1000), guess=0.5),
        "holdout plan": holdout_plan(10_000, 100, 0.05), "chart": release.chart(),
    }  # fmt: skip


def test_every_noun_is_a_short_line_and_a_whole_escaped_page(seen: dict[str, Any]) -> None:
    for name, noun in seen.items():
        assert len(repr(noun)) < 420, name
        page = noun._repr_html_()
        assert EVIL not in page, name
        tags = Tags(page)
        assert not tags.open, name
        assert "script" not in tags.seen, name


def test_what_is_worth_a_picture_has_one(seen: dict[str, Any]) -> None:
    for name in ("release", "account", "profile", "trade-off", "known trade-off", "model", "models", "holdout plan"):
        assert "<svg" in seen[name]._repr_html_(), name
    for name in ("release", "account", "table", "plan", "trade-off", "model", "holdout", "holdout plan", "session"):
        assert "<table" in seen[name]._repr_html_(), name


def test_to_be_looked_at_costs_nothing_and_reads_no_row(seen: dict[str, Any]) -> None:
    account, holdout = seen["account"], seen["holdout"]
    before = account.spent, holdout.account.spent
    for noun in seen.values():
        noun._repr_html_()
    assert (account.spent, holdout.account.spent) == before


def test_a_table_shows_the_same_whatever_its_rows_hold() -> None:
    full, empty = (
        sy.read({"a": [1.0, 2.0], "b": ["x", "y"]}),
        sy.read({"a": np.array([], float), "b": np.array([], str)}),
    )
    assert repr(full) == repr(empty)
    assert full._repr_html_() == empty._repr_html_()
    wide = sy.read({f"column_{i}": [1] for i in range(600)})
    assert len(repr(wide)) < SCREEN
    assert "580 more" in repr(wide)


def test_a_query_as_given_says_so_where_it_is_shown() -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
        with pytest.warns(sy.errors.UncheckedQuery):
            table = sy.read(connection.sql("SELECT a, count(*) OVER () AS n FROM t"))
        assert "nobody checked" in table._repr_html_()


def test_amounts_are_told_in_epsilon() -> None:
    account = sy.open_account(":memory:", "a", unit=sy.rows(), epsilon=5)
    assert repr(account.remaining) == "Loss('epsilon 5')"
    assert "left: epsilon 5" in str(account)


def test_a_gaussian_account_tells_epsilon_at_its_delta_beside_mu() -> None:
    account = sy.open_account(":memory:", "a", unit=sy.rows(), epsilon=3, delta="1e-6")
    session = sy.Session(sy.read({"a": [1.0, 2.0]}), account)
    task = sy.Sum("a", epsilon=1, cap=1)
    assert session.affords(task) == 7
    facts = dict(account.statement())
    assert facts["left"] == facts["cap"] == "epsilon 3 at delta 0.000001 (mu 0.647726)"
    for fits in range(7, 0, -1):
        assert session.affords(task) == fits
        said = str(session.release(task).guarantee)
    assert "this release spent epsilon 1 at delta 0.000001 (mu 0.236704)" in said
    with pytest.raises(BudgetExceeded, match=r"wants epsilon 1 at delta 0\.000001 .*left of the epsilon 0\.5 at"):
        session.up_to("0.5").release(task)
    assert dict(account.statement())["spent"] == "epsilon 2.8899 at delta 0.000001 (mu 0.62626)"
    with pytest.raises(
        BudgetExceeded, match=r"this step wants epsilon 1 at delta 0.000001 \(mu 0\.236704\)"
    ) as refusal:
        session.release(task)
    assert refusal.value.remaining == account.remaining
    (left,) = re.findall(r"has epsilon ([0-9.]+) at delta 0.000001", str(refusal.value))
    session.release(sy.Sum("a", epsilon=left, cap=1))  # what is said to be left can be spent


@pytest.mark.parametrize("micro", [1, 7, 1000, 165_371, 236_704, 647_726, 3_000_000])
def test_an_epsilon_that_is_told_fits_into_its_amount(micro: int) -> None:
    delta = Fraction(1, 10**6)
    terms = Terms(rows(), mu_cap(Fraction(20), delta), Fraction(20), delta)
    words = told(Loss.mu(Fraction(micro, 10**6)), terms)
    epsilon = Fraction(words.split()[1])
    assert epsilon == 0 or mu_request(epsilon, delta) <= micro
    paid = Fraction(told(Loss.mu(Fraction(micro, 10**6)), terms, cost=True).split()[1])
    assert epsilon_of(Fraction(micro, 10**6), delta) <= paid
    assert f"(mu {Loss.mu(Fraction(micro, 10**6))}".replace("mu mu", "mu") in words


def test_what_a_step_may_be_asked_for_is_counted_in_every_currency() -> None:
    session = sy.Session(sy.read({"a": [1.0]}), sy.open_account(":memory:", "a", unit=sy.rows(), epsilon="0.95"))
    assert session.affords(sy.Sum("a", epsilon="0.1", cap=1)) == 9
    assert session.affords(sy.Sum("a", epsilon=1, cap=1)) == 0


def test_requests_and_events_are_short_however_much_they_hold() -> None:
    many = [f"key {i}" for i in range(5000)]
    by_one = sy.Sum("a", epsilon=1, cap=3, by="k", keys=many)
    by_two = sy.Sum("a", epsilon=1, cap=3, by=["k", "m"], keys=sy.keys(k=many, m=[1, 2]))
    assert max(len(repr(task)) for task in (by_one, by_two)) < 420
    assert "5,000 keys" in repr(by_one)
    assert "5,000 of k × 2 of m" in repr(by_two)
    session = sy.Session(sy.read({"a": [1.0]}), sy.open_account(":memory:", "a", unit=sy.rows(), epsilon=1))
    tree = session.plan(sy.Histogram("a", epsilon=1, edges=list(range(200)), ranges=True))
    assert len(repr(tree.event)) < 420
    assert len(repr(sy.read({f"column_{i}": [1] for i in range(600)}).schema)) < SCREEN
