"""Accounts that count by periods: a budget for each, charged by what reads its rows and by nothing else."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import steelyard as sy
from steelyard.errors import (
    AccountClosed,
    BudgetExceeded,
    ColumnMissing,
    InvalidTask,
    KeyConflict,
    LedgerError,
    SteelyardError,
    TableError,
    UnitMismatch,
    ViewRefused,
)
from steelyard.ledger import _moves as moves
from steelyard.ledger._store import Store
from steelyard.noise import TestNoise
from steelyard.privacy import Unit
from steelyard.tables import PaperTable

UNIT = sy.users("user", per="month", time="day")
ROWS = pa.table(
    {
        "user": [1, 1, 2, 2, 3],
        "amount": [1.0, 2.0, 4.0, 8.0, 16.0],
        "country": ["a", "b", "a", "b", "a"],
        "day": [dt.date(2026, 3, 1), dt.date(2026, 3, 9), dt.date(2026, 3, 31), dt.date(2026, 4, 1), None],
        "paid": [dt.date(2026, 4, 1)] * 5,
    }
)


@pytest.fixture
def account() -> Any:
    return sy.open_account(":memory:", "spend", unit=UNIT, epsilon=1)


def total(session: sy.Session) -> float:
    return float(session.release(sy.Sum("amount", epsilon="0.5", cap=1000)).value)


def test_a_release_reads_the_rows_of_its_period_and_charges_that_periods_account(account: Any) -> None:
    spent = {}
    for month, near in (("2026-03", 7), ("2026-04", 8), ("2026-05", 0)):
        session = sy.Session(sy.read(ROWS), account.during(month), noise=TestNoise(1))
        table = session._table
        assert sum(float(row["amount"]) for batch in table.batches(["amount"]) for row in batch.to_pylist()) == near
        total(session)
        spent[month] = str(account.during(month).spent)
    assert set(spent.values()) == {"epsilon 0.5"}
    assert [each.name for each in account.periods()] == ["spend/2026-03", "spend/2026-04", "spend/2026-05"]
    assert str(account.spent) == "epsilon 0"
    assert sy.Ledger(account.location).verify().ok


def test_the_budget_of_one_period_is_not_that_of_another(account: Any) -> None:
    march, april = (sy.Session(sy.read(ROWS), account.during(month)) for month in ("2026-03", "2026-04"))
    total(march)
    total(march)
    with pytest.raises(BudgetExceeded, match="spend/2026-03"):
        total(march)
    total(april)


def test_the_guarantee_names_the_period(account: Any) -> None:
    release = sy.Session(sy.read(ROWS), account.during("2026-03")).release(sy.CountUsers(epsilon="0.5"))
    assert "all rows of one value of 'user' in 2026-03 (by 'day')" in str(release.guarantee)
    assert sy.Release.from_json(release.to_json()).guarantee == release.guarantee
    assert Unit.from_json(UNIT.during("2026-03").to_json()) == UNIT.during("2026-03")


def test_whatever_is_made_of_a_session_stays_in_its_period(account: Any) -> None:
    march = sy.Session(sy.read(ROWS, name="t"), account.during("2026-03"), person="ann")
    for made in (march.up_to("0.2"), march.over(sy.read(ROWS, name="t")), march.over(march._table.where("amount > 1"))):
        amounts = [row["amount"] for batch in made._table.batches(["amount"]) for row in batch.to_pylist()]
        assert set(amounts) <= {1.0, 2.0, 4.0}
    receipt = march.reserve(sy.CountUsers(epsilon="0.1"), key="k")
    assert march.up_to("0.2").release(sy.CountUsers(epsilon="0.1"), key="k").receipt == receipt, (
        "the same table, so the same key"
    )


def test_an_account_that_counts_by_periods_is_not_charged_without_one(account: Any) -> None:
    with pytest.raises(InvalidTask, match="counts by the month"):
        sy.Session(sy.read(ROWS), account)
    with pytest.raises(InvalidTask, match="counts by the month"):
        account.charge(sy.Loss.pure("0.1"), key="k", request=b"")
    with pytest.raises(InvalidTask):
        sy.enter(account, "a run", epsilon="0.1")


def refused_views(table: Any) -> list[Any]:
    public = sy.public({"country": ["a", "b"], "rate": [1.0, 2.0]})
    return [
        lambda: table.derive(day="cast('2026-03-01' as date)"),
        lambda: table.derive(day="paid"),
        lambda: table.derive(user="amount"),
        lambda: table.per_unit("user", day="max(day)"),
        lambda: table.per_unit(day="max(day)"),
        lambda: table.join_units(
            sy.read(ROWS.select(["user", "paid"]).rename_columns(["user", "other"]), name="other"), on="user"
        ),
        lambda: table.join(public, on="country"),
        lambda: sy.view("select user, amount, paid as day from t", t=table),
        lambda: sy.view("select user, max(amount) as amount, day from t group by user, day", t=table),
        lambda: sy.view(
            "select user, amount, lag(day) over (partition by user order by amount) as day from t", t=table
        ),
    ]


@pytest.mark.parametrize("number", range(10))
def test_a_view_in_which_periods_could_meet_is_refused_before_a_charge(account: Any, number: int) -> None:
    table = sy.read(ROWS, name="t")
    with pytest.raises((ViewRefused, ColumnMissing)):
        sy.Session(refused_views(table)[number](), account.during("2026-03"))
    assert str(account.during("2026-03").spent) == "epsilon 0"


@pytest.mark.parametrize("named", ["user, ordered as day", "user, paid as day", "payer as user, day"])
def test_a_view_names_no_other_column_as_the_user_or_the_time_of_a_table_that_has_none(
    account: Any, named: str
) -> None:
    """Else one row could be counted in March by when it was ordered, and in April by when it was paid."""
    without = ROWS.rename_columns(["user", "amount", "country", "ordered", "paid"])
    if "payer" in named:
        without = ROWS.rename_columns(["payer", "amount", "country", "day", "paid"])
    with pytest.raises(ViewRefused, match="calls another column"):
        sy.Session(sy.view(f"select {named}, amount from t", t=without), account.during("2026-03"))
    assert str(account.during("2026-03").spent) == "epsilon 0"


def test_a_view_that_works_row_by_row_is_taken(account: Any) -> None:
    view = sy.read(ROWS, name="t").where("amount > 1").derive(double="amount * 2")
    session = sy.Session(view, account.during("2026-03"))
    found = [row["double"] for batch in session._table.batches(["double"]) for row in batch.to_pylist()]
    assert sorted(found) == [4.0, 8.0]


def test_estimators_and_labels_do_not_take_an_account_of_a_period(account: Any) -> None:
    with pytest.raises(UnitMismatch):
        sy.LinearRegression(epsilon=0.1, account=account.during("2026-03")).fit(
            [[1.0], [2.0]], [1.0, 2.0], users=[1, 2]
        )
    with pytest.raises(SteelyardError):
        sy.LabelRandomizer(epsilon=0.1, lower=0, upper=1, account=account.during("2026-03")).fit([0.0, 1.0])


@pytest.mark.parametrize(("per", "right", "wrong"), [
    ("month", "2026-03", ["2026-3", "2026-13", "2026", "0000-01", "9999-01", "2026-03 ", "２０２６-03", 202603, None]),
    ("day", "2024-02-29", ["2026-02-29", "2026-2-1", "2026-03-32", "20260301"]),
    ("quarter", "2026-Q4", ["2026-Q5", "2026-Q0", "2026Q1"]),
    ("year", "2026", ["26", "02026", "2026-01"]),
])  # fmt: skip
def test_a_period_is_written_in_one_way(per: str, right: str, wrong: list[Any]) -> None:
    unit = sy.users("user", per=per, time="day")
    assert unit.during(right).period == right
    for text in wrong:
        with pytest.raises(InvalidTask):
            unit.during(text)
    with pytest.raises(InvalidTask):
        unit.during(right).during(right)


@pytest.mark.parametrize("given", [
    {"per": "week", "time": "day"}, {"per": "month"}, {"time": "day"}, {"per": "month", "time": ""},
    {"per": "month", "time": "day", "neighbours": "replace", "n": 5},
])  # fmt: skip
def test_a_unit_by_periods_needs_a_length_and_a_time(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        sy.users("user", **given)


def test_shares_have_periods_below_those_of_the_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "budget.db")
    whole = sy.open_account(path, "spend", unit=UNIT, epsilon=1)
    ann = sy.open_account(path, "ann", parent="spend", epsilon="0.75")
    total(sy.Session(sy.read(ROWS), ann.during("2026-03")))
    march = whole.during("2026-03")
    assert (str(march.spent), ann.during("2026-03").parent) == ("epsilon 0.5", march)
    assert str(whole.during("2026-04").remaining) == "epsilon 1"
    assert sy.Ledger(path).verify().ok


def test_freezing_the_whole_freezes_its_periods_and_opens_no_new_one(account: Any) -> None:
    march = account.during("2026-03")
    account.freeze("an incident")
    with pytest.raises(AccountClosed):
        march.charge(sy.Loss.pure("0.1"), key="k", request=b"")
    with pytest.raises(AccountClosed):
        account.during("2026-04")
    account.unfreeze()
    march.charge(sy.Loss.pure("0.1"), key="k", request=b"")


def test_an_account_that_took_a_periods_name_is_not_taken_for_it(account: Any) -> None:
    sy.open_account(account.location, "spend/2026-03", unit=sy.rows(), epsilon=9)
    with pytest.raises(LedgerError, match="other terms"):
        account.during("2026-03")
    assert account.periods() == []


def test_a_period_that_stands_elsewhere_is_not_taken_for_that_of_a_share(tmp_path: Path) -> None:
    """A month opened by hand, below nothing or below more than there is, would let shares spend what the whole has not."""
    path = str(tmp_path / "budget.db")
    sy.open_account(path, "spend", unit=UNIT, epsilon=1)
    ann, bob = (sy.open_account(path, name, parent="spend", epsilon=1) for name in ("ann", "bob"))
    sy.open_account(path, "ann/2026-03", unit=UNIT.during("2026-03"), epsilon=1)
    sy.open_account(path, "spend/2026-04", unit=UNIT.during("2026-04"), epsilon=9)
    sy.open_account(path, "bob/2026-04", parent="spend/2026-04", epsilon=1)
    for account, month in ((ann, "2026-03"), (bob, "2026-04")):
        with pytest.raises(LedgerError, match="other terms"):
            account.during(month)


@pytest.mark.parametrize(("act", "state"), [("freeze", "frozen"), ("close", "closed")])
def test_a_closed_period_holds_up_none_of_the_others(account: Any, act: str, state: str) -> None:
    for month in ("2026-01", "2026-02", "2026-03"):
        account.during(month)
    account.during("2026-01").close("it is over")
    before = len(list(sy.Ledger(account.location).entries()))
    getattr(account, act)("an incident")
    getattr(account, act)("once more")
    assert [each.state for each in account.periods()] == ["closed", state, state]
    assert len(list(sy.Ledger(account.location).entries())) == before + 3
    with pytest.raises(AccountClosed):
        account.during("2026-02").charge(sy.Loss.pure("0.1"), key="k", request=b"")
    assert sy.Ledger(account.location).verify().ok


def test_no_period_is_opened_while_the_whole_is_being_frozen(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is looked at in the transaction that opens the period, not before it."""
    own = moves.open_account

    def late(*given: Any, **named: Any) -> Any:
        account.freeze("just now")
        return own(*given, **named)

    monkeypatch.setattr(moves, "open_account", late)
    with pytest.raises(AccountClosed):
        account.during("2026-03")
    assert account.periods() == []


