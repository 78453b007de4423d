"""A session that remembers what its account would not pay for, so that a search that ends can say why.

A search ends quietly where its budget does. What the refused step wanted, and what was left, are public numbers (a price is
fixed before its step), and whoever has to raise an epsilon wants to read them.
Law: nothing else differs from the session that is listened to; whatever is refused stays refused.
"""

from __future__ import annotations

from typing import Any

from steelyard.account import Charge
from steelyard.desk import Desk
from steelyard.documents import request_of
from steelyard.errors import BudgetExceeded
from steelyard.models.accuracy.transcript import Transcript
from steelyard.privacy import Event, Loss
from steelyard.session import Session

CAP = "the cap was reached first"


class Listening(Session):
    """The same table, account and noise; ``refused`` is the last refusal, if there was one."""

    def __init__(self, session: Session) -> None:
        super().__init__(session._table, session._account, noise=session._noise)
        self.refused: BudgetExceeded | None = None

    def desk(self, asked: object, key: str) -> Desk:
        """Where the steps of this key are served; a key that names another request is refused."""
        found = _Desk(self, self._table, self._noise, self._account, key, request_of(asked))
        Transcript.begun(found)
        return found

    _desk = desk

    def why(self, taken: int) -> str:
        """Why a search ended that took so many steps."""
        if self.refused is None or self.refused.wanted is None:
            return CAP
        step = "next" if taken else "first"
        return f"{CAP}: the {step} step wants {self.refused.wanted}, and {self.refused.remaining} is left"


class _Desk(Desk):
    def __init__(self, heard: Listening, *given: Any) -> None:
        super().__init__(*given)
        self._heard = heard

    def charge(self, event: Event, step: str = "", *, loss: Loss | None = None) -> Charge:
        try:
            return super().charge(event, step, loss=loss)
        except BudgetExceeded as refused:
            self._heard.refused = refused
            raise
