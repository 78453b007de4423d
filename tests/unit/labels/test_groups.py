"""Public groups: each record meets the mechanism of its own group, and all groups together cost one epsilon."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.labels._document import judge
from steelyard.labels._files import randomize_parquet
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._sampler import GroupSampler, TableSampler
from steelyard.ledger import Account, open_account
from steelyard.mechanisms._observe import observing
from steelyard.noise import TestNoise
from steelyard.privacy import labels

PRIOR = {"old": [90, 5, 3, 2], "new": [1, 1, 4, 94]}
GROUPS = ["old", "new", "new", "old"]


def account(epsilon: str) -> Account:
    return open_account(":memory:", "labels", unit=labels("y"), epsilon=epsilon)


def made(**more: Any) -> LabelRandomizer:
    return LabelRandomizer(4, 0, 3, prior=PRIOR, **more).fit(groups=PRIOR)


def tables(sampler: GroupSampler) -> dict[str, TableSampler]:
    return {name: part for name, part in sampler.parts.items() if isinstance(part, TableSampler)}


def law(sampler: GroupSampler, label: int, group: str) -> dict[int, Fraction]:
    """The exact law of one record's output number, from the samplers' own tables."""
    before = sum(len(part.values) for name, part in sampler.parts.items() if name < group)
    row = tables(sampler)[group].table.weights()[label]
    return {before + j: Fraction(int(w), 2**64) for j, w in enumerate(row)}


def worst_ratio(sampler: GroupSampler, group_of: Any) -> Fraction | float:
    """The largest ratio between the laws of one record with any two labels."""
    laws = [law(sampler, label, group_of(label)) for label in range(4)]
    same = all(p.keys() == laws[0].keys() for p in laws)
    return max(p[j] / q[j] for p in laws for q in laws for j in p) if same else float("inf")


def test_a_record_is_private_within_its_group_and_every_group_has_its_own_optimum() -> None:
    sampler = made()._sampler
    for group in ("old", "new"):
        assert worst_ratio(sampler, lambda label, group=group: group) <= sampler.first.ratio
    assert sampler.parts["old"].digest != sampler.parts["new"].digest


def test_groups_made_from_the_labels_themselves_are_caught() -> None:
    sampler = made()._sampler
    assert worst_ratio(sampler, lambda label: "old" if label == 0 else "new") > sampler.first.ratio


def test_all_groups_together_cost_the_maximum_and_separate_randomizers_the_sum() -> None:
    budget = account("4")
    made(account=budget).transform([0, 3, 2, 0], groups=GROUPS)
    assert str(budget.spent) == "epsilon 4"
    apart = account("4")
    LabelRandomizer(4, 0, 3, prior=PRIOR["old"], account=apart).fit().transform([0, 0])
    with pytest.raises(BudgetExceeded):
        LabelRandomizer(4, 0, 3, prior=PRIOR["new"], account=apart).fit().transform([3, 2])


def test_private_priors_of_all_groups_are_one_histogram_that_a_changed_label_moves_by_two() -> None:
    seen = []
    for y in ([0, 3, 2, 0], [3, 3, 2, 0]):
        with observing() as window:
            LabelRandomizer(4, 0, 3, "unbiased", prior="private", noise=TestNoise(1)).fit(y, groups=GROUPS)
        seen.append(np.array(window[0].values))
    assert seen[0].tolist() == [0, 0, 1, 1, 2, 0, 0, 0]  # new, then old
    assert np.abs(seen[0] - seen[1]).sum() == 2
    budget = account("4")
    one = LabelRandomizer(4, 0, 3, "unbiased", prior="private", account=budget)
    one.fit_transform([0, 3, 2, 0], groups=GROUPS)
    assert str(budget.spent) == "epsilon 4"


def test_every_record_gets_an_unbiased_label_from_its_own_group() -> None:
    y, groups = np.repeat([0.0, 3.0], 20_000), np.repeat(["old", "new"], 20_000)
    randomizer = made()
    noisy = randomizer.transform(y, groups=groups)
    for group, start in (("old", 0), ("new", 20_000)):
        part = noisy[start : start + 20_000]
        assert set(part.tolist()) <= set(randomizer._sampler.parts[group].values.tolist())
        assert abs(part.mean() - y[start]) < 6 * part.std() / 20_000**0.5
    assert randomizer.unbiased_


def test_a_known_record_keeps_its_draw_whatever_group_it_is_given_later() -> None:
    randomizer = made()
    first = randomizer.transform([0, 3], ids=["a", "b"], groups=["old", "new"])
    again = randomizer.transform([1, 2], ids=["b", "a"], groups=["old", "old"])
    assert again.tolist() == first.tolist()[::-1]


def test_a_grouped_randomizer_survives_saving_and_every_group_is_judged(tmp_path: Path) -> None:
    randomizer = made()
    assert randomizer.verify().passed
    assert randomizer.chart("old").svg() != randomizer.chart("new").svg()
    randomizer.save(tmp_path / "g.json")
    loaded = LabelRandomizer.load(tmp_path / "g.json")
    assert loaded._sampler.digest == randomizer._sampler.digest
    assert len(loaded.transform([0, 3], groups=["old", "new"])) == 2
    data = json.loads((tmp_path / "g.json").read_text())
    weights = data["groups"]["old"]["mechanism"]["columns"][0][2]
    weights[0] = str(int(weights[0]) + 1)
    assert any("group old" in found for found in judge(data).findings)
    data = json.loads((tmp_path / "g.json").read_text())
    data["groups"]["new"]["column"] = "other"
    assert not judge(data).passed
    assert not judge({**data, "groups": {}}).passed
    assert not judge({**data, "groups": {"x": data}}).passed
    noisy = json.loads(json.dumps(LabelRandomizer(4, 0, 3, "laplace", prior=[1, 1, 1, 1]).fit()._document()))
    assert judge(noisy).passed
    assert "from a table" in judge({**noisy, "groups": {"old": noisy["groups"][""]}}).findings[0]
    wider = json.loads(json.dumps(LabelRandomizer(4, 0, 4, prior=[1] * 5).fit()._document()))["groups"][""]
    honest = json.loads((tmp_path / "g.json").read_text())
    assert judge({**honest, "groups": {**honest["groups"], "wide": wider}}).findings == (
        "the groups do not share range and prior",
    )
    assert not judge({**honest, "groups": {**honest["groups"], "": honest["groups"]["old"]}}).passed


def test_bad_groups_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    budget = account("4")
    randomizer = made(account=budget)
    with pytest.raises(InvalidTask, match="both"):
        randomizer.transform([0])
    with pytest.raises(InvalidTask, match="not there"):
        randomizer.transform([0], groups=["other"])
    with pytest.raises(InvalidTask, match="2 groups for 1"):
        randomizer.transform([0], groups=["old", "new"])
    with pytest.raises(InvalidTask, match="integer or text"):
        randomizer.transform([0], groups=[None])
    with pytest.raises(InvalidTask, match="integer or text"):
        randomizer.transform([0], groups=[""])
    with pytest.raises(InvalidTask, match="one group's"):
        randomizer.chart()
    with pytest.raises(InvalidTask, match="no weights"):
        LabelRandomizer(4, 0, 3, prior=PRIOR, account=budget).fit(groups=["old", "lost"])
    with pytest.raises(InvalidTask, match="mapping"):
        LabelRandomizer(4, 0, 3, prior=[1, 1, 1, 1], account=budget).fit(groups=["old"])
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"y": [0.0]}), tmp_path / "y.parquet")
    with pytest.raises(InvalidTask, match="column of groups"):
        randomize_parquet(made(account=budget, missing=0), tmp_path / "y.parquet", tmp_path / "z.parquet", "y")
    assert budget.spent.amount == 0