def test_a_period_that_was_frozen_by_itself_stays_frozen(account: Any) -> None:
    march, april = account.during("2026-03"), account.during("2026-04")
    other = sy.open_account(account.location, "spend/None", unit=sy.rows(), epsilon=1)
    march.freeze("an inquiry")
    account.unfreeze("it was not frozen")
    account.freeze("an incident")
    assert other.state == "open"
    account.unfreeze("it is over")
    assert (account.state, march.state, april.state) == ("open", "frozen", "open")
    march.unfreeze()
    account.freeze()
    account.unfreeze()
    assert march.state == "open"
    assert sy.Ledger(account.location).verify().ok


def test_a_question_in_sql_is_one_of_the_period(account: Any) -> None:
    session = sy.Session(sy.read(ROWS, name="t"), account.during("2026-03"))
    asked = session.sql_plan("select country, sum(amount) as s from t where amount > 1 group by country", epsilon="0.1", cap=5, keys=["a", "b"])  # fmt: skip
    found = [row["amount"] for batch in asked.session._table.batches(["amount"]) for row in batch.to_pylist()]
    assert sorted(found) == [2.0, 4.0]
    asked.release()
    assert str(account.during("2026-03").spent) == "epsilon 0.1"
    with pytest.raises(ViewRefused):
        session.sql("select sum(amount) as s from (select user, amount, paid as day from t) as u", epsilon="0.1", cap=5)
    with pytest.raises(ViewRefused):
        session.sql("select sum(amount) as s from (select user, max(amount) as amount, day from t group by user, day) as u", epsilon="0.1", cap=5)  # fmt: skip


