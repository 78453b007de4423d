"""Profiles: one unit in one bin, the price of one look, plans that cost nothing, and saving them."""

from __future__ import annotations

import json
import math
import statistics
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.bounding import ContributionProfile, Count, Profile, Sum
from steelyard.bounding._cap_choice import NoisyHistogram, TotalsGrid
from steelyard.bounding._cap_grid import CapGrid
from steelyard.errors import ColumnMissing, CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.ledger import open_account
from steelyard.noise import ExactNoise
from steelyard.privacy import Currency, Loss, Terms, holdout, rows, users
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import Quantity, read
from unit.bounding.remembered import NoNoise, Remembered, seen_in, terms

USERS = 800
SIZES = [1 + round(40 * (u / USERS) ** 6) for u in range(USERS)]
TABLE = read(
    {
        "user": [u for u in range(USERS) for _ in range(SIZES[u])],
        "x": [2.5 for u in range(USERS) for _ in range(SIZES[u])],
        "name": ["n" for u in range(USERS) for _ in range(SIZES[u])],
    }
)
NOISE, DRAWS = ExactNoise(), 250


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("task", [Profile("x", epsilon=1, upper=256), Profile(rows=True, epsilon=1, upper=64)])
def test_every_bin_is_right_on_average_and_as_noisy_as_predicted(task: Profile, gaussian: bool) -> None:
    plan, known = task.plan(TABLE.schema, terms(gaussian=gaussian)), Remembered(TABLE)
    exact = plan.run(TABLE, NoNoise()).value["histogram"]["counts"]
    assert sum(exact) == USERS
    draws = [plan.run(known, NOISE).value["histogram"]["counts"] for _ in range(DRAWS)]  # type: ignore[arg-type]
    error = plan.predicted
    assert error is not None
    errors = [drawn[i] - exact[i] for drawn in draws for i in range(len(exact))]
    assert abs(statistics.fmean(errors)) < 5 * 1.5 * error.noise / math.sqrt(len(errors))
    assert 0.9 < statistics.fmean(map(abs, errors)) / error.noise < 1.1
    assert 0.94 < sum(abs(each) <= error.interval for each in errors) / len(errors) < 0.985


@settings(max_examples=60)
@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**9),
    st.one_of(st.none(), st.integers(0, 39).map(lambda k: Fraction(1, 2**k))),
    st.booleans(),
    st.integers(-(2**60), 2**60),
)
def test_every_total_lies_in_exactly_one_bin_of_a_public_grid(
    upper: Fraction, share: Fraction | None, signed: bool, total: int
) -> None:
    scale = TotalsGrid.of_values(upper, None if share is None else upper * share, signed=signed)
    edges = scale.edges
    assert list(edges) == sorted(set(edges))
    assert edges == TotalsGrid.of_values(upper, None if share is None else upper * share, signed=signed).edges
    bins = sum(
        (a <= total or i == 0) and (total < b or i == len(edges) - 2) for i, (a, b) in enumerate(pairwise(edges))
    )
    assert bins == 1
    assert edges[-1] - 1 == scale.grid.upper <= upper / scale.step


def test_the_mechanism_is_fed_one_count_for_every_bin_and_a_sensitivity_of_one() -> None:
    task = Profile("x", epsilon=1, upper=256)
    (seen,) = seen_in(task, TABLE, terms())
    assert seen.event.parameters["sensitivity"] == 1
    assert len(seen.values) == len(task.grid.edges) - 1
    assert list(seen.values) == TABLE.totals_histogram(users("user"), Quantity("x", task.grid.step), task.grid.edges)


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_price_is_one_look_and_plans_are_free(gaussian: bool) -> None:
    more: dict[str, Any] = {"delta": "1e-6"} if gaussian else {}
    account = open_account(":memory:", "a", unit=users("user"), epsilon=1, **more)
    session = Session(TABLE, account)
    task = Profile("x", epsilon=1, upper=256)
    assert session.quote(task) == account.terms.cap
    profile = session.release(task).value
    assert account.remaining.amount == 0
    for epsilon in (0.1, 1, 10):
        best = profile.plan(epsilon, delta=1e-6 if gaussian else None).best
        assert 0 < best.cap <= 256
    assert account.spent == account.terms.cap


