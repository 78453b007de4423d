"""Forms that do what the API does: a form's fields become the body of the API's own handler, so both take the same checks and leave the same acts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from steelyard.errors import SteelyardError
from steelyard.server._call import Call
from steelyard.server._problems import Problem, problem_of


def through(call: Call, handler: Callable[[Call], Any], **fields: Any) -> Any:
    """What the API answers to these fields; ones that are None were not filled in."""
    call.body = json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
    found = handler(call)
    return json.loads(bytes(found.body)) if isinstance(found, Response) else found


def tried(act: Callable[[], Any]) -> tuple[Any, str]:
    """What came of it, and the refusal in words; one that nobody can act on by changing the form is raised."""
    try:
        return act(), ""
    except (SteelyardError, Problem) as error:
        problem = problem_of(error)
        if problem.status not in (402, 409, 422):
            raise
        return None, f"{problem.detail[:1].upper()}{problem.detail[1:]}"


def filled(call: Call, name: str) -> str | None:
    """A field that was filled in, or None."""
    return call.form.get(name, "").strip() or None


def format_of(call: Call) -> str:
    """What kind of file was sent, by the last part of its name; the name is used for nothing else."""
    return call.file_name.rpartition(".")[2].lower()[:10]
