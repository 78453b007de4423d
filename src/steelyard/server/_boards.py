"""Boards as the web process knows them: opening one, sending predictions in, and the table of teams.

The labels, and the predictions as soon as they are parsed, are the worker's. A submission's answer is seen from a moment of the public
schedule on, whether it was a surprise or not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.privacy import exact
from steelyard.requests import settings_typed
from steelyard.server import _private as private
from steelyard.server._problems import Problem
from steelyard.server._slots import retry_after
from steelyard.server._sources import check_source, named_alike
from steelyard.server._store import Board, DataSet, Person, Submission

if TYPE_CHECKING:
    from steelyard.server._server import Server

MODES = ("certified", "ladder", private.MODE)
_HOLDOUT = ("mode", "metric", "tolerance", "confidence", "classes", "questions", "steps", "start", "between")
SETTINGS = (*_HOLDOUT, "id", "final", *private.SETTINGS)
"""``id`` is the column of public ids that predictions are matched by; ``final`` is where the labels of a final phase are."""
FORMATS = ("csv", "parquet")
_ALSO_FINAL = ("metric", "tolerance", "confidence", "classes")
_ROWS_OF_A_SET = "this file has the rows of a set, which a budget protects; a board tells scores that hide nobody. Labels are a file of their own."
_ONE_BUDGET = "these are the labels of another board, and one of the two hides them: the same labels have one budget."
_WHOLE = ("questions", "steps", "rows")
_OTHERS = ("budget", "epsilon", "delta", "noise", "threshold", "sigma")


def open_board(server: Server, dataset: DataSet, given: dict[str, Any], person: Person) -> Board:
    """Make a board over labels that the worker will find; what can be refused from the settings' texts is refused now.

    One over labels of people is only proposed: somebody else has to approve its budget.
    """
    name, source, settings = given["name"], given["source"], given.get("settings", {})
    if not isinstance(settings, dict) or set(settings) - set(SETTINGS):
        raise InvalidTask(f"a board's settings are {', '.join(SETTINGS)}.")
    if settings.get("mode", "certified") not in MODES:
        raise InvalidTask(f"a board's mode is one of {', '.join(MODES)}.")
    if not isinstance(source, str) or not isinstance(name, str):
        raise InvalidTask("a board has a name and a source.")
    for labels in (source, *([str(settings["final"])] if settings.get("final") else [])):
        check_source(server.config, "root", labels)
        if any(each.kind == "root" and named_alike(server.config, labels, each.source) for each in server.sets.all()):
            raise InvalidTask(_ROWS_OF_A_SET)
        if any(named_alike(server.config, labels, each) for each in _labels_apart(server, settings.get("mode"))):
            raise InvalidTask(_ONE_BUDGET)
    if str(settings.get("metric", "")).startswith("cost"):  # which names a file on a command line
        raise InvalidTask("a board's metric is a name; a cost matrix is read from a file, which no page may name.")
    texts = {
        key: int(value) if key in _WHOLE and isinstance(value, str) and value.isascii() and value.isdigit() else value
        for key, value in settings.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }
    if len(texts) != len(settings):
        raise InvalidTask("a board's settings are texts and numbers.")
    private.check(texts)
    typed = settings_typed({key: _typed(key, texts.get(key)) for key in (*_HOLDOUT, *_OTHERS)})
    terms = private.terms_of(typed, int(texts["rows"])) if texts.get("mode") == private.MODE else None
    title, label = given.get("title", ""), given.get("label", "")
    if not (isinstance(title, str) and isinstance(label, str) and isinstance(given.get("open_to_all", False), bool)):
        raise InvalidTask("a board's title and label are texts, and open_to_all is true or false.")
    with server.database.write():  # a board that waits for its budget is never seen by the worker as a new one
        made = server.boards.add(
            name,
            title,
            dataset.id,
            source,
            label,
            texts,
            open_to_all=given.get("open_to_all", False),
            slot=dataset.slot,
        )
        if terms is not None:
            private.propose(server, made, person, terms)
        return server.boards.known(made.id) or made


def _labels_apart(server: Server, mode: object) -> list[str]:
    """Labels that a board of this mode cannot have, because another board has them and one of the two hides them."""
    found = [board for board in server.boards.all() if private.clash(board, mode == private.MODE)]
    return [str(place) for board in found for place in (board.source, board.settings.get("final")) if place]


def _typed(name: str, value: Any) -> Any:
    """A setting as the command line would have it."""
    return value if value is None or name in ("questions", "steps") else str(value)


def board_settings(board: Board, *, final: bool = False) -> dict[str, Any]:
    """The settings of a board as a holdout takes them; the final phase is a round, whose winner gets one certified score."""
    given = board.settings if not final else {key: board.settings.get(key) for key in _ALSO_FINAL} | {"mode": "rounds"}
    return settings_typed({key: _typed(key, given.get(key)) for key in (*_HOLDOUT, *_OTHERS)})


def next_phase(server: Server, board: Board) -> str:
    """End a phase for good: an open board goes on to its final phase if it has one, and that is decided by the worker."""
    then = {"open": "final" if board.settings.get("final") else "closed", "final": "scoring"}.get(board.state)
    if then is None:
        raise Problem(409, "NotOpen", "the board has no phase to close now.")
    server.boards.set_state(board.id, then, {**board.facts, "closing": int(server.clock())})
    return then


def submit(
    server: Server, board: Board, person: Person, key: str, file: Any, digest: str, guess: str, suffix: str
) -> Submission:
    """Take predictions in; the same key again is the same submission, and other predictions under it are refused."""
    team = server.boards.team_of(board.id, person.id)
    if team is None or board.state not in ("open", "final"):
        raise Problem(409, "NotOpen", "the board takes no predictions now.")
    if suffix not in FORMATS or file is None:
        raise InvalidTask(f"send one file of predictions, with ?format={' or ?format='.join(FORMATS)}.")
    if guess:
        exact(guess, "guess")
        if private.is_private(board):
            raise InvalidTask("this board tells every score with noise, and takes no guess.")
    everybody, own = server.boards.count_waiting(person.id)
    if own >= server.config.queue_of_one or everybody >= server.config.queue:
        raise Problem(429, "TooMany", "too many submissions wait already.", headers={"Retry-After": "2"})
    folder = server.config.folder / "submissions"
    folder.mkdir(mode=0o700, exist_ok=True)
    name = f"{file.name}.{suffix}"
    os.rename(file, folder / name)
    made, new = server.boards.submit(board.id, team[0], person.id, key, digest, guess, name)
    if not new:
        (folder / name).unlink(missing_ok=True)
        if (made.digest, made.guess) != (digest, guess):
            raise Problem(
                422, "KeyConflict", "this key already names other predictions, or another guess.", other_request=True
            )
    return made


def is_told(server: Server, made: Submission) -> bool:
    """Whether a submission's answer may be seen by now."""
    return made.visible is not None and made.visible <= server.clock()


