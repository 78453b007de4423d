"""Predictions that come with ids are put into the holdout's order; what does not fit is refused before it costs anything."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from steelyard.errors import InvalidTask
from steelyard.holdout import Holdout, pack

DRAW = np.random.default_rng(3)
LABELS = DRAW.integers(0, 2, 2000)
IDS = [f"row {i}" for i in range(2000)]
ORDER = DRAW.permutation(2000)
MOVED = [IDS[i] for i in ORDER]
CONTAINERS = [list, tuple, np.array, pd.Series, pl.Series, pa.array, lambda v: pd.Series(v, index=range(5, 2005))]


@pytest.mark.parametrize("kind", CONTAINERS)
def test_the_order_of_predictions_does_not_matter_in_any_container(kind: Any) -> None:
    holdout = Holdout(LABELS, 0.1, ids=kind(IDS))
    moved = kind((LABELS[ORDER] ^ (ORDER % 10 == 0)).tolist())
    answer = holdout.check(moved, 0.9, ids=kind(MOVED))
    assert (answer.value, answer.kind) == (0.9, "free")
    assert holdout.check((LABELS ^ (np.arange(2000) % 10 == 0)), 0.9) == answer, "one question, however it was ordered"


def test_a_mapping_says_whose_each_prediction_is() -> None:
    holdout = Holdout(LABELS, 0.1, ids=IDS)
    told = dict(zip(MOVED, (LABELS[ORDER] ^ (ORDER % 10 == 0)).tolist(), strict=True))
    assert holdout.check(told, 0.9) == holdout.check(list(told.values()), 0.9, ids=MOVED)
    del told[MOVED[0]]
    with pytest.raises(InvalidTask, match="1 of the holdout's ids have no prediction"):
        holdout.check(told, 0.9)
    with pytest.raises(InvalidTask, match="opened without ids"):
        Holdout(LABELS, 0.1).check(told, 0.9)


def test_rounds_and_matrices_and_numbers_as_ids() -> None:
    holdout = Holdout(LABELS, 0.1, mode="rounds", ids=range(2000))
    assert holdout.best_of([1 - LABELS, LABELS[ORDER]], ids=[np.arange(2000), ORDER]) == 1
    assert holdout.finish(LABELS[ORDER], ids=ORDER.astype(str)).value == 1
    three = DRAW.integers(0, 3, 2000)
    from steelyard.holdout import LogLoss

    sure = Holdout(three, 0.3, metric=LogLoss(Fraction(3)), classes=[0, 1, 2], ids=range(2000), between=(0, 1))
    assert sure.check(np.eye(3)[three][ORDER], 0, ids=ORDER).value == 0


WRONG = [
    ([*MOVED[1:], "nobody"], "none of the holdout's, such as 'nobody'"),
    (MOVED[1:] + MOVED[-1:], "more than once"),
    ([None, *MOVED[1:]], "are missing"),
    (MOVED[1:], "1,999 ids for 2,000"),
    ("row", "one column"),
]


@pytest.mark.parametrize(("ids", "words"), WRONG)
def test_ids_that_do_not_fit_are_refused_before_anything_is_asked(ids: Any, words: str) -> None:
    holdout = Holdout(LABELS, 0.1, ids=IDS)
    before = str(holdout)
    with pytest.raises(InvalidTask, match=words):
        holdout.check(LABELS, 0.5, ids=ids)
    assert str(holdout) == before


def test_some_predictions_are_missing_or_packed_or_the_holdout_has_no_ids() -> None:
    holdout = Holdout(LABELS, 0.1, ids=IDS, classes=[0, 1])
    with pytest.raises(InvalidTask, match="3 of the holdout's ids have no prediction"):
        holdout.check(LABELS[3:], ids=IDS[3:])
    with pytest.raises(InvalidTask, match="packed"):
        holdout.check(pack(LABELS == 1), ids=IDS)
    with pytest.raises(InvalidTask, match="without ids"):
        Holdout(LABELS, 0.1).check(LABELS, ids=IDS)
    for wrong, words in ((IDS[1:], "1,999 ids for 2,000"), ([*IDS[1:], IDS[1]], "1,999 different")):
        with pytest.raises(InvalidTask, match=words):
            Holdout(LABELS, 0.1, ids=wrong)


def test_a_holdout_that_was_pickled_keeps_its_ids(tmp_path: Any) -> None:
    holdout = Holdout(LABELS, 0.1, ids=IDS, ledger=tmp_path / "b.db", name="spring")
    again = pickle.loads(pickle.dumps(holdout))  # noqa: S301
    assert again.check(LABELS[ORDER], 0.95, ids=MOVED) == holdout.check(LABELS, 0.95)
