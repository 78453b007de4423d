"""``steelyard sum|count``: releases from a table on disk."""

from __future__ import annotations

import argparse
from typing import Any

from steelyard.cli.answer import Answer, columns, waiting


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add one command per kind of release."""
    total = commands.add_parser("sum", parents=[shared], help="a private sum of one column")
    total.add_argument("data", help="a Parquet or CSV file, or a glob of them")
    total.add_argument("column", help="the column to add up")
    total.add_argument("--cap", required=True, help="the most one unit may add (public knowledge)")
    total.add_argument("--lower", default="0", help="the least one unit may add, zero or below (default 0)")
    _payment(total)
    total.set_defaults(run=_sum)
    count = commands.add_parser("count", parents=[shared], help="a private count of rows")
    count.add_argument("data", help="a Parquet or CSV file, or a glob of them")
    count.add_argument("--cap", type=int, help="the most rows one unit may add; not needed where the unit is the row")
    _payment(count)
    count.set_defaults(run=_count)


def _payment(command: argparse.ArgumentParser) -> None:
    command.add_argument("--ledger", required=True, help="the ledger that holds the account")
    command.add_argument("--account", required=True, help="the account that pays")
    command.add_argument("--epsilon", help="how much of the account this release may spend")
    command.add_argument("--mu", help="the same on a Gaussian account, as mu")
    command.add_argument("--by", help="one total per key of this column")
    command.add_argument("--keys", help="the public keys, separated by commas")
    command.add_argument("--max-keys", type=int, help="at most this many keys per unit")
    command.add_argument("--rows-per-key", type=int, help="at most this many rows per unit and key")
    command.add_argument("--key", help="a name for this request, so that a retry is free")


def _sum(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import Sum

    return _release(args, Sum(args.column, cap=args.cap, lower=args.lower, **_common(args)))


def _count(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import Count

    return _release(args, Count(cap=args.cap, **_common(args)))


def _common(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "epsilon": args.epsilon,
        "mu": args.mu,
        "by": args.by,
        "keys": None if args.keys is None else args.keys.split(","),
        "max_keys": args.max_keys,
        "rows_per_key": args.rows_per_key,
    }


def _release(args: argparse.Namespace, task: Any) -> Answer:
    from steelyard.ledger import Ledger
    from steelyard.session import Session
    from steelyard.tables import read

    account = Ledger(args.ledger).account(args.account)
    with waiting("opening the table"):
        session = Session(read(args.data), account)
    if args.plan:
        cost, error = session.quote(task), task.predict(account.terms)
        enough = cost <= account.remaining
        text = columns(
            [
                ("would spend", str(cost)),
                ("left now", str(account.remaining)),
                ("enough", "yes" if enough else "no: it would be refused"),
                ("error", str(error)),
            ]
        )
        return Answer(text, {"cost": cost.to_json(), "enough": enough, "error": error.to_json()})
    with waiting("charging, reading and noising"):
        release = session.release(task, key=args.key)
    import json

    return Answer(_text(release.value, release), json.loads(release.to_json()))


def _text(value: Any, release: Any) -> str:
    shown = columns([(str(k), f"{v:,.6g}") for k, v in value.items()]) if isinstance(value, dict) else f"{value:,.10g}"
    receipt = release.receipt
    return (
        f"{shown}\n{release.error}\n{release.guarantee}\n"
        f"receipt: entry {receipt.sequence} of account {receipt.account}, head {receipt.head[:16]}…"
    )