def test_a_plan_predicts_what_the_release_then_says() -> None:
    profile = ContributionProfile.from_json(
        Profile("x", epsilon=1, upper=256).plan(TABLE.schema, terms()).run(TABLE, NOISE).value
    )
    best = profile.plan(1).best
    predicted = Sum("x", epsilon=1, cap=profile).plan(TABLE.schema, terms()).predicted
    assert predicted is not None
    assert predicted.noise == pytest.approx(best.noise, rel=1e-3)
    assert predicted.bias == pytest.approx(best.bias, rel=1e-6, abs=1e-9)


def test_what_a_cap_keeps_is_estimated_well() -> None:
    profile = ContributionProfile.from_json(
        Profile(rows=True, epsilon=5, upper=64).plan(TABLE.schema, terms()).run(TABLE, NOISE).value
    )
    for cap in (1, 3, 10, 30, 64):
        truth = sum(min(size, cap) for size in SIZES) / sum(SIZES)
        assert profile.kept(cap).value == pytest.approx(truth, abs=0.08)


def test_a_profile_is_saved_and_loaded_and_read_out_of_a_release(tmp_path: Path) -> None:
    session = Session(TABLE, open_account(":memory:", "a", unit=users("user"), epsilon=1))
    release = session.release(Profile("x", epsilon=1, upper=256))
    profile = release.value
    assert ContributionProfile.load(profile.save(tmp_path / "p.json")) == profile
    (tmp_path / "release.json").write_text(release.to_json())
    assert ContributionProfile.load(tmp_path / "release.json") == profile
    again = Release.from_json(release.to_json())
    assert ContributionProfile.from_json(again.value) == profile
    for text in ("", "[]", "{}", "nonsense", json.dumps({"column": "x"})):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InvalidTask, match="not a saved profile"):
            ContributionProfile.load(tmp_path / "bad.json")
    with pytest.raises(InvalidTask, match="a saved profile"):
        ContributionProfile.load(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"upper": 5}, "looks at a column, or with rows=True"),
        ({"column": "x", "rows": True, "upper": 5}, "looks at a column, or with rows=True"),
        ({"column": "x"}, "needs upper="),
        ({"column": "x", "upper": 0}, "upper"),
        ({"column": "x", "upper": -5}, "upper"),
        ({"column": "x", "upper": "1e300"}, "1e200"),
        ({"column": "x", "upper": 5, "resolution": 6}, "resolution must not be above"),
        ({"column": "x", "upper": 5, "resolution": "1e-13"}, "nor below"),
        ({"column": "x", "upper": 5, "resolution": -1}, "resolution"),
        ({"rows": True, "upper": 2.5}, "whole number of rows"),
        ({"rows": True, "upper": 2**41}, "whole number of rows"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        Profile(epsilon=1, **arguments)


def test_columns_units_and_currencies_that_do_not_fit_are_refused() -> None:
    task = Profile("x", epsilon=1, upper=5)
    with pytest.raises(ColumnMissing, match="y"):
        Profile("y", epsilon=1, upper=5).plan(TABLE.schema, terms())
    with pytest.raises(TableError, match="string"):
        Profile("name", epsilon=1, upper=5).plan(TABLE.schema, terms())
    with pytest.raises(UnitMismatch, match="users or rows"):
        task.plan(TABLE.schema, terms(holdout("h")))
    with pytest.raises(CurrencyMismatch, match="nats"):
        task.plan(TABLE.schema, Terms(users("user"), Loss(Currency.NATS, 10**6)))
    with pytest.raises(CurrencyMismatch, match="pure"):
        Profile("x", mu=1, upper=5).plan(TABLE.schema, terms())
    with pytest.raises(InvalidTask, match="epsilon="):
        Profile("x", upper=5).plan(TABLE.schema, terms())
    assert (
        Profile("x", epsilon=1, upper=5).plan(TABLE.schema, terms(rows())).event
        == task.plan(TABLE.schema, terms()).event
    )


# Broken twins of the look: each must break one of the laws checked above.


def test_a_grid_that_follows_the_rows_is_caught() -> None:
    def twin(data: list[int]) -> tuple[int, ...]:
        return TotalsGrid.of_rows(Fraction(max(data))).edges

    assert twin([1, 5]) != twin([1, 5, 60])
    assert TotalsGrid.of_rows(Fraction(64)).edges == TotalsGrid.of_rows(Fraction(64)).edges


def test_a_histogram_of_rows_instead_of_units_is_caught() -> None:
    edges = Profile("x", epsilon=1, upper=256).grid
    heavy, light = (read({"user": [1] * n, "x": [2.5] * n}) for n in (30, 1))
    by_units = [t.totals_histogram(users("user"), Quantity("x", edges.step), edges.edges) for t in (heavy, light)]
    by_rows = [t.totals_histogram(rows(), Quantity("x", edges.step), edges.edges) for t in (heavy, light)]
    assert [sum(counts) for counts in by_units] == [1, 1]
    assert sum(by_rows[0]) == 30  # one user moves it by thirty: not a sensitivity of one


def _changed(document: dict[str, Any], field: str, value: object) -> dict[str, Any]:
    """The document with another value in the one place, however deep, that has the field."""
    return {
        name: value if name == field else _changed(held, field, value) if isinstance(held, dict) else held
        for name, held in document.items()
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", "1e99999999"), ("step", "0"), ("step", "-1"), ("step", 1), ("step", "9" * 5000), ("upper", 0),
        ("upper", 10**30), ("upper", 1.5), ("resolution", True), ("counts", []), ("counts", ["x"]), ("level", 0),
        ("level", "inf"), ("law", "none"), ("counts", [1e999] * 7),
    ],
)  # fmt: skip
def test_a_saved_profile_that_says_something_else_is_refused(field: str, value: object, tmp_path: Path) -> None:
    made = ContributionProfile(None, "users", Fraction(1), NoisyHistogram(CapGrid(1, 16), (1.0,) * 7, "laplace", 1.0))
    made.save(tmp_path / "good.json")
    assert ContributionProfile.load(tmp_path / "good.json") == made
    (tmp_path / "bad.json").write_text(json.dumps(_changed(made.to_json(), field, value)))
    with pytest.raises(InvalidTask, match="saved profile"):
        ContributionProfile.load(tmp_path / "bad.json")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"counts": NaN}', "", "\ud800", "[]", "3"])
