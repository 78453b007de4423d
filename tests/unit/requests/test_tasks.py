"""Every task travels as JSON, and nothing odd gets in with one."""

from __future__ import annotations

import datetime
import importlib
import inspect
import pkgutil
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steelyard
from steelyard.bounding import Count, CountUsers, Histogram, Quantile, Sum, Together
from steelyard.documents import request_of
from steelyard.errors import InvalidTask, SteelyardError
from steelyard.holdout._question import Question
from steelyard.ledger import open_account
from steelyard.models import Categorical, FitLinear, FitLogistic, FitPoisson, Numeric
from steelyard.models.accuracy import GradualSum
from steelyard.privacy import Terms, canonical, users
from steelyard.requests import AccuracyRequest, schema_from, task_from
from steelyard.requests._accuracy import accuracy_from
from steelyard.requests._tasks import TASKS
from steelyard.tables import Schema
from unit.test_accepted_tasks import Draw, models, profile, profiles, questions, spreads, together, totals

INSIDE = ("steelyard.audit", "steelyard.models.accuracy", "steelyard.session", "steelyard.plan")
"""Where tasks are made by other code and never asked for by name."""


def is_task(kind: Any) -> bool:
    if not inspect.isclass(kind) or inspect.isabstract(kind):
        return False
    if kind.__module__.startswith(INSIDE) and kind is not GradualSum:
        return False
    for name, parameters in (("plan", ["self", "schema", "terms"]), ("start", ["self", "desk"])):
        method = getattr(kind, name, None)
        if inspect.isfunction(method) and list(inspect.signature(method).parameters) == parameters:
            return True
    return False


def test_every_task_of_the_house_is_in_the_codec() -> None:
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(steelyard.__path__, "steelyard.")]
    assert {kind.__name__ for module in modules for kind in vars(module).values() if is_task(kind)} == set(TASKS)


def test_a_task_that_was_forgotten_would_be_found() -> None:
    class Forgotten:
        def plan(self, schema: Schema, terms: Terms) -> Any: ...

    assert is_task(Forgotten)


def travelled(task: Any) -> Any:
    """The task after a journey as text."""
    return task_from(canonical(request_of(task)))


EXAMPLES: list[Any] = [
    Sum("amount", epsilon="0.1", cap=3, by="land", keys=["FR", "DE"], max_keys=2),
    Sum("amount", mu="1/3", upper="1e200", lower="-0.5", resolution="1e199"),
    Count(epsilon=1, cap=2, by="day", keys=[datetime.date(2026, 1, 31)]),
    Count(epsilon=1, cap=2, by="price", keys=[Decimal("1.50"), Decimal("-0.1")]),
    Count(epsilon=1, cap=2, by="flag", keys=[True, False]),
    CountUsers(epsilon=1, by="age", keys=[1, 2.5], max_keys=1),
    Histogram("x", epsilon=1, edges=[0, "0.1", 1], cap=1, ranges=True),
    Quantile("x", epsilon=1, quantile=["0.25", "0.5"], upper=9, cap=1),
    Quantile("x", epsilon=1, quantile="0.5", upper=9, cap=1),
    Together([Sum("amount", epsilon=1, cap=1), Count(epsilon=1, cap=2)]),
    GradualSum("amount", cap="12.5", lower=-1),
    Question("x", epsilon=1, equals="a"),
    Question("x", mu=1, lower=0, upper=1, confidence="0.9", questions=7),
    FitLinear([Numeric("age", 0, 100), Categorical("land", ["FR", "DE"])], "spend", 0, 400, epsilon="1"),
    FitLinear(["age"], "spend", 0, "0.1", epsilon="1", x_bound=3, norm="scale", intercept=False, public_rows=9),
    FitLogistic(["a", "b"], "y", [0, 1], mu=1, x_bound=2, ridge="0.1", method="objective"),
    FitLogistic(["a"], "y", [0, 1], 1, x_bound=2, method="choice", candidates=[[0.1, 1e-300], [1.0, -2.5]]),
    FitLogistic(["a"], "y", ["no", "yes", "maybe"], 1, x_bound=2, cap=4),
    FitLogistic(["a"], "y", ["no", "yes"], 1, x_bound=2, cap=4, method="choice", radius="0.5"),
    FitLinear(["a"], "y", 0, 1, epsilon=1, x_bound=2, cap=9, method="output", ridge="1/3"),
    FitLinear(["a"], "y", 0, 1, mu=1, x_bound=2, cap=1, method="choice", candidates=[[0.1, 0.5]]),
    FitPoisson(["a"], "y", 0, 20, epsilon="0.5", x_bound=2, norm="scale", intercept=False),
    FitPoisson([Numeric("age", 0, 100)], "orders", 1, "30", mu="1/3"),
]


