"""Claims and draws at a desk: paid first, stored first, one outcome for ever, and failures that say nothing."""

from __future__ import annotations

import ast
import contextlib
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from steelyard import tables
from steelyard.account import Account, Allowance
from steelyard.desk import FAILED, Desk, NoTable
from steelyard.errors import BudgetExceeded, InsecureNoise, KeyConflict, LedgerTampered, OurBug, TableError, ViewRefused
from steelyard.ledger import Ledger, open_account
from steelyard.mechanisms import Laplace
from steelyard.noise import ExactNoise, Noise, TestNoise
from steelyard.plan import Outcome
from steelyard.privacy import MICRO, Loss, rows, users

EVENT = Laplace(1, Fraction(2)).event


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return open_account(tmp_path / "budget.db", "a", unit=rows(), epsilon=1)


def desk(account: Account, *, kind: str = "pass", of: str = "") -> Desk:
    return Desk(NoTable(of), ExactNoise(), account, "labels", {"kind": kind})


def test_a_draw_is_made_once_and_given_again_to_whoever_asks(account: Account) -> None:
    first, second = desk(account), desk(account)
    charge, again = first.charge(EVENT), second.charge(EVENT)
    drawn = first.draw(charge, lambda noise: noise.below(2**64).to_bytes(8, "big"))
    assert second.draw(again, lambda noise: b"another") == drawn
    assert desk(account).drawn(desk(account).charge(EVENT)) == [drawn]
    assert account.spent == Loss.pure("0.5")


def test_a_desk_asks_a_view_itself_whether_it_keeps_the_unit_apart(account: Account, tmp_path: Path) -> None:
    table = tables.read({"u": np.array([1, 1, 2]), "x": np.array([1.0, 2.0, 3.0])}, name="t")
    sums = tables.view("select u, sum(x) as x from t group by u", t=table)
    people = open_account(tmp_path / "budget.db", "people", unit=users("u"), epsilon=1)
    with pytest.raises(ViewRefused):
        Desk(sums, ExactNoise(), account, "sums", {})
    assert account.spent.amount == 0
    Desk(sums, ExactNoise(), people, "sums", {}).charge(EVENT)  # a row of the view is of one user
    Desk(table, ExactNoise(), account, "rows", {}).charge(EVENT)


def test_draws_of_one_charge_go_on_step_by_step(account: Account) -> None:
    at = desk(account)
    charge = at.charge(EVENT)
    told = [at.draw(charge, lambda noise, k=k: bytes([k]), step=k) for k in range(3)]  # type: ignore[misc]
    assert at.drawn(charge) == told == [b"\0", b"\1", b"\2"]
    assert at.drawn(desk(account).charge(EVENT)) == told


def test_a_draw_that_nobody_can_name_again_is_not_stored(account: Account) -> None:
    at = desk(account)
    charge = at.charge(EVENT)
    assert at.draw(charge, lambda noise: b"12", keep=False) == b"12"
    assert (charge.answers, desk(account).drawn(desk(account).charge(EVENT))) == ({}, [])


def test_the_bytes_of_a_failure_can_be_drawn(account: Account) -> None:
    at = desk(account)
    assert at.draw(at.charge(EVENT), lambda noise: b'{"failed":true}') == b'{"failed":true}'


@pytest.mark.parametrize("keep", [True, False])
def test_a_draw_that_fails_says_nothing_of_the_rows(account: Account, keep: bool) -> None:
    def fails(noise: Noise) -> bytes:
        raise ValueError("row 17 holds 4")

    at = desk(account)
    charge = at.charge(EVENT)
    with pytest.raises(TableError) as told:
        at.draw(charge, fails, keep=keep)
    assert (str(told.value), told.value.__context__, told.value.__cause__) == (FAILED, None, None)
    if keep:
        with pytest.raises(TableError, match="for good"):
            desk(account).draw(desk(account).charge(EVENT), lambda noise: b"a second draw for one charge")


