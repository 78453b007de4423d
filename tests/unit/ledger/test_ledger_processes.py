"""Threads, forks and fresh processes on one ledger: nothing is shared that must not be, and nobody waits for ever."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import BudgetExceeded, LedgerError, LedgerLocked, LedgerTampered, OurBug
from steelyard.ledger import Account, Ledger, open_account
from steelyard.ledger import _account as account_module
from steelyard.ledger import _connection as connection
from steelyard.ledger import _readers as readers_module
from steelyard.ledger import _writer as writer
from steelyard.ledger._sqlite import SqliteConnection
from steelyard.ledger._store import open_store
from steelyard.ledger._transaction import Transaction
from steelyard.privacy import Loss, rows


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return open_account(tmp_path / "budget.db", "a", unit=rows(), epsilon="1")


def charge(account: Account, key: str) -> int:
    return account.charge(Loss.pure("0.01"), key=key, request=b"").sequence


def in_a_fork(work: Any) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except LedgerError:
            os._exit(4)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_opens_the_ledger_anew(account: Account) -> None:
    charge(account, "before")
    assert in_a_fork(lambda: charge(account, "child")) == 0
    charge(account, "after")
    assert account.spent == Loss.pure("0.03")
    assert Ledger(account.location).verify().ok


def test_a_fork_in_the_middle_of_other_threads_charges_loses_nothing(account: Account) -> None:
    threads = [
        threading.Thread(target=lambda name=name: [charge(account, f"{name}-{number}") for number in range(10)])
        for name in range(4)
    ]
    for thread in threads:
        thread.start()
    codes = [in_a_fork(lambda name=name: charge(account, f"child-{name}")) for name in range(3)]
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]
    assert account.spent == Loss.pure("0.43")
    assert Ledger(account.location).verify().ok


def test_a_fork_while_another_thread_first_touches_an_account_does_not_hang_the_child(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, forked = threading.Event(), threading.Event()
    shared = Account(account.location, "a")

    def slow(store: Any, name: str) -> Any:
        inside.set()
        forked.wait(10)
        return terms_on_ledger(store, name)

    terms_on_ledger = account_module._terms_on_ledger
    monkeypatch.setattr(account_module, "_terms_on_ledger", slow)
    thread = threading.Thread(target=lambda: shared.terms)
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        forked.set()
        signal.alarm(10)
        os._exit(0 if shared.terms == Account(account.location, "a").terms else 1)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_only_the_owner_may_read_the_files_of_a_ledger(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        account = open_account(tmp_path / "budget.db", "a", unit=rows(), epsilon="1")
        with open_store(account.location).lock("name") as lock:
            lock.mark(1)
        charge(account, "k")
        modes = {file.name.replace("budget", ""): oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {".db", ".db-wal", ".db-shm", ".db.key", ".db.anchor"} < set(modes)
    assert set(modes.values()) == {"0o600"}


def test_no_connection_and_no_thread_crosses_a_fork(account: Account) -> None:
    charge(account, "k")
    store = open_store(account.location)
    seen: list[object] = []
    store.writer.pause()
    seen = [store.writer._connection, store.writer._thread]
    store.writer.resume()
    assert seen == [None, None]


def test_a_pickled_handle_works_in_a_fresh_process(account: Account) -> None:
    charge(account, "k")
    code = (
        "import pickle, sys; from steelyard.privacy import Loss;"
        f"account = pickle.loads({pickle.dumps(account)!r});"
        "print(account.charge(Loss.pure('0.5'), key='there', request=b'').sequence, account.spent)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "4 epsilon 0.51"
    assert account.spent == Loss.pure("0.51")


def test_an_in_memory_ledger_says_that_it_lives_in_one_process() -> None:
    account = open_account(":memory:", "a", unit=rows(), epsilon="1")
    assert in_a_fork(lambda: charge(account, "k")) == 4
    code = f"import pickle; pickle.loads({pickle.dumps(account)!r}).spent"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "lives and dies with the process" in done.stderr


def test_each_memory_ledger_is_its_own() -> None:
    one, two = (open_account(":memory:", "a", unit=rows(), epsilon="1") for _ in range(2))
    charge(one, "k")
    assert (one.location != two.location, str(two.spent)) == (True, "epsilon 0")


def test_a_locked_ledger_says_so_and_charges_nothing(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAIT", 0.2)
    holder = SqliteConnection(account.location, "here", create=False)
    holder.begin()
    with pytest.raises(LedgerLocked, match=r"locked by another process for 0\.2 seconds; nothing was charged"):
        charge(account, "k")
    holder.rollback()
    holder.close()
    charge(account, "k")
    assert account.spent == Loss.pure("0.01")


def test_a_find_waits_for_no_writer_and_takes_no_write_lock(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAIT", 0.2)
    made = charge(account, "k")
    holder = SqliteConnection(account.location, "here", create=False)
    holder.begin()
    found = account.find(key="k", request=b"")
    assert (found is not None and found.sequence, account.find(key="l", request=b"")) == (made, None)
    with pytest.raises(LedgerLocked):
        charge(account, "l")
    holder.rollback()
    inside, gate = threading.Event(), threading.Event()

    def look(_: Transaction) -> None:
        inside.set()
        gate.wait(60)

    looking = threading.Thread(target=open_store(account.location).read, args=(look,))
    looking.start()
    assert inside.wait(60)
    holder.begin()  # while a find is under way, another process writes
    holder.rollback()
    gate.set()
    looking.join()
    holder.close()


def test_a_move_that_only_reads_changes_nothing(account: Account) -> None:
    store = open_store(account.location)
    with pytest.raises(OurBug, match="only reads"):
        store.read(lambda transaction: transaction.append("charge", account="a", name="ghost"))
    with pytest.raises(OurBug, match="only reads"):
        store.read(lambda transaction: transaction.execute("UPDATE balances SET spent = 0"))
    assert charge(account, "k") == 3
    assert Ledger(account.location).verify().ok


def test_a_refused_move_leaves_the_others_of_its_group_alone(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the writer back until all wait, so that one group has good, refused and broken moves in it."""
    store, groups = open_store(account.location), list[int]()
    assert account.terms  # read once; the moves below are then of one group
    run = writer.Writer._run

    def noting(self: writer.Writer, group: list[writer._Move]) -> None:
        groups.append(len(group))
        run(self, group)

    monkeypatch.setattr(writer.Writer, "_run", noting)
    inside, gate = threading.Event(), threading.Event()
    outcomes: dict[str, object] = {}

    def attempt(key: str, epsilon: str) -> None:
        try:
            outcomes[key] = account.charge(Loss.pure(epsilon), key=key, request=b"").level
        except BudgetExceeded as error:
            outcomes[key] = error.remaining

    def broken(transaction: Transaction) -> None:
        transaction.append("charge", account="a", name="ghost")
        raise ZeroDivisionError

    def bug() -> None:
        with pytest.raises(OurBug, match="ZeroDivisionError"):
            store.write(broken)

    def first(_: Transaction) -> None:
        inside.set()
        gate.wait()

    crew = [threading.Thread(target=store.write, args=(first,))]
    crew[0].start()
    assert inside.wait(60)  # its group is gathered; whoever comes now waits for the next one
    crew += [threading.Thread(target=attempt, args=(f"k{number}", "0.3")) for number in range(5)]
    crew.append(threading.Thread(target=bug))
    for thread in crew[1:]:
        thread.start()
    late = time.monotonic() + 60
    while store.writer._queue.qsize() < 6 and time.monotonic() < late:
        time.sleep(0.001)
    gate.set()
    for thread in crew:
        thread.join()
    assert max(groups) >= 6
    assert sorted(map(str, outcomes.values())) == ["epsilon 0.1"] * 2 + ["epsilon 0.3"] * 3
    assert account.spent == Loss.pure("0.9")
    assert Ledger(account.location).verify().ok


