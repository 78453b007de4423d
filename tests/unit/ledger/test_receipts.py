"""A receipt is signed: anybody can check it with the public key, and nothing in it can be changed unseen."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.account import Receipt
from steelyard.cli import main
from steelyard.errors import InvalidTask
from steelyard.ledger import Account, Ledger, open_account, verify_receipt
from steelyard.privacy import Currency, Loss, rows

SCRIPT = Path(__file__).parents[3] / "clients" / "python" / "verify_receipt.py"


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return open_account(tmp_path / "budget.db", "a", unit=rows(), epsilon="1")


@pytest.fixture
def receipt(account: Account) -> Receipt:
    return account.charge(Loss.pure("0.25"), key="k", request=b"sum").receipt


def test_a_receipt_is_signed_and_the_same_on_every_replay(account: Account, receipt: Receipt) -> None:
    ledger = Ledger(account.location)
    assert verify_receipt(receipt, ledger.public_key)
    again = account.charge(Loss.pure("0.25"), key="k", request=b"sum").receipt
    assert again.to_json() == receipt.to_json()
    assert Receipt.from_json(json.loads(json.dumps(receipt.to_json()))).signature == receipt.signature != ""
    assert ledger.verify(receipts=[receipt]).ok


@pytest.mark.parametrize("change", [
    {"sequence": 4}, {"head": "a" * 64}, {"cost": Loss.pure("0.2")}, {"cost": Loss.mu("0.5")}, {"account": "b"}, {"ledger_id": "x"},
    {"signature": ""}, {"signature": "00" * 64}, {"signature": "no hexadecimal"}, {"signature": None},
    *({"signature": "", "cost": cost} for cost in (Loss(Currency.PURE, 250_000, 1), Loss(Currency.GAUSSIAN, 250_000))),
])  # fmt: skip
def test_nothing_in_a_receipt_can_be_changed_unseen(
    account: Account, receipt: Receipt, change: dict[str, object]
) -> None:
    forged = replace(receipt, **change)  # type: ignore[arg-type]
    assert not verify_receipt(forged, Ledger(account.location).public_key)
    assert Ledger(account.location).verify(receipts=[forged]).ok is (change in ({"signature": ""}, {"signature": None}))


def test_only_what_was_charged_has_a_receipt(account: Account, receipt: Receipt) -> None:
    charge = account.charge(Loss.pure("0.25"), key="k", request=b"sum")
    charge.store(b"1")
    charge.raise_to(Loss.pure("0.5"))
    ledger = Ledger(account.location)
    assert ledger.verify(receipts=[receipt, charge.receipt]).ok
    for entry in ledger.entries():
        made = Receipt(entry.sequence, entry.mac, Loss(Currency.PURE, entry.amount), entry.account, ledger.id)
        assert ledger.verify(receipts=[made]).ok is (entry.kind in ("charge", "raise"))


def test_another_ledgers_key_does_not_check_it(receipt: Receipt, tmp_path: Path) -> None:
    other = open_account(tmp_path / "other.db", "a", unit=rows(), epsilon="1")
    assert not verify_receipt(receipt, Ledger(other.location).public_key)
    for wrong in ("", "xyz", "ab" * 31):
        with pytest.raises(InvalidTask, match="64 hexadecimal"):
            verify_receipt(receipt, wrong)


def test_the_public_key_is_not_the_secret_one_and_does_not_change(account: Account) -> None:
    secret = Path(f"{account.location}.key").read_text().strip()
    public = Ledger(account.location).public_key
    assert (public == Ledger(account.location).public_key, public == secret, len(public)) == (True, False, 64)


def test_a_ledger_in_memory_signs_nothing_and_a_receipt_of_before_is_still_read() -> None:
    receipt = open_account(":memory:", "a", unit=rows(), epsilon=1).charge(Loss.pure(1), key="k", request=b"").receipt
    assert "signature" not in receipt.to_json()
    assert Receipt.from_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("whole", [True, False])
def test_the_script_and_the_command_agree(
    account: Account, receipt: Receipt, tmp_path: Path, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, public = tmp_path / "receipt.json", Ledger(account.location).public_key
    assert main(["ledger", "public-key", account.location]) == 0
    assert capsys.readouterr().out.strip() == public
    for forged, expected in ((receipt, 0), (replace(receipt, sequence=9), 1)):
        saved.write_text(json.dumps({"receipt": forged.to_json()} if whole else forged.to_json()))
        done = subprocess.run([sys.executable, SCRIPT, saved, public], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.startswith("signed")) == (expected, expected == 0)
        assert main(["ledger", "verify-receipt", str(saved), "--public-key", public]) == 4 * expected
