"""What a holdout's record is known by: the bytes, their kind, and the function that judges them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import UnitMismatch
from steelyard.holdout._classes import settled_classes, settled_numbers
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._metrics import PerExample
from steelyard.holdout._modes._thresholdout import noise_bound
from steelyard.ledger import open_account
from steelyard.privacy import rows

N = 5000


def metric(function: Callable[[Any, Any], float], version: str | None = None) -> PerExample:
    return PerExample(function, Fraction(1), version=version)


def test_bytes_in_another_order_are_another_question() -> None:
    ones = np.full(N, 1, "<i4")
    holdout = Holdout(ones, tolerance=0.1, metric=metric(lambda label, said: float(label != said)))
    assert holdout.check(ones).value == 0
    assert holdout.check(np.frombuffer(ones.tobytes(), ">i4")).value == 1


def test_another_function_of_the_same_name_is_another_holdout(tmp_path: Path) -> None:
    labels, place = np.ones(N), tmp_path / "b.db"
    Holdout(labels, tolerance=0.1, metric=metric(lambda a, b: 0.0), ledger=place)
    Holdout(labels, tolerance=0.1, metric=metric(lambda a, b: 0.0), ledger=place)
    with pytest.raises(UnitMismatch, match="another metric"):
        Holdout(labels, tolerance=0.1, metric=metric(lambda a, b: 1.0), ledger=place)


def test_a_version_stands_for_the_code(tmp_path: Path) -> None:
    labels, place = np.ones(N), tmp_path / "b.db"
    Holdout(labels, tolerance=0.1, metric=metric(lambda a, b: 0.0, "1"), ledger=place)
    Holdout(labels, tolerance=0.1, metric=metric(lambda a, b: 0.0 + 0, "1"), ledger=place)
    with pytest.raises(UnitMismatch, match="another metric"):
        Holdout(labels, tolerance=0.1, metric=metric(lambda a, b: 0.0, "2"), ledger=place)


def test_objects_are_known_by_their_values_and_not_by_where_they_lie(tmp_path: Path) -> None:
    place = tmp_path / "b.db"

    def opened(last: object) -> Holdout:
        labels = np.array([("".join(["a", "b"]), None)[i % 2] for i in range(N - 1)] + [last], dtype=object)
        return Holdout(labels, tolerance=0.1, metric=metric(lambda a, b: 0.0), ledger=place)

    opened("x")
    opened("x")
    with pytest.raises(UnitMismatch, match="other labels"):
        opened("y")


@pytest.mark.parametrize("odd", ["x", None, float("nan"), [1], b"x", object(), 7, 10**400])
def test_one_odd_label_changes_no_other_and_is_no_error_where_labels_are_hidden(odd: Any) -> None:
    assert settled_classes([0, 1, odd, 1], [0, 1]).tolist() == [0, 1, 0, 1]
    assert settled_classes(["no", "yes", odd, "yes"], ["no", "yes"]).tolist() == ["no", "yes", "no", "yes"]
    assert settled_numbers([0.5, 1, odd, 2]).tolist()[::3] == [0.5, 2]
    Holdout([0, 1, odd, 1] * 500, tolerance=0.5, mode="private", questions=1, classes=[0, 1])


def test_a_column_that_one_label_made_text_is_read_as_it_is_written() -> None:
    assert settled_classes(np.array(["0", "1", "x"]), [0, 1]).tolist() == [0, 1, 0]
    assert settled_numbers(np.array(["0.5", "1", "x"])).tolist() == [0.5, 1, 0]


def test_the_interval_of_classic_answers_covers_all_that_two_handles_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    covered: list[int] = []

    def noted(plan: Any, questions: int, *rest: Any) -> float:
        covered.append(questions)
        return noise_bound(plan, questions, *rest)

    monkeypatch.setattr("steelyard.holdout._modes._thresholdout.noise_bound", noted)
    account = open_account(":memory:", "x", unit=rows(neighbours="replace", n=10_000), epsilon="100000")
    labels = np.random.default_rng(0).integers(0, 2, 10_000).astype(bool)
    given: dict[str, Any] = {"mode": "classic", "account": account, "questions": 20, "budget": 50, "classes": [0, 1]}
    handles = [Holdout(labels, name="u", **given) for _ in range(2)]
    for holdout in handles:
        holdout.check(labels, guess=0.5)
    told = [holdout.check(labels ^ (np.arange(10_000) < turn), guess=1) for holdout in handles for turn in range(1, 31)]
    assert 20 < sum(answer.kind != "refused" for answer in told) <= min(covered)
