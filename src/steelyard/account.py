"""What a desk asks of an account, and what an account gives for a charge.

An ``Account`` is a protocol of five verbs: ``terms`` and ``remaining`` (or ``spent``) say what may be spent, ``charge`` spends, ``find`` reads an
earlier charge back, ``seal`` makes keyed digests. The ledger implements it; an ``Allowance`` (here) and a dry run wrap any account
that does, so none of them needs to know how another one keeps its books.
The law: charge, then compute, then store, then deliver. ``charge`` returns after the charge is on disk; ``Charge.store`` returns
what the store holds, and that is what may be delivered, so a key never has two answers.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from steelyard.accounting import told
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, LedgerError, PrivacyError
from steelyard.privacy import Event, Loss, Terms

__all__ = ["Account", "Allowance", "Charge", "Receipt"]


@dataclass(frozen=True)
class Receipt:
    """Proof of a charge: the entry that set its price, the chain's head there, and the exact cost.

    Anyone who keeps a receipt can later show that a ledger which does not pass through it was rolled back. ``signature`` (of a ledger that
    outlives its process) can be checked by anybody with the ledger's public key: ``steelyard.ledger.verify_receipt``.
    """

    sequence: int
    head: str
    cost: Loss
    account: str
    ledger_id: str
    signature: str = field(default="", compare=False)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Receipt.from_json`` reads it back."""
        parts = {**vars(self), "cost": self.cost.to_json()}
        return parts if self.signature else {name: part for name, part in parts.items() if name != "signature"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Receipt:
        """Read back what ``to_json`` wrote."""
        cost, sequence, signature = Loss.from_json(data["cost"]), data["sequence"], data.get("signature", "")
        texts = data["head"], data["account"], data["ledger_id"], signature
        if type(sequence) is not int or not 0 <= sequence < 2**63 or not all(isinstance(each, str) for each in texts):
            raise ValueError("this is no receipt")
        return cls(sequence, data["head"], cost, data["account"], data["ledger_id"], signature)


@dataclass(frozen=True)
class Standing:
    """Where a charge stands: its own sequence, its level, the entry that set that level, when it was made, and its answers."""

    sequence: int
    level: Loss
    priced_at: int
    head: str
    at: str = ""
    answers: dict[int, bytes] = field(default_factory=dict)


class Keeper(Protocol):
    """Where charges are kept once they are made: they can be raised there, and answers stored under them."""

    def ready(self) -> None:
        """Refuse where no answer could be kept; asked before rows are read for one."""

    def signed(self, receipt: Receipt) -> Receipt:
        """The receipt with its signature, where one is given here."""

    def raise_level(self, account: str, standing: Standing, level: Loss, event: Event | None) -> Standing:
        """Raise a charge durably; where it stands now."""

    def keep(self, account: str, standing: Standing, step: int, payload: bytes) -> bytes:
        """Store an answer, unless the step has one; what is stored."""


@dataclass(eq=False, repr=False)
class Charge:
    """A spending that is on disk. Made by ``Account.charge``; a repeated key gives the same one.

    ``fresh`` is true until it is first used: its keeper was found ready just now, when the charge was made or found.
    """

    keeper: Keeper
    ledger_id: str
    account: str
    key: str
    standing: Standing
    fresh: bool = False

    @property
    def sequence(self) -> int:
        """The entry that made the charge."""
        return self.standing.sequence

    @property
    def day(self) -> str:
        """The day it was made, in UTC."""
        return self.standing.at[:10]

    @property
    def level(self) -> Loss:
        """What has been charged in all: the cost, or the level it was last raised to."""
        return self.standing.level

    @property
    def answers(self) -> dict[int, bytes]:
        """The stored answers by step, as far as this handle has seen."""
        return dict(self.standing.answers)

    @property
    def answer(self) -> bytes | None:
        """The stored answer of step 0, or None: then nothing was delivered yet and the work may be done again."""
        return self.standing.answers.get(0)

    @property
    def receipt(self) -> Receipt:
        """The proof of what was charged; the same on every replay until the charge is raised."""
        return self.keeper.signed(self._unsigned)

    @property
    def _unsigned(self) -> Receipt:
        at = self.standing
        return Receipt(at.priced_at, at.head, at.level, self.account, self.ledger_id)

    def raise_to(self, level: Loss, event: Event | None = None) -> None:
        """Raise this one charge to a higher total, durably, before the step that needs it is drawn.

        ``event`` is what the whole path up to that step costs, so that ``verify`` can price it again.
        *Privacy:* sound for pure epsilon only, where the loss of a path is the loss of its last level; elsewhere
        refused. A level already reached costs nothing, so a path may be walked again after a crash.
        """
        if level.currency is not self.level.currency:
            raise CurrencyMismatch(f"this charge counts in {self.level.currency}; got a level in {level.currency}.")
        if level.delta:
            raise InvalidTask("a level has no delta of its own; a delta is charged whole, at the start.")
        self.standing = self.keeper.raise_level(self.account, self.standing, level, event)

    def ready(self) -> None:
        """Refuse where no answer could be kept; called before rows are read for one, unless the charge is fresh."""
        self.keeper.ready()

    def store(self, payload: bytes, step: int = 0) -> bytes:
        """Store the answer of a step and return what the store holds: the first answer ever stored for it.

        *Privacy:* deliver only what this returns.
        """
        if not isinstance(payload, bytes):
            raise InvalidTask(f"an answer is stored as bytes; got {type(payload).__name__}.")
        if not isinstance(step, int) or not 0 <= step < 2**31:
            raise InvalidTask(f"a step is a number from 0 on; got {step!r}.")
        try:
            held = self.keeper.keep(self.account, self.standing, step, payload)
        except LedgerError as error:
            raise self._not_stored(error) from None
        self.standing.answers[step] = held
        return held

    def store_signed(self, payload: bytes, step: int = 0) -> tuple[Receipt, bytes]:
        """The receipt beside what ``store`` returns, in one visit to where the charge is kept."""
        unsigned, held = self._unsigned, self.store(payload, step)
        return self.keeper.signed(unsigned), held

    def _not_stored(self, error: LedgerError) -> LedgerError:
        """The same refusal, told to somebody who has already paid."""
        return told_more(
            error,
            f"That was while an answer was being stored, and no answer is delivered; {self.level} was charged before, on account "
            f"{self.account!r}, and stays charged. Ask again with the same key ({self.key!r}): that costs nothing more.",
        )

    def __repr__(self) -> str:
        return f"Charge({self.account!r}, {self.key!r}, sequence={self.sequence}, level={str(self.level)!r})"


class Account(Protocol):
    """A budget with one unit, one currency and one cap, as whoever spends it sees it."""

    @property
    def name(self) -> str:
        """The account's name on its ledger."""

    @property
    def durable(self) -> bool:
        """Whether the account outlives this process."""

    @property
    def terms(self) -> Terms:
        """What the account promises; fixed when it was opened."""

    @property
    def spent(self) -> Loss:
        """What has been charged so far, by anyone."""

    @property
    def remaining(self) -> Loss:
        """What is left."""

    def by(self, person: str) -> Any:
        """The same account in the hands of a person, who is named on every charge that is made through it."""

    def charge(
        self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "", view: str = ""
    ) -> Charge:
        """Charge a loss durably under a key; the same key and request again is the same charge, for free.

        ``of`` is the public identity of the data that is asked, which the key is bound to as well; ``view`` the text of a view of it.
        *Privacy:* call this before private data is read. When it returns the charge is on stable storage.
        """

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charge that this key and request made before, or None; a read, which costs nothing."""

    def bound_to(self, request: bytes, of: str) -> str:
        """What a key is bound to: a digest of its request, and the public identity of what it is asked of."""

    def answered(self, key: str) -> dict[str, tuple[str, int]]:
        """The same read for a whole key: every answered charge that is named by it or by a step of it (``key/step``).

        By name, what its key is bound to (``bound_to``) and what it has cost by now.
        """

    def seal(self, purpose: str, data: bytes) -> bytes:
        """A keyed digest that only holders of the ledger's own key can compute or check; one key for each purpose.

        *Privacy:* to anyone else it is indistinguishable from random bytes, so it may be stored beside an answer.
        """


class Wrapper:
    """A handle around an account: whatever is no spending passes through.

    Who wraps an account says what ``charge`` and ``find`` are; pickled, it keeps what it holds.
    """

    def __init__(self, account: Account) -> None:
        self._account = account

    @property
    def name(self) -> str:
        """The account's name on its ledger."""
        return self._account.name

    @property
    def durable(self) -> bool:
        """Whether the account outlives this process."""
        return self._account.durable

    @property
    def terms(self) -> Terms:
        """What the account promises."""
        return self._account.terms

    @property
    def spent(self) -> Loss:
        """What has been charged so far, by anyone."""
        return self._account.spent

    @property
    def remaining(self) -> Loss:
        """What is left."""
        return self._account.remaining

    def by(self, person: str) -> Self:
        """The same handle in the hands of a person."""
        held = copy.copy(self)
        held._account = self._account.by(person)
        return held

    def bound_to(self, request: bytes, of: str) -> str:
        """What a key is bound to."""
        return self._account.bound_to(request, of)

    def answered(self, key: str) -> dict[str, tuple[str, int]]:
        """Every answered charge that is named by a key or by a step of it."""
        return self._account.answered(key)

    def seal(self, purpose: str, data: bytes) -> bytes:
        """A keyed digest, under the account's own key for this purpose."""
        return self._account.seal(purpose, data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._account!r})"


