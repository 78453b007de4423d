"""Attacks: they work on what is broken, fail on what tells nothing, and count every interval that misses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from steelyard.audit import attacks
from steelyard.audit.attacks import _strategies as strategies
from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.holdout._holdout import Holdout

N = 2_000
LABELS = np.random.default_rng(7).integers(0, 2, N).astype(np.int8)


def accuracy(predictions: Any) -> float:
    return float(np.mean(predictions == LABELS))


@dataclass
class Said:
    value: float | None
    low: float | None
    high: float | None
    kind: str = "paid"


class Oracle:
    """A holdout that says what it is told to say, at most ``budget`` times."""

    def __init__(self, say: Any, budget: int = 10**9) -> None:
        self.say, self.budget = say, budget

    def check(self, predictions: Any, *, guess: float) -> Said:
        if self.budget == 0:
            raise BudgetExceeded("gone")
        self.budget -= 1
        answer: Said = self.say(predictions, guess)
        return answer


@pytest.mark.parametrize(
    ("attack", "questions", "least"),
    [
        (attacks.feature_selection, 2_000, 0.6),
        (attacks.wacky_boosting, 2_000, 0.75),
        (strategies.pair_flip_climb, 4_000, 0.78),
        (strategies.block_flip_climb, 2_000, 0.58),
    ],
)
def test_a_plain_score_is_climbed_while_fresh_rows_stay_at_a_half(attack: Any, questions: int, least: float) -> None:
    attacked = attack(accuracy, n=N, questions=questions, seed=1, labels=LABELS)
    assert attacked.reported == attacked.holdout >= least
    assert abs(attacked.truth - 0.5) < 0.01
    assert attacked.asked == attacked.answered == questions + 1


@pytest.mark.parametrize("attack", attacks.ATTACKS.values())
def test_an_oracle_that_tells_nothing_is_not_climbed(attack: Any) -> None:
    attacked = attack(lambda predictions: 0.5, n=N, questions=300, seed=2, labels=LABELS)
    assert abs(attacked.holdout - 0.5) < 0.05


@pytest.mark.parametrize("attack", [strategies.threshold_riding, strategies.memorising])
def test_a_training_score_that_must_be_corrected_draws_answers_out(attack: Any) -> None:
    def published(predictions: Any, guess: float) -> Said:
        real = accuracy(predictions)
        return Said(real, None, None) if abs(real - guess) > 0.04 else Said(guess, None, None, "free")

    assert attack(Oracle(published), n=N, questions=2_000, seed=3, labels=LABELS).holdout > 0.62
    assert abs(attacks.wacky_boosting(Oracle(published), n=N, questions=2_000, labels=LABELS).fooled) < 0.05


def test_a_refusal_ends_the_attack_and_is_counted() -> None:
    oracle = Oracle(lambda predictions, guess: Said(0.5, 0.4, 0.6), budget=10)
    attacked = attacks.wacky_boosting(oracle, n=N, questions=100, labels=LABELS)
    assert (attacked.asked, attacked.answered, attacked.reported) == (11, 10, None)
    refusing = Oracle(lambda predictions, guess: Said(None, None, None, "refused"))
    assert strategies.pair_flip_climb(refusing, n=N, questions=100).answered == 0


def test_intervals_that_miss_are_counted_and_others_are_not() -> None:
    honest = Oracle(lambda predictions, guess: Said(0.5, 0.45, 0.55))
    assert attacks.wacky_boosting(honest, n=N, questions=50, labels=LABELS).missed == 0
    lying = Oracle(lambda predictions, guess: Said(0.6, 0.55, 0.65))
    attacked = attacks.wacky_boosting(lying, n=N, questions=50, labels=LABELS)
    assert attacked.missed == attacked.certified == 51


def loss(digits: int) -> Any:
    def oracle(chances: Any) -> float:
        safe = np.clip(chances, 1e-15, 1 - 1e-15)
        return round(float(-np.mean(np.where(LABELS == 1, np.log(safe), np.log1p(-safe)))), digits)

    return oracle


@pytest.mark.parametrize("digits", [4, 5, 8, 12, 15])
def test_every_label_is_read_out_of_a_rounded_and_clipped_log_loss(digits: int) -> None:
    attacked = strategies.log_loss_reconstruction(loss(digits), n=N, questions=N, labels=LABELS, digits=digits)
    assert attacked.holdout == 1.0
    assert attacked.asked == -(-N // strategies.labels_per_question(N, digits))


def test_few_digits_of_a_mean_over_many_rows_give_no_label_away() -> None:
    assert strategies.labels_per_question(10**6, 4) == 0
    with pytest.raises(InvalidTask):
        strategies.log_loss_reconstruction(loss(1), n=N, questions=5, digits=1)


def test_a_suite_tells_people_and_programs_the_same() -> None:
    report = attacks.suite(accuracy, labels=LABELS, questions=200, seed=1)
    assert [line["attack"] for line in report.data] == [
        name for name in attacks.ATTACKS if name not in ("threshold riding", "memorising the training set")
    ]
    assert all(name["attack"] in report.table() for name in report.data)
    assert f"{report.worst.fooled:.1%} above the truth" in report.table()
    assert report.chart().svg().startswith("<svg")
    kept = attacks.suite(accuracy, labels=LABELS, questions=200, seed=1)
    assert kept.data == report.data


def test_a_suite_makes_a_holdout_anew_for_each_attack() -> None:
    def make() -> Any:
        return Oracle(lambda predictions, guess: Said(guess, guess - 0.6, guess + 0.6, "free"), budget=30)

    report = attacks.suite(None, labels=LABELS, questions=60, renew=make)
    assert [attacked.answered for attacked in report.attacks] == [30] * len(attacks.ATTACKS)
    assert report.missed == 0


def test_a_suite_refuses_what_it_cannot_judge() -> None:
    for given in ({"labels": [0, 1, 2]}, {"labels": LABELS, "metric": "auc"}, {"labels": LABELS, "only": ["magic"]}):
        with pytest.raises(InvalidTask):
            attacks.suite(accuracy, **given)
    report = attacks.suite(loss(5), labels=LABELS, questions=N, metric="log loss")
    assert report.attacks[0].holdout == 1.0


@pytest.mark.parametrize("attack", list(attacks.ATTACKS))
def test_a_certified_holdout_holds_or_refuses(attack: str) -> None:
    def make() -> Any:
        return Holdout(LABELS == 1, tolerance=0.1)

    report = attacks.suite(None, labels=LABELS, questions=150, seed=4, only=[attack], renew=make)
    assert report.missed == 0
    assert report.attacks[0].certified > 0
