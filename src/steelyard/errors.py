"""Every way steelyard says no.

    SteelyardError
    ├── PrivacyError              a promise to the people in the data would break       (exit 3)
    │   ├── BudgetExceeded        .wanted .remaining .account
    │   ├── AccountClosed         .account .state: it was frozen, or closed for good
    │   ├── UnitMismatch          the task protects another unit than the account
    │   ├── CurrencyMismatch      the account counts in another currency
    │   ├── NeighbourMismatch     the neighbour relations do not fit
    │   ├── KeyConflict           .other_request: the key already names another request
    │   ├── ViewRefused           .clause: a view would mix people, or is not known not to
    │   └── InsecureNoise         noise without a guarantee was asked to carry one
    ├── LedgerError               the ledger cannot be read or trusted                  (exit 4)
    │   ├── LedgerTampered        .findings
    │   ├── LedgerLocked          somebody else holds it for too long
    │   ├── LedgerForeign         not a steelyard ledger
    │   └── LedgerTooNew          .found .known
    ├── TableError                the table cannot answer                               (exit 2)
    │   ├── ColumnMissing         .wanted .available
    │   └── EngineMissing         .install
    ├── InvalidTask (ValueError)  the request itself makes no sense                     (exit 2)
    ├── ServerRefused             .status .kind: a server says no, or cannot be reached (exit 2)
    └── OurBug                    please report it                                      (exit 1)

A message says what happened, the numbers, and what to do next. No message may depend on private rows: after data
was read, the same fault has the same text, the same exit code and the same length whatever the data.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Sequence

_HOME = os.path.dirname(os.path.abspath(__file__))


class SteelyardError(Exception):
    """The root of the tree; ``exit_code`` is what the command line leaves with."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the caller's own last line and the message; our frames say nothing about a refusal."""
        frames = traceback.extract_tb(self.__traceback__)
        theirs = [
            frame for frame in frames if not os.path.abspath(frame.filename).startswith((_HOME + os.sep, "<frozen"))
        ]
        where = traceback.format_list(theirs[-1:]) if theirs else []
        return [*"".join(where).splitlines(), f"{type(self).__name__}: {self}"]


class PrivacyError(SteelyardError):
    """A refusal that protects the people in the data."""

    exit_code = 3


class BudgetExceeded(PrivacyError):
    """The account, or one above it, cannot pay; ``account`` is which. Nothing was charged and nothing was read."""

    def __init__(self, message: str, *, wanted: object = None, remaining: object = None, account: str = "") -> None:
        super().__init__(message)
        self.wanted = wanted
        self.remaining = remaining
        self.account = account

    def __reduce__(self) -> tuple[object, ...]:
        fields = {"wanted": self.wanted, "remaining": self.remaining, "account": self.account}
        return (_rebuild, (type(self), str(self), fields))


class AccountClosed(PrivacyError):
    """The account, or one above it, was frozen or closed; nothing was charged and nothing was read."""

    def __init__(self, message: str, *, account: str = "", state: str = "") -> None:
        super().__init__(message)
        self.account = account
        self.state = state

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), {"account": self.account, "state": self.state}))


class UnitMismatch(PrivacyError):
    """The task protects another unit than the account."""


class CurrencyMismatch(PrivacyError):
    """The account counts in another currency."""


class NeighbourMismatch(PrivacyError):
    """The step's neighbour relation does not fit the account's."""


class KeyConflict(PrivacyError):
    """The key is taken; ``other_request``: by another request, rather than by this one of another table or at another price."""

    def __init__(self, message: str, *, other_request: bool = False) -> None:
        super().__init__(message)
        self.other_request = other_request

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), {"other_request": self.other_request}))


class ViewRefused(PrivacyError):
    """A view would mix rows of several units, or is not known not to; nothing was charged and nothing was read."""

    def __init__(self, message: str, *, clause: str = "") -> None:
        super().__init__(message)
        self.clause = clause

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), {"clause": self.clause}))


class InsecureNoise(PrivacyError):
    """Noise without a guarantee was asked to carry one."""


class LedgerError(SteelyardError):
    """The ledger cannot be read or trusted."""

    exit_code = 4


class LedgerTampered(LedgerError):
    """The ledger's content does not match its chain or its anchor."""

    def __init__(self, message: str, *, findings: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), {"findings": self.findings}))


class LedgerLocked(LedgerError):
    """Somebody else held the ledger for longer than we wait."""


class LedgerForeign(LedgerError):
    """The file or database is not a steelyard ledger."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a newer steelyard."""

    def __init__(self, message: str, *, found: int = 0, known: int = 0) -> None:
        super().__init__(message)
        self.found = found
        self.known = known

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), {"found": self.found, "known": self.known}))


class TableError(SteelyardError):
    """The table cannot answer."""

    exit_code = 2


class ColumnMissing(TableError):
    """A column that is not there; the message names the nearest ones."""

    def __init__(self, wanted: str, available: Sequence[str]) -> None:
        self.wanted = wanted
        self.available = tuple(available)
        near = _near(wanted, self.available)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "none is close in spelling."
        shown = ", ".join(map(repr, self.available[:20])) + (", …" if len(self.available) > 20 else "")
        super().__init__(f"there is no column {wanted!r}: {hint} The table has {shown or 'no columns'}.")

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.wanted, self.available))


class EngineMissing(TableError):
    """An optional engine is not installed; ``install`` is the command that installs it."""

    def __init__(self, message: str, *, install: str = "") -> None:
        super().__init__(f"{message} Install it with: {install}" if install else message)
        self._message = message
        self.install = install

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self._message, {"install": self.install}))


class InvalidTask(SteelyardError, ValueError):
    """The request itself makes no sense; nothing was read."""

    exit_code = 2


class ServerRefused(SteelyardError):
    """A server said no in its own words, or could not be reached (``status`` 0)."""

    exit_code = 2

    def __init__(self, message: str, *, status: int = 0, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), {"status": self.status, "kind": self.kind}))


class UncheckedQuery(UserWarning):
    """A table is a query that was not checked to keep people apart; its releases speak of the table as given."""


class WeakPromise(UserWarning):
    """An account was opened whose epsilon or delta is so large that it protects hardly anybody."""


class OurBug(SteelyardError):
    """steelyard broke one of its own rules; please report it."""

    def _render_traceback_(self) -> list[str]:
        """Every frame: whoever looks for a bug wants them."""
        return "".join(traceback.format_exception(self)).splitlines()


def _near(wanted: str, names: Sequence[str]) -> list[str]:
    """The names that were perhaps meant: the same one in other letters, else those that are spelt nearly as closely as the closest."""
    asked = str(wanted).casefold()
    same = [name for name in names if name.casefold() == asked]
    if same:
        return same[:3]
    scores = {name: difflib.SequenceMatcher(None, asked, name.casefold()).ratio() for name in names}
    best = max(scores.values(), default=0.0)
    close = sorted((name for name in names if scores[name] >= max(0.6, best - 0.1)), key=lambda name: -scores[name])
    return close[:3]


def _rebuild(kind: type[SteelyardError], message: str, fields: dict[str, object]) -> SteelyardError:
    return kind(message, **fields)
