"""The OpenAPI document names every route of the API and reads as the tasks do; and nothing sent by it, or beside it, makes the server fail."""

from __future__ import annotations

import json
import random
import re
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from browsing import SUM, Browser, Team, new_team
from steelyard.requests import task_from
from steelyard.server._routes import ROUTES

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**70, 1e308, "", "x", "amount", "user_id", "0.1", "1e99999999", "1/0", "nan", "\0", "ÿ\u202e", "'; drop table jobs; --",
    "../../etc/passwd", [], {}, [[]], [None] * 50, {"type": "Sum"}, {"type": "decimal", "value": "1"}, {"a": {"b": {"c": []}}}, ["FR", "DE"], "spend", "ana",
)  # fmt: skip


GOOD: tuple[dict[str, Any], ...] = (
    SUM,
    {"type": "Count", "epsilon": "0.01", "cap": 3, "by": "country", "keys": ["FR", "DE"]},
    {"type": "Quantile", "column": "amount", "epsilon": "0.01", "quantile": "0.5", "lower": 0, "upper": 10, "cap": 3},
    {"type": "Histogram", "column": "amount", "epsilon": "0.01", "edges": [0, 5, 10], "cap": 3},
    {"type": "Mean", "column": "amount", "epsilon": "0.01", "lower": 0, "upper": 10, "cap": 3},
    {"type": "Profile", "column": "amount", "epsilon": "0.01", "upper": 100},
    {"type": "Together", "tasks": [{**SUM, "epsilon": "0.01"}, {"type": "Count", "epsilon": "0.01", "cap": 3}]},
)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    found = new_team(tmp_path_factory.mktemp("team"), largest_submission=4096, queue=10**6, queue_of_one=10**6)
    carl, other = found.server.people.named("carl"), found.server.sets.add("other")
    assert carl is not None
    found.server.sets.join(other.id, carl.id, "custodian")
    return found


@pytest.fixture(scope="module")
def told(team: Team) -> dict[str, Any]:
    found: dict[str, Any] = Browser(team.app).get("/api/v1/openapi.json").json
    return found


class Maker:
    """Makes values of a schema; now and then ones that are not."""

    def __init__(self, schemas: dict[str, Any], chance: random.Random, odd: float) -> None:
        self._schemas, self._chance, self._odd = schemas, chance, odd

    def make(self, schema: dict[str, Any], depth: int = 0) -> Any:
        if depth > 10:
            return "x"
        if self._chance.random() < self._odd:
            return self._chance.choice(ODD)
        if "$ref" in schema:
            return self.make(self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        if "anyOf" in schema:
            return self.make(self._chance.choice(schema["anyOf"]), depth + 1)
        if "const" in schema or "enum" in schema:
            return schema.get("const") or self._chance.choice(schema["enum"])
        kind = schema.get("type", "string")
        return self._of(self._chance.choice(kind) if isinstance(kind, list) else kind, schema, depth)

    def _of(self, kind: str, schema: dict[str, Any], depth: int) -> Any:
        if kind == "object":
            known = schema.get("properties", {})
            asked = [name for name in known if name in schema.get("required", ()) or self._chance.random() < 0.2]
            return {name: self.make(known[name], depth + 1) for name in asked}
        if kind == "array":
            return [self.make(schema.get("items", {}), depth + 1) for _ in range(self._chance.randrange(3))]
        if kind == "integer":
            return self._chance.randint(-2, 100)
        if kind == "number":
            return self._chance.uniform(-1, 10)
        texts = ("amount", "0.01", "user_id", "country", "auto", "x")
        return {"boolean": True, "null": None}.get(kind, self._chance.choice(texts))


def test_every_route_of_the_api_is_in_the_document_and_nothing_else(told: dict[str, Any]) -> None:
    assert told["openapi"] == "3.1.0"
    listed = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
    assert listed == {(route.method, route.path) for route in ROUTES if route.path.startswith("/api/v1/")}
    refs = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(told)))
    assert refs <= set(told["components"]["schemas"])


def test_a_task_made_by_its_schema_is_read_or_refused_by_name(told: dict[str, Any]) -> None:
    chance, schemas = random.Random(1), told["components"]["schemas"]
    maker, refusals = Maker(schemas, chance, 0.0), list[str]()
    for _ in range(400):
        task = maker.make(schemas["Task"])
        try:
            task_from(task)
            refusals.append("")
        except ValueError as refusal:
            refusals.append(str(refusal))
    assert not [told for told in refusals if "has no field" in told or "needs the field" in told]
    assert refusals.count("") > 40


SETTINGS = settings(
    max_examples=4, derandomize=True, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)  # fmt: skip


