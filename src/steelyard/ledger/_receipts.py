"""Signed receipts: whoever has the ledger's public key can tell a receipt of this ledger from any other, without its secret key.

The signature is Ed25519 over the receipt's own JSON; the key is derived from the ledger's secret key, so there is nothing more to keep. It says: the
holder of that key wrote this entry, at this cost, when the chain stood at this head. That the ledger still says so is what ``verify`` checks.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from steelyard.account import Receipt
from steelyard.errors import InvalidTask
from steelyard.privacy import canonical

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PURPOSE = b"steelyard receipt 1\n"


@lru_cache(maxsize=16)
def _private_key(key: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(hmac.digest(key, _PURPOSE + b"signing key", hashlib.sha256))


def public_key(key: bytes) -> str:
    """The public half of a ledger's signing key, in hexadecimal."""
    return _private_key(key).public_key().public_bytes_raw().hex()


def message(receipt: Receipt) -> bytes:
    """What is signed: the purpose, and the receipt without its signature as canonical JSON."""
    return _PURPOSE + canonical(replace(receipt, signature="").to_json())


def sign(key: bytes, receipt: Receipt) -> Receipt:
    """The receipt with its signature; the same receipt always has the same one."""
    return replace(receipt, signature=_private_key(key).sign(message(receipt)).hex())


def verify_receipt(receipt: Receipt, public: str) -> bool:
    """Whether a receipt was signed by the ledger with this public key (``Ledger.public_key``); needs no ledger and no secret.

    >>> from steelyard.privacy import Loss
    >>> receipt = sign(bytes(32), Receipt(3, "0" * 64, Loss.pure("0.5"), "spend", "a ledger"))
    >>> verify_receipt(receipt, public_key(bytes(32))), verify_receipt(replace(receipt, sequence=4), public_key(bytes(32)))
    (True, False)
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        known = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public.strip()))
    except ValueError:
        raise InvalidTask(
            "a public key is 64 hexadecimal digits; steelyard ledger public-key LEDGER prints it."
        ) from None
    try:
        known.verify(bytes.fromhex(receipt.signature), message(receipt))
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True
