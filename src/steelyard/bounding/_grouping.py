"""Where a total is asked for: once for the whole table, once per public key, or once per key that is found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from steelyard.bounding._amounts import MOST
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.privacy import exact, positive
from steelyard.tables import LISTED, KeyDigest, KeyList, Keys, Schema, read_keys

By = str | Sequence[str]
PublicKeys = Sequence[Any | Sequence[Any]] | Keys | KeyDigest
"""What a task takes as ``keys``; besides, a data frame or the path of a file, which become a list."""


@dataclass(frozen=True)
class Grouping:
    """The public keys of a release, and how much of one unit may reach them.

    Without ``by`` there is one total. With it a key is a value of one column or a tuple over several; rows of other keys are
    dropped before anything is counted, or with ``others`` stand together under one key more; the cap bounds one unit over all keys
    together (its L1 norm, or L2 under Gaussian noise).
    """

    by: tuple[str, ...] = ()
    keys: KeyList | KeyDigest | None = None
    max_keys: int | None = None
    rows_per_key: int | None = None
    others: bool = False

    @classmethod
    def read(
        cls, by: By | None, keys: Any, max_keys: int | None, rows_per_key: int | None, others: bool = False
    ) -> Grouping:
        """Check what a task was given; says what to do when something is missing."""
        if by is None and not (keys is None and max_keys is None and rows_per_key is None and not others):
            raise InvalidTask("keys, max_keys, rows_per_key and others belong to by=; say which column holds the keys.")
        if not isinstance(others, bool):
            raise InvalidTask(f"others is True or False: whether there is a row for everything else; got {others!r}.")
        if by is not None and keys is None and max_keys is None:
            raise InvalidTask(
                f"by={by!r} needs the public list keys=[...]: which keys occur is itself private. To find them privately "
                "(on an account that sets additive_delta= aside) give max_keys=, the most keys one unit may reach."
            )
        names = read_by(by)
        found = None if keys is None else read_keys(keys, names)
        for name, value in (("max_keys", max_keys), ("rows_per_key", rows_per_key)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST):
                raise InvalidTask(f"{name} must be a whole number from 1 to {MOST}; got {value!r}.")
        return cls(names, found.listed() if isinstance(found, Keys) else found, max_keys, rows_per_key, others)

    @classmethod
    def of(cls, task: Any) -> Grouping:
        """The keys of a task, checked."""
        most, rows = (getattr(task, name, None) for name in ("max_keys", "rows_per_key"))
        return cls.read(task.by, task.keys, most, rows, getattr(task, "others", False))

    def check(self, schema: Schema) -> None:
        """Refuse a column that is not there or cannot hold keys, and keys of another kind than the column's."""
        if isinstance(self.keys, KeyDigest):
            raise InvalidTask(
                f"this request names its {self.keys.count:,} keys by a digest alone; read it back with them: "
                "task_from(request, keys=...)."
            )
        if self.by:
            schema.fit_keys(self.by, self.keys or ())

    @lazy
    def public(self) -> KeyList | None:
        """The public keys, where there are some; with ``others`` the last one stands for everything else."""
        if not isinstance(self.keys, KeyList):
            return None
        return self.keys.with_others(len(self.by)) if self.others else self.keys

    @property
    def private(self) -> bool:
        """Whether the keys are to be found in the rows, privately."""
        return bool(self.by) and self.keys is None

    @property
    def size(self) -> int:
        """How many numbers are released, or where keys are found as many as one unit may reach."""
        if not self.by:
            return 1
        return (len(self.keys) if self.keys is not None else self.max_keys or 1) + self.others

    def found(self, keys: KeyList) -> Grouping:
        """The same under keys that were found: they are released, and asked under like public ones."""
        keys.found = True
        return replace(self, keys=keys, max_keys=None)

    def label(self, values: list[Any]) -> Any:
        """One value, or pairs of key and value, as JSON; of more keys than a request writes out, the values in their order."""
        if self.public is None:
            return values[0]
        return values if self._many else labelled(self.public, values)

    @property
    def _many(self) -> bool:
        """Whether there are more public keys than are written out."""
        return self.public is not None and not self.public.found and len(self.public) > LISTED

    def present(self, value: Any) -> Any:
        """What ``label`` made, as a person wants it: a number, or a dictionary by key."""
        if self.private:
            return {tuple(key) if isinstance(key, list) else key: item for key, item in value}
        if self.public is None:
            return value
        if self._many:
            return dict(zip(self.public, value, strict=True))
        return {key: item for key, (_, item) in zip(self.public, value, strict=True)}


def read_by(by: By | None) -> tuple[str, ...]:
    """The columns that hold the keys, each once."""
    if by is None:
        return ()
    names = (by,) if isinstance(by, str) else tuple(by)
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise InvalidTask(f"by= is the name of a column or a list of different ones; got {by!r}.")
    return names


def keep_exact(task: Any, *numbers: str) -> None:
    """Keep a task's numbers exactly, so that equal requests are equal bytes."""
    for name in numbers:
        value = getattr(task, name)
        if value is None or value == "auto" or hasattr(value, "to_json"):
            continue
        read = positive(value, name) if name in ("epsilon", "mu", "resolution") else exact(value, name)
        object.__setattr__(task, name, read)


def keep_keys(task: Any) -> None:
    """Check a task's keys and keep them in one form, for the same reason."""
    if task.by is not None and not isinstance(task.by, str):
        object.__setattr__(task, "by", read_by(task.by))
    object.__setattr__(task, "keys", read_keys(task.keys, read_by(task.by)) if task.by is not None else task.keys)
    _ = Grouping.of(task)


def labelled(keys: Sequence[Any], values: Sequence[Any]) -> list[list[Any]]:
    """Pairs of key and value as JSON, whatever the keys are: none may fail after rows were read (law 4)."""
    return [[plain_key(key), value] for key, value in zip(keys, values, strict=True)]


def plain_key(key: Any) -> Any:
    """A key as JSON: what JSON cannot say (a date, an exact decimal, an infinity) as text; of several columns, a list; of everything else, null.

    >>> from datetime import date
    >>> plain_key("FR"), plain_key(Decimal("1.50")), plain_key(Decimal(7)), plain_key(date(2026, 1, 2))
    ('FR', '1.50', 7, '2026-01-02')
    """
    if isinstance(key, tuple):
        return [plain_key(part) for part in key]
    if key is None:
        return None
    if isinstance(key, Decimal) and int(key.as_tuple().exponent) >= 0:
        return int(key)
    return key if isinstance(key, str | int) or (isinstance(key, float) and math.isfinite(key)) else str(key)
