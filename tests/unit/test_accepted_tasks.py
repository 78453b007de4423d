"""Nothing that ``check`` lets through fails after its charge: random requests of every kind, on every kind of account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steelyard.bounding import (
    Count,
    CountDistinct,
    CountUsers,
    Histogram,
    Mean,
    Median,
    Profile,
    Quantile,
    Ratio,
    Std,
    Sum,
    Together,
    TopK,
    Variance,
)
from steelyard.errors import InvalidTask, SteelyardError
from steelyard.holdout._question import Question
from steelyard.ledger import Account, open_account
from steelyard.models._columns import Categorical, Numeric
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models._scaler import _Grid, share_of
from steelyard.models.accuracy import GradualSum
from steelyard.noise import TestNoise
from steelyard.plan import Plan
from steelyard.privacy import Unit, rows, users
from steelyard.session import Session
from steelyard.tables import Schema, Table, read

SIZES = [
    "-1e200",
    "-1e30",
    -100,
    -10,
    "-0.5",
    "-1e-9",
    "-1e-200",
    0,
    "1e-200",
    "1e-9",
    "0.5",
    1,
    7,
    10,
    1000,
    "1e30",
    "1e200",
]
PRICES = [None, "0.000001", "0.000002", "0.000003", "0.0001", "0.01", "0.5", 1, 3, 20, 1000]
UNITS = [rows(), users("who"), rows(neighbours="replace", n=1), rows(neighbours="replace", n=40)]
UNITS += [users("who", neighbours="replace", n=3)]
ACCOUNTS: list[tuple[Unit, dict[str, Any]]] = [
    (unit, {"epsilon": 1000, **more})
    for unit in UNITS
    for more in ({}, {"delta": "1e-6"}, {"delta": "1e-6", "additive_delta": "1e-7"})
]
KEYS = [["a"], ["a", "b"], ["b", "", "é" * 9], [1], [1, 2, -(2**40)], [Decimal("1.5")], [1.5, 2.0], list(range(40))]


class Draw:
    """Choices of a request, from a seed."""

    def __init__(self, seed: int) -> None:
        self._draws = np.random.default_rng(seed)

    def of(self, *options: Any) -> Any:
        return options[int(self._draws.integers(len(options)))]

    def size(self) -> Any:
        return self.of(self.of(*SIZES), self.of(-10, 0, 1, 7, 100))

    def maybe(self, *options: Any) -> Any:
        return self.of(None, *options)

    def price(self) -> dict[str, Any]:
        return {self.of(*["epsilon"] * 5, "mu"): self.of(*PRICES, 1, 1)}

    def column(self) -> str:
        return str(self.of("x", "x", "x", "n", "odd", "odd", "big", "k"))

    def by(self, *, found: bool = True) -> dict[str, Any]:
        if self.of(True, False):
            return {}
        more = {"max_keys": self.maybe(1, 2, 100), "rows_per_key": self.maybe(1, 3)} if found else {}
        column, keys = self.of(("k", ["a", "b"]), ("n", [1, 2]), (self.of("k", "n", "x", "who"), self.of(*KEYS)))
        return {"by": column, "keys": self.of(None, keys) if found else keys, **more}

    def cap(self) -> Any:
        return self.of("auto", "auto", "auto", profile(), self.size(), 1, 3)

    def range(self) -> Any:
        return self.of((-1, 1), (0, 100), (0, "1e-200"), ("-1e200", "1e200"), (self.size(), self.size()))

    def edges(self) -> list[Any]:
        return sorted({float(self.size()) for _ in range(int(self.of(2, 3, 6)))})


@cache
def profile() -> Any:
    """A released profile of x."""
    at = open_account(":memory:", "profiles", unit=users("who"), epsilon=10)
    return Session(TABLES[40], at, noise=TestNoise(1)).release(Profile("x", epsilon=1, upper=100)).value


def totals(draw: Draw) -> Any:
    return total(draw, draw.of("sum", "sum", "count", "users"), draw.by())


def total(draw: Draw, kind: str, keys: dict[str, Any]) -> Any:
    if kind == "users":
        keys.pop("rows_per_key", None)
        return CountUsers(**draw.price(), **keys)
    if kind == "count":
        return Count(cap=draw.cap(), upper=draw.maybe(1, 2, 7, 10**6, "1e30"), **draw.price(), **keys)
    more = {"lower": draw.of(0, -100, draw.size()), "upper": draw.maybe(draw.size(), 100)}
    return Sum(draw.column(), cap=draw.cap(), resolution=draw.maybe(1, draw.size()), **more, **draw.price(), **keys)


def together(draw: Draw) -> Any:
    keys = draw.by()
    parts = [total(draw, draw.of("sum", "count"), keys) for _ in range(int(draw.of(1, 2, 3)))]
    under = {name: keys.get(name) for name in ("by", "keys", "max_keys")} if "by" in keys else {"max_keys": 2}
    values = draw.of(None, ["a", "b"]) if under.get("keys") is not None else None
    top = (
        [TopK("k", values=values, cap=3 if "by" in keys else None, **under, **draw.price())]
        if draw.of(True, False)
        else []
    )
    return Together([*parts, *top])


def profiles(draw: Draw) -> Any:
    asked = {"rows": True} if draw.of(True, False) else {"column": draw.column(), "resolution": draw.maybe(draw.size())}
    return Profile(upper=draw.of(1, 100, draw.size()), **asked, **draw.price())


def spreads(draw: Draw) -> Any:
    about = {"cap": draw.of(None, 1, 3, 2**30), **draw.price(), **draw.by(found=False)}
    kind = draw.of(Mean, Quantile, Histogram)
    if kind is Histogram:
        return Histogram(draw.column(), edges=draw.edges(), ranges=draw.of(True, False), **about)
    between = dict(zip(("lower", "upper"), draw.range(), strict=True))
    if kind is Mean:
        return Mean(draw.column(), **between, **about)
    quantiles = draw.of("0.5", ["0.1", "0.9"], ["1e-9", "0.5", "0.999"], [f"0.{i:02}" for i in range(1, 40)])
    return Quantile(draw.column(), quantile=quantiles, resolution=draw.maybe(draw.size()), **between, **about)


def newer(draw: Draw) -> Any:
    kind = draw.of(Variance, Std, Median, Ratio, CountDistinct, TopK, Histogram)
    if kind is TopK:
        column, keys = draw.of(("k", ["a", "b"]), ("n", [1, 2, 3]))
        groups: dict[str, Any] = {"by": "who", "cap": draw.of(None, 1, 9)}
        by_key = {**groups, **draw.of({"max_keys": 2}, {"keys": ["u", "v"], "values": keys}, {"keys": ["u", "v"]})}
        given = draw.of({"keys": keys}, {"max_keys": draw.of(1, 9)}, by_key)
        return TopK(column, k=draw.of(1, 2, 10), **given, **draw.price())
    keys = draw.by()
    keys.pop("rows_per_key", None)
    if kind is Histogram:
        return Histogram("k", values=draw.of(None, ["a", "z"]), cap=draw.of("auto", 1, 3), **keys, **draw.price())
    if kind is CountDistinct:
        return CountDistinct(draw.of("k", "x", "who", "n"), cap=draw.of("auto", 1, 2**20), **keys, **draw.price())
    if kind is Ratio:
        caps = {"cap": draw.cap(), "over_cap": draw.cap(), "upper": draw.maybe(draw.size(), 100), "over_upper": 7}
        return Ratio(draw.of("x", "odd", "big"), "n", **caps, **keys, **draw.price())
    bounds = draw.of({"lower": "auto", "upper": "auto"}, dict(zip(("lower", "upper"), draw.range(), strict=True)))
    return kind(draw.column(), cap=draw.of("auto", 1, 3, 2**30), **bounds, **keys, **draw.price())


def questions(draw: Draw) -> Any:
    asked = (
        {"equals": draw.of("a", 1, 1.5)}
        if draw.of(True, False)
        else dict(zip(("lower", "upper"), draw.range(), strict=True))
    )
    more = {"confidence": draw.of("0.95", "0.5", "0.999999"), "questions": draw.of(1, 10**6)}
    return Question(draw.column(), **asked, **more, **draw.price())


def scaled(draw: Draw) -> Any:
    share = share_of(draw.of(*PRICES[1:]), account(draw).terms, int(draw.of(1, 7)))
    low, high = draw.range()
    grid = _Grid(low, high, draw.maybe(draw.size()))
    return grid.task("x", draw.of((0.01, 0.99), (0.4, 0.6)), draw.maybe(1, 3), share)


def features(draw: Draw) -> Any:
    columns = ["x", "n", Numeric("x", *draw.range()), Numeric("big", *draw.range()), Categorical("k", ["a", "b"])]
    return [draw.of(*columns[:3]), draw.of(*columns[3:])][: int(draw.of(1, 1, 2))]


def models(draw: Draw) -> Any:
    shape = {"x_bound": draw.of(1, 1, draw.size()), "norm": draw.of("clip", "scale"), "intercept": draw.of(True, False)}
    if draw.of(True, False):
        rows_known, given = draw.of(None, None, 1, 10**6), features(draw)
        way: dict[str, Any] = {"method": draw.of(*["auto"] * 3, "objective", "output", "choice")}
        if way["method"] == "choice":
            way |= draw.of({"radius": draw.of(1, "0.01", 9)}, {"candidates": [[0.5] * (len(given) + 1)]})
        elif way["method"] != "auto":
            way |= {"ridge": draw.of(*[None] * 4, "1e-9", 1, "1e9")}
        way |= {"cap": draw.of(*[None] * 3, 1, 3, 2**30), "public_rows": rows_known}
        between = dict(zip(("lower", "upper"), draw.range(), strict=True))
        return FitLinear(given, "odd", **{**between, **way, **shape, **draw.price()})
    more = {
        "method": draw.of("auto", "auto", "objective", "output", "descent", "choice"),
        "cap": draw.of(*[None] * 3, 1, 3),
    }
    more |= {"ridge": draw.of(*[None] * 4, "1e-9", 1, "1e9"), "public_rows": draw.of(*[None] * 4, 1, 10**6)}
    given, width = features(draw), int(draw.of(2, 2, 3))
    more |= {"candidates": [[0.5] * width, [-0.5] * width] if more["method"] == "choice" else None}
    label, classes = draw.of(("n", [0, 1]), ("n", [0, 1, 2]), ("who", ["u", "v"]))
    return FitLogistic([each for each in given if each != label], label, classes, **more, **shape, **draw.price())


class Refined:
    """A gradual sum, asked twice."""

    def __init__(self, draw: Draw) -> None:
        self.task = GradualSum(draw.column(), cap=draw.size(), lower=draw.of(0, draw.size()))
        self.prices = [draw.of(*PRICES[1:]), draw.of(*PRICES[1:])]


KINDS: tuple[tuple[Callable[[Draw], Any], int], ...] = (
    (totals, 6), (together, 2), (profiles, 1), (spreads, 4), (newer, 6), (questions, 1), (scaled, 1), (models, 3), (Refined, 1),
)  # fmt: skip


def frame(count: int) -> pd.DataFrame:
    draws = np.random.default_rng(count)
    odd = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 1.0])
    return pd.DataFrame(
        {
            "who": pd.array(draws.choice(np.array(["u", "v", "w", None]), count), dtype="string"),
            "x": draws.normal(size=count) * 10,
            "n": draws.integers(-3, 3, count).astype(np.int64),
            "odd": draws.choice(odd, count).astype(np.float64),
            "big": draws.choice(np.array([2**62, -(2**62), 1, 0]), count).astype(np.int64),
            "k": pd.array(draws.choice(np.array(["a", "b", "c", None]), count), dtype="string"),
        }
    )


TABLES = {count: read(frame(count)) for count in (0, 1, 40)}


def account(draw: Draw) -> Account:
    unit, given = draw.of(*ACCOUNTS)
    return open_account(":memory:", "accepted", unit=unit, **given)


def accepted(session: Session, task: Any) -> bool:
    """Whether a request is let through; then it is run, and whatever it raises is raised."""
    if isinstance(task, Refined):
        try:
            path = session.open(task.task)
        except SteelyardError:
            return False
        for price in task.prices:
            before = session.account.spent
            try:
                path.refine(price)
            except SteelyardError:
                assert session.account.spent == before
        return True
    try:
        if not session.quote(task) <= session.account.remaining:
            return False
    except SteelyardError:
        return False
    session.release(task)
    return True


def asked(seed: int) -> tuple[str, bool]:
    """One random request on one random account and table: what it was, and whether it was let through."""
    draw = Draw(seed)
    make = draw.of(*(kind for kind, weight in KINDS for _ in range(weight)))
    try:
        task = make(draw)
    except SteelyardError:
        return make.__name__, False
    count, table = draw.of(*TABLES.items())
    at = account(draw)
    if isinstance(task, Question) and at.terms.unit.n not in (None, count):
        return "a question about another n", False
    return type(task).__name__, accepted(Session(table, at, noise=TestNoise(seed)), task)


def fails(seeds: range) -> Iterator[str]:
    """The requests that were let through and failed."""
    for seed in seeds:
        try:
            asked(seed)
        except Exception as fault:
            yield f"seed {seed}: {type(fault).__name__}: {fault}"


def test_nothing_that_is_accepted_fails_after_its_charge() -> None:
    assert not list(fails(range(300)))


@pytest.mark.slow
def test_nothing_that_is_accepted_fails_in_many_requests() -> None:
    assert not list(fails(range(1000, 11_000)))


class Careless(Sum):
    """A task that lets through what it then refuses."""

    def plan(self, schema: Schema, terms: Any) -> Plan:
        return replace(super().plan(schema, terms), run=self._late)

    @staticmethod
    def _late(table: Table, noise: Any) -> Any:
        raise InvalidTask("only now it is looked at closely")


def test_a_task_that_finds_fault_after_its_charge_is_caught() -> None:
    session = Session(TABLES[1], account(Draw(1)), noise=TestNoise(1))
    with pytest.raises(InvalidTask):
        accepted(session, Careless("x", epsilon=1, cap=1))


def test_totals_that_lie_below_zero_altogether_are_refused_before_a_charge() -> None:
    with pytest.raises(InvalidTask, match="upper must be zero or above"):
        Sum("x", epsilon=2, lower=-100, upper=-10, cap="auto")


EXTREME: list[Any] = [
    Sum("x", epsilon=2, lower=-100, upper=0, cap="auto"),
    Count(epsilon=1000, cap=1),
    Sum("x", epsilon=30, cap=1),
    FitLinear(["x"], "odd", 0, "1e-200", epsilon=1, x_bound=1),
    FitLinear([Numeric("x", 0, "1e-200")], "odd", "-1e200", "1e200", epsilon="0.01"),
    FitLogistic([Numeric("x", 0, "1e-200")], "n", [0, 1], epsilon=3, x_bound="1e-200", intercept=False),
    FitLinear(["x"], "odd", 0, "0." + "3" * 300, epsilon=1, x_bound=1),
]


@pytest.mark.parametrize("given", [{}, {"delta": "1e-6"}])
@pytest.mark.parametrize("task", EXTREME, ids=lambda task: type(task).__name__)
def test_what_is_extreme_and_accepted_is_answered(task: Any, given: dict[str, Any]) -> None:
    at = open_account(":memory:", "extreme", unit=rows(), epsilon=1000, **given)
    assert accepted(Session(TABLES[40], at, noise=TestNoise(1)), task)
