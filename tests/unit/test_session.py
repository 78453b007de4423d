from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from steelyard.account import Receipt
from steelyard.desk import FAILED, Desk
from steelyard.documents import request_of
from steelyard.errors import BudgetExceeded, InsecureNoise, InvalidTask, KeyConflict, TableError
from steelyard.ledger import Account, Ledger, open_account
from steelyard.mechanisms import Laplace
from steelyard.noise import ExactNoise, Noise, TestNoise
from steelyard.plan import Error, Outcome, Plan
from steelyard.privacy import Event, Loss, Status, Terms, rows, users
from steelyard.release import Release, promise, sealed_payload
from steelyard.session import Session
from steelyard.tables import Schema, Table, read

DATA = {"user": [1, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0]}
SEEN: list[str] = []


@dataclass(frozen=True)
class Probe:
    """A task that notes when it reads, and can be told to fail."""

    epsilon: str = "0.5"
    fail: str = ""

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        SEEN.append("plan")
        return Plan(Laplace(1, 1 / Fraction(self.epsilon)).event, Error(1.0, 3.0), self.run)

    def run(self, table: Table, noise: Noise) -> Outcome:
        SEEN.append("read")
        if self.fail == "ours":
            raise TableError("the table could not be read")
        if self.fail:
            raise RuntimeError(f"row 17 holds {self.fail}")
        return Outcome(noise.below(2**60), Error(1.0, 3.0), {"cap": 1})


@pytest.fixture
def account(tmp_path: Path) -> Account:
    SEEN.clear()
    return open_account(tmp_path / "budget.db", "a", unit=users("user"), epsilon=1)


def test_a_release_carries_value_error_guarantee_and_receipt(account: Account) -> None:
    release = Session(read(DATA), account).release(Probe())
    assert isinstance(release.value, int)
    assert release.error == Error(1.0, 3.0)
    assert release.receipt.cost == Loss.pure("0.5") == account.spent
    assert release.guarantee.status is Status.PROVED
    assert release.task == {"type": "Probe", "epsilon": "0.5", "fail": ""}
    assert Release.from_json(release.to_json()).to_json() == release.to_json()


def test_a_quote_spends_nothing_and_reads_nothing(account: Account) -> None:
    assert Session(read(DATA), account).quote(Probe()) == Loss.pure("0.5")
    assert Session(read(DATA), account).plan(Probe()).predicted == Error(1.0, 3.0)
    assert SEEN == ["plan", "plan"]
    assert account.spent == Loss.pure(1) - Loss.pure(1)


def test_what_a_plan_tells_for_nothing_draws_nothing_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "place_of", lambda table, work: str(work(table)))
    alone, asked = (
        Session(read(DATA), open_account(":memory:", name, unit=users("user"), epsilon=1), noise=TestNoise(7))
        for name in ("alone", "asked")
    )
    asked.place_of(Probe())
    asked.work(Probe())
    assert asked.release(Probe()).value == alone.release(Probe()).value


def test_a_release_is_planned_once_and_what_is_charged_is_what_is_run(account: Account) -> None:
    """A task that changes its mind each time it is asked is charged for, and runs, one and the same plan."""
    made: list[Plan] = []

    class Fickle(Probe):
        def plan(self, schema: Schema, terms: Terms) -> Plan:
            number = len(made) + 1
            event = Laplace(1, Fraction(2 * number)).event
            made.append(Plan(event, None, lambda table, noise: Outcome(number, None), str))
            return made[-1]

    session = Session(read(DATA), account)
    for number in (1, 2):
        release = session.release(Fickle())
        assert len(made) == number
        assert (release.value, release.event) == (str(number), made[-1].event)
    assert account.spent == Loss.pure("0.75")


def test_a_retry_with_the_same_key_is_free_and_the_same(account: Account) -> None:
    session = Session(read(DATA), account)
    first = session.release(Probe(), key="k")
    again = Session(read(DATA), account).release(Probe(), key="k")
    assert first.to_json() == again.to_json()
    assert SEEN.count("read") == 1
    assert account.spent == Loss.pure("0.5")


def test_a_key_names_one_request(account: Account) -> None:
    session = Session(read(DATA), account)
    session.release(Probe("0.5"), key="k")
    with pytest.raises(KeyConflict):
        session.release(Probe("0.25"), key="k")


@pytest.mark.parametrize("key", ["", "x" * 201, 7])
def test_a_key_is_short_text(account: Account, key: Any) -> None:
    with pytest.raises(InvalidTask, match="key"):
        Session(read(DATA), account).release(Probe(), key=key)


def test_a_refusal_comes_before_a_row_is_read(account: Account) -> None:
    session = Session(read(DATA), account)
    session.release(Probe())
    with pytest.raises(BudgetExceeded) as refusal:
        session.release(Probe("0.6"))
    assert SEEN.count("read") == 1
    assert refusal.value.remaining == Loss.pure("0.5")


