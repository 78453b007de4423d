"""Packed files: small, the same document to the bit, and judged as strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels._document import judge, read
from steelyard.labels._packing import pack, unpack
from steelyard.labels._randomizer import LabelRandomizer

pytestmark = pytest.mark.filterwarnings("ignore:under this prior randomized response")  # packed all the same
METHODS = ("unbiased", "two_point", "piecewise", "hybrid", "debiased", "rr", "rr_on_bins", "rr_with_prior")


def documents() -> dict[str, dict[str, Any]]:
    prior = [20, *[1] * 30]
    made = {m: LabelRandomizer("1.5", -10, 20, m, prior=prior, nodes=31).fit() for m in METHODS}
    made["uneven"] = LabelRandomizer(3, 0, "9.7", "unbiased", nodes=[0, "1/3", "2.5", "9.7"]).fit()
    return {name: json.loads(json.dumps(one._document())) for name, one in made.items()}


def test_unpacking_gives_back_every_number() -> None:
    for document in documents().values():
        part = document["groups"][""]
        packed = json.loads(json.dumps(pack(part)))
        assert isinstance(packed["mechanism"]["columns"], dict)
        assert unpack(packed) == part == unpack(part)


def test_four_hundred_labels_fit_64_kilobytes_and_load_as_they_were(tmp_path: Path) -> None:
    y = np.arange(401)
    prior = np.exp(-(np.log(np.maximum(y, 0.5) / 40) ** 2) / 2.88) / np.maximum(y, 0.5)
    prior[0] = 9 * prior[1:].sum()
    made = LabelRandomizer(4, 0, 400, prior=prior.round(9).tolist()).fit()
    made.save(tmp_path / "m.json")
    assert (tmp_path / "m.json").stat().st_size <= 1 << 16
    again = LabelRandomizer.load(tmp_path / "m.json")
    assert again.mechanism_ == made.mechanism_
    assert again.verify().passed
    (tmp_path / "old.json").write_text(json.dumps(made._document()))
    assert LabelRandomizer.load(tmp_path / "old.json").mechanism_ == made.mechanism_


def test_small_files_and_groups_of_them_stay_plain(tmp_path: Path) -> None:
    LabelRandomizer(1, 0, 3).fit().save(tmp_path / "m.json")
    assert isinstance(json.loads((tmp_path / "m.json").read_text())["groups"][""]["mechanism"]["columns"], list)


def test_large_groups_are_packed_one_by_one(tmp_path: Path) -> None:
    prior = {"a": [9, *[1] * 100], "b": [*[1] * 100, 9]}
    made = LabelRandomizer(3, 0, 100, prior=prior).fit(groups=prior)
    made.save(tmp_path / "m.json")
    parts = json.loads((tmp_path / "m.json").read_text())["groups"]
    assert all(isinstance(part["mechanism"]["columns"], dict) for part in parts.values())
    assert made.groups_ is not None
    again = LabelRandomizer.load(tmp_path / "m.json")
    assert again.groups_ is not None
    assert again.groups_["a"].mechanism == made.groups_["a"].mechanism


@pytest.mark.parametrize(
    "fault",
    [
        lambda m: m["columns"].update(shared=m["columns"]["shared"][4:]),
        lambda m: m["columns"].update(picks=m["columns"]["picks"][:-4]),
        lambda m: m["columns"].update(starts="gA=="),
        lambda m: m["columns"].update(outputs="!"),
        lambda m: m["columns"].update(unit="0"),
        lambda m: m["columns"].update(shift="1"),
        lambda m: m["columns"].pop("ratios"),
        lambda m: m["certificate"]["u"].update(powers="/////////w8="),
        lambda m: m["certificate"]["slope"].update(unit="1/0"),
        lambda m: m.update(columns=[]),
    ],
)
def test_damaged_packing_is_a_finding_and_never_loaded(fault: Any, tmp_path: Path) -> None:
    data = documents()["unbiased"]
    packed = json.loads(json.dumps({**data, "groups": {"": pack(data["groups"][""])}}))
    assert judge(packed).passed
    fault(packed["groups"][""]["mechanism"])
    assert not judge(packed).passed
    (tmp_path / "m.json").write_text(json.dumps(packed))
    assert not judge(read(tmp_path / "m.json")).passed
    with pytest.raises(InvalidTask):
        LabelRandomizer.load(tmp_path / "m.json")