def look(server: Server, board: Board, made: Submission) -> dict[str, Any]:
    """A submission as its team may see it."""
    told = {"id": made.id, "board": board.name, "digest": made.digest, "guess": made.guess}
    if not is_told(server, made):
        return {**told, "state": "asked", "answer": None}
    return {**told, "state": made.state, "answer": made.answer}


def wait_of(server: Server, board: Board, made: Submission) -> dict[str, str]:
    """When to look again, as a header."""
    if is_told(server, made):
        return {}
    return {"Retry-After": str(retry_after(made.asked, board.slot, server.clock()))}


def table(server: Server, board: Board) -> dict[str, Any]:
    """A board as those who may see it do: its promise, what is left, and its teams with ranks that are ranges."""
    told = [made for made in server.boards.submissions(board.id) if is_told(server, made)]
    higher = bool(board.facts.get("higher_is_better", True))
    names = {team["id"]: team["name"] for team in server.boards.teams(board.id)}
    entries = [
        {"team": names[team], "submissions": sum(each.team == team for each in told), **found}
        for team, found in _best(told, higher).items()
    ]
    left = next((made.answer["left"] for made in reversed(told) if "left" in made.answer), board.facts.get("left"))
    return {
        "name": board.name,
        "title": board.title,
        "state": board.state,
        "left": left,
        "slot": board.slot,
        "settings": {name: value if name != "final" else True for name, value in board.settings.items()},
        "facts": {name: value for name, value in board.facts.items() if name not in ("left", "final", "closing")},
        "teams": ranked(entries, higher_is_better=higher),
        "final": final_of(server, board),
    }


def final_of(server: Server, board: Board) -> dict[str, Any] | None:
    """Who won the final phase and with which certified score; None before it is decided and may be seen."""
    found = board.facts.get("final")
    return found if found and found["visible"] <= server.clock() else None


def _best(told: list[Submission], higher: bool) -> dict[int, dict[str, Any]]:
    """Each team's best answer."""
    best: dict[int, dict[str, Any]] = {}
    for made in told:
        value, held = made.answer.get("value"), best.get(made.team)
        if made.state == "answered" and value is not None and (held is None or _beats(value, held["value"], higher)):
            best[made.team] = {name: made.answer[name] for name in ("value", "low", "high", "kind")}
    return best


def _beats(value: float, other: float, higher: bool) -> bool:
    return value > other if higher else value < other


def ranked(entries: Sequence[dict[str, Any]], *, higher_is_better: bool = True) -> list[dict[str, Any]]:
    """Entries with ``value``, ``low`` and ``high``, best first, each with the ranks it may have from ``rank`` to ``rank_to``.

    >>> teams = [{"team": "a", "value": 0.8, "low": 0.75, "high": 0.85}, {"team": "b", "value": 0.5, "low": 0.45, "high": 0.55}]
    >>> [(each["team"], each["rank"], each["rank_to"]) for each in ranked(teams)]
    [('a', 1, 1), ('b', 2, 2)]
    >>> close = [{"team": "a", "value": 0.8, "low": 0.7, "high": 0.9}, {"team": "b", "value": 0.79, "low": 0.7, "high": 0.9}]
    >>> [(each["team"], each["rank"], each["rank_to"]) for each in ranked(close)]
    [('a', 1, 2), ('b', 1, 2)]
    """
    sign = 1 if higher_is_better else -1
    ordered = sorted(entries, key=lambda each: -sign * each["value"])
    return [
        {
            **each,
            "rank": 1 + sum(_above(other, each, sign) for other in ordered),
            "rank_to": len(ordered) - sum(_above(each, other, sign) for other in ordered),
        }
        for each in ordered
    ]


def _above(one: dict[str, Any], other: dict[str, Any], sign: int) -> bool:
    """Whether one is certainly better than the other."""
    return bool(one["low"] > other["high"]) if sign > 0 else bool(one["high"] < other["low"])
