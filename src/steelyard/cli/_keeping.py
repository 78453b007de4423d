"""``steelyard account history|report|share|freeze|unfreeze|close|note``: what a budget was spent on, and acts of whoever keeps it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steelyard.cli._files import Outputs, add_overwrite, waiting
from steelyard.errors import InvalidTask
from steelyard.ledger import Ledger, open_account
from steelyard.requests import Reply, columns

if TYPE_CHECKING:
    from steelyard.ledger import Account

_ACTS = {
    "freeze": "refuse charges to an account and below it, until it is unfrozen",
    "unfreeze": "let a frozen account be charged again",
    "close": "refuse charges to an account and below it, for good; nothing is refunded",
}


def add_verbs(verbs: Any, shared: argparse.ArgumentParser) -> None:
    """Add the verbs to ``account``."""
    history = _verb(
        verbs, shared, "history", "every charge to an account and below it: when, who, what, at what cost", _history
    )
    history.add_argument("--last", type=int, metavar="N", help="the last N charges only")
    report = _verb(
        verbs, shared, "report", "the same as a page for a privacy officer, with verification and receipts", _report
    )
    report.add_argument(
        "--out", required=True, metavar="FILE", help="where the page is written: a name that ends in .html"
    )
    add_overwrite(report)
    share = _verb(verbs, shared, "share", "open an account below another, with a cap of its own", _share)
    share.add_argument("share", help="the name of the new account")
    share.add_argument("--epsilon", help="its cap, at most that of the account above")
    share.add_argument("--mu", help="its cap in mu, below a Gaussian account")
    share.add_argument("--additive-delta", help="its part of the delta that is set aside")
    for name, words in _ACTS.items():
        act = _verb(verbs, shared, name, words, _act)
        act.add_argument("--why", default="", help="a reason, written on the chain")
        act.add_argument("--person", help="who does it (default: STEELYARD_PERSON, or the system user)")
        act.set_defaults(act=name)
    note = _verb(verbs, shared, "note", "write a note on the chain, of an account", _note)
    note.add_argument("text", help="what is to be remembered; nothing that depends on private rows")
    note.add_argument("--act", default="note", help="what was done, in a word or two")
    note.add_argument("--person", help="who writes it (default: STEELYARD_PERSON, or the system user)")
    note.add_argument("--key", help="a name for the note, so that writing it again changes nothing")


def _verb(
    verbs: Any, shared: argparse.ArgumentParser, name: str, words: str, run: Callable[[argparse.Namespace], Reply]
) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, parents=[shared], help=words)
    verb.add_argument("ledger", help="a file such as budget.db, or a postgresql:// URL")
    verb.add_argument("name", help="the account's name")
    verb.set_defaults(run=run)
    return verb


def _account(args: argparse.Namespace) -> Account:
    account = Ledger(args.ledger).account(args.name)
    return account.by(args.person) if getattr(args, "person", None) else account


def _history(args: argparse.Namespace) -> Reply:
    from steelyard.requests import spending_rows

    if args.last is not None and args.last < 1:
        raise InvalidTask("--last takes a number from 1 on.")
    account = _account(args)
    spent = account.history()[-(args.last or 0) :]
    data = [
        {"at": each.at, "account": each.account, "person": each.person, "key": each.key, "task": each.task,
         "table": each.table, "view": each.view, "answered": each.answered, "receipt": each.receipt.to_json()}
        for each in spent
    ]  # fmt: skip
    text = columns(spending_rows(spent, account)) if spent else "nothing was charged yet"
    return Reply(text, {"account": account.name, "charges": data})


def _report(args: argparse.Namespace) -> Reply:
    from steelyard.requests import spending_report

    if not args.out.lower().endswith(".html"):
        raise InvalidTask("--out takes a name that ends in .html.")
    ledger = Ledger(args.ledger)
    account = ledger.account(args.name)
    if args.plan:
        return Reply(f"would write what {args.name} was spent on to {args.out}", {"plan": "report"})
    with Outputs(args, args.out, inputs=(args.ledger,)) as files, waiting("checking the chain"):
        files.write_now(args.out, spending_report(ledger, account).save)
    return Reply(f"written: {args.out}", {"out": args.out})


def _share(args: argparse.Namespace) -> Reply:
    given = {name: getattr(args, name) for name in ("epsilon", "mu", "additive_delta")}
    if args.plan:
        left = Ledger(args.ledger).account(args.name).remaining
        return Reply(f"would open {args.share} below {args.name}, which has {left} left", {"plan": given})
    return Reply.of_account(open_account(args.ledger, args.share, parent=args.name, **given))


def _act(args: argparse.Namespace) -> Reply:
    account = _account(args)
    if args.plan:
        return Reply(
            f"would {args.act} {args.name}, which is {account.state}", {"plan": args.act, "state": account.state}
        )
    getattr(account, args.act)(args.why)
    return Reply.of_account(account)


def _note(args: argparse.Namespace) -> Reply:
    account = _account(args)
    if args.plan:
        return Reply("would write the note", {"plan": "note"})
    sequence = account.note(args.text, act=args.act, key=args.key)
    return Reply(f"noted: entry {sequence}", {"entry": sequence})
