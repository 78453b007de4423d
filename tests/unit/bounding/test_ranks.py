"""The search for quantiles: its exact law on small tables, its price, its rank error, and its twins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting import price, range_to_mu
from steelyard.bounding._amounts import Spend
from steelyard.bounding._ranks import QuantileSearch, level_epsilon
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Exponential
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import MICRO
from unit.bounding.remembered import terms
from unit.mechanisms.fit import needed_mu

CAP, WEIGHT = 2, 2
QUANTILES = {
    1: (Fraction(1, 4),),
    2: (Fraction(1, 5), Fraction(9, 10)),
    3: (Fraction(1, 10), Fraction(1, 2), Fraction(2, 3)),
}


@dataclass
class Tape:
    """Choices that are made as written, each with its exact probability; beyond the end always the first."""

    choices: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    place: int = 0
    chance: float = 0.0

    def next(self, mechanism: Exponential, costs: Sequence[int]) -> int:
        if self.place == len(self.choices):
            self.choices.append(0)
            self.sizes.append(len(costs))
        index = self.choices[self.place]
        self.place += 1
        weights = [-float(mechanism.weight * (cost - min(costs))) for cost in costs]
        self.chance += weights[index] - math.log(math.fsum(map(math.exp, weights)))
        return index

    def turn(self) -> bool:
        """The next tape, or False after the last."""
        while self.choices and self.choices[-1] + 1 == self.sizes[-1]:
            self.choices.pop()
            self.sizes.pop()
        if self.choices:
            self.choices[-1] += 1
        self.place, self.chance = 0, 0.0
        return bool(self.choices)


@dataclass(frozen=True)
class Taped:
    """A mechanism that reads its choice from the tape."""

    inside: Exponential
    tape: Tape

    def choose(self, costs: Sequence[int], noise: Any) -> int:
        return self.tape.next(self.inside, costs)


def law_of(search: QuantileSearch, counts: Sequence[int]) -> dict[tuple[int, ...], float]:
    """The exact law of the search, as log probabilities of its ordered choices."""
    law: dict[tuple[int, ...], float] = {}
    tape = Tape()
    taped = type(
        "TapedSearch", (type(search),), {"mechanism": lambda self, q: Taped(type(search).mechanism(self, q), tape)}
    )
    running = taped(search.quantiles, search.cap, search.spend, search.weight)
    while True:
        running.run(counts, TestNoise(0))
        law[tuple(tape.choices)] = tape.chance
        if not tape.turn():
            return law


def loss(search: QuantileSearch, counts: Sequence[int], unit: Sequence[int]) -> float:
    """The largest log ratio between the laws with and without a unit."""
    less = law_of(search, counts)
    more = law_of(search, [a + b for a, b in zip(counts, unit, strict=True)])
    assert less.keys() == more.keys()
    assert abs(math.fsum(map(math.exp, less.values())) - 1) < 1e-9
    return max(abs(less[way] - more[way]) for way in less)


def search(how_many: int, kind: type[QuantileSearch] = QuantileSearch) -> QuantileSearch:
    return kind(QUANTILES[how_many], CAP, Spend(False, 900_000 * how_many.bit_length()), WEIGHT)


unit_rows = st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(lambda unit: sum(unit) <= CAP * WEIGHT)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=4, max_size=4), unit_rows, st.sampled_from([1, 2, 3]))
def test_one_unit_changes_the_exact_law_by_no_more_than_was_paid(
    counts: list[int], unit: list[int], how_many: int
) -> None:
    asked = search(how_many)
    assert loss(asked, counts, unit) <= float(asked.epsilon) * asked.levels + 1e-9


def telling(search: QuantileSearch, counts: Sequence[int], unit: Sequence[int]) -> float:
    """The least mu that covers the exact laws with and without a unit, both ways."""
    less = law_of(search, counts)
    more = law_of(search, [a + b for a, b in zip(counts, unit, strict=True)])
    laws = [[math.exp(law[way]) for way in less] for law in (less, more)]
    return max(needed_mu(*laws), needed_mu(*reversed(laws)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=4, max_size=4), unit_rows, st.sampled_from([1, 2, 3]))
def test_one_unit_is_hidden_by_the_mu_that_was_paid(counts: list[int], unit: list[int], how_many: int) -> None:
    asked = search(how_many)
    paid = price(asked.event, terms(gaussian=True)).amount
    assert telling(asked, counts, unit) <= math.sqrt(paid) / MICRO + 1e-9


def test_a_unit_split_between_two_parts_costs_one_level_and_not_two() -> None:
    asked = search(3)
    split = loss(asked, [3, 3, 3, 3], [2, 0, 0, 2])
    assert 0.2 * float(asked.epsilon) < split <= float(asked.epsilon) * asked.levels


class OneSensitivity(QuantileSearch):
    """Broken twin: forgets that a cost counts rows times max(numerator, denominator - numerator)."""

    def mechanism(self, quantile: Fraction) -> Exponential:
        return Exponential(self.epsilon, self.cap * self.weight)


class SmallerSide(QuantileSearch):
    """Broken twin: the smaller of the two sides."""

    def mechanism(self, quantile: Fraction) -> Exponential:
        smallest = min(quantile.numerator, quantile.denominator - quantile.numerator)
        return Exponential(self.epsilon, self.cap * self.weight * smallest)


class PaysOnce(QuantileSearch):
    """Broken twin: every level gets the whole price."""

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.spend.micro, 10**6)


class ForgetsTheCap(QuantileSearch):
    """Broken twin: the sensitivity of one row, where a unit has several."""

    def mechanism(self, quantile: Fraction) -> Exponential:
        largest = max(quantile.numerator, quantile.denominator - quantile.numerator)
        return Exponential(self.epsilon, self.weight * largest)


@pytest.mark.parametrize("twin", [OneSensitivity, SmallerSide, PaysOnce, ForgetsTheCap])
def test_a_twin_of_the_search_is_caught(twin: type[QuantileSearch]) -> None:
    paid = float(search(3).epsilon) * search(3).levels
    units = ([4, 0, 0, 0], [0, 0, 0, 4], [2, 0, 0, 2], [0, 4, 0, 0])
    tables = ([0, 0, 0, 0], [9, 0, 0, 0], [0, 0, 0, 9], [6, 6, 6, 6], [1, 0, 20, 1])
    assert max(loss(search(3, twin), counts, unit) for counts in tables for unit in units) > paid * 1.05
    assert max(loss(search(3), counts, unit) for counts in tables for unit in units) <= paid + 1e-9


@pytest.mark.parametrize("twin", [OneSensitivity, SmallerSide, ForgetsTheCap])
def test_a_twin_of_the_search_is_caught_by_its_mu(twin: type[QuantileSearch]) -> None:
    paid = math.sqrt(price(search(3).event, terms(gaussian=True)).amount) / MICRO
    units = ([4, 0, 0, 0], [0, 0, 0, 4], [2, 0, 0, 2], [0, 4, 0, 0])
    tables = ([0, 0, 0, 0], [9, 0, 0, 0], [0, 0, 0, 9], [6, 6, 6, 6], [1, 0, 20, 1])
    assert max(telling(search(3, twin), counts, unit) for counts in tables for unit in units) > paid * 1.05


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("how_many", [1, 2, 3, 4, 7, 8])
def test_the_levels_share_the_price_and_never_exceed_it(how_many: int, gaussian: bool) -> None:
    mine = terms(gaussian=gaussian)
    spend = Spend.read(1, None, mine)
    asked = QuantileSearch(tuple(Fraction(i + 1, how_many + 1) for i in range(how_many)), 3, spend)
    paid = price(asked.event, mine).amount
    allowed = spend.micro ** (2 if gaussian else 1)
    assert paid <= allowed
    assert paid > allowed * (0.9999 if gaussian else 1) - asked.levels


def test_the_event_composes_one_choice_for_each_level() -> None:
    assert [search(n).levels for n in (1, 2, 3)] == [1, 2, 2]
    depth = {
        n: QuantileSearch(tuple(Fraction(i + 1, n + 1) for i in range(n)), 1, Spend(False, 10**6)).levels
        for n in range(1, 17)
    }
    assert all(levels == math.floor(math.log2(n)) + 1 for n, levels in depth.items())


def test_too_little_for_so_many_quantiles_is_refused() -> None:
    asked = QuantileSearch(tuple(Fraction(i, 40) for i in range(1, 40)), 1, Spend(False, 5))
    with pytest.raises(InvalidTask, match="so many quantiles"):
        _ = asked.event


@given(st.integers(1, 10**7), st.integers(1, 12), st.booleans())
@settings(max_examples=40, deadline=None)
def test_equal_steps_together_cost_no_more_than_the_spend(micro: int, levels: int, gaussian: bool) -> None:
    each = level_epsilon(Spend(gaussian, micro), levels)
    if gaussian:
        assert levels * range_to_mu(Fraction(each, 10**6)) ** 2 <= micro**2 if each else True
    else:
        assert levels * each <= micro


@pytest.mark.parametrize("quantile", [Fraction(1, 10), Fraction(1, 2), Fraction(19, 20)])
def test_the_rank_error_is_as_small_as_predicted(quantile: Fraction) -> None:
    asked = QuantileSearch((quantile,), 3, Spend(False, 10**6), 1)
    counts = [40] * 100
    error, noise = asked.error(101), ExactNoise()
    ranks = [abs(sum(counts[: asked.run(counts, noise)[0]]) - float(quantile) * 4000) for _ in range(300)]
    assert sum(rank <= error.interval for rank in ranks) / 300 > 0.92
    assert sum(ranks) / 300 <= error.noise


def test_several_quantiles_are_found_together_and_in_order() -> None:
    asked = QuantileSearch(tuple(Fraction(i, 10) for i in range(1, 10)), 1, Spend(False, 4 * 10**6), 1)
    counts, noise = [100] * 50, ExactNoise()
    for _ in range(25):
        found = asked.run(counts, noise)
        assert found == sorted(found)
        assert all(abs(edge - 5 * (i + 1)) <= 3 for i, edge in enumerate(found))


def test_a_table_without_rows_still_answers() -> None:
    asked = QuantileSearch(QUANTILES[3], 1, Spend(False, 10**6), 1)
    found = asked.run([0] * 50, ExactNoise())
    assert found == sorted(found)
    assert all(0 <= edge <= 50 for edge in found)
