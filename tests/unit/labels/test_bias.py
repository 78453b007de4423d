"""unbiased=False: auto may trade bias for variance, says so, and pays in the loss of a model where data are few."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels._choice import weight_of
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.noise import TestNoise

PRIOR = [80, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1]


def made(records: int, **more: Any) -> LabelRandomizer:
    return LabelRandomizer("0.5", 0, 10, prior=PRIOR, unbiased=False, **more).fit(np.zeros(records))


def test_the_fewer_the_records_the_more_bias_is_taken_and_the_less_variance() -> None:
    errors, biases = [], []
    for records in (100, 10_000, 1_000_000):
        mechanism = made(records).mechanism_
        bias = [float(b) for b in mechanism.bias()]
        squares = np.dot(PRIOR, np.square(bias)) / sum(PRIOR)
        biases.append(squares)
        errors.append(np.dot(PRIOR, [float(e) for e in mechanism.errors()]) / sum(PRIOR) - squares)
    assert biases == sorted(biases, reverse=True)
    assert errors == sorted(errors)
    assert weight_of(10_000) == 100


def test_bias_is_declared_saved_and_loaded(tmp_path: Path) -> None:
    randomizer = made(2_000)
    assert randomizer.method_ == "compromise"
    assert randomizer.unbiased_ is False
    assert randomizer.verify().passed
    assert str(randomizer.price()) == "epsilon 0.5"
    randomizer.save(tmp_path / "m.json")
    again = LabelRandomizer.load(tmp_path / "m.json")
    assert again.get_params()["unbiased"] is False
    assert again.mechanism_ == randomizer.mechanism_
    twin = randomizer._document()
    twin["groups"][""]["mechanism"]["unbiased"] = True
    (tmp_path / "twin.json").write_text(json.dumps(twin))
    with pytest.raises(InvalidTask, match="biased"):
        LabelRandomizer.load(tmp_path / "twin.json")


def test_no_bias_stays_the_default() -> None:
    assert LabelRandomizer("0.5", 0, 10, prior=PRIOR).fit(np.zeros(100)).unbiased_


def loss(seed: int, **more: Any) -> float:
    """Clean error of least squares trained on noisy labels of few records: eight features, 5,000 records."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5_000, 8))
    y = np.clip(np.rint(3 + X[:, 0] + rng.normal(size=5_000)), 0, 10)
    noisy = LabelRandomizer("0.5", 0, 10, prior="private", noise=TestNoise(seed), **more).fit_transform(y)
    fitted = np.linalg.lstsq(np.column_stack([np.ones(5_000), X]), noisy, rcond=None)[0]
    fresh = rng.normal(size=(5_000, 8))
    return float(np.mean((np.column_stack([np.ones(5_000), fresh]) @ fitted - 3 - fresh[:, 0]) ** 2))


def test_with_few_records_a_model_is_better_for_it() -> None:
    free, kept = (np.mean([loss(seed, unbiased=unbiased) for seed in range(6)]) for unbiased in (False, True))
    assert free < kept


@pytest.mark.parametrize(
    ("params", "given"),
    [
        ({"method": "two_point", "prior": PRIOR}, [1.0]),
        ({"loss": "poisson", "prior": PRIOR}, [1.0]),
        ({}, [1.0]),
        ({"prior": PRIOR}, None),
        ({"prior": "private", "nodes": 600}, [1.0]),
    ],
)
def test_bias_without_something_to_weigh_it_by_is_refused(params: dict[str, Any], given: Any) -> None:
    with pytest.raises(InvalidTask, match="unbiased=False"):
        LabelRandomizer(1, 0, 10, unbiased=False, **params).fit(given)
