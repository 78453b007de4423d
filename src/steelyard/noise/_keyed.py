"""Words that belong to a record: the same for the same key and name, wherever and however often they are worked out.

For draws that many machines make and may have to make again: whoever starts them draws one key from the noise, and every record
gets the 128 bits that the key gives its name. A task that is tried twice, or by two machines at once, finds the same words.
Two permutations (AES-256 under two halves of the key) of one block are added bit by bit, which nobody tells from a random function
long after a single permutation, which never repeats a block, would be found out.
Law: the key is drawn for one pass and kept nowhere; a name is given to one record (docs/proofs/label_executors.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import OurBug
from steelyard.noise._sources import Noise

NAME = 16  # bytes of a record's name: one block
_KEY = 32


def new_key(noise: Noise) -> bytes:
    """A key for one pass: 512 bits of the noise's own words."""
    return noise.bits(2 * _KEY // 8).astype("<u8").tobytes()


def record_words(key: bytes, names: bytes) -> NDArray[np.uint64]:
    """Two words for each name of sixteen bytes, as rows.

    >>> words = record_words(bytes(64), bytes(range(32)))
    >>> words.shape, (words[1] == record_words(bytes(64), bytes(range(16, 32)))[0]).all()
    ((2, 2), np.True_)
    """
    if len(key) != 2 * _KEY or len(names) % NAME:
        raise OurBug("words of records need a key of 64 bytes and names of 16.")
    first, second = (np.frombuffer(_permuted(half, names), "<u8") for half in (key[:_KEY], key[_KEY:]))
    words: NDArray[Any] = (first ^ second).astype(np.uint64).reshape(-1, 2)
    return words


def _permuted(key: bytes, blocks: bytes) -> bytes:
    """Every block under AES-256 by itself: a permutation of 128 bits, which is all that is asked of it here."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import ECB

    return bytes(Cipher(AES(key), ECB()).encryptor().update(blocks))
