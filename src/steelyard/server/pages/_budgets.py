"""An account as a bar: what is spent, what a question would spend, what is left; always in words too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.accounting import told
from steelyard.charts import short
from steelyard.ledger import Account
from steelyard.privacy import Currency, Loss, Terms, decimal_text
from steelyard.server._budgets import CAPS

YOURS, SETS = "your budget", "the set's budget"


@dataclass(frozen=True)
class Bar:
    """A bar of 100: ``spent``, then ``now``, then the rest; ``words`` and ``told`` say it."""

    label: str
    words: str
    told: str
    spent: float
    now: float = 0.0


def bar_of(account: Account, label: str, now: Loss | None = None) -> Bar:
    """An account as a bar, with what a question would spend."""
    terms, cap = account.terms, account.terms.cap
    spent, left = account.spent, account.remaining
    words = f"{amount(left, terms)} left of {amount(cap, terms)}"
    share = _share(spent.amount, cap.amount)
    more = 0.0 if now is None else min(_share(now.amount, cap.amount), 100 - share)
    wanted = "" if now is None else f"; this question would spend {told(now, terms, cost=True)}"
    said = f"{label}: {told(spent, terms, cost=True)} spent, {told(left, terms)} left of {told(cap, terms)}{wanted}"
    return Bar(label, words, said, share, more)


def amount(loss: Loss, terms: Terms, *, cost: bool = False) -> str:
    """An amount as short as it can be said: epsilon, at the account's delta where it has one; mu; or nats.

    >>> from steelyard.privacy import rows
    >>> amount(Loss.pure("0.25"), Terms(rows(), Loss.pure(1), 1, 0))
    'ε 0.25'
    """
    if loss.currency is Currency.PURE:
        return f"ε {decimal_text(loss.value)}"
    if loss.currency is Currency.NATS:
        return f"{short(float(loss.value))} nats"
    said = told(loss, terms, cost=cost)
    name, _, rest = said.partition(" ")
    return f"{'ε' if name == 'epsilon' else 'μ'} {rest.partition(' ')[0]}"


def promise(every: Sequence[Terms]) -> str:
    """What the accounts over a set's people promise together, in a sentence or two.

    >>> from steelyard.privacy import rows
    >>> one = Terms(rows(), Loss.pure(1), 1, 0)
    >>> promise([one, one])
    'All answers together, whoever asks, are differentially private with ε = 2, the sum of 2 accounts. Hidden is one row, added or removed.'
    """
    units, several = {terms.unit for terms in every}, len(every) > 1
    if several and (len(units) > 1 or any(terms.epsilon is None for terms in every)):
        each = "; ".join(f"{_bound(terms)}, hiding {terms.unit}" for terms in every)
        return f"There are {len(every)} accounts over the same people, whose losses add up. Each promises differential privacy: {each}."
    epsilon, delta = sum(terms.epsilon or 0 for terms in every), sum(terms.delta for terms in every)
    bound = f"{_pair(epsilon, delta)}, the sum of {len(every)} accounts" if several else _bound(every[0])
    return f"All answers together, whoever asks, are differentially private with {bound}. Hidden is {every[0].unit}."


def _bound(terms: Terms) -> str:
    delta = f", δ = {float(terms.delta):g}" if terms.delta else ""
    return f"{terms.cap}{delta}" if terms.epsilon is None else _pair(terms.epsilon, terms.delta)


def _pair(epsilon: Fraction | int, delta: Fraction | int) -> str:
    return f"ε = {decimal_text(Fraction(epsilon))}" + (f", δ = {float(delta):g}" if delta else "")


def _share(part: int, whole: int) -> float:
    return round(100 * min(part / whole, 1.0), 2) if whole else 0.0


def terms_told(terms: dict[str, Any]) -> str:
    """Proposed terms in words."""
    caps = ", ".join(f"{name.replace('_', ' ')} {terms[name]}" for name in CAPS if name in terms)
    unit = str(terms.get("unit", ""))
    kind, _, rest = unit.partition(":")
    hidden = (
        f"all rows of one {rest}" if kind == "users" else f"one row of {int(rest):,}, replaced" if rest else "one row"
    )
    board = f", for the board {terms['board']} and nothing else" if "board" in terms else ""
    apart = "; it is declared that no row is in another board of as many rows" if "separate" in terms else ""
    return f"{caps}, hiding {hidden}{board}{apart}"