def test_the_writer_goes_away_when_idle_and_comes_back(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "IDLE", 0.05)
    store = open_store(account.location)
    charge(account, "a")
    thread = store.writer._thread
    if thread is not None:
        thread.join(10)
    assert store.writer._connection is None
    charge(account, "b")
    assert account.spent == Loss.pure("0.02")


def test_an_interrupt_while_the_writer_starts_leaves_no_second_one_at_work(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(account.location).writer.pause()
    open_store(account.location).writer.resume()
    ran, start, run = set[int](), threading.Thread.start, writer.Writer._run

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "steelyard-ledger":
            monkeypatch.setattr(threading.Thread, "start", start)
            raise KeyboardInterrupt

    def noted(self: writer.Writer, group: list[Any]) -> None:
        ran.add(threading.get_ident())
        time.sleep(0.001)
        run(self, group)

    monkeypatch.setattr(writer.Writer, "_run", noted)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        charge(account, "interrupted")
    crew = [threading.Thread(target=charge, args=(account, f"k{number}")) for number in range(20)]
    for thread in crew:
        thread.start()
        time.sleep(0.002)
    for thread in crew:
        thread.join()
    assert len(ran) == 1
    assert account.spent == Loss.pure("0.2")
    assert Ledger(account.location).verify().ok


def test_an_interrupt_while_the_writer_ends_leaves_nobody_waiting(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge(account, "a")
    store = open_store(account.location)

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.writer.pause()
    store.writer.resume()
    late = threading.Thread(target=charge, args=(account, "b"), daemon=True)
    late.start()
    late.join(20)
    assert not late.is_alive()
    assert account.spent == Loss.pure("0.02")


def test_a_file_replaced_under_an_open_handle_is_noticed(account: Account) -> None:
    charge(account, "k")
    path = Path(account.location)
    path.rename(path.with_suffix(".moved"))
    with pytest.raises(LedgerTampered, match="removed or replaced while it was in use"):
        charge(account, "l")


def test_a_file_in_the_place_of_the_ledger_is_not_opened_and_no_connection_to_it_is_kept(account: Account) -> None:
    charge(account, "k")
    store, path = account._store, Path(account.location)
    for idle in (True, False):
        if idle:  # the writer has let go of its connection
            store.pause()
            store.resume()
        path.rename(path.with_suffix(".moved"))
        path.with_suffix(".other").write_bytes(path.with_suffix(".moved").read_bytes())
        path.with_suffix(".other").rename(path)
        opened = len(list(path.parent.glob(f"{path.name}-*")))
        with pytest.raises(LedgerTampered, match="removed or replaced while it was in use"):
            charge(account, "l")
        assert store.writer._connection is None
        assert len(list(path.parent.glob(f"{path.name}-*"))) <= opened
        path.unlink()
        with pytest.raises(LedgerTampered, match="removed or replaced while it was in use"):
            charge(account, "l")
        path.with_suffix(".moved").rename(path)
        charge(account, f"after {idle}")
    assert Ledger(path).verify().ok


def test_reads_wait_for_no_write_and_share_a_few_connections(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader is served while the writer sits in the middle of a transaction; many readers open no connection each."""
    store, opened = account._store, []
    connect = store.readers._connect

    def counted() -> Any:
        opened.append(1)
        return connect()

    monkeypatch.setattr(store.readers, "_connect", counted)
    inside, gate = threading.Event(), threading.Event()

    def slowly(_: Transaction) -> None:
        inside.set()
        gate.wait(60)

    writing = threading.Thread(target=store.write, args=(slowly,))
    writing.start()
    assert inside.wait(60)
    for _ in range(20):
        assert str(account.remaining) == "epsilon 1"
        assert account.find(key="k", request=b"") is None
    gate.set()
    writing.join()
    readers = [threading.Thread(target=lambda: [account.remaining for _ in range(50)]) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(opened) <= 4


def test_reading_connections_are_closed_when_idle_and_before_a_fork(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers_module, "IDLE", 0.05)
    store = account._store
    assert str(account.remaining) == "epsilon 1"
    late = time.monotonic() + 20
    while (store.readers._idle or store.readers._sweeper) and time.monotonic() < late:
        time.sleep(0.01)
    assert store.readers._idle == []
    monkeypatch.setattr(readers_module, "IDLE", 60)
    assert str(account.remaining) == "epsilon 1"
    (held,) = [connection for _, connection in store.readers._idle]
    assert in_a_fork(lambda: (store.readers._idle == [] or os._exit(9), charge(account, "child"))) == 0
    assert isinstance(held, SqliteConnection)
    with pytest.raises(LedgerError):
        held.one("SELECT 1")


def test_reads_under_way_while_others_write_raise_no_alarm(account: Account) -> None:
    """The anchor moves between what a reader remembers and what it reads; that is no older anchor put back."""
    stop, broken = threading.Event(), []

    def look() -> None:
        try:
            while not stop.is_set():
                account.find(key="none", request=b"")
        except Exception as error:  # whatever it is, the test must hear of it
            broken.append(error)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    for number in range(100):
        charge(account, f"k{number}")
    stop.set()
    for looker in lookers:
        looker.join()
    assert broken == []
