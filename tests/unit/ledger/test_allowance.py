"""A handle that may add only so much to what its account has spent."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from steelyard.account import Allowance
from steelyard.errors import BudgetExceeded, CurrencyMismatch, KeyConflict, LedgerError
from steelyard.ledger import Account, open_account
from steelyard.privacy import Loss, rows


@pytest.fixture
def account() -> Account:
    return open_account(":memory:", "demo", unit=rows(), epsilon=1)


def test_it_adds_no_more_than_allowed_and_refuses_before_anything_is_charged(account: Account) -> None:
    account.charge(Loss.pure("0.3"), key="before", request=b"")
    allowance = Allowance(account, Loss.pure("0.2"))
    allowance.charge(Loss.pure("0.15"), key="a", request=b"")
    with pytest.raises(
        BudgetExceeded, match=r"wants epsilon 0.06, and epsilon 0.05 is left of the epsilon 0.2"
    ) as refused:
        allowance.charge(Loss.pure("0.06"), key="b", request=b"")
    assert (refused.value.wanted, refused.value.remaining) == (Loss.pure("0.06"), Loss.pure("0.05"))
    assert account.spent == Loss.pure("0.45")
    allowance.charge(Loss.pure("0.05"), key="b", request=b"")
    assert allowance.remaining.amount == 0


def test_what_was_charged_before_or_by_others_does_not_count(account: Account) -> None:
    account.charge(Loss.pure("0.5"), key="kept", request=b"")
    allowance = Allowance(account, Loss.pure("0.1"))
    assert allowance.charge(Loss.pure("0.5"), key="kept", request=b"").level == Loss.pure("0.5")
    account.charge(Loss.pure("0.3"), key="other", request=b"")
    assert allowance.remaining == Loss.pure("0.1")
    allowance.charge(Loss.pure("0.1"), key="mine", request=b"")
    assert account.spent == Loss.pure("0.9")


def test_raises_count_by_what_they_add(account: Account) -> None:
    kept = account.charge(Loss.pure("0.5"), key="path", request=b"")
    allowance = Allowance(account, Loss.pure("0.2"))
    charge = allowance.charge(Loss.pure("0.5"), key="path", request=b"")
    charge.raise_to(Loss.pure("0.6"))
    charge.raise_to(Loss.pure("0.6"))
    with pytest.raises(BudgetExceeded, match=r"wants epsilon 0\.15"):
        charge.raise_to(Loss.pure("0.75"))
    charge.raise_to(Loss.pure("0.7"))
    assert account.spent == Loss.pure("0.7")
    assert kept.key == charge.key


def test_the_accounts_own_cap_and_currency_hold_besides(account: Account) -> None:
    allowance = Allowance(account, Loss.pure(5))
    assert allowance.remaining == Loss.pure(1)
    with pytest.raises(BudgetExceeded, match="'demo' has epsilon 1 left of epsilon 1"):
        allowance.charge(Loss.pure(2), key="a", request=b"")
    assert allowance.remaining == Loss.pure(1)
    with pytest.raises(CurrencyMismatch, match="got a limit of mu 1"):
        Allowance(account, Loss.mu(1))


def test_an_allowance_of_an_allowance_is_held_to_both(account: Account) -> None:
    outer = Allowance(account, Loss.pure("0.3"))
    inner = Allowance(outer, Loss.pure("0.9"))
    charge = inner.charge(Loss.pure("0.1"), key="path", request=b"")
    with pytest.raises(BudgetExceeded, match=r"left of the epsilon 0\.3"):
        charge.raise_to(Loss.pure("0.5"))
    charge.raise_to(Loss.pure("0.3"))
    assert (account.spent, charge.level) == (Loss.pure("0.3"), Loss.pure("0.3"))
    assert outer.remaining.amount == 0


def test_what_is_found_counts_when_it_is_raised_also_beside_another_handle(account: Account) -> None:
    account.charge(Loss.pure("0.1"), key="path", request=b"")
    allowance = Allowance(account, Loss.pure("0.2"))
    found = allowance.find(key="path", request=b"")
    assert found is not None
    with pytest.raises(BudgetExceeded):
        found.raise_to(Loss.pure("0.4"))
    account.charge(Loss.pure("0.1"), key="path", request=b"").raise_to(Loss.pure("0.9"))
    found.raise_to(Loss.pure("0.3"))
    assert found.level == Loss.pure("0.9")
    assert allowance.remaining.amount == 0
    with pytest.raises(BudgetExceeded):
        allowance.charge(Loss.pure("0.1"), key="more", request=b"")


LOST: list[BaseException] = [LedgerError("It is not known whether a charge was made"), KeyboardInterrupt()]


class Breaks:
    """An account of which a charge is made and the word of it lost."""

    def __init__(self, account: Account, error: BaseException, *, before: bool = False) -> None:
        self._account, self._error, self._before, self._broken = account, error, before, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._account, name)

    def charge(self, *args: Any, **more: Any) -> Any:
        broken, self._broken = self._broken, False
        if broken and self._before:
            raise self._error
        made = self._account.charge(*args, **more)
        if broken:
            raise self._error
        return made


@pytest.mark.parametrize("error", LOST, ids=["lost connection", "interrupt"])
def test_a_charge_counts_though_nobody_heard_that_it_was_made(account: Account, error: BaseException) -> None:
    allowance = Allowance(Breaks(account, error), Loss.pure("0.2"))
    with pytest.raises(type(error)):
        allowance.charge(Loss.pure("0.2"), key="a", request=b"")
    assert allowance.charge(Loss.pure("0.2"), key="a", request=b"").level == Loss.pure("0.2")
    assert allowance.remaining.amount == 0
    with pytest.raises(BudgetExceeded):
        allowance.charge(Loss.pure("0.1"), key="b", request=b"")
    assert account.spent == Loss.pure("0.2")


@pytest.mark.parametrize("error", LOST, ids=["lost connection", "interrupt"])
def test_a_charge_that_is_tried_again_counts_once(account: Account, error: BaseException) -> None:
    allowance = Allowance(Breaks(account, error, before=True), Loss.pure("0.2"))
    with pytest.raises(type(error)):
        allowance.charge(Loss.pure("0.2"), key="a", request=b"")
    allowance.charge(Loss.pure("0.2"), key="a", request=b"")
    assert account.spent == Loss.pure("0.2")


def test_a_refusal_of_the_account_counts_nothing(account: Account) -> None:
    allowance = Allowance(account, Loss.pure("0.5"))
    account.charge(Loss.pure("0.1"), key="mine", request=b"")
    account.charge(Loss.pure("0.7"), key="other", request=b"")
    with pytest.raises(BudgetExceeded, match="'demo' has"):
        allowance.charge(Loss.pure("0.3"), key="a", request=b"")
    with pytest.raises(KeyConflict):
        allowance.charge(Loss.pure("0.2"), key="mine", request=b"another")
    found = allowance.find(key="mine", request=b"")
    assert found is not None
    with pytest.raises(BudgetExceeded, match="'demo' has"):
        found.raise_to(Loss.pure("0.6"))
    assert allowance.remaining == Loss.pure("0.2")
    found.raise_to(Loss.pure("0.3"))
    assert account.spent == Loss.pure(1)


def test_two_handles_on_one_charge_count_one_raise(account: Account) -> None:
    allowance = Allowance(account, Loss.pure("0.3"))
    first, second = (allowance.charge(Loss.pure("0.1"), key="path", request=b"") for _ in range(2))
    for charge in (first, second, first):
        charge.raise_to(Loss.pure("0.3"))
    assert (account.spent, allowance.remaining.amount) == (Loss.pure("0.3"), 0)


def test_threads_that_share_an_allowance_add_no_more_than_it_allows(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier, charge = threading.Barrier(4), type(account).charge

    def together(self: Account, *args: Any, **more: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(0.2)  # all that got so far charge at once
        return charge(self, *args, **more)

    monkeypatch.setattr(type(account), "charge", together)
    allowance = Allowance(account, Loss.pure("0.2"))

    def spend(number: int) -> None:
        try:
            allowance.charge(Loss.pure("0.2"), key=f"k{number}", request=b"")
        except BudgetExceeded:
            return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(spend, range(4)))
    assert account.spent <= Loss.pure("0.2")