def test_a_table_on_paper_says_that_it_knows_no_periods(account: Any) -> None:
    with pytest.raises(TableError, match="on paper"):
        sy.Session(PaperTable({"user": "integer", "day": "date"}, name="t"), account.during("2026-03"))


def three_months(folder: Path) -> Any:
    return sy.open_account(str(folder / "budget.db"), "spend", unit=UNIT, epsilon=1)


def spent(account: Any) -> list[str]:
    return [str(each.spent) for each in account.periods()]


SUM = sy.Sum("amount", epsilon="0.5", cap=10)


def test_a_release_over_several_periods_is_charged_to_each_and_answered_once(tmp_path: Path) -> None:
    account = three_months(tmp_path)
    session = sy.Session(sy.read(ROWS, name="t"), account.during("2026-02", "2026-04"))
    first = session.release(SUM, key="spring")
    again = sy.Session(sy.read(ROWS, name="t"), account.during("2026-02", "2026-04")).release(SUM, key="spring")
    assert first.value == again.value
    assert first.receipt == again.receipt
    assert spent(account) == ["epsilon 0.5"] * 3
    assert "in one month of 2026-02..2026-04 (by 'day')" in str(first)
    ledger = sy.Ledger(account.location)
    answers = [entry.digest for entry in ledger.entries() if entry.kind == "answer"]
    assert (len(answers), len(set(answers)), ledger.pending()) == (3, 1, [])
    assert ledger.verify(receipts=[first.receipt]).ok