class InPeriod(Wrapper):
    """The account of one period, for work on the table of that period's rows: there its unit is a user (docs/proofs/periods.md)."""

    @property
    def terms(self) -> Terms:
        """The account's terms, of users within the period."""
        return replace(self._account.terms, unit=self._account.terms.unit.inside)

    def charge(
        self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "", view: str = ""
    ) -> Charge:
        """Charge the period's account."""
        return self._account.charge(loss, key=key, request=request, event=event, of=of, view=view)

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charge that was made before, or None."""
        return self._account.find(key=key, request=request, of=of)


class Allowance(Wrapper):
    """A handle on an account through which no more than ``most`` is ever added to what was spent.

    It limits one piece of work, such as a search whose price is found out on the way, below what its account has left. What
    was charged before costs nothing again and does not count, and neither does what others charge meanwhile. A charge counts
    before it is made, and on until the account refuses it: one that was interrupted, or of which nobody knows whether it was made,
    has counted already. The account's own cap holds besides; it alone is the promise, kept by the ledger. An allowance is kept by
    the handle and dies with it: a pickled copy has the same limit and counts on from where it was made, on its own.
    """

    def __init__(self, account: Account, most: Loss) -> None:
        super().__init__(account)
        if most.currency is not self.terms.currency:
            raise CurrencyMismatch(f"account {self.name!r} counts in {self.terms.currency}; got a limit of {most}.")
        self._most = most
        self._levels: dict[
            tuple[str, str], tuple[int, int]
        ] = {}  # by request: the level found, and the one reached from here

    @property
    def remaining(self) -> Loss:
        """What may still be added, by this handle and on the account."""
        left = self._account.remaining
        return Loss(left.currency, min(left.amount, max(0, self._left)), left.delta)

    @property
    def _left(self) -> int:
        return self._most.amount - sum(reached - found for found, reached in list(self._levels.values()))

    def charge(
        self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "", view: str = ""
    ) -> Charge:
        """Charge the account; refused where that would add more than is allowed."""
        name, found = (key, self.bound_to(request, of)), self._account.find(key=key, request=request, of=of)
        with self.counted(name, 0, loss.amount) if found is None else contextlib.nullcontext():
            made = self._account.charge(
                loss, key=key, request=request, event=event, of=of, **({"view": view} if view else {})
            )
            return self._counting(made, name)

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charge that was made before, or None; whatever raises it counts."""
        found = self._account.find(key=key, request=request, of=of)
        return None if found is None else self._counting(found, (key, self.bound_to(request, of)))

    @contextlib.contextmanager
    def counted(self, name: tuple[str, str], found: int, level: int) -> Iterator[None]:
        """Count a charge that is raised from one level to another; a refusal, of this handle or of the account, takes that back."""
        before = self._levels.get(name)
        start, reached = before or (found, found)
        self._levels[name] = (
            start,
            max(reached, level),
        )  # first, so that of threads at the same step none finds too much left
        try:
            if self._left < 0:
                raise self._refusal(level - reached)
            yield
        except PrivacyError:
            self._levels[name] = start, reached
            raise

    def _refusal(self, amount: int) -> BudgetExceeded:
        terms, currency = self.terms, self.terms.currency
        wanted, left = Loss(currency, amount), Loss(currency, max(0, self._left + amount))
        return BudgetExceeded(
            f"this step wants {told(wanted, terms, cost=True)}, and {told(left, terms)} is left of the {told(self._most, terms)} that was "
            f"allowed here. Nothing was charged and nothing was read; account {self.name!r} has {told(self._account.remaining, terms)} left.",
            wanted=wanted,
            remaining=left,
        )

    def _counting(self, charge: Charge, name: tuple[str, str]) -> Charge:
        return replace(charge, keeper=_Counting(charge.keeper, self, name))


