"""A group of moves in one transaction does what the same moves do one after another: to balances, to the chain, and to every caller.

The twins below each break one half of that, and the comparison must find them. Where what a transaction remembers is broken, the database's own
conditions refuse the group, and its moves run again one by one: every caller still gets what is due.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import BudgetExceeded, LedgerTampered, OurBug, SteelyardError
from steelyard.ledger import Ledger, open_account
from steelyard.ledger import _acts as acts
from steelyard.ledger import _moves as moves
from steelyard.ledger import _writer as writer
from steelyard.ledger._sqlite import SqliteConnection
from steelyard.ledger._store import Store, open_store
from steelyard.ledger._transaction import Foreseen, Transaction
from steelyard.privacy import Loss, rows

Works = list[Callable[[Transaction], Any]]
LINES = {"root": ("root",), "root/a": ("root/a", "root"), "root/b": ("root/b", "root"), "other": ("other",)}


def accounts(location: str) -> Store:
    """Two roots, one of them with two accounts below it; entries 6 and 7 are charges."""
    open_account(location, "root", unit=rows(), epsilon="1")
    open_account(location, "root/a", parent="root", epsilon="0.5")
    open_account(location, "root/b", parent="root", epsilon="0.9")
    open_account(location, "other", unit=rows(), epsilon="0.3")
    store = open_store(location)
    for name in ("root/a", "other"):
        made = charging(name, "made", 1, b"made")
        store.write(made)
    return store


def charging(name: str, key: str, hundredths: int, request: bytes) -> Foreseen[Any]:
    """A charge of so many hundredths of epsilon."""
    ask = moves.Ask(key, moves.bound_to(request, ""), person="ann", asked='{"task":"€"}')
    return moves.charge(LINES[name], ask, Loss.pure(f"0.{hundredths:02d}"))


def history(seed: int) -> Works:
    """Moves of all kinds that meet: few keys, few accounts, amounts that come to the caps."""
    draw = random.Random(seed)

    def one() -> Callable[[Transaction], Any]:
        name = draw.choice(list(LINES))
        kind = draw.choice(["charge"] * 6 + ["store"] * 3 + ["raise", "freeze", "unfreeze", "note"])
        if kind == "charge":
            return charging(
                name, f"k{draw.randrange(9)}", draw.choice([1, 5, 5, 12, 40]), draw.choice([b"x", b"x", b"y"])
            )
        if kind == "store":
            return moves.store("root/a", 6, draw.randrange(3), draw.choice([b"\x00one", b"two"]))
        if kind == "raise":
            return moves.raise_level(LINES["root/a"], 6, Loss.pure(f"0.{draw.randrange(1, 60):02d}"))
        if kind == "note":
            return acts.note(f"n{draw.randrange(3)}", name, "said", "ann", draw.choice(["a text", "another"]))
        return acts.act(draw.choice(["root/b", "other"]), kind, "ann", "")

    return [one() for _ in range(40)]


def crowd() -> Works:
    """Charges that come to the caps, some of them asked twice; and an account that is frozen among them."""
    charges: Works = [charging(name, f"k{i // 2}", 7, b"x") for i in range(16) for name in LINES]
    return [*charges[:20], acts.act("root/b", "freeze", "ann", ""), *charges[20:]]


def outcome(move: writer._Move) -> Any:
    """What a caller gets: what the move returned, without the time and the key of the chain, or the words of the refusal."""
    if move.error is not None:
        return type(move.error).__name__, str(move.error)
    made = move.result
    return (made.sequence, made.level, made.answers) if hasattr(made, "level") else made


def run(store: Store, groups: list[Works]) -> tuple[list[Any], list[Any], int]:
    """The outcome of every move, the entries without their times and hashes, and how often the writer began."""
    begun, told = 0, []
    store.writer.pause()
    try:
        attempt = store.writer._attempt

        def counting(group: list[writer._Move]) -> None:
            nonlocal begun
            begun += 1
            attempt(group)

        store.writer._attempt = counting  # type: ignore[method-assign]
        for works in groups:
            group = [writer._Move(work, reading=False) for work in works]
            store.writer._run(group)
            told += [outcome(move) for move in group]
        del store.writer._attempt
        store.writer._close()
    finally:
        store.writer.resume()
    ledger = Ledger(store.address.text)
    report = ledger.verify()
    assert report.ok, report.findings
    found = [(each.sequence, each.kind, *each[2:11], each.person, each.asked) for each in ledger.entries()]
    return told, found[1:], begun


@pytest.fixture
def apart(tmp_path: Path) -> Callable[[int], tuple[list[Any], list[Any], int]]:
    """The same history, each move a group of its own, on a ledger in a file."""
    return lambda seed: run(accounts(str(tmp_path / f"apart-{seed}.db")), [[each] for each in history(seed)])


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_a_group_is_the_same_as_its_moves_one_after_another(place: str, apart: Any) -> None:
    told, entries, begun = run(accounts(place), [history(1)])
    assert begun == 1
    assert (told, entries) == apart(1)[:2]
    kinds = {each[0] for each in told if isinstance(each, tuple) and isinstance(each[0], str)}
    assert {"BudgetExceeded", "KeyConflict", "AccountClosed"} <= kinds


@pytest.mark.parametrize("seed", range(2, 12))
def test_whatever_the_history(tmp_path: Path, apart: Any, seed: int) -> None:
    works = history(seed)
    groups = [works[:1], works[1:8], works[8:]]
    assert run(accounts(str(tmp_path / "b.db")), groups)[:2] == apart(seed)[:2]


def unfairly(self: writer.Writer, group: list[writer._Move]) -> None:
    """A twin that serves the group from its end."""
    together(self, group[::-1])


def all_or_none(move: writer._Move, transaction: Transaction) -> None:
    """A twin in which one caller's refusal fails the group."""
    move.result = move.work(transaction)


