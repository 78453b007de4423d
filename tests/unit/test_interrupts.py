"""An interrupt is no answer; a panic is no more than a failure; neither tells a word of what it broke into."""

from __future__ import annotations

import gc
import random
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow
import pyarrow.parquet
import pytest

from steelyard import desk, interrupts
from steelyard.bounding import Sum
from steelyard.errors import OurBug, TableError
from steelyard.interrupts import attempt
from steelyard.ledger import Account, Ledger, open_account
from steelyard.privacy import Loss, users
from steelyard.session import Session
from steelyard.tables import Table, numbers_of, read

TASK = Sum("x", epsilon="0.01", cap=5)


ASKED = "Invalid Input Error: reading the schema of the object registered as 'steelyard_source'"
OFFERED = "Invalid Input Error: offering a filter to the source registered as 'my rows'"


class Panic(BaseException):
    """What some engines raise, which is no Exception."""


def raises(error: BaseException) -> Callable[..., Any]:
    def work(*_: object, **__: object) -> Any:
        raise error

    return work


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return open_account(tmp_path / "b.db", "a", unit=users("u"), epsilon=3)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("row 17"),
        MemoryError("row 17"),
        Panic("row 17"),
        RuntimeError("row 17"),
        duckdb.InvalidInputException(f"{ASKED} failed: ValueError: KeyboardInterrupt: "),
        duckdb.InvalidInputException(f"Invalid Input Error: row 17 is {ASKED} failed: KeyboardInterrupt: "),
        duckdb.ConversionException(f"{ASKED} failed: KeyboardInterrupt: "),
    ],
)
def test_whatever_fails_fails_without_a_word(error: BaseException) -> None:
    assert attempt(raises(error)) is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyboardInterrupt("row 17"), KeyboardInterrupt),
        (SystemExit("row 17"), SystemExit),
        (RuntimeError("Query interrupted"), KeyboardInterrupt),
        (duckdb.InvalidInputException(f"{OFFERED} failed: KeyboardInterrupt: "), KeyboardInterrupt),
        *(
            (duckdb.InvalidInputException(f"{ASKED} failed: {kind.__name__}: "), kind)
            for kind in (KeyboardInterrupt, SystemExit)
        ),
    ],
)
def test_an_interrupt_is_raised_bare(error: BaseException, kind: type[BaseException]) -> None:
    with pytest.raises(kind) as raised:
        attempt(raises(error))
    assert "row 17" not in str(raised.value)
    assert raised.value is not error
    assert raised.value.__context__ is None


def test_what_an_interrupted_caller_held_is_let_go_of_at_once() -> None:
    class Rows:
        """Rows that somebody holds, within and without the attempt."""

    def ask() -> None:
        rows = Rows()
        held.append(weakref.ref(rows))
        attempt(lambda: interrupted(rows))

    def interrupted(rows: Rows) -> None:
        raise KeyboardInterrupt(rows)

    held: list[weakref.ref[Rows]] = []
    enabled = gc.isenabled()
    gc.disable()
    try:
        with suppress(KeyboardInterrupt):
            ask()
        with suppress(KeyboardInterrupt):
            attempt(ask)
        assert [each() for each in held] == [None, None]
    finally:
        if enabled:
            gc.enable()


def test_an_interrupt_that_an_engine_wraps_is_one() -> None:
    wrapped = ValueError()
    wrapped.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        attempt(raises(wrapped))


def test_a_failure_while_the_caller_deals_with_an_interrupt_is_a_failure() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert attempt(raises(ValueError())) is None


def test_a_panic_is_stored_as_a_failure_with_the_same_text(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(read({"u": [1], "x": [1.0]}), account)
    monkeypatch.setattr(Table, "capped_totals", raises(Panic("row 17")))
    for _ in range(2):
        with pytest.raises(TableError) as failure:
            session.release(TASK, key="k")
        assert (str(failure.value), failure.value.__context__) == (desk.FAILED, None)
        monkeypatch.undo()  # the failure is for good


def test_a_panic_inside_a_lazy_frame_is_a_failure_of_the_engine() -> None:
    with pytest.warns():
        table = read(_Panicking())
    with pytest.raises(TableError) as failure:
        table.count_units(users("u"))
    assert "row 17" not in str(failure.value)
    assert failure.value.__context__ is None


class _Panicking:
    """A lazy frame of which only the schema can be had."""

    __module__ = "polars"
    columns = ("u", "x")

    def collect_schema(self) -> Any:
        return None

    def clear(self) -> Any:
        return polars.LazyFrame(schema={"u": polars.Int64, "x": polars.Float64})

    def select(self, columns: Any) -> Any:
        return self

    def collect(self, **_: Any) -> Any:
        raise Panic("row 17")


class Panics:
    """A value whose own conversion panics."""

    def __float__(self) -> float:
        raise Panic("row 17")


def test_a_value_that_panics_is_the_missing_value() -> None:
    values = np.array([1.0, Panics()], dtype=object)
    assert np.isnan(numbers_of(values)[1])


def test_an_interrupted_release_is_answered_by_the_same_key_for_nothing(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(read({"u": [1], "x": [1.0]}), account)
    monkeypatch.setattr(Table, "capped_totals", raises(KeyboardInterrupt()))
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            session.release(TASK, key="k")
    assert account.spent == Loss.pure("0.01")
    monkeypatch.undo()
    release = session.release(TASK, key="k")
    assert (release.stored_on, account.spent) == (None, Loss.pure("0.01"))
    assert session.release(TASK, key="k").value == release.value


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with suppress(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lost(account: Account, path: Path, times: int) -> list[int]:
    """Which of many releases, each interrupted at a random moment, can not be answered under their own key."""
    session, dice, gone = Session(read(path), account), random.Random(1), []
    session.release(TASK, key="first")
    for number in range(times):
        with suppress(TableError), interrupted_after(dice.uniform(0.0005, 0.02)):
            session.release(TASK, key=f"k{number}")
        try:
            session.release(TASK, key=f"k{number}")
        except TableError:
            gone.append(number)
    return gone


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "t.parquet"
    columns = {"u": np.arange(400_000) % 100_000, "x": np.ones(400_000)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


# an interrupt may also fall into a callback of the garbage collector, which can only say that it was there
_ANYWHERE = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@_ANYWHERE
def test_interrupts_at_any_moment_lose_no_answer_and_charge_once(account: Account, large: Path) -> None:
    assert lost(account, large, 40) == []
    assert account.spent == Loss.pure("0.41")
    assert Ledger(account.location).verify().ok


@_ANYWHERE
def test_the_twin_that_takes_an_interrupt_for_a_failure_loses_answers(
    account: Account, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "_interrupt", lambda error: None)
    assert lost(account, large, 40)


def test_a_panic_in_the_writer_leaves_nobody_waiting(account: Account) -> None:
    store = account._store
    done: list[BaseException] = []

    def work() -> None:
        try:
            store.write(raises(Panic()))
        except OurBug as error:
            done.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert len(done) == 1
    account.charge(Loss.pure("0.1"), key="after", request=b"")
