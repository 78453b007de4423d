"""An account as a user holds it: a handle; the truth is in the store.

A ``LedgerAccount`` implements ``steelyard.account.Account``: what a desk charges. It may stand below another account, whose budget every
charge is taken from as well, and it may be frozen or closed.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import os
import pwd
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

from steelyard.account import Charge, Standing, told_more
from steelyard.accounting import told
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, LedgerError
from steelyard.lazy import lazy
from steelyard.ledger import _acts as acts
from steelyard.ledger import _address as address
from steelyard.ledger import _moves as moves
from steelyard.ledger._connection import UNKNOWN, ConnectionLost
from steelyard.ledger._history import Spent, history
from steelyard.ledger._store import Store, open_store
from steelyard.ledger._terms import check_size
from steelyard.privacy import Currency, Event, Loss, Terms, canonical, decimal_text

if TYPE_CHECKING:
    from steelyard.ledger._periods import LedgerPeriods
    from steelyard.ledger._transaction import Foreseen, Transaction

T = TypeVar("T")
_LONGEST = 2**20  # characters of a request that are kept word for word
_CHILDREN = "SELECT account FROM balances WHERE parent = ? ORDER BY account"


class LedgerAccount:
    """A handle on an account that exists; picklable, since it carries nothing but where and which.

    >>> from steelyard.ledger import open_account
    >>> from steelyard.privacy import rows
    >>> account = open_account(":memory:", "demo", unit=rows(), epsilon="1")
    >>> charge = account.charge(Loss.pure("0.25"), key="first", request=b"count")
    >>> charge.store(b"42"), str(account.remaining)
    (b'42', 'epsilon 0.75')
    """

    def __init__(self, location: str | os.PathLike[str], name: str) -> None:
        self.location = address.parse(location).text
        self.name = check_name(name, "an account's name")
        self.person = ""

    @lazy
    def _store(self) -> Store:
        return open_store(self.location)

    @lazy
    def terms(self) -> Terms:
        """What the account promises; fixed when it was opened."""
        return _terms_on_ledger(self._store, self.name)

    @property
    def spent(self) -> Loss:
        """What has been charged so far, to this account and to those below it."""
        return self._balances()[0][0]

    @property
    def remaining(self) -> Loss:
        """What is left: of this account, and of each one above it."""
        left = [cap - spent for spent, cap in self._balances()]
        return Loss(self.terms.currency, min(each.amount for each in left), min(each.delta for each in left))

    def by(self, person: str) -> LedgerAccount:
        """The same account in the hands of a person, whose name every charge and act through this handle will bear."""
        held = copy.copy(self)
        held.person = check_name(person, "a person's name")
        return held

    @property
    def parent(self) -> LedgerAccount | None:
        """The account above, which every charge is charged to as well; None for a root."""
        return None if self.terms.parent is None else self._beside(self.terms.parent)

    def children(self) -> list[LedgerAccount]:
        """The accounts right below this one, by name."""
        with self._store.reading() as connection:
            names = [row[0] for row in connection.rows(_CHILDREN, (self.name,))]
        return [self._beside(name) for name in names]

    @overload
    def during(self, period: str) -> LedgerAccount: ...

    @overload
    def during(self, period: str, last: str) -> LedgerAccount | LedgerPeriods: ...

    def during(self, period: str, last: str | None = None) -> LedgerAccount | LedgerPeriods:
        """The account of one period, such as ``"2026-03"``, of an account that counts by periods; opened on the same terms where there is none yet.

        With ``last``, the accounts of all periods from one to the other, as one: each release is charged to every one of them.
        """
        terms, above = self.terms, self.parent
        if last is not None and last != period:
            from steelyard.ledger._periods import LedgerPeriods

            several = terms.unit.during(period, last)
            return LedgerPeriods([self.during(each) for each in several.periods], several)
        unit = terms.unit.during(period)
        name, parent = f"{self.name}/{period}", None if above is None else above.during(period).name
        wanted = replace(terms, unit=unit, parent=parent)
        if self._store.read(lambda transaction: transaction.one(moves.TERMS, (name,))) is None:
            self._store.write(moves.open_account(name, wanted, beside=self.name))
        found = self._beside(name)
        if found.terms != wanted:
            raise LedgerError(f"the account {name!r} exists with other terms than {self.name!r} has for a {unit.per}.")
        return found

    def periods(self) -> list[LedgerAccount]:
        """The accounts of its periods that were opened so far, by name."""
        with self._store.reading() as connection:
            names = [row[0] for row in connection.rows("SELECT name FROM accounts ORDER BY name")]
        known = [self._beside(name) for name in names if name.startswith(f"{self.name}/")]
        return [
            each for each in known if each.terms.unit.period and each.name == f"{self.name}/{each.terms.unit.period}"
        ]

    @property
    def allotted(self) -> Loss:
        """The sum of the caps of the accounts right below; it may be more than this one's own, which holds all the same."""
        return sum((child.terms.cap for child in self.children()), Loss.zero(self.terms.currency))

    def history(self) -> list[Spent]:
        """Every charge to this account and to those below it, in order: when, by whom, for what, at what cost; with its receipt."""
        return history(self._store, self.name, self.terms.currency)

    @property
    def state(self) -> str:
        """``"open"``, ``"frozen"`` or ``"closed"``; an account below one that is not open refuses charges too."""
        return str(self._rows()[0][1])

    def freeze(self, why: str = "") -> None:
        """Refuse all charges to this account and below it, until it is unfrozen. Chained; nothing is refunded."""
        self._act("freeze", why)

    def unfreeze(self, why: str = "") -> None:
        """Let a frozen account be charged again. Chained."""
        self._act("unfreeze", why)

    def close(self, why: str = "") -> None:
        """Refuse all charges for good. Chained; what was charged before may still be answered."""
        self._act("close", why)

    def note(self, text: str, *, act: str = "note", key: str | None = None) -> int:
        """Write a note on the chain, of this account: who, when, what was done, and a text. Its number; costs nothing.

        The same ``key`` again is the same note. Write nothing that depends on private rows.
        """
        return write_note(self._store, self.name, text, act, self._who, key)

    def _act(self, kind: str, why: str) -> None:
        by_periods = self.terms.unit.kind == "periods" and self.terms.unit.period is None
        self._store.write(acts.act(self.name, kind, self._who, check_text(why, "the reason"), periods=by_periods))

    @property
    def _who(self) -> str:
        return self.person or login()

    def _beside(self, name: str) -> LedgerAccount:
        other = LedgerAccount(self.location, name)
        other.person = self.person
        return other

    def charge(
        self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "", view: str = ""
    ) -> Charge:
        """Charge a loss durably: when this returns, the charge is synced to disk (see ``steelyard.account.Account``).

        An account above this one is charged the same, in the same transaction.
        """
        standing = self.made(self.spending(loss, key=key, request=request, event=event, of=of, view=view))
        return self._charge(key, standing)

    def spending(
        self, loss: Loss, *, key: str, request: bytes, event: Event | None, of: str, view: str
    ) -> Foreseen[Standing]:
        """The move that charges a loss; what can be refused without looking at the ledger's entries is refused here."""
        terms = self.terms
        if terms.unit.kind == "periods" and terms.unit.period is None:
            raise InvalidTask(f"account {self.name!r} counts by the {terms.unit.per}: charge account.during('...').")
        if loss.currency is not terms.currency:
            raise CurrencyMismatch(
                f"account {self.name!r} counts in {terms.currency} and this step costs {loss.currency}; "
                "currencies do not convert. Use an account of the other kind."
            )
        check_size(loss, "the cost")
        check_name(key, "a key")
        if not isinstance(request, bytes):
            raise InvalidTask(f"a request is bytes (its canonical JSON); got {type(request).__name__}.")
        detail = "" if event is None else canonical(event.to_json()).decode()
        ask = moves.Ask(key, moves.bound_to(request, of), detail, self._who, _asked(request, view))
        return moves.charge(self._line, ask, loss)

    def made(self, move: Callable[[Transaction], T]) -> T:
        """Make a charge durably; a refusal or a lost connection is told to whoever wanted it."""
        try:
            return self._store.write(move)
        except ConnectionLost as error:
            raise told_more(error, UNKNOWN) from None
        except BudgetExceeded as refusal:
            raise self._retold(refusal) from None

    def _retold(self, refusal: BudgetExceeded) -> BudgetExceeded:
        """The same refusal in the epsilon that the account was opened with, where it counts in mu."""
        name = refusal.account or self.name
        terms, wanted, left = self._beside(name).terms, refusal.wanted, refusal.remaining
        if not (isinstance(wanted, Loss) and isinstance(left, Loss)) or wanted.delta or not terms.filter_delta:
            return refusal
        if wanted.currency is not Currency.GAUSSIAN:
            return refusal
        words = (
            f"account {name!r} has {told(left, terms)} left of {told(terms.cap, terms)}, and this step wants {told(wanted, terms, cost=True)}. "
            "Nothing was charged and nothing was read. Ask for less, or stop here: that is what the cap is for."
        )
        return BudgetExceeded(words, wanted=wanted, remaining=left, account=name)

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charge that this key and request made before, or None; costs nothing."""
        standing = self._store.read(moves.find(self.name, key, moves.bound_to(request, of), self.terms.currency))
        return None if standing is None else self._charge(key, standing)

    def _charge(self, key: str, standing: Standing) -> Charge:
        return Charge(self._store, self._store.identity.name, self.name, key, standing, fresh=True)

    def bound_to(self, request: bytes, of: str) -> str:
        """What a key is bound to: the digest of its request, and the public identity of what it is asked of."""
        return moves.bound_to(request, of)

    def answered(self, key: str) -> dict[str, tuple[str, int]]:
        """Every answered charge that is named by this key or by a step of it: what its key is bound to, and its cost by now."""
        return self._store.read(moves.answered(self.name, key))

    def seal(self, purpose: str, data: bytes) -> bytes:
        """A keyed digest, under a key that is derived from the ledger's own for this account and purpose."""
        return seal(self._store.identity.key, [self.name, purpose], data)

    @property
    def durable(self) -> bool:
        """Whether the account outlives this process."""
        return address.parse(self.location).kind != "memory"

    def _rows(self) -> list[tuple[Any, ...]]:
        """The balances of this account and of each one above it, as they stand together."""
        line = self._line
        found = self._store.read(lambda transaction: [transaction.stands(name) for name in line])
        if found[0] is None:
            raise _no_account(self._store, self.name)
        return [row for row in found if row is not None]

    @property
    def _line(self) -> moves.Line:
        return self._store.line(self.name, root=self.terms.parent is None)

    def _balances(self) -> list[tuple[Loss, Loss]]:
        currency = self.terms.currency
        return [(Loss(currency, *row[2:4]), Loss(currency, *row[4:6])) for row in self._rows()]

    def __getstate__(self) -> dict[str, Any]:
        return {"location": self.location, "name": self.name, "person": self.person}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LedgerAccount) and (self.location, self.name) == (other.location, other.name)

    def __hash__(self) -> int:
        return hash((self.location, self.name))

    def __repr__(self) -> str:
        return f"Account({address.parse(self.location).shown!r}, {self.name!r})"

    def __str__(self) -> str:
        return "\n".join(f"{name}: {words}" for name, words in self.statement())

    def statement(self) -> list[tuple[str, str]]:
        """What the account promises, has spent and has left, in words: names and what they are."""
        terms = self.terms
        spent, state = self.spent, self.state
        promise = f"epsilon {decimal_text(terms.epsilon)}" if terms.epsilon is not None else str(terms.cap)
        promise += f", delta {decimal_text(terms.delta)}" if terms.delta else ""
        lines = [
            ("account", self.name), ("promises", promise), ("hides", str(terms.unit)), ("counts in", str(terms.currency)),
            ("cap", told(terms.cap, terms)), ("spent", told(spent, terms, cost=True)), ("left", told(self.remaining, terms)),
        ]  # fmt: skip
        lines += [("below", terms.parent)] if terms.parent else []
        return lines + ([("state", state)] if state != acts.OPEN else [])

    def _repr_html_(self) -> str:
        from steelyard.charts import Spending, Tabular, budget, fragment

        facts = dict(self.statement())
        spent, cap = self._balances()[0]
        counted = (
            "mu squared"
            if cap.currency is Currency.GAUSSIAN
            else "nats"
            if cap.currency is Currency.NATS
            else "epsilon"
        )
        bar = budget(
            [Spending("spent", float(spent.value))], float(cap.value), title=f"Budget of {self.name}", unit=counted
        )
        rows = [(name, facts[name]) for name in ("promises", "hides", "spent", "left")]
        return fragment(f"Account {self.name}", Tabular(("", ""), rows), bar)


