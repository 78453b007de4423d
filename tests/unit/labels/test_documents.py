"""The judge of saved randomizers accepts nothing it has not proved: documents that once passed, and are false."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels._baselines import AddedNoise
from steelyard.labels._document import judge
from steelyard.labels._nodes import Nodes
from steelyard.labels._packing import pack
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._sampler import NoiseSampler
from steelyard.ledger import open_account
from steelyard.noise import TestNoise
from steelyard.privacy import labels

Document = dict[str, Any]
PRIOR = [6, 1, 1, 1, 1]


@cache
def _text(kind: str) -> str:
    if kind == "bought":
        budget = open_account(":memory:", "a", unit=labels("y"), epsilon="2")
        made = LabelRandomizer(2, 0, 4, "unbiased", prior="private", account=budget).fit([0, 1, 4] * 50)
    else:
        made = LabelRandomizer(1, 0, 4, kind, prior=PRIOR, missing=0).fit()
    return json.dumps(made._document())


def document(kind: str) -> Document:
    held: Document = json.loads(_text(kind))
    return held


def ten_times_as_wide(data: Document) -> None:
    noise = data["groups"][""]["mechanism"]
    noise["sensitivity"] *= 10
    if "scale" in noise:
        noise["scale"] = str(10 * Fraction(noise["scale"]))


def certified_by_another(data: Document) -> None:
    data["groups"][""]["mechanism"]["certificate"] = {
        **document("unbiased")["groups"][""]["mechanism"]["certificate"],
        "gap": "0",
    }


def claims_less_than_nothing(data: Document) -> None:
    data["groups"][""]["mechanism"]["certificate"]["gap"] = "-1"


def paid_one_micro(data: Document) -> None:
    data["groups"][""]["prior"]["receipt"] = {"cost": {"amount": 1}}


def paid_one_micro_less(data: Document) -> None:
    data["groups"][""]["prior"]["receipt"]["cost"]["amount"] -= 1


def paid_on_no_ledger(data: Document) -> None:
    data["groups"][""]["prior"]["receipt"]["head"] = ""


def wider_than_a_word(data: Document) -> None:
    table = data["groups"][""]["mechanism"]
    table["bits"] += 4
    for column in table["columns"]:
        column[2] = [str(int(weight) * 16) for weight in column[2]]


def weights_as_numbers(data: Document) -> None:
    for column in data["groups"][""]["mechanism"]["columns"]:
        column[2] = [int(weight) for weight in column[2]]


def weights_with_blanks(data: Document) -> None:
    for column in data["groups"][""]["mechanism"]["columns"]:
        column[2] = [f" {weight}" for weight in column[2]]


def negative_unused_prior(data: Document) -> None:
    data["groups"][""]["prior"]["weights"][1] = "-1"


def invented_prior(data: Document) -> None:
    data["groups"][""]["prior"]["source"] = "none"


def a_number_without_end(data: Document) -> None:
    data["groups"][""]["mechanism"]["epsilon"] = "1e99999999"


def a_shift_without_end(data: Document) -> None:
    data["groups"][""] = pack(data["groups"][""])
    data["groups"][""]["mechanism"]["columns"]["shift"] = "1e99999999"


def a_packed_output(data: Document) -> None:
    data["groups"][""] = {**pack(data["groups"][""]), "values": [0.0]}


def a_packed_claim(data: Document) -> None:
    data["groups"][""] = pack(data["groups"][""])
    data["groups"][""]["mechanism"]["columns"]["variance"] = "0"


def a_list_for_a_source(data: Document) -> None:
    data["groups"][""]["prior"]["source"] = ["public"]


def one_more_claim(data: Document) -> None:
    data["groups"][""]["mechanism"]["variance"] = "0"


def a_truth_value_for_missing(data: Document) -> None:
    data["missing"] = True


def another_method(data: Document) -> None:
    data["groups"][""]["method"] = "two_point"


def outputs_no_float_can_say(data: Document) -> None:
    """Exactly unbiased as fractions, and biased by more than the range as floats: one output is a third of 2^60."""
    table, rows = data["groups"][""]["mechanism"], len(data["groups"][""]["mechanism"]["inputs"])
    total = 1 << table["bits"]
    high, low = Fraction(total, 4), Fraction(-total, 12)
    tilt = [total // 4 + 3 * int(y) for y in table["inputs"]]
    parts = [(low, [total - w for w in tilt]), (high, tilt)]
    table["columns"] = [[str(z), list(range(rows)), [str(w) for w in weights]] for z, weights in parts]


FAULTS: list[tuple[str, Callable[[Document], None]]] = [
    *((kind, ten_times_as_wide) for kind in ("laplace", "discrete_laplace", "staircase")),
    ("rr", certified_by_another),
    ("unbiased", claims_less_than_nothing),
    ("bought", paid_one_micro),
    ("bought", paid_one_micro_less),
    ("bought", paid_on_no_ledger),
    ("two_point", wider_than_a_word),
    ("two_point", weights_as_numbers),
    ("rr", weights_with_blanks),
    ("rr", negative_unused_prior),
    ("rr", invented_prior),
    ("rr", a_number_without_end),
    ("laplace", a_number_without_end),
    ("unbiased", a_shift_without_end),
    ("unbiased", one_more_claim),
    ("unbiased", a_packed_output),
    ("unbiased", a_packed_claim),
    ("rr", a_list_for_a_source),
    ("laplace", one_more_claim),
    ("rr", a_truth_value_for_missing),
    ("rr", another_method),
    ("two_point", outputs_no_float_can_say),
]


@pytest.mark.parametrize(("kind", "fault"), FAULTS, ids=lambda part: getattr(part, "__name__", part))
def test_a_false_document_is_refused_by_name_and_not_loaded(
    kind: str, fault: Callable[[Document], None], tmp_path: Path
) -> None:
    data = document(kind)
    assert judge(data).passed
    fault(data)
    assert judge(data).findings
    (tmp_path / "false.json").write_text(json.dumps(data))
    with pytest.raises(InvalidTask):
        LabelRandomizer.load(tmp_path / "false.json")


def test_a_sensitivity_wider_than_the_range_moves_every_label() -> None:
    """What the document of ``ten_times_as_wide`` would draw: it says no bias, and a label of 4 comes out near 0.4."""
    data = document("laplace")
    ten_times_as_wide(data)
    noise = AddedNoise.from_json(data["groups"][""]["mechanism"])
    drawn = NoiseSampler(noise).noisy(np.full(20_000, 4.0), TestNoise(1))
    assert abs(drawn.mean() - 0.4) < 0.2


def test_groups_tell_the_largest_bias_and_a_gap_only_if_all_have_one() -> None:
    """One group without bias and with a certificate does not speak for another that has bias."""
    sharp, biased = document("unbiased"), document("rr")
    report = judge({**sharp, "groups": {"a": sharp["groups"][""], "b": biased["groups"][""]}})
    assert report.passed
    assert report.bias == judge(biased).bias != 0
    assert report.gap is None


def test_what_no_document_can_show_is_said_and_not_claimed() -> None:
    assert "owes nothing to the labels" in judge(document("rr")).unproved[0]
    assert "ask the ledger" in judge(document("bought")).unproved[0]
    assert judge(LabelRandomizer(1, 0, 4, "balanced").fit()._document()).unproved == ()


def test_a_method_is_a_name_where_nothing_else_shows_it() -> None:
    other = document("debiased")
    other["groups"][""]["method"] = "two_point"
    assert judge(other).passed
    assert "the one method two_point makes" in judge(other).unproved[-1]
    assert not any("method" in text for kind in ("unbiased", "laplace") for text in judge(document(kind)).unproved)


def test_a_receipt_of_a_gaussian_account_is_one_of_the_price_in_its_currency() -> None:
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="9", delta="1e-6")
    data = LabelRandomizer(2, 0, 4, "unbiased", prior="private", account=budget).fit([0, 1, 4] * 50)._document()
    assert judge(data).passed
    cheaper = copy.deepcopy(data)
    cheaper["groups"][""]["prior"]["receipt"]["cost"]["amount"] -= 1
    assert not judge(cheaper).passed
    elsewhere = copy.deepcopy(data)
    elsewhere["groups"][""]["prior"]["receipt"]["cost"] = {
        "currency": "pure",
        "amount": data["groups"][""]["prior"]["micro"],
        "delta": 0,
    }
    assert judge(elsewhere).passed  # also a price of this purchase; which account paid is for the ledger to say


@pytest.mark.parametrize(
    "given",
    [
        {"lower": 10**17, "upper": 10**17 + 8},
        {"lower": 0, "upper": "1.00000000000000000001", "nodes": [0, "0.5", 1, "1.00000000000000000001"]},
        {"lower": "-1e308", "upper": "1e308", "nodes": 3},
        {"lower": 0, "upper": "1e399"},
        {"lower": 0, "upper": "1e200"},
        {"lower": 0, "upper": "1e-320", "nodes": 2},
    ],
)
def test_nodes_that_floats_cannot_tell_apart_are_refused_before_anything_is_charged(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match="tell them apart"):
        LabelRandomizer(1, **given).fit()


@pytest.mark.parametrize(
    "given",
    [
        {"lower": "0.1", "upper": "0.7"},
        {"lower": 1_700_000_000, "upper": 1_700_086_400},
        {"lower": -3, "upper": "1/3", "nodes": 2049},
        {"lower": "-1e-9", "upper": "1e90", "nodes": 2},
    ],
)
def test_nodes_that_floats_can_tell_apart_are_put_on_themselves(given: dict[str, Any]) -> None:
    nodes = Nodes.of(**given)
    below, steps = nodes.places(nodes.floats)
    assert below.tolist() == list(range(len(nodes.labels)))
    assert not steps.any()
