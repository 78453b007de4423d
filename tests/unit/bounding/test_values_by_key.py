from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from steelyard.bounding import Histogram, Mean, Quantile
from steelyard.bounding._amounts import Spend
from steelyard.bounding._ranks import QuantileSearch
from steelyard.errors import ColumnMissing, InvalidTask
from steelyard.ledger import open_account
from steelyard.mechanisms._observe import observing
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import Loss, Terms, Unit, rows, users
from steelyard.session import Session
from steelyard.tables import Table, read

KEYS: dict[str, Any] = {"by": "land", "keys": ["DE", "FR", "nobody"]}
PURE = Terms(users("who"), Loss.pure(1000), Fraction(1000))
GAUSSIAN = Terms(users("who"), Loss.mu(1000), Fraction(9), Fraction(1, 10**6))
EXTREME = [math.nan, math.inf, -math.inf, 1e308, -1e308, -0.0, 5e-324, 2.0**53, 3.0, -7.0]


def people(extra: bool) -> Table:
    """Some users, and perhaps one more with many rows, strange values and every key."""
    who = [f"u{i % 40}" for i in range(160)]
    land = ["DE" if i % 3 else "FR" for i in range(160)]
    value = [float(i % 11) - 3 for i in range(160)]
    if extra:
        who += ["new"] * 60
        land += ["DE", "FR", "elsewhere", "nobody"] * 15
        value += EXTREME * 6
    return read({"who": who, "land": land, "x": value})


def moved(task: Any, terms: Terms) -> list[tuple[str, int, int]]:
    """For each vector handed to additive noise: the norm, how far one user moves it, and the declared distance."""
    seen = []
    for extra in (False, True):
        with observing() as window:
            table = people(extra)
            task.plan(table.schema, terms).run(table, TestNoise(5))
        seen.append(window)
    found = []
    for a, b in zip(*seen, strict=True):
        gaps = [abs(x - y) for x, y in zip(a.values, b.values, strict=True)]
        declared = int(str(a.event.parameters["sensitivity"]))
        if a.event.name == "gaussian":
            found.append(("squared L2", sum(gap * gap for gap in gaps), declared**2))
        else:
            found.append(("L1", sum(gaps), declared))
    return found


