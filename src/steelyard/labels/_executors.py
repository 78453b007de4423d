"""Labels of a Spark frame, drawn by its executors: a Parquet folder out, one charge, and no row on the driver.

Spark may try a task twice, or give it to two machines at once, or lose what was made and make it again. So nothing is drawn on
an executor: the driver draws one key for the pass, and a record's coin and word are what the key gives the record's public name.
Whoever works a record out again finds the noisy label that it has. Proof: docs/proofs/label_executors.md.
The law: a key serves one pass and is kept nowhere; two records never have one name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steelyard.errors import InvalidTask, TableError
from steelyard.interrupts import attempt
from steelyard.labels._files import FAILED
from steelyard.labels._nodes import Floats
from steelyard.labels._prior import ALL
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._records import beside, read_groups
from steelyard.labels._sampler import GroupSampler, Ints, TableSampler
from steelyard.noise import record_words
from steelyard.tables import SparkRecords, numbers_of


@dataclass(frozen=True)
class KeyedDraws:
    """What executors do with labels: a function of key, name and label, with no chance of its own."""

    key: bytes = field(repr=False)
    sampler: GroupSampler
    column: str
    groups: str | None = None

    def __call__(self, names: bytes, batch: Any) -> Any:
        """The noisy labels of an Arrow batch, whose records have these names."""
        import pyarrow

        labels = numbers_of(batch.column(batch.schema.get_field_index(self.column)))
        if self.groups is not None and len(labels):
            held = read_groups(batch.column(batch.schema.get_field_index(self.groups)))
            labels = beside(labels, held, tuple(self.sampler.parts))
        return pyarrow.array(self.sampler.at(self.drawn(names, labels)), pyarrow.float64())

    def drawn(self, names: bytes, labels: Floats) -> Ints:
        """The outputs of these records. *Privacy:* as ``sampler.event`` says, where no two records have one name."""
        words = record_words(self.key, names)
        coins, picks = (words[:, 0] >> np.uint64(32)).astype(np.uint32), np.ascontiguousarray(words[:, 1])
        if labels.ndim == 1:
            return _tables(self.sampler)[0].pick(labels, coins, picks)
        out, before = np.empty(len(labels), dtype=np.int64), 0
        for number, part in enumerate(_tables(self.sampler)):
            here = labels[:, 1] == number
            out[here] = before + part.pick(labels[here, 0], coins[here], picks[here])
            before += len(part.values)
        return out


def _tables(sampler: GroupSampler) -> list[TableSampler]:
    return [part for part in sampler.parts.values() if isinstance(part, TableSampler)]


def randomize_spark(
    randomizer: LabelRandomizer,
    frame: Any,
    target: str | os.PathLike[str],
    column: str,
    *,
    ids: str | None = None,
    groups: str | None = None,
    parts: int | None = None,
) -> int:
    """Copy a Spark frame with its labels made private into a new folder of Parquet files; returns the number of records.

    ``ids`` names a column of public record ids, stored with the records; a plain scan of Parquet files needs none, since a file and a
    place in it name a record. Ids that a query makes may change when Spark computes it again: by chance they are refused.
    Records are written in the order of a hash of their ids, as ``parts`` files (default: ``spark.sql.shuffle.partitions``).
    *Privacy:* one charge, before a label is read, for every call; which records there are and every other column must owe nothing
    to labels. *Cost:* two jobs, one of names alone, one that sorts and copies; nothing but the number of records comes to the driver.
    """
    records = SparkRecords(frame, column, ids, [] if groups is None else [groups])
    _check(randomizer, groups, parts)
    if groups is not None:
        found = read_groups(records.values(groups))
        beside(np.zeros(len(found)), found, tuple(randomizer._sampler.parts))
    size, place = records.count(), records.place(target)
    try:
        key = randomizer._open_keyed(size)
        draws = KeyedDraws(key, randomizer._sampler, column, groups)
        if attempt(lambda: records.copy(draws, place, parts)) is None:
            raise TableError(FAILED)  # law 4: what went wrong may depend on a label
    except BaseException:
        place.drop()
        raise
    place.deliver()
    return size


def _check(randomizer: LabelRandomizer, groups: str | None, parts: int | None) -> None:
    """What is wrong with the request, told before anything is charged."""
    if parts is not None and (isinstance(parts, bool) or not isinstance(parts, int) or not 0 < parts < 2**31):
        raise InvalidTask(
            f"parts is how many files are written, a number from 1 on; got {parts!r}. Nothing was charged."
        )
    randomizer._fitted()
    if (groups is None) != (tuple(randomizer._sampler.parts) == ALL):
        raise InvalidTask("a randomizer fitted with groups needs the frame's column of groups, and no other does.")
    if randomizer._sampler.first.missing is None:
        raise InvalidTask("a frame may hold missing labels: fit the randomizer with missing= (a public value).")
    if len(_tables(randomizer._sampler)) != len(randomizer._sampler.parts):
        raise InvalidTask(
            "methods that add noise read as many words as chance decides, and a record has two on Spark: use auto or another "
            "method with a table of outputs. Nothing was charged."
        )
