"""``steelyard account open|show|list`` and ``steelyard ledger verify|accept|export``: budgets, and the ledger that keeps them."""

from __future__ import annotations

import argparse
import json
from typing import Any

from steelyard.account import Receipt
from steelyard.cli._files import waiting
from steelyard.documents import load
from steelyard.errors import LedgerTampered
from steelyard.ledger import Ledger, open_account
from steelyard.requests import Reply, columns, unit_typed


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``account`` and ``ledger``, each with three verbs."""
    verbs = commands.add_parser("account", help="open, show and list budgets").add_subparsers(
        metavar="VERB", required=True
    )
    opened = verbs.add_parser("open", parents=[shared], help="open a budget, or re-open it on the same terms")
    opened.add_argument("ledger", help="a file such as budget.db, or a postgresql:// URL")
    opened.add_argument("name", help="the account's name")
    opened.add_argument(
        "--unit",
        required=True,
        help="whose presence is hidden: users:COLUMN, rows, labels:COLUMN; users:COLUMN:N, rows:N (replaced, N public)",
    )
    opened.add_argument("--epsilon", help="the cap; alone it makes a pure account")
    opened.add_argument("--delta", help="with it the account is Gaussian")
    opened.add_argument("--additive-delta", help="the part of delta set aside for steps that may fail")
    opened.add_argument("--nats", help="a validity account, with --unit holdout:NAME")
    opened.set_defaults(run=_open)
    show = verbs.add_parser("show", parents=[shared], help="what one account promises, has spent and has left")
    show.add_argument("ledger")
    show.add_argument("name")
    show.set_defaults(run=_show)
    listed = verbs.add_parser("list", parents=[shared], help="all accounts of a ledger")
    listed.add_argument("ledger")
    listed.set_defaults(run=_list)
    _add_ledger(commands, shared)


def _add_ledger(commands: Any, shared: argparse.ArgumentParser) -> None:
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


def _open(args: argparse.Namespace) -> Reply:
    terms = {"epsilon": args.epsilon, "delta": args.delta, "additive_delta": args.additive_delta, "nats": args.nats}
    given = {name: value for name, value in terms.items() if value is not None}
    unit = unit_typed(args.unit)
    account = open_account(":memory:" if args.plan else args.ledger, args.name, unit=unit, **given)
    answer = Reply.of_account(account)
    if args.plan:
        return Reply(f"would open on {args.ledger}:\n{answer.text}", {"plan": answer.data})
    return answer


def _show(args: argparse.Namespace) -> Reply:
    return Reply.of_account(Ledger(args.ledger).account(args.name))


def _list(args: argparse.Namespace) -> Reply:
    found = list(Ledger(args.ledger).accounts())
    if not found:
        return Reply("no accounts yet; open one with: steelyard account open", {"accounts": []})
    table: list[tuple[str, ...]] = [("account", "cap", "spent", "left", "hides")]
    table += [(a.name, str(a.terms.cap), str(a.spent), str(a.remaining), str(a.terms.unit)) for a in found]
    return Reply(columns(table), {"accounts": [Reply.of_account(account).data for account in found]})


def _verify(args: argparse.Namespace) -> Reply:
    receipts = [load(Receipt, name, "a saved release or receipt", "receipt") for name in args.receipt]
    with waiting("checking the chain"):
        report = Ledger(args.ledger).verify(anchor=args.anchor, receipts=receipts)
    if not report.ok:
        raise LedgerTampered(
            f"{len(report.findings)} finding(s) in {report.entries} entries: " + "; ".join(report.findings[:5]),
            findings=report.findings,
        )
    text = f"{report.entries} entries, chain whole, balances, caps and prices agree, anchor agrees.\nhead {report.head}"
    return Reply(text, {"ok": True, "entries": report.entries, "head": report.head})


def _accept(args: argparse.Namespace) -> Reply:
    ledger = Ledger(args.ledger)
    report = ledger.verify() if args.plan else ledger.accept()
    if args.plan:
        text = "would anchor the ledger as it is; what was spent after this copy was made would be forgotten"
        return Reply(text, {"ok": report.ok, "findings": list(report.findings)})
    if not report.ok:
        raise LedgerTampered(
            "not accepted, the chain is broken: " + "; ".join(report.findings[:5]), findings=report.findings
        )
    return Reply(f"accepted at entry {report.entries}, head {report.head}", {"ok": True, "entries": report.entries})


def _export(args: argparse.Namespace) -> Reply:
    lines = list(Ledger(args.ledger).export())
    return Reply("\n".join(lines), {"entries": [json.loads(line) for line in lines]})
