"""LabelRandomizer: what it promises about privacy, bias, money and bad input."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.accounting._prices import price
from steelyard.errors import (
    BudgetExceeded,
    InsecureNoise,
    InvalidTask,
    KeyConflict,
    NeighbourMismatch,
    OurBug,
    UnitMismatch,
)
from steelyard.labels._mechanism import Column, FiniteMechanism
from steelyard.labels._nodes import COIN
from steelyard.labels._prior_free import two_point
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._sampler import TableSampler
from steelyard.ledger import Account, open_account
from steelyard.mechanisms._observe import observing
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Neighbours, Status, labels, rows, users

METHODS = (
    "auto", "unbiased", "balanced", "two_point", "rr", "debiased", "piecewise", "hybrid", "rr_on_bins", "rr_with_prior",
)  # fmt: skip


def account(epsilon: str = "10", where: Any = ":memory:") -> Account:
    return open_account(where, "labels", unit=labels("y"), epsilon=epsilon)


def law(applied: TableSampler, label: float) -> dict[float, Fraction]:
    """The exact law of one label's output: over all coins, and the weights read back from the sampler's own table."""
    below, steps = (int(part[0]) for part in applied.nodes.places(np.array([label]), applied.missing))
    up = Fraction(steps, 1 << COIN)
    rows = applied.table.weights()
    top = min(below + 1, len(rows) - 1)
    return {
        float(z): ((1 - up) * a + up * b) / 2**64
        for z, a, b in zip(applied.values, rows[below], rows[top], strict=True)
    }


def worst_ratio(applied: TableSampler, candidates: list[float]) -> Fraction:
    laws = [law(applied, label) for label in candidates]
    return max(p[z] / q[z] for p in laws for q in laws for z in p)


LABELS = [-5.0, 0.0, 0.3, 1.0, 2.7, 3.0, 99.0, math.nan, math.inf]


@pytest.mark.filterwarnings("ignore:under this prior randomized response:UserWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 3])
def test_any_two_labels_give_laws_within_e_to_the_epsilon(method: str, epsilon: Fraction) -> None:
    made = LabelRandomizer(epsilon, 0, 3, method, prior=[5, 1, 1, 1], missing=1).fit()
    ratio = worst_ratio(made.sampler_, LABELS)
    assert 1 <= float(ratio) <= math.exp(epsilon) * (1 + 1e-12)
    charged = price(made.sampler_.event, made.account_.terms)
    assert math.log(ratio) <= float(charged.value)
    assert charged <= Loss.pure(epsilon)


def test_a_table_that_is_off_by_one_part_in_a_million_is_caught_by_the_same_check() -> None:
    honest = two_point(range(4), 1)
    low, high = honest.columns
    weights = [w + (2**40 if i == 3 else 0) for i, w in enumerate(high.weight(i) for i in range(4))]
    rest = [2**62 - w for w in weights]
    twin = FiniteMechanism(
        honest.inputs, honest.epsilon, (Column.of(low.output, rest), Column.of(high.output, weights)), True
    )
    assert float(worst_ratio(TableSampler(twin), LABELS)) > math.e * (1 + 1e-12)
    assert price(TableSampler(twin).event, account().terms).amount > 10**6


@pytest.mark.parametrize("method", ["auto", "unbiased", "balanced", "two_point", "debiased", "piecewise", "hybrid"])
def test_the_expected_output_is_the_label_exactly(method: str) -> None:
    made = LabelRandomizer("0.7", 0, 3, method, prior=[5, 1, 1, 1]).fit()
    assert made.unbiased_
    applied = made.sampler_
    for label in (0.0, 0.25, 1.0, 2.75, 3.0):
        below, steps = (int(part[0]) for part in applied.nodes.places(np.array([label])))
        up, weights = Fraction(steps, 1 << COIN), applied.table.weights()
        mean = sum(
            z * ((1 - up) * weights[below][j] + up * weights[min(below + 1, 3)][j]) / 2**64
            for j, z in enumerate(applied.mechanism.outputs)
        )
        assert mean == Fraction(label)


def test_noisy_labels_average_to_the_labels_and_are_never_clipped() -> None:
    made = LabelRandomizer(2, 0, 10, noise=TestNoise(1), account=account()).fit()
    noisy = made.transform(np.full(200_000, 7.3))
    assert abs(noisy.mean() - 7.3) < 5 * noisy.std() / math.sqrt(200_000)
    assert noisy.min() < 0
    assert noisy.max() > 10
    clipped = np.clip(noisy, 0, 10)
    assert abs(clipped.mean() - 7.3) > 5 * clipped.std() / math.sqrt(200_000)


def test_drawing_follows_the_law_that_was_checked() -> None:
    made = LabelRandomizer(1, 0, 3, "unbiased", prior=[5, 1, 1, 1], noise=TestNoise(3)).fit()
    noisy, size = made.transform(np.full(100_000, 1.6)), 100_000
    for output, chance in law(made.sampler_, 1.6).items():
        seen = np.count_nonzero(noisy == output)
        assert abs(seen - size * float(chance)) < 5 * math.sqrt(size * float(chance)) + 5


def test_each_pass_is_charged_and_the_default_account_pays_for_one() -> None:
    made = LabelRandomizer(1, 0, 3).fit()
    made.transform([1, 2])
    assert str(made.guarantee_.spent) == "epsilon 1"
    assert made.guarantee_.epsilon == "1"
    assert made.guarantee_.status is Status.PROVED
    assert "in memory" in made.note_
    with pytest.raises(BudgetExceeded):
        made.transform([1, 2])


def test_a_pass_draws_no_more_labels_than_it_was_paid_for() -> None:
    paid = LabelRandomizer(1, 0, 3).fit()._open_pass(size=3)
    paid.noisy(np.zeros(2))
    with pytest.raises(OurBug):
        paid.noisy(np.zeros(2))


def test_a_refused_pass_draws_nothing() -> None:
    made = LabelRandomizer(1, 0, 3, noise=TestNoise(1)).fit()
    made.transform([1])
    with observing() as seen, pytest.raises(BudgetExceeded):
        made.transform([1])
    assert seen == []


def test_the_audit_window_sees_the_nodes_and_the_event_that_was_charged() -> None:
    made = LabelRandomizer(1, 0, 3, noise=TestNoise(1)).fit()
    with observing() as seen:
        made.transform([0, 3, 2])
    assert seen[0].values == (0, 3, 2)
    assert seen[0].event == made.sampler_.event


def test_a_keyed_pass_is_retried_for_nothing_and_gives_the_same_answer() -> None:
    budget = account("1")
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    first = made.transform(np.arange(50) % 4, key="train")
    again = made.transform(np.arange(50) % 4, key="train")
    changed = made.transform(np.zeros(50), key="train")
    assert first.tolist() == again.tolist() == changed.tolist()
    assert str(budget.spent) == "epsilon 1"
    with pytest.raises(KeyConflict):
        made.transform([1, 2], key="train")


def test_an_account_of_another_unit_or_relation_is_refused() -> None:
    for unit in (rows(), users("u"), rows(neighbours="replace", n=9)):
        other = open_account(":memory:", "a", unit=unit, epsilon="4")
        with pytest.raises((UnitMismatch, NeighbourMismatch)):
            LabelRandomizer(1, 0, 3, account=other).fit()
    with pytest.raises(UnitMismatch):
        LabelRandomizer(1, 0, 3, account=account(), column="other").fit()


def test_a_gaussian_account_pays_the_tight_mu() -> None:
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="9", delta="1e-6")
    LabelRandomizer(1, 0, 3, account=budget).fit().transform([1])
    assert 0 < float(budget.spent.value) ** 0.5 < 1.25  # 2 Phi^-1(e/(1+e)) = 1.23


def test_test_noise_says_so_and_cannot_spend_a_durable_account(tmp_path: Path) -> None:
    made = LabelRandomizer(1, 0, 3, noise=TestNoise(1)).fit()
    made.transform([1])
    assert made.guarantee_.status is Status.TEST_NOISE
    with pytest.raises(InsecureNoise):
        LabelRandomizer(1, 0, 3, noise=TestNoise(1), account=account(where=tmp_path / "l.db")).fit()


def test_missing_labels_are_refused_before_a_charge_or_counted_as_declared() -> None:
    budget = account()
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    messages = []
    for bad in ([math.nan, 1], [1, math.inf], [None, None], np.array([1, "x"], object)):
        with pytest.raises(InvalidTask) as refusal:
            made.transform(bad)
        messages.append(str(refusal.value))
    assert len(set(messages)) == 1
    assert budget.spent.amount == 0
    declared = LabelRandomizer(1, 0, 3, missing=2, account=budget).fit()
    assert law(declared.sampler_, math.nan) == law(declared.sampler_, 2.0) == law(declared.sampler_, -math.inf)
    assert np.all(np.isfinite(declared.transform([math.nan, None, 1])))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"epsilon": 100}, {"method": "magic"},
        {"lower": 3}, {"prior": "secret"}, {"prior": [1, 2]}, {"prior": [1, -1, 1, 1]}, {"prior": [0, 0, 0, 0]},
        {"prior": {7: 1}}, {"prior": {"x": 1}}, {"nodes": 1}, {"nodes": 10**7}, {"missing": 9}, {"loss": "hinge"}, {"loss": "absolute"},
        {"prior": "private"},
    ],
)  # fmt: skip
def test_a_request_that_makes_no_sense_is_refused_at_fit(wrong: dict[str, Any]) -> None:
    params: dict[str, Any] = {"epsilon": 1, "lower": 0, "upper": 3, **wrong}
    with pytest.raises(InvalidTask):
        LabelRandomizer(**params).fit()


def test_it_must_be_fitted_first_and_lengths_must_agree() -> None:
    with pytest.raises(InvalidTask, match="not fitted"):
        LabelRandomizer(1, 0, 3).transform([1])
    with pytest.raises(InvalidTask, match="2 ids for 1"):
        LabelRandomizer(1, 0, 3).fit().transform([1], ids=[1, 2])


def test_absolute_loss_is_served_by_bins_only() -> None:
    made = LabelRandomizer(1, 0, 3, "rr_on_bins", loss="absolute").fit()
    assert not made.unbiased_


def test_scikit_learn_can_clone_it() -> None:
    from sklearn.base import clone

    made = LabelRandomizer(2, 0, 3, prior=[1, 2, 3, 4], missing=1)
    copy = clone(made)
    assert copy.get_params() == made.get_params()
    assert copy is not made
    assert copy.set_params(epsilon=1).epsilon == 1
    with pytest.raises(InvalidTask):
        copy.set_params(seed=1)


def test_a_saved_randomizer_comes_back_the_same(tmp_path: Path) -> None:
    made = LabelRandomizer("1.5", 0, 5, prior=[9, 1, 1, 1, 1, 1], missing=0, column="spend").fit()
    made.save(tmp_path / "m.json")
    again = LabelRandomizer.load(tmp_path / "m.json")
    assert again.sampler_.digest == made.sampler_.digest
    assert again.verify().passed
    assert again.account_.terms.unit == labels("spend")
    assert len(again.transform([1.0, 2.5])) == 2
    assert (tmp_path / "m.json").read_text().isascii()


FAULTS: dict[str, Any] = {
    "values": lambda d: d.__setitem__("values", [0.0]),
    "nodes": lambda d: d["groups"][""].__setitem__("nodes", [0.0, 1.0]),
    "input": lambda d: d["groups"][""]["mechanism"]["inputs"].__setitem__(1, "1.0000001"),
    "output": lambda d: d["groups"][""]["mechanism"]["columns"][0].__setitem__(0, "1"),
    "no groups": lambda d: d["groups"].clear(),
    "missing": lambda d: d.__setitem__("missing", 99),
    "epsilon": lambda d: d.__setitem__("epsilon", "1"),
    "weight": lambda d: d["groups"][""]["mechanism"]["columns"][0][2].__setitem__(0, "1"),
    "prior": lambda d: d["groups"][""]["prior"]["weights"].__setitem__(0, "7"),
    "source": lambda d: d["groups"][""]["prior"].__setitem__("source", "raw labels"),
    "counts": lambda d: d["groups"][""]["prior"].__setitem__("counts", [3, 1, 1, 1, 1, 1]),
    "claimed private": lambda d: d["groups"][""]["prior"].__setitem__("source", "private"),
    "format": lambda d: d.__setitem__("format", "other"),
    "no table": lambda d: d["groups"][""].pop("mechanism"),
    "text": lambda d: d["groups"][""]["mechanism"]["columns"][0][2].__setitem__(0, "many"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_false_document_is_found_out_and_not_loaded(fault: str, tmp_path: Path) -> None:
    from steelyard.labels._document import judge

    made = LabelRandomizer("1.5", 0, 5, prior=[9, 1, 1, 1, 1, 1]).fit()
    made.save(tmp_path / "m.json")
    data = json.loads((tmp_path / "m.json").read_text())
    assert judge(data).passed
    FAULTS[fault](data)
    assert not judge(data).passed
    (tmp_path / "m.json").write_text(json.dumps(data))
    with pytest.raises(InvalidTask):
        LabelRandomizer.load(tmp_path / "m.json")


@pytest.mark.parametrize("epsilon", [1, 4, 8])
def test_balanced_needs_no_prior_and_is_far_below_two_point_on_average(epsilon: int) -> None:
    made, simple = (LabelRandomizer(epsilon, 0, 32, method).fit() for method in ("balanced", "two_point"))
    ratios = [float(a / b) for a, b in zip(made.mechanism_.errors(), simple.mechanism_.errors(), strict=True)]
    assert max(ratios) < {1: 1.2, 4: 2.2, 8: 6}[epsilon]
    assert float(np.mean(ratios)) < {1: 1.0, 4: 0.4, 8: 0.37}[epsilon]
    assert made.verify().passed
    assert made.prior_.source == "none"


def test_the_chart_is_drawn() -> None:
    from steelyard.labels._charts import draw_errors

    made = LabelRandomizer(2, 0, 5, prior=[9, 1, 1, 1, 1, 1]).fit()
    assert made.chart().svg().startswith("<svg")
    assert draw_errors(made.mechanism_, "unbiased").svg().startswith("<svg")


def test_the_room_hands_out_its_names_when_they_are_first_used() -> None:
    room = import_module("steelyard.labels")
    assert room.LabelRandomizer is LabelRandomizer
    assert all(getattr(room, name) for name in dir(room) if not name.startswith("_"))


def test_the_event_is_for_a_changed_label() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LabelRandomizer(1, 0, 3).fit().sampler_.event.neighbours is Neighbours.CHANGE_LABEL


def test_a_prior_under_which_every_label_comes_out_alike_is_warned_of() -> None:
    labels_told = [0.0, 1.0] * 20
    with pytest.warns(UserWarning, match="always saying the likeliest label, so the noisy labels say nothing"):
        noisy = LabelRandomizer(1, 0, 1, "rr_with_prior", prior=[76, 24]).fit_transform(labels_told)
    assert set(noisy) == {0.0}
    LabelRandomizer(3, 0, 1, "rr_with_prior", prior=[76, 24]).fit()  # a larger epsilon says something


def test_a_prior_for_each_record_is_sent_where_it_is_taken() -> None:
    with pytest.raises(InvalidTask, match="LabelPrivateClassifier takes them"):
        LabelRandomizer(1, 0, 1, "rr_with_prior", prior=np.tile([0.7, 0.3], (5, 1))).fit()
