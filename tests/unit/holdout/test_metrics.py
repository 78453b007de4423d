"""Metrics: exact whole totals, one row's share at most for one label, and refusals that say why."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.holdout import Holdout
from steelyard.holdout._classes import Packed, pack
from steelyard.holdout._metrics import (
    AbsoluteError,
    Accuracy,
    Brier,
    Cost,
    LogLoss,
    Metric,
    PerExample,
    SquaredError,
    find_metric,
)

MATRIX = ((0, 1, "0.3"), ("0.2", 0, 1), (1, "0.5", 0))
CLASSED: list[tuple[Metric, int]] = [
    (Accuracy(), 2), (Accuracy(), 5), (Accuracy(error=True), 3), (Cost(MATRIX, (0, 1, 2)), 3),
]  # fmt: skip
SOFT: list[Metric] = [
    Brier((0, 1)),
    LogLoss(Fraction(3), (0, 1)),
    AbsoluteError(Fraction(1, 2)),
    SquaredError(Fraction(2, 5)),
    PerExample(lambda label, prediction: abs(label - prediction), Fraction(1)),
]


@given(st.data(), st.sampled_from(CLASSED), st.integers(2, 70))
def test_flipping_one_label_moves_a_class_score_by_at_most_one_row(
    data: st.DataObject, case: tuple[Metric, int], n: int
) -> None:
    metric, classes = case
    draw = st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)
    labels, predictions = np.array(data.draw(draw)), np.array(data.draw(draw))
    labels[:classes] = np.arange(classes)[:n]
    moved = labels.copy()
    moved[-1] = data.draw(st.integers(0, classes - 1))
    assert_moves_one_row(metric, labels, moved, predictions)


@given(st.data(), st.sampled_from(SOFT), st.integers(1, 40))
def test_flipping_one_label_moves_a_loss_by_at_most_one_row(data: st.DataObject, metric: Metric, n: int) -> None:
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    predictions = np.array(data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)))
    moved = labels.copy()
    moved[0] = 1 - moved[0]
    assert_moves_one_row(metric, labels, moved, predictions)


def assert_moves_one_row(metric: Metric, labels: Any, moved: Any, predictions: Any) -> None:
    one, other = metric.judge(labels), metric.judge(moved)
    totals = [each.total(each.read(predictions)) for each in (one, other)]
    assert all(0 <= total <= len(labels) * metric.scale for total in totals)
    assert abs(totals[0] - totals[1]) <= metric.scale


def test_the_same_check_catches_a_score_that_is_no_mean() -> None:
    class TopScore:
        """A twin: the share of right answers among the predicted ones, which one label moves by more than 1/n."""

        scale = 1000

        def judge(self, labels: Any) -> Any:
            return _Precision(labels)

    class _Precision:
        def __init__(self, labels: Any) -> None:
            self.labels = labels

        def read(self, predictions: Any) -> Any:
            return predictions

        def total(self, read: Any) -> int:
            return round(len(self.labels) * 1000 * float(self.labels[read == 1].mean()))

    labels, predictions = np.array([1, 0, 0, 0]), np.array([1, 0, 0, 0])
    with pytest.raises(AssertionError):
        assert_moves_one_row(cast(Metric, TopScore()), labels, 1 - labels, predictions)


@given(st.data(), st.integers(1, 300))
def test_bits_codes_and_text_count_the_same_matches(data: st.DataObject, n: int) -> None:
    labels = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    predictions = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    expected = int((labels == predictions).sum())
    as_text = Accuracy(("no", "yes")).judge(np.where(labels, "yes", "no"))
    judge = Accuracy().judge(labels)
    for form in (
        predictions,
        predictions.astype(int),
        predictions.astype(float),
        pack(predictions),
        predictions.tolist(),
    ):
        assert judge.total(judge.read(form)) == expected
    assert as_text.total(as_text.read(np.where(predictions, "yes", "no"))) == expected


def test_losses_are_what_they_are_called() -> None:
    labels, probable = [0, 1, 1], [0.2, 0.9, 0.4]
    for metric, expected in (
        (Brier((0, 1)), (0.04 + 0.01 + 0.36) / 3),
        (LogLoss(Fraction(3), (0, 1)), -np.log([0.8, 0.9, 0.4]).mean() / 3),
        (AbsoluteError(Fraction(1, 2)), (0.2 + 0.1 + 0.5) / 3 / 0.5),
    ):
        judge = metric.judge(labels)
        assert judge.total(judge.read(probable)) / (3 * metric.scale) == pytest.approx(expected, abs=1e-8)


def test_a_log_loss_is_cut_where_a_probability_is_zero() -> None:
    judge = LogLoss(Fraction(4), (0, 1)).judge([1, 0])
    assert judge.total(judge.read([0.0, 0.0])) == LogLoss(Fraction(4)).scale


def test_many_classes_take_a_matrix_of_probabilities() -> None:
    judge = LogLoss(Fraction(4), ("a", "b", "c")).judge(["a", "b", "c"])
    assert judge.total(judge.read(np.eye(3))) == 0
    with pytest.raises(InvalidTask, match="shape"):
        judge.read([0.1, 0.2, 0.3])


def test_a_function_that_fails_on_a_row_counts_the_worst_and_says_nothing() -> None:
    def picky(label: float, prediction: float) -> float:
        if label == 1:
            raise RuntimeError(f"the label is {label}")
        return 0.0

    judge = PerExample(picky, Fraction(1)).judge(np.array([0.0, 1.0]))
    assert judge.total(judge.read(np.array([0.0, 0.0]))) == PerExample(picky, Fraction(1)).scale


@pytest.mark.parametrize("name", ["f1_macro", "mcc", "ndcg", "average_precision"])
def test_scores_that_are_no_means_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidTask, match="no mean over examples"):
        find_metric(name)


def test_losses_without_a_bound_are_refused_until_a_cut_is_given() -> None:
    with pytest.raises(InvalidTask, match=r"LogLoss\(upper=3\)"):
        find_metric("log_loss")


@pytest.mark.parametrize(
    ("metric", "labels", "predictions", "match"),
    [
        (Accuracy(), [0, 1, 1], [0, 1], "2 predictions for 3 rows"),
        (Accuracy(), [0.0, 1.0], [0.0, float("nan")], "NaN"),
        (Accuracy(), ["a", "b"], [0, 1], "numbers, but the classes are text"),
        (Accuracy((0, 1)), [0, 1], [0, 7], "none of the declared classes"),
        (Accuracy(), ["a", "b"], ["a", None], "none missing"),
        (Accuracy(), [0, 1], [[0], [1]], "one class per row"),
        (Brier((0, 1)), [0, 1], [0.5, 1.5], "between 0 and 1"),
        (Brier((0, 1)), [0, 1], [0.5, float("nan")], "between 0 and 1"),
        (AbsoluteError(Fraction(1)), [0.0, 1.0], [0.0, float("inf")], "infinite"),
        (Accuracy(), [0, 1], Packed(np.zeros(1, dtype=np.uint64), 3), "3 predictions for 2 rows"),
    ],
)
def test_bad_predictions_are_refused_before_a_label_is_compared(
    metric: Metric, labels: Any, predictions: Any, match: str
) -> None:
    judge = metric.judge(labels)
    with pytest.raises(InvalidTask, match=match):
        judge.read(predictions)


def test_a_class_that_does_not_occur_is_wrong_and_no_error() -> None:
    judge = Accuracy().judge([0, 1, 1])
    assert judge.total(judge.read([0, 1, 2])) == 2


@pytest.mark.parametrize("mode", ["certified", "ladder", "rounds"])
def test_labels_with_fractions_are_no_classes_unless_they_are_said_to_be(mode: str) -> None:
    labels = [0.5, 1.0, 2.25, 1.0] * 500
    with pytest.raises(InvalidTask, match="numbers with fractions"):
        Holdout(labels, "0.3", mode=mode)
    assert Holdout(labels, "0.3", mode=mode, classes=[0.5, 1, 2.25]).rows == 2000
    assert Holdout(np.rint(labels), "0.3", mode=mode, name="whole").rows == 2000


def test_an_empty_holdout_and_foreign_labels_are_refused() -> None:
    with pytest.raises(InvalidTask, match="no labels"):
        Accuracy().judge([])
    with pytest.raises(InvalidTask, match="none of the declared"):
        Accuracy((0, 1)).judge([0, 2])
    with pytest.raises(InvalidTask, match="two classes"):
        Brier((0, 1, 2)).judge([0, 1, 2])


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.uint8, np.int64, np.float64, object])
def test_numbers_other_than_0_and_1_are_no_bits_whatever_their_type(kind: Any) -> None:
    judge = Accuracy().judge(np.array([0, 1, 1]))
    assert judge.total(judge.read(np.array([0, 1, 0], dtype=kind))) == 2
    if kind is not np.bool_:
        assert judge.total(judge.read(np.array([0, 2, 3], dtype=kind))) == 1


def test_whole_numbers_are_compared_exactly_and_huge_ones_are_refused() -> None:
    judge = Accuracy().judge(np.array([2**53, 2**53 + 1], dtype=object))
    assert judge.total(judge.read(np.array([2**53, 2**53], dtype=object))) == 1
    with pytest.raises(InvalidTask, match="at most 64 bits"):
        judge.read([2**53, 10**400])


@pytest.mark.parametrize("metric", [Brier(), LogLoss(Fraction(3)), find_metric("brier")])
def test_losses_of_probabilities_need_declared_classes(metric: Metric) -> None:
    """The shape of what is accepted would tell how many classes occur."""
    for labels in ([0, 1], [0, 1, 2], [0, 0]):
        with pytest.raises(InvalidTask, match=r"Declare them, such as classes=\[0, 1\]"):
            metric.judge(labels)


def heard(metric: Metric, labels: Any, predictions: Any) -> str:
    judge = metric.judge(labels)
    try:
        content = judge.content(judge.read(predictions))
    except InvalidTask as error:
        return str(error)
    return f"{content.dtype.str} {content.shape} {content.tolist()}"


FORMS: list[Any] = [
    pack([True, False, True]), pack([True, False]), [0, 1, 2], [0, 1, 1], [0.0, 1.0, 7.0], [0.5, 1, 2], ["a", "b", "c"],
    [1, 2], np.array([1, 0, 1]), np.array([True, False, True]), np.array([2**64 - 1, 0, 1], dtype=np.uint64), [7, 8, 9],
]  # fmt: skip


@pytest.mark.parametrize("metric", [Accuracy(), Accuracy((0, 1, 2)), LogLoss(Fraction(3), (0, 1, 2))], ids=str)
def test_what_is_read_of_predictions_is_the_same_whichever_classes_occur(metric: Metric) -> None:
    """Else a refusal, or a repeated answer that costs nothing, tells of labels (the twin names questions by their codes)."""
    for form in FORMS:
        assert len({heard(metric, labels, form) for labels in ([0, 1, 1], [0, 1, 2], [1, 1, 1], [2, 2, 0])}) == 1


def test_the_same_check_catches_questions_named_by_the_classes_that_occur() -> None:
    def named(labels: list[int], predictions: list[int]) -> list[int]:
        known = sorted(set(labels))
        return [known.index(each) if each in known else -1 for each in predictions]

    assert named([0, 1, 1], [7, 8, 9]) == named([0, 1, 1], [8, 7, 9])
    assert named([0, 7, 1], [7, 8, 9]) != named([0, 7, 1], [8, 7, 9])
    assert heard(Accuracy(), [0, 1, 1], [7, 8, 9]) != heard(Accuracy(), [0, 1, 1], [8, 7, 9])


def test_packed_predictions_need_two_declared_classes_or_truth_values() -> None:
    for metric, labels in ((Accuracy((0, 1)), [0, 1, 1]), (Accuracy(), np.array([False, True, True]))):
        judge = metric.judge(labels)
        assert judge.total(judge.read(pack([False, True, False]))) == 2
    with pytest.raises(InvalidTask, match=r"two declared classes, such as classes=\[0, 1\]"):
        Accuracy().judge([0, 1, 1]).read(pack([False, True, False]))
