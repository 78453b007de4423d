"""A cap on rows per user: which rows stay, what a group costs, and a twin that keeps the first rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.accounting._prices import grouped, price, steps
from steelyard.audit._suite import gaussian, pure
from steelyard.errors import InvalidTask, OurBug, ViewRefused
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.models import _passes as passes
from steelyard.models._columns import Features, Numeric
from steelyard.models._losses import LOGISTIC
from steelyard.models._passes import Folded, Reading, Training
from steelyard.models._rows import Classes, Fitted, Rows, kept
from steelyard.models._user_descent import CappedFit
from steelyard.noise import Noise
from steelyard.privacy import Event, composed, rows, users
from steelyard.tables import read
from unit.models.user_replay import furthest, joined, made_up, newcomers, reordered

SECRET = bytes(range(32))
WHO = users("who")


def bag(rows: Rows) -> list[tuple[float, ...]]:
    return sorted(map(tuple, np.column_stack([rows.x, rows.y]).tolist()))


@given(st.integers(1, 12), st.integers(0, 50))
def test_what_is_kept_of_a_user_depends_on_nothing_else(cap: int, seed: int) -> None:
    base, extra = made_up(6, seed=seed), newcomers(heavy=30)["many mixed rows"]
    both = bag(kept(joined(base, extra), cap, SECRET))
    assert both == sorted(bag(kept(base, cap, SECRET)) + bag(kept(extra, cap, SECRET)))
    shuffled = reordered(joined(base, extra), np.random.default_rng(seed).permutation)
    assert bag(kept(shuffled, cap, SECRET)) == both


def first_rows(rows: Rows, cap: int) -> Rows:
    """The twin: keeps what lies first."""
    assert rows.users is not None
    places = [np.flatnonzero(rows.users == user)[:cap] for user in np.unique(rows.users)]
    chosen = np.concatenate(places)
    return Rows(rows.x[chosen], rows.y[chosen], None)


def test_keeping_the_first_rows_is_caught_by_the_same_check() -> None:
    base = made_up(6)
    shuffled = reordered(base, np.random.default_rng(1).permutation)
    assert bag(first_rows(base, 2)) != bag(first_rows(shuffled, 2))


def test_light_users_keep_all_and_heavy_ones_exactly_the_cap() -> None:
    base = made_up(30)
    assert base.users is not None
    sizes = np.bincount(base.users)
    assert len(kept(base, 4, SECRET).y) == np.minimum(sizes, 4).sum()
    assert bag(kept(base, 99, SECRET)) == bag(base)
    again = joined(base, base)  # every row twice: identical rows count apart
    assert len(kept(again, 4, SECRET).y) == np.minimum(2 * sizes, 4).sum()


def test_every_row_is_as_likely_to_stay_as_any_other() -> None:
    base = Rows(np.arange(30.0)[:, None], np.zeros(30), np.zeros(30, dtype=np.int64))
    counts = np.zeros(30)
    for seed in range(600):
        counts[kept(base, 10, seed.to_bytes(32, "little")).x[:, 0].astype(int)] += 1
    assert ((counts - 200) ** 2 / (200 * 2 / 3)).sum() < 65  # chi-squared, 29 degrees: 1 in 6000 beyond


@dataclass(frozen=True)
class RowSum:
    """A row-level method: the noisy sum of the rows."""

    sigma: Fraction
    members: int = 1

    @property
    def mechanism(self) -> Gaussian:
        return Gaussian(self.members * 2**18, self.sigma)

    @property
    def event(self) -> Event:
        return Gaussian(2**18, self.sigma).event

    def fit(self, data: Training, noise: Noise) -> Fitted:
        return Fitted(np.array(self.mechanism.release([int(v) for v in data.rows().x.sum(axis=0)], noise), dtype=float))


def test_a_user_moves_a_capped_sum_by_at_most_the_group() -> None:
    sigma = Fraction(2**20)
    worst = furthest(CappedFit(RowSum(sigma, 5), 5), made_up(), newcomers())
    assert 0.9 < worst <= 1
    assert furthest(CappedFit(RowSum(sigma, 4), 5), made_up(), newcomers()) > 1
    method = CappedFit(RowSum(sigma), 5)
    assert price(method.event, gaussian(WHO)) == price(Gaussian(5 * 2**18, sigma).event, gaussian(WHO))


def test_a_group_costs_its_size_in_epsilon_and_in_mu() -> None:
    step = Laplace(1, Fraction(10)).event
    assert price(grouped(step, 4), pure(WHO)).amount == 4 * price(step, pure(WHO)).amount
    normal = Gaussian(1, Fraction(10)).event
    assert price(grouped(normal, 3), gaussian(WHO)).amount == 9 * price(normal, gaussian(WHO)).amount
    both = composed(normal, steps(normal, 4))
    assert price(both, gaussian(WHO)).amount == 5 * price(normal, gaussian(WHO)).amount
    assert price(grouped(both, 3), gaussian(WHO)).amount == 45 * price(normal, gaussian(WHO)).amount
    assert Event.from_json(grouped(both, 3).to_json()) == grouped(both, 3)
    assert grouped(grouped(normal, 2), 3) == grouped(normal, 6)


def test_groups_and_steps_that_mean_nothing_are_refused() -> None:
    normal = Gaussian(1, Fraction(10)).event
    with pytest.raises(OurBug):
        price(grouped(normal, 0), gaussian(WHO))
    with pytest.raises(OurBug):
        steps(Laplace(1, Fraction(1)).event, 3)
    for cap in (0, -1, True, 2.5):
        with pytest.raises(InvalidTask):
            CappedFit(RowSum(Fraction(1)), cap)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask):
        kept(Rows(np.zeros((1, 1)), np.zeros(1), None), 1, SECRET)


def behind(owners: list[int], each: int = 40) -> Any:
    """So many different rows of each user, behind a table."""
    places = np.concatenate([1000 * owner + np.arange(each) for owner in owners])
    table = read({"who": np.repeat(owners, each), "a": places / 10_000, "y": places % 2})
    return Reading(table, Features([Numeric("a", 0, 1)]), Classes("y", [0, 1]), WHO).of(2)


def test_rows_behind_a_table_are_chosen_there_and_each_users_by_themselves() -> None:
    both, one = (behind(owners).capped(7, SECRET).rows() for owners in ([3, 5], [3]))
    assert both.users is None
    assert (len(both.y), len(one.y)) == (14, 7)
    assert set(bag(one)) < set(bag(both))
    assert bag(behind([3]).capped(7, bytes(32)).rows()) != bag(one)


def test_passes_over_a_long_sample_are_those_over_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = behind([1, 2, 3]).capped(5, SECRET)
    near = sample.passes(LOGISTIC).sums(np.array([0.5, -0.25]))
    monkeypatch.setattr(passes, "LIMIT", 0)
    far = behind([1, 2, 3]).capped(5, SECRET).passes(LOGISTIC)
    assert isinstance(far, Folded)
    assert far.sums(np.array([0.5, -0.25])).count == near.count == 15


def test_a_sample_of_users_is_no_table_of_single_rows() -> None:
    chosen = behind([1, 2]).capped(5, SECRET).all
    with pytest.raises(ViewRefused):
        _ = Reading(chosen.table, chosen.features, chosen.label, rows()).stored