@pytest.mark.parametrize("who", ["ana", "carl", "officer"])
def test_schemathesis_finds_no_failure(team: Team, told: dict[str, Any], who: str) -> None:
    """Each operation with what its description allows and what it does not, of things that are there and of any; always the same requests."""
    browser, sent = team.browser(who, by="session"), list[int]()
    for each in schemathesis.openapi.from_dict(told).get_all_operations():
        operation: Any = each.ok()  # type: ignore[union-attr]
        if not operation.path.endswith(("/disable", "/password")) and operation.method != "delete":
            _try(operation, browser, sent)  # the others would end who asks, or what is asked about
    assert len(sent) > 100
    assert len(set(sent)) > 4


def _try(operation: Any, browser: Browser, sent: list[int]) -> None:
    names = {"set": "other", "person": "ben", "role": "analyst", "release": "3", "proposal": "1"}
    described = operation.definition.raw["responses"]

    @SETTINGS
    @given(case=operation.as_strategy(GenerationMode.POSITIVE) | operation.as_strategy(GenerationMode.NEGATIVE))
    def send(case: Any) -> None:
        given_names = names if len(sent) % 2 == 0 else case.path_parameters
        path = re.sub(r"\{(\w+)\}", lambda found: quote(str(given_names.get(found[1], "x")), safe=""), case.path)
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in (case.query or {}).items())
        headers = {name: str(value) for name, value in (case.headers or {}).items()}
        body = case.body if isinstance(case.body, dict | list | str | int | float | bool) else None
        seen = browser.ask(case.method, f"{path}?{query}", body, headers=_latin(headers))
        assert seen.status < 500, (case.method, path, body, seen.text)
        assert str(seen.status) in described or seen.status < 300, (path, seen.status)
        sent.append(seen.status)

    send()


def _latin(headers: dict[str, str]) -> dict[str, str]:
    """Headers as a wire could carry them."""
    return {name: value.encode("latin-1", "replace").decode("latin-1") for name, value in headers.items()}


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_sent_makes_the_server_fail(
    team: Team, told: dict[str, Any], seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    chance, schemas = random.Random(seed), told["components"]["schemas"]
    people = [team.browser(name, by=by) for name in ("ana", "ana", "carl", "officer") for by in ("session", "token")]
    operations = often(told)
    sent: list[tuple[str, int]] = []
    for _ in range(250):
        method, path, operation = chance.choice(operations)
        maker = Maker(schemas, chance, chance.choice((0.0, 0.05, 0.5)))
        seen = _send(chance.choice(people), method.upper(), path, operation, maker, chance)
        assert seen.status < 500, (seen.text, capfd.readouterr().err)
        assert seen.status < 400 or seen.json["status"] == seen.status
        sent.append((path, seen.status))
    assert len({status for _, status in sent}) > 4


def often(told: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Every operation but those that shut people out; plans and questions, and no other table, more often."""
    every = [(method, path, each) for path, methods in told["paths"].items() for method, each in methods.items()]
    kept = [each for each in every if not each[1].endswith(("/disable", "/password"))]
    return kept + 5 * [each for each in every if each[1].endswith(("/plans", "{set}/releases"))]


def _send(
    browser: Browser, method: str, path: str, operation: dict[str, Any], maker: Maker, chance: random.Random
) -> Any:
    names = {
        "set": "spend",
        "person": "ben",
        "role": "analyst",
        "release": "3",
        "proposal": "1",
        "board": "none",
        "submission": "1",
    }
    names |= {"set": "other"} if path.endswith(("/source", "/upload")) else {}
    filled = re.sub(
        r"\{(\w+)\}",
        lambda found: quote(names.get(found[1], "x") if chance.random() < 0.8 else str(chance.choice(ODD)), safe=""),
        path,
    )
    query = [each["name"] for each in operation["parameters"] if each["in"] == "query" and chance.random() < 0.5]
    filled += "?" + "&".join(f"{name}={quote(str(chance.choice((*ODD, 'person', 'ask', 5))))}" for name in query)
    headers = {"Idempotency-Key": f"key {chance.randrange(30)}"} if chance.random() < 0.9 else {}
    body = operation.get("requestBody", {}).get("content", {})
    if path.endswith(("/plans", "{set}/releases")) and body and chance.random() < 0.7:
        task = dict(chance.choice(GOOD))
        if chance.random() < 0.5:
            task[chance.choice(sorted(task))] = chance.choice(ODD)
        return browser.ask(method, filled, {"task": task}, headers=headers)
    if "application/json" in body and chance.random() < 0.97:
        return browser.ask(method, filled, maker.make(body["application/json"]["schema"]), headers=headers)
    raw = bytes(chance.randrange(256) for _ in range(chance.choice((0, 0, 0, 3, 50, 5000))))
    return browser.ask(method, filled, raw=raw, headers=headers)


def test_what_the_fuzz_asked_for_is_answered_or_failed_and_the_chain_is_whole(team: Team) -> None:
    team.worker.once()
    team.worker.once()
    assert {job.state for job in team.server.jobs.waiting() if job.sequence is not None} == set()
    assert team.server.ledger.verify().ok
    assert team.server.account("spend").spent.amount > 0
