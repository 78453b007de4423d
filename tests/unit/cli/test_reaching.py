"""``steelyard fit`` to an accuracy: what is written, refused, planned and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steelyard.cli import main
from steelyard.errors import ColumnMissing, CurrencyMismatch, InvalidTask, KeyConflict, UnitMismatch
from steelyard.ledger import Account, Ledger, open_account
from steelyard.models import Model
from steelyard.privacy import rows
from unit.cli.commands import command

N = 4_000
ABOUT = ("--features", "age:0:100", "--label", "spend", "--lower", 0, "--upper", 400)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A few thousand rows whose spending follows age, and whether it is high."""
    random = np.random.default_rng(0)
    age = random.uniform(0, 100, N)
    spend = np.clip(50 + 2 * age + random.normal(size=N) * 10, 0, 400)
    path = tmp_path / "people.parquet"
    pd.DataFrame(
        {
            "age": age,
            "spend": spend,
            "rich": spend > 150,
            "band": np.array(["low", "mid", "top"])[np.searchsorted([110, 190], spend)],
            "who": np.arange(N) // 2,
        }
    ).to_parquet(path)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "model.json"


@pytest.fixture
def account(tmp_path: Path) -> Account:
    unit = rows(neighbours="replace", n=N)
    return open_account(str(tmp_path / "l.db"), "models", unit=unit, epsilon=20, delta="1e-6")


def linear(people: Path, out: Path, *more: Any) -> tuple[Any, ...]:
    return ("fit", people, *ABOUT, "--epsilon", 20, "--out", out, "--overwrite", *more)


def logistic(people: Path, out: Path, *more: Any) -> tuple[Any, ...]:
    words = ("--features", "age:0:100", "--label", "rich", "--model", "logistic", "--classes", "false,true")
    return ("fit", people, *words, "--epsilon", 20, "--out", out, "--overwrite", *more)


def pays(account: Account) -> tuple[Any, ...]:
    return ("--ledger", account.location, "--account", account.name)


# What is written


@pytest.mark.parametrize(
    ("make", "asked"),
    [(linear, ("--target-loss", "0.0001")), (linear, ("--target-rmse", "0.01")), (linear, ("--target-r2", "0.9999")),
     (linear, ("--excess-loss", "0.0001")),
     (logistic, ("--excess-loss", "0.001")), (logistic, ("--target-accuracy", "0.999"))],
)  # fmt: skip
def test_a_missed_accuracy_leaves_the_best_model_that_was_bought_and_says_so(
    people: Path, out: Path, make: Any, asked: tuple[str, str]
) -> None:
    missed = command(*make(people, out, "--rows", N, *asked, "--epsilon", "0.3"))
    assert (missed.exit_code, missed.data["reason"]) == (3, "cap_reached")
    assert missed.data["model"] == str(out)
    assert missed.data["bound"] is None
    assert "NOT reached: the budget ended first" in missed.text
    assert f"saved to {out}, of which nothing is certain" in missed.text
    assert np.isfinite(Model.load(out).predict({"age": [50.0]})).all()


def test_an_accuracy_is_reached_by_its_name(people: Path, out: Path) -> None:
    met = command(*logistic(people, out, "--rows", N, "--target-accuracy", "0.8"))
    assert (met.exit_code, met.data["bound"]) == (0, pytest.approx(0.2))
    assert "the accuracy on these rows is at least 0.8" in met.text
    root = command(*linear(people, out, "--rows", N, "--target-rmse", "60"))
    assert (root.exit_code, root.data["bound"]) == (0, pytest.approx(60))
    share = command(*linear(people, out, "--rows", N, "--target-r2", "0.3"))
    assert (share.exit_code, share.data["bound"]) == (0, pytest.approx(0.7))
    assert (
        "R squared on these rows, labels and predictions held within the label's bounds, is at least 0.3" in share.text
    )


