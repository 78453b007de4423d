"""Where one request is served: every private answer is charged, then computed, then stored, then delivered, and only here.

A step at a ``Desk`` is paid by ``charge``, whose ``Charge`` exists only once it is on stable storage. Then it has one outcome for
ever, of one of three kinds, and what is delivered is read back from the store:
``answer`` a release, computed from the table; ``draw`` many noisy values at once, as bytes; ``claim`` what a step is for, as plain words.
So a crash may waste budget but never hides spending, and one charge never has two answers (laws 1 and 4). Rows that are no
table (an array of labels, a holdout) are named by ``NoTable``. The proof is docs/proofs/session.md; no error raised after the rows
were read may depend on them. How labels and holdouts use a desk: docs/decisions/0016-one-till.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.account import Account, Charge, bound_to
from steelyard.accounting import price
from steelyard.errors import InsecureNoise, TableError
from steelyard.interrupts import attempt
from steelyard.noise import Noise
from steelyard.privacy import Event, Loss, Terms, canonical
from steelyard.release import Outcome, Release, as_it_is, promise, sealed_payload
from steelyard.tables import Schema, Table

_Compute = Callable[[Any, Noise], Outcome]
FAILED = (
    "the release failed after its charge, and for good: nothing was released and what was charged stays charged. The reason "
    "is not told, because it may depend on private rows. Check the table's files, memory and disk, and whether its rows "
    "changed since the key was first used, then use a new key."
)
_FAILURE = canonical({"failed": True})
_DRAWN = b"\0"  # before what was drawn, so that no draw reads as a failure


@dataclass(frozen=True)
class NoTable:
    """Private rows that are no table, such as an array of labels; ``identity`` names them in public words."""

    identity: str = ""
    stored: bool = True


def check_noise(noise: Noise, account: Account) -> None:
    """Refuse to spend an account that outlives this process on noise that protects nobody."""
    if not noise.secure and account.durable:
        raise InsecureNoise(
            f"{noise.name} protects nobody and may only spend an account on ':memory:'; "
            f"account {account.name!r} is durable. Leave noise= out for the real thing."
        )


def paid_by(given: Account | None) -> str:
    """Who pays for a fit, in words for whoever reads its ``note_``: the caller's account, or one that was made for it."""
    if given is not None:
        return f"charged to account {given.name!r}"
    return (
        "charged to an account in memory of exactly the epsilon (and delta) asked for, made by this fit alone: every other fit "
        "(a grid search of K fits makes K) spends again, and nothing adds them up; give account= to keep count"
    )


