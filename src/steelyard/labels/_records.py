"""Records and what comes with them (ids, groups, containers of labels), and what is paid for: passes and priors.

A pass draws each record once for one charge. With ids a collection of records is one charge for all its batches: the
draws of new ids are stored under it before anybody sees them, in numbered steps of which the ledger keeps the first
ever written, and given again whenever an id comes back. Two processes that race on a step both continue from the one
that was kept. All of it happens at a desk.
The law: deliver only what the store gave back (docs/proofs/label_randomizer.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.desk import Desk
from steelyard.errors import InvalidTask, OurBug
from steelyard.interrupts import INTERRUPTS
from steelyard.labels._classes import ClassSampler
from steelyard.labels._nodes import Floats
from steelyard.labels._prior import Prior, histogram
from steelyard.labels._sampler import GroupSampler
from steelyard.noise import Noise
from steelyard.plan import Outcome
from steelyard.privacy import Event

STEP = 1 << 18  # new ids per stored step: five megabytes
_KEY = np.dtype("S16")
Keys = NDArray[np.bytes_]
Drawn = NDArray[Any]  # numbers of outputs, or sets of classes
Draw = Callable[[NDArray[np.intp], Noise], Drawn]


def digests(ids: Any) -> Keys:
    """Sixteen bytes for each public record id; 7 and "7" are the same record, a missing id is none.

    Two ids with one digest would share one draw: harmless to privacy, and never seen to happen with 128 bits.
    """
    given = ids.to_pylist() if hasattr(ids, "to_pylist") else ids.to_numpy() if hasattr(ids, "to_numpy") else ids
    values = np.asarray(given, dtype=object if isinstance(given, list | tuple) else None)
    if values.ndim != 1 or values.dtype.kind not in "iuUSO":
        raise InvalidTask(f"record ids are one column of integers or texts; got {values.dtype}.")
    texts = [_text(value) for value in values.tolist()]
    raw = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
    return np.frombuffer(raw, dtype=_KEY)


def check_once(names: Keys | None) -> None:
    """Refuse ids that come twice in one call: the second row would get the first one's noisy label.

    *Privacy:* ids are public where labels are what is hidden, so neighbours agree on what is refused here.
    """
    if names is not None and len(np.unique(names)) != len(names):
        raise InvalidTask(
            f"{len(names)} records have {len(np.unique(names))} different ids. An id names one record (a row, not a user): "
            "rows that share one would share one noisy label. Nothing was charged."
        )


def _text(value: Any) -> bytes:
    value = value.item() if isinstance(value, np.integer) else value
    if isinstance(value, bool) or not isinstance(value, int | str | bytes):
        raise InvalidTask("every record needs an id that is an integer or a text; ids are public, labels are not.")
    return value if isinstance(value, bytes) else str(value).encode()


def read_groups(groups: Any) -> list[str]:
    """Names of groups as texts: 7 and "7" are the same group, and a missing one is none."""
    given = groups.tolist() if hasattr(groups, "tolist") else groups
    names = given.to_pylist() if hasattr(given, "to_pylist") else list(given)
    if not names or any(isinstance(name, bool) or not isinstance(name, int | str) or name == "" for name in names):
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


def wrapped(y: Any, values: Floats) -> Any:
    """The values in the kind of container the labels came in: a pandas or Polars series, an Arrow array, else NumPy's.

    Never fails: a container that cannot be made again is left off.
    """
    try:
        return _wrapped(y, values)
    except INTERRUPTS:
        raise
    except BaseException:  # the values are paid for, and must reach the caller whatever a container thinks of them
        return values


def _wrapped(y: Any, values: Floats) -> Any:
    home = type(y).__module__.partition(".")[0]
    if home == "pandas" and hasattr(y, "index") and hasattr(y, "name"):
        return type(y)(values, index=y.index, name=y.name)
    if home == "polars":
        return type(y)(y.name, values)
    if home == "pyarrow":
        import pyarrow

        return pyarrow.array(values)
    return values


class Pass:
    """A paid pass over records: one charge for all its batches; ``keep`` where a key lets it be asked for again.

    Only for code that brings each record once: without ids nothing here could tell a record that comes again.
    """

    def __init__(self, desk: Desk, sampler: GroupSampler | ClassSampler, size: int, *, keep: bool) -> None:
        self._desk, self._sampler, self._left, self._keep = desk, sampler, size, keep
        self._charge, self._batch = desk.charge(sampler.event), 0

    def noisy(self, y: Floats, keys: Keys | None = None) -> Floats:
        """The noisy labels of one batch of records that were not in an earlier batch."""
        sampler, code = self._sampler, self._sampler.first.code
        self._left -= len(y)
        if self._left < 0:
            raise OurBug("a pass was asked for more labels than it was paid for.")
        if self._keep:
            make = lambda noise: sampler.draw(y, noise).astype(code).tobytes()  # noqa: E731
            held, self._batch = self._desk.draw(self._charge, make, step=self._batch), self._batch + 1
            drawn = np.frombuffer(held, code)
            if len(drawn) != len(y):  # other batches than before: what comes next would be drawn a second time
                raise OurBug("a pass was asked again in other batches than it was drawn in.")
            return sampler.at(drawn)
        told: list[Floats] = []

        def draw(noise: Noise) -> bytes:
            told.append(
                sampler.noisy(y, noise)
            )  # straight to whoever asked: no retry can ask for it, so nothing is stored
            return b""

        self._desk.draw(self._charge, draw, keep=False)
        return told[0]


class Collection:
    """Records that are drawn once each, whatever batch they come in: the outputs drawn so far under one charge.

    A step is taken only by whoever knows all steps before it, so no step is ever left out: one that was interrupted, or that
    could not be stored, is the next one again. Otherwise two handles could draw one record in two steps.
    """

    def __init__(self, desk: Desk, sampler: GroupSampler | ClassSampler) -> None:
        self._desk, self._sampler, self._code = desk, sampler, np.dtype(sampler.first.code)
        self._charge = desk.charge(sampler.event)
        self._parts: dict[int, tuple[Keys, Drawn]] = {}
        self._learn()

    def noisy(self, y: Floats, keys: Keys | None = None) -> Floats:
        """The noisy labels of one batch of records, known by their keys."""
        if keys is None:
            raise OurBug("a collection needs the records' keys.")
        return self._sampler.at(self.outputs(keys, lambda new, noise: self._sampler.draw(y[new], noise)))

    def outputs(self, keys: Keys, draw: Draw) -> Drawn:
        """What was drawn for every record, drawing (and storing first) those that were never drawn."""
        self._learn()
        found, new = self._find(keys)
        while new.any():
            unknown = np.flatnonzero(new)
            _, first = np.unique(keys[unknown], return_index=True)
            self._draw(keys, unknown[np.sort(first)][:STEP], draw)
            self._learn()
            found, new = self._find(keys)
        return found

    def _draw(self, keys: Keys, fresh: NDArray[np.intp], draw: Draw) -> None:
        """Fill the next step with draws for these records, unless another process has filled it."""
        self._desk.draw(
            self._charge,
            lambda noise: keys[fresh].tobytes() + draw(fresh, noise).astype(self._code).tobytes(),
            step=len(self._parts),
        )

    def _learn(self) -> None:
        """Read the steps that were filled since; one that failed holds nothing, and its records are drawn in a later one."""
        known = len(self._parts)
        for step, payload in enumerate(self._desk.drawn(self._charge, known), known):
            self._parts[step] = self._read(payload or b"")

    def _read(self, payload: bytes) -> tuple[Keys, Drawn]:
        size = len(payload) // (_KEY.itemsize + self._code.itemsize)
        keys = np.frombuffer(payload, _KEY, size)
        drawn = np.frombuffer(payload, self._code, size, offset=size * _KEY.itemsize)
        order = np.argsort(keys, kind="stable")
        return keys[order], drawn[order]

    def _find(self, keys: Keys) -> tuple[Drawn, NDArray[np.bool_]]:
        """What was drawn for every record, and which of them were never drawn; a step kept earlier wins."""
        found, new = np.zeros(len(keys), dtype=self._code), np.ones(len(keys), dtype=np.bool_)
        for known, drawn in [part for part in list(self._parts.values()) if len(part[0])]:
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            hit = new & (known[place] == keys)
            found[hit] = drawn[place[hit]]
            new &= ~hit
        return found, new


def buy(desk: Desk, counter: Callable[[], Iterable[int]], bins: int, micro: int) -> tuple[Prior, Event]:
    """The prior that noisy counts give, and what they were charged for: charged, counted, noised, stored, and read back.

    *Privacy:* pure ``micro`` millionths; ``counter()`` is called once the charge is on disk, and only if there is no
    stored answer yet.
    """
    mechanism = histogram(bins, micro)

    def counted(_: Any, noise: Noise) -> Outcome:
        return Outcome(mechanism.release([int(c) for c in counter()], noise), None)

    release = desk.answer(desk.charge(mechanism.event), mechanism.event, counted)
    return Prior.bought(release.value, micro, replace(release.receipt, signature="").to_json()), mechanism.event
