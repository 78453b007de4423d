"""Declared classes as whole numbers, and the sign a row's label gives it in one class's model.

The classes are public (law 6): a label that is none of them, or missing, makes its row count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.models.rows import Floats
from steelyard.models.values import matched
from steelyard.tables import Schema

_NUMBERS = ("integer", "float", "decimal")


@dataclass(frozen=True)
class Classes:
    """The label's column and its declared classes: the place of each entry's class counted from 1, 0 for none."""

    column: str
    values: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not isinstance(self.column, str) or not self.column:
            raise InvalidTask(f"the label needs the name of a column; got {self.column!r}.")
        if len(self.values) < 2 or len(set(self.values)) != len(self.values):
            raise InvalidTask("classes are the label's public values, at least two, each once.")
        if not all(isinstance(value, str | int) for value in self.values):
            raise InvalidTask("classes are texts, whole numbers or booleans.")

    def check(self, schema: Schema) -> None:
        """Refuse, from the schema alone, a column that is not there, and classes that cannot occur in one of its kind."""
        schema.require(self.column)
        kind = schema.columns[self.column]
        for value in self.values:
            text, truth = isinstance(value, str), kind == "boolean" and value in (0, 1)
            if kind != "string" if text else not (truth or kind in _NUMBERS):
                raise InvalidTask(
                    f"column {self.column!r} holds {kind} values, and the class {value!r} is none: no row could ever be of that "
                    "class. Declare the classes as the column holds them; nothing was charged."
                )

    def whole(self, array: Any) -> Floats:
        """The place of each entry's class; what is no declared class is 0."""
        return np.asarray(matched(array, self.values) + 1, dtype=np.float64)

    @property
    def targets(self) -> list[int]:
        """The classes that get a model: the second of two, or each of more."""
        return [2] if len(self.values) == 2 else list(range(1, len(self.values) + 1))


def signs(y: Floats, target: int) -> Floats:
    """One where the class is the target, minus one where it is another, zero where it is none."""
    return np.where(y == 0, 0.0, np.where(y == target, 1.0, -1.0))
