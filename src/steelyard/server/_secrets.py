"""Passwords, tokens and one-time codes: what is stored of each, and how they are compared.

Tokens and codes are 256 random bits, so their SHA-256 is all that is stored. Passwords are hashed by Argon2id (19 MiB, two passes), two at a
time in one process, so that guessing costs memory and cannot take all of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading

from steelyard.errors import InvalidTask

_MEMORY, _PASSES, _LANES = 19 * 1024, 2, 1
_GATE = threading.BoundedSemaphore(2)
SHORTEST = 12
TOKEN = "sy_"


def new_secret(prefix: str = "") -> str:
    """A text of 256 random bits."""
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is stored of a random secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def hash_password(password: str) -> str:
    """What is stored of a password: its salt and its hash."""
    if not SHORTEST <= len(password) <= 200:
        raise InvalidTask(f"a password has {SHORTEST} to 200 characters.")
    salt = secrets.token_bytes(16)
    return f"{_text(salt)}.{_text(_argon2(password, salt))}"


def check_password(password: str, stored: str) -> bool:
    """Whether a password is the one that was hashed; takes as long where there is none."""
    salt, _, kept = stored.partition(".")
    known = bool(kept) and len(password) <= 200
    found = _argon2(password[:200], _bytes(salt) if kept else bytes(16))
    return hmac.compare_digest(_text(found), kept if kept else _text(bytes(32))) and known


def _argon2(password: str, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    with _GATE:
        kdf = Argon2id(salt=salt, length=32, iterations=_PASSES, lanes=_LANES, memory_cost=_MEMORY)
        return kdf.derive(password.encode("utf-8", "replace"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