def test_where_one_period_cannot_pay_none_is_charged(tmp_path: Path) -> None:
    account = three_months(tmp_path)
    account.during("2026-04").charge(sy.Loss.pure("0.75"), key="k", request=b"")
    several = account.during("2026-02", "2026-04")
    assert (str(several.remaining), str(several.spent)) == ("epsilon 0.25", "epsilon 0.75")
    with pytest.raises(BudgetExceeded) as refusal:
        sy.Session(sy.read(ROWS, name="t"), several).release(SUM)
    assert refusal.value.account == "spend/2026-04"
    assert spent(account) == ["epsilon 0", "epsilon 0", "epsilon 0.75"]
    account.during("2026-03").freeze("an inquiry")
    with pytest.raises(AccountClosed):
        sy.Session(sy.read(ROWS, name="t"), several).release(sy.Count(epsilon="0.1", cap=1))
    assert spent(account) == ["epsilon 0", "epsilon 0", "epsilon 0.75"]
    assert sy.Ledger(account.location).verify().ok


def test_a_share_pays_for_several_periods_along_its_line(tmp_path: Path) -> None:
    three_months(tmp_path)
    ann = sy.open_account(str(tmp_path / "budget.db"), "ann", parent="spend", epsilon="0.75")
    session = sy.Session(sy.read(ROWS, name="t"), ann.during("2026-03", "2026-04"), person="ann")
    session.release(SUM)
    assert spent(ann.parent) == spent(ann) == ["epsilon 0.5"] * 2
    with pytest.raises(BudgetExceeded):
        session.release(SUM)
    made = [entry.person for entry in sy.Ledger(ann.location).entries() if entry.kind == "charge"]
    assert made == ["ann", "ann"]


