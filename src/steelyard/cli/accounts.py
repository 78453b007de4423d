"""``steelyard account open|show|list``: budgets on a ledger."""

from __future__ import annotations

import argparse
from typing import Any

from steelyard.cli.answer import Answer, columns
from steelyard.errors import InvalidTask
from steelyard.ledger import Account, Ledger, open_account
from steelyard.privacy import Unit, decimal_text, holdout, labels, rows, users

Commands = Any  # argparse gives its sub-command table no public name


def add_commands(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add ``account`` and its three verbs."""
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


def read_unit(text: str) -> Unit:
    """``users:user_id``, ``users:user_id:1000``, ``rows``, ``rows:1000``, ``labels:y`` or ``holdout:name`` as a unit."""
    kind, _, rest = text.partition(":")
    column, _, count = rest.rpartition(":")
    if kind == "users" and column and count.isdigit():
        return users(column, neighbours="replace", n=int(count))
    if kind == "rows":
        if not rest:
            return rows()
        if not rest.isdigit():
            raise InvalidTask(f"--unit rows:N needs the public number of rows; got {rest!r}.")
        return rows(neighbours="replace", n=int(rest))
    makers = {"users": users, "labels": labels, "holdout": holdout}
    if kind not in makers or not rest:
        raise InvalidTask(f"--unit must be users:COLUMN[:N], rows[:N], labels:COLUMN or holdout:NAME; got {text!r}.")
    return makers[kind](rest)


def _open(args: argparse.Namespace) -> Answer:
    terms = {"epsilon": args.epsilon, "delta": args.delta, "additive_delta": args.additive_delta, "nats": args.nats}
    given = {name: value for name, value in terms.items() if value is not None}
    unit = read_unit(args.unit)
    account = open_account(":memory:" if args.plan else args.ledger, args.name, unit=unit, **given)
    answer = describe(account)
    if args.plan:
        return Answer(f"would open on {args.ledger}:\n{answer.text}", {"plan": answer.data})
    return answer


def _show(args: argparse.Namespace) -> Answer:
    return describe(Ledger(args.ledger).account(args.name))


def _list(args: argparse.Namespace) -> Answer:
    found = list(Ledger(args.ledger).accounts())
    if not found:
        return Answer("no accounts yet; open one with: steelyard account open", {"accounts": []})
    table: list[tuple[str, ...]] = [("account", "cap", "spent", "left", "hides")]
    table += [(a.name, str(a.terms.cap), str(a.spent), str(a.remaining), str(a.terms.unit)) for a in found]
    return Answer(columns(table), {"accounts": [describe(account).data for account in found]})


def describe(account: Account) -> Answer:
    """An account for people and for programs."""
    terms, spent, left = account.terms, account.spent, account.remaining
    promise = "" if terms.epsilon is None else f"epsilon {decimal_text(terms.epsilon)}"
    if terms.delta:
        promise += f", delta {decimal_text(terms.delta)}"
    lines = [
        ("account", account.name),
        ("promises", promise or str(terms.cap)),
        ("hides", str(terms.unit)),
        ("counts in", str(terms.currency)),
        ("cap", str(terms.cap)),
        ("spent", str(spent)),
        ("left", str(left)),
    ]
    data = {"account": account.name, "terms": terms.to_json(), "spent": spent.to_json(), "remaining": left.to_json()}
    return Answer(columns(lines), data)
