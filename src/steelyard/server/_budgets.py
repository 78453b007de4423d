"""Opening budgets: the custodian proposes, an officer approves, and analysts get accounts of their own below the set's.

Caps never change. More budget is another account over the same people, which again needs both; whoever looks at the set sees all of them.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask, WeakPromise
from steelyard.ledger import Account, open_account
from steelyard.privacy import Currency, Unit
from steelyard.requests import unit_typed
from steelyard.server import _private as private
from steelyard.server._problems import Problem
from steelyard.server._store import DataSet, Person, Proposal

if TYPE_CHECKING:
    from steelyard.server._server import Server

CAPS = ("epsilon", "delta", "mu", "additive_delta")


def propose(server: Server, dataset: DataSet, person: Person, given: dict[str, Any]) -> Proposal:
    """Propose an account for a set; what could never be opened is refused now."""
    _described(dataset)
    terms = {"unit": given.get("unit"), **caps_of(given)}
    name = _new_name(server, dataset)
    _open(server, ":memory:", name, dataset, terms)
    return server.proposals.add(dataset.id, name, terms, person.id)


def _new_name(server: Server, dataset: DataSet) -> str:
    """The set's own name for its first account, a number behind it for others; none that was proposed, or that a person's account has."""
    before = [each.account for each in server.proposals.of_set(dataset.id) if "board" not in each.terms]
    if not before:
        return dataset.name
    below = [each.name for each in server.ledger.accounts() if each.terms.parent is not None]
    taken, first = {*before, *below}, len(before) + 1
    return next(name for n in range(first, first + 10_000) if (name := f"{dataset.name}/{n}") not in taken)


def approve(server: Server, number: int, officer: Person) -> Proposal:
    """Open a proposed account; whoever proposed it cannot."""
    found = server.proposals.known(number)
    if found is None or found.state != "proposed":
        raise Problem(409, "Decided", "there is no such proposal, or it was decided before.")
    if found.proposer == officer.id:
        raise Problem(403, "NotAllowed", "whoever proposes a budget cannot approve it.")
    dataset = server.sets.known(found.dataset)
    assert dataset is not None
    if not server.proposals.decide(number, officer.id, "approved"):
        raise Problem(409, "Decided", "the proposal was decided meanwhile.")
    account = _open(server, server.config.ledger_address, found.account, dataset, found.terms)
    if not private.decided(server, found, "new"):
        server.sets.set_account(dataset.id, account.name)
    return found


def decline(server: Server, number: int, officer: Person) -> None:
    """Decline a proposed account."""
    if not server.proposals.decide(number, officer.id, "declined"):
        raise Problem(409, "Decided", "there is no such proposal, it is your own, or it was decided before.")
    found = server.proposals.known(number)
    if found is not None:
        private.decided(server, found, "declined")


def open_own(server: Server, dataset: DataSet, person: Person, given: dict[str, Any]) -> Account:
    """Open a person's own account below the set's, with a limit of its own."""
    if not dataset.account:
        raise Problem(
            409, "NoAccount", "no budget was opened for this set yet: propose one, and have an officer approve it."
        )
    taken = {account.name for account in server.ledger.accounts()}
    first = f"{dataset.account}/{person.name}"
    name = next(name for name in (first, *(f"{first}/{n}" for n in range(2, 10_000))) if name not in taken)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromise)
        return open_account(server.config.ledger_address, name, parent=dataset.account, **caps_of(given))


def caps_of(given: dict[str, Any]) -> dict[str, Any]:
    """The cap among what was given, as texts."""
    found = {name: given[name] for name in CAPS if given.get(name) not in (None, "")}
    if any(not isinstance(each, str | int | float) or isinstance(each, bool) for each in found.values()):
        raise InvalidTask("a cap is a number.")
    return {name: str(each) for name, each in found.items()}


def accounts_of(server: Server, dataset: DataSet) -> list[str]:
    """Every account that was opened over the set's people, as the ledger has them: the promise is about their sum."""
    approved = sum(each.state == "approved" for each in server.proposals.of_set(dataset.id))
    known = dataset.id, dataset.account, approved
    if (
        dataset.account and known in server.opened
    ):  # every approval gives the set, or one of its boards, another account
        return server.opened[known]
    first = (dataset.name, private.accounts_named(dataset))
    named = [each.name for each in server.ledger.accounts() if each.name.partition("/")[0] in first]
    terms = {name: server.account(name).terms for name in named}
    found = [name for name, each in terms.items() if each.parent is None and each.currency is not Currency.NATS]
    found.sort(key=lambda name: name.startswith(first[1]))  # the set's own first
    server.opened[known] = found
    return found


def _described(dataset: DataSet) -> None:
    if dataset.state != "described":
        raise Problem(409, "NoColumns", "the set's source was not read yet, or cannot be.")


def _open(server: Server, ledger: str, name: str, dataset: DataSet, terms: dict[str, Any]) -> Account:
    unit = _unit(terms.get("unit"))
    if unit.column is not None and unit.column not in dataset.columns:
        raise InvalidTask(f"the set has no column {unit.column!r} to tell people apart by.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromise)
        return open_account(ledger, name, unit=unit, **caps_of(terms))


def _unit(text: object) -> Unit:
    if not isinstance(text, str) or not text.startswith(("users:", "rows")):
        raise InvalidTask('unit says whose presence is hidden: "users:COLUMN" or "rows".')
    return unit_typed(text)
