"""An answer is read as a table, a chart, a few lines or a page, fresh or read back, and says no more digits than it knows."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import steelyard as sy
from steelyard.answers import Part, number
from steelyard.errors import EngineMissing
from steelyard.plan import Error
from steelyard.release import Release

KEYS: dict[str, Any] = {"by": "country", "keys": ["FR", "DE", "<b>UK</b>"]}
TASKS: dict[str, Any] = {
    "sum": sy.Sum("amount", epsilon=1, cap=100),
    "auto": sy.Sum("amount", epsilon=1, upper=1000),
    "sum by key": sy.Sum("amount", epsilon=1, cap=100, **KEYS),
    "count by key": sy.Count(epsilon=1, cap=10, **KEYS),
    "mean by key": sy.Mean("amount", epsilon="0.3", upper=50, cap=10, **KEYS),
    "median": sy.Quantile("amount", epsilon=1, upper=100, cap=10),
    "quantiles by key": sy.Quantile("amount", epsilon=1, quantile=[0.25, 0.95], upper=100, cap=10, **KEYS),
    "histogram": sy.Histogram("amount", epsilon=1, edges=[0, 10, 12500], cap=10),
    "histogram by key": sy.Histogram("amount", epsilon=1, edges=[0, 10, 12500], cap=10, **KEYS),
    "profile": sy.Profile("amount", epsilon=1, upper=100_000),
    "together": sy.Together([sy.Sum("amount", epsilon=1, cap=100), sy.Count(epsilon=1, cap=10)]),
    "together by key": sy.Together([sy.Sum("amount", epsilon=1, cap=100, **KEYS), sy.Count(epsilon=1, cap=10, **KEYS)]),
    "users": sy.CountUsers(epsilon=1),
    "top by key": sy.TopK("amount", k=2, epsilon=9, values=[1, 2, 3], cap=4, **KEYS),
}
ROWS = {"sum": 1, "auto": 1, "median": 1, "users": 1, "histogram": 2, "together": 2, "profile": 41}
ROWS |= {"top by key": 6, "quantiles by key": 6, "histogram by key": 6, "together by key": 6}


@pytest.fixture(scope="module")
def releases() -> dict[str, Release]:
    users = [user for user in range(500) for _ in range(4)]
    rows = {
        "user": users,
        "amount": [float(i % 50) for i in range(2000)],
        "country": ["FR", "FR", "DE", "<b>UK</b>"] * 500,
    }
    session = sy.Session(sy.read(rows), sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=100))
    return {name: session.release(task) for name, task in TASKS.items()}


@pytest.mark.parametrize("name", TASKS)
def test_an_answer_reads_the_same_fresh_and_read_back(releases: dict[str, Release], name: str) -> None:
    fresh, back = releases[name], Release.from_json(releases[name].to_json())
    assert fresh.table.num_rows == ROWS.get(name, 3)
    assert fresh.table.column_names[-5:] == ["value", "noise", "bias", "low", "high"]
    assert back.table.equals(fresh.table)
    assert back.chart() == fresh.chart()
    assert back._repr_html_() == fresh._repr_html_()
    assert (str(back), repr(back)) == (str(fresh), repr(fresh))


@pytest.mark.parametrize("name", TASKS)
def test_no_repr_is_longer_than_a_few_lines_and_a_page_escapes_its_keys(
    releases: dict[str, Release], name: str
) -> None:
    release = releases[name]
    assert len(repr(release)) < 200
    assert len(repr(release.chart())) < 200
    assert len(str(release)) < 2500
    page = release._repr_html_()
    assert "<b>" not in page
    assert page.count("<div") == page.count("</div>")
    assert str(release.guarantee).split(",")[0] in page


def test_a_table_has_the_keys_under_their_names_beside_exact_values(releases: dict[str, Release]) -> None:
    release = releases["sum by key"]
    rows = release.table.to_pylist()
    assert {row["country"]: row["value"] for row in rows} == release.value
    assert release.error is not None
    assert all(row["noise"] == release.error.interval for row in rows)
    assert list(release.to_pandas().columns) == ["country", "value", "noise", "bias", "low", "high"]
    assert release.to_polars().height == 3
    ranges = releases["histogram by key"].table.to_pylist()
    assert [(row["country"], row["from"], row["to"]) for row in ranges[:2]] == [
        ("FR", 0.0, 10.0),
        ("FR", 10.0, 12500.0),
    ]
    assert releases["count by key"].table.schema.field("value").type == "int64"
    assert releases["together by key"].table["answer"].to_pylist() == ["Sum of amount"] * 3 + ["Count of rows"] * 3
    assert [row["quantile"] for row in releases["quantiles by key"].table.to_pylist()[:2]] == [0.25, 0.95]


def test_low_and_high_are_those_of_the_release(releases: dict[str, Release]) -> None:
    for name in ("auto", "users", "sum"):
        release = releases[name]
        (row,) = release.table.to_pylist()
        assert (row["low"], row["high"]) == (release.low, release.high)
        assert row["bias"] == (None if release.error is None else release.error.bias)


def test_a_mean_by_key_has_each_key_s_own_noise(releases: dict[str, Release]) -> None:
    release = releases["mean by key"]
    assert release.error is not None
    assert release.table["noise"].to_pylist() == list(release.error.each)
    assert len(set(release.table["noise"].to_pylist())) > 1


def test_noise_in_ranks_is_not_told_as_noise_of_the_value(releases: dict[str, Release]) -> None:
    assert releases["median"].table["noise"].to_pylist() == [None]
    assert "rows of rank" in str(releases["median"])


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("sum", "Sum of amount"),
        ("sum by key", "Sum of amount by country"),
        ("count by key", "Count of rows by country"),
        ("median", "Median of amount"),
        ("quantiles by key", "Quantiles of amount by country"),
        ("histogram by key", "Histogram of amount by country"),
        ("profile", "Units by their total of amount"),
        ("together", "Sum of amount; Count of rows"),
    ],
)
def test_a_chart_is_titled_what_of_what_by_what(releases: dict[str, Release], name: str, title: str) -> None:
    assert releases[name].chart().title == releases[name].title == title


def test_quantiles_are_named_and_no_bin_of_a_profile_is_left_out(releases: dict[str, Release]) -> None:
    quantiles = releases["quantiles by key"].chart().svg()
    assert ">25% quantile<" in quantiles
    assert ">95% quantile<" in quantiles
    profile = releases["profile"].chart().svg()
    assert profile.count("<text") > 41
    assert ">up to 100k<" in profile
    assert "are drawn" not in profile
    assert "e+0" not in profile


def test_whiskers_end_at_public_bounds() -> None:
    mean = Part({"type": "Mean", "column": "a", "lower": "0", "upper": "50"}, 3.0, Error(5.0, 16.0))
    assert mean.whisker(mean.cells[0]) == (0, 19)
    top = Part({"type": "Mean", "column": "a", "lower": "-1/2", "upper": "50"}, 45.0, Error(5.0, 16.0))
    assert top.whisker(top.cells[0]) == (29, 50)
    few = Part({"type": "Count"}, 2, Error(1.0, 3.0))
    assert few.whisker(few.cells[0]) == (0, 5)
    lost = Part({"type": "Count"}, -5, Error(1.0, 3.0))
    assert lost.whisker(lost.cells[0]) == (-5, -2)  # a count below nothing is drawn where it is
    total = Part({"type": "Sum", "column": "a", "lower": "0"}, 2.0, Error(1.0, 3.0))
    assert total.whisker(total.cells[0]) == (-1, 5)  # the truth of a sum may be negative


def test_printed_numbers_end_where_their_noise_begins() -> None:
    assert number(199973.2593249829, 209.7) == "199,970"
    assert number(0.123456, 0.012) == "0.123"
    assert number(-1234.5, 30.0) == "−1,235" or number(-1234.5, 30.0) == "−1,234"
    assert number(5, None) == "5"
    assert number(1 / 3, 0.0) == "0.3333333333"
    assert str(Part({"type": "Sum", "column": "a"}, 199973.2593, Error(70.0, 209.7)).cells[0]) == "199,970 ± 210"


def test_a_model_is_read_by_its_coefficients() -> None:
    rows = {"x": [0.0, 1.0] * 500, "y": [0.0, 1.0] * 500}
    session = sy.Session(sy.read(rows), sy.open_account(":memory:", "a", unit=sy.rows(), epsilon=10))
    task = sy.FitLinear(sy.Features([sy.Numeric("x", 0, 1)]), "y", 0, 1, epsilon=5)
    release = session.release(task)
    assert release.table.column_names[:2] == ["feature", "value"]
    assert release.title == "Coefficients for y"
    assert "intercept" in str(release)
    back = Release.from_json(release.to_json()).table.to_pylist()  # JSON keeps names in their own order
    assert {row["feature"]: row["value"] for row in back} == release.value.coefficients


def test_no_key_above_its_threshold_is_an_empty_table() -> None:
    empty = Part({"type": "CountUsers", "by": "country"}, {}, Error(1.0, 3.0))
    from steelyard.answers import chart, rows, table, text

    assert table([empty]).num_rows == 0
    assert table([empty]).column_names[0] == "country"
    assert text([empty]) == "no key reached its threshold"
    assert rows([empty])[1] == []
    assert "no data" in chart([empty], "", "", "").svg()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there_is_named(
    releases: dict[str, Release], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = releases["sum"]
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(EngineMissing, match=f"pip install {library}"):
        getattr(release, f"to_{library}")()


def test_keys_of_several_columns_have_a_column_each() -> None:
    part = Part({"type": "Sum", "column": "v", "by": ["country", "month"]}, {("FR", 1): 2.0, ("DE", 2): 3.0})
    back = Part({"type": "Sum", "column": "v", "by": ["country", "month"]}, [[["FR", 1], 2.0], [["DE", 2], 3.0]])
    from steelyard.answers import table

    assert table([part]).to_pylist()[0] == {"country": "FR", "month": 1, "value": 2.0, "noise": None, "bias": None,
                                            "low": None, "high": None}  # fmt: skip
    assert table([back]).equals(table([part]))
    assert part.title == "Sum of v by country and month"


def test_a_key_column_called_value_does_not_hide_the_values() -> None:
    from steelyard.answers import table

    found = table([Part({"type": "Count", "by": "value"}, {"a": 1})])
    assert found.to_pylist() == [{"value_key": "a", "value": 1, "noise": None, "bias": None, "low": None, "high": None}]


def test_a_long_answer_is_shown_by_its_beginning_and_kept_whole() -> None:
    from steelyard.answers import chart, rows, table, text

    part = Part(
        {"type": "Sum", "column": "v", "by": "k"}, {f"k{i}": float(i) for i in range(1000)}, Error(1.0, 3.0, 0.0)
    )
    assert text([part]).endswith("… and 980 more; all of them are in release.table")
    assert len(rows([part])[1]) == 20
    drawn = chart([part], "Long", "", "Promise.")
    assert "The first 96 of 1,000 numbers are drawn." in drawn.svg()
    assert part.size == table([part]).num_rows == 1000
    ranges = Part(
        {"type": "Histogram", "by": "k"}, {"a": {(0.0, 1.0): 3, (1.0, 2.0): 4}, "b": {(0.0, 1.0): 5, (1.0, 2.0): 6}}
    )
    assert ranges.size == len(ranges.cells) == 4


def test_a_report_is_a_table_of_its_numbers_under_their_names() -> None:
    rows = {"user": list(range(3000)), "land": ["FR", "DE", "ES"] * 1000}
    session = sy.Session(sy.read(rows), sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=20))
    lands = sy.CountUsers(by="land", keys=["FR", "DE"], max_keys=2)
    plan = sy.Plan({"people": (sy.CountUsers(), 60), "by <land>": (lands, 120)})
    release = session.release(plan)
    assert release.table["answer"].to_pylist() == ["people", "by <land>", "by <land>"]
    assert release.table["land"].to_pylist() == [None, "FR", "DE"]
    assert release.table["value"].to_pylist() == [release.value["people"], *release.value["by <land>"].values()]
    assert "people: noise ±" in str(release)
    back = Release.from_json(release.to_json())
    assert back.table.equals(release.table)
    assert back.chart() == release.chart()
    assert release.chart().title == "Report of 2 numbers"
    assert "<land>" not in release._repr_html_()
    division = session.plan(plan)
    assert max(len(repr(noun)) for noun in (plan, division, release)) < 200
    assert "<svg" in division._repr_html_()
    assert "<land>" not in division._repr_html_()


def test_a_quantile_s_whiskers_are_where_it_lies_and_not_its_ranks(releases: dict[str, Release]) -> None:
    release = releases["quantiles by key"]
    (part,) = release.parts
    assert [part.whisker(cell) for cell in part.cells] == [(cell.low, cell.high) for cell in part.cells]
    assert all(0 <= low <= high <= 100 for low, high in map(part.whisker, part.cells))
    assert "Whiskers: where the truth lies; noise" in release.chart().svg()
