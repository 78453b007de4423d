"""Noise added on a grid: the law that is charged is the law that is drawn, for labels of every kind."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.labels._baselines import KINDS, AddedNoise, laplace_variance, staircase_variance, stairs, uniform
from steelyard.labels._document import judge
from steelyard.labels._nodes import Nodes
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._sampler import NoiseSampler
from steelyard.ledger import open_account
from steelyard.mechanisms import Laplace, Staircase
from steelyard.mechanisms._observe import observing
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours, labels

ODD = [math.nan, math.inf, -math.inf, 1e300, -1e300, -0.0, 5e-324]


def put(kind: str, count: int = 5, epsilon: Any = 1, missing: float | None = None) -> NoiseSampler:
    nodes = Nodes.of(0, 4, count)
    return NoiseSampler(AddedNoise.of(nodes.labels, epsilon, kind), missing)


@pytest.mark.parametrize("kind", KINDS)
@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True, allow_infinity=True))
def test_any_two_labels_are_no_further_apart_than_the_noise_was_made_for(kind: str, one: float, other: float) -> None:
    randomizer = put(kind)
    assert distance(randomizer, one, other) <= randomizer.mechanism.noise.sensitivity


def distance(randomizer: NoiseSampler, one: float, other: float) -> int:
    """How many grid steps two labels are apart when the noise is added, as the audit's window sees it."""
    with observing() as seen:
        randomizer.draw(np.array([one, other]), TestNoise(1))
    (here,) = seen
    assert here.event == randomizer.event
    return abs(here.values[0] - here.values[1])


def test_labels_that_are_not_clipped_are_caught_by_the_same_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    randomizer = put("laplace")
    assert distance(randomizer, 0.0, 5.0) <= randomizer.mechanism.noise.sensitivity

    def unclipped(self: NoiseSampler, y: NDArray[np.float64], noise: Any) -> NDArray[np.int64]:
        return np.rint(y * self.nodes.scale).astype(np.int64)

    monkeypatch.setattr(NoiseSampler, "_places", unclipped)
    assert distance(randomizer, 0.0, 5.0) > randomizer.mechanism.noise.sensitivity


def stair_law(noise: Staircase, reach: int) -> dict[int, float]:
    """P[x] from the definition: exp(-epsilon step(x)), normalized over a reach that leaves nothing out."""
    step = [
        0 if abs(x) < noise.first else 1 + (abs(x) - noise.first) // noise.sensitivity for x in range(-reach, reach + 1)
    ]
    weight = [math.exp(-float(noise.epsilon) * s) for s in step]
    return {x: w / sum(weight) for x, w in zip(range(-reach, reach + 1), weight, strict=True)}


def surprise(drawn: NDArray[np.int64], law: dict[int, float]) -> float:
    """Chi-square per degree of freedom over the outcomes expected at least twenty times."""
    often = {x: p * len(drawn) for x, p in law.items() if p * len(drawn) >= 20}
    terms = [(np.count_nonzero(drawn == x) - n) ** 2 / n for x, n in often.items()]
    return float(sum(terms) / len(terms))


STAIRS = [Staircase(7, 3, Fraction(1)), Staircase(5, 1, Fraction(2)), Staircase(1, 1, Fraction(1, 2))]


@pytest.mark.parametrize("noise", STAIRS)
def test_many_staircase_draws_follow_the_law_of_one(noise: Staircase) -> None:
    law = stair_law(noise, 200)
    assert surprise(stairs(noise, 200_000, TestNoise(2)), law) < 1.6
    one = np.array([noise.draw(TestNoise(f"{noise.first} {i}")) for i in range(5_000)])
    assert surprise(one, law) < 2


def test_a_lowest_step_that_is_never_drawn_again_is_caught() -> None:
    noise = STAIRS[0]
    source = TestNoise(2)
    level, place = source.laplace_array(1 / noise.epsilon, 200_000), uniform(noise.sensitivity, 200_000, source)
    far = noise.first + (np.abs(level) - 1) * noise.sensitivity + place
    lazy = np.where(level == 0, place % (2 * noise.first - 1) - noise.first + 1, np.sign(level) * far)
    assert surprise(lazy, stair_law(noise, 200)) > 3


