"""What the judge passes says one thing, to every reader, and reading it ends: documents that once passed, or never ended."""

from __future__ import annotations

import base64
import copy
import json
import random
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import InvalidTask
from steelyard.labels._document import judge, read
from steelyard.labels._packing import _read_wholes, _signed, _unsigned, _wholes, pack
from steelyard.labels._randomizer import LabelRandomizer

Document = dict[str, Any]
PRIOR = {"source": "none", "weights": ["1", "1"], "counts": [], "micro": 0, "receipt": None}


def table(outputs: tuple[Any, Any] = (0, 1), epsilon: str = "2") -> Document:
    """Randomized response with weights of one digit."""
    columns = [[str(outputs[0]), [0, 1], ["6", "2"]], [str(outputs[1]), [0, 1], ["2", "6"]]]
    mechanism = {
        "format": "steelyard label mechanism 1", "epsilon": epsilon, "bits": 3, "unbiased": False,
        "inputs": ["0", "1"], "columns": columns, "certificate": None,
    }  # fmt: skip
    part = {"method": "rr", "prior": copy.deepcopy(PRIOR), "mechanism": mechanism}
    return {
        "format": "steelyard label randomizer 1", "column": "y", "epsilon": epsilon, "missing": None, "groups": {"": part},
    }  # fmt: skip


def weights_in_a_text(data: Document) -> None:
    data["groups"][""]["mechanism"]["columns"][0][2] = "62"


def weights_with_words(data: Document) -> None:
    data["groups"][""]["mechanism"]["columns"][0][2] = {"6": "a ratio of 1.01", "2": ""}


def labels_in_a_text(data: Document) -> None:
    data["groups"][""]["mechanism"]["inputs"] = "01"


def labels_with_words(data: Document) -> None:
    data["groups"][""]["mechanism"]["inputs"] = {"0": "epsilon is 0.01", "1": ""}


def prior_in_a_text(data: Document) -> None:
    data["groups"][""]["prior"]["weights"] = "11"


def counts_that_are_no_list(data: Document) -> None:
    data["groups"][""]["prior"]["counts"] = {}


def groups_in_a_list(data: Document) -> None:
    data["groups"] = [data["groups"][""]]


@pytest.mark.parametrize(
    "change",
    [
        weights_in_a_text, weights_with_words, labels_in_a_text, labels_with_words, prior_in_a_text,
        counts_that_are_no_list, groups_in_a_list,
    ],
)  # fmt: skip
def test_a_list_is_a_list_and_says_no_more(change: Callable[[Document], None]) -> None:
    data = table()
    assert judge(data).passed
    change(data)
    assert not judge(data).passed


@pytest.mark.parametrize("place", ['"column"', '"bits"'])
def test_a_field_that_stands_twice_is_refused(place: str, tmp_path: Path) -> None:
    text = json.dumps(table())
    (tmp_path / "once.json").write_text(text)
    assert judge(read(tmp_path / "once.json")).passed
    (tmp_path / "twice.json").write_text(text.replace(place, f'"epsilon": "1/100", {place}', 1))
    with pytest.raises(InvalidTask, match="not a saved randomizer"):
        read(tmp_path / "twice.json")


def packed_columns(data: Document) -> Document:
    data["groups"][""] = pack(data["groups"][""])
    held: Document = data["groups"][""]["mechanism"]["columns"]
    return held


def unit_divided(data: Document) -> None:
    held = packed_columns(data)
    held["unit"] = f"{2 * int(held['unit'])}/2"


def unit_below_zero(data: Document) -> None:
    held = packed_columns(data)
    held["unit"] = f"-{held['unit']}"
    held["outputs"] = _wholes(_signed(-_unsigned(x)) for x in _read_wholes(held["outputs"]))


def padded_too_far(data: Document) -> None:
    held = packed_columns(data)
    name = next(x for x in ("outputs", "shared", "ratios", "runs", "starts", "picks") if not held[x].endswith("="))
    held[name] += "="


@pytest.mark.parametrize("change", [unit_divided, unit_below_zero, padded_too_far])
def test_packed_numbers_that_a_browser_reads_otherwise_are_refused(change: Callable[[Document], None]) -> None:
    data = table((Fraction(1, 3), Fraction(2**54 + 1, 2**55) + Fraction(1, 3 * 2**140)))
    data["groups"][""]["mechanism"]["columns"].append(["0", [0], ["8"]])
    data["groups"][""]["mechanism"]["bits"] = 4
    assert judge(data).passed
    assert judge({**data, "groups": {"": pack(data["groups"][""])}}).passed
    change(data)
    assert not judge(data).passed


def test_an_output_that_a_browser_takes_for_zero_is_refused() -> None:
    assert judge(table((Fraction(1, 10**300), 1))).passed
    report = judge(table((Fraction(1, 10**310), 1)))
    assert "all but zero" in report.findings[0]


@pytest.mark.parametrize("epsilon", ["20000001/10000000", "7/3"])
def test_an_epsilon_that_no_ledger_can_charge_is_refused(epsilon: str) -> None:
    assert "millionths" in judge(table(epsilon=epsilon)).findings[0]


def endless_number(data: Document) -> None:
    packed_columns(data)["outputs"] = base64.b64encode(b"\xff" * 2_000_000 + b"\x01").decode()


def endless_price(data: Document) -> None:
    data.update(json.loads(json.dumps(LabelRandomizer(1, 0, 1, "unbiased", prior=[1, 1]).fit()._document())))
    packed_columns(data)
    data["groups"][""]["mechanism"]["certificate"]["u"]["mantissas"] = base64.b64encode(
        b"\xff" * 2_000_000 + b"\x01"
    ).decode()


def outputs_without_a_common_step(data: Document) -> None:
    chance, columns = random.Random(1), data["groups"][""]["mechanism"]["columns"]
    columns += [[f"{chance.randrange(10**999)}/{chance.randrange(10**999) | 1}", [0], ["1"]] for _ in range(2000)]
    columns.append(["0", [0], [str((1 << 20) - 2008)]])
    data["groups"][""]["mechanism"]["bits"] = 20


@pytest.mark.parametrize("change", [endless_number, endless_price, outputs_without_a_common_step])
def test_a_document_that_would_take_an_hour_is_refused_at_once(change: Callable[[Document], None]) -> None:
    data = table()
    change(data)
    start = time.process_time()
    assert not judge(data).passed
    assert time.process_time() - start < 20
