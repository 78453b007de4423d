"""Words are handed out once: across threads, forks, spawned processes and every size of request."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.noise import ExactNoise
from steelyard.noise._stream import SeededStream, Stream, current, keystream, uniform_below
from unit.noise.exactly import enumerate_tapes

MANY = 40


def words_after_fork(stream: Stream) -> tuple[set[int], set[int]]:
    """What parent and child read from a stream that both hold."""
    stream.word()
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.write(there, pickle.dumps([stream.check().word() for _ in range(MANY)] + stream.words(MANY).tolist()))
        os._exit(0)
    mine = {stream.check().word() for _ in range(MANY)} | set(stream.words(MANY).tolist())
    os.waitpid(child, 0)
    theirs = set(pickle.loads(os.read(here, 1 << 16)))  # noqa: S301 - our own child wrote it
    os.close(here)
    os.close(there)
    return mine, theirs


def test_a_forked_child_shares_no_word_with_its_parent() -> None:
    mine, theirs = words_after_fork(current())
    assert not mine & theirs
    assert len(mine) == len(theirs) == 2 * MANY


def test_a_stream_that_no_fork_hook_knows_is_forgotten_by_its_process_check() -> None:
    mine, theirs = words_after_fork(Stream())
    assert not mine & theirs


def test_a_draw_under_way_while_the_process_forks_does_not_go_on_with_inherited_words() -> None:
    class Unchecked(Stream):
        def check(self) -> Stream:
            return self

    from steelyard.noise import _stream as module

    unchecked = module._mine.stream = Unchecked()  # only the hook protects this one
    mine, theirs = words_after_fork(unchecked)
    del module._mine.stream
    assert not mine & theirs


def test_the_fork_check_catches_a_stream_without_protection() -> None:
    mine, theirs = words_after_fork(SeededStream(bytes(32)))
    assert mine == theirs


def test_every_thread_reads_words_of_its_own() -> None:
    read: list[int] = []
    gate = threading.Barrier(8)

    def work() -> None:
        gate.wait()
        read.extend([current().word() for _ in range(500)] + current().words(500).tolist())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(read)) == len(read) == 8000


def test_a_spawned_process_reads_words_of_its_own() -> None:
    code = "from steelyard.noise._stream import current; print([current().word() for _ in range(50)])"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)]
    assert runs[0] != runs[1]


def test_scalar_and_array_reads_never_return_the_same_word() -> None:
    stream = Stream()
    read = Counter[int]()
    for size in (1, 7, 192, 5, 1000):
        read.update(stream.words(size).tolist())
        read.update(stream.word() for _ in range(size))
    assert max(read.values()) == 1


def test_the_key_is_renewed_before_the_keystream_grows_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []

    class Counted(Stream):
        def _key(self) -> bytes:
            keys.append(super()._key())
            return keys[-1]

    monkeypatch.setattr("steelyard.noise._stream._RENEW", 8 * 192 * 2)
    stream = Counted()
    for _ in range(192 * 6):
        stream.word()
    assert len(set(keys)) == len(keys) == 3


def test_words_are_the_aes_keystream_in_little_endian_order() -> None:
    key = bytes(range(32))
    raw = keystream(key).update(bytes(80))
    assert SeededStream(key).words(10).tolist() == np.frombuffer(raw, "<u8").tolist()
    # NIST SP 800-38A gives AES-256 blocks; the all-zero key and block are a published vector
    assert keystream(bytes(32)).update(bytes(16)).hex() == "dc95c078a2408989ad48a21492842087"


@settings(max_examples=60, deadline=None)
@given(bound=st.integers(1, 40), width=st.integers(1, 4))
def test_a_uniform_draw_is_uniform_on_every_tape(bound: int, width: int) -> None:
    depth = -(-max(1, (bound - 1).bit_length()) // width)
    decided, undecided = enumerate_tapes(lambda word: uniform_below(word, width, bound), width, depth)
    assert sorted(decided) == list(range(bound))
    assert len(set(decided.values())) == 1  # whatever was decided so far, no value is favoured
    assert sum(decided.values()) + undecided == 1
    assert undecided < Fraction(1, 2)


def test_the_uniformity_check_catches_a_modulo_twin() -> None:
    decided, _ = enumerate_tapes(lambda word: word() % 5, 3, 1)
    assert len(set(decided.values())) != 1


@pytest.mark.parametrize("bound", [0, -3])
def test_a_bound_below_one_is_refused(bound: int) -> None:
    with pytest.raises(InvalidTask, match="at least 1"):
        ExactNoise().below(bound)


def test_no_secure_noise_takes_a_seed() -> None:
    with pytest.raises(TypeError):
        ExactNoise(1)  # type: ignore[call-arg]