@pytest.mark.parametrize("task", EXAMPLES, ids=lambda task: type(task).__name__)
def test_a_task_comes_back_as_it_was_sent(task: Any) -> None:
    assert travelled(task) == task
    assert request_of(travelled(task)) == request_of(task)


def test_a_profile_travels_inside_a_task() -> None:
    task = Sum("x", epsilon=1, cap=profile())
    assert travelled(task) == task


@pytest.mark.parametrize("make", [totals, together, profiles, spreads, questions, models])
def test_whatever_can_be_asked_can_be_sent(make: Any) -> None:
    sent = 0
    for seed in range(60):
        try:
            task = make(Draw(seed))
        except SteelyardError:
            continue
        assert travelled(task) == task
        sent += 1
    assert sent > 5


@given(
    st.text(min_size=1),
    st.fractions(min_value="1/1000", max_value=10**6),
    st.lists(st.text() | st.integers(-(10**30), 10**30) | st.booleans(), min_size=1, unique=True),
)
@settings(max_examples=50)
def test_names_and_numbers_of_any_kind_arrive_unchanged(column: str, number: Any, keys: list[Any]) -> None:
    task = Sum(column, epsilon=number, cap=number, by=column, keys=keys)
    assert travelled(task) == task


GOOD = request_of(Sum("amount", epsilon=1, cap=3))
BY = {**GOOD, "by": "a"}
FIT = request_of(FitLinear([Numeric("age", 0, 100)], "spend", 0, 400, epsilon="1"))
SHAPE = FIT["features"]


def deep(levels: int) -> Any:
    found: Any = "x"
    for _ in range(levels):
        found = [found]
    return found


HOSTILE: list[tuple[Any, str]] = [
    ("", "no JSON document"),
    ("[" * 100_000, "no JSON document"),
    ('{"type": "Sum", "column": "a", "column": "b"}', "no JSON document"),
    ('{"type": "Sum", "column": "a", "epsilon": NaN}', "no JSON document"),
    ('{"type": "Sum", "column": "a", "epsilon": Infinity}', "no JSON document"),
    ('{"type": "Sum", "column": "a", "max_keys": ' + "9" * 5000 + "}", "no JSON document"),
    (b"\xff\xfe\x00", "no JSON document"),
    ([], "task must be an object; got a list"),
    (None, "task must be an object; got None"),
    ({}, "task.type must be one of Sum, Count"),
    ({"type": "os.system", "command": "true"}, "task.type must be one of Sum"),
    ({"type": "Features", "columns": []}, "task.type must be one of Sum"),
    ({"type": ["Sum"]}, "task.type must be one of Sum"),
    ({"type": "Sum"}, "task is a Sum and needs the field 'column'"),
    ({**GOOD, "seed": 1}, "task is a Sum and has no field 'seed'"),
    ({**GOOD, "__class__": "x"}, "no field '__class__'"),
    ({**GOOD, "_rule": None}, "no field '_rule'"),
    ({**GOOD, "column": 3}, "task.column must be a text; got 3"),
    ({**GOOD, "max_keys": "2"}, "task.max_keys must be a whole number"),
    ({**GOOD, "max_keys": True}, "task.max_keys must be a whole number"),
    ({**GOOD, "max_keys": 1.0}, "task.max_keys must be a whole number"),
    ({**GOOD, "max_keys": 10**60}, "task.max_keys must be a whole number .*; got a larger number"),
    ({**GOOD, "epsilon": float("inf")}, "task.epsilon must be"),
    ({**GOOD, "epsilon": True}, "task.epsilon must be"),
    ({**GOOD, "epsilon": "1e999999"}, "epsilon is out of any sensible range"),
    ({**GOOD, "epsilon": "9" * 5000}, "epsilon has more than 1000 digits"),
    ({**GOOD, "epsilon": "1_0"}, "task: epsilon must be a finite number"),
    ({**GOOD, "epsilon": [1]}, "task.epsilon must be .*; got a list"),
    ({**GOOD, "epsilon": {"type": "Fraction"}}, "task.epsilon must be .*; got an object"),
    ({**GOOD, "cap": {"type": "Sum"}}, "task.cap.type must be one of ContributionProfile"),
    ({**GOOD, "cap": {"column": None}}, "task.cap is a ContributionProfile and needs the field"),
    ({**BY, "keys": "abc"}, "task.keys must be a list or null; got 'abc'"),
    ({**BY, "keys": [{"type": "date", "value": "31.1.26"}]}, r"task.keys\[0\] must be a date"),
    ({**BY, "keys": [{"type": "decimal", "value": "1e9999999"}]}, r"task.keys\[0\] must be a decimal"),
    ({**BY, "keys": [{"type": "decimal", "value": "x" * 9999}]}, r"task.keys\[0\] must be a decimal"),
    ({**BY, "keys": [{"type": "decimal", "value": "sNaN"}]}, r"task.keys\[0\] must be a decimal"),
    ({**BY, "keys": [{"type": "decimal", "value": "1/3"}]}, r"task.keys\[0\] must be a decimal"),
    ({**BY, "keys": [{"type": "eval", "value": "1"}]}, r"task.keys\[0\] must be"),
    ({**BY, "keys": list(range(10**5 + 1))}, "task.keys must be a list of at most 100000 values"),
    ({**BY, "keys": deep(100)}, r"task.keys\[0\]\[0\] must be .*; got a list"),
    ({"type": "Together", "tasks": [{"type": "Together", "tasks": []}]}, r"task.tasks\[0\].type must be one of Sum, C"),
    (
        {**FIT, "features": {**SHAPE, "columns": [{"type": "Numeric", "column": "a", "lower": 0}]}},
        r"task.features.columns\[0\] is a Numeric and needs the field 'upper'",
    ),
    ({**FIT, "features": {**SHAPE, "columns": [{"column": "a"}]}}, r"task.features.columns\[0\].type must be one of"),
    ({**FIT, "features": {**SHAPE, "type": "Plain"}}, "task.features.type must be one of Features"),
    ({**FIT, "features": {**SHAPE, "norm": "none"}}, "task.features: norm must be"),
    ({**FIT, "x_bound": 3}, "no field 'x_bound'"),
    ({**request_of(Quantile("x", epsilon=1, upper=2, cap=1)), "quantile": deep(50)}, "task.quantile"),
    ({**request_of(Question("x", epsilon=1, equals=1)), "questions": None}, "task.questions must be a whole number"),
]