Account = LedgerAccount
"""What a user holds; ``steelyard.account.Account`` is the protocol that it implements."""


def check_name(text: str, what: str) -> str:
    """Refuse a name that some engine could not keep as it is."""
    if not isinstance(text, str) or not 0 < len(text) <= 500 or not text.isprintable():
        raise InvalidTask(f"{what} is 1 to 500 printable characters; got {text!r:.80}.")
    return text


def check_text(text: str, what: str) -> str:
    """Refuse a text of an act that some engine could not keep as it is."""
    if not isinstance(text, str) or len(text) > 10_000 or any(ord(c) < 32 and c not in "\n\t" for c in text):
        raise InvalidTask(f"{what} is text of at most 10,000 characters, without control characters.")
    if any(0xD800 <= ord(c) < 0xE000 for c in text):
        raise InvalidTask(f"{what} holds half a character.")
    return text


def write_note(store: Store, account: str, text: str, act: str, person: str, key: str | None) -> int:
    """Write a note on the chain, of an account or (where that is empty) of the whole ledger; its number."""
    name = secrets.token_hex(16) if key is None else check_name(key, "a key")
    check_name(act, "an act")
    return store.write(acts.note(name, account, act, person, check_text(text, "a note")))


def login() -> str:
    """Who works here, where no person was named: STEELYARD_PERSON, or the name of the system user."""
    given = os.environ.get("STEELYARD_PERSON", "")
    return check_name(given, "STEELYARD_PERSON") if given else _system_user(os.getuid())


