"""The things that an address names, and the roles somebody has in them; the right is checked before anything is told.

What is not there and what is for others look alike: both are 404 with the same body.
"""

from __future__ import annotations

from steelyard.server._call import Call
from steelyard.server._problems import Problem, not_there
from steelyard.server._rights import SEEN_BY, explain, may


def resolve(call: Call) -> None:
    """Find what the address names, and the person's roles there."""
    server, params = call.server, call.params
    if "set" in params:
        call.dataset = server.sets.named(params["set"])
    if "release" in params:
        number = params["release"].partition(".")[0]
        call.job = server.jobs.of_sequence(int(number)) if _is_number(number) else None
        call.dataset = None if call.job is None else server.sets.known(call.job.dataset)
    if "board" in params:
        call.board = server.boards.named(params["board"])
    if "submission" in params:
        number = params["submission"]
        call.submission = server.boards.submission(int(number)) if _is_number(number) else None
        call.board = None if call.submission is None else server.boards.known(call.submission.board)
    if call.board is not None:
        call.dataset = server.sets.known(call.board.dataset)
    roles = set(server.roles(call.person, call.dataset))
    if call.board is not None:
        roles |= _on_board(call)
    if call.job is not None and call.person is not None:
        roles |= {"author"} if call.job.person == call.person.id else set()
        roles |= {"reader"} if call.job.published and roles & {"analyst", "custodian"} else set()
    call.roles = frozenset(roles)


def _is_number(text: str) -> bool:
    """Whether a text is a whole number in plain digits that a database can hold."""
    return text.isascii() and text.isdigit() and len(text) < 19


def _on_board(call: Call) -> set[str]:
    """The roles that a board gives: on one of its teams, on the team that sent a submission in, or anybody's where it is open to all."""
    board, person = call.board, call.person
    team = None if person is None else call.server.boards.team_of(board.id, person.id)
    competing = set() if team is None else {"competitor"}
    own = {"author"} if team is not None and call.submission is not None and call.submission.team == team[0] else set()
    return competing | own | ({"visitor"} if board.open_to_all else set())


def check(call: Call) -> None:
    """Refuse what the permission table does not allow."""
    endpoint, person = call.endpoint, call.person
    named = next((kind for kind in ("release", "submission", "board", "set") if kind in call.params), None)
    if may(call.roles, endpoint.act):
        found = {"set": call.dataset, "release": call.job, "board": call.board, "submission": call.submission}
        if any(kind in call.params and thing is None for kind, thing in found.items()):
            raise not_there()
        _check_way(call)
        return
    if person is None:
        raise Problem(401, "SignedOut", "sign in first.", headers={"WWW-Authenticate": "Bearer"})
    if named is not None and not may(call.roles, SEEN_BY[named]):
        raise not_there()
    raise Problem(403, "NotAllowed", explain(call.roles, endpoint.act))


def _check_way(call: Call) -> None:
    """Refuse a token where a person must come in herself, or where it may not spend, and a sign-in that is too old."""
    endpoint, person = call.endpoint, call.person
    if person is None:
        return
    if person.by == "token" and not endpoint.by_token:
        raise Problem(403, "NotAllowed", "a token cannot do this: sign in.")
    if person.by == "token" and endpoint.spends and person.scope == "plan":
        raise Problem(403, "NotAllowed", "this token may plan and read, and not spend.")
    if endpoint.fresh and not person.fresh:
        raise Problem(403, "NotFresh", "sign in again: this needs a sign-in of the last half hour.")