def only_the_chain(self: Transaction, line: Any, amount: int, delta: int) -> None:
    """A twin that writes charges and moves no balance."""
    self.changes += 1


together = writer.Writer._together
TWINS = [
    (writer.Writer, "_together", unfairly),
    (writer, "_perform", all_or_none),
    (Transaction, "spend", only_the_chain),
]


@pytest.mark.parametrize(("owner", "name", "twin"), TWINS, ids=[twin.__name__ for _, _, twin in TWINS])
def test_a_twin_is_found(tmp_path: Path, apart: Any, owner: Any, name: str, twin: Any) -> None:
    expected = apart(1)[:2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, twin)
        try:
            found = run(accounts(str(tmp_path / "b.db")), [history(1)])[:2]
        except (AssertionError, SteelyardError):
            return
    assert found != expected


def forgets_what_was_paid(self: Transaction, line: Any, amount: int, delta: int) -> None:
    """Judges every charge of a group by the balance that the group found."""
    before = dict(self._stands)
    spend(self, line, amount, delta)
    self._stands.update(before)


def forgets_what_was_named(self: Transaction, account: str, key: str) -> Any:
    """Takes a key that an earlier move of the group charged for a new one."""
    found = named(self, account, key)
    return None if found is not None and found in self._entries else found


def remembers_too_much(self: Transaction) -> None:
    """Holds on to what was read before another move froze the account."""
    if not hasattr(self, "_named"):
        forget(self)


spend, named, forget = Transaction.spend, Transaction.named, Transaction._forget


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize(
    ("name", "twin"),
    [("spend", forgets_what_was_paid), ("named", forgets_what_was_named), ("_forget", remembers_too_much)],
)
def test_what_a_transaction_remembers_is_not_what_keeps_the_budget(
    place: str, tmp_path: Path, name: str, twin: Any
) -> None:
    expected = run(accounts(str(tmp_path / "apart.db")), [[each] for each in crowd()])[:2]
    store = accounts(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, name, twin)
        told, entries, begun = run(store, [crowd()])
    assert begun > 1  # the database refused the group
    assert (told, entries) == expected


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_what_the_database_cannot_keep_fails_its_own_caller_alone(place: str) -> None:
    store = accounts(place)
    bad = charging("other", "half a character \ud800", 1, b"x")
    told, _, begun = run(store, [[charging("root", "k", 1, b"x"), bad, charging("root", "l", 2, b"x")]])
    assert begun == 4
    assert told[0][1:] == (Loss.pure("0.01"), {})
    assert told[2][1:] == (Loss.pure("0.02"), {})
    assert told[1][0] in ("OurBug", "LedgerError")


def test_a_balance_that_another_hand_moved_meanwhile_is_refused(tmp_path: Path) -> None:
    store = accounts(str(tmp_path / "b.db"))

    def meddling(transaction: Transaction) -> None:
        transaction.stands("other")
        transaction.connection.execute("UPDATE balances SET spent = cap WHERE account = 'other'")
        charging("other", "k", 5, b"x")(transaction)

    with pytest.raises(LedgerTampered, match="did not move"):
        store.write(meddling)
    with pytest.raises(BudgetExceeded):
        store.write(charging("other", "k", 50, b"x"))
    store.write(charging("other", "k", 5, b"x"))


def test_keys_are_looked_up_by_an_index(tmp_path: Path) -> None:
    store, asked = accounts(str(tmp_path / "b.db")), list[tuple[str, Any]]()
    connection = store.connect()
    assert isinstance(connection, SqliteConnection)
    read, transaction = connection.rows, Transaction(connection, store.identity)

    def noting(statement: str, values: Any = ()) -> Any:
        asked.append((statement, values))
        return read(statement, values)

    connection.rows = noting  # type: ignore[method-assign]
    transaction.expect([*(charging("other", f"q{i}", 1, b"") for i in range(75)), moves.store("other", 7, 1, b"x")])
    plans = [str(row[3]) for text, values in asked for row in read(f"EXPLAIN QUERY PLAN {text}", values)]
    connection.close()
    assert sum(plan.startswith("SEARCH") for plan in plans) == len(asked) > 6
    assert not any(plan.startswith(f"SCAN {table}") for plan in plans for table in ("entries", "balances", "answers"))


def test_a_move_that_only_reads_changes_nothing(tmp_path: Path) -> None:
    store = accounts(str(tmp_path / "b.db"))
    with pytest.raises(OurBug, match="only reads"):
        store.read(charging("other", "k", 5, b"x"))
