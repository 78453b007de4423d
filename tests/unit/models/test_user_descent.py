"""The descents per user, for every loss: what one user can move, on any table, and twins that let it move more."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard.accounting._prices import price
from steelyard.audit._suite import gaussian
from steelyard.errors import InvalidTask
from steelyard.models import _user_rows as user_rows
from steelyard.models._columns import Features, Numeric
from steelyard.models._losses import LOGISTIC, SQUARED
from steelyard.models._rows import Rows
from steelyard.models._user_descent import UserDescent
from steelyard.models._user_rows import Gradients, UserRows
from steelyard.models._user_sums import SENSITIVITY, UserSum, whole
from steelyard.noise import TestNoise
from steelyard.privacy import users
from steelyard.tables import _unit_blocks as unit_blocks
from unit.models.user_replay import alike_users, furthest, joined, made_up, newcomers, reordered, rows_of, trace

MODES = {
    "private rows": UserDescent(2_000_000),
    "public rows": UserDescent(2_000_000, 5_000),
    "linear": UserDescent(2_000_000, None, SQUARED),
    "linear, public rows": UserDescent(2_000_000, 900, SQUARED),
}


@pytest.mark.parametrize("method", MODES.values(), ids=MODES)
def test_one_user_moves_no_release_by_more_than_its_sensitivity(method: UserDescent) -> None:
    worst = furthest(method, made_up(), newcomers())
    assert 0.9 < worst <= 1  # heavy newcomers do reach for the bound, so the check can fail


def test_users_alone_and_tables_of_nobody_are_neighbours_too() -> None:
    nobody = Rows(np.empty((0, 3)), np.empty(0), np.empty(0, dtype=np.int64))
    assert furthest(UserDescent(2_000_000), nobody, newcomers()) <= 1


def weights_from_the_table(sizes: Any) -> Any:
    return np.full(sizes.size, 1 / np.sqrt(max(sizes.mean(), 1e-9)) if sizes.size else 1.0)


def weights_of_another_user(sizes: Any) -> Any:
    return np.roll(1 / np.sqrt(sizes.astype(float)), 1)


def clip_after_summing(self: Gradients, blocks: Any) -> Any:
    weighted = [
        vectors * (user_rows.root_weights(sizes)[:, None] if self.rooted else 1.0)
        for vectors, sizes in self.vectors(blocks)
    ]
    total = np.sum([np.zeros(self.theta.size), *(each.sum(axis=0) for each in weighted)], axis=0)
    return [whole(total[None, :] * 50, 50 * self.clip)[0] * 50]


def sums_cut_at_blocks(blocks: Any, terms: Any) -> Any:
    """Whoever spans two blocks counts as two users."""
    for rows, first in blocks:
        yield from BY_USER(iter([(rows, first)]), terms)


BY_USER = user_rows.by_user


def clip_by_row_count(vectors: Any, clip: float, weights: Any = None) -> Any:
    shares = 1.0 if weights is None else weights[:, None]
    return np.rint(vectors * shares * (SENSITIVITY / 8)).astype(np.int64)


TWINS = {
    "weights from the table's n": (user_rows, "root_weights", weights_from_the_table),
    "weights from another user's rows": (user_rows, "root_weights", weights_of_another_user),
    "clip after summing": (Gradients, "__call__", clip_after_summing),
    "clip by row count only": (user_rows, "whole", clip_by_row_count),
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_broken_twins_are_caught_by_the_same_check(twin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*twin)
    assert furthest(MODES["private rows"], made_up(), newcomers()) > 1


@pytest.mark.parametrize("twin", [None, sums_cut_at_blocks])
def test_a_user_whose_rows_span_blocks_is_one_user(twin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_blocks, "ROWS", 500)
    if twin is not None:
        monkeypatch.setattr(user_rows, "by_user", twin)
    worst = furthest(MODES["private rows"], made_up(), newcomers())
    assert worst > 1 if twin is not None else 0.9 < worst <= 1


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=["logistic", "linear"])
def test_the_size_of_blocks_and_where_they_are_kept_change_no_digit(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    base = joined(made_up(), newcomers()["many mixed rows"])
    method = UserDescent(2_000_000, None, loss)
    wanted = method.fit(base, TestNoise(4))
    for rows, memory in ((50, 1 << 28), (333, 0), (10_000, 0)):
        monkeypatch.setattr(unit_blocks, "ROWS", rows)
        monkeypatch.setattr(unit_blocks, "MEMORY", memory)
        found = method.fit(base, TestNoise(4))
        assert found.coefficients.tolist() == wanted.coefficients.tolist()
        assert found.details == wanted.details


def test_a_table_with_row_count_taken_from_the_rows_is_caught() -> None:
    base, extra = made_up(), newcomers()["many mixed rows"]
    left = trace(UserDescent(2_000_000, base.y.size), base)
    more = joined(base, extra)
    right = trace(UserDescent(2_000_000, more.y.size), more, left.written)
    assert left.fitted.details != right.fitted.details  # what is declared shows, so it must not come from the rows


def test_the_order_of_rows_changes_no_integer() -> None:
    base = joined(made_up(), newcomers()["many mixed rows"])
    method = UserDescent(2_000_000)
    left = trace(method, base)
    for change in (lambda i: i[::-1], np.random.default_rng(3).permutation):
        right = trace(method, reordered(base, change))
        assert [seen.values for seen in left.seen] == [seen.values for seen in right.seen]


def test_the_event_is_known_before_any_row_and_costs_no_more_than_mu() -> None:
    for micro in (4_000, 77_000, 236_704, 5_000_000):
        method = UserDescent(micro, 10)
        cost = price(method.event, gaussian(users("who"))).amount
        assert micro**2 * 0.999 < cost <= micro**2
        done = trace(method, made_up(8))
        assert sum(price(seen.event, gaussian(users("who"))).amount for seen in done.seen) <= cost


def test_budgets_and_row_counts_that_promise_nothing_are_refused() -> None:
    for micro in (0, 1, 5, True, 0.5):
        with pytest.raises(InvalidTask):
            UserDescent(micro)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask):
        UserDescent(1000, 0)
    with pytest.raises(InvalidTask):
        UserDescent(100_000).fit(replace(made_up(), users=None), TestNoise(1))


def test_values_that_are_no_numbers_change_nothing_about_the_bound() -> None:
    features = Features((Numeric("a", -1, 1), Numeric("b", 0, 1e190)))
    nasty = [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, None, 5e-324, 0.0]
    batch = pa.RecordBatch.from_pydict({"a": nasty * 40, "b": nasty[::-1] * 40})
    x = np.ascontiguousarray(features.whole(batch).T)
    extra = Rows(x, np.ones(len(x)), np.full(len(x), 777))
    base = made_up(width=features.width)
    assert furthest(UserDescent(2_000_000), base, {"nasty": extra}) <= 1


def each_gradient(rows: Rows, loss: Any, theta: Any) -> Any:
    found: list[Any] = []

    def listen(blocks: Any) -> list[Any]:
        found.extend(vectors for vectors, _ in Gradients(loss, theta, 1.0, False).vectors(blocks))
        return []

    UserRows.of(rows, loss).blocks.fold(listen, [])
    return np.concatenate(found)


def test_a_user_with_a_million_rows_is_summed_exactly_and_clipped() -> None:
    heavy = rows_of(np.full((10**6, 2), 0.7), np.ones(10**6), np.full(10**6, -5))
    theta = np.array([0.25, -0.125])
    gradient = each_gradient(joined(heavy, made_up(users=3, width=2)), LOGISTIC, theta)[0]
    once = each_gradient(rows_of([[0.7, 0.7]], [1.0], [0]), LOGISTIC, theta)[0]
    assert gradient.tolist() == (10**6 * once).tolist()
    assert int((whole(gradient[None, :], 5.0).astype(object) ** 2).sum()) <= SENSITIVITY**2


def test_gradients_are_those_of_the_logistic_loss() -> None:
    rows, theta = made_up(), np.array([1.5, -2.0, 0.3])
    x, y = rows.x / 2.0**18, np.sign(rows.y)
    assert rows.users is not None
    slopes = -(y / (1 + np.exp(y * (x @ theta))))[:, None] * x
    wanted = np.stack([slopes[rows.users == user].sum(axis=0) for user in np.unique(rows.users)])
    assert np.abs(each_gradient(rows, LOGISTIC, theta) - wanted).max() < 2e-3


def test_gradients_are_those_of_half_the_squared_error() -> None:
    rows, theta = made_up(9), np.array([0.5, -1.0, 0.3])
    x, y = rows.x / 2.0**18, rows.y / 2.0**18
    assert rows.users is not None
    slopes = (x @ theta - y)[:, None] * x
    wanted = np.stack([slopes[rows.users == user].sum(axis=0) for user in np.unique(rows.users)])
    assert np.abs(each_gradient(rows, SQUARED, theta) - wanted).max() < 1e-3


def first_users_gradient_for_all(self: Gradients, blocks: Any) -> Any:
    for vectors, sizes in HONEST(self, blocks):
        yield vectors + vectors[:1] / 50, sizes


HONEST = Gradients.vectors


def test_gradients_that_borrow_from_another_user_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gradients, "vectors", first_users_gradient_for_all)
    assert furthest(MODES["linear"], made_up(300), newcomers()) > 1


class AlikeButSecure(TestNoise):
    """Seeded noise that passes for secure, and keeps what it drew."""

    secure = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[list[int]] = []

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        self.drawn.append(super().normal(sigma, size))
        return self.drawn[-1]

    def normal_array(self, sigma: Fraction, size: int) -> Any:
        found = super().normal_array(sigma, size)
        self.drawn += found.reshape(40, -1).tolist()
        return found


class Told(TestNoise):
    """Hands out noise that was drawn before, a release at a time."""

    def __init__(self, drawn: list[list[int]]) -> None:
        super().__init__(0)
        self.left = list(drawn)

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        return self.left.pop(0)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=["logistic", "linear"])
def test_noise_drawn_ahead_is_added_as_noise_drawn_step_by_step_is(loss: Any) -> None:
    method, rows, ahead = UserDescent(2_000_000, None, loss), made_up(), AlikeButSecure(3)
    found = method.fit(rows, ahead)
    stepwise = Told(ahead.drawn)
    again = method.fit(rows, stepwise)
    assert found.coefficients.tolist() == again.coefficients.tolist()
    assert found.details == again.details
    assert not stepwise.left


def test_no_sum_of_users_depends_on_the_floats_beside_it() -> None:
    rows = made_up(200)
    theta = np.array([3.1, -0.7, 11.9])
    alone = each_gradient(Rows(rows.x[:1], rows.y[:1], np.zeros(1, dtype=np.int64)), LOGISTIC, theta)
    apart = each_gradient(Rows(rows.x, rows.y, np.arange(rows.y.size)), LOGISTIC, theta)
    assert apart[0].tolist() == alone[0].tolist()


def spread_users(seed: int, rows: int = 20_000) -> tuple[Rows, Any, Any]:
    source = np.random.default_rng(seed)
    x = source.normal(size=(rows + 4000, 5))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    y = np.where(source.random(rows + 4000) < 1 / (1 + np.exp(-5 * x[:, 0])), 1.0, -1.0)
    owners = source.zipf(1.5, rows).clip(max=5000)
    return rows_of(x[:rows], y[:rows], owners), x[rows:], y[rows:]


def test_the_model_is_far_better_than_none_on_users_who_are_alike() -> None:
    losses = []
    for seed in range(4):
        rows, x, y = spread_users(seed)
        theta = UserDescent(400_000, 20_000).fit(rows, TestNoise(seed)).coefficients
        losses.append(np.logaddexp(0, -y * (x @ theta)).mean())
    assert max(losses) < 0.62
    assert np.mean(losses) < 0.58  # no model: 0.693


@pytest.mark.parametrize("declared", [None, 30_000])
def test_many_alike_users_give_their_linear_model(declared: int | None) -> None:
    rows = alike_users()
    found = UserDescent(500_000, declared, SQUARED).fit(rows, TestNoise(1)).coefficients
    assert np.abs(found - [0.5, -0.25, 0.0]).max() < 0.12


def test_a_fit_of_many_rows_takes_little_time() -> None:
    source = np.random.default_rng(1)
    owners = source.zipf(1.3, 100_000).clip(max=30_000)
    x = source.normal(size=(100_000, 10)) / 4
    rows = rows_of(x, np.sign(x[:, 0]), owners)
    begun = time.process_time()
    UserDescent(236_704).fit(rows, TestNoise(1))
    assert time.process_time() - begun < 4


def test_heavy_users_beyond_hearing_are_warned_of_from_released_facts_alone() -> None:
    rows = made_up(300)
    crowd = UserDescent(3_000_000, int(rows.y.size)).fit(rows, TestNoise(2))
    assert "warning" not in crowd.details
    few = UserDescent(3_000_000, 50 * rows.y.size).fit(rows, TestNoise(2))
    assert "declared public_rows" in few.details["warning"]
    assert few.details["trust"] < crowd.details["trust"] <= 1


def test_a_sum_over_users_has_the_promised_noise() -> None:
    sums = UserSum(10**12 // 4)
    assert sums.mechanism.mu_squared <= Fraction(1, 4)
    assert abs(float(sums.mechanism.mu_squared) - 0.25) < 1e-9
    total = whole(np.ones((3, 2)), 10.0).sum(axis=0)
    drawn = np.array([sums.release(total, 10.0, TestNoise(seed)) for seed in range(400)])
    assert np.abs(drawn.mean(axis=0) - 3).max() < 5
    assert np.abs(drawn.std(axis=0) - 20).max() < 3
