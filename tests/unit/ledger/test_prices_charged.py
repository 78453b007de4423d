"""What was charged is worked out again from what was done: a price that was lowered is found by verify."""

from __future__ import annotations

import dataclasses
import json
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from steelyard.accounting import _prices as prices
from steelyard.accounting._prices import Claim, MuSquared, disjoint, price
from steelyard.cli import main
from steelyard.ledger import Account, Ledger, open_account
from steelyard.ledger import _verify as verify
from steelyard.ledger._store import open_store
from steelyard.ledger._transaction import Transaction
from steelyard.mechanisms import BoundedNoise, Gaussian, Laplace
from steelyard.mechanisms._gradual import LaplacePath
from steelyard.mechanisms._objective import Objective, PureObjective, UserObjective
from steelyard.privacy import MICRO, Event, Loss, Neighbours, composed, rows

GAUSSIAN = {
    "objective": Objective(3, 100_000, Fraction(4), 2_000).event,
    "objective_users": UserObjective(3, 100_000, Fraction(4), 2_000).event,
    "gaussian": Gaussian(3, Fraction(40)).event,
}
PURE = {
    "objective_pure": PureObjective(3, Fraction(10), Fraction(20), 1_000).event,
    "laplace": Laplace(1, Fraction(10)).event,
}


def account(place: Path | str = ":memory:", **budget: Any) -> Account:
    return open_account(place, "a", unit=rows(), **(budget or {"mu": "3", "delta": "1e-6"}))


def trusting(given: Any) -> Claim:
    """The twin: a price that believes what the event says of itself."""
    return MuSquared(Fraction(given["mu_micro"] ** 2 + given["output_micro"] ** 2, MICRO**2))


def lowered(event: Event, **changes: int) -> Event:
    return dataclasses.replace(event, parameters={**event.parameters, **changes})


def believed(event: Event) -> Loss:
    """What code that trusts a stated mu charges."""
    return Loss.mu(Fraction(int(str(event.parameters["mu_micro"])), MICRO))


def findings(held: Account) -> tuple[str, ...]:
    return Ledger(held.location).verify().findings


@pytest.mark.parametrize("name", GAUSSIAN)
def test_what_was_charged_at_its_price_agrees(name: str) -> None:
    held = account()
    held.charge(price(GAUSSIAN[name], held.terms), key="k", request=b"", event=GAUSSIAN[name])
    assert findings(held) == ()


