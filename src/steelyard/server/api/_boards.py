"""Leaderboards over HTTP: a holdout, its teams, what they send in."""

from __future__ import annotations

from typing import Any

from steelyard.errors import InvalidTask
from steelyard.server import _boards as boards
from steelyard.server._acts import acting, record
from steelyard.server._call import Call, Endpoint, key_of, reply, text_of
from steelyard.server._links import link


def mine(call: Call) -> Any:
    """The boards that one may see."""
    every = call.server.boards.all() if call.who.officer else call.server.boards.of(call.who.id)
    return {"boards": [{"name": each.name, "title": each.title, "state": each.state} for each in every]}


def make(call: Call) -> Any:
    """Open a board over labels of the set, or propose one whose labels need a budget."""
    given = call.given("name", "source", optional=("title", "label", "settings", "open_to_all"))
    with acting(call):
        made = boards.open_board(call.server, call.set, given, call.who)
        act = "proposed a board" if made.state == "proposed" else "opened a board"
        record(call, act, f"{made.name}: {made.source}")
    return reply({"name": made.name, "state": made.state}, 201)


def one(call: Call) -> Any:
    """A board: its promise, what is left, its teams."""
    return boards.table(call.server, call.board)


def close(call: Call) -> Any:
    """End the phase for good; whether a final one begins, is being decided, or the board is closed."""
    with acting(call):
        then = boards.next_phase(call.server, call.board)
        record(call, "closed a phase", f"{call.board.name}: now {then}")
    return reply({"state": then})


def join(call: Call) -> Any:
    """Put a person on a team; a new person gets a link that signs in once."""
    given, server = call.given("team", "person"), call.server
    known = server.people.named(text_of(given, "person"))
    if known is not None and known.officer:
        raise InvalidTask("an officer sees every submission, and is on no team.")
    with acting(call):
        person = known or server.people.add(text_of(given, "person"))
        server.boards.join(server.boards.add_team(call.board.id, text_of(given, "team")), person.id)
        record(call, "put on a team", f"{call.board.name}: {person.name} in {given['team']}")
    return reply({"link": "" if known else link(server, person.id)}, 201)


def teams(call: Call) -> Any:
    """The teams of a board and who is on them."""
    return {"teams": call.server.boards.teams(call.board.id)}


def submit(call: Call) -> Any:
    """Send predictions in as a file; they count, whatever becomes of them."""
    guess = call.query.get("guess") or call.form.get("guess") or ""
    suffix = call.query.get("format") or call.form.get("format") or "csv"
    made = boards.submit(call.server, call.board, call.who, key_of(call), call.file, call.file_digest, guess, suffix)
    headers = {"Location": f"/api/v1/submissions/{made.id}", **boards.wait_of(call.server, call.board, made)}
    return reply(boards.look(call.server, call.board, made), 202, headers)


def submission(call: Call) -> Any:
    """One submission."""
    return reply(
        boards.look(call.server, call.board, call.submission),
        200,
        boards.wait_of(call.server, call.board, call.submission),
    )


def submissions(call: Call) -> Any:
    """The submissions of one's own team."""
    team = call.server.boards.team_of(call.board.id, call.who.id)
    found = [] if team is None else call.server.boards.submissions(call.board.id, team=team[0])
    return {"submissions": [boards.look(call.server, call.board, each) for each in found]}


_BOARD = "/api/v1/boards/{board}"
ENDPOINTS = (
    Endpoint("GET", "/api/v1/boards", mine, "be oneself", summary="The boards that one may see."),
    Endpoint(
        "POST", "/api/v1/sets/{set}/boards", make, "open a board", "json", by_token=False, summary="Open a board."
    ),
    Endpoint("GET", _BOARD, one, "see a board", summary="A board."),
    Endpoint("POST", f"{_BOARD}/close", close, "run a board", by_token=False, summary="End the phase for good."),
    Endpoint("GET", f"{_BOARD}/teams", teams, "run a board", summary="The teams."),
    Endpoint("POST", f"{_BOARD}/teams", join, "run a board", "json", by_token=False, summary="Put a person on a team."),
    Endpoint(
        "PUT",
        f"{_BOARD}/submissions",
        submit,
        "submit",
        "file",
        bucket="ask",
        spends=True,
        summary="Send predictions in.",
    ),
    Endpoint("GET", f"{_BOARD}/submissions", submissions, "submit", summary="One's own team's submissions."),
    Endpoint("GET", "/api/v1/submissions/{submission}", submission, "see a submission", summary="One submission."),
)
