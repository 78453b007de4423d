"""Where a total is asked for: once for the whole table, once per public key, or once per key that is found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import exact, positive
from steelyard.tables import Schema

_MOST = 2**22
_KINDS = (str, int, float, Decimal, date)


@dataclass(frozen=True)
class Grouping:
    """The public keys of a release, and how much of one unit may reach them.

    Without ``by`` there is one total. With it, rows of other keys are dropped before anything is counted, and the
    cap bounds one unit over all keys together (its L1 norm, or L2 under Gaussian noise).
    """

    by: str | None = None
    keys: tuple[Any, ...] | None = None
    max_keys: int | None = None
    rows_per_key: int | None = None

    @classmethod
    def read(
        cls, by: str | None, keys: Sequence[Any] | None, max_keys: int | None, rows_per_key: int | None
    ) -> Grouping:
        """Check what a task was given; says what to do when something is missing."""
        if by is None and not (keys is None and max_keys is None and rows_per_key is None):
            raise InvalidTask("keys, max_keys and rows_per_key belong to by=; say which column holds the keys.")
        if by is not None and keys is None and max_keys is None:
            raise InvalidTask(
                f"by={by!r} needs the public list keys=[...]: which keys occur is itself private. To find them privately "
                "(on an account that sets additive_delta= aside) give max_keys=, the most keys one unit may reach."
            )
        if keys is not None:
            check_list(keys)
        for name, value in (("max_keys", max_keys), ("rows_per_key", rows_per_key)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST):
                raise InvalidTask(f"{name} must be a whole number from 1 to {_MOST}; got {value!r}.")
        return cls(by, None if keys is None else tuple(keys), max_keys, rows_per_key)

    @classmethod
    def of(cls, task: Any) -> Grouping:
        """The keys of a task, checked."""
        limits = (getattr(task, name, None) for name in ("max_keys", "rows_per_key"))
        return cls.read(task.by, task.keys, *limits)

    def check(self, schema: Schema) -> None:
        """Refuse a column that is not there or cannot hold keys, and keys of another kind than the column's."""
        if self.by is not None:
            schema.require_keys(self.by, self.keys or ())

    @property
    def private(self) -> bool:
        """Whether the keys are to be found in the rows, privately."""
        return self.by is not None and self.keys is None

    def label(self, values: list[Any]) -> Any:
        """One value, or pairs of key and value, as JSON."""
        return values[0] if self.keys is None else labelled(self.keys, values)

    def present(self, value: Any) -> Any:
        """What ``label`` made, as a person wants it: a number, or a dictionary by key."""
        if self.private:
            return dict(value)
        return value if self.keys is None else {key: item for key, (_, item) in zip(self.keys, value, strict=True)}


def keep_exact(task: Any, *numbers: str) -> None:
    """Keep a task's numbers exactly, so that equal requests are equal bytes."""
    for name in numbers:
        value = getattr(task, name)
        if value is None or value == "auto" or hasattr(value, "to_json"):
            continue
        read = positive(value, name) if name in ("epsilon", "mu", "resolution") else exact(value, name)
        object.__setattr__(task, name, read)


def keep_keys(task: Any) -> None:
    """Check a task's keys and keep them as a tuple, for the same reason."""
    _ = Grouping.of(task)
    if task.keys is not None:
        object.__setattr__(task, "keys", tuple(task.keys))


def check_list(keys: Sequence[Any]) -> None:
    """Refuse what is no list of different keys."""
    if isinstance(keys, str | bytes) or len(keys) == 0:
        raise InvalidTask(f"keys must be a non-empty list of keys; got {keys!r}.")
    odd = [key for key in keys if not isinstance(key, _KINDS)]
    if odd:
        raise InvalidTask(f"keys must be text, numbers or dates; got {odd[0]!r}.")
    if len(set(keys)) != len(keys):
        raise InvalidTask("keys must not name the same key twice.")


def labelled(keys: Sequence[Any], values: Sequence[Any]) -> list[list[Any]]:
    """Pairs of key and value as JSON, whatever the keys are: none may fail after rows were read (law 4)."""
    return [[plain_key(key), value] for key, value in zip(keys, values, strict=True)]


def plain_key(key: Any) -> Any:
    """A key as JSON: what JSON cannot say (a date, an exact decimal, an infinity) as text.

    >>> plain_key("FR"), plain_key(Decimal("1.50")), plain_key(Decimal(7)), plain_key(date(2026, 1, 2))
    ('FR', '1.50', 7, '2026-01-02')
    """
    if isinstance(key, Decimal) and int(key.as_tuple().exponent) >= 0:
        return int(key)
    return key if isinstance(key, str | int) or (isinstance(key, float) and math.isfinite(key)) else str(key)
