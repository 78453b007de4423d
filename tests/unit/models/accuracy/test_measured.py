"""Noisy statistics: exact sums, a proved distance between neighbours, and the noise the certificate is made for."""

from __future__ import annotations

import base64
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting._gaussian import mu_cap
from steelyard.accounting._prices import price
from steelyard.models._columns import SIZE
from steelyard.models.accuracy import _designs as measured
from steelyard.models.accuracy._crowd import Crowd
from steelyard.models.accuracy._designs import MATRIX, Design, Exact, Noisy, Ridge, best_weight, norm_bound
from steelyard.models.accuracy._family import packed, unpacked
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._ridge import GaussianRidge
from steelyard.models.accuracy._schedule import Failure
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Neighbours, Terms, rows
from unit.models.accuracy.made_up import Array, generated, whole


def distance(design: Design, one: tuple[Array, Array], other: tuple[Array, Array]) -> int:
    """The squared distance between what two single rows put into a measurement."""
    a, b = (design.values(Exact.of_rows(*rows)).tolist() for rows in (one, other))
    return sum((p - q) ** 2 for p, q in zip(a, b, strict=True))


vectors = st.lists(st.floats(-1, 1), min_size=3, max_size=3)


def row(x: list[float], y: float) -> tuple[Array, Array]:
    point = np.array(x)
    length = np.linalg.norm(point)
    return whole(point[None, :] / max(length, 1.0)), np.rint([y * SIZE])


@settings(max_examples=150)
@given(vectors, vectors, st.floats(-1, 1), st.floats(-1, 1), st.integers(1, 45))
def test_replacing_a_row_moves_the_integers_by_no_more_than_the_price_says(
    x: list[float], other: list[float], y: float, label: float, vector: int
) -> None:
    design = Design(SIZE, 3, vector)
    assert distance(design, row(x, y), row(other, label)) <= design.square


