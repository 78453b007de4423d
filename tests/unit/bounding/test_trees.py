from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.accounting._prices import price
from steelyard.bounding import Histogram
from steelyard.bounding._amounts import Spend
from steelyard.bounding._trees import Tree
from steelyard.errors import InvalidTask
from steelyard.mechanisms._observe import observing
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import Loss, Terms, users
from steelyard.tables import read

PURE = Terms(users("who"), Loss.pure(1000), Fraction(1000))
GAUSSIAN = Terms(users("who"), Loss.mu(1000), Fraction(9), Fraction(1, 10**6))
EDGES = list(range(65))
ROWS: dict[str, list[Any]] = {
    "who": [i % 200 for i in range(600)],
    "x": [float(i * 37 % 64) for i in range(600)],
    "land": ["DE" if i % 2 else "FR" for i in range(600)],
}


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=40))
def test_exact_counts_already_agree(leaves: list[int]) -> None:
    tree = Tree(len(leaves))
    sums = tree.sums(leaves)
    assert len(sums) == tree.levels
    assert sums[-1] == [sum(leaves)]
    assert tree.agree([[float(n) for n in level] for level in sums]) == pytest.approx(leaves)


@given(st.integers(1, 300), st.integers(100, 10**7), st.booleans())
def test_the_levels_together_cost_no_more_than_was_asked(bins: int, micro: int, gaussian: bool) -> None:
    tree, power = Tree(bins), 2 if gaussian else 1
    assert tree.share(Spend(gaussian, micro)).micro ** power * tree.levels <= micro**power


def test_too_little_for_so_many_levels_is_refused() -> None:
    with pytest.raises(InvalidTask, match="too little"):
        Tree(1000).share(Spend(False, 5))


def level_shifts(extra: dict[str, list[Any]], terms: Terms) -> list[tuple[int, int, int]]:
    """For each noised level: the L1 and the squared L2 distance of the neighbours, and the declared sensitivity."""
    task = Histogram("x", epsilon=1, edges=EDGES, cap=3, by="land", keys=["DE", "FR"], ranges=True)
    seen = []
    for data in (ROWS, {name: ROWS[name] + extra[name] for name in ROWS}):
        with observing() as window:
            task.plan(read(data).schema, terms).run(read(data), TestNoise(2))
        seen.append(window)
    shifts = []
    for a, b in zip(*seen, strict=True):
        gaps = [abs(x - y) for x, y in zip(a.values, b.values, strict=True)]
        shifts.append((sum(gaps), sum(g * g for g in gaps), int(str(a.event.parameters["sensitivity"]))))
    return shifts


@pytest.mark.parametrize("terms", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_one_user_moves_every_level_by_no_more_than_declared(terms: Terms) -> None:
    spread: dict[str, list[Any]] = {"who": [999] * 64, "x": [float(i) for i in range(64)], "land": ["DE", "FR"] * 32}
    shifts = level_shifts(spread, terms)
    assert len(shifts) == 7
    for total, square, declared in shifts:
        assert 0 < total <= declared
        assert square <= declared**2


def test_an_l2_bound_on_the_leaves_would_not_hold_for_the_root() -> None:
    """The broken twin: bounding leaves in L2, as a flat Gaussian histogram does, lets the root move by far more."""
    from steelyard.tables import Bins, Capped, Quantity

    alone = read({"who": [1] * 64, "x": [float(i) for i in range(64)]})
    bins = Bins(Quantity("x", Fraction(1)), tuple(EDGES))
    leaves = alone.sums_by_bin(users("who"), Capped(Quantity(None, Fraction(1, 1000)), 3000, "l2"), bins)
    assert Tree(64).sums(leaves)[-1][0] > 3000


def test_the_price_is_at_most_what_was_asked_and_close_to_it() -> None:
    for terms, asked in ((PURE, Loss.pure(1).amount), (GAUSSIAN, None)):
        task = Histogram("x", epsilon=1, edges=EDGES, cap=3, ranges=True)
        flat = Histogram("x", epsilon=1, edges=EDGES, cap=3)
        table = read(ROWS)
        cost, whole = (
            price(task.plan(table.schema, terms).event, terms),
            price(flat.plan(table.schema, terms).event, terms),
        )
        assert cost.amount <= (asked or whole.amount)
        assert cost.amount > 0.999 * whole.amount


def test_long_ranges_are_sharper_than_sums_of_flat_bins() -> None:
    tree, noise, reach = Tree(2048), ExactNoise(), 1500
    zeros = tree.sums([0] * 2048)
    flat = [abs(sum(noise.laplace(Fraction(1000), reach))) for _ in range(150)]
    scale = Fraction(1000) * tree.levels
    held = [abs(sum(tree.agree([noise.laplace(scale, len(level)) for level in zeros])[:reach])) for _ in range(150)]
    assert statistics.fmean(held) < 0.8 * statistics.fmean(flat)


def test_counts_are_right_on_average() -> None:
    task, table = Histogram("x", epsilon=20, edges=[0, 16, 32, 64], cap=3, ranges=True), read(ROWS)
    draws = [
        [count for _, _, count in task.plan(table.schema, PURE).run(table, TestNoise(seed)).value] for seed in range(60)
    ]
    truth = [sum(low <= x < high for x in ROWS["x"]) for low, high in ((0, 16), (16, 32), (32, 64))]
    for found, true in zip(zip(*draws, strict=True), truth, strict=True):
        assert abs(statistics.fmean(found) - true) < 2
