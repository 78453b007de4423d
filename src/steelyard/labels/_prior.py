"""Where a prior comes from: nowhere, from public knowledge, or bought from the labels themselves.

A bought prior is a histogram over the nodes with discrete Laplace noise: one changed label moves two counts by one, so
noise of scale 2/epsilon costs epsilon. It is charged before a label is read, stored, and what is used is what the store
gave back. Everything after that is free. The law: a prior says where it came from, and verification re-derives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels._mechanism import read_prior
from steelyard.labels._nodes import Floats, Nodes
from steelyard.mechanisms import NoisyCounts
from steelyard.privacy import MICRO, Neighbours, exact

ALL: tuple[str, ...] = ("",)  # the groups of records that have none: one, without a name
SPREAD = 100  # one part in this many is spread evenly, so that no label is thought impossible


@dataclass(frozen=True)
class Prior:
    """Weights over the nodes and where they came from: "none" (made up), "public" or "private"."""

    source: str
    weights: tuple[int, ...]
    counts: tuple[int, ...] = ()
    micro: int = 0
    receipt: Mapping[str, Any] | None = None

    @classmethod
    def none(cls, nodes: Nodes) -> Prior:
        """No knowledge: all nodes alike."""
        return cls("none", (1,) * len(nodes.labels))

    @classmethod
    def made_up(cls, weights: list[Fraction]) -> Prior:
        """Weights computed from the nodes and epsilon alone."""
        return cls("none", read_prior(weights, len(weights)))

    @classmethod
    def public(cls, given: Any, nodes: Nodes) -> Prior:
        """Public weights, one per node or a mapping from labels to weights."""
        if isinstance(given, Mapping):
            wanted = {exact(label, "a label of the prior"): weight for label, weight in given.items()}
            strange = [label for label in wanted if label not in set(nodes.labels)]
            if strange:
                raise InvalidTask(f"the prior names {len(strange)} label(s) that are no node, such as {strange[0]}.")
            given = [wanted.get(label, 0) for label in nodes.labels]
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidTask(f"prior must be None, 'private', or weights for the nodes; got {given!r}.")
        if getattr(given, "ndim", 1) != 1:
            raise InvalidTask(
                "prior= is one weight for each node, the same for all records. Where every record has weights of its own, "
                "LabelPrivateClassifier takes them; records in public groups take a mapping from group to weights."
            )
        return cls("public", read_prior(given, len(nodes.labels)))

    @classmethod
    def bought(cls, counts: Iterable[int], micro: int, receipt: Mapping[str, Any]) -> Prior:
        """The prior that released counts give."""
        kept = tuple(counts)
        return cls("private", from_counts(kept), kept, micro, receipt)

    def split(self, groups: int) -> list[Prior]:
        """A prior bought over pairs of group and node, as one prior for each group."""
        size = len(self.counts) // groups
        return [
            Prior.bought(self.counts[start : start + size], self.micro, self.receipt or {})
            for start in range(0, len(self.counts), size)
        ]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Prior.from_json`` reads it back."""
        weights, counts = [str(w) for w in self.weights], list(self.counts)
        receipt = None if self.receipt is None else dict(self.receipt)
        return {"source": self.source, "weights": weights, "counts": counts, "micro": self.micro, "receipt": receipt}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Prior:
        """Read back what ``to_json`` wrote."""
        weights = tuple(int(w) for w in data["weights"])
        return cls(data["source"], weights, tuple(data["counts"]), data["micro"], data["receipt"])


def from_counts(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Noisy counts as weights: negative ones are zero, and a hundredth is spread evenly.

    >>> from_counts((90, -3, 9))
    (271, 1, 28)
    """
    positive = [max(0, count) for count in counts]
    mass = sum(positive) or len(counts)
    return read_prior(
        [Fraction(p * (SPREAD - 1), SPREAD) + Fraction(mass, SPREAD * len(counts)) for p in positive], len(counts)
    )


def histogram(bins: int, micro: int) -> NoisyCounts:
    """The mechanism that buys a prior over ``bins`` nodes for ``micro`` millionths of epsilon."""
    return NoisyCounts.laplace(bins, Fraction(2 * MICRO, micro), Neighbours.CHANGE_LABEL)


def count(nodes: Nodes, y: Floats, missing: float | None, groups: int = 1) -> NDArray[np.int64]:
    """How many labels (of each group, where there are columns of label and group) are nearest to each node.

    *Privacy:* the counts are private, fit for buying a prior alone.
    """
    labels, numbers = (y, 0) if y.ndim == 1 else (y[:, 0], y[:, 1].astype(np.int64))
    cells = numbers * len(nodes.labels) + nodes.nearest(labels, missing)
    return np.bincount(cells, minlength=groups * len(nodes.labels))


def public_priors(given: Any, nodes: Nodes, groups: tuple[str, ...]) -> list[Prior]:
    """One public prior for each group, from a mapping of groups to weights; without groups, from the weights."""
    if groups == ALL:
        return [Prior.public(given, nodes)]
    if not isinstance(given, Mapping):
        raise InvalidTask("with groups= the prior is None, 'private', or a mapping from every group to its weights.")
    wanted = {str(name): weights for name, weights in given.items()}
    lost = [name for name in groups if name not in wanted]
    if lost:
        raise InvalidTask(f"the prior has no weights for group {lost[0]!r}.")
    return [Prior.public(wanted[name], nodes) for name in groups]
