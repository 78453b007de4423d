"""An account on a ledger: a handle that implements ``steelyard.account.Account``; the truth is in the ledger."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import Any

from steelyard.account import Charge, bound_to, told_more
from steelyard.errors import CurrencyMismatch, InvalidTask, LedgerError
from steelyard.lazy import lazy
from steelyard.ledger import moves, place
from steelyard.ledger.link import UNKNOWN, LinkLost
from steelyard.ledger.store import Store, reach
from steelyard.ledger.terms import check_size, differences, read_terms
from steelyard.privacy import Event, Loss, Number, Terms, Unit, canonical


class LedgerAccount:
    """A handle on an account that exists; picklable, since it carries nothing but where and which.

    >>> from steelyard.privacy import rows
    >>> account = open_account(":memory:", "demo", unit=rows(), epsilon="1")
    >>> charge = account.charge(Loss.pure("0.25"), key="first", request=b"count")
    >>> charge.store(b"42"), str(account.remaining)
    (b'42', 'epsilon 0.75')
    """

    def __init__(self, location: str | os.PathLike[str], name: str) -> None:
        self.location = place.find(location).text
        self.name = check_name(name, "an account's name")

    @lazy
    def _store(self) -> Store:
        return reach(self.location)

    @lazy
    def terms(self) -> Terms:
        """What the account promises; fixed when it was opened."""
        return _terms_on_ledger(self._store, self.name)

    @property
    def spent(self) -> Loss:
        """What has been charged so far."""
        return self._balance()[0]

    @property
    def remaining(self) -> Loss:
        """What is left."""
        spent, cap = self._balance()
        return cap - spent

    def charge(self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "") -> Charge:
        """Charge a loss durably under a key; the same key and request again is the same charge, for free.

        ``of`` is the public identity of the data that is asked, which the key is bound to as well.
        *Privacy:* call this before private data is read. When it returns the charge is synced to disk.
        """
        if loss.currency is not self.terms.currency:
            raise CurrencyMismatch(
                f"account {self.name!r} counts in {self.terms.currency} and this step costs {loss.currency}; "
                "currencies do not convert. Use an account of the other kind."
            )
        check_size(loss, "the cost")
        check_name(key, "a key")
        if not isinstance(request, bytes):
            raise InvalidTask(f"a request is bytes (its canonical JSON); got {type(request).__name__}.")
        detail = moves.event_text(None if event is None else event.to_json())
        try:
            standing = self._store.write(moves.charge(self.name, key, bound_to(request, of), loss, detail))
        except LinkLost as error:
            raise told_more(error, UNKNOWN) from None
        return Charge(self._store, self.name, key, standing)

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charge that this key and request made before, or None; costs nothing."""
        standing = self._store.read(moves.find(self.name, key, bound_to(request, of), self.terms.currency))
        return None if standing is None else Charge(self._store, self.name, key, standing)

    def answered(self, key: str) -> dict[str, tuple[str, int]]:
        """Every answered charge that is named by this key or by a step of it (``key/step``): what its key is bound to and what it
        has cost by now, by name; costs nothing."""
        with self._store.reading() as link:
            return moves.answered(link, self.name, key)

    def seal(self, purpose: str, data: bytes) -> bytes:
        """A keyed digest that only holders of the ledger's own key can compute or check; one key for each purpose.

        *Privacy:* to anyone else it is indistinguishable from random bytes, so it may be stored beside an answer.
        """
        return seal(self._store.identity.key, [self.name, purpose], data)

    @property
    def durable(self) -> bool:
        """Whether the account outlives this process."""
        return place.find(self.location).kind != "memory"

    def _balance(self) -> tuple[Loss, Loss]:
        with self._store.reading() as link:
            row = link.one("SELECT spent, spent_delta, cap, cap_delta FROM balances WHERE account = ?", (self.name,))
        if row is None:
            raise _no_account(self._store, self.name)
        return Loss(self.terms.currency, row[0], row[1]), Loss(self.terms.currency, row[2], row[3])

    def __getstate__(self) -> dict[str, Any]:
        return {"location": self.location, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LedgerAccount) and (self.location, self.name) == (other.location, other.name)

    def __hash__(self) -> int:
        return hash((self.location, self.name))

    def __repr__(self) -> str:
        return f"Account({place.find(self.location).shown!r}, {self.name!r})"


def open_account(
    ledger: str | os.PathLike[str],
    name: str,
    *,
    unit: Unit,
    epsilon: Number | None = None,
    delta: Number | None = None,
    mu: Number | None = None,
    additive_delta: Number | None = None,
    nats: Number | None = None,
) -> LedgerAccount:
    """Open an account, or open it again with the same terms; other terms under the same name are refused.

    *Privacy:* epsilon alone is a cap on the sum of epsilon; epsilon and delta (or mu) cap the sum of mu squared;
    ``additive_delta`` sets a part of delta aside for steps that fail with a probability.
    """
    check_name(name, "an account's name")
    terms = read_terms(unit, epsilon, delta, mu, additive_delta, nats)
    store = reach(ledger, create=True)
    found = Terms.from_json(_parse(store.write(moves.open_account(name, terms))))
    different = differences(terms, found)
    if different:
        raise LedgerError(
            f"the account {name!r} exists on {store.place.shown} with other terms: {'; '.join(different)}. Terms never "
            "change: open it with its own."
        )
    account = LedgerAccount(store.place.text, name)
    account.__dict__["_store"] = store
    return account


def check_name(text: str, what: str) -> str:
    """Refuse a name that some engine could not keep as it is."""
    if not isinstance(text, str) or not 0 < len(text) <= 500 or not text.isprintable():
        raise InvalidTask(f"{what} is 1 to 500 printable characters; got {text!r:.80}.")
    return text


def seal(key: bytes, purpose: list[str], data: bytes) -> bytes:
    """A digest of data under a key of its own for each purpose: of one account, or of the whole ledger."""
    return hmac.digest(hmac.digest(key, canonical(purpose), hashlib.sha256), data, hashlib.sha256)


def _parse(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    return data


def _terms_on_ledger(store: Store, name: str) -> Terms:
    with store.reading() as link:
        row = link.one("SELECT terms FROM accounts WHERE name = ?", (name,))
    if row is None:
        raise _no_account(store, name)
    return Terms.from_json(_parse(row[0]))


def _no_account(store: Store, name: str) -> LedgerError:
    with store.reading() as link:
        names = [row[0] for row in link.rows("SELECT name FROM accounts ORDER BY name LIMIT 20")]
    return LedgerError(
        f"there is no account {name!r} on {store.place.shown}; it has {', '.join(map(repr, names)) or 'none'}."
    )