@pytest.mark.parametrize("name", ["objective", "objective_users"])
@pytest.mark.parametrize("twin", [False, True])
def test_an_objective_step_whose_stated_mu_was_lowered_is_found(
    name: str, twin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = account()
    low = lowered(GAUSSIAN[name], mu_micro=100_000)
    held.charge(believed(low) + Loss.mu("0.002"), key="k", request=b"", event=low)
    if twin:
        monkeypatch.setitem(prices._CLAIMS, name, trusting)
    assert (findings(held) == ()) is twin
    if not twin:
        assert "mu_micro is 100000" in findings(held)[0]


@pytest.mark.parametrize("name", [*GAUSSIAN, *PURE])
def test_less_than_the_price_is_found(name: str) -> None:
    held = account() if name in GAUSSIAN else account(epsilon="3")
    event = {**GAUSSIAN, **PURE}[name]
    cost = price(event, held.terms)
    held.charge(dataclasses.replace(cost, amount=cost.amount - 1), key="k", request=b"", event=event)
    held.charge(dataclasses.replace(cost, amount=cost.amount + 1), key="more", request=b"", event=event)
    (finding,) = findings(held)
    assert "for what costs" in finding


def test_the_micro_that_pays_for_rounded_spherical_noise_cannot_be_left_out() -> None:
    held = account(epsilon="3")
    held.charge(Loss.pure("0.101"), key="k", request=b"", event=lowered(PURE["objective_pure"], extra_micro=0))
    assert "rounding" in findings(held)[0]


@pytest.mark.parametrize("name", ["objective", "objective_users", "objective_pure"])
@pytest.mark.parametrize("twin", [False, True])
def test_an_objective_step_that_says_its_price_covers_a_replaced_unit_is_found(
    name: str, twin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replaced unit is one removed and one added: two steps, four times the mu squared. The twin believes the event."""
    budget = {"mu": "3", "delta": "1e-6"} if name in GAUSSIAN else {"epsilon": "3"}
    true = {**GAUSSIAN, **PURE}[name]
    held = open_account(":memory:", "a", unit=rows(neighbours="replace", n=100), **budget)
    held.charge(price(true, held.terms), key="true", request=b"", event=true)
    assert findings(held) == ()
    low = dataclasses.replace(true, neighbours=Neighbours.REPLACE)
    held.charge(price(true, account(**budget).terms), key="k", request=b"", event=low)
    if twin:
        monkeypatch.setattr(prices, "_ADDED", set())
    assert (findings(held) == ()) is twin


def test_a_failure_that_was_not_charged_is_found() -> None:
    held = account(mu="3", delta="1e-6", additive_delta="1e-7")
    event = lowered(GAUSSIAN["gaussian"], failure_atto=10**9)
    held.charge(Loss(held.terms.currency, 10**12), key="k", request=b"", event=event)
    assert "for what costs" in findings(held)[0]


@pytest.mark.parametrize("changes", [{"epsilon_numerator": 10_000}, {"questions": 40}, {"radius": 200}])
def test_bounded_noise_that_states_less_than_its_law_costs_is_found(changes: dict[str, int]) -> None:
    unit = rows(neighbours="replace", n=10_000)
    held = open_account(":memory:", "a", unit=unit, epsilon="9", delta="1e-2", additive_delta="5e-3")
    event = BoundedNoise(2, 250, 10_000, 10, failure=Fraction(1, 1000)).event
    held.charge(price(event, held.terms), key="true", request=b"", event=event)
    assert findings(held) == ()
    cost = Loss(held.terms.currency, held.remaining.amount, held.remaining.delta)
    held.charge(cost, key="k", request=b"", event=lowered(event, **changes))
    assert "is proved" in findings(held)[0]


def test_a_level_below_that_of_its_path_is_found() -> None:
    held = account(epsilon="3")
    first, second = (LaplacePath(1, (Fraction(10, level),)).event for level in (1, 2))
    charge = held.charge(price(first, held.terms), key="k", request=b"", event=first)
    charge.raise_to(Loss.pure("0.15"), second)
    assert "epsilon 0.15 for what costs epsilon 0.2" in findings(held)[0]


def test_a_path_that_is_raised_without_saying_how_far_is_found() -> None:
    held = account(epsilon="3")
    event = LaplacePath(1, (Fraction(10),)).event
    held.charge(price(event, held.terms), key="k", request=b"", event=event).raise_to(Loss.pure("0.15"))
    assert "does not say" in findings(held)[0]


def path(level: int, sensitivity: int = 1) -> Event:
    return LaplacePath(sensitivity, (Fraction(10 * sensitivity, level),)).event


ELSEWHERE = {
    "a note": Event("holdout opened", {}),
    "another step": Laplace(1, Fraction(100)).event,
    "a path of fewer": LaplacePath(1, (Fraction(10),)).event,
    "a path of other neighbours": LaplacePath(5, (Fraction(50),), Neighbours.REPLACE).event,
}


@pytest.mark.parametrize("event", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_path_that_is_raised_by_the_price_of_something_else_is_found(event: Event) -> None:
    held = account(epsilon="3")
    held.charge(Loss.pure("0.1"), key="k", request=b"", event=path(1, 5)).raise_to(Loss.pure("0.15"), event)
    assert "something else" in findings(held)[0]


def test_taking_every_path_for_the_same_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: half the epsilon of a path whose row moves five, stated as one that moves one."""
    monkeypatch.setattr("steelyard.ledger._prices._along", lambda _: ("a path",))
    held = account(epsilon="3")
    cheap = ELSEWHERE["a path of fewer"]
    held.charge(Loss.pure("0.1"), key="k", request=b"", event=path(1, 5)).raise_to(Loss.pure("0.15"), cheap)
    assert findings(held) == ()


def test_a_path_inside_several_steps_cannot_be_raised_unseen() -> None:
    held = account(epsilon="3")
    event = composed(path(1), PURE["laplace"])
    held.charge(price(event, held.terms), key="k", request=b"", event=event).raise_to(Loss.pure("0.25"))
    assert "does not say" in findings(held)[0]


def test_what_is_no_path_is_not_raised_as_one() -> None:
    held = account(epsilon="3")
    held.charge(Loss.pure("0.1"), key="k", request=b"", event=PURE["laplace"]).raise_to(Loss.pure("0.3"), path(3))
    assert "raises none" in findings(held)[0]


def raised_by_hand(held: Account, charge: int, before: int, level: int) -> None:
    """What a holder of the key may write past the library: an authentic raise, with the balance that goes with it."""

    def move(transaction: Transaction) -> None:
        transaction.execute("UPDATE balances SET spent = spent + ?", (level - before,))
        detail = json.dumps({"from": before})
        transaction.append("raise", account=held.name, amount=level, charge=charge, detail=detail)

    held._store.write(move)


@pytest.mark.parametrize(("charge", "before"), [(3, 299_999), (3, 100_001), (99, 299_999)])
def test_a_raise_from_a_level_that_its_charge_never_had_is_found(charge: int, before: int) -> None:
    held = account(epsilon="3")
    made = held.charge(Loss.pure("0.1"), key="k", request=b"")
    assert made.sequence == 3
    raised_by_hand(held, charge, before, 300_000)
    assert "is not the sum of its charges" in findings(held)[0]


def test_a_raise_on_an_account_that_counts_mu_is_found() -> None:
    held = account()
    made = held.charge(Loss(held.terms.currency, 10), key="k", request=b"")
    raised_by_hand(held, made.sequence, 10, 20)
    assert "pure epsilon" in findings(held)[0]


def test_a_step_that_states_its_sensitivity_twice_has_no_price() -> None:
    held = account()
    event = lowered(GAUSSIAN["gaussian"], sensitivity=0, sensitivity_squared=900)
    held.charge(Loss.mu("0.1"), key="k", request=b"", event=event)
    assert "no price" in findings(held)[0]


def parts(before: tuple[int, int], part: str = "train") -> Event:
    return disjoint(GAUSSIAN["gaussian"], part, {"train": before[0], "check": before[1]})


def after(event: Event) -> tuple[int, int]:
    return int(str(event.parameters["train_after"])), int(str(event.parameters["check_after"]))


def test_steps_on_two_parts_count_from_each_other() -> None:
    held = account()
    first = parts((0, 0))
    second = parts(after(first), "check")
    for key, event in {"p/step 0": first, "p/step 1": second, "q/step 0": first, "p/step 1 again 1": first}.items():
        held.charge(price(event, held.terms), key=key, request=b"", event=event)
    assert findings(held) == ()


@pytest.mark.parametrize("keys", [["p/step 1"], ["q/step 0", "p/step 1"], ["p/step 0", "p/step 1", "p/step 1 again 1"]])
def test_a_step_that_counts_from_what_nobody_paid_or_from_what_is_used_up_is_found(keys: list[str]) -> None:
    held = account()
    first = parts((0, 0))
    for key in keys:
        event = first if key.endswith("step 0") else parts(after(first), "check")
        held.charge(price(event, held.terms), key=key, request=b"", event=event)
    (finding,) = findings(held)
    assert "counts from" in finding


@pytest.mark.parametrize(
    ("keys", "tables"), [(("one task", "another"), ("a", "a")), (("p/step 0", "p/step 1"), ("a", "b"))]
)
def test_parts_of_other_tasks_and_tables_are_not_counted_from(keys: tuple[str, str], tables: tuple[str, str]) -> None:
    held = account()
    first = parts((0, 0))
    for key, of, event in zip(keys, tables, (first, parts(after(first), "check")), strict=True):
        held.charge(price(event, held.terms), key=key, request=b"", event=event, of=of)
    assert "counts from" in findings(held)[0]


def test_an_answer_that_no_plan_paid_for_is_found() -> None:
    held = account()
    event = Event("answer_of_a_plan", {}, Neighbours.REPLACE)
    held.charge(Loss.zero(held.terms.currency), key="k", request=b"", event=event)
    assert "no plan" in findings(held)[0]


def test_an_event_that_has_no_price_is_found_and_a_charge_by_hand_is_not() -> None:
    held = account()
    held.charge(Loss.mu("0.1"), key="by hand", request=b"")
    assert findings(held) == ()
    for name, given in {"unheard of": {}, "gaussian": {"sensitivity": 1}, "composed": {"events": "[1]"}}.items():
        held.charge(Loss.mu("0.1"), key=name, request=b"", event=Event(name, given))  # type: ignore[arg-type]
    assert len(findings(held)) == 3


def test_the_command_line_refuses_a_ledger_with_a_lowered_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = account(tmp_path / "b.db")
    event = lowered(GAUSSIAN["objective"], mu_micro=100_000)
    assert main(["ledger", "verify", str(tmp_path / "b.db")]) == 0
    held.charge(believed(event) + Loss.mu("0.002"), key="k", request=b"", event=event)
    assert main(["ledger", "verify", str(tmp_path / "b.db")]) == 4
    assert "mu_micro is 100000" in capsys.readouterr().err


def test_opening_a_ledger_works_no_price_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    held = account(tmp_path / "b.db")
    held.charge(price(GAUSSIAN["objective"], held.terms), key="k", request=b"", event=GAUSSIAN["objective"])
    monkeypatch.setattr("steelyard.ledger._prices.price", lambda *_: pytest.fail("priced"))
    store = open_store(tmp_path / "b.db", check=False)
    with store.reading() as link:
        assert verify.glance(link, store.identity, store.anchor.read(), closely=True) == []


def test_thousands_of_objective_steps_are_priced_again_in_seconds() -> None:
    held = account(mu="300", delta="1e-6")
    for number in range(2_000):
        event = Objective(3, 100_000 + number % 4, Fraction(20 + number), 2_000).event
        held.charge(price(event, held.terms), key=f"k{number}", request=b"", event=event)
    started = time.process_time()
    assert findings(held) == ()
    assert time.process_time() - started < 20
