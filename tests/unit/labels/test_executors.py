"""Labels drawn by name and key: the same wherever they are worked out again, of independent words, and of the mechanism's law."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard.errors import OurBug
from steelyard.labels._executors import KeyedDraws
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.noise import ExactNoise, new_key, record_words
from steelyard.tables._spark_files import _on_executor

KEY = hashlib.sha512(b"one pass").digest()
Draws = Callable[[bytes, Any], Any]


def names(start: int, size: int) -> list[bytes]:
    return sorted(hashlib.sha256(str(i).encode()).digest()[:16] for i in range(start, start + size))


def draws(key: bytes = KEY, **more: Any) -> KeyedDraws:
    made = LabelRandomizer(1, 0, 10, missing=0).fit(**more)
    return KeyedDraws(key, made._sampler, "y", "g" if more else None)


def task(made: Draws, start: int, size: int, batch: int = 100, label: float = 3.0) -> list[float]:
    """One task of an executor: its records in batches, as Arrow brings them."""
    held = pa.RecordBatch.from_pydict(
        {"y": np.full(size, label), "x": np.arange(size), "name": names(start, size)},
    )
    parts = (held.slice(at, batch) for at in range(0, size, batch))
    return [y for part in _on_executor(made, 0, ["y", "x"])(parts) for y in part.column(0).to_pylist()]


def repeats(made: Callable[[], Draws]) -> bool:
    """Whether a task that is tried again, in other batches, gives every record what it got."""
    return task(made(), 0, 1000) == task(made(), 0, 1000, batch=333)


def share_alike(made: Draws, tasks: int = 20, size: int = 500) -> float:
    """How often records at the same place of two tasks, with the same label, get the same noisy label."""
    found = np.array([task(made, start * size, size) for start in range(tasks)])
    return float(np.mean([(found[i] == found[j]).mean() for i in range(tasks) for j in range(i)]))


class Fresh:
    """A broken twin: every attempt draws anew."""

    def __init__(self) -> None:
        self.key = new_key(ExactNoise())

    def __call__(self, of: bytes, batch: Any) -> Any:
        return draws(self.key)(of, batch)


class ByPlace:
    """A broken twin: words by the place in the part, under a key that all parts share."""

    def __call__(self, of: bytes, batch: Any) -> Any:
        places = b"".join(i.to_bytes(16, "big") for i in range(batch.num_rows))
        return draws()(places, batch)


def test_a_task_that_is_tried_again_gives_every_record_the_label_it_has() -> None:
    assert repeats(draws)
    assert not repeats(Fresh)


def test_the_key_is_not_shown_with_what_holds_it() -> None:
    assert repr(KEY) not in repr(draws())


def test_tasks_do_not_share_their_noise() -> None:
    made = draws()
    law = [float(p) for p in chances(made, 3)]
    alone = sum(p * p for p in law)  # of two draws that owe nothing to each other
    assert share_alike(made) == pytest.approx(alone, abs=0.01)
    assert share_alike(ByPlace()) > alone + 0.1


def chances(made: KeyedDraws, node: int) -> list[float]:
    table: Any = made.sampler.first
    return [weight / 2**64 for weight in table.table.weights()[node]]


def test_labels_have_the_law_of_the_table_and_no_bias() -> None:
    made, size = draws(), 200_000
    held = b"".join(names(0, size))
    found = np.bincount(made.drawn(held, np.full(size, 3.0)), minlength=len(chances(made, 3))) / size
    assert np.abs(found - chances(made, 3)).max() < 0.006
    between = made.sampler.at(made.drawn(held, np.full(size, 3.25)))
    assert abs(between.mean() - 3.25) < 5 * between.std() / np.sqrt(size)


def test_coins_and_words_are_even_and_owe_nothing_to_each_other() -> None:
    words = record_words(KEY, b"".join(names(0, 100_000)))
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 16), axis=1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.009
    assert np.abs(np.corrcoef(bits.T.astype(float)) - np.eye(128)).max() < 0.025
    assert len(np.unique(words, axis=0)) == len(words)


def test_a_name_that_comes_twice_ends_the_task_also_across_batches() -> None:
    twice = [*names(0, 10), names(0, 10)[-1]]
    held = pa.RecordBatch.from_pydict({"y": np.zeros(11), "name": twice})
    for size in (11, 10, 5):
        parts = (held.slice(at, size) for at in range(0, 11, size))
        with pytest.raises(ValueError, match="one name"):
            list(_on_executor(draws(), 0, ["y"])(parts))


def test_groups_meet_their_own_mechanisms_and_odd_labels_count_as_declared() -> None:
    made = draws(groups=["a", "b"])
    batch = pa.RecordBatch.from_pydict({"y": [1.0, None, float("nan"), 1e300], "g": ["a", "b", "a", "b"]})
    found = made(b"".join(names(0, 4)), batch).to_pylist()
    assert set(found) <= set(made.sampler.values.tolist())
    empty = batch.slice(0, 0)
    assert made(b"", empty).to_pylist() == []


def test_draws_travel_and_keys_are_the_noise_s_own() -> None:
    made = draws()
    assert task(copy.deepcopy(made), 0, 100) == task(made, 0, 100)
    keys = {new_key(ExactNoise()) for _ in range(10)}
    assert len(keys) == 10
    assert {len(key) for key in keys} == {64}
    with pytest.raises(OurBug):
        record_words(KEY[:32], bytes(16))
