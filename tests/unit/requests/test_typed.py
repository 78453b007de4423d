"""What a person types is read in the kind that a column publicly has, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.errors import InvalidTask
from steelyard.models import Categorical, Numeric, Plain
from steelyard.privacy import Unit, holdout, labels, rows, users
from steelyard.requests import by_typed, classes_typed, feature_typed, keys_typed, types_typed, unit_typed


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("rows", rows()),
        ("rows:9", rows(neighbours="replace", n=9)),
        ("users:who", users("who")),
        ("users:who:9", users("who", neighbours="replace", n=9)),
        ("users:a:b", users("a:b")),
        ("labels:y", labels("y")),
        ("holdout:spring", holdout("spring")),
    ],
)
def test_units_are_typed_in_one_word(text: str, unit: Unit) -> None:
    assert unit_typed(text) == unit


@pytest.mark.parametrize("text", ["", "people", "users", "users:", "rows:x", "rows:٣", "rows:" + "9" * 50, "rows:0"])
def test_what_names_no_unit_is_refused(text: str) -> None:
    with pytest.raises(InvalidTask):
        unit_typed(text)


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [("7", "integer", 7), ("7", "string", "7"), ("0.5", "float", 0.5), ("true", "boolean", True), ("7", "decimal", 7)],
)
def test_a_key_is_of_the_kind_of_its_column(text: str, kind: str, key: Any) -> None:
    (found,) = keys_typed(text, "k", {"k": kind})
    assert found == key
    assert type(found) is type(key)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('"Korea, Republic of",Germany', ["Korea, Republic of", "Germany"]),
        ('"say ""so""",b', ['say "so"', "b"]),
        (" a,b ", [" a", "b "]),
        ('"two\nlines",é', ["two\nlines", "é"]),
        (",x", ["", "x"]),
    ],
)
def test_keys_are_quoted_as_in_csv(text: str, keys: list[str]) -> None:
    assert keys_typed(text, "k", {"k": "string"}) == keys


def test_keys_of_several_columns_are_a_line_each_or_a_file(tmp_path: Any) -> None:
    kinds, by = {"country": "string", "year": "integer"}, by_typed('country,"year"')
    expected = [("Korea, Republic of", 2024), ("FR", 2025)]
    assert keys_typed('"Korea, Republic of",2024\nFR,2025', by, kinds) == expected
    path = tmp_path / "keys.csv"
    path.write_text('year,country,more\n2024,"Korea, Republic of",x\n2025,FR,y\n')
    assert keys_typed(f"@{path}", by, kinds) == expected
    for text in ("FR,2024,x", "FR\nDE", '"open', "", "FR,2024\n\nDE,2025", "FR,x"):
        with pytest.raises(InvalidTask):
            keys_typed(text, by, kinds)


def test_a_file_of_keys_without_a_line_of_names_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("FR\nDE\n")
    with pytest.raises(InvalidTask, match="first line names country"):
        keys_typed(f"@{path}", "country", {"country": "string"})


def test_classes_are_of_the_kind_of_the_label() -> None:
    assert classes_typed("False,true", "boolean") == [False, True]
    assert classes_typed("0,1", "integer") == [0, 1]
    assert classes_typed("0,1", "string") == ["0", "1"]
    for text, kind in (("no,yes", "boolean"), ("a,b", "integer"), ("0.5,1", "float")):
        with pytest.raises(InvalidTask, match="the label holds"):
            classes_typed(text, kind)


def test_features_are_typed_with_their_bounds_or_values() -> None:
    assert feature_typed("age:0:100") == Numeric("age", 0, 100)
    assert feature_typed("a:b:0:100") == Numeric("a:b", 0, 100)
    assert feature_typed("land=FR,DE") == Categorical("land", ["FR", "DE"])
    assert feature_typed("age") == Plain("age")


def test_types_of_columns_are_pairs() -> None:
    assert types_typed("amount:float,a:b:integer") == {"amount": "float", "a:b": "integer"}
    assert types_typed(None) == {}
    with pytest.raises(InvalidTask, match="--types is a list"):
        types_typed("amount")
