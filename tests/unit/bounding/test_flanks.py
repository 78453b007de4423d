"""Where the true quantile lies: two choices that surely lie on either side of it, whatever the rows."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.bounding import Quantile
from steelyard.bounding._amounts import Spend
from steelyard.bounding._ranks import Flanks
from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.mechanisms._observe import observing
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import users
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import read
from unit.bounding.remembered import terms

NOISE, DRAWS = ExactNoise(), 300
SHAPES = {
    "even": [200] * 40,
    "one heavy value": [0] * 10 + [5000] + [3] * 29,
    "two far apart": [3000, *[0] * 38, 3000],
    "few rows": [1] * 40,
    "nobody": [0] * 40,
}


def flanks(cap: int, quantile: str, kind: type[Flanks] = Flanks) -> Flanks:
    return kind((Fraction(quantile),), cap, Spend(False, 500_000))


def held(around: Flanks, counts: list[int]) -> float:
    """How often the true quantile lies between the two edges: a row below the lower, and none at or above the upper, would miss."""
    weighed, below = [each * around.weight for each in counts], [0]
    for count in weighed:
        below.append(below[-1] + count)
    wanted = around.quantiles[0] * below[-1]
    inside = 0
    for _ in range(DRAWS):
        ((low, high),) = around.run(weighed, NOISE)
        inside += (below[low] <= wanted or low == 0) and (below[high] >= wanted or high == len(counts))
    return inside / DRAWS


class Unslack(Flanks):
    """A twin that aims at the wanted rank itself."""

    def _around(self, below: Any, quantile: Fraction, noise: Any) -> tuple[int, int]:
        mechanism, aim = self.mechanism(quantile), quantile.numerator * below[-1]
        costs = [abs(quantile.denominator * each - aim) for each in below]
        return mechanism.choose(costs, noise), mechanism.choose(costs, noise)


@pytest.mark.parametrize("quantile", ["0.5", "0.03", "0.97"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_true_quantile_lies_between_in_95_of_100_draws_whatever_the_rows(name: str, quantile: str) -> None:
    assert held(flanks(3, quantile), SHAPES[name]) > 0.95 - 3 * math.sqrt(0.05 * 0.95 / DRAWS)


def test_a_twin_without_slack_is_caught() -> None:
    assert held(flanks(3, "0.5", Unslack), [7] * 41) < 0.9


@pytest.mark.parametrize("quantile", ["0.5", "0.1", "0.875"])
def test_one_unit_moves_every_cost_by_at_most_the_sensitivity(quantile: str) -> None:
    around, draw = flanks(2, quantile), np.random.default_rng(3)
    for _ in range(30):
        counts = draw.integers(0, 5, 12) * around.weight
        unit = np.zeros(12, dtype=int)
        for place in draw.integers(0, 12, 2):
            unit[place] += around.weight
        seen = []
        for each in (counts, counts + unit):
            with observing() as found:
                around.run([int(n) for n in each], TestNoise(1))
            seen.append(found)
        for less, more in zip(*seen, strict=True):
            moves = [abs(a - b) for a, b in zip(less.values, more.values, strict=True)]
            assert max(moves) <= less.event.parameters["sensitivity"]


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_release_says_where_its_quantiles_lie_in_values(gaussian: bool) -> None:
    draw = np.random.default_rng(8)
    whose = np.repeat(np.arange(1500), draw.integers(1, 4, 1500))
    data = {"user": whose, "x": draw.gamma(2.0, 20.0, whose.size), "k": np.where(whose % 2, "odd", "even")}
    account = open_account(":memory:", "a", unit=users("user"), epsilon=40, **({"delta": "1e-6"} if gaussian else {}))
    session = Session(read(data), account)
    asked = Quantile("x", epsilon=3, quantile=["0.25", "0.5"], lower=0, upper=300, cap=3)
    release = session.release(asked)
    truth = [float(each) for each in np.quantile(data["x"], [0.25, 0.5])]
    assert all(low <= value <= high for low, value, high in zip(release.low, release.value, release.high, strict=True))
    assert sum(low <= each <= high for low, each, high in zip(release.low, truth, release.high, strict=True)) >= 1
    assert max(high - low for low, high in zip(release.low, release.high, strict=True)) < 60
    keyed = session.release(replace(asked, by="k", keys=["even", "odd"]))
    assert keyed.low.keys() == keyed.high.keys() == keyed.value.keys()
    assert Release.from_json(keyed.to_json()).error == keyed.error
    assert {"low", "high"} <= set(keyed.table.column_names)
    assert None not in keyed.table["low"].to_pylist()
    plain = session.release(replace(asked, interval=False))
    assert (plain.low, plain.high) == (None, None)
    assert plain.error is not None
    assert keyed.error is not None
    assert plain.error.noise < keyed.error.noise


def test_what_is_too_little_for_intervals_is_refused_before_a_charge() -> None:
    task = Quantile("x", epsilon="0.00001", quantile=[f"0.{i}" for i in range(1, 10)], cap=1)
    with pytest.raises(InvalidTask, match="interval=False"):
        task.plan(read({"user": [1], "x": [1.0]}).schema, terms())


def test_an_interval_is_of_values_as_they_are_counted() -> None:
    def asked(value: float, **bounds: Any) -> Release:
        table = read({"user": list(range(3000)), "x": [value] * 3000})
        account = open_account(":memory:", "a", unit=users("user"), epsilon=40)
        return Session(table, account).release(Quantile("x", epsilon=9, cap=1, **bounds))

    near = asked(499.995, lower=0, upper=1000)  # rounded to a 64th it lies at 500
    assert near.low - 1 / 128 <= 499.995 <= near.high
    far = asked(1e12, lower="auto", upper="auto")
    assert far.high == far.point["upper"] < 1e12
    assert far.error is not None
    assert "which were bought, count as these" in far.error.note
    assert "bought" not in (near.error.note if near.error else "bought")
