"""Check a steelyard receipt with nothing but the ledger's public key: python verify_receipt.py RELEASE.json PUBLIC_KEY

Needs Python and the package ``cryptography``; steelyard itself is not needed. RELEASE.json is a saved release or a receipt.
"""

import json
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def main(path: str, public_key: str) -> int:
    """Print what the receipt says, and whether that ledger signed it."""
    with open(path, encoding="utf-8") as file:
        saved = json.load(file)
    receipt = saved.get("receipt", saved)
    signature = bytes.fromhex(receipt.pop("signature", ""))
    said = json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(signature, b"steelyard receipt 1\n" + said.encode())
    except InvalidSignature:
        print("not signed by this ledger")
        return 1
    print(f"signed by this ledger: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