@dataclass(frozen=True)
class _Counting:
    """A keeper whose raises count against an allowance."""

    keeper: Keeper
    allowance: Allowance
    name: tuple[str, str]

    def ready(self) -> None:
        self.keeper.ready()

    def signed(self, receipt: Receipt) -> Receipt:
        return self.keeper.signed(receipt)

    def raise_level(self, account: str, standing: Standing, level: Loss, event: Event | None) -> Standing:
        with self.allowance.counted(self.name, standing.level.amount, level.amount):
            return self.keeper.raise_level(account, standing, level, event)

    def keep(self, account: str, standing: Standing, step: int, payload: bytes) -> bytes:
        return self.keeper.keep(account, standing, step, payload)


def check_account(account: object) -> None:
    """Refuse, with what to write instead, whatever is no account: mostly the name of its ledger."""
    if hasattr(account, "terms") and hasattr(account, "charge"):
        return
    given = f"{account!r:.60}" if isinstance(account, str) else f"a {type(account).__name__}"
    raise InvalidTask(
        f"account must be an open account, and {given} is none. Open one with sy.open_account(ledger, name, unit=..., epsilon=...), "
        "or take one that exists with sy.Ledger(ledger).account(name). Nothing was charged."
    )


def told_more(error: LedgerError, more: str) -> LedgerError:
    """A copy of an error, since callers of one group share it, that says more."""
    fuller = copy.copy(error)
    fuller.args = (f"{error} {more}",)
    return fuller
