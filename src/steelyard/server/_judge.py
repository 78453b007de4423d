"""The worker's side of boards: it opens holdouts, parses predictions, asks, and keeps what the ledger holds.

A format fault is found before the labels are touched, and told. Anything else that goes wrong is a failure without a word.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask, LedgerError, TableError
from steelyard.interrupts import INTERRUPTS
from steelyard.privacy import Currency
from steelyard.requests import open_holdout, read_labels
from steelyard.server import _private as private
from steelyard.server._boards import board_settings
from steelyard.server._config import SPARK
from steelyard.server._server import Server
from steelyard.server._slots import moment
from steelyard.server._sources import locate
from steelyard.server._store import Board, Submission

if TYPE_CHECKING:
    from steelyard.holdout import Holdout

TRIES = 2


class Judging:
    """The holdouts that this worker has open, and the submissions that it answers."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._holdouts: dict[tuple[int, bool], Holdout] = {}

    def once(self) -> bool:
        """Open new boards and answer submissions; whether there was anything to do."""
        new = [board for board in self.server.boards.all() if board.state == "new"]
        for board in new:
            self._open(board)
        done = [self._serve(made) for made in self.server.boards.waiting()]
        ended = [board for board in self.server.boards.all() if board.state == "scoring"]
        for board in ended:
            self._decide(board)
        return bool(new) or bool(ended) or any(done)

    def close(self) -> None:
        """Leave holdouts in order, so that nothing is pending."""
        for holdout in self._holdouts.values():
            holdout.__exit__(None, None, None)

    def _open(self, board: Board) -> None:
        try:
            found = self._holdout(board)
            facts = {
                "rows": found.rows, "mode": found.mode, "metric": str(found.metric), "higher_is_better": bool(found.frame.higher_is_better),
                "promise": str(found), "left": found.forecast(),
            }  # fmt: skip
            if private.is_private(board):
                facts["account"] = found.account.name
            if board.settings.get("final"):
                facts["final_rows"] = self._holdout(board, final=True).rows
        except INTERRUPTS:
            raise
        except LedgerError:
            return
        except BaseException:  # nothing of it may be told
            self.server.boards.set_state(board.id, "broken")
            return
        self.server.boards.set_state(board.id, "open", facts)

    def _holdout(self, board: Board, *, final: bool = False) -> Holdout:
        """The board's holdout, or that of its final phase: other rows, under a budget of their own, which a ledger keeps apart."""
        found = self._holdouts.get((board.id, final))
        if found is None:
            config, source = self.server.config, str(board.settings["final"]) if final else board.source
            place = locate(config, "root", source)
            if self._is_of_a_set(place) or place in self._labels_apart(board):
                raise InvalidTask("rows that a budget protects are no labels.")
            found = open_holdout(
                place, board.label or None, board_settings(board, final=final), board.settings.get("id"), **self._budget(board, final=final)
            )  # fmt: skip
            self._holdouts[board.id, final] = found
        return found

    def _budget(self, board: Board, *, final: bool) -> dict[str, Any]:
        """Where a board's budget is: labels of people have the account that two persons opened, and no other is made for them."""
        if private.is_private(board):
            account = self.server.account(private.account_of(self.server, board))
            return {"name": account.name, "account": account, "separate": "separate" in board.settings}
        name = self._on_ledger(f"{board.name}.final" if final else board.name)
        return {"name": name, "ledger": self.server.config.ledger_address}

    def _labels_apart(self, board: Board) -> set[str]:
        """Where the labels are, links followed, that this board cannot have since another has them and one of the two hides them."""
        first = lambda each: each.id < board.id or (each.id != board.id and each.facts)  # noqa: E731 - asked for, or opened
        others = filter(first, self.server.boards.all())
        return self._located(
            ("root", str(place))
            for each in others
            if private.clash(each, private.is_private(board))
            for place in (each.source, each.settings.get("final"))
            if place
        )

    def _on_ledger(self, name: str) -> str:
        """A board's account: under a name that no set and no person can have, so that nobody's board takes the place of a budget."""
        known = {account.name: account for account in self.server.ledger.accounts()}
        earlier = name in known and known[name].terms.currency is Currency.NATS
        return name if earlier else f"board:{name}"

    def told_of(self, kind: str, source: str) -> bool:
        """Whether a source has labels that a board was opened on, links followed: no budget of a set can hide them afterwards."""
        boards = [each for each in self.server.boards.all() if each.facts]
        places = [(each.source, each.settings.get("final")) for each in boards]
        named = [("root", str(name)) for both in places for name in both if name]
        return any(_has(place, labels) for place in self._located([(kind, source)]) for labels in self._located(named))

    def _is_of_a_set(self, place: str) -> bool:
        """Whether a file has rows of a set, links followed."""
        return any(
            _has(each, place) for each in self._located((each.kind, each.source) for each in self.server.sets.all())
        )

    def _located(self, sources: Iterable[tuple[str, str]]) -> set[str]:
        found = set()
        for kind, source in sources:
            with contextlib.suppress(TableError, InvalidTask, KeyError):  # an address may be one no more
                found.add(locate(self.server.config, kind, source))
        return found

    def _serve(self, made: Submission) -> bool:
        board = self.server.boards.known(made.board)
        assert board is not None
        path = self.server.config.folder / "submissions" / made.file
        try:
            state, answer = self._answer(board, made, path)
        except LedgerError:
            return False
        visible = moment(made.asked, board.slot, self.server.clock())
        self.server.boards.finish(made.id, state, answer, visible)
        if state != "held":
            path.unlink(missing_ok=True)
        return True

    def _decide(self, board: Board) -> None:
        """Compare the last predictions of every team once; the winner's score is told, and nothing about the others."""
        chosen = list(
            {made.team: made for made in self.server.boards.submissions(board.id) if made.state == "held"}.values()
        )
        try:
            result = self._winner(board, chosen) if chosen else {}
        except (LedgerError, *INTERRUPTS):
            raise
        except BaseException:  # it may depend on labels
            self.server.boards.set_state(board.id, "broken")
            return
        visible = moment(board.facts["closing"], board.slot, self.server.clock())
        self.server.boards.set_state(
            board.id, "closed", {**board.facts, "final": {**result, "visible": visible, "teams": len(chosen)}}
        )
        for made in self.server.boards.submissions(board.id):
            (self.server.config.folder / "submissions" / made.file).unlink(missing_ok=True)

    def _winner(self, board: Board, chosen: list[Submission]) -> dict[str, Any]:
        if self.server.boards.begin(chosen[0].id) > TRIES + 2:
            raise InvalidTask("this was tried before")
        holdout, folder = self._holdout(board, final=True), self.server.config.folder / "submissions"
        read = [read_labels(str(folder / made.file), None, board.settings.get("id")) for made in chosen]
        ids = None if board.settings.get("id") is None else [names for _, names in read]
        first = holdout.best_of([predictions for predictions, _ in read], ids=ids)
        score = holdout.finish(read[first][0], ids=read[first][1])
        names = {team["id"]: team["name"] for team in self.server.boards.teams(board.id)}
        return {"team": names[chosen[first].team], "submission": chosen[first].id, **score.to_json()}

    def _answer(self, board: Board, made: Submission, path: Path) -> tuple[str, dict[str, Any]]:
        """What is told of a submission: its score, a fault of its format, or nothing."""
        if self.server.boards.begin(made.id) > TRIES:
            return "failed", {}
        try:
            predictions, ids = read_labels(str(path), None, board.settings.get("id"))
        except INTERRUPTS:
            raise
        except InvalidTask as fault:
            return "refused", {"detail": str(fault).replace(str(path), "the file")}
        except BaseException:  # a parser's panic
            return "failed", {}
        try:
            if board.settings.get("final") and board.state != "open":  # sent in before the end, read after it
                self._holdout(board, final=True).require(predictions, ids=ids)
                return "held", {}
            holdout = self._holdout(board)
            found = holdout.check(predictions, made.guess or None, ids=ids)
            return "answered", {**found.to_json(), "left": holdout.forecast()}
        except (LedgerError, *INTERRUPTS):
            raise
        except InvalidTask as fault:  # found before the labels were looked at
            return "refused", {"detail": str(fault)}
        except BaseException:  # it may depend on labels
            return "failed", {}


def _has(address: str, place: str) -> bool:
    """Whether a file is at an address, which may be a pattern of files or a folder of them."""
    whole = os.path.realpath(address.removeprefix(SPARK))
    return fnmatch.fnmatchcase(place, whole) or fnmatch.fnmatchcase(place, f"{whole}/*")
