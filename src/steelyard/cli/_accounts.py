"""``steelyard account open|show|list|enter`` and ``steelyard ledger verify|accept|grant|upgrade|export|public-key|verify-receipt``: budgets, and the ledger that keeps them."""

from __future__ import annotations

import argparse
import json
from typing import Any

from steelyard.account import Receipt
from steelyard.accounting import price
from steelyard.cli._files import waiting
from steelyard.cli._keeping import add_verbs
from steelyard.documents import load
from steelyard.errors import LedgerTampered
from steelyard.ledger import Ledger, grant, open_account, upgrade, verify_receipt
from steelyard.outside import enter, stated
from steelyard.requests import Reply, columns, unit_typed


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``account`` and ``ledger``, with their verbs."""
    verbs = commands.add_parser(
        "account", help="open, show, divide and keep budgets, and see what they were spent on"
    ).add_subparsers(metavar="VERB", required=True)
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
    outside = verbs.add_parser(
        "enter", parents=[shared], help="charge for a private run done elsewhere, before it is done"
    )
    outside.add_argument("ledger")
    outside.add_argument("name")
    outside.add_argument("--what", required=True, help="in public words, what is done elsewhere")
    outside.add_argument("--epsilon", help="the guarantee it states, with --delta, or --mu")
    outside.add_argument("--delta", default="0", help="charged whole to what the account sets aside")
    outside.add_argument("--mu", help="if it is mu-GDP, for every epsilon at once")
    outside.add_argument("--key", help="a name for the run, so that entering it again is free")
    outside.set_defaults(run=_enter)
    add_verbs(verbs, shared)
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
    signed = verbs.add_parser(
        "verify-receipt",
        parents=[shared],
        help="check the signature of a receipt with a public key alone, without the ledger",
    )
    signed.add_argument("receipt", help="a saved release or receipt")
    signed.add_argument("--public-key", required=True, help="what steelyard ledger public-key prints")
    signed.set_defaults(run=_verify_receipt)
    public = verbs.add_parser("public-key", parents=[shared], help="the key with which anybody can check receipts")
    public.add_argument("ledger")
    public.set_defaults(run=_public_key)
    allow = verbs.add_parser(
        "grant", parents=[shared], help="PostgreSQL: let a role read the ledger, spend on it, or keep it"
    )
    allow.add_argument("ledger", help="a postgresql:// URL of whoever owns the ledger's tables")
    allow.add_argument("role", help="a role of the database; made, without a login, where there is none")
    allow.add_argument(
        "--may", choices=("read", "spend", "keep"), default="spend",
        help="spend (default): no accounts are opened; keep: open, freeze and close them too",
    )  # fmt: skip
    allow.set_defaults(run=_grant)
    forward = verbs.add_parser(
        "upgrade", parents=[shared], help="bring a ledger of format 1 forward, in place, if every check of it passes"
    )
    forward.add_argument("ledger")
    forward.set_defaults(run=_upgrade)
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


def _enter(args: argparse.Namespace) -> Reply:
    account = Ledger(args.ledger).account(args.name)
    if args.plan:
        cost = price(stated(args.epsilon, args.delta, args.mu, account.terms.unit.neighbours), account.terms)
        return Reply(f"would cost {cost}, of which {account.remaining} is left", {"plan": {"cost": str(cost)}})
    release = enter(account, args.what, epsilon=args.epsilon, delta=args.delta, mu=args.mu, key=args.key)
    return Reply(f"entered: {args.what}\n{release.guarantee}", json.loads(release.to_json()))


def _list(args: argparse.Namespace) -> Reply:
    found = list(Ledger(args.ledger).accounts())
    if not found:
        return Reply("no accounts yet; open one with: steelyard account open", {"accounts": []})
    told = [dict(account.statement()) for account in found]
    more = [name for name in ("below", "state") if any(name in each for each in told)]
    names = ("account", "cap", "spent", "left", "hides", *more)
    table: list[tuple[str, ...]] = [names]
    table += [tuple(each.get(name, {"state": "open"}.get(name, "")) for name in names) for each in told]
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


def _verify_receipt(args: argparse.Namespace) -> Reply:
    receipt: Receipt = load(Receipt, args.receipt, "a saved release or receipt", "receipt")
    if not verify_receipt(receipt, args.public_key):
        raise LedgerTampered(f"{args.receipt} was not signed with the key that belongs to this public key.")
    said = f"entry {receipt.sequence} of account {receipt.account}: {receipt.cost}, ledger {receipt.ledger_id}"
    return Reply(f"signed: {said}", {"ok": True, "receipt": receipt.to_json()})


def _public_key(args: argparse.Namespace) -> Reply:
    key = Ledger(args.ledger).public_key
    return Reply(key, {"public_key": key})


def _grant(args: argparse.Namespace) -> Reply:
    if args.plan:
        return Reply(f"would let the role {args.role} {args.may}", {"plan": {"role": args.role, "may": args.may}})
    grant(args.ledger, args.role, args.may)
    return Reply(f"the role {args.role} may {args.may}; noted on the chain", {"role": args.role, "may": args.may})


def _upgrade(args: argparse.Namespace) -> Reply:
    if args.plan:
        return Reply(f"would check {args.ledger} in full and bring it to the present format", {"plan": "upgrade"})
    with waiting("checking the chain"):
        report = upgrade(args.ledger)
    text = f"{report.entries} entries, every check passed; the ledger is of the present format.\nhead {report.head}"
    return Reply(text, {"ok": True, "entries": report.entries, "head": report.head})


def _export(args: argparse.Namespace) -> Reply:
    lines = list(Ledger(args.ledger).export())
    return Reply("\n".join(lines), {"entries": [json.loads(line) for line in lines]})
