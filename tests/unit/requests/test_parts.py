"""Several aggregates as a person types them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import InvalidTask
from steelyard.privacy import Loss, Terms, users
from steelyard.requests import part_columns, together_typed
from steelyard.requests._parts import KINDS, part_typed
from unit.bounding.remembered import terms

PURE = Terms(users("user"), Loss.pure(9), Fraction(9))
ONE: dict[str, Any] = {"epsilon": "1", "mu": None}
NO: dict[str, Any] = {"epsilon": None, "mu": None}
COLUMNS = {
    "sum": "a cap=1",
    "count": "cap=1",
    "ratio": "a b cap=1 over_cap=2",
    "count-users": "",
    "histogram": "a edges=0,1",
    "top-k": "a values=x,y k=2",
}


def test_every_aggregate_that_can_be_asked_together_can_be_typed() -> None:
    made = together_typed([f"{kind} {COLUMNS.get(kind, 'a')}" for kind in KINDS], ONE, {}, PURE)
    assert {type(task) for task in made.tasks} == _parts()
    assert sum(task.epsilon for task in made.tasks) == 1


def _parts() -> set[type]:
    from typing import get_args

    from steelyard.bounding._together import Part

    return set(get_args(Part))


def test_a_part_says_what_its_task_takes() -> None:
    task = together_typed(
        ["quantile age lower=0 upper=110 cap=3 quantile=0.1,0.9 interval=false", "mean 'the age' upper=auto"],
        ONE,
        {"by": "k", "keys": ["x"]},
        PURE,
    )
    first, second = task.tasks
    assert first == sy.Quantile("age", Fraction(1, 2), ["0.1", "0.9"], 0, 110, 3, by="k", keys=["x"], interval=False)
    assert second.column == "the age"
    assert (second.upper, second.cap) == ("auto", "auto")
    assert part_columns(["ratio a b", "count-distinct c", "sum d"]) == ["a", "b", "d"]


def test_on_a_gaussian_account_squares_are_shared() -> None:
    made = together_typed(["count cap=1"] * 4, {"epsilon": None, "mu": "0.8"}, {}, terms(gaussian=True))
    assert [task.mu for task in made.tasks] == [Fraction(4, 10)] * 4


@pytest.mark.parametrize(
    ("texts", "price", "words"),
    [
        (["meen a"], ONE, "begins with one of"),
        ([""], ONE, "begins with one of"),
        (["mean"], ONE, "takes column"),
        (["count a"], ONE, "takes no column"),
        (["mean a kap=2"], ONE, "no such option"),
        (["sum a cap=1 cap=2"], ONE, "twice"),
        (["sum a by=k cap=2"], ONE, "no such option"),
        (["sum 'a cap=1"], ONE, "quotation"),
        (["sum a cap=1 epsilon=1", "count cap=1"], ONE, "either every part"),
        (["sum a cap=1 epsilon=1"], ONE, "leave --epsilon"),
        (["sum a cap=1"], NO, "give --epsilon"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(texts: list[str], price: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        together_typed(texts, price, {}, PURE)


def test_the_first_word_names_a_task() -> None:
    assert {part_typed(f"{kind} {COLUMNS.get(kind, 'a')}")[0].__name__ for kind in KINDS} == {
        each for each, _ in KINDS.values()
    }
