"""What every page shares: the frame around it, how a refusal is told, and where one goes after a form was taken.

Pages are Jinja2 templates with everything escaped, and a name that was not given is an error. Text from rows and from people cannot become
markup, and marks that reorder their neighbours are shown as U+FFFD, as charts do. No style and no script stands in a page, which the
content policy of every response makes sure of.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from steelyard import __version__
from steelyard.charts import printable
from steelyard.server._call import Call
from steelyard.server._problems import TITLES, Problem
from steelyard.server._store import DataSet
from steelyard.server.pages._static import address

_TEMPLATES = Path(__file__).parent / "templates"
DONE = {
    "published": "Published: everybody in the set may read it, and asking for it again is free.",
    "source": "Noted. The worker is looking at its columns.",
    "proposed": "Proposed. An officer has to approve it.",
    "approved": "Approved: the account is open.",
    "declined": "Declined.",
    "joined": "Done: they are in.",
    "left": "Done: they are out. What they spent stays spent.",
    "password": "Your password is set.",
    "token": "The token has ended.",
    "session": "That session has ended.",
    "disabled": "They are shut out, and everything they had open has ended.",
    "phase": "The phase is closed.",
    "team": "They are on the team.",
}
"""What was done, told on the page that follows; an address names a sentence and cannot bring its own."""


@cache
def templates() -> Environment:
    """The templates; everything put into them is escaped, and a name that was not given is an error."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, finalize=_shown,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.globals.update(version=__version__, address=address)
    return made


def _shown(value: object) -> object:
    """A text without what would reorder its neighbours; markup is ours and stays."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page(call: Call, template: str, title: str, *, status: int = 200, here: str = "", **facts: Any) -> Response:
    """A template with its facts, in the frame."""
    who = call.person
    frame = {
        "title": title,
        "me": "" if who is None else who.name,
        "places": () if who is None else _places(call),
        "here": here,
        "done": DONE.get(call.query.get("done", ""), ""),
    }
    return HTMLResponse(templates().get_template(template).render(**frame, **facts), status)


def _places(call: Call) -> list[tuple[str, str]]:
    """Where the frame leads this person."""
    officer = [("/officer", "Officer"), ("/people", "People")] if call.who.officer else []
    return [("/", "Home"), ("/boards", "Leaderboards"), *officer]


def go(path: str, done: str = "") -> Response:
    """To another page, after a form was taken."""
    return RedirectResponse(f"{path}?done={done}" if done else path, 303)


def at(*parts: str) -> str:
    """An address of ours; its parts may be any text.

    >>> at("sets", "a b", "plan")
    '/sets/a%20b/plan'
    """
    return "/" + "/".join(quote(part, safe="") for part in parts)


def show_problem(call: Call, problem: Problem) -> Response:
    """A refusal as a page; whoever is signed out is led to the sign-in."""
    if problem.status == 401 and call.endpoint.method == "GET":
        wanted = call.endpoint.path.format(**{name: quote(value, safe="") for name, value in call.params.items()})
        return go("/sign-in" if wanted in ("/", "-") else f"/sign-in?next={quote(wanted, safe='')}")
    title = TITLES[problem.status]
    ways = [("/", "Home", "")] if call.person is not None else [("/sign-in", "Sign in", "")]
    if problem.kind == "NotFresh":
        ways = [("/sign-in", "Sign in again", ""), *[("/", "Home", "plain")]]
    if problem.status == 403 and call.person is not None:
        ways.append(("/rights", "Who may what", "plain"))
    after = _AFTER.get(problem.status, ())
    pairs = [(name, str(problem.members[name])) for name in ("incident",) if name in problem.members]
    made = page(
        call, "problem.html", title, status=problem.status, detail=_sentence(problem.detail), after=after, pairs=pairs,
        bars=(), ways=ways,
    )  # fmt: skip
    made.headers.update(problem.headers)
    return made


_AFTER = {
    402: (
        "Nothing was charged and no row was read. A smaller question, or one that was published before, may still fit.",
    ),
    404: ("Sets, boards and answers of others look as if they were not there.",),
    503: ("What was charged stays charged, and is never lost: ask again with the same form.",),
}


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def day(at_second: float | None) -> str:
    """A moment as people say it, in universal time."""
    return "" if at_second is None else time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(at_second)).lstrip("0")


def about(dataset: DataSet) -> str:
    """A set in a line."""
    if dataset.state != "described":
        return {
            "empty": "no table yet",
            "new": "the worker is looking at its columns",
            "broken": "its table cannot be opened",
        }[dataset.state]
    names = list(dataset.columns)
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{', '.join(names[:4])}{more}"
