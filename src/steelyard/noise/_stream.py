"""The one entropy source: an AES-256-CTR keystream keyed by the operating system.

Every thread has its own stream with its own key, so no two threads can ever read the same words. A forked child drops
the inherited key and the unread words (a fork hook, and a process-id check for forks that Python did not make); a
spawned child starts with nothing. The key is renewed long before the block cipher could be told from random.
Law: a word is handed out once, and there is no way to seed the stream that secure noise reads.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from steelyard.errors import InvalidTask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDTH = 64
_BATCH = 192  # words per scalar refill: 64 draws of three words
_RENEW = 1 << 32  # bytes under one key: 2^28 blocks, so the switching bound stays below 2^-70
_ZEROS = bytes(8 * _BATCH)
_UNPACK = struct.Struct(f"<{_BATCH}Q").unpack


class _Cipher(Protocol):
    def update(self, data: bytes) -> bytes: ...

    def update_into(self, data: bytes, buffer: memoryview) -> int: ...


def keystream(key: bytes) -> _Cipher:
    """AES-256 in counter mode from counter zero; encrypting zeros yields the keystream."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    cipher: _Cipher = Cipher(AES(key), CTR(bytes(16))).encryptor()
    return cipher


def uniform_below(word: Callable[[], int], width: int, bound: int) -> int:
    """A uniform integer in [0, bound) from words of ``width`` bits, by rejection; exact for any bound."""
    bits = (bound - 1).bit_length()
    while True:
        value = read = 0
        while read < bits:
            value = value << width | word()
            read += width
        value >>= read - bits
        if value < bound:
            return value


class Stream:
    """Words of 64 bits, each handed out once. Not shared between threads: take yours with ``current()``."""

    def __init__(self) -> None:
        self._unread: list[int] = []
        self.reset()

    def reset(self) -> None:
        """Forget the key and the unread words, in place, so that a draw under way in a forked child is safe too."""
        self._unread.clear()
        self._cipher: _Cipher | None = None
        self._left = 0
        self._process = os.getpid()

    def _key(self) -> bytes:
        return os.urandom(32)

    def _take(self, size: int) -> _Cipher:
        if self._cipher is None or self._left < size:
            self._cipher, self._left = keystream(self._key()), max(_RENEW, size)
        self._left -= size
        return self._cipher

    def check(self) -> Stream:
        """This stream, forgotten first if the process is not the one that keyed it."""
        if self._process != os.getpid():
            self.reset()
        return self

    def word(self) -> int:
        """The next 64 bits as a Python integer."""
        while True:
            try:
                return self._unread.pop()
            except IndexError:
                self._unread.extend(_UNPACK(self._take(8 * _BATCH).update(_ZEROS)))

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""
        if bound < 1:
            raise InvalidTask(f"a uniform draw needs a bound of at least 1; got {bound}.")
        return uniform_below(self.word, WIDTH, bound)

    def words(self, size: int) -> NDArray[np.uint64]:
        """The next ``size`` words as a new array."""
        import numpy as np

        buffer = np.empty(size + 2, dtype="<u8")  # the cipher asks for almost one spare block
        self._take(8 * size).update_into(bytes(8 * size), buffer.data.cast("B"))
        words: NDArray[np.uint64] = buffer[:size].astype(np.uint64, copy=sys.byteorder != "little")
        return words


class SeededStream(Stream):
    """The same words for the same key: for tests only, never behind secure noise."""

    def __init__(self, key: bytes) -> None:
        self._seed = key
        super().__init__()

    def _key(self) -> bytes:
        from hashlib import sha256

        key, self._seed = self._seed, sha256(b"next" + self._seed).digest()
        return key

    def check(self) -> Stream:
        """A seeded stream goes on across a fork: repeating itself is its purpose."""
        return self


_mine = threading.local()


def current() -> Stream:
    """The calling thread's own stream."""
    stream: Stream | None = getattr(_mine, "stream", None)
    if stream is None:
        stream = _mine.stream = Stream()
    return stream.check()


def _after_fork() -> None:
    stream: Stream | None = getattr(_mine, "stream", None)
    if stream is not None:
        stream.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