def test_what_is_no_profile_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(InvalidTask, match="saved profile"):
        ContributionProfile.load(tmp_path / "bad.json")


def test_an_estimate_adds_back_what_was_cut_off_and_is_kept_with_the_release() -> None:
    amounts = [1000.0 / (1 + u) for u in range(4000)]
    table = read({"user": list(range(4000)), "x": amounts, "key": ["a", "b"] * 2000})
    session = Session(table, open_account(":memory:", "estimate", unit=users("user"), epsilon=9))
    profile = session.release(Profile("x", epsilon=3, upper=4096, resolution="0.01")).value
    known = session.release(Sum("x", epsilon=1, lower=0, cap=profile.at(20)))
    assert known.error is not None
    assert known.error.correction is not None
    assert known.estimate == known.value + known.error.correction
    assert known.low < known.estimate < known.high
    lost = sum(max(x - 20, 0) for x in amounts)
    assert abs(known.error.correction / lost - 1) < 0.5
    back = Release.from_json(known.to_json())
    assert (back.error, back.estimate) == (known.error, known.estimate)
    counted = session.release(Count(epsilon=1, upper=64))
    assert isinstance(counted.estimate, int)
    assert Release.from_json(counted.to_json()).error == counted.error
    by_key = session.release(Sum("x", epsilon=1, cap=profile, by="key", keys=["a", "b"]))
    either_sign = session.release(Sum("x", epsilon=1, cap=profile))
    typed_in = session.release(Sum("x", epsilon=1, cap=20))
    assert by_key.estimate is either_sign.estimate is typed_in.estimate is None
