"""Boards over labels of people: the budget that such a board needs, told from public facts, which two persons open.

The board's holdout hides one replaced row among a public number of rows, so the custodian declares that number, and everything that the
budget hangs on is known before a label is read. Opening the board proposes exactly that account; nothing is opened until an officer has
approved it, and the worker opens no account of its own. Law: the web process prices blank labels, the worker reads the true ones after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Terms, decimal_text
from steelyard.server._store import Board, DataSet, Person, Proposal

if TYPE_CHECKING:
    from steelyard.server._server import Server

MODE = "private"
SETTINGS = ("rows", "epsilon", "delta", "noise", "separate")
"""What only a private board has: ``rows``, how many labels there are; ``separate``, "yes" where no row is in another board of as many."""
MOST_ROWS = 10_000_000


def is_private(board: Board) -> bool:
    """Whether a board's labels are hidden."""
    return board.settings.get("mode") == MODE


def account_of(server: Server, board: Board) -> str:
    """The name of a private board's account: one that no set, person or other board can have, and that tells whose people it is about."""
    dataset = server.sets.known(board.dataset)
    assert dataset is not None
    return f"{accounts_named(dataset)}/{board.name}"


def accounts_named(dataset: DataSet) -> str:
    """What the accounts of a set's private boards have in front."""
    return f"board:{dataset.name}"


def holds_labels(board: Board) -> bool:
    """Whether answers about a board's labels were told or may be: not of a private board that was never opened."""
    return not (is_private(board) and board.state in ("declined", "broken"))


def clash(board: Board, private: bool) -> bool:
    """Whether a board and another on the same labels would together tell more than one budget: where either of them hides them."""
    return holds_labels(board) and (private or is_private(board))


def check(settings: dict[str, Any]) -> None:
    """Refuse settings of a private board on another one, and the other way round."""
    if settings.get("mode") != MODE:
        found = [name for name in SETTINGS if name in settings]
        if found:
            raise InvalidTask(f"{', '.join(found)}: only of a board in mode {MODE}, which hides labels of people.")
        return
    rows = settings.get("rows")
    if not isinstance(rows, int) or not 0 < rows <= MOST_ROWS:
        raise InvalidTask(
            f"a board in mode {MODE} says how many labels there are, with rows from 1 to {MOST_ROWS:,}: the number is public."
        )
    if settings.get("separate", "yes") != "yes":
        raise InvalidTask('separate is "yes", or left out.')
    if settings.get("final"):
        raise InvalidTask("a final phase tells an exact score; labels of people have one phase.")


def terms_of(settings: dict[str, Any], rows: int) -> Terms:
    """The account that a private holdout of these settings needs; nothing of it hangs on a label, so blank ones do."""
    import numpy as np

    from steelyard.holdout import Holdout  # of this act alone

    given = dict(settings)
    if isinstance(given.get("classes"), str):
        given["classes"] = given["classes"].split(",")
    return Holdout(np.zeros(rows, dtype=np.int8), **given).account.terms


def propose(server: Server, board: Board, person: Person, terms: Terms) -> Proposal:
    """Propose the account that a board needs; the board waits until somebody else has decided."""
    caps = {"epsilon": terms.epsilon, "delta": terms.delta, "additive_delta": terms.cap.additive_delta}
    told = {name: decimal_text(cap, 30) for name, cap in caps.items() if cap}
    declared = {"separate": "yes"} if "separate" in board.settings else {}
    server.boards.set_state(board.id, "proposed")
    given = {"unit": f"rows:{terms.unit.n}", **told, "board": board.name, **declared}
    return server.proposals.add(board.dataset, account_of(server, board), given, person.id)


def decided(server: Server, proposal: Proposal, state: str) -> bool:
    """Let a board go on as its budget was decided on; whether the proposal was for a board."""
    board = server.boards.named(str(proposal.terms.get("board", "")))
    if board is not None:
        server.boards.set_state(board.id, state)
    return "board" in proposal.terms
