"""The registry covers everything shipped, and the command says what it found."""

from __future__ import annotations

import argparse
from fractions import Fraction
from importlib import import_module
from inspect import isabstract
from pkgutil import walk_packages
from typing import Any

import pytest

from audit.plain import PlainTable
from audit.twins import Honest, IgnoresUpper, NarrowLaplace
from steelyard import bounding, mechanisms
from steelyard.audit import Verdict, audit
from steelyard.audit import _suite as suite
from steelyard.audit._corpus import floats, texts
from steelyard.audit._verdict import Check
from steelyard.cli import _trying as trying
from steelyard.errors import InvalidTask
from steelyard.privacy import users
from steelyard.requests import Reply


def command(*words: str) -> Reply:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--plan", action="store_true")
    root = argparse.ArgumentParser()
    trying.add_audit(root.add_subparsers(), shared)
    args = root.parse_args(["audit", *words])
    answer: Reply = args.run(args)
    return answer


def test_every_mechanism_that_has_a_price_is_in_the_registry() -> None:
    things = [getattr(mechanisms, name) for name in mechanisms.__all__]
    shipped = {thing for thing in things if isinstance(thing, type) and hasattr(thing, "event")}
    audited = {type(item.subject) for item in suite.mechanisms().values()}
    assert len(shipped) > 10
    assert shipped <= audited


def is_task(thing: type) -> bool:
    """Whether it plans on a schema."""
    return "schema" in getattr(getattr(getattr(thing, "plan", None), "__code__", None), "co_varnames", ())


def test_every_task_is_in_the_registry() -> None:
    public = (getattr(bounding, name) for name in bounding.__all__)
    shipped = {thing for thing in public if isinstance(thing, type) and is_task(thing)}
    assert bounding.Sum in shipped
    assert shipped <= {type(item.subject) for item in suite.tasks().values()}


def priced(name: str) -> dict[str, type]:
    """Every class of a package that says what it costs, or plans it."""
    package = import_module(f"steelyard.{name}")
    modules = [import_module(each.name) for each in walk_packages(package.__path__, f"{package.__name__}.")]
    found = [(module, thing) for module in modules for thing in vars(module).values() if isinstance(thing, type)]
    own = [thing for module, thing in found if thing.__module__ == module.__name__]
    own = [thing for thing in own if hasattr(thing, "event") or is_task(thing)]
    mixed = {thing for thing in own if thing.__name__.startswith("_") and thing.__subclasses__()}  # never made alone
    own = [thing for thing in own if thing not in mixed and not isabstract(thing)]
    return {thing.__name__: thing for thing in own if not getattr(thing, "_is_protocol", False)}


PARTS = {
    "StatisticsRelease": "fit-linear",
    "LeastSquares": "fit-linear",
    "LabelSums": "fit-linear-labels",
    "UserSum": "fit-linear-users",
    "ObjectiveFit": "fit-logistic",
    "OutputFit": "fit-logistic-output",
    "DescentFit": "fit-logistic-descent",
    "UserDescent": "fit-logistic-users",
    "CappedFit": "fit-logistic-cap",
    "Hypotheses": "fit-logistic-choice",
    "BallChoice": "fit-logistic-cap-choice",
    "FineObjective": "first-logistic",
    "FineUserObjective": "first-logistic-users",
    "FinePureObjective": "first-logistic-pure",
    "ObjectiveDraw": "first-logistic-level",
    "Step": "first-disjoint-level-rows",
    "NormalAnswers": "holdout-accuracy",
    "BoundedAnswers": "holdout-accuracy",
}
"""What is bought only as a part of a task, and the entry that replays it."""


@pytest.mark.parametrize("package", ["models", "holdout"])
def test_whatever_has_a_price_in_models_and_holdouts_is_audited(package: str) -> None:
    registry, shipped = suite.registry(), priced(package)
    subjects = {type(item.subject).__name__ for item in registry.values()}
    assert shipped
    assert set(shipped) <= subjects | set(PARTS)


def test_the_parts_are_really_there() -> None:
    known = {**priced("models"), **priced("holdout")}
    assert set(PARTS) <= set(known)
    assert set(PARTS.values()) <= set(suite.registry())


def test_a_name_means_itself_and_its_variants() -> None:
    assert suite.select(["laplace"]) == ["laplace", "laplace-narrow", "laplace-path"]
    assert suite.select([]) == list(suite.registry())
    with pytest.raises(InvalidTask, match="nothing to audit by the name 'lapalce'"):
        suite.select(["lapalce"])


def test_mechanisms_are_clean_at_a_glance() -> None:
    verdicts = suite.run(list(suite.mechanisms()), quick=True, samples=4_000, jobs=1)
    assert [verdict.subject for verdict in verdicts] == list(suite.mechanisms())
    assert all(verdict.ok for verdict in verdicts), "\n".join(map(str, verdicts))


@pytest.mark.slow
def test_everything_shipped_is_clean() -> None:
    verdicts = suite.run(samples=2_000_000)
    assert all(verdict.ok for verdict in verdicts), "\n".join(map(str, verdicts))


def test_the_command_lists_plans_and_audits() -> None:
    assert "sum-uneven" in command("--list").text
    assert set(command("finite", "--plan").data["plan"]) == {"finite"}
    answer = command("finite", "--jobs", "1", "--samples", "4000")
    assert answer.exit_code == 0
    assert answer.data["ok"] is True
    assert "no violation found" in answer.text


def test_a_broken_promise_leaves_with_three(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = NarrowLaplace(1, Fraction(1), narrower=Fraction(1, 2))
    monkeypatch.setattr(suite, "registry", lambda: {"narrow": suite.Item(narrow)})
    answer = command("narrow", "--jobs", "1", "--samples", "20000")
    assert answer.exit_code == 3
    assert "BROKEN: narrow" in answer.text
    assert answer.data["verdicts"][0]["ok"] is False


def test_two_processes_find_what_one_finds() -> None:
    heard: list[str] = []
    verdicts = suite.run(["finite", "histogram"], samples=4_000, jobs=2, finished=lambda v: heard.append(v.subject))
    assert sorted(heard) == sorted(verdict.subject for verdict in verdicts)
    assert all(verdict.ok for verdict in verdicts)


def test_a_verdict_without_checks_is_not_ok() -> None:
    assert not Verdict("nothing", ()).ok
    broken = Verdict("thing", (Check("a", True, "fine"), Check("b", False, "not fine")))
    assert broken.findings == ("b: not fine",)
    assert str(broken).startswith("thing: BROKEN")


def test_one_call_audits_a_task_of_ones_own() -> None:
    terms = suite.pure(users("who"))
    options: dict[str, Any] = {"terms": terms, "columns": {"who": texts(), "amount": floats(10.0)}}
    assert audit(Honest(), open_table=PlainTable, **options).ok
    assert not audit(IgnoresUpper(), open_table=PlainTable, **options).ok


def test_a_task_needs_terms_and_a_stranger_is_refused() -> None:
    with pytest.raises(InvalidTask, match="on which terms"):
        audit(Honest())
    with pytest.raises(InvalidTask, match="no mechanism the audit knows"):
        audit(object())
