"""Mechanisms put to use: label, coin and word in, noisy label out; one mechanism for each public group of records.

From a table one label takes one 32-bit coin (which node) and one 64-bit word (which output), looked up in an alias
table that holds the mechanism's integer weights exactly: the same bits in Python and in a browser. With added noise a
label becomes a whole number of grid steps above ``lower``, and the noise is added to that integer. A record's group is
public and owes nothing to its label, so it meets the mechanism of its own group and no other: a pass costs what the
dearest group costs, not the sum.
The law: what is drawn is what was checked and what is charged, and the number of words a table reads depends on n
alone.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from steelyard.labels._baselines import AddedNoise
from steelyard.labels._mechanism import FiniteMechanism, growth_below
from steelyard.labels._nodes import COIN, Floats, Nodes
from steelyard.lazy import lazy
from steelyard.mechanisms import show
from steelyard.noise import FiniteTable, Noise
from steelyard.privacy import Event, Neighbours, canonical

Ints = NDArray[np.int64]
_CHUNK = 1 << 15  # smaller ones cost calls; larger arrays are more often given back to the system and faulted in again


@dataclass(frozen=True)
class _Sampler(ABC):
    """A mechanism that draws for the labels of one group; ``missing`` is what labels that are no number count as."""

    mechanism: FiniteMechanism | AddedNoise
    missing: float | None = None

    @abstractmethod
    def at(self, drawn: Ints) -> Floats:
        """The noisy labels that these drawn integers stand for."""

    @abstractmethod
    def _draw(self, y: Floats, noise: Noise) -> Ints:
        """One integer for each label of one chunk."""

    @lazy
    def nodes(self) -> Nodes:
        """The public labels of the mechanism."""
        return Nodes(self.mechanism.inputs)

    @lazy
    def digest(self) -> str:
        """The name of everything that decides what a label becomes."""
        core = {**self.mechanism.to_json(), "certificate": None, "missing": self.missing}
        return hashlib.sha256(canonical(core)).hexdigest()

    def draw(self, y: Floats, noise: Noise) -> Ints:
        """One integer for each label, chunk by chunk, so that memory stays flat.

        *Privacy:* pure epsilon for a change of one label, as ``event`` says. Total: no label makes it fail.
        """
        out = np.empty(len(y), dtype=np.int64)
        for here in _chunks(len(y)):
            out[here] = self._draw(y[here], noise)
        return out

    def noisy(self, y: Floats, noise: Noise) -> Floats:
        """One noisy label for each label: ``at`` of what ``draw`` gives."""
        out = np.empty(len(y))
        for here in _chunks(len(y)):
            out[here] = self.at(self._draw(y[here], noise))
        return out


def _chunks(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _CHUNK, size)) for start in range(0, size, _CHUNK))


def _coins(size: int, noise: Noise) -> NDArray[np.uint32]:
    return noise.bits((size + 1) // 2).view(np.uint32)[:size]


@dataclass(frozen=True)
class TableSampler(_Sampler):
    """Rounding to the nodes, then the finite mechanism over them."""

    mechanism: FiniteMechanism

    code = "<u4"  # how an output's number is stored

    @lazy
    def ratio(self) -> Fraction:
        """The largest ratio of two weights of one output: what a pass costs."""
        return max(Fraction(max(column.weights), min(column.weights)) for column in self.mechanism.columns)

    @lazy
    def event(self) -> Event:
        """What one pass over the records is charged for: the exact ratio."""
        return Event.of("finite", Neighbours.CHANGE_LABEL, ratio=self.ratio)

    @lazy
    def values(self) -> Floats:
        """Each output as the nearest float."""
        return np.array([float(z) for z in self.mechanism.outputs])

    @lazy
    def table(self) -> FiniteTable:
        """The weights, four times as large so that they fill 64-bit words, as exact alias tables."""
        rows, scale = len(self.mechanism.inputs), 64 - self.mechanism.bits
        columns = [
            [w << scale for start, stop, w in column.runs(rows) for _ in range(stop - start)]
            for column in self.mechanism.columns
        ]
        return FiniteTable(zip(*columns, strict=True), width=64)

    def prepare(self) -> None:
        """Make what drawing needs, so that nothing is left to fail once the draw is paid for."""
        _ = self.table, self.values

    def at(self, drawn: Ints) -> Floats:
        """The outputs of these numbers."""
        return self.values[drawn]

    def pick(self, y: Floats, coins: NDArray[np.uint32], words: NDArray[np.uint64]) -> Ints:
        """The output numbers that these coins and words pick: the drawing itself, without the randomness."""
        rows = self.nodes.round(y, coins, self.missing)
        return np.asarray(self.table.look_up(rows, words), dtype=np.int64)

    def _draw(self, y: Floats, noise: Noise) -> Ints:
        coins = _coins(len(y), noise)
        if not noise.secure:
            show(self.event, self.nodes.round(y, coins, self.missing).tolist(), noise)
        return self.pick(y, coins, noise.bits(len(y)))


@dataclass(frozen=True)
class NoiseSampler(_Sampler):
    """Noise added to the labels' places on the grid: grid points out."""

    mechanism: AddedNoise
    code = "<i8"  # how a grid point is stored, counted in steps from ``lower``

    @property
    def event(self) -> Event:
        """The noise's own: one changed label moves one of the integers by the whole range at most."""
        return self.mechanism.noise.event

    @property
    def ratio(self) -> Fraction:
        """What noise of this width comes to."""
        return growth_below(self.mechanism.epsilon)

    @property
    def values(self) -> Floats:
        """None: the noise has no end."""
        return np.empty(0)

    def prepare(self) -> None:
        """Make what drawing needs, as above."""
        _ = self.mechanism.step, self.nodes.floats

    def at(self, drawn: Ints) -> Floats:
        """The labels at these grid points; whole numbers where the grid is."""
        return np.asarray(float(self.nodes.lower) + drawn * float(self.mechanism.step))

    def _draw(self, y: Floats, noise: Noise) -> Ints:
        places = self._places(y, noise)
        if not noise.secure:
            show(self.event, places.tolist(), noise)
        return places + self.mechanism.sample(len(places), noise)

    def _places(self, y: Floats, noise: Noise) -> Ints:
        """Labels as whole grid steps from ``lower``; nodes are reached by the fair coin, finer steps need none."""
        if self.mechanism.bits == 0:
            return self.nodes.round(y, _coins(len(y), noise), self.missing)
        below, steps = self.nodes.places(y, self.missing)
        return (below << COIN) + steps


