"""Priors over many labels: the best variance lies between the two bounds, and the mechanism costs what is told."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels.solve._continuous import Sandwich, _FineLabels, _Lumped, solve_continuous
from steelyard.labels.solve._unbiased import solve_unbiased


def cases() -> list[tuple[list[int], list[float]]]:
    rng, size = np.random.default_rng(3), 40
    spread = sorted(rng.choice(900, size, replace=False).tolist())
    return [
        (list(range(size)), [1.0] * size),
        (spread, rng.dirichlet(np.full(size, 0.3)).tolist()),
        (list(range(size)), np.exp(-np.arange(size) / 5).tolist()),
        (spread, np.where(rng.random(size) < 0.5, 0.0, rng.random(size)).tolist()),
        (list(range(size)), [0.0] * 10 + [1.0] * 20 + [0.0] * 10),
    ]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("epsilon", ["0.3", "2", "6"])
@pytest.mark.parametrize("most", [6, 12, 30])
def test_the_best_variance_lies_between_the_bounds(number: int, epsilon: str, most: int) -> None:
    labels, prior = cases()[number]
    found = solve_continuous(labels, prior, epsilon, tolerance=1e-9, most=most)
    best = solve_unbiased(labels, prior, epsilon)
    assert len(found.nodes.labels) <= most
    assert [found.nodes.lower, found.nodes.upper] == [Fraction(labels[0]), Fraction(labels[-1])]
    assert found.lower_bound <= best.value
    assert best.lower_bound <= found.value
    assert found.mechanism.verify().passed


def rows_of(found: Sandwich, labels: list[int]) -> list[list[Fraction]]:
    """The composed mechanism's table over all labels: round at random to the neighbouring nodes, then randomize."""
    nodes, size = found.nodes.labels, len(found.mechanism.columns)
    rows = []
    for label in labels:
        n = max(i for i, node in enumerate(nodes[:-1]) if node <= label)
        up = (label - nodes[n]) / (nodes[n + 1] - nodes[n])
        below, above = found.mechanism.row(n), found.mechanism.row(n + 1)
        rows.append([((1 - up) * below[j] + up * above[j]) / 2**62 for j in range(size)])
    return rows


@pytest.mark.parametrize("number", range(5))
def test_the_composed_mechanism_is_private_unbiased_and_costs_what_is_told(number: int) -> None:
    labels, prior = cases()[number]
    found = solve_continuous(labels, prior, 1, tolerance=1e-9, most=9)
    rows, outputs = rows_of(found, labels), found.mechanism.outputs
    cost = 0.0
    for label, mass, row in zip(labels, prior, rows, strict=True):
        assert sum(row) == 1
        assert sum(w * z for w, z in zip(row, outputs, strict=True)) == label
        cost += mass * float(sum(w * (z - label) ** 2 for w, z in zip(row, outputs, strict=True)))
    for column in zip(*rows, strict=True):
        assert float(max(column) / min(column)) <= np.exp(1) * (1 + 1e-12)
    assert found.value == pytest.approx(cost / sum(prior), rel=1e-9)


def node_bound(lumped: _Lumped, solution: Any) -> float:
    """The twin: every node's price is paid at the node itself instead of the mean of the labels it stands for."""
    lumped.first = [q * y for q, y in zip(lumped.q, lumped.y, strict=True)]
    return float(lumped._lower(solution, Fraction(2)) * lumped.fine.step**2 / lumped.fine.sums[0][-1])


def test_prices_paid_at_the_nodes_would_prove_too_much_and_are_caught() -> None:
    labels, prior = cases()[0]
    fine = _FineLabels.of(labels, prior)
    lumped = _Lumped(fine, [0, 5, 20, 39])
    solution = solve_unbiased(lumped.labels, lumped.weights, 2)
    best = solve_unbiased(labels, prior, 2)
    assert lumped.judge(solution, Fraction(2), 1e-4).lower_bound <= best.value
    assert node_bound(lumped, solution) > best.value


def test_taking_off_the_second_moment_of_the_nodes_would_prove_too_little_of_a_cost() -> None:
    labels, prior = cases()[0]
    fine = _FineLabels.of(labels, prior)
    lumped = _Lumped(fine, [0, 5, 20, 39])
    solution = solve_unbiased(lumped.labels, lumped.weights, 6)
    best = solve_unbiased(labels, prior, 6)
    assert lumped.judge(solution, Fraction(6), 1e-4).value >= best.lower_bound
    lumped.spread = [0] * len(lumped.spread)
    assert lumped.judge(solution, Fraction(6), 1e-4).value < solve_continuous(labels, prior, 6, 1e-9, 4).value


def test_with_every_label_a_node_the_bounds_meet() -> None:
    labels, prior = cases()[1]
    found = solve_continuous(labels, prior, 3, tolerance=1e-5, most=100)
    assert found.converged
    assert found.gap <= 1e-5


@pytest.mark.parametrize("epsilon", ["0.3", "2"])
def test_ten_thousand_labels_are_proved_to_a_thousandth(epsilon: str) -> None:
    y = np.linspace(0, 400, 10_001).round(2)
    prior = np.exp(-(np.log(np.maximum(y, 0.2) / 40) ** 2) / 2.88) / np.maximum(y, 0.2)
    found = solve_continuous(y, prior, epsilon, tolerance=1e-3)
    assert found.converged
    randomizer = LabelRandomizer(epsilon, 0, 400, nodes=list(found.nodes.labels), prior=found.weights).fit()
    assert randomizer.verify().passed


def test_an_answer_that_misses_its_tolerance_says_so() -> None:
    found = solve_continuous(range(200), [1] * 200, 6, tolerance=1e-6, most=10)
    assert not found.converged
    assert found.gap > 1e-6


@pytest.mark.parametrize("most", [3, 10**6])
def test_too_few_or_too_many_nodes_are_refused(most: int) -> None:
    with pytest.raises(InvalidTask, match="most must be"):
        solve_continuous(range(9), [1] * 9, 1, most=most)