def test_what_was_reserved_is_answered_later_and_a_death_between_leaves_no_second_answer(tmp_path: Path) -> None:
    account = three_months(tmp_path)
    several = account.during("2026-02", "2026-04")
    sy.Session(sy.read(ROWS, name="t"), several).reserve(SUM, key="k")
    assert len(sy.Ledger(account.location).pending()) == 3
    charge = several.find(key="other", request=b"") or several.charge(sy.Loss.pure("0.1"), key="other", request=b"")
    twin = several.find(key="other", request=b"")
    assert twin is not None
    assert (charge.store(b"one"), twin.store(b"two")) == (b"one", b"one")
    value = sy.Session(sy.read(ROWS, name="t"), several).release(SUM, key="k").value
    assert (
        sy.Session(sy.read(ROWS, name="t"), account.during("2026-02", "2026-04")).release(SUM, key="k").value == value
    )
    assert sy.Ledger(account.location).pending() == []
    assert spent(account) == ["epsilon 0.6"] * 3


def test_a_path_that_is_raised_is_raised_in_every_period_or_in_none(tmp_path: Path) -> None:
    account = three_months(tmp_path)
    charge = account.during("2026-02", "2026-04").charge(sy.Loss.pure("0.1"), key="path", request=b"")
    charge.raise_to(sy.Loss.pure("0.3"))
    assert (str(charge.level), spent(account)) == ("epsilon 0.3", ["epsilon 0.3"] * 3)
    account.during("2026-04").charge(sy.Loss.pure("0.6"), key="k", request=b"")
    with pytest.raises(BudgetExceeded):
        charge.raise_to(sy.Loss.pure("0.5"))
    assert spent(account) == ["epsilon 0.3", "epsilon 0.3", "epsilon 0.9"]


def test_a_key_of_one_period_is_not_one_of_several(tmp_path: Path) -> None:
    account = three_months(tmp_path)
    table = sy.read(ROWS, name="t")
    sy.Session(table, account.during("2026-03")).release(SUM, key="k")
    with pytest.raises(KeyConflict):
        sy.Session(table, account.during("2026-02", "2026-04")).release(SUM, key="k")
    assert spent(account) == ["epsilon 0", "epsilon 0.5", "epsilon 0"]
    account.during("2026-03").charge(sy.Loss.pure("0.1"), key="half", request=b"r")
    with pytest.raises(LedgerError, match="some of the periods"):
        account.during("2026-02", "2026-04").find(key="half", request=b"r")


@pytest.mark.parametrize(("ends", "told"), [
    (("2026-03", "2026-01"), "before"), (("2026-03", "2026-13"), "written like"), (("2010-01", "2026-01"), "at most 100"), (("2026-03", 5), "written like"),
])  # fmt: skip
def test_several_periods_go_from_one_to_a_later_one(account: Any, ends: tuple[Any, Any], told: str) -> None:
    with pytest.raises(InvalidTask, match=told):
        account.during(*ends)
    assert account.periods() == []


def test_one_period_to_itself_is_that_period(account: Any) -> None:
    assert account.during("2026-03", "2026-03") == account.during("2026-03")
    assert UNIT.during("2025-11", "2026-02").periods == ["2025-11", "2025-12", "2026-01", "2026-02"]
    assert UNIT.during("0998-12", "0999-02").periods == ["0998-12", "0999-01", "0999-02"], "years have four digits"
    days = sy.users("user", per="day", time="day").during("2024-02-28", "2024-03-01")
    assert days.periods == ["2024-02-28", "2024-02-29", "2024-03-01"]
    with pytest.raises(InvalidTask, match="no account of their own"):
        sy.open_account(account.location, "other", unit=UNIT.during("2026-01", "2026-03"), epsilon=1)