def test_a_failure_after_the_charge_tells_nothing(account: Account) -> None:
    session = Session(read(DATA), account)
    said = set()
    for secret in ("a", "a much longer secret"):
        with pytest.raises(TableError) as failure:
            session.release(Probe("0.5", fail=secret), key=secret)
        said.add(str(failure.value))
        assert failure.value.__context__ is None
    assert said == {FAILED}
    assert account.spent == Loss.pure(1)


def test_a_failure_is_for_good(account: Account) -> None:
    session = Session(read(DATA), account)
    for _ in range(3):
        with pytest.raises(TableError, match="for good"):
            session.release(Probe(fail="ours"), key="k")
    assert SEEN.count("read") == 1


def test_test_noise_marks_its_releases_and_cannot_touch_a_durable_account(account: Account) -> None:
    with pytest.raises(InsecureNoise):
        Session(read(DATA), account, noise=TestNoise(1))
    memory = open_account(":memory:", "a", unit=users("user"), epsilon=1)
    release = Session(read(DATA), memory, noise=TestNoise(1)).release(Probe())
    assert release.guarantee.status is Status.TEST_NOISE
    assert "NO GUARANTEE" in str(release)


def test_a_session_needs_the_unit_of_its_account() -> None:
    memory = open_account(":memory:", "a", unit=users("customer"), epsilon=1)
    with pytest.raises(TableError, match="customer"):
        Session(read(DATA), memory)
    Session(read(DATA), open_account(":memory:", "b", unit=rows(), epsilon=1))


def test_nothing_that_leaves_holds_rows(account: Account) -> None:
    session = Session(read(DATA), account)
    release = session.release(Probe())
    json.loads(release.to_json())
    assert "4.0" not in repr(session)


# The order of law 1, as a checker that every desk must pass and that its broken twins must not.


@dataclass
class Spy:
    """Stands between a desk and an account and notes what happened when."""

    account: Account
    log: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.account.name

    @property
    def terms(self) -> Terms:
        return self.account.terms

    def charge(self, loss: Loss, **named: Any) -> Any:
        charge = self.account.charge(loss, **named)
        self.log.append("charged")
        return SpyCharge(charge, self.log)


@dataclass
class SpyCharge:
    charge: Any
    log: list[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.charge, name)

    def store(self, payload: bytes, step: int = 0) -> bytes:
        self.charge.store(payload.replace(b'"cap":1', b'"cap":2'), step=step)  # a rival stored first
        kept: bytes = self.charge.store(payload, step=step)
        self.log.append("stored")
        return kept

    def store_signed(self, payload: bytes, step: int = 0) -> tuple[Receipt, bytes]:
        return self.charge.receipt, self.store(payload, step)


def broken_promises(desk_type: type[Desk], account: Account) -> list[str]:
    """What a desk does wrong, if anything."""
    spy, task = Spy(account), Probe()
    desk = desk_type(read(DATA), ExactNoise(), spy, "key", request_of(task))  # type: ignore[arg-type]

    def compute(table: Table, noise: Noise) -> Outcome:
        spy.log.append("read")
        return plan.run(table, noise)

    plan = task.plan(read(DATA).schema, spy.terms)
    event = plan.event
    release = desk.answer(desk.charge(event), event, compute)
    spy.log.append("delivered")
    faults = [] if spy.log == ["charged", "read", "stored", "delivered"] else [f"order was {spy.log}"]
    return faults + ([] if release.point == {"cap": 2} else ["delivered something else than what was stored"])


def leaks(desk_type: type[Desk], account: Account) -> bool:
    """Whether an exception's text gets out."""
    desk = desk_type(read(DATA), ExactNoise(), account, "leak", {})

    def compute(table: Table, noise: Noise) -> Outcome:
        raise RuntimeError("row 17")

    event = Probe("0.25").plan(read(DATA).schema, account.terms).event
    charge = desk.charge(event)
    try:
        desk.answer(charge, event, compute)
    except Exception as error:
        return "row 17" in str(error) or error.__context__ is not None
    return True


def parts(outcome: Outcome) -> dict[str, Any]:
    return {"value": outcome.value, "error": None, "point": dict(outcome.point)}


class DeliversWhatItComputed(Desk):
    """Broken twin: hands out its own draw."""

    def answer(self, charge: Any, event: Event, compute: Callable[[Table, Noise], Outcome], **named: Any) -> Release:
        outcome = compute(self._table, self._noise)
        payload = sealed_payload(parts(outcome), promise(self.terms, Loss.pure(1), event, secure=True), event, {})
        charge.store(payload)
        return Release.delivered(payload, charge.receipt)


