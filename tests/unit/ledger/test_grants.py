"""Roles on a real PostgreSQL server: who may spend opens no account and edits nothing; who may read only reads."""

from __future__ import annotations

import secrets
from pathlib import Path

import psycopg
import pytest

import postgres
from steelyard.cli import main
from steelyard.errors import InvalidTask, LedgerError, LedgerTampered
from steelyard.ledger import Account, Ledger, grant, open_account
from steelyard.ledger import _store as store
from steelyard.privacy import Loss, rows


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    url = postgres.new_database()
    open_account(url, "spend", unit=rows(), epsilon=1)
    open_account(url, "ann", parent="spend", epsilon="0.5")
    return url


def as_role(url: str, may: str | None) -> str:
    """The same ledger for a person with a login of her own, who was granted a role."""
    person, role = f"p{secrets.token_hex(4)}", f"role {secrets.token_hex(4)}"
    with psycopg.connect(postgres.server(), autocommit=True) as link:
        link.execute(f"CREATE ROLE {person} LOGIN")
        if may is not None:
            grant(url, role, may)
            link.execute(f'GRANT "{role}" TO {person}')
    return url.replace("postgresql://postgres:@", f"postgresql://{person}@")


def test_who_may_spend_charges_raises_stores_and_reads(place: str) -> None:
    hers = as_role(place, "spend")
    ann = Account(hers, "ann")
    made = ann.charge(Loss.pure("0.1"), key="k", request=b"sum")
    made.raise_to(Loss.pure("0.2"))
    assert made.store(b"41") == b"41"
    assert str(Account(place, "spend").spent) == "epsilon 0.2"
    assert open_account(hers, "ann", parent="spend", epsilon="0.5") == ann, "an account that exists is opened again"
    ann.note("a word")
    assert Ledger(hers).verify().ok
    with Ledger(hers).lock("a lock"):
        pass


def test_who_may_spend_opens_no_account_and_changes_no_state(place: str) -> None:
    hers = as_role(place, "spend")
    for act in (
        lambda: open_account(hers, "mine", unit=rows(), epsilon=1000),
        lambda: open_account(hers, "more", parent="spend", epsilon="0.9"),
        lambda: Account(hers, "ann").freeze(),
        lambda: Account(hers, "spend").close(),
    ):
        with pytest.raises(LedgerError, match="--may keep"):
            act()
    assert [each.name for each in Ledger(place).accounts()] == ["ann", "spend"]
    assert Account(place, "ann").state == "open"
    Account(hers, "ann").charge(Loss.pure("0.1"), key="after a refusal", request=b"")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE steelyard.balances SET cap = cap * 2",
        "UPDATE steelyard.balances SET state = 'open'",
        "UPDATE steelyard.balances SET parent = ''",
        "UPDATE steelyard.entries SET amount = 0",
        "UPDATE steelyard.accounts SET terms = ''",
        "UPDATE steelyard.answers SET payload = ''",
        "UPDATE steelyard.meta SET value = ''",
        "DELETE FROM steelyard.entries",
        "DELETE FROM steelyard.answers",
        "TRUNCATE steelyard.entries",
        "INSERT INTO steelyard.balances VALUES ('mine', '', 'open', 0, 0, 9, 0)",
        "INSERT INTO steelyard.accounts VALUES ('mine', '', 9)",
        "CREATE TABLE steelyard.mine (x int)",
        "DROP TABLE steelyard.entries",
    ],
)
def test_the_database_itself_refuses_a_spender(place: str, statement: str) -> None:
    hers = as_role(place, "spend")
    with psycopg.connect(hers, autocommit=True) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute(statement)


def test_a_balance_that_a_spender_sets_back_by_hand_is_found(place: str) -> None:
    hers = as_role(place, "spend")
    Account(hers, "ann").charge(Loss.pure("0.5"), key="k", request=b"")
    with psycopg.connect(hers, autocommit=True) as link:
        link.execute("UPDATE steelyard.balances SET spent = 0")
    assert not Ledger(place).verify().ok


def test_who_keeps_the_ledger_opens_and_freezes_and_raises_no_cap(place: str) -> None:
    theirs = as_role(place, "keep")
    open_account(theirs, "bob", parent="spend", epsilon="0.5").freeze("not yet")
    Account(theirs, "bob").unfreeze()
    Account(theirs, "bob").charge(Loss.pure("0.1"), key="k", request=b"")
    with psycopg.connect(theirs, autocommit=True) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute("UPDATE steelyard.balances SET cap = cap * 2")
    assert Ledger(place).verify().ok


def test_who_may_read_reads_and_verifies_and_charges_nothing(place: str) -> None:
    hers = as_role(place, "read")
    assert (str(Account(hers, "ann").remaining), Ledger(hers).verify().ok) == ("epsilon 0.5", True)
    with pytest.raises(LedgerError, match="may not do this"):
        Account(hers, "ann").charge(Loss.pure("0.1"), key="k", request=b"")


def test_a_role_without_a_grant_is_told_which_one(place: str) -> None:
    hers = as_role(place, None)
    with pytest.raises(LedgerError, match=r"steelyard ledger grant URL p\w+ --may spend") as refusal:
        _ = Account(hers, "ann").spent
    assert type(refusal.value) is LedgerError


def test_a_grant_takes_back_what_was_granted_before_and_is_noted(place: str) -> None:
    role = f"r{secrets.token_hex(4)}"
    grant(place, role, "keep")
    assert main(["ledger", "grant", place, role, "--may", "read"]) == 0
    with psycopg.connect(postgres.server(), autocommit=True) as link:
        (may,) = link.execute("SELECT has_table_privilege(%s, 'steelyard.entries', 'INSERT')", (role,)).fetchone() or ()
    assert may is False
    assert [(note.name, note.detail) for note in Ledger(place).notes()] == [
        ("grant", f"the role '{role}' may keep"), ("grant", f"the role '{role}' may read")
    ]  # fmt: skip
    with pytest.raises(LedgerError, match="owns the ledger's tables"):
        grant(place, "postgres")
    for where, name, may in ((place, role, "all"), (place, "", "spend"), ("budget.db", role, "spend")):
        with pytest.raises(InvalidTask):
            grant(where, name, may)


def test_the_first_use_on_a_new_machine_is_a_sentence_and_no_alarm(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = (tmp_path / "home").glob("*.key")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / key.name).write_bytes(key.read_bytes())
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "new"))
    store._witnesses.clear()
    hers = f"{place}&connect_timeout=9"  # another address, as another machine writes it
    with pytest.raises(LedgerError, match=r"has not used .* yet.*steelyard ledger accept") as refusal:
        _ = Account(hers, "ann").spent
    assert not isinstance(refusal.value, LedgerTampered)
    assert main(["ledger", "accept", hers]) == 0
    Account(hers, "ann").charge(Loss.pure("0.1"), key="k", request=b"")
    for anchor in (tmp_path / "new").glob("*.anchor"):
        anchor.unlink()
    with pytest.raises(LedgerTampered, match="anchor is missing"):
        Account(hers, "ann").charge(Loss.pure("0.1"), key="l", request=b"")
