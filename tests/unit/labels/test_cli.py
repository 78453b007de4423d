"""``steelyard labels``: fit, apply, verify and chart, for people and for programs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.cli import _labelling as labelling
from steelyard.errors import BudgetExceeded, InvalidTask, UnitMismatch
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.ledger import Account, open_account
from steelyard.privacy import labels
from steelyard.requests import Reply


def run(*words: Any) -> Reply:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true")
    shared.add_argument("--plan", action="store_true")
    root = argparse.ArgumentParser()
    labelling.add_commands(root.add_subparsers(), shared)
    args = root.parse_args(["labels", *map(str, words)])
    answer: Reply = args.run(args)
    json.dumps(answer.data)
    return answer


@pytest.fixture
def budget(tmp_path: Path) -> Account:
    return open_account(tmp_path / "budget.db", "spend", unit=labels("spend"), epsilon="9")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    spend = np.where(rng.random(60_000) < 0.9, 0, rng.integers(1, 21, 60_000))
    pq.write_table(pa.table({"id": np.arange(60_000), "spend": spend}), tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


def pays(budget: Account) -> tuple[str, ...]:
    return ("--ledger", budget.location, "--account", budget.name)


BOUNDS = ("--epsilon", "4", "--lower", "0", "--upper", "20")


def test_a_randomizer_is_fitted_verified_drawn_and_applied(data: Path, budget: Account, tmp_path: Path) -> None:
    saved, out = tmp_path / "m.json", tmp_path / "out.parquet"
    fitted = run("fit", data, "spend", *BOUNDS, "--prior", "private", "--out", saved, *pays(budget))
    assert fitted.data["method"] == "unbiased"
    assert str(budget.spent) == "epsilon 0.04"
    judged = run("verify", saved, "--ledger", budget.location)
    assert judged.exit_code == 0
    assert judged.data["bias"] == "0"
    assert judged.data["gap"] < 1e-5
    for name in ("m.svg", "e.html"):
        run("chart", saved, tmp_path / name, *(["--errors"] if name[0] == "e" else []))
        assert (tmp_path / name).stat().st_size > 1000
    applied = run("apply", saved, data, out, "--ids", "id", *pays(budget))
    assert applied.data["rows"] == 60_000
    assert "epsilon 4" in str(budget.spent)
    noisy, true = (pq.read_table(path)["spend"].to_numpy() for path in (out, data))
    assert abs(noisy.mean() - true.mean()) < 6 * noisy.std() / np.sqrt(60_000)


def test_plans_spend_nothing_and_write_nothing(data: Path, budget: Account, tmp_path: Path) -> None:
    saved = tmp_path / "m.json"
    plan = run("fit", data, "spend", *BOUNDS, "--prior", "private", "--out", saved, "--plan", *pays(budget))
    assert plan.data["plan"]["prior"]["amount"] == 40_000
    assert not saved.exists()
    run("fit", data, "spend", *BOUNDS, "--out", saved)
    before = sorted(tmp_path.iterdir())
    plan = run("apply", saved, data, tmp_path / "o.parquet", "--plan", *pays(budget))
    assert plan.data["enough"] is True
    run("chart", saved, tmp_path / "m.svg", "--plan")
    run("verify", saved, "--plan")
    assert sorted(tmp_path.iterdir()) == before
    assert budget.spent.amount == 0


def test_a_false_document_leaves_with_two(data: Path, tmp_path: Path) -> None:
    saved = tmp_path / "m.json"
    run("fit", data, "spend", *BOUNDS, "--out", saved)
    document = json.loads(saved.read_text())
    document["groups"][""]["mechanism"]["columns"][0][2][0] = str(
        int(document["groups"][""]["mechanism"]["columns"][0][2][0]) + 1
    )
    saved.write_text(json.dumps(document))
    judged = run("verify", saved)
    assert judged.exit_code == 2
    assert judged.data["findings"]
    with pytest.raises(InvalidTask):
        run("chart", saved, tmp_path / "m.svg")


def test_a_prior_whose_charge_is_on_no_such_ledger_is_found_out(data: Path, budget: Account, tmp_path: Path) -> None:
    saved = tmp_path / "m.json"
    run("fit", data, "spend", *BOUNDS, "--prior", "private", "--out", saved, *pays(budget))
    other = open_account(tmp_path / "other.db", "spend", unit=labels("spend"), epsilon="9")
    assert run("verify", saved, "--ledger", other.location).exit_code == 2


def test_what_is_wrong_is_told_before_anything_is_spent(data: Path, budget: Account, tmp_path: Path) -> None:
    saved = tmp_path / "m.json"
    fit = ("fit", data, "spend", *BOUNDS, "--out", saved)
    for wrong in (("--prior", "private"), ("--prior", tmp_path / "no.json"), ("--ledger", budget.location)):
        with pytest.raises(InvalidTask):
            run(*fit, *wrong)
    run(*fit)
    with pytest.raises(InvalidTask, match="exists"):
        run(*fit)
    with pytest.raises(UnitMismatch):
        run("apply", saved, data, tmp_path / "o.parquet", "--column", "id", *pays(budget))
    small = open_account(tmp_path / "budget.db", "small", unit=labels("spend"), epsilon="1")
    with pytest.raises(BudgetExceeded):
        run("apply", saved, data, tmp_path / "o.parquet", *pays(small))
    for name in ("nothing.json", "in.parquet"):
        with pytest.raises(InvalidTask):
            run("verify", tmp_path / name)
    assert budget.spent.amount == 0


def test_a_public_prior_is_read_from_a_file(data: Path, tmp_path: Path) -> None:
    (tmp_path / "prior.json").write_text(json.dumps([9] + [1] * 20))
    fitted = run("fit", data, "spend", *BOUNDS, "--prior", tmp_path / "prior.json", "--out", tmp_path / "m.json")
    assert fitted.data["prior"] == "public"


@pytest.fixture
def shops(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    toys = np.arange(40_000) % 2 == 0
    spend = np.where(toys, rng.integers(15, 21, 40_000), rng.integers(0, 4, 40_000))
    table = {"id": np.arange(40_000), "shop": np.where(toys, "toys", "tools"), "spend": spend}
    pq.write_table(pa.table(table), tmp_path / "shops.parquet", row_group_size=7_000)
    return tmp_path / "shops.parquet"


def test_every_group_of_a_file_gets_its_own_mechanism_for_one_epsilon(
    shops: Path, budget: Account, tmp_path: Path
) -> None:
    saved, out = tmp_path / "m.json", tmp_path / "out.parquet"
    fit = ("fit", shops, "spend", *BOUNDS, "--prior", "private", "--groups", "shop", "--out", saved, *pays(budget))
    assert run(*fit, "--plan").data["plan"]["prior"]["amount"] > 0
    fitted = run(*fit)
    assert fitted.data["groups"] == ["tools", "toys"]
    assert fitted.data["bias"] == 0
    assert run("verify", saved, "--ledger", budget.location).exit_code == 0
    run("chart", saved, tmp_path / "toys.svg", "--group", "toys")
    with pytest.raises(InvalidTask, match="--group"):
        run("chart", saved, tmp_path / "none.svg")
    with pytest.raises(InvalidTask, match="column of groups"):
        run("apply", saved, shops, out, "--ids", "id", *pays(budget))
    run("apply", saved, shops, out, "--ids", "id", "--groups", "shop", *pays(budget))
    assert "epsilon 4" in str(budget.spent)
    noisy, true = pq.read_table(out), pq.read_table(shops)
    toys = true["shop"].to_numpy(zero_copy_only=False) == "toys"
    assert noisy["shop"].equals(true["shop"])
    for here in (toys, ~toys):
        apart = noisy["spend"].to_numpy()[here] - true["spend"].to_numpy()[here]
        assert abs(apart.mean()) < 6 * apart.std() / np.sqrt(len(apart))


def test_groups_that_are_unknown_missing_or_the_label_itself_are_refused_before_a_charge(
    shops: Path, budget: Account, tmp_path: Path
) -> None:
    saved = tmp_path / "m.json"
    prior = {"tools": [9] + [1] * 20, "toys": [1] * 20 + [9]}
    (tmp_path / "prior.json").write_text(json.dumps(prior))
    run("fit", shops, "spend", *BOUNDS, "--groups", "shop", "--prior", tmp_path / "prior.json", "--out", saved)
    with pytest.raises(InvalidTask, match="label column"):
        run("fit", shops, "spend", *BOUNDS, "--groups", "spend", "--out", tmp_path / "n.json")
    for name, values in (("other", ["toys", "games"]), ("holes", ["toys", None])):
        table = pa.table({"id": [1, 2], "shop": values, "spend": [1, 2]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        with pytest.raises(InvalidTask, match="group"):
            run("apply", saved, tmp_path / f"{name}.parquet", tmp_path / "o.parquet", "--groups", "shop", *pays(budget))
    assert budget.spent.amount == 0


def test_methods_without_a_table_are_fitted_and_verified_but_not_drawn(data: Path, tmp_path: Path) -> None:
    saved = tmp_path / "m.json"
    fitted = run("fit", data, "spend", *BOUNDS, "--method", "staircase", "--out", saved)
    assert fitted.data["bias"] == 0
    assert "endlessly many" in fitted.text
    assert run("verify", saved).exit_code == 0
    with pytest.raises(InvalidTask, match="no table"):
        run("chart", saved, tmp_path / "m.svg")


def test_bias_is_allowed_on_request_and_told(data: Path, budget: Account, tmp_path: Path) -> None:
    fit = ("fit", data, "spend", "--epsilon", "0.5", "--lower", "0", "--upper", "20", "--prior", "private")
    fitted = run(*fit, "--allow-bias", "--out", tmp_path / "m.json", *pays(budget))
    assert fitted.data["method"] == "compromise"
    assert fitted.data["bias"] > 0
    assert "as declared" in run("verify", tmp_path / "m.json").text


def test_verify_says_of_noise_what_noise_has(tmp_path: Path) -> None:
    LabelRandomizer(1, 0, 4, "laplace").fit().save(tmp_path / "m.json")
    told = run("verify", tmp_path / "m.json").text
    assert "row sums" not in told
    assert "bias exactly zero before outputs become floats" in told


@pytest.mark.parametrize(
    "found",
    [
        {"groups": {}},
        {},
        {"groups": {"a": 3}},
        {"format": "x", "prior": []},
        {"groups": {"": {"prior": {"receipt": 5}}}},
    ],
)
def test_a_ledger_is_asked_about_documents_that_hold_and_no_others(
    found: dict[str, Any], tmp_path: Path, budget: Account
) -> None:
    held = {"format": "steelyard label randomizer 1", **found}
    (tmp_path / "m.json").write_text(json.dumps(held))
    answer = run("verify", tmp_path / "m.json", "--ledger", tmp_path / "budget.db")
    assert (answer.exit_code, answer.data["passed"]) == (2, False)


def test_a_noise_loss_is_said_judged_and_drawn(data: Path, tmp_path: Path) -> None:
    saved, asked = tmp_path / "m.json", ("fit", data, "spend", *BOUNDS, "--method", "unbiased")
    fitted = run(*asked, "--noise-loss", "absolute", "--outputs", "-5", "25", "--out", saved)
    assert fitted.data["bias"] == 0
    judged = run("verify", saved)
    assert judged.exit_code == 0
    assert judged.data["loss"] == "absolute"
    assert "with outputs from -5 to 25" in judged.text
    run("chart", saved, tmp_path / "m.svg")
    for wrong in (("--loss", "poisson"), ("--noise-loss", "poisson"), ("--outputs", "-5", "25")):
        with pytest.raises(InvalidTask):
            run(*asked, *wrong, "--out", tmp_path / "n.json")
