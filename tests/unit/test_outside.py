"""Computations done elsewhere on our ledger, and our events in others' words."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

import steelyard as sy
from steelyard.accounting import disjoint, mu_request, price, pure_to_mu
from steelyard.accounting._gaussian import delta_of
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, KeyConflict, NeighbourMismatch, OurBug
from steelyard.mechanisms import Exponential, Gaussian, Laplace
from steelyard.outside import dp_event, enter, stated
from steelyard.privacy import MICRO, Event, Neighbours, Status, composed


def account(epsilon: str = "4", **more: Any) -> Any:
    return sy.open_account(":memory:", "training", unit=sy.rows(), epsilon=epsilon, **more)


ASIDE = {"delta": "1e-5", "additive_delta": "5e-6"}


def test_a_stated_epsilon_and_delta_cost_the_mu_of_epsilon_and_the_whole_delta() -> None:
    paying = account(**ASIDE)
    release = enter(paying, "opacus, 3 epochs", epsilon="0.5", delta="1e-6", key="run 1")
    assert release.guarantee.spent.amount == pure_to_mu(Fraction(1, 2)) ** 2
    assert release.guarantee.spent.additive_delta == Fraction(1, 10**6)
    assert "the guarantee of a run from outside is the caller's word" in str(release.guarantee)
    again = enter(paying, "opacus, 3 epochs", epsilon="0.5", delta="1e-6", key="run 1")
    assert again.receipt.sequence == release.receipt.sequence
    assert paying.spent == release.guarantee.spent
    with pytest.raises(KeyConflict):
        enter(paying, "opacus, 3 epochs", epsilon="0.4", delta="1e-6", key="run 1")


def test_a_mu_and_a_pure_epsilon_are_charged_as_they_are() -> None:
    assert enter(account(delta="1e-5"), "jax-privacy", mu="0.3").guarantee.spent.amount == 300_000**2
    assert enter(account(), "a tree", epsilon="0.3").guarantee.spent.amount == 300_000
    assert enter(account(), "a tree", epsilon=Fraction(1, 3)).guarantee.spent.amount == 333_334


def test_what_an_account_cannot_hold_is_refused_before_the_charge() -> None:
    plain, gaussian = account(), account(delta="1e-5")
    refused: list[tuple[Any, dict[str, Any], type[Exception]]] = [
        (plain, {"mu": 1}, CurrencyMismatch),
        (plain, {"epsilon": 1, "delta": "1e-6"}, CurrencyMismatch),
        (gaussian, {"epsilon": 1, "delta": "1e-6"}, CurrencyMismatch),
        (account(**ASIDE), {"epsilon": 1, "delta": "6e-6"}, BudgetExceeded),
        (plain, {"epsilon": 5}, BudgetExceeded),
        (plain, {"epsilon": 1, "neighbours": "replace"}, NeighbourMismatch),
        (plain, {"epsilon": 1, "neighbours": "sideways"}, InvalidTask),
        (plain, {}, InvalidTask),
        (gaussian, {"epsilon": 1, "mu": 1}, InvalidTask),
        (gaussian, {"mu": 1, "delta": "1e-6"}, InvalidTask),
        (plain, {"epsilon": -1}, InvalidTask),
        (plain, {"epsilon": 1, "delta": 1}, InvalidTask),
    ]
    for paying, given, kind in refused:
        with pytest.raises(kind):
            enter(paying, "a run", **given)
        assert paying.spent.amount == 0
    for odd in ("", "x" * 1001, None):
        with pytest.raises(InvalidTask, match="public words"):
            enter(plain, odd, epsilon=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="open account"):
        enter("budget.db", "a run", epsilon=1)  # type: ignore[arg-type]


def test_the_ledger_prices_it_again(tmp_path: Any) -> None:
    paying = sy.open_account(tmp_path / "b.db", "training", unit=sy.rows(), epsilon="4", **ASIDE)
    enter(paying, "opacus", epsilon="0.5", delta="1e-6")
    enter(paying, "jax", mu="0.2")
    sy.Ledger(tmp_path / "b.db").verify()


def worst_delta(epsilon: float, failure: float, at: float) -> float:
    """The delta at another epsilon of the pair that is worst for (epsilon, failure): tells all, or is randomized response."""
    yes = 1 / (1 + math.exp(-epsilon))
    return failure + (1 - failure) * max(0.0, yes - math.exp(at) * (1 - yes))


def covered(mu: float, failure: float) -> bool:
    return all(worst_delta(1.0, 1e-5, k / 20) <= failure + delta_of(k / 20, mu) for k in range(40))


def test_an_epsilon_and_delta_turned_into_a_mu_is_caught() -> None:
    event = stated(1, "1e-5", None, "add-remove")
    paid = price(event, account(delta="1e-4", additive_delta="5e-5").terms)
    assert covered(math.sqrt(paid.amount) / MICRO, float(paid.additive_delta))
    assert not covered(mu_request(Fraction(1), Fraction(1, 10**5)) / MICRO, 0.0)


def test_our_events_cost_no_less_in_another_accountant() -> None:
    steps = [Laplace(2, Fraction(8)).event, Gaussian(3, Fraction(12)).event, Exponential(Fraction(1, 2), 1).event]
    theirs = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs.compose(dp_event(composed(*steps)))
    ours = price(composed(*steps), account(delta="1e-6").terms)
    assert theirs.get_epsilon(1e-6) <= 1.05 * _epsilon(math.sqrt(ours.amount) / MICRO, 1e-6)
    alone = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    alone.compose(dp_event(Gaussian(None, Fraction(12), Neighbours.ADD_REMOVE, 9).event))
    assert alone.get_epsilon(1e-6) >= _epsilon(0.25, 1e-6) * 0.999


def exact_delta(scale: float, sensitivity: int, at: float) -> float:
    """The delta of discrete Laplace noise on one entry that moves by its sensitivity."""
    q = math.exp(-1 / scale)
    masses = [1.0, *((1 - q) * q**k for k in range(1, sensitivity)), q**sensitivity]
    losses = [(sensitivity - 2 * k) / scale for k in range(sensitivity + 1)]
    return sum(m * max(0.0, 1 - math.exp(at - told)) for m, told in zip(masses, losses, strict=True)) / (1 + q)


def told_less(event: Any, scale: int, sensitivity: int) -> bool:
    theirs = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs.compose(event)
    shares = [k * sensitivity / scale / 8 for k in range(8)]
    return any(theirs.get_delta(at) < exact_delta(scale, sensitivity, at) - 1e-9 for at in shares)


@pytest.mark.parametrize(("sensitivity", "scale"), [(1, 1), (2, 8), (3, 2), (1000, 500), (1001, 500), (3000, 6000)])
def test_discrete_laplace_noise_is_exported_as_no_less_than_it_tells(sensitivity: int, scale: int) -> None:
    assert not told_less(dp_event(Laplace(sensitivity, Fraction(scale)).event), scale, sensitivity)


def test_discrete_laplace_noise_exported_as_continuous_is_caught() -> None:
    assert told_less(dp_accounting.LaplaceDpEvent(1.0), 1, 1)
    assert told_less(dp_accounting.LaplaceDpEvent(4.0), 8, 2)


def test_a_step_on_one_of_two_parts_is_exported_as_the_step_it_is() -> None:
    inner = Gaussian(3, Fraction(12)).event
    step = disjoint(inner, "training", {"training": 0, "check": 10**12})
    assert price(step, account(delta="1e-6").terms).amount == 1  # the other part has paid more
    assert dp_event(step) == dp_event(inner)


def _epsilon(mu: float, delta: float) -> float:
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, mu) > delta else (low, middle)
    return high


def test_a_step_that_fails_with_a_probability_has_no_such_event() -> None:
    with pytest.raises(InvalidTask, match="no event for that"):
        dp_event(stated(1, "1e-5", None, "add-remove"))
    label = Event(
        "gaussian", {"sigma_numerator": 2, "sigma_denominator": 1, "sensitivity_squared": 4}, Neighbours.CHANGE_LABEL
    )
    assert dp_event(label).noise_multiplier == pytest.approx(1.0, abs=1e-5)
    assert stated(None, 0, "0.5", "replace").status is Status.OUTSIDE


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "change", [{"sensitivity": None}, {"sensitivity": -3}, {"sensitivity": "3"}, {"over": -8}, {"under": 0}]
)
def test_a_step_that_has_no_price_is_no_event_that_tells_less(name: str, change: dict[str, Any]) -> None:
    noise = "scale" if name == "laplace" else "sigma"
    told = {"sensitivity": 3, "over": 8, "under": 1, **change}
    given = {
        "sensitivity": told["sensitivity"],
        f"{noise}_numerator": told["over"],
        f"{noise}_denominator": told["under"],
    }
    with pytest.raises(OurBug):
        dp_event(Event(name, {key: value for key, value in given.items() if value is not None}))


def test_the_command_line_plans_enters_and_refuses(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from steelyard.cli import main

    ledger = str(tmp_path / "b.db")
    assert main(["account", "open", ledger, "spring", "--unit", "rows", "--epsilon", "1"]) == 0
    given = ["account", "enter", ledger, "spring", "--what", "a tree"]
    assert main([*given, "--epsilon", "0.4", "--plan"]) == 0
    assert "would cost epsilon 0.4" in capsys.readouterr().out
    assert main([*given, "--epsilon", "0.4", "--key", "t"]) == 0
    assert main([*given, "--epsilon", "0.4", "--key", "t"]) == 0
    assert "as stated" in capsys.readouterr().out
    assert main([*given, "--epsilon", "0.7"]) == 3
    assert main([*given, "--mu", "0.1"]) == 3
    assert sy.Ledger(ledger).account("spring").spent.amount == 400_000