def test_an_accuracy_of_three_classes_is_reached_and_its_models_predict(
    people: Path, out: Path, tmp_path: Path
) -> None:
    words = ("--features", "age:0:100", "--label", "band", "--model", "logistic", "--classes", "low,mid,top")
    more = ("--rows", N, "--target-accuracy", "0.6", "--epsilon", 20, "--out", out)
    met = command("fit", people, *words, *more)
    assert (met.exit_code, met.data["bound"]) == (0, pytest.approx(0.4))
    told = command("predict", out, people, "--out", tmp_path / "told.parquet")
    assert told.exit_code == 0
    found = pd.read_parquet(tmp_path / "told.parquet")
    assert (found["prediction"].to_numpy() == pd.read_parquet(people)["band"].to_numpy()).mean() >= 0.59


def test_the_command_line_leaves_with_that_code(people: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(word) for word in linear(people, out, "--rows", N, "--target-loss", "0.0001", "--json")]
    assert main(words) == 3
    assert json.loads(capsys.readouterr().out)["reason"] in ("cap_reached", "target_impossible")


@pytest.mark.parametrize(("make", "target"), [(linear, 39_000), (logistic, "0.9")])
def test_the_constant_model_is_called_by_its_name(people: Path, out: Path, make: Any, target: Any) -> None:
    found = command(*make(people, out, "--rows", N, "--target-loss", target))
    assert found.data["reason"] == "null_model_ok"
    assert "reached with the constant model" in found.text
    assert (found.exit_code, out.exists()) == (0, True)


# What is refused, before anything is charged


@pytest.mark.parametrize("option", ["--confidence", "--penalty", "--rows", "--users", "--check", "--ids"])
def test_options_of_an_accuracy_need_one(people: Path, out: Path, option: str) -> None:
    given = {"--check": "every", "--ids": "who", "--rows": N, "--users": N}.get(option, "0.9")
    with pytest.raises(InvalidTask, match=rf"^{option} .*add --target-loss or --excess-loss"):
        command(*linear(people, out, option, given))


@pytest.mark.parametrize("option", ["--rows", "--users", "--delta", "--user"])
def test_options_that_an_account_answers_are_refused_beside_one(
    people: Path, out: Path, account: Account, option: str
) -> None:
    given = {"--delta": "1e-6", "--user": "who"}.get(option, N)
    with pytest.raises(InvalidTask, match=rf"^{option} .*account already says.*leave it out"):
        command(*linear(people, out, *pays(account), "--target-loss", 3000, option, given))
    assert account.spent.amount == 0


def test_options_of_a_price_are_refused_beside_an_accuracy(people: Path, out: Path) -> None:
    named = ("--rows", N, "--target-loss", "0.6")
    with pytest.raises(InvalidTask, match=r"^--public-rows .*leave it out"):
        command(*logistic(people, out, *named, "--public-rows", N))
    with pytest.raises(InvalidTask, match=r"^--cap .*leave it out"):
        command(*logistic(people, out, *named, "--cap", 2))


def test_options_of_the_other_model_are_refused(people: Path, out: Path) -> None:
    with pytest.raises(InvalidTask, match=r"^--classes .*logistic"):
        command(*linear(people, out, "--classes", "0,1"))
    with pytest.raises(UnitMismatch, match="bound users"):
        command(*linear(people, out, "--cap", 2))
    with pytest.raises(InvalidTask, match=r"^--lower .*--classes"):
        command(*logistic(people, out, "--lower", 0))


@pytest.mark.parametrize("option", ["--target-loss", "--excess-loss", "--penalty"])
@pytest.mark.parametrize("size", ["1e400", "1e-400"])
def test_numbers_out_of_any_range_are_plainly_refused(people: Path, out: Path, option: str, size: str) -> None:
    named = ("--target-loss", 1) if option == "--penalty" else ()
    with pytest.raises(InvalidTask, match=rf"^{option} is out of any sensible range"):
        command(*linear(people, out, "--rows", N, *named, option, size))


