"""Where one request is served: charge, then compute, then store, then deliver.

Every answer of a session passes through ``Desk.answer`` (labels and holdouts, whose rows are no table, keep the same order with
charges of their own: ``labels/passes.py`` and ``prior.py``, ``holdout/record.py``). It needs a ``Charge``, which exists only once it is on
stable storage; it hands the rows to the computation, stores the outcome, and delivers what it reads back. So a crash may
waste budget but never hides spending, and one charge never has two answers (laws 1 and 4). The proof is
docs/proofs/session.md; no error raised after the table was read may depend on its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steelyard.accounting.prices import price
from steelyard.errors import TableError
from steelyard.interrupts import attempt
from steelyard.ledger import Account, Charge
from steelyard.ledger.moves import bound_to
from steelyard.noise import Noise
from steelyard.privacy import Event, Terms, canonical
from steelyard.release import Outcome, Release, promise, sealed_payload
from steelyard.tables import Schema, Table

Compute = Callable[[Table, Noise], Outcome]
FAILED = (
    "the release failed after its charge, and for good: nothing was released and what was charged stays charged. The reason "
    "is not told, because it may depend on private rows. Check the table's files, memory and disk, and whether its rows "
    "changed since the key was first used, then use a new key."
)
_FAILURE = canonical({"failed": True})


def as_it_is(value: Any) -> Any:
    """The stored value, unchanged."""
    return value


class Desk:
    """Where one request is served: every answer is charged, computed, stored and read back before anyone sees it."""

    def __init__(self, table: Table, noise: Noise, account: Account, key: str, request: dict[str, Any]) -> None:
        self._table, self._noise, self._account = table, noise, account
        self._key, self._request = key, request

    @property
    def terms(self) -> Terms:
        """The account's terms."""
        return self._account.terms

    @property
    def schema(self) -> Schema:
        """The table's public schema."""
        return self._table.schema

    def charge(self, event: Event, step: str = "") -> Charge:
        """Pay for an event, durably. The same step of the same key is the same charge and costs nothing more."""
        return self._account.charge(price(event, self.terms), **self._naming(step), event=event)

    def find(self, step: str) -> Release | None:
        """The stored answer of an earlier step, if there is one; costs nothing."""
        charge = self._account.find(**self._naming(step))
        stored = None if charge is None else charge.answer
        return None if charge is None or stored is None else _deliver(stored, as_it_is, charge, again=True)

    def answered(self) -> dict[str, tuple[bool, int]]:
        """Each answered step under the key, by its name ("" for the key itself), whoever asked for it.

        Whether it belongs to this very request, and what it has cost by now.
        """
        found = {name[len(self._key) + 1 :]: told for name, told in self._account.answered(self._key).items()}
        return {step: (request == self._bound(step), cost) for step, (request, cost) in found.items()}

    def _bound(self, step: str) -> str:
        naming = self._naming(step)
        return bound_to(naming["request"], naming["of"])

    def seal(self, data: bytes) -> bytes:
        """A digest of these bytes under a key of this very request, which never leaves the ledger's own key."""
        return self._account.seal(f"desk/{self._key}", data)

    def answer(
        self, charge: Charge, event: Event, compute: Compute, *, step: int = 0, present: Callable[[Any], Any] = as_it_is
    ) -> Release:
        """The stored answer of a paid step, computed first if there is none yet.

        A computation that fails is stored as a failure: were it tried again, a failure that depends on the noise would
        give a second draw for one charge. One that is interrupted from outside has told nothing and stores nothing: what was
        charged stays charged, and the same key may ask again.
        """
        stored = charge.answers.get(step)
        again = stored is not None
        if stored is None:
            stored = charge.store(self._sealed(event, compute), step=step)
        return _deliver(stored, present, charge, again=again)

    def _naming(self, step: str) -> dict[str, Any]:
        key = f"{self._key}/{step}" if step else self._key
        request = canonical({**self._request, "step": step} if step else self._request)
        return {"key": key, "request": request, "of": self._table.identity}

    def _sealed(self, event: Event, compute: Compute) -> bytes:
        """Run code that has rows in its hands; whatever happens there, one payload comes out, an interrupt excepted."""
        if not self._noise.secure:
            return self._payload(event, compute)
        made = attempt(lambda: self._payload(event, compute))
        return _FAILURE if made is None else made[0]

    def _payload(self, event: Event, compute: Compute) -> bytes:
        outcome = compute(self._table, self._noise)
        cost, noise = price(event, self.terms), self._noise
        kept = promise(self.terms, cost, event, secure=noise.secure, stored=self._table.stored)
        return sealed_payload(outcome, kept, event, self._request)


def _deliver(stored: bytes, present: Callable[[Any], Any], charge: Charge, *, again: bool) -> Release:
    if stored == _FAILURE:
        raise TableError(FAILED)
    return Release.delivered(stored, present, charge, again=again)
