"""``steelyard ledger verify|accept|export``: is the ledger what was written, and what does it say?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from steelyard.cli.answer import Answer, waiting
from steelyard.documents import read_document
from steelyard.errors import InvalidTask, LedgerTampered
from steelyard.ledger import Ledger, Receipt


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``ledger`` and its three verbs."""
    verbs = commands.add_parser("ledger", help="verify and export the ledger").add_subparsers(
        metavar="VERB", required=True
    )
    verify = verbs.add_parser(
        "verify", parents=[shared], help="find edits, deletions, raised caps, low prices and restored backups"
    )
    verify.add_argument("ledger", help="a file such as budget.db, or a postgresql:// URL")
    verify.add_argument("--anchor", help="an anchor file kept elsewhere (default: the one beside the ledger)")
    verify.add_argument(
        "--receipt",
        action="append",
        default=[],
        metavar="FILE",
        help="a saved release or receipt that must be in the chain",
    )
    verify.set_defaults(run=_verify)
    accept = verbs.add_parser(
        "accept", parents=[shared], help="anchor a moved or restored ledger as it is, if its chain is whole"
    )
    accept.add_argument("ledger")
    accept.set_defaults(run=_accept)
    export = verbs.add_parser("export", parents=[shared], help="every entry, one JSON line each")
    export.add_argument("ledger")
    export.set_defaults(run=_export)


def _verify(args: argparse.Namespace) -> Answer:
    receipts = [_receipt(Path(name)) for name in args.receipt]
    with waiting("checking the chain"):
        report = Ledger(args.ledger).verify(anchor=args.anchor, receipts=receipts)
    if not report.ok:
        raise LedgerTampered(
            f"{len(report.findings)} finding(s) in {report.entries} entries: " + "; ".join(report.findings[:5]),
            findings=report.findings,
        )
    text = f"{report.entries} entries, chain whole, balances, caps and prices agree, anchor agrees.\nhead {report.head}"
    return Answer(text, {"ok": True, "entries": report.entries, "head": report.head})


def _accept(args: argparse.Namespace) -> Answer:
    ledger = Ledger(args.ledger)
    report = ledger.verify() if args.plan else ledger.accept()
    if args.plan:
        text = "would anchor the ledger as it is; what was spent after this copy was made would be forgotten"
        return Answer(text, {"ok": report.ok, "findings": list(report.findings)})
    if not report.ok:
        raise LedgerTampered(
            "not accepted, the chain is broken: " + "; ".join(report.findings[:5]), findings=report.findings
        )
    return Answer(f"accepted at entry {report.entries}, head {report.head}", {"ok": True, "entries": report.entries})


def _receipt(path: Path) -> Receipt:
    data = read_document(path, "a saved release or receipt")
    try:
        return Receipt.from_json(data.get("receipt", data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidTask(f"{path} is not a saved release or receipt ({type(error).__name__}).") from None


def _export(args: argparse.Namespace) -> Answer:
    lines = list(Ledger(args.ledger).export())
    return Answer("\n".join(lines), {"entries": [json.loads(line) for line in lines]})
