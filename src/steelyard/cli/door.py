"""An account that shuts where a run would first pay: a plan goes through all of a run's checks, and charges nothing.

Law: nothing is charged, raised or stored through this handle, nor through one that is made of it: the ledger behind it can
only be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from steelyard.ledger import Account, Charge
from steelyard.privacy import Event, Loss


class Checked(Exception):
    """A request passed its checks and would now be charged ``cost`` for ``event``; both None where that is not known."""

    def __init__(self, cost: Loss | None = None, event: Event | None = None) -> None:
        super().__init__()
        self.cost, self.event = cost, event


class Shut(Account):
    """A handle on an account that ends with ``Checked`` where it would be charged."""

    def __init__(self, account: Account) -> None:
        super().__init__(account.location, account.name)
        self.__dict__["_store"] = _Reader(account._store)

    def charge(self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "") -> Charge:
        """The charge that was made before, if it has an answer; otherwise the end."""
        made = self.find(key=key, request=request, of=of)
        if made is None:
            raise Checked(loss, event)
        if not made.answers:
            raise Checked
        return made


class _Reader:
    """A store whose moves may look and not write."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, work: Callable[[Any], Any]) -> Any:
        def look(transaction: Any) -> Any:
            try:
                return work(_Looking(transaction))
            except Checked as end:  # handed out: a writer takes errors that it does not know for its own
                return end

        found = self._store.write(look)
        if isinstance(found, Checked):
            raise found
        return found


class _Looking:
    """A transaction in which the first statement that would change anything ends the plan."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def execute(self, *_: Any, **__: Any) -> NoReturn:
        raise Checked

    append = execute
