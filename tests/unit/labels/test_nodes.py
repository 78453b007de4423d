"""Rounding to nodes: total, exactly fair, and the same for every container."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.labels._nodes import COIN, Nodes

GRID = 1 << COIN


def mean_node(nodes: Nodes, label: float) -> Fraction:
    """The expected node of a label over all coins, exactly: how many of the 2^24 coins send it up."""
    below, steps = nodes.places(np.array([label]))
    here = nodes.labels[int(below[0])]
    above = nodes.labels[min(int(below[0]) + 1, len(nodes.labels) - 1)]
    return here + (above - here) * Fraction(int(steps[0]), GRID)


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([None, 2, 7]), st.integers(0, 2**32 - 1))
def test_every_float_is_rounded_to_a_neighbouring_node(label: float, count: int | None, coin: int) -> None:
    for nodes in (Nodes.of(-3, 5, count), Nodes.of(0, 1, [0, "0.1", "0.5", 1])):
        index = int(nodes.round(np.array([label]), np.array([coin], np.uint32))[0])
        assert 0 <= index < len(nodes.labels)
        inside = min(max(label, float(nodes.lower)), float(nodes.upper)) if math.isfinite(label) else float(nodes.lower)
        widest = max(float(b - a) for a, b in zip(nodes.labels, nodes.labels[1:], strict=False))
        assert abs(float(nodes.labels[index]) - inside) <= widest * (1 + 2**-20)


@given(st.floats(-3, 5))
def test_the_node_is_right_on_average_to_half_a_step_of_the_fine_grid(label: float) -> None:
    for nodes in (Nodes.of(-3, 5, 5), Nodes.of(-3, 5, [-3, 0, "0.25", 5])):
        widest = max(b - a for a, b in zip(nodes.labels, nodes.labels[1:], strict=False))
        assert abs(mean_node(nodes, label) - Fraction(label)) <= widest / GRID


def test_the_coin_goes_up_for_exactly_as_many_words_as_there_are_steps() -> None:
    nodes = Nodes.of(0, 1, 2)
    label = np.full(9, 5 / GRID)
    coins = (np.arange(9, dtype=np.uint64) << np.uint64(8)).astype(np.uint32)
    assert nodes.round(label, coins).tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert nodes.round(label, coins | np.uint32(255)).tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 0]


def test_integer_labels_on_integer_nodes_need_no_coin() -> None:
    nodes = Nodes.of(0, 400)
    labels = np.arange(401.0)
    for coin in (0, 2**32 - 1):
        assert nodes.round(labels, np.full(401, coin, np.uint32)).tolist() == list(range(401))


def test_a_wide_or_fractional_range_gets_even_nodes() -> None:
    assert len(Nodes.of(0, 10**6).labels) == 257
    assert len(Nodes.of("0.5", "2").labels) == 257
    assert Nodes.of(0, 10**6).even
    assert not Nodes.of(0, 4, [0, 1, 4]).even


@pytest.mark.parametrize(
    ("lower", "upper", "nodes"),
    [(1, 1, None), (2, 1, None), (0, 1, 1), (0, 1, 10**6), (0, 1, [0, 2]), (0, math.inf, None), (0, 1, [0, 1, 1])],
)
def test_ranges_and_nodes_that_make_no_sense_are_refused(lower: float, upper: float, nodes: object) -> None:
    with pytest.raises(InvalidTask):
        Nodes.of(lower, upper, nodes)  # type: ignore[arg-type]
