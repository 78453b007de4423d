"""The statistics per user that descents are compared with: what one user can move, and whether it is least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import user_statistics
from steelyard.accounting._prices import price
from steelyard.audit._suite import gaussian
from steelyard.errors import InvalidTask
from steelyard.models._rows import Rows
from steelyard.models._user_sums import SENSITIVITY
from steelyard.noise import TestNoise
from steelyard.privacy import users
from unit.models.user_replay import alike_users, furthest, joined, made_up, newcomers, reordered, rows_of, trace
from user_statistics import UserStatistics, solved, statistics

METHOD = UserStatistics(500_000)


def test_one_user_moves_no_release_by_more_than_its_sensitivity() -> None:
    worst = furthest(METHOD, made_up(), newcomers())
    assert 0.9 < worst <= 1


def test_a_table_of_nobody_is_a_neighbour_too() -> None:
    nobody = Rows(np.empty((0, 3)), np.empty(0), np.empty(0, dtype=np.int64))
    assert furthest(METHOD, nobody, newcomers()) <= 1


def unclipped(vectors: Any, clip: float, weights: Any = None) -> Any:
    return np.rint(vectors * weights[:, None] * (SENSITIVITY / clip)).astype(np.int64)


def weighted_by_the_table(rows: Rows) -> Any:
    found, weights = statistics(rows)
    return found, np.full(weights.size, weights.mean() if weights.size else 1.0)


TWINS = {
    "no clip": (user_statistics, "whole", unclipped),
    "weights of the table": (user_statistics, "statistics", weighted_by_the_table),
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_broken_twins_are_caught_by_the_same_check(twin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    light = (
        made_up(3) if twin[1] == "whole" else rows_of(np.full((60, 3), 0.2), np.ones(60), np.repeat(np.arange(30), 2))
    )
    monkeypatch.setattr(*twin)
    assert furthest(METHOD, light, newcomers()) > 1


def test_the_order_of_rows_changes_no_integer() -> None:
    base = joined(made_up(), newcomers()["many mixed rows"])
    left = trace(METHOD, base)
    right = trace(METHOD, reordered(base, np.random.default_rng(3).permutation))
    assert [seen.values for seen in left.seen] == [seen.values for seen in right.seen]


def test_the_event_costs_exactly_mu() -> None:
    assert price(METHOD.event, gaussian(users("who"))).amount == 500_000**2
    with pytest.raises(InvalidTask):
        UserStatistics(0)


def test_each_users_statistics_are_sums_of_products() -> None:
    rows = made_up(5)
    found, weights = statistics(rows)
    x, y = rows.x / 2.0**18, rows.y / 2.0**18
    assert rows.users is not None
    mine = rows.users == 2
    assert np.allclose(found[2, :6], (x[mine].T @ x[mine])[np.triu_indices(3)], atol=1e-12)
    assert np.allclose(found[2, 6:], x[mine].T @ y[mine], atol=1e-12)
    assert weights[2] == 1 / np.sqrt(mine.sum())


def test_without_noise_to_speak_of_the_solution_is_least_squares() -> None:
    source = np.random.default_rng(4)
    x = source.normal(size=(500, 3))
    gram, moment = x.T @ x, x.T @ (x @ [1.0, -2.0, 0.5])
    assert np.allclose(solved(np.concatenate([gram[np.triu_indices(3)], moment]), 3, 1e-9), [1, -2, 0.5])


def test_noise_alone_does_not_make_a_wild_model() -> None:
    source, lengths = np.random.default_rng(5), []
    for _ in range(300):
        lengths.append(np.linalg.norm(solved(source.normal(size=20), 5, 1.0)))
    assert max(lengths) < 5


def test_many_alike_users_give_their_model() -> None:
    found = UserStatistics(500_000).fit(alike_users(), TestNoise(1)).coefficients
    assert np.abs(found - [0.5, -0.25, 0.0]).max() < 0.12
