"""What moves a balance or tells an answer: an account is opened, charged, a charge is raised, an answer is stored.

Each is a function of one transaction. Refusals are raised before anything is changed. Balances are read under the write lock, and move by
conditional updates in the same transaction as the entries that explain them, under a CHECK constraint: no interleaving of processes
can spend more than the cap. Every move may be repeated with the same outcome.
An account may stand below another one: its *line* is its own name and those above it, up to the root, fixed when it is opened. A charge
moves the balance of all of them, or of none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from steelyard.account import Standing
from steelyard.errors import (
    AccountClosed,
    BudgetExceeded,
    CurrencyMismatch,
    KeyConflict,
    LedgerError,
    LedgerTampered,
    OurBug,
    PrivacyError,
)
from steelyard.ledger._acts import OPEN
from steelyard.ledger._chain import COLUMNS, OF, Entry
from steelyard.ledger._terms import check_size
from steelyard.ledger._transaction import CAP, CAP_DELTA, PARENT, SPENT, SPENT_DELTA, STATE, Foreseen, Transaction
from steelyard.privacy import Currency, Event, Loss, Terms, canonical

Move = Callable[[Transaction], Standing]
Line = tuple[str, ...]
DEEPEST = 8
"""Accounts in a line, at most."""

TERMS = "SELECT terms FROM accounts WHERE name = ?"
_CHARGES = f"SELECT {', '.join(COLUMNS)} FROM entries WHERE kind = 'charge' AND account = ?"
_RAISED = "SELECT sequence, amount, mac FROM entries WHERE charge = ? AND kind = 'raise' ORDER BY sequence DESC LIMIT 1"
_ANSWERS = "SELECT step, payload FROM answers WHERE charge = ? ORDER BY step"
_STEPS = (
    "SELECT name, request, amount, (SELECT MAX(amount) FROM entries AS raises WHERE raises.kind = 'raise' AND raises.charge = "
    "entries.sequence) FROM entries WHERE kind = 'charge' AND account = ? AND (name = ? OR substr(name, 1, {length}) = ?) "
    "AND EXISTS (SELECT 1 FROM answers WHERE answers.charge = entries.sequence) ORDER BY sequence"
)


def bound_to(request: bytes, of: str) -> str:
    """What a key is bound to: the digest of its request, and the public identity of what it is asked of."""
    digest = hashlib.sha256(request).hexdigest()
    return f"{digest}{OF}{of}" if of else digest


def open_account(name: str, terms: Terms, *, beside: str = "") -> Callable[[Transaction], str]:
    """Open an account, unless it exists; returns the terms on the ledger as text. ``beside`` is one that must be open for that."""

    def move(transaction: Transaction) -> str:
        row = transaction.one(TERMS, (name,))
        if row is not None:
            return str(row[0])
        text, cap, parent = canonical(terms.to_json()).decode(), terms.cap, terms.parent or ""
        if beside:
            _check_open(transaction, beside)
        if parent:
            _check_above(transaction, parent)
        transaction.execute(
            "INSERT INTO balances (account, parent, state, spent, spent_delta, cap, cap_delta) VALUES (?, ?, ?, 0, 0, ?, ?)",
            (name, parent, OPEN, cap.amount, cap.delta),
        )
        sequence, _ = transaction.append(
            "account", account=name, amount=cap.amount, delta=cap.delta, detail=text, at=transaction.now
        )
        transaction.execute("INSERT INTO accounts (name, terms, sequence) VALUES (?, ?, ?)", (name, text, sequence))
        return text

    return move


def _check_above(transaction: Transaction, parent: str) -> None:
    above = line(parent)(transaction)
    for name in above:
        _check_open(transaction, name)
    if len(above) >= DEEPEST:
        raise LedgerError(f"accounts stand at most {DEEPEST} deep, and {parent!r} is at the bottom.")


def _check_open(transaction: Transaction, name: str) -> None:
    state = (transaction.stands(name) or ("", ""))[STATE]
    if state != OPEN:
        raise _closed(name, state)


def line(account: str) -> Callable[[Transaction], Line]:
    """An account and those above it, up to the root; none where there is no such account. A move that only reads."""

    def move(transaction: Transaction) -> Line:
        found: list[str] = []
        name = account
        while name and name not in found and (row := transaction.stands(name)) is not None:
            found.append(name)
            name = str(row[PARENT])
        return tuple(found)

    return move


class Ask(NamedTuple):
    """What a charge is for: its key, what that is bound to, the event, who asked, and what, as JSON."""

    key: str
    request: str
    detail: str = ""
    person: str = ""
    asked: str = ""


def charge(above: Line, ask: Ask, loss: Loss) -> Foreseen[Standing]:
    """Charge ``loss`` to an account and all above it, or find the charge that this very request made before."""
    account, key = above[0], ask.key

    def move(transaction: Transaction) -> Standing:
        row = transaction.named(account, key)
        if row is not None:
            return _resume(transaction, Entry.read(row), ask.request, loss, ask.detail)
        _spend(transaction, above, loss, loss)
        sequence, head = transaction.append(
            "charge",
            account=account,
            name=key,
            request=ask.request,
            amount=loss.amount,
            delta=loss.delta,
            detail=ask.detail,
            at=transaction.now,
            person=ask.person,
            asked=ask.asked,
        )
        return Standing(sequence, loss, sequence, head, transaction.now)

    return Foreseen(move, charges=((account, key),), accounts=above)


def find(account: str, key: str, request: str, currency: Currency) -> Callable[[Transaction], Standing | None]:
    """Find the charge that this very request made before, if it did; a move that only reads."""

    def move(transaction: Transaction) -> Standing | None:
        row = transaction.named(account, key)
        if row is None:
            return None
        made = Entry.read(row)
        return _resume(transaction, made, request, Loss(currency, made.amount, made.delta), made.detail)

    return move


def _resume(transaction: Transaction, made: Entry, request: str, loss: Loss, detail: str) -> Standing:
    if made.request != request:
        raise _conflict(made, request)
    standing = _standing(transaction, made, loss.currency)
    if not standing.answers and (made.amount, made.delta, made.detail) != (loss.amount, loss.delta, detail):
        charged = Loss(loss.currency, made.amount, made.delta)
        raise KeyConflict(
            f"the key {made.name!r} was charged {charged} and has no answer yet, and the same request now costs {loss} "
            "or is done otherwise (was steelyard upgraded in between?). Choose a new key."
        )
    return standing


def _conflict(made: Entry, request: str) -> KeyConflict:
    (asked, _, of), (before, _, then) = request.partition(OF), made.request.partition(OF)
    if asked == before:
        return KeyConflict(
            f"the key {made.name!r} on account {made.account!r} belongs to this request of {then or 'no named table'}, and this "
            f"is {of or 'no named table'}. A key is for one request of one table and its retries. Choose a new key, or, if "
            "it is the same table in another place, read it with the same name=."
        )
    other = "another request" if of == then else f"another request, of {then or 'no named table'},"
    return KeyConflict(
        f"the key {made.name!r} already names {other} on account {made.account!r}; a key is for one "
        "request and its retries. Choose a new key.",
        other_request=True,
    )


def _standing(transaction: Transaction, made: Entry, currency: Currency) -> Standing:
    raised = transaction.one(_RAISED, (made.sequence,))
    answers = {row[0]: bytes(row[1]) for row in transaction.rows(_ANSWERS, (made.sequence,))}
    if raised is None:
        charged = Loss(currency, made.amount, made.delta)
        return Standing(made.sequence, charged, made.sequence, made.mac, made.at, answers)
    return Standing(made.sequence, Loss(currency, raised[1], made.delta), raised[0], raised[2], made.at, answers)


def raise_level(above: Line, sequence: int, level: Loss, event: Event | None = None) -> Move:
    """Raise a charge to a level; at or above that level already, nothing happens."""
    account = above[0]
    if level.currency is not Currency.PURE:
        raise CurrencyMismatch(
            f"only a charge in pure epsilon can be raised; on a {level.currency} account a path must be charged at its "
            "maximum before its first answer."
        )
    check_size(level, "the level")

    def move(transaction: Transaction) -> Standing:
        standing = _standing(transaction, _charge_at(transaction, account, sequence), level.currency)
        if level.amount <= standing.level.amount:
            return standing
        more = Loss(level.currency, level.amount - standing.level.amount)
        _spend(transaction, above, more, level)
        done = {} if event is None else {"event": event.to_json()}
        detail = canonical({"from": standing.level.amount, **done}).decode()
        priced_at, head = transaction.append(
            "raise", account=account, amount=level.amount, charge=sequence, detail=detail
        )
        reached = Loss(level.currency, level.amount, standing.level.delta)
        return Standing(sequence, reached, priced_at, head, standing.at, standing.answers)

    return move


def _charge_at(transaction: Transaction, account: str, sequence: int) -> Entry:
    row = transaction.one(f"{_CHARGES} AND sequence = ?", (account, sequence))
    if row is None:
        raise OurBug(f"entry {sequence} is no charge of account {account!r}.")
    return Entry.read(row)


def _spend(transaction: Transaction, above: Line, cost: Loss, wanted: Loss) -> None:
    for account, parent in zip(above, (*above[1:], ""), strict=True):
        row = transaction.stands(account)
        if row is None or row[PARENT] != parent or row[STATE] != OPEN or not _affords(row, cost):
            raise _refused(transaction, above, cost, wanted)
    transaction.spend(above, cost.amount, cost.delta)


def _affords(row: Sequence[Any], cost: Loss) -> bool:
    return bool(cost.amount <= row[CAP] - row[SPENT] and cost.delta <= row[CAP_DELTA] - row[SPENT_DELTA])


def _refused(transaction: Transaction, above: Line, cost: Loss, wanted: Loss) -> PrivacyError | LedgerError:
    """Why a line cannot pay: the first of its accounts that is not open, or has not enough."""
    if line(above[0])(transaction) != above:
        return LedgerError(
            f"account {above[0]!r} is not on this ledger as it was when its handle was made; open it again."
        )
    for account in above:
        _, state, spent, spent_delta, cap, cap_delta = transaction.stands(account) or ("", "", 0, 0, 0, 0)
        if state != OPEN:
            return _closed(account, state)
        left = Loss(cost.currency, max(cap - spent, 0), max(cap_delta - spent_delta, 0))
        if not cost <= left:
            told = _refusal(account, wanted, left, Loss(cost.currency, cap, cap_delta))
            return BudgetExceeded(told, wanted=wanted, remaining=left, account=account)
    return LedgerTampered(f"account {above[0]!r} has enough and refused a charge; nothing was charged.")


def _closed(account: str, state: str) -> AccountClosed:
    later = "Whoever keeps it may unfreeze it." if state != "closed" else "That is for good: open another one."
    return AccountClosed(
        f"account {account!r} is {state}, so nothing may be charged to it or below it. Nothing was charged and nothing was read. {later}",
        account=account,
        state=state,
    )


def _refusal(account: str, wanted: Loss, remaining: Loss, cap: Loss) -> str:
    if wanted.delta and not cap.delta:
        return (
            f"this step wants {wanted}, but account {account!r} sets no delta aside for steps that may fail. "
            "Open an account with additive_delta=, a part of its delta, for such steps."
        )
    return (
        f"account {account!r} has {remaining} left of {cap}, and this step wants {wanted}. Nothing was charged and "
        "nothing was read. Ask for less, or stop here: that is what the cap is for."
    )


def store(account: str, sequence: int, step: int, payload: bytes) -> Foreseen[bytes]:
    """Store an answer, unless one is there already; returns what is in the store."""
    digest = hashlib.sha256(payload).hexdigest()

    def move(transaction: Transaction) -> bytes:
        held, answered = transaction.held(sequence, step)
        if held is not None:
            return held
        if answered:
            finding = f"the answer of charge {sequence}, step {step}, was stored before and is gone"
            raise LedgerTampered(
                f"{finding}; a second one is refused. Run: steelyard ledger verify", findings=[finding]
            )
        transaction.answer(account, sequence, step, payload, digest)
        return payload

    return Foreseen(move, answers=((sequence, step),))


def answered(account: str, key: str) -> Callable[[Transaction], dict[str, tuple[str, int]]]:
    """Each answered charge named by a key, or by a step of it, in order: what its key is bound to, and its cost by now."""
    steps = f"{key}/"

    def move(transaction: Transaction) -> dict[str, tuple[str, int]]:
        found = transaction.rows(_STEPS.format(length=len(steps)), (account, key, steps))
        return {name: (request, amount if raised is None else raised) for name, request, amount, raised in found}

    return move