def worst(vector: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The pair of rows that the proof finds: cosine -u/2, labels at their bounds."""
    cosine = -((vector / MATRIX) ** 2) / 2
    return row([1, 0, 0], 1), row([cosine, float(np.sqrt(1 - cosine**2)), 0], 1)


@pytest.mark.parametrize("vector", [1, 15, 32, 45])
def test_the_proved_distance_is_reached(vector: int) -> None:
    design = Design(SIZE, 3, vector)
    assert distance(design, *worst(vector)) >= design.square * (1 - 1e-4)


def test_charging_the_distance_of_an_added_row_is_caught() -> None:
    vector = 32
    added = SIZE**4 * (MATRIX**2 + vector**2)
    assert distance(Design(SIZE, 3, vector), *worst(vector)) > added * 1.5


@settings(max_examples=100)
@given(vectors, vectors, st.floats(-1, 1), st.floats(-1, 1), st.integers(1, 45), st.integers(1, 10**9))
def test_rounding_to_coarse_steps_stays_within_the_distance_that_is_priced(
    x: list[float], other: list[float], y: float, label: float, vector: int, cost: int
) -> None:
    design = Design(SIZE, 3, vector)
    coarse, step = design.coarse(cost), design.step(cost)
    a, b = (design.values(Exact.of_rows(*rows), coarse).tolist() for rows in (row(x, y), row(other, label)))
    assert sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) <= step.square
    assert coarse**2 * step.square <= design.square * (1 + 1e-6)
    assert coarse == 1 or 2**42 <= step.sigma < 2**48


def test_rounding_that_is_not_priced_is_caught() -> None:
    design, coarse = Design(2, 3, 1), 4
    zero, one = (Exact(1, 2, np.full((3, 3), k, dtype=object), np.full(3, k, dtype=object), 0) for k in (0, -1))
    moved = design.values(zero, MATRIX * coarse) - design.values(one, MATRIX * coarse)
    plain = design.values(zero) - design.values(one)
    assert int(moved @ moved) * (MATRIX * coarse) ** 2 > int(plain @ plain)


def test_arrays_and_lists_are_measured_alike() -> None:
    exact, design, cost = generated(300, 3, 2).exact, Design(SIZE, 3, 20), 900**2
    wide = Exact(2**40, exact.unit, exact.gram, exact.moment, exact.square)
    assert wide.narrow is None
    assert exact.narrow is not None
    assert design.coarse(cost) > 1
    assert design.values(exact, 8).tolist() == design.values(wide, 8).tolist()
    draws = [
        np.array([design.measure(each, cost, TestNoise(s)) for s in range(300)], dtype=float) for each in (exact, wide)
    ]
    assert np.abs(draws[0].std(axis=0) / draws[1].std(axis=0) - 1).max() < 0.35


@given(st.lists(st.integers(-(2**70), 2**70) | st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_stored_integers_are_read_back(values: list[int]) -> None:
    for held in (values, np.array(values, dtype=object)):
        assert list(unpacked(json.loads(json.dumps(packed(held))))) == values


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=8, max_size=20))
def test_arrays_of_words_are_stored_as_lists_of_them_are_and_nobody_writes_on_what_was_read(values: list[int]) -> None:
    stored = packed(values)
    assert packed(np.array(values)) == stored == base64.b64encode(np.array(values, dtype="<i8").tobytes()).decode()
    with pytest.raises(ValueError, match="read-only"):
        unpacked(stored)[0] = 1  # type: ignore[index]


def test_an_answer_stored_by_an_earlier_version_reads_the_same() -> None:
    words = "//////////8AAAAAAAAAgP////////9/BwAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAgAAAAAAAAADAAAAAAAAAA=="
    assert list(unpacked(words)) == [-1, -(2**63), 2**63 - 1, 7, 0, 1, 2, 3]
    assert list(unpacked(["-1", str(2**70)])) == [-1, 2**70]


@given(st.integers(0, 40), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
def test_coarse_steps_are_multiplied_back_without_overflow(bits: int, values: list[int]) -> None:
    found = measured._times(2**bits, np.array(values, dtype=np.int64))
    assert found.tolist() == [value << bits for value in values]
    narrow = 2**62 // 2**bits
    fitting = np.clip(np.array(values, dtype=np.int64), -narrow, narrow)
    assert measured._times(2**bits, fitting).dtype == np.int64


def pooled(design: Design, ridge: Ridge, levels: list[Any]) -> Noisy:
    pool = measured.PooledDesign(design)
    for cost, values in levels:
        pool.add(cost, values)
    return pool.noisy(ridge)


def test_a_pool_that_grows_is_the_average_of_all_its_levels() -> None:
    exact, design, ridge = generated(300, 3, 2).exact, Design(SIZE, 3, 20), Ridge(300, 3, 0.01)
    levels = [(cost, design.measure(exact, cost, TestNoise(cost))) for cost in (10**6, 10**8, 10**10)]
    costs = np.array([cost for cost, _ in levels], dtype=object)
    average = costs @ np.array([values for _, values in levels], dtype=object) / int(costs.sum())
    noisy = pooled(design, ridge, levels)
    assert np.abs(noisy.vector - (average[6:] / (20 * SIZE**2)).astype(float)).max() <= noisy.slack
    assert noisy.slack < 1e-6


def test_statistics_are_exact_sums() -> None:
    data = generated(2000, 4, 1)
    x, y = (part.astype(np.int64).astype(object) for part in data.rows)
    exact = data.exact
    assert (exact.gram == x.T @ x).all()
    assert (exact.moment == x.T @ y).all()
    assert exact.square == int(y @ y)


def test_a_path_costs_exactly_its_last_level_whatever_the_stops() -> None:
    design, terms = (
        Design(SIZE, 7, 20),
        Terms(rows(neighbours="replace", n=10), mu_cap(Fraction(5), Fraction(1, 10**6))),
    )
    for stops in ([12_345], [1_000, 1_001, 7_777, 12_345], [*range(1, 12_345, 1_543), 12_345]):
        costs = [b**2 - a**2 for a, b in zip([0, *stops], stops, strict=False)]
        assert sum(price(design.step(cost).event, terms).amount for cost in costs) == 12_345**2
    family = GaussianRidge(Goal("loss", 5e-4, 0.9), 7, 0.01, Crowd(rows(neighbours="replace", n=10_000)), Failure(0.1))
    size = family.size()
    assert size is not None
    assert price(size.event, terms).amount == 20_000**2
    assert design.step(5).neighbours is Neighbours.REPLACE


def test_the_average_has_the_variance_the_certificate_assumes() -> None:
    data, design, ridge = generated(300, 3, 2), Design(SIZE, 3, 20), Ridge(300, 3, 0.01)
    matrix, best = data.solve(ridge.penalty)
    costs = [300_000**2, 400_000**2]
    seen = []
    for seed in range(800):
        noise = TestNoise(seed)
        noisy = pooled(design, ridge, [(cost, design.measure(data.exact, cost, noise)) for cost in costs])
        seen.append([*(noisy.matrix - matrix)[np.triu_indices(3)], *(noisy.vector - matrix @ best)])
    variance = design.variance(sum(costs))
    expected = variance * np.array([1, 0.5, 0.5, 1, 0.5, 1, *[1 / design.weight] * 3])
    assert noisy.variance == variance == pytest.approx((2 + design.weight) ** 2 / 2 / (sum(costs) / MICRO**2), rel=1e-6)
    assert np.abs(np.var(seen, axis=0) / expected - 1).max() < 0.25
    assert (np.abs(np.mean(seen, axis=0)) < 5 * np.sqrt(expected / 800)).all()


@settings(max_examples=50)
@given(st.integers(1, 40), st.floats(1e-4, 1), st.integers(0, 10**6))
def test_the_best_model_is_no_longer_than_the_labels_allow(width: int, penalty: float, seed: int) -> None:
    data = generated(50, width, seed)
    square = Fraction(data.exact.square, SIZE**2 * 50)
    assert np.linalg.norm(data.solve(penalty)[1]) <= norm_bound(square, penalty) * (1 + 1e-9)


def test_the_weight_stays_where_the_distance_is_proved() -> None:
    assert all(1 <= best_weight(norm) <= 45 for norm in (1e-3, 0.1, 1, 10, 1e3))
