"""Searches over more rows than are held in memory: blocks tell what memory tells, and a user may span them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.models._columns import Features, Numeric
from steelyard.models._rows import Classes
from steelyard.models.accuracy._held import Passed, SplitPart, means
from steelyard.models.accuracy._losses import GRID, MARGIN, LoggedLoss, added
from steelyard.models.accuracy._split import Split, TableRows, Whole
from steelyard.noise import TestNoise
from steelyard.privacy import rows, users
from steelyard.session import Session
from steelyard.tables import _engine, _unit_blocks, read
from unit.models.accuracy.combinations import MODELS, TABLE, TASKS, Combination
from unit.models.accuracy.combinations import units as units_of

FEATURES = Features([Numeric("a", 0, 1), Numeric("b", 0, 1)])
CLASSES = Classes("c", (0, 1))
LOOK = LoggedLoss((2**GRID, -(2**GRID), 0), 0.5, 3 << MARGIN)
DRAWS = np.random.default_rng(7)
N = 2000
SKEWED = read(
    {
        "a": DRAWS.uniform(size=N),
        "b": DRAWS.uniform(size=N),
        "c": DRAWS.integers(0, 3, N),
        "who": np.where(np.arange(N) % 3 == 0, 0, DRAWS.integers(0, 300, N)),
    }
)


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is few, and blocks are short: most users span them."""
    monkeypatch.setattr(_unit_blocks, "MEMORY", 0)
    for module in (_unit_blocks, _engine):
        monkeypatch.setattr(module, "ROWS", 61)


def told(each: Combination) -> list[Any]:
    """What a search hands out, what it took, and what it cost."""
    at = each.account()
    found = each.ask(at, each.amounts[1])
    return [found.coef_.tolist(), found.intercept_, found.path_, at.remaining.amount]


@pytest.mark.parametrize("each", MODELS, ids=str)
def test_a_search_over_blocks_releases_the_very_numbers_of_one_in_memory(each: Combination, request: Any) -> None:
    before = told(each)
    request.getfixturevalue("on_disk")
    assert told(each) == before


def test_an_excess_of_a_classifier_is_drawn_alike(request: Any) -> None:
    from steelyard.models.accuracy._estimator import AccuracyFirst

    def drawn() -> Any:
        at = Combination("logistic", "1e-6", "auto", units_of("users", replaced=True)).account()
        first = AccuracyFirst(TASKS["logistic"], excess_loss=0.3, penalty=0.05)
        first.release(Session(TABLE, at, noise=TestNoise(3)), key="k")
        return [first.coef_.tolist(), first.intercept_, at.remaining.amount]

    before = drawn()
    request.getfixturevalue("on_disk")
    assert drawn() == before


def parts(whose: str | None) -> list[SplitPart | Passed]:
    unit = rows() if whose is None else users(whose)
    found = Split().parts(SKEWED, FEATURES, CLASSES, unit)
    return [found.train, found.check, Whole(SKEWED, FEATURES, CLASSES, unit)._rows]


@pytest.mark.parametrize("whose", [None, "who"])
def test_every_sum_over_blocks_is_that_of_memory(whose: str | None, request: Any) -> None:
    few = parts(whose)
    request.getfixturevalue("on_disk")
    theta = np.array([0.5, -1.0, 0.25])
    for one, other in zip(few, parts(whose), strict=True):
        assert isinstance(one, SplitPart)
        assert isinstance(other, Passed)
        assert (one.units, one.summed(LOOK.each)) == (other.units, other.summed(LOOK.each))
        assert (one.exact.gram == other.exact.gram).all()
        assert (one.exact.moment == other.exact.moment).all()
        assert (one.exact.square, one.exact.unit, one.exact.n) == (other.exact.square, other.exact.unit, other.exact.n)
        for target in (1, 2):
            a, b = (held.against(target).sums(theta) for held in (one, other))
            assert np.allclose(a.pull.astype(float), b.pull.astype(float), rtol=1e-12)
            assert np.allclose(a.hessian, b.hessian, rtol=1e-5)
            assert (
                a.count <= b.count <= a.count + 1
            )  # a block rounds no weight up to a row, or doubles could certify nothing


losses = st.lists(st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=9), max_size=8)


def blocks(users: list[list[int]], size: int) -> Iterator[Any]:
    """The users' losses in blocks of so many rows."""
    lost = np.array([value for each in users for value in each], dtype=np.int64)
    first = np.array([place == 0 for each in users for place in range(len(each))], dtype=np.bool_)
    return iter([(lost[i : i + size], first[i : i + size]) for i in range(0, len(lost), size)])


@settings(max_examples=150, deadline=None)
@given(losses, st.integers(1, 7))
def test_a_users_mean_does_not_know_where_a_block_ends(given_losses: list[list[int]], size: int) -> None:
    owners = np.repeat(np.arange(len(given_losses)), [len(each) for each in given_losses]).astype(np.int64)
    lost = np.array([value for each in given_losses for value in each], dtype=np.int64)
    assert means(blocks(given_losses, size)) == added(lost, owners)


def test_means_that_end_with_their_block_are_caught() -> None:
    def twin(found: Iterator[Any]) -> int:
        return sum(means(iter([(lost, np.concatenate([[True], first[1:]]))])) for lost, first in found)

    one_user = [[0, 10]]
    assert means(blocks(one_user, 1)) == 5
    assert twin(blocks(one_user, 1)) == 10  # a user of two blocks would count twice


class Elsewhere:
    """A table whose rows stay with workers and whose fingerprint changes when it is told to."""

    local = False

    def __init__(self) -> None:
        self.version = 0

    def fingerprint(self, columns: Any, secret: bytes) -> str:
        return str(self.version)

    def __getattr__(self, name: str) -> Any:
        return getattr(SKEWED, name)


def test_a_step_over_rows_with_workers_fails_where_they_changed_meanwhile() -> None:
    from steelyard.errors import TableError

    table: Any = Elsewhere()
    reader = TableRows(FEATURES, CLASSES, rows(), Split())
    reader.rows(table, "train", bytes)
    reader.settle(table, bytes)
    table.version = 1
    with pytest.raises(TableError):
        reader.settle(table, bytes)


class Turning:
    """A table that says one thing whenever its fingerprint is asked for, and another when its rows are read."""

    local = True

    def __init__(self, said: Any, read: Any) -> None:
        self._read, self.fingerprint = read, said.fingerprint

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read, name)


def test_a_path_is_bound_to_the_very_rows_in_its_hands_and_a_fingerprint_of_another_reading_is_caught() -> None:
    said, other = SKEWED, SKEWED.where("a < 0.5")
    snapshots = []
    for table in (said, other, Turning(said, other)):
        reader = TableRows(FEATURES, CLASSES, rows(), Split())
        reader.rows(cast("Any", table), "train", bytes)
        snapshots.append(reader.snapshot)
    assert snapshots[0] != snapshots[1] == snapshots[2]

    twin = TableRows(FEATURES, CLASSES, rows(), Split())  # compares what is said before and after, and binds to that
    assert twin._sealed(cast("Any", Turning(said, other)), bytes) == snapshots[0]


@pytest.mark.parametrize("each", [each for each in MODELS if each.check == "disjoint"], ids=str)
def test_nothing_is_told_of_a_step_whose_rows_changed_before_it_was_stored(
    each: Combination, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.errors import TableError

    def changed(*_: Any) -> None:
        raise TableError("the rows changed while they were divided")

    monkeypatch.setattr(TableRows, "settle", changed)
    with pytest.raises(TableError, match="changed while"):  # with test noise the desk lets a reason through
        each.ask(each.account(), each.amounts[1])
