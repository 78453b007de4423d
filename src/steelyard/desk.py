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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.account import Account, Charge
from steelyard.accounting import price
from steelyard.errors import InsecureNoise, OurBug, TableError
from steelyard.interrupts import attempt
from steelyard.noise import Noise
from steelyard.plan import Outcome
from steelyard.privacy import Event, Loss, Terms, canonical
from steelyard.release import Release, promise, sealed_payload

if TYPE_CHECKING:
    from steelyard.tables import Schema, Table

__all__ = ["Desk", "NoTable"]

_Compute = Callable[[Any, Noise], Outcome]
FAILED = (
    "the release failed after its charge, and for good: nothing was released and what was charged stays charged. The reason "
    "is not told, because it may depend on private rows. Check the table's files, memory and disk, and whether its rows "
    "changed since the key was first used, then use a new key."
)
"""What is said, whatever the reason, of an answer that failed after its charge."""
_FAILURE = canonical({"failed": True})
_DRAWN = b"\0"  # before what was drawn, so that no draw reads as a failure


@dataclass(frozen=True)
class NoTable:
    """Private rows that are no table, such as an array of labels; ``identity`` names them in public words."""

    identity: str = ""
    stored: bool = True
    view: None = None
    view_text: str = ""
    require_workers: None = None
    snapshot: Callable[[], AbstractContextManager[None]] = nullcontext  # they are in the caller's hands already


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
        if table.view is not None:
            table.view.require(account.terms.unit)
        self._table: Any = table
        self._of: str = table.identity
        self._view: dict[str, Any] = {"view": table.view_text} if table.view_text else {}
        self._noise, self._account, self._paying = noise, account, account.name
        self.terms: Terms = account.terms
        self._key, self._request = key, dict(request)
        self._priced: tuple[Event, Loss] | None = None
        self._last: dict[str, Any] = {}  # under which names the last charge was made
        self._named: dict[str, dict[str, Any]] = {}  # and each that was served
        self._bound: dict[str, str] = {}  # what the steps of this request are bound to: it never changes
        self.workers = False  # whether rows that lie with workers are passed through Python there

    @property
    def schema(self) -> Schema:
        """The table's public schema."""
        schema: Schema = self._table.schema
        return schema

    @property
    def remaining(self) -> Loss:
        """What the account has left: a public number."""
        return self._account.remaining

    def charge(self, event: Event, step: str = "", *, loss: Loss | None = None) -> Charge:
        """Pay for an event, durably. The same step of the same key is the same charge and costs nothing more.

        ``loss`` is given where the price does not follow from the event alone: validity in nats, or what a plan paid for already.
        """
        naming, cost = self._naming(step), self._price(event) if loss is None else loss
        if self.workers and self._table.require_workers is not None and not self._begun(step):
            self._table.require_workers()
            self.workers = False
        self._last = naming
        return self._account.charge(cost, **naming, **self._view, event=event)

    def serve(self, event: Event, compute: _Compute, step: str) -> tuple[Release, Loss]:
        """Charge a step and answer it, in one visit; beside the answer, what the account had left after the charge."""
        charge, left = self.charge(event, step), self._account.remaining
        self._named[self._last["key"]] = self._last
        return self.answer(charge, event, compute), left

    def paid(self, step: str = "") -> Charge | None:
        """The charge of a step, if it was made before; costs nothing."""
        return self._account.find(**self._naming(step))

    def _begun(self, step: str) -> bool:
        """Whether anything is stored for a step; one that was only paid for, by ``reserve`` say, has yet to read rows."""
        paid = self.paid(step)
        return paid is not None and bool(paid.standing.answers)

    def find(self, step: str) -> Release | None:
        """The stored answer of an earlier step, if there is one; costs nothing."""
        charge = self.paid(step)
        stored = None if charge is None else charge.standing.answers.get(0)
        return (
            None if charge is None or stored is None else Release.delivered(_kept(stored), charge.receipt, charge.day)
        )

    def answered(self) -> dict[str, tuple[bool, int]]:
        """Each answered step under the key, by its name ("" for the key itself), whoever asked for it.

        Whether it belongs to this very request, and what it has cost by now.
        """
        found = {}
        for name, (bound, cost) in self._account.answered(self._key).items():
            step = name[len(self._key) + 1 :]
            if step not in self._bound:
                naming = self._named.get(name) or self._naming(step)
                self._bound[step] = self._account.bound_to(naming["request"], naming["of"])
            found[step] = bound == self._bound[step], cost
        return found

    def standing(self) -> tuple[dict[str, tuple[bool, int]], Loss]:
        """What is ``answered`` under the key, and what the account has left."""
        return self.answered(), self._account.remaining

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
        present: Callable[[Any], Any] | None = None,
    ) -> Release:
        """The stored answer of a paid step, computed first if there is none yet.

        A computation that fails is stored as a failure: were it tried again, a failure that depends on the noise would
        give a second draw for one charge. One that is interrupted from outside has told nothing and stores nothing: what was
        charged stays charged, and the same key may ask again.
        """
        stored, day = self._answer_of(charge, step), None
        if stored is None:
            made = self._sealed(event, compute)
            receipt, stored = charge.store_signed(made, step)
        else:
            receipt, day = charge.receipt, charge.day
        if stored == _FAILURE:
            raise TableError(FAILED)
        return Release.delivered(stored, receipt, day, present)

    def draw(self, charge: Charge, make: Callable[[Noise], bytes], *, step: int = 0, keep: bool = True) -> bytes:
        """What was drawn for a paid step, drawn first if nothing was; a failure counts as in ``answer``.

        ``keep`` is False only for a key that nobody can name again, so that no retry could ask for what was drawn.
        """
        stored = self._answer_of(charge, step if keep else -1)
        if stored is None:
            made = self._tried(lambda: _DRAWN + make(self._noise))
            stored = charge.store(made, step=step) if keep else made
        return _kept(stored)[len(_DRAWN) :]

    def drawn(self, charge: Charge, start: int = 0) -> list[bytes | None]:
        """What was drawn for the steps of a charge so far, in order from step ``start``; None where that failed."""
        answers, found = charge.standing.answers, list[bytes | None]()
        while (stored := answers.get(start + len(found))) is not None:
            found.append(None if stored == _FAILURE else stored[len(_DRAWN) :])
        return found

    def claim(
        self, charge: Charge, content: Mapping[str, Any] | Callable[[Noise], Mapping[str, Any]], *, step: int = 0
    ) -> dict[str, Any]:
        """Store what a paid step is for, unless something is stored already: the first claim stands, and is returned.

        ``content`` is plain JSON, or is worked out from private rows with the desk's noise: a failure then counts as in ``answer``.
        """
        stored = self._answer_of(charge, step)
        if stored is None:
            made = self._tried(lambda: canonical(content(self._noise))) if callable(content) else canonical(content)
            stored = charge.store(made, step=step)
        return dict(json.loads(_kept(stored)))

    def claims(self, charge: Charge) -> dict[int, dict[str, Any]]:
        """What was claimed under a charge by now, by step; ``{"failed": True}`` where that failed."""
        return {step: json.loads(stored) for step, stored in sorted(charge.standing.answers.items())}

    def _answer_of(self, charge: Charge, step: int) -> bytes | None:
        """What is stored for a step of a charge of this desk; where nothing is, whether an answer could be kept was asked."""
        named = charge.key == self._key or charge.key.startswith(f"{self._key}/")
        if charge.account != self._paying or not named:
            raise OurBug(f"a charge under {charge.key!r} on account {charge.account!r} does not pay for {self._key!r}.")
        stored = charge.standing.answers.get(step)
        if stored is None:
            if not charge.fresh:
                charge.ready()
            charge.fresh = False
        return stored

    def _naming(self, step: str) -> dict[str, Any]:
        key = f"{self._key}/{step}" if step else self._key
        request = canonical({**self._request, "step": step} if step else self._request)
        return {"key": key, "request": request, "of": self._of}

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
        terms, cost, noise, table = self.terms, self._price(event), self._noise, self._table
        with table.snapshot():
            made = compute(table, noise)
        error = None if made.error is None else made.error.to_json()
        outcome = {"value": made.value, "error": error, "point": dict(made.point)}
        kept = promise(terms, cost, event, secure=noise.secure, stored=table.stored)
        return sealed_payload(outcome, kept, event, self._request)


def _kept(stored: bytes) -> bytes:
    """What is stored, unless that is a failure."""
    if stored == _FAILURE:
        raise TableError(FAILED)
    return stored
