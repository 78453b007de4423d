"""Options that go together are a table: every rule of it can be broken, by options that exist, and says so."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from steelyard.cli import _fitting as fitting
from steelyard.errors import InvalidTask
from steelyard.privacy import rows, users
from steelyard.requests._options import FIT_DEFAULTS, FIT_RULES, Rule, check_rules, fit_options, fit_terms


def options() -> dict[str, Any]:
    """Every option of a fit, not given."""
    commands = argparse.ArgumentParser().add_subparsers()
    fitting.add_commands(commands, argparse.ArgumentParser(add_help=False))
    known = vars(commands.choices["fit"].parse_args(["d", "--label", "y", "--features", "x", "--epsilon=1", "--out=m"]))
    return {**known, "model": "linear", "lower": "0", "upper": "1"}


def given(**more: Any) -> dict[str, Any]:
    return {**options(), **more}


def broken(rule: Rule) -> dict[str, Any]:
    """Options under which a rule holds and is broken."""
    found: dict[str, Any] = dict.fromkeys(rule.options, None if rule.needed else "given")
    for condition in rule.where:
        name, _, value = condition.removeprefix("!").partition("=")
        if not condition.startswith("!"):
            found[name] = value or "given"
    return found


@pytest.mark.parametrize("rule", FIT_RULES, ids=lambda rule: f"{rule.options} {rule.where}")
def test_every_rule_can_be_broken_and_names_an_option_that_exists(rule: Rule) -> None:
    known = {*options(), "accuracy"}
    assert set(broken(rule)) <= known
    assert _mentioned(rule.told) <= known
    with pytest.raises(InvalidTask):
        check_rules([rule], broken(rule))
    check_rules([rule], dict.fromkeys(options()) if not rule.needed else dict.fromkeys(known, "given"))


def _mentioned(told: str) -> set[str]:
    words = {word.strip(".,;:()") for word in told.split()}
    return {word.removeprefix("--").replace("-", "_") for word in words if word.startswith("--")}


def test_a_condition_with_a_mark_in_front_must_not_hold() -> None:
    rule = Rule(("ids",), ("!check=disjoint",), "{option} means nothing.")
    check_rules([rule], {"ids": "who", "check": "disjoint"})
    with pytest.raises(InvalidTask, match=r"^--ids means nothing\.$"):
        check_rules([rule], {"ids": "who", "check": "every"})


def test_defaults_are_filled_in_after_the_rules() -> None:
    settled = fit_options(given())
    assert {name: settled[name] for name in FIT_DEFAULTS} == FIT_DEFAULTS
    assert fit_options(given(delta="0"))["delta"] == "0"


def test_an_account_of_a_fit_alone_hides_whom_the_options_say() -> None:
    assert fit_terms(fit_options(given())) == {"unit": rows(), "epsilon": "1", "delta": "1e-6"}
    assert fit_terms(fit_options(given(user="who", delta="0.0"))) == {"unit": users("who"), "epsilon": "1"}
    counted = fit_options(given(target_loss="1", rows=9))
    assert fit_terms(counted)["unit"] == rows(neighbours="replace", n=9)
    counted = fit_options(given(target_loss="1", user="who", users=9))
    assert fit_terms(counted)["unit"] == users("who", neighbours="replace", n=9)
    apart = fit_options(given(target_loss="1", check="disjoint"))
    assert fit_terms(apart)["unit"] == rows()
