"""How much one search may add to what its account has spent: the epsilon that it was given, or all that is left."""

from __future__ import annotations

from steelyard.accounting.gaussian import mu_cap
from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.privacy import Currency, Loss, Number, positive
from steelyard.session import Session


def left_of(refused: BudgetExceeded) -> int:
    """What a refused step would have found left, in the ledger's smallest units; a public number."""
    return refused.remaining.amount if isinstance(refused.remaining, Loss) else 0


def within(session: Session, epsilon: Number | None) -> Session:
    """The same session, through which no more than this epsilon is added; None: all that the account has left.

    On a Gaussian account it is the mu that alone would mean this epsilon at the account's own delta.
    """
    if epsilon is None:
        return session
    terms, most = session.account.terms, positive(epsilon, "epsilon")
    if terms.currency is Currency.PURE:
        return session.up_to(Loss.pure(most))
    if not terms.filter_delta:
        raise InvalidTask(f"account {session.account.name!r} counts mu and has no delta; leave epsilon out.")
    return session.up_to(mu_cap(most, terms.filter_delta))
