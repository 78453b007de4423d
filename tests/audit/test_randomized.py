"""Neighbour replay through ``LabelRandomizer.transform``: odd values in every container, and twins that must be caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.audit._randomized import RandomizedLabels, randomized_labels
from steelyard.errors import InvalidTask
from steelyard.labels import _randomizer as randomizer
from steelyard.tables import numbers_of

SUBJECTS = randomized_labels()
SIMPLE = RandomizedLabels({"method": "two_point"})


def broken(subject: RandomizedLabels, share: int = 1) -> dict[str, str]:
    return {check.name: check.text for check in subject.audited(share) if not check.ok}


@pytest.mark.parametrize("name", SUBJECTS)
def test_one_odd_label_changes_its_own_row_and_nothing_else(name: str) -> None:
    assert broken(SUBJECTS[name], 20) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SUBJECTS)
def test_thirty_thousand_pairs_are_clean(name: str, seed: int) -> None:
    subject = SUBJECTS[name]
    assert broken(RandomizedLabels(subject.options, subject.way, seed=seed + 2)) == {}


def one_type(y: Any) -> Any:
    """All labels through NumPy at once, and zero for what is no number."""
    values = np.asarray(y)
    return values.astype(np.float64) if values.dtype.kind in "biuf" else np.zeros(len(values))


def refusing(y: Any) -> Any:
    values = numbers_of(y)
    if np.any(np.isnan(values)):
        raise InvalidTask("there is a label that is no number.")
    return values


def leaving_out(y: Any) -> Any:
    values = numbers_of(y)
    return values[np.isfinite(values)]


def warning(y: Any) -> Any:
    import warnings

    values = numbers_of(y)
    if np.any(np.isnan(values)):
        warnings.warn("some labels are missing", UserWarning, stacklevel=2)
    return values


TWINS = {one_type: "rows", refusing: "errors", leaving_out: "rows", warning: "transcript"}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: str(twin.__name__))
def test_each_broken_reader_is_caught(twin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomizer, "numbers_of", twin)
    assert TWINS[twin] in broken(SIMPLE, 4)


def test_noisy_labels_whose_type_follows_the_labels_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(y: Any, values: Any) -> Any:
        whole = all(isinstance(entry, int) for entry in y) if isinstance(y, list) else False
        return values.astype(np.float32) if whole else values

    monkeypatch.setattr(randomizer, "wrapped", narrow)
    assert "transcript" in broken(SIMPLE, 4)