class ReadsBeforeItCharges(Desk):
    """Broken twin: computes first and charges for it afterwards."""

    def charge(self, event: Event, step: str = "", *, loss: Loss | None = None) -> Any:
        return None

    def answer(self, charge: Any, event: Event, compute: Callable[[Table, Noise], Outcome], **named: Any) -> Release:
        outcome = compute(self._table, self._noise)
        return super().answer(super().charge(event), event, lambda table, noise: outcome, **named)


class LetsTheErrorOut(Desk):
    """Broken twin: re-raises what went wrong, and so lets it be tried again."""

    def _sealed(self, event: Event, compute: Callable[[Table, Noise], Outcome]) -> bytes:
        outcome = compute(self._table, self._noise)
        kept = promise(self.terms, Loss.pure(1), event, secure=True)
        return sealed_payload(parts(outcome), kept, event, self._request)


def draws_for_one_charge(desk_type: type[Desk], account: Account) -> int:
    """How often a task that fails on half of its noise is drawn when one key is retried twenty times."""
    desk, draws = desk_type(read(DATA), ExactNoise(), account, "again", {}), [0]

    def picky(table: Table, noise: Noise) -> Outcome:
        draws[0] += 1
        if noise.below(8):
            raise OverflowError
        return Outcome(1, None)

    event = Probe("0.25").plan(read(DATA).schema, account.terms).event
    for _ in range(20):
        with contextlib.suppress(TableError, OverflowError):
            desk.answer(desk.charge(event), event, picky)
    return draws[0]


def test_a_failure_that_depends_on_the_noise_is_drawn_once_and_its_broken_twin_is_caught(account: Account) -> None:
    assert draws_for_one_charge(Desk, account) == 1
    twins = [open_account(":memory:", f"t{i}", unit=users("user"), epsilon=1) for i in range(3)]
    assert max(draws_for_one_charge(LetsTheErrorOut, twin) for twin in twins) > 1


def test_the_desk_keeps_the_order_and_its_broken_twins_are_caught(account: Account) -> None:
    def fresh(name: str) -> Account:
        return open_account(":memory:", name, unit=users("user"), epsilon=1)

    assert broken_promises(Desk, account) == []
    assert broken_promises(DeliversWhatItComputed, fresh("b")) == ["delivered something else than what was stored"]
    assert broken_promises(ReadsBeforeItCharges, fresh("c"))[0].startswith("order was ['read'")


def test_the_desk_seals_errors_and_its_broken_twin_is_caught(account: Account) -> None:
    assert not leaks(Desk, account)
    assert leaks(LetsTheErrorOut, open_account(":memory:", "d", unit=users("user"), epsilon=1))


def test_a_reservation_is_charged_without_a_row_and_answered_later_for_nothing_more(account: Account) -> None:
    session = Session(read(DATA, name="t"), account, person="ann")
    receipt = session.reserve(Probe(), key="k")
    assert SEEN == ["plan"]
    assert (receipt.cost, account.spent) == (Loss.pure("0.5"), Loss.pure("0.5"))
    (waiting,) = Ledger(account.location).pending("a")
    assert (waiting.name, waiting.task, waiting.person) == ("k", request_of(Probe()), "ann")
    worker = Session(read(DATA, name="t"), Account(account.location, "a"))
    release = worker.release(Probe(), key="k")
    assert (release.receipt, account.spent) == (receipt, Loss.pure("0.5"))
    assert session.reserve(Probe(), key="k") == receipt
    assert session.release(Probe(), key="k").value == release.value
    assert Ledger(account.location).pending() == []


def test_a_reservation_is_refused_like_a_release_and_binds_its_key(account: Account) -> None:
    session = Session(read(DATA, name="t"), account)
    session.reserve(Probe(epsilon="0.75"), key="k")
    with pytest.raises(BudgetExceeded):
        session.reserve(Probe(), key="l")
    with pytest.raises(KeyConflict):
        session.release(Probe(epsilon="0.125"), key="k")
    with pytest.raises(KeyConflict):
        Session(read(DATA, name="u"), account).release(Probe(epsilon="0.75"), key="k")
    assert "read" not in SEEN


def test_the_person_and_the_whole_text_of_a_view_stand_on_every_charge(account: Account) -> None:
    view = read(DATA, name="t").where(" or ".join(f"x < {number}" for number in range(60)))
    session = Session(view, account.by("bob"), person="ann")
    session.release(Probe())
    session.up_to("0.25").release(Probe(epsilon="0.125"))
    Session(read(DATA, name="t"), account.by("bob")).release(Probe(epsilon="0.125"))
    first, second, third = Ledger(account.location).charges("%")
    assert [each.person for each in (first, second, third)] == ["ann", "ann", "bob"]
    assert "x < 59" in first.view.lower().replace(chr(34), "")
    assert "sha256" in first.table, "the identity is cut short; the text is not"
    assert (second.view, third.view, third.table) == (first.view, "", "the table named 't'")
