"""Records in public groups: one mechanism for each group, one charge for all.

A record's group is public and does not depend on its label (its country, its campaign), so a record meets the mechanism
of its own group and no other: the price of a pass is that of the dearest group, not the sum. A private prior for every
group is one histogram over pairs of group and node. The law: whoever names the groups may look at anything but labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.noise import Noise
from steelyard.privacy import Event, canonical

from .added import Added, AddedNoise
from .applied import Applied
from .containers import Floats
from .continuous import Nodes
from .mechanism import FiniteMechanism
from .prior import Prior


@dataclass(frozen=True)
class Part:
    """What one group is given: the method used in the end, the mechanism put to use, and the prior it was made for."""

    method: str
    applied: Applied | Added
    prior: Prior

    @property
    def mechanism(self) -> FiniteMechanism | AddedNoise:
        """The finite mechanism, or the noise that is added."""
        return self.applied.mechanism


def put_to_use(nodes: Nodes, mechanism: FiniteMechanism | AddedNoise, missing: float | None) -> Applied | Added:
    """A mechanism ready to draw from."""
    if isinstance(mechanism, AddedNoise):
        return Added(nodes, mechanism, missing)
    return Applied(nodes, mechanism, missing)


@dataclass(frozen=True)
class Grouped:
    """As ``Applied``, for columns of (label, number of the group): each record is drawn by its group's mechanism."""

    names: tuple[str, ...]
    parts: tuple[Applied, ...]

    @property
    def missing(self) -> float | None:
        """What labels that are no number count as."""
        return self.parts[0].missing

    @lazy
    def event(self) -> Event:
        """What a pass is charged for: the group with the largest ratio."""
        return max(self.parts, key=lambda part: part.ratio).event

    @lazy
    def digest(self) -> str:
        """The name of everything that decides what a label becomes."""
        core = {name: part.digest for name, part in zip(self.names, self.parts, strict=True)}
        return hashlib.sha256(canonical(core)).hexdigest()

    @lazy
    def values(self) -> Floats:
        """The outputs of all groups, one after another."""
        return np.concatenate([part.values for part in self.parts])

    @property
    def code(self) -> str:
        """How a drawn output number is stored."""
        return "<u4"

    def at(self, drawn: NDArray[np.int64]) -> Floats:
        """The noisy labels of these output numbers."""
        return self.values[drawn]

    def prepare(self) -> None:
        """Make what drawing needs, for every group."""
        for part in self.parts:
            part.prepare()

    def draw(self, y: Floats, noise: Noise) -> NDArray[np.int64]:
        """One output number for each record. *Privacy:* as ``event`` says, for a change of one label."""
        out, before = np.empty(len(y), dtype=np.int64), 0
        for number, part in enumerate(self.parts):
            here = y[:, 1] == number
            out[here] = before + part.draw(y[here, 0], noise)
            before += len(part.values)
        return out

    def noisy(self, y: Floats, noise: Noise) -> Floats:
        """One noisy label for each record."""
        return self.values[self.draw(y, noise)]


def read_groups(groups: Any) -> list[str]:
    """Names of groups as texts: 7 and "7" are the same group, and a missing one is none."""
    given = groups.tolist() if hasattr(groups, "tolist") else groups
    names = given.to_pylist() if hasattr(given, "to_pylist") else list(given)
    if not names or any(isinstance(name, bool) or not isinstance(name, int | str) for name in names):
        raise InvalidTask("groups= takes one public integer or text for every record.")
    return [str(name) for name in names]


def beside(values: Floats, names: list[str], known: tuple[str, ...]) -> Floats:
    """Labels and the numbers of their groups, as two columns."""
    if len(names) != len(values):
        raise InvalidTask(f"there are {len(names)} groups for {len(values)} labels.")
    place = {name: number for number, name in enumerate(known)}
    strange = sorted(set(names) - set(known))
    if strange:
        raise InvalidTask(f"group {strange[0]!r} was not there when the mechanisms were made; fit with it.")
    return np.column_stack([values, np.array([place[name] for name in names], dtype=np.float64)])


def public_priors(given: Any, nodes: Nodes, known: tuple[str, ...]) -> list[Prior]:
    """One public prior for each group, from a mapping of groups to weights."""
    if not isinstance(given, Mapping):
        raise InvalidTask("with groups= the prior is None, 'private', or a mapping from every group to its weights.")
    wanted = {str(name): weights for name, weights in given.items()}
    lost = [name for name in known if name not in wanted]
    if lost:
        raise InvalidTask(f"the prior has no weights for group {lost[0]!r}.")
    return [Prior.public(wanted[name], nodes) for name in known]


def count_cells(nodes: Nodes, columns: Floats, groups: int, missing: float | None) -> NDArray[np.int64]:
    """How many labels of each group are nearest to each node: private, fit for buying priors alone."""
    size = len(nodes.labels)
    cells = columns[:, 1].astype(np.int64) * size + nodes.nearest(columns[:, 0], missing)
    return np.bincount(cells, minlength=groups * size)