@pytest.mark.parametrize(("sent", "words"), HOSTILE, ids=lambda value: str(value)[:60])
def test_whatever_is_odd_is_refused_with_its_path(sent: Any, words: str) -> None:
    with pytest.raises(InvalidTask, match=words) as refused:
        task_from(sent)
    assert len(str(refused.value)) < 500


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "value", "columns"]), inner),
    max_leaves=6,
)


@given(st.sampled_from(EXAMPLES), st.data(), VALUES)
@settings(max_examples=300)
def test_a_field_of_any_other_value_is_refused_or_means_something(task: Any, data: st.DataObject, value: Any) -> None:
    request = request_of(task)
    request[data.draw(st.sampled_from(sorted(request)))] = value
    try:
        found = task_from(request)
    except InvalidTask:
        return
    assert travelled(found) == found


def test_a_request_for_an_accuracy_travels() -> None:
    task = FitLogistic([Numeric("age", 0, 100)], "rich", [False, True], 5)
    asked = AccuracyRequest(task, excess_loss="0.05", confidence="0.95", key="k", most="1/3")
    assert accuracy_from(canonical(request_of(asked))) == asked
    for change, words in (
        ({"target_loss": 1}, "request: give exactly one of target_loss"),
        ({"check": "hope"}, "request: check must be one of"),
        ({"confidence": True}, "request.confidence must be"),
        ({"task": request_of(Count(epsilon=1, cap=1))}, "request.task.type must be one of FitLinear, FitLogistic"),
        ({"goal": "excess"}, "no field 'goal'"),
    ):
        with pytest.raises(InvalidTask, match=words):
            accuracy_from({**request_of(asked), **change})


def test_a_schema_travels_and_a_task_is_planned_on_it() -> None:
    schema = schema_from('{"who": "string", "amount": "float"}')
    assert dict(schema.columns) == dict(Schema({"who": "string", "amount": "float"}).columns)
    terms = open_account(":memory:", "a", unit=users("who"), epsilon=1).terms
    sent: Any = travelled(Sum("amount", epsilon=1, cap=3))
    assert sent.plan(schema, terms).event == Sum("amount", epsilon=1, cap=3).plan(schema, terms).event
    for odd in ('{"who": 3}', '{"who": "text"}', "[]", "{}"):
        with pytest.raises(SteelyardError):
            schema_from(odd)
