"""Neighbour replay: clean on sound tasks, and every broken twin is named by the right check."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from audit.plain import PlainTable
from audit.twins import TASKS, Honest, IgnoresUpper
from steelyard.audit import audit, replay
from steelyard.audit._corpus import Corpus, floats, texts
from steelyard.audit._suite import gaussian, pure
from steelyard.bounding import Count, Sum
from steelyard.mechanisms import Exponential, Gaussian
from steelyard.noise import Noise
from steelyard.plan import Outcome
from steelyard.privacy import Neighbours, Terms, rows, users
from steelyard.tables import Quantity

WHO = pure(users("who"))
COLUMNS = {"who": texts(), "amount": floats(9.0, 10.0, 11.0, -4.0), "land": texts("FR", "DE")}


def broken(task: Any, terms: Terms = WHO, **options: Any) -> dict[str, str]:
    corpus = Corpus(terms.unit, COLUMNS, **options)
    return {check.name: check.text for check in replay(task, terms, corpus, open_table=PlainTable) if not check.ok}


@pytest.mark.parametrize("seed", range(3))
def test_an_honest_task_is_clean(seed: int) -> None:
    assert broken(Honest(), seed=seed, share=1) == {}


@pytest.mark.parametrize("twin", TASKS, ids=lambda twin: str(twin.__name__))
def test_each_broken_twin_is_caught_by_the_check_that_names_its_fault(twin: type[Honest]) -> None:
    assert TASKS[twin] in broken(twin())


@pytest.mark.parametrize("twin", TASKS, ids=lambda twin: str(twin.__name__))
def test_each_broken_twin_is_caught_even_on_few_tables(twin: type[Honest]) -> None:
    assert broken(twin(), share=9)


@pytest.mark.parametrize("terms", [WHO, gaussian(users("who")), pure(rows()), pure(rows(neighbours="replace", n=20))])
@pytest.mark.parametrize("lower", [0, -1, -300])
def test_sums_with_uneven_bounds_are_clean_on_every_account(terms: Terms, lower: int) -> None:
    assert broken(Sum("amount", epsilon="1", cap=7, lower=lower), terms, share=2) == {}
    assert broken(Count(epsilon="1", cap=4), terms) == {}


@pytest.mark.slow
def test_a_hundred_thousand_neighbour_pairs_are_clean() -> None:
    for seed in range(400):
        assert broken(Sum("amount", epsilon="1", cap=7, lower=-300), seed=seed, share=1) == {}


def test_the_finding_says_how_far_and_for_which_neighbour() -> None:
    text = broken(IgnoresUpper())["distance"]
    assert "L1 distance 10 where 3 is declared" in text
    assert "one unit added" in text or "removed" in text


def test_a_gaussian_distance_is_measured_in_squares() -> None:
    class TwoCells(Honest):
        """Moves two cells at once and declares one."""

        square = 1

        def event(self, schema: PlainTable) -> Any:
            return Gaussian(None, Fraction(2), squared_sensitivity=self.square).event

        def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
            users = len(table.totals(terms.unit, Quantity()))
            mechanism = Gaussian(None, Fraction(2), squared_sensitivity=self.square)
            return Outcome(mechanism.release([users, users], noise), None)

    class Declared(TwoCells):
        square = 2

    account = gaussian(users("who"))
    assert "squared L2 distance 2 where 1 is declared" in broken(TwoCells(), account)["distance"]
    assert broken(Declared(), account) == {}


def test_a_replaced_row_may_move_an_add_remove_step_twice() -> None:
    swapped = pure(rows(neighbours="replace", n=20))
    assert broken(Honest(lower=-10, upper=10), swapped, share=1) == {}
    assert swapped.unit.neighbours is Neighbours.REPLACE


def test_an_adaptive_second_step_is_compared_at_the_same_transcript() -> None:
    class TwoSteps(Honest):
        """Chooses its second cap from the first release, as a sound automatic cap does."""

        def event(self, schema: PlainTable) -> Any:
            from steelyard.mechanisms import Laplace

            return Laplace(1, Fraction(1)).event

        def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
            from steelyard.mechanisms import Laplace

            first = Laplace(1, Fraction(2)).release([len(table.totals(terms.unit, Quantity()))], noise)[0]
            cap = max(1, abs(first))
            second = Laplace(cap, Fraction(2 * cap)).release([table.capped_sum(terms.unit, Quantity(), 0, cap)], noise)
            return Outcome([first, second[0]], None, {"cap": cap})

    assert broken(TwoSteps(), share=1) == {}


def test_a_choice_is_measured_by_its_costs_and_not_steered() -> None:
    class Chooser(Honest):
        """Picks a key by the exponential mechanism."""

        step = 1

        def event(self, schema: PlainTable) -> Any:
            return Exponential(Fraction(1), self.step).event

        def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
            costs = [-n * 2 for n in table.groups(terms.unit, "land", ["FR", "DE"]).values()]
            return Outcome(Exponential(Fraction(1), self.step).choose(costs, noise), None)

    class Declared(Chooser):
        step = 2

    assert "largest distance 2 where 1" in broken(Chooser())["distance"]
    assert broken(Declared()) == {}


def test_a_task_that_always_fails_is_not_called_clean() -> None:
    class Fails(Honest):
        """Never answers."""

        def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
            raise KeyError("always")

    assert "every run failed" in broken(Fails())["errors"]


def test_columns_are_found_by_asking_the_task() -> None:
    verdict = audit(Sum("spend", epsilon="1", cap=5), terms=WHO, open_table=PlainTable)
    assert verdict.ok
    assert "pairs" in str(verdict)


def test_a_sum_through_the_real_engine_is_clean() -> None:
    verdict = audit(Sum("amount", epsilon="1", cap=7, lower=-300), terms=WHO, share=30)
    assert verdict.ok, verdict