Sampler = TableSampler | NoiseSampler


def sampler_of(mechanism: FiniteMechanism | AddedNoise, missing: float | None) -> Sampler:
    """A mechanism ready to draw from."""
    if isinstance(mechanism, AddedNoise):
        return NoiseSampler(mechanism, missing)
    return TableSampler(mechanism, missing)


@dataclass(frozen=True)
class GroupSampler:
    """The samplers of all groups; without groups there is one, of all records, under the name of nothing.

    It takes labels where there is one group, or columns of (label, number of the group).
    """

    parts: dict[str, Sampler]

    @lazy
    def event(self) -> Event:
        """What a pass is charged for: the group with the largest ratio."""
        return max(self.parts.values(), key=lambda part: part.ratio).event

    @lazy
    def digest(self) -> str:
        """The name of everything that decides what a label becomes."""
        return hashlib.sha256(canonical({name: part.digest for name, part in self.parts.items()})).hexdigest()

    @property
    def first(self) -> Sampler:
        """The first group's sampler: nodes, missing labels and the way of storing are the same for all."""
        return next(iter(self.parts.values()))

    @lazy
    def values(self) -> Floats:
        """The outputs of all groups, one after another."""
        return np.concatenate([part.values for part in self.parts.values()])

    def prepare(self) -> None:
        """Make what drawing needs, for every group."""
        for part in self.parts.values():
            part.prepare()

    def at(self, drawn: Ints) -> Floats:
        """The noisy labels that these drawn integers stand for."""
        return self.first.at(drawn) if len(self.parts) == 1 else self.values[drawn]

    def draw(self, y: Floats, noise: Noise) -> Ints:
        """One integer for each record. *Privacy:* as ``event`` says, for a change of one label."""
        if y.ndim == 1:
            return self.first.draw(y, noise)
        out, before = np.empty(len(y), dtype=np.int64), 0
        for number, part in enumerate(self.parts.values()):
            here = y[:, 1] == number
            out[here] = before + part.draw(y[here, 0], noise)
            before += len(part.values)
        return out

    def noisy(self, y: Floats, noise: Noise) -> Floats:
        """One noisy label for each record."""
        return self.first.noisy(y, noise) if y.ndim == 1 else self.at(self.draw(y, noise))
