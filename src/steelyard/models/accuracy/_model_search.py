"""What searches for models share: the rows they read, what they refuse, and how they begin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import cast

from steelyard.desk import Desk
from steelyard.errors import InvalidTask
from steelyard.models._columns import Features
from steelyard.models._model import Model, OneVsRest
from steelyard.models._rows import Label
from steelyard.models.accuracy._goal import Found, Goal, public_n
from steelyard.models.accuracy._search import Question, Search
from steelyard.models.accuracy._split import Split, TableRows
from steelyard.privacy import Terms
from steelyard.tables import Schema


class ModelSearch(ABC):
    """What searches for models share: open one with ``session.open(...)``, then ask for an accuracy.

    ``penalty`` is the lambda of the mean loss plus lambda/2 |theta|^2, with rows of length at most one. With ``split`` one part of
    the rows trains and the other checks.
    """

    features: Features
    penalty: Fraction
    split: Split | None
    scale = 1.0
    """What a loss of one is in the label's own units."""

    @property
    @abstractmethod
    def target(self) -> Label:
        """The label, as rows are read."""

    @abstractmethod
    def asked(self, goal: Goal) -> Goal:
        """The goal where labels lie in [-1, 1]; refused where this kind of model has none such."""

    @abstractmethod
    def told(self, goal: Goal, found: Found) -> tuple[str, Model | OneVsRest | None]:
        """The question in words, and the model that was found, if one was."""

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        self.features.check(schema)
        self.target.check(schema)
        if self.split is None:
            public_n(terms)
        else:
            self.split.check(schema, terms)
        if not Fraction(1, 10**8) <= self.penalty <= 100:
            raise InvalidTask("the penalty of an accuracy-first model must lie between 1e-8 and 100.")

    def start(self, desk: Desk) -> Search:
        """Begin, or pick up where the stored steps left off."""
        desk.workers = True
        return Search(cast(Question, self), desk)

    def reader(self, terms: Terms) -> TableRows:
        """How rows are read."""
        return TableRows(self.features, self.target, terms.unit, self.split)