def test_the_first_claim_stands_and_is_what_everybody_gets(account: Account) -> None:
    mine, other = desk(account), desk(account)
    charge, late = mine.charge(EVENT, "3"), other.charge(EVENT, "3")
    assert mine.claim(charge, {"by": "me"}) == {"by": "me"}
    assert other.claim(late, {"by": "another"}) == {"by": "me"}
    mine.claim(charge, {"note": 1}, step=1)
    found = other.paid("3")
    assert found is not None
    assert other.claims(found) == {0: {"by": "me"}, 1: {"note": 1}}


def test_a_claim_worked_out_from_rows_fails_for_good_and_says_nothing(account: Account) -> None:
    at = desk(account)
    charge = at.charge(EVENT)
    with pytest.raises(TableError, match="for good"):
        at.claim(charge, lambda noise: {"total": 1 // 0})
    with pytest.raises(TableError, match="for good"):
        at.claim(charge, lambda noise: {"total": 1})
    assert at.claims(charge) == {0: {"failed": True}}


def test_a_step_belongs_to_one_request_of_one_set_of_rows(account: Account) -> None:
    assert desk(account).paid("1") is None
    desk(account, of="labels of May").charge(EVENT, "1")
    for other in (desk(account, of="labels of June"), desk(account, kind="records", of="labels of May")):
        with pytest.raises(KeyConflict):
            other.charge(EVENT, "1")
        with pytest.raises(KeyConflict):
            other.paid("1")


def test_a_step_is_no_key_that_is_spelled_alike(account: Account) -> None:
    first, alike = (Desk(NoTable(), ExactNoise(), account, key, {"kind": "pass"}) for key in ("labels", "labels/1"))
    first.charge(EVENT, "1")
    with pytest.raises(KeyConflict):
        alike.charge(EVENT)


def test_a_loss_may_be_said_where_it_does_not_follow_from_the_event(account: Account) -> None:
    desk(account).charge(EVENT, "1", loss=Loss.pure("0.75"))
    assert account.spent == Loss.pure("0.75")


def test_test_noise_spends_no_durable_account_at_any_desk(account: Account) -> None:
    with pytest.raises(InsecureNoise, match="protects nobody"):
        Desk(NoTable(), TestNoise(1), account, "labels", {})


def test_a_pickled_allowance_keeps_its_limit_and_what_was_added(account: Account) -> None:
    allowance = Allowance(account, Loss.pure("0.6"))
    desk(allowance).charge(EVENT)
    copy = pickle.loads(pickle.dumps(allowance))  # noqa: S301
    assert str(copy.remaining) == "epsilon 0.1"
    with pytest.raises(BudgetExceeded, match=r"left of the epsilon 0\.6"):
        desk(copy).charge(EVENT, "more")
    assert desk(copy).charge(EVENT).level == account.spent == Loss.pure("0.5")


def test_what_passes_over_a_desk_verifies(account: Account, tmp_path: Path) -> None:
    at = desk(account)
    at.draw(at.charge(EVENT), lambda noise: b"1")
    assert Ledger(tmp_path / "budget.db").verify().ok


class ForgetsFailures(Desk):
    """Broken twin: a draw that failed is not stored, and so can be tried again."""

    def _tried(self, work: Callable[[], bytes]) -> bytes:
        return work()


def tries_for_one_charge(desk_type: type[Desk], account: Account) -> int:
    """How often what fails on most of its noise is tried when one key is retried twenty times."""
    at, tried = desk_type(NoTable(), ExactNoise(), account, "again", {}), [0]

    def picky(noise: Noise) -> bytes:
        tried[0] += 1
        if noise.below(8):
            raise OverflowError
        return b"1"

    for _ in range(20):
        with contextlib.suppress(TableError, OverflowError):
            at.draw(at.charge(EVENT), picky)
    return tried[0]


def test_a_draw_that_fails_on_its_noise_is_made_once_and_its_broken_twin_is_caught(account: Account) -> None:
    assert tries_for_one_charge(Desk, account) == 1
    twins = [open_account(":memory:", f"t{i}", unit=rows(), epsilon=1) for i in range(3)]
    assert max(tries_for_one_charge(ForgetsFailures, twin) for twin in twins) > 1


SOURCE = Path(__file__).parents[2] / "src" / "steelyard"
TILL = {"desk.py", "account.py"}  # and the ledger; account.py wraps accounts, and charges the one it wraps


def charging(text: str) -> list[int]:
    """The lines that call an account's own charge, which a desk's is told from by the key and the request it is given."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    verbs = ("charge", "store", "store_signed")
    named = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in verbs]
    return [
        call.lineno
        for call in named
        if call.func.attr != "charge" or {word.arg for word in call.keywords} & {"key", "request", None}  # type: ignore[attr-defined]
    ]


def test_nothing_but_a_desk_charges_an_account_or_stores_an_answer_and_the_check_sees_it() -> None:
    rooms = [
        path
        for path in SOURCE.rglob("*.py")
        if path.name.lstrip("_") not in TILL and "ledger" not in path.relative_to(SOURCE).parts
    ]
    found = {str(path.relative_to(SOURCE)): charging(path.read_text()) for path in rooms}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert charging(
        "charge = account.charge(loss, key=key, request=request)\ncharge.store(b'1')\ncharge.store_signed(b'1')"
    ) == [1, 2, 3]
    assert charging("desk.charge(event, 'step', loss=loss)") == []


def test_a_charge_of_another_account_or_key_pays_for_nothing_here(account: Account, tmp_path: Path) -> None:
    other = open_account(tmp_path / "budget.db", "b", unit=rows(), epsilon=1)
    read: list[str] = []
    for charge in (desk(other).charge(EVENT), Desk(NoTable(), ExactNoise(), account, "else", {}).charge(EVENT)):
        with pytest.raises(OurBug, match="does not pay"):
            desk(account).draw(charge, lambda noise: read.append("rows") or b"1")  # type: ignore[func-returns-value]
        with pytest.raises(OurBug, match="does not pay"):
            desk(account).claim(charge, {"a": 1})
        assert (read, charge.answers) == ([], {})


def test_a_charge_is_asked_whether_it_can_keep_an_answer_before_every_step_but_its_first(
    account: Account, tmp_path: Path
) -> None:
    at = desk(account)
    charge = at.charge(EVENT)
    seen = [charge.fresh]
    at.draw(charge, lambda noise: b"1")
    assert [*seen, charge.fresh] == [True, False]
    (tmp_path / "budget.db").rename(tmp_path / "gone.db")
    read: list[str] = []
    with pytest.raises(LedgerTampered, match="removed or replaced"):
        at.draw(charge, lambda noise: read.append("rows") or b"1", step=1)  # type: ignore[func-returns-value]
    assert read == []


def test_a_step_is_served_in_one_visit_and_tells_what_is_left(account: Account) -> None:
    def compute(table: object, noise: Noise) -> Outcome:
        read.append(account.spent)
        return Outcome(noise.below(2**64), None)

    read: list[Loss] = []
    release, left = desk(account).serve(EVENT, compute, "step 0")
    again, unchanged = desk(account).serve(EVENT, compute, "step 0")
    assert read == [Loss.pure("0.5")]  # charged before anything was computed, and computed once
    assert (again.value, left, unchanged) == (release.value, account.remaining, account.remaining)


def test_a_desk_tells_what_is_answered_and_what_is_left_together(account: Account) -> None:
    at = desk(account)
    at.serve(EVENT, lambda table, noise: Outcome(1, None), "step 0")
    desk(account, kind="other").charge(Laplace(1, Fraction(4)).event, "step 1")
    for each in (at, desk(account)):
        assert each.standing() == ({"step 0": (True, MICRO // 2)}, account.remaining)
    assert desk(account, kind="other").standing()[0] == {"step 0": (False, MICRO // 2)}