@cache
def _system_user(number: int) -> str:
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = ""
    return name if 0 < len(name) <= 200 and name.isprintable() else f"user {number}"


def _asked(request: bytes, view: str) -> str:
    """What a charge is for, as JSON: the request word for word (a longer one by its length), and the view's text."""
    text = request.decode("utf-8", "backslashreplace")
    if not text.startswith("{") or not text.isascii():
        text = json.dumps(text)
    if len(text) > _LONGEST:
        text = json.dumps({"characters": len(text)})
    more = f',"view":{json.dumps(view[:_LONGEST])}' if view else ""
    return f'{{"task":{text}{more}}}'


def seal(key: bytes, purpose: list[str], data: bytes) -> bytes:
    """A digest of data under a key of its own for each purpose: of one account, or of the whole ledger."""
    return hmac.digest(hmac.digest(key, canonical(purpose), hashlib.sha256), data, hashlib.sha256)


def _terms_on_ledger(store: Store, name: str) -> Terms:
    row = store.read(lambda transaction: transaction.one(moves.TERMS, (name,)))
    if row is None:
        raise _no_account(store, name)
    return Terms.from_json(json.loads(row[0]))


def _no_account(store: Store, name: str) -> LedgerError:
    with store.reading() as connection:
        names = [row[0] for row in connection.rows("SELECT name FROM accounts ORDER BY name LIMIT 20")]
    return LedgerError(
        f"there is no account {name!r} on {store.address.shown}; it has {', '.join(map(repr, names)) or 'none'}."
    )