class Desk:
    """Serves one key and request on some rows, step by step."""

    def __init__(
        self, table: Table | NoTable, noise: Noise, account: Account, key: str, request: Mapping[str, Any]
    ) -> None:
        check_noise(noise, account)
        self._table: Any = table
        self._noise, self._account = noise, account
        self._key, self._request = key, dict(request)
        self._priced: tuple[Event, Loss] | None = None

    @property
    def terms(self) -> Terms:
        """The account's terms."""
        return self._account.terms

    @property
    def schema(self) -> Schema:
        """The table's public schema."""
        schema: Schema = self._table.schema
        return schema

    def charge(self, event: Event, step: str = "", *, loss: Loss | None = None) -> Charge:
        """Pay for an event, durably. The same step of the same key is the same charge and costs nothing more.

        ``loss`` is given where the price does not follow from the event alone: validity in nats, or what a plan paid for already.
        """
        cost = self._price(event) if loss is None else loss
        return self._account.charge(cost, **self._naming(step), event=event)

    def paid(self, step: str = "") -> Charge | None:
        """The charge of a step, if it was made before; costs nothing."""
        return self._account.find(**self._naming(step))

    def find(self, step: str) -> Release | None:
        """The stored answer of an earlier step, if there is one; costs nothing."""
        charge = self.paid(step)
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
        self,
        charge: Charge,
        event: Event,
        compute: _Compute,
        *,
        step: int = 0,
        present: Callable[[Any], Any] = as_it_is,
    ) -> Release:
        """The stored answer of a paid step, computed first if there is none yet.

        A computation that fails is stored as a failure: were it tried again, a failure that depends on the noise would
        give a second draw for one charge. One that is interrupted from outside has told nothing and stores nothing: what was
        charged stays charged, and the same key may ask again.
        """
        stored = charge.answers.get(step)
        again = stored is not None
        if stored is None:
            charge.ready()
            stored = charge.store(self._sealed(event, compute), step=step)
        return _deliver(stored, present, charge, again=again)

    def draw(self, charge: Charge, make: Callable[[Noise], bytes], *, step: int = 0, keep: bool = True) -> bytes:
        """What was drawn for a paid step, drawn first if nothing was; a failure counts as in ``answer``.

        ``keep`` is False only for a key that nobody can name again, so that no retry could ask for what was drawn.
        """
        stored = charge.answers.get(step) if keep else None
        if stored is None:
            charge.ready()
            made = self._tried(lambda: _DRAWN + make(self._noise))
            stored = charge.store(made, step=step) if keep else made
        return _opened(stored)

    def drawn(self, charge: Charge, start: int = 0) -> list[bytes | None]:
        """What was drawn for the steps of a charge so far, in order from step ``start``; None where that failed."""
        answers, found = charge.answers, list[bytes | None]()
        while (stored := answers.get(start + len(found))) is not None:
            found.append(None if stored == _FAILURE else _opened(stored))
        return found

    def claim(
        self, charge: Charge, content: Mapping[str, Any] | Callable[[Noise], Mapping[str, Any]], *, step: int = 0
    ) -> dict[str, Any]:
        """Store what a paid step is for, unless something is stored already: the first claim stands, and is returned.

        ``content`` is plain JSON, or is worked out from private rows with the desk's noise: a failure then counts as in ``answer``.
        """
        stored = charge.answers.get(step)
        if stored is None:
            charge.ready()
            made = self._tried(lambda: canonical(content(self._noise))) if callable(content) else canonical(content)
            stored = charge.store(made, step=step)
        if stored == _FAILURE:
            raise TableError(FAILED)
        return dict(json.loads(stored))

    def claims(self, charge: Charge) -> dict[int, dict[str, Any]]:
        """What was claimed under a charge by now, by step; ``{"failed": True}`` where that failed."""
        return {step: json.loads(stored) for step, stored in sorted(charge.answers.items())}

    def _naming(self, step: str) -> dict[str, Any]:
        key = f"{self._key}/{step}" if step else self._key
        request = canonical({**self._request, "step": step} if step else self._request)
        return {"key": key, "request": request, "of": self._table.identity}

    def _price(self, event: Event) -> Loss:
        """What an event costs here: worked out once for a step that is charged and then answered."""
        priced = self._priced
        if priced is None or priced[0] is not event:
            priced = self._priced = event, price(event, self.terms)
        return priced[1]

    def _sealed(self, event: Event, compute: _Compute) -> bytes:
        return self._tried(lambda: self._payload(event, compute))

    def _tried(self, work: Callable[[], bytes]) -> bytes:
        """Run code that has rows in its hands; whatever happens there, one payload comes out, an interrupt excepted."""
        if not self._noise.secure:
            return work()
        made = attempt(work)
        return _FAILURE if made is None else made[0]

    def _payload(self, event: Event, compute: _Compute) -> bytes:
        outcome = compute(self._table, self._noise)
        secure, stored = self._noise.secure, self._table.stored
        kept = promise(self.terms, self._price(event), event, secure=secure, stored=stored)
        return sealed_payload(outcome, kept, event, self._request)


def _opened(stored: bytes) -> bytes:
    if stored == _FAILURE:
        raise TableError(FAILED)
    return stored[len(_DRAWN) :]


def _deliver(stored: bytes, present: Callable[[Any], Any], charge: Charge, *, again: bool) -> Release:
    if stored == _FAILURE:
        raise TableError(FAILED)
    return Release.delivered(stored, present, charge, again=again)