@pytest.mark.parametrize("terms", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
@pytest.mark.parametrize(
    "task",
    [
        Mean("x", epsilon=1, lower=-2, upper=9, cap=4, **KEYS),
        Mean("x", epsilon=1, lower=-50, upper=-1, cap=100, **KEYS),
        Histogram("x", epsilon=1, edges=[-3, 0, 4, 8], cap=4, **KEYS),
        Histogram("x", epsilon=1, edges=[-3, 100], cap=100, **KEYS),
    ],
)
def test_one_user_moves_all_keys_together_by_no_more_than_declared(task: Any, terms: Terms) -> None:
    for norm, distance, declared in moved(task, terms):
        assert 0 < distance <= declared, norm


class ScaledKeyByKey:
    """Broken twin of a table: each key's pair is bounded on its own, so a user with many keys adds up to more."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def sums_by_key(self, unit: Unit, parts: Any, by: str, keys: Any, limits: Any) -> Any:
        one: Callable[..., Any] = self._table.sums_by_key
        alone = [one(unit, parts, by, [key], limits) for key in keys]
        return [[found[part][0] for found in alone] for part in range(len(alone[0]))]


def test_a_table_that_bounds_each_key_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Mean("x", epsilon=1, lower=-2, upper=9, cap=4, **KEYS)
    real = people
    monkeypatch.setitem(globals(), "people", lambda extra: ScaledKeyByKey(real(extra)))
    ((_, distance, declared),) = moved(task, PURE)
    assert distance > declared


def test_quantiles_of_all_keys_cost_what_one_costs() -> None:
    """One user's weight over all keys and bins is at most the cap, so the losses of all choices add up to one."""
    search = QuantileSearch((Fraction(1, 4), Fraction(1, 2)), 4, Spend(False, 10**6))
    with observing() as before:
        asked: Any = {"quantile": ["0.25", "0.5"], "resolution": 1, "interval": False, **KEYS}
        task = Quantile("x", epsilon=1, lower=-3, upper=8, cap=4, **asked)
        task.plan(people(False).schema, PURE).run(people(False), TestNoise(5))
    loss = Fraction(0)
    cap = search.cap * search.weight
    by_bins = [
        people(extra).sums_by_key_and_bin(PURE.unit, _weights(search), _bins(), KEYS["by"], KEYS["keys"])
        for extra in (False, True)
    ]
    gaps = [[abs(x - y) for x, y in zip(a, b, strict=True)] for a, b in zip(*by_bins, strict=True)]
    for key in gaps:  # at one level, the choices of different keys and parts see disjoint shares of the user
        loss += Fraction(sum(key), cap) * search.epsilon
    assert 0 < loss <= search.epsilon
    assert len(before) == 2 * len(KEYS["keys"])


def _weights(search: QuantileSearch) -> Any:
    from steelyard.tables import Capped, Quantity

    return Capped(Quantity(None, Fraction(1, search.weight)), search.cap * search.weight)


def _bins() -> Any:
    from steelyard.tables import Bins, Quantity

    return Bins(Quantity("x", Fraction(1, 64)), tuple(64 * i for i in range(-3, 9)))


@pytest.mark.parametrize("unit", [users("who"), rows()], ids=["users", "rows"])
def test_answers_are_right_by_key_and_cost_what_was_asked(unit: Unit) -> None:
    account = open_account(":memory:", "a", unit=unit, epsilon=1000)
    session, cap = Session(people(False), account), 4 if unit.kind == "users" else None
    values = {key: [float(i % 11) - 3 for i in range(160) if ("DE" if i % 3 else "FR") == key] for key in ("DE", "FR")}
    mean = session.release(Mean("x", epsilon=100, lower=-3, upper=8, cap=cap, **KEYS))
    spot = session.release(Quantile("x", epsilon=100, lower=-3, upper=8, cap=cap, resolution="0.5", **KEYS))
    bars = session.release(Histogram("x", epsilon=100, edges=[-3, 0, 8.5], cap=cap, **KEYS))
    assert account.spent == Loss.pure(300)
    for key, truth in values.items():
        assert abs(mean.value[key] - sum(truth) / len(truth)) < 0.5
        assert abs(spot.value[key] - sorted(truth)[len(truth) // 2]) <= 1.5
        assert abs(bars.value[key][(-3.0, 0.0)] - sum(v < 0 for v in truth)) <= 3
    assert list(bars.value["nobody"]) == [(-3.0, 0.0), (0.0, 8.5)]


def test_means_by_key_are_as_noisy_as_they_say() -> None:
    task, table = Mean("x", epsilon=2, lower=-3, upper=8, cap=4, **KEYS), people(False)
    draws = [task.plan(table.schema, PURE).run(table, ExactNoise()) for _ in range(40)]
    means = [dict(outcome.value)["DE"] for outcome in draws]
    truth = sum(float(i % 11) - 3 for i in range(160) if i % 3) / sum(1 for i in range(160) if i % 3)
    worst = max(outcome.error.interval for outcome in draws if outcome.error)
    assert sum(abs(mean - truth) <= worst for mean in means) >= 36


@pytest.mark.parametrize(
    "make",
    [
        lambda **keys: Mean("x", epsilon=1, cap=1, **keys),
        lambda **keys: Quantile("x", epsilon=1, cap=1, **keys),
        lambda **keys: Histogram("x", epsilon=1, edges=[0, 1], cap=1, **keys),
    ],
)
def test_keys_must_be_public_known_and_of_their_columns_kind(make: Callable[..., Any]) -> None:
    with pytest.raises(InvalidTask, match="keys"):
        make(by="land")
    with pytest.raises(InvalidTask, match="by="):
        make(keys=["DE"])
    with pytest.raises(ColumnMissing):
        make(by="country", keys=["DE"]).plan(people(False).schema, PURE)
    with pytest.raises(InvalidTask, match="string"):
        make(by="land", keys=[3]).plan(people(False).schema, PURE)