def test_several_periods_take_the_views_that_one_takes(account: Any) -> None:
    table, several = sy.read(ROWS, name="t"), account.during("2026-03", "2026-04")
    session = sy.Session(table.where("amount > 1").derive(double="amount * 2"), several)
    found = [row["double"] for batch in session._table.batches(["double"]) for row in batch.to_pylist()]
    assert sorted(found) == [4.0, 8.0, 16.0]
    assert session.up_to("0.1").account.terms.unit == session.account.terms.unit
    for number in range(len(refused_views(table))):
        with pytest.raises((ViewRefused, ColumnMissing)):
            sy.Session(refused_views(table)[number](), several)
    for refused in (
        lambda: session.sql("select sum(amount) as s from t", epsilon="0.1", cap=5),
        lambda: session.over(table),
    ):
        with pytest.raises(ViewRefused, match="of one table"):
            refused()
    with pytest.raises(TableError, match="makes for itself"):
        sy.Session(sy.read(ROWS.append_column("User by Month", ROWS["user"])), several)
    assert spent(account) == ["epsilon 0", "epsilon 0"]


def test_a_charge_by_hand_of_one_period_is_never_part_of_one_of_several(tmp_path: Path) -> None:
    account = three_months(tmp_path)
    several, loss = account.during("2026-02", "2026-04"), sy.Loss.pure("0.1")
    alone = account.during("2026-03").charge(loss, key="k", request=b"r")
    with pytest.raises(LedgerError, match="some of the periods"):
        several.charge(loss, key="k", request=b"r")
    alone.store(b"of March alone")
    with pytest.raises(LedgerError, match="some of the periods"):
        several.charge(loss, key="k", request=b"r")
    assert spent(account) == ["epsilon 0", "epsilon 0.1", "epsilon 0"]


def test_an_answer_of_one_period_is_never_that_of_several(tmp_path: Path) -> None:
    account = three_months(tmp_path)
    several, loss = account.during("2026-02", "2026-04"), sy.Loss.pure("0.1")
    alone = [account.during(month).charge(loss, key="k", request=b"r") for month in ("2026-02", "2026-03", "2026-04")]
    joint = several.charge(loss, key="k", request=b"r")  # in all of them, and in none with an answer
    alone[1].store(b"of March alone")
    with pytest.raises(LedgerError, match="answer in some of the periods"):
        joint.store(b"of all three")  # the charge of March has paid for one answer
    assert [each.answers for each in (several.accounts[0].find(key="k", request=b"r"),) if each] == [{}]
    for ask in (several.find, lambda **asked: several.charge(loss, **asked)):
        with pytest.raises(LedgerError, match="answer in some of the periods"):
            ask(key="k", request=b"r")
    for each in alone:
        each.store(b"of March alone")
    found = several.find(key="k", request=b"r")
    assert found is not None
    assert found.store(b"of all three") == b"of March alone"
    assert spent(account) == ["epsilon 0.1"] * 3


@pytest.mark.parametrize("meanwhile", ["charge", "store"])
def test_a_find_looks_at_all_periods_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Whoever charges or stores between two looks made the key seem to be that of some of the periods, and not of others."""
    several, loss = three_months(tmp_path).during("2026-02", "2026-04"), sy.Loss.pure("0.1")
    charge = several.charge(loss, key="k", request=b"r") if meanwhile == "store" else None
    read = Store.read

    def interleaved(self: Store, work: Any) -> Any:
        found = read(self, work)
        monkeypatch.undo()
        (charge or several.charge(loss, key="k", request=b"r")).store(b"x")
        return found

    monkeypatch.setattr(Store, "read", interleaved)
    found = several.find(key="k", request=b"r")
    assert found is None if charge is None else found is not None and found.answers == {}
    later = several.find(key="k", request=b"r")
    assert later is not None
    assert later.answer == b"x"
