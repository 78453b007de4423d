"""OpenAPI 3.1 of the API, made of the table of routes and the tasks' own types, so that it cannot fall behind them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from steelyard import __version__
from steelyard.requests import task_names, task_schemas
from steelyard.server._boards import MODES, SETTINGS
from steelyard.server._call import Endpoint
from steelyard.server._problems import TITLES

PREFIX = "/api/v1/"
TEXT, YES, OBJECT = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
CAP = {"type": ["string", "number", "null"]}
_CAPS = dict.fromkeys(("epsilon", "delta", "mu", "additive_delta"), CAP)
_BOARD = {name: {"type": ["string", "number"]} for name in SETTINGS} | {"mode": {"enum": list(MODES)}}
_TASK = {"task": {"$ref": "#/components/schemas/Task"}}
BODIES: dict[tuple[str, str], tuple[dict[str, Any], tuple[str, ...]]] = {
    ("POST", "sets/{set}/plans"): (_TASK, ("task",)),
    ("POST", "sets/{set}/releases"): (_TASK, ("task",)),
    ("POST", "sets"): (
        {"name": TEXT, "custodian": TEXT, "title": TEXT, "slot": {"type": "number", "minimum": 0, "maximum": 3600}},
        ("name", "custodian"),
    ),
    ("POST", "sets/{set}/source"): (
        {"kind": {"enum": ["root", "named"]}, "source": TEXT, "options": OBJECT},
        ("kind", "source"),
    ),
    ("POST", "sets/{set}/members"): (
        {"person": TEXT, "role": {"enum": ["custodian", "analyst"]}, **_CAPS},
        ("person", "role"),
    ),
    ("POST", "sets/{set}/account"): ({"unit": TEXT, **_CAPS}, ("unit",)),
    ("POST", "sets/{set}/boards"): (
        {
            "name": TEXT,
            "source": TEXT,
            "title": TEXT,
            "label": TEXT,
            "settings": {"type": "object", "properties": _BOARD, "additionalProperties": False},
            "open_to_all": YES,
        },
        ("name", "source"),
    ),
    ("POST", "boards/{board}/teams"): ({"team": TEXT, "person": TEXT}, ("team", "person")),
    ("POST", "approvals/{proposal}"): ({"approve": YES}, ("approve",)),
    ("POST", "people"): ({"name": TEXT, "officer": YES}, ("name",)),
    ("POST", "me/tokens"): (
        {"name": TEXT, "scope": {"enum": ["ask", "plan"]}, "days": {"type": "integer", "minimum": 1, "maximum": 366}},
        ("name",),
    ),
    ("POST", "me/password"): ({"password": {"type": "string", "minLength": 12, "maxLength": 200}}, ("password",)),
    ("POST", "officer/verify"): ({"receipts": {"type": "array", "items": OBJECT}}, ()),
}
"""What each route takes as JSON: its fields, and which must be there."""
QUERIES = {
    "sets/{set}/releases": ("after",), "officer/acts": ("after",), "officer/spending": ("by",), "rights": ("act", "person", "set"),
    "sets/{set}/upload": ("format",), "boards/{board}/submissions": ("format", "guess"),
}  # fmt: skip
_FOUND = {"GET": "200", "DELETE": "200", "PUT": "202", "POST": "200"}


def document(routes: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.path.startswith(PREFIX):
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    tasks = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in task_names()]}
    problem = {
        "type": "object",
        "properties": {"type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT, "kind": TEXT},
        "required": ["type", "title", "status", "detail", "kind"],
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "steelyard",
            "version": __version__,
            "description": "Private questions, charged before they are answered.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Task": tasks, "Problem": problem, **_schemas()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


@cache
def _schemas() -> dict[str, Any]:
    return task_schemas()


def _operation(route: Endpoint) -> dict[str, Any]:
    short = route.path.removeprefix(PREFIX)
    named = [
        {"name": name, "in": "path", "required": True, "schema": TEXT} for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    named += [{"name": name, "in": "query", "required": False, "schema": TEXT} for name in QUERIES.get(short, ())]
    if route.spends:
        named.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": True,
                "schema": {"type": "string", "minLength": 1, "maxLength": 200},
            }
        )
    answer = {
        "description": "Problem",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    return {
        "summary": route.summary,
        "operationId": f"{route.method.lower()} {short}",
        "parameters": named,
        **_body(route, short),
        "responses": {_FOUND[route.method]: {"description": "Done"}, **{str(status): answer for status in TITLES}},
    }


def _body(route: Endpoint, short: str) -> dict[str, Any]:
    if route.body == "file":
        return {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}
    if route.body != "json":
        return {}
    properties, required = BODIES[route.method, short]
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