def test_a_delta_of_zero_may_be_typed_in_any_way(people: Path, out: Path) -> None:
    for zero in ("0", "0.0", "0e0"):
        plan = command(*linear(people, out, "--delta", zero, "--plan"))
        assert plan.data["cost"]["currency"] == "pure"
        plan = command(*linear(people, out, "--delta", zero, "--rows", N, "--target-loss", 9, "--plan"))
        assert plan.data["at_most"]["currency"] == "pure"


def test_booleans_may_be_typed_as_python_prints_them(people: Path, out: Path) -> None:
    price = ("--rows", N, "--excess-loss", "0.05", "--plan")
    for classes in ("False,True", "FALSE,TRUE"):
        assert command(*logistic(people, out, *price, "--classes", classes)).data["enough"]
    with pytest.raises(InvalidTask, match="write --classes false,true"):
        command(*logistic(people, out, *price, "--classes", "no,yes"))


def test_no_header_precedes_a_refusal(
    people: Path, out: Path, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    named, kept = (*linear(people, out), "--target-loss", 9000), (*pays(account), "--key", "mine")
    command(*named, *kept)
    capsys.readouterr()
    refused: list[tuple[tuple[Any, ...], type[Exception]]] = [
        (("--rows", N, "--label", "expense"), ColumnMissing),
        (("--rows", N, "--penalty", 1000), InvalidTask),
        (("--check", "disjoint", "--delta", "0"), CurrencyMismatch),
        ((*kept, "--penalty", "0.1"), KeyConflict),
    ]
    for more, kind in refused:
        with pytest.raises(kind):
            command(*named, *more)
        assert capsys.readouterr().err == ""


def test_a_conflict_names_the_key_that_was_typed(people: Path, out: Path, account: Account) -> None:
    named = linear(people, out, *pays(account), "--key", "mine", "--target-loss", 9000)
    command(*named)
    for more in (("--penalty", "0.1"), ("--penalty", "0.1", "--plan"), ("--upper", 500)):
        with pytest.raises(KeyConflict, match=r"key 'mine' .*penalty.*new key"):
            command(*named, *more)


# What is planned


def test_a_plan_refuses_what_the_run_would(people: Path, out: Path) -> None:
    named = linear(people, out, "--rows", N, "--target-loss", 3000)
    with pytest.raises(ColumnMissing):
        command(*named, "--label", "expense", "--plan")
    with pytest.raises(InvalidTask, match="penalty"):
        command(*named, "--penalty", -1, "--plan")
    for more, kind in ((("--penalty", 1000), InvalidTask), (("--user", "nobody", "--users", N), InvalidTask)):
        for planned in ((), ("--plan",)):
            with pytest.raises(kind):
                command(*named, *more, *planned)
    told = command(*named, "--plan")
    assert "(epsilon 20 at delta" in told.text
    assert told.data["epsilon_at_most"] == pytest.approx(20, rel=1e-3)


def test_neither_a_plan_nor_a_run_compares_a_declared_n_with_the_table(people: Path, out: Path) -> None:
    shown = set()
    for kept in (N, N - 1, 10, 0):
        pd.read_parquet(people).head(kept).to_parquet(people)
        shown.add(command(*linear(people, out, "--rows", N, "--target-loss", 3000, "--plan")).text)
    assert len(shown) == 1
    assert command(*linear(people, out, "--rows", N, "--target-loss", 9000)).exit_code == 0


@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_the_price_of_a_classifier_near_the_best_is_told_beforehand(people: Path, out: Path, delta: str) -> None:
    named = logistic(people, out, "--rows", N, "--excess-loss", "0.05", "--delta", delta)
    plan, found = command(*named, "--plan"), command(*named)
    assert plan.data["epsilon"] == found.data["epsilon"]
    assert plan.data["enough"] is True
    assert f"epsilon {found.data['epsilon']:.4g}" in plan.text
    poor = command(*named, "--epsilon", "0.01", "--plan")
    assert poor.data["enough"] is False
    assert "no: the accuracy would not be reached" in poor.text


def test_plans_charge_nothing_at_any_point_of_a_path(people: Path, out: Path, account: Account) -> None:
    named = linear(people, out, *pays(account), "--key", "k")
    before = [entry.sequence for entry in Ledger(account.location).entries()]
    assert "at most" in command(*named, "--target-loss", 3000, "--plan").text
    assert [entry.sequence for entry in Ledger(account.location).entries()] == before
    command(*named, "--target-loss", 3000)
    after = [entry.sequence for entry in Ledger(account.location).entries()]
    assert command(*named, "--target-loss", 3000, "--plan").data["cost"]["amount"] == 0
    assert "at most" in command(*named, "--target-loss", 100, "--plan").text
    assert [entry.sequence for entry in Ledger(account.location).entries()] == after


# What is told


def test_losses_on_the_path_are_in_the_units_of_the_bound(people: Path, out: Path) -> None:
    found = command(*linear(people, out, "--rows", N, "--target-loss", 3000))
    looks = [step["loss"] for step in found.data["path"] if step["loss"] is not None]
    assert found.data["bound"] == 3000
    assert any(abs(loss) > 4 for loss in looks)  # with labels in [-1, 1] no loss is above four, noise aside
    certain = command(*linear(people, out, "--rows", N, "--excess-loss", 500, "--check", "certificate"))
    bounds = [step["bound"] for step in certain.data["path"] if step["bound"] is not None]
    assert bounds[-1] == pytest.approx(certain.data["bound"])


def test_steps_tell_what_the_whole_path_has_cost(
    people: Path, out: Path, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    other = logistic(people, out, *pays(account), "--excess-loss", "0.2", "--key", "other")
    command(*other)
    named = linear(people, out, *pays(account), "--key", "k")
    for target in (6000, 2000):
        capsys.readouterr()
        found = command(*named, "--target-loss", target)
        last = capsys.readouterr().err.splitlines()[-1]
        assert f" {found.data['epsilon']:.4g} " in f"{last} "


def test_steps_of_a_pure_path_do_so_too(
    people: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = rows(neighbours="replace", n=N)
    pure = open_account(str(tmp_path / "pure.db"), "pure", unit=unit, epsilon=100)
    for target in (6000, 2000):
        found = command(*linear(people, out, *pays(pure), "--key", "k", "--target-loss", target))
        last = capsys.readouterr().err.splitlines()[-1]
        assert f" {found.data['epsilon']:.4g} " in f"{last} "


def test_an_epsilon_ex_post_is_told_beside_the_promise_that_holds(
    people: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = command(*linear(people, out, "--rows", N, "--target-loss", 3000))
    assert "on the account, whose promise of epsilon 20 holds" in found.text
    assert "a look's is noisy" in capsys.readouterr().err


@pytest.mark.parametrize("delta", ["1e-6", None])
def test_epsilon_limits_what_a_command_adds_to_a_ledgers_account(
    people: Path, out: Path, tmp_path: Path, delta: str | None
) -> None:
    given = {} if delta is None else {"delta": delta}
    account = open_account(
        str(tmp_path / "some.db"), "models", unit=rows(neighbours="replace", n=N), epsilon=100, **given
    )
    named = linear(people, out, *pays(account), "--key", "k", "--target-loss", 150)
    missed = command(*named, "--epsilon", "0.02")
    assert (missed.exit_code, missed.data["reason"]) == (3, "cap_reached")
    assert missed.data["epsilon_filter"] <= 0.02
    found = command(*named, "--epsilon", 50)
    assert found.data["reason"] == "target_met"
    assert 0.02 < found.data["epsilon_filter"] <= 50.02
