"""What is told of a search while it runs: one line for each step as it is released, on a terminal and in a notebook.

Law: released numbers only; what was spent is read from the account.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction

from steelyard.account import Account
from steelyard.accounting import MixtureOdometer, epsilon_of
from steelyard.models.accuracy._goal import Progress, Stop
from steelyard.models.accuracy._one_shot import epsilon_before
from steelyard.privacy import MICRO, Currency, Event, Terms

_TUNED = 1024
_HEADER = f"{'step':<24} {'epsilon so far':<16} loss (a look's is noisy)"


def teller(account: Account, key: str | None) -> Callable[[Stop], list[str]]:
    """The lines for each step, a header before the first; its losses are in the label's own units.

    What was spent so far is read from the account, which knows where parts of a path cost the dearer one alone; what an
    earlier call paid under the same key belongs to the path too.
    """
    paid = 0 if key is None else sum(cost for _, cost in account.answered(key).values())
    before, header = account.spent.amount - paid, [_HEADER]

    def tell(stop: Stop) -> list[str]:
        lines = [*header, _line(stop, epsilons(account.terms, account.spent.amount - before)[0])]
        header.clear()
        return lines

    return tell


def progress_of(given: Progress | bool | None, account: Account, key: str | None) -> Progress | None:
    """Who is told each step: whoever was given; with True standard error; with None that too, where somebody is there to read it."""
    if given is None:
        given = watched()
    if given is not True:
        return given or None
    tell = teller(account, key)
    return lambda stop: say(tell(stop))


def watched() -> bool:
    """Whether somebody reads along: standard error is a terminal, or this is a notebook's kernel."""
    kernel = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    return sys.stderr.isatty() or (kernel is not None and bool(kernel.initialized()))


def say(lines: list[str]) -> None:
    """Print lines to standard error."""
    print("\n".join(lines), file=sys.stderr, flush=True)


def _line(stop: Stop, spent: float) -> str:
    said = [] if stop.bound is None else [f"at most {stop.bound:.4g}"]
    said += [] if stop.loss is None else [f"about {stop.loss:.4g},"]
    said += [] if stop.passed is None else ["passed" if stop.passed else "not yet"]
    return f"{stop.step:<24} {spent:<16.4g} {' '.join(said)}".rstrip()


def epsilons(terms: Terms, spent: int, drawn: Sequence[Event] = ()) -> tuple[float, float]:
    """The ex-post epsilon (an odometer tuned by the account's terms, so before any step) and the filter's.

    ``drawn``, where given, is all that was ever released: if it is all pure, the sum of epsilon holds surely.
    """
    if terms.currency is Currency.PURE:
        return spent / MICRO, spent / MICRO
    delta, squared = float(terms.filter_delta), Fraction(spent, MICRO**2)
    if not spent or not delta:
        return (0.0, 0.0) if not spent else (math.inf, math.inf)
    odometer = MixtureOdometer(delta, tuned_at=float(terms.cap.value) / _TUNED)
    after = odometer.epsilon(squared)
    if drawn and all(event.name == "objective_pure" for event in drawn):
        after = min(after, sum(epsilon_before(event, terms) for event in drawn))
    return after, epsilon_of(math.sqrt(float(squared)) * (1 + 1e-12), delta)