@pytest.mark.parametrize("noise", [Laplace(4, Fraction(4, 3)), Staircase(4, 2, Fraction(3))])
def test_moving_by_the_whole_range_changes_no_probability_by_more_than_e_to_the_epsilon(
    noise: Laplace | Staircase,
) -> None:
    def chance(x: int) -> float:
        if isinstance(noise, Laplace):
            return math.exp(-abs(x) / float(noise.scale))
        return math.exp(-3 * (0 if abs(x) < noise.first else 1 + (abs(x) - noise.first) // noise.sensitivity))

    ratios = [chance(x) / chance(x - move) for x in range(-60, 60) for move in range(-4, 5)]
    assert max(ratios) == pytest.approx(math.exp(3))


def test_uniform_numbers_throw_away_the_words_past_the_last_multiple() -> None:
    class Words(TestNoise):
        def bits(self, size: int) -> NDArray[np.uint64]:
            return np.array([left.pop(0) for _ in range(size)], dtype=np.uint64)

    top = 2**64 - 1  # 2^64 = 3 * 6148914691236517205 + 1: the last word would make 0 likelier
    left = [7, top, 9, top, 11]
    assert uniform(3, 3, Words(0)).tolist() == [1, 2, 0]
    assert left == []
    assert uniform(4, 1, TestNoise(1))[0] in range(4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", ["0.5", "3"])
def test_noisy_labels_average_to_the_label_with_the_variance_told(kind: str, epsilon: str) -> None:
    made = LabelRandomizer(epsilon, 0, 20, kind, noise=TestNoise(3)).fit()
    size = 300_000
    noisy = made.transform(np.full(size, 7.3))
    variance = float(made.mechanism_.errors()[0])
    assert abs(noisy.mean() - 7.3) < 5 * math.sqrt(variance / size)
    assert noisy.var() == pytest.approx(variance, rel=0.03)
    assert made.unbiased_
    if kind == "discrete_laplace":
        assert (noisy == np.rint(noisy)).all()


def test_the_variances_are_those_of_the_formulas() -> None:
    nodes = Nodes.of(0, 400).labels
    for epsilon in (0.5, 4.0):
        laplace, stair = (AddedNoise.of(nodes, epsilon, kind) for kind in ("laplace", "staircase"))
        assert float(laplace.errors()[0]) == pytest.approx(laplace_variance(400, epsilon))
        assert float(stair.errors()[0]) == pytest.approx(staircase_variance(400, epsilon))
        assert stair.errors()[0] < laplace.errors()[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_is_charged_saved_loaded_verified_and_kept_by_record(kind: str, tmp_path: Path) -> None:
    budget = open_account(tmp_path / "l.db", "labels", unit=labels("y"), epsilon="2")
    made = LabelRandomizer("0.7", 0, 3, kind, account=budget, missing=1).fit()
    assert str(made.price()) == "epsilon 0.7"
    first = made.transform([0, 2.5, None], ids=["a", "b", "c"])
    made.save(tmp_path / "m.json")
    again = LabelRandomizer.load(tmp_path / "m.json", account=budget)
    assert again.transform([3, 3, 3, 3], ids=["c", "b", "a", "d"])[:3].tolist() == first[::-1].tolist()
    assert str(budget.spent) == "epsilon 0.7"
    assert made.verify().passed
    once = made.transform([0, 1], key="tuesday")
    assert made.transform([0, 1], key="tuesday").tolist() == once.tolist()
    with pytest.raises(BudgetExceeded):
        made.transform([0, 1])


FAULTS: list[tuple[str, str, Any]] = [
    ("laplace", "scale", lambda v: str(Fraction(v) * (1 - Fraction(1, 10**12)))),
    ("laplace", "sensitivity", lambda v: v - 1),
    ("laplace", "grid_bits", lambda v: 20),
    ("laplace", "inputs", lambda v: ["0", "1", "3"]),
    ("laplace", "inputs", lambda v: v[::-1]),
    ("discrete_laplace", "kind", lambda v: "laplace"),
    ("staircase", "first", lambda v: 0),
    ("staircase", "first", lambda v: 2**40),
    ("staircase", "first", lambda v: True),
    ("staircase", "fall", lambda v: str(Fraction(v) + Fraction(1, 10**12))),
    ("staircase", "kind", lambda v: "gaussian"),
    ("staircase", "epsilon", lambda v: "0"),
]


@pytest.mark.parametrize(("kind", "field", "change"), FAULTS)
def test_a_planted_fault_is_found(kind: str, field: str, change: Any) -> None:
    honest = json.loads(json.dumps(LabelRandomizer(1, 0, 3, kind).fit()._document()))
    assert judge(honest).passed
    assert judge(honest["groups"][""]["mechanism"]).passed
    faulty = json.loads(json.dumps(honest))
    faulty["groups"][""]["mechanism"][field] = change(honest["groups"][""]["mechanism"][field])
    assert not judge(faulty).passed
    assert not judge(faulty["groups"][""]["mechanism"]).passed


def test_a_document_whose_epsilon_or_missing_value_is_false_is_found() -> None:
    honest = LabelRandomizer(1, 0, 3, "staircase", missing=2).fit()._document()
    assert not judge({**honest, "epsilon": "1/2"}).passed
    assert not judge({**honest, "missing": 9.0}).passed


@pytest.mark.parametrize("kind", KINDS)
def test_what_noise_on_a_grid_cannot_do_is_refused(kind: str) -> None:
    with pytest.raises(InvalidTask, match="even grid"):
        LabelRandomizer(1, 0, 9, kind, nodes=[0, 1, 9]).fit()
    with pytest.raises(InvalidTask, match="alike"):
        LabelRandomizer(1, 0, 9, kind).fit(groups=["a", "b"])
    with pytest.raises(InvalidTask, match="affine"):
        LabelRandomizer(1, 0, 9, kind, loss="absolute").fit()
    with pytest.raises(InvalidTask, match="no table"):
        LabelRandomizer(1, 0, 9, kind).fit().chart()
    with pytest.raises(InvalidTask, match="64 bits"):
        AddedNoise.of(range(2049), "0.0001", "laplace")
    with pytest.raises(InvalidTask, match="noise is one of"):
        AddedNoise.of(range(3), 1, "gaussian")


def test_every_kind_is_priced_for_a_changed_label() -> None:
    for kind in KINDS:
        assert put(kind).event.neighbours is Neighbours.CHANGE_LABEL


@pytest.mark.parametrize("kind", KINDS)
def test_noise_that_floats_would_move_is_refused_when_made_and_when_judged(kind: str) -> None:
    far = 2**53 - 8
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    with pytest.raises(InvalidTask, match="too narrow"):
        LabelRandomizer(1, far, far + 8, kind, account=budget).fit()
    data = LabelRandomizer(1, 0, 8, kind).fit()._document()
    assert judge(data).passed
    data["groups"][""]["mechanism"]["inputs"] = [str(far + n) for n in range(9)]
    assert "what floats can say" in judge(data).findings[0]
