"""``--where``, ``--derive``, ``--join``, ``--view`` on releases, and ``steelyard ask "select ..."``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.cli._files import Outputs, add_overwrite, add_types, check_chart, key_of, open_table, told, waiting
from steelyard.errors import InvalidTask
from steelyard.interrupts import attempt
from steelyard.privacy import whole_number
from steelyard.requests import Reply, by_typed, keys_typed

if TYPE_CHECKING:
    from steelyard.requests import Asked
    from steelyard.tables import Table


def add_views(command: argparse.ArgumentParser) -> None:
    """The options that make a view of the table: joined, then derived, then filtered."""
    command.add_argument("--view", metavar="FILE.sql", help="a checked SELECT over the table, which it calls data")
    command.add_argument(
        "--join", action="append", metavar="FILE:COLUMN,…", help="the columns of a public file beside the table's own"
    )
    command.add_argument(
        "--derive",
        action="append",
        metavar="NAME=EXPRESSION",
        help="a column worked out from its row: revenue='n * price'",
    )
    command.add_argument("--where", metavar="CONDITION", help="keep the rows for which it holds: 'quantity > 0'")


def viewed(args: argparse.Namespace, table: Table) -> Table:
    """The view of a table that a command asks for."""
    if getattr(args, "view", None):
        table = _from_file(args.view, table)
    for text in getattr(args, "join", None) or []:
        table = _joined(text, table)
    derived = dict(_derived(text) for text in getattr(args, "derive", None) or [])
    table = table.derive(**derived) if derived else table
    return table.where(args.where) if getattr(args, "where", None) else table


def derived_names(args: argparse.Namespace) -> set[str]:
    """The columns that are not the file's own, as far as the options tell."""
    return {_derived(text)[0] for text in getattr(args, "derive", None) or []}


def _from_file(path: str, table: Table) -> Table:
    from steelyard.tables import view

    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidTask(f"there is no text to read at {path}.") from None
    return view(text, data=table)


def _joined(text: str, table: Table) -> Table:
    from steelyard.tables import public

    path, colon, names = text.rpartition(":")
    if not colon or not path or not names:
        raise InvalidTask(f"--join takes FILE:COLUMN, such as regions.csv:country; got {text!r}.")
    return table.join(public(path), on=names.split(","))


def _derived(text: str) -> tuple[str, str]:
    name, equals, expression = text.partition("=")
    if not equals or not name.strip():
        raise InvalidTask(f"--derive takes NAME=EXPRESSION, such as 'revenue=quantity * price'; got {text!r}.")
    return name.strip(), expression


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``ask``."""
    command = commands.add_parser("ask", parents=[shared], help="a question in SQL: select ... group by ...")
    command.add_argument("statement", help="a SELECT with aggregates; FROM data is the table")
    command.add_argument("data", help="a Parquet or CSV file, a glob of them, or a database URL")
    command.add_argument("--ledger", required=True, help="the ledger that holds the account")
    command.add_argument("--account", required=True, help="the account that pays")
    command.add_argument("--epsilon", help="how much of the account all aggregates together may spend")
    command.add_argument("--mu", help="the same on a Gaussian account, as mu")
    command.add_argument("--key", help="a name for this request, so that a retry is free")
    for name, words in (("cap", "the most one unit may add"), ("upper", "the largest total worth considering"), ("lower", "the least one unit may add"), ("over-cap", "the most of the lower sum of a ratio"), ("over-upper", "the largest such total")):  # fmt: skip
        command.add_argument(
            f"--{name}", action="append", help=f"{words}: a number for all, or NAME=NUMBER for one column"
        )
    command.add_argument("--keys", help="the public keys as CSV: FR,DE; or @FILE (.csv or .parquet)")
    command.add_argument("--max-keys", type=whole_number, help="at most this many keys per unit")
    command.add_argument("--others", action="store_true", help="one more row, for everything under none of the keys")
    command.add_argument("--chart", metavar="FILE", help="draw the answer: .svg, .png or .html")
    add_types(command)
    add_views(command)
    add_overwrite(command)
    command.set_defaults(run=_ask)


def _ask(args: argparse.Namespace) -> Reply:
    from steelyard.ledger import Ledger
    from steelyard.requests import ask
    from steelyard.session import Session

    check_chart(args)
    account = Ledger(args.ledger).account(args.account)
    with waiting("opening the table"):
        table = viewed(args, open_table(args))
        session = Session(table, account)
    options = {
        name: found
        for name in ("cap", "upper", "lower", "over_cap", "over_upper")
        if (found := _given(getattr(args, name))) is not None
    }
    options |= {} if args.max_keys is None else {"max_keys": args.max_keys}
    options |= {"others": True} if args.others else {}
    price = {"epsilon": args.epsilon, "mu": args.mu}
    if args.keys is not None:
        probe = ask(session, table, args.statement, **price, tables={}, options={**options, "max_keys": 1})
        kinds = probe.session.schema.columns
        options["keys"] = keys_typed(args.keys, by_typed(",".join(probe.keys)), kinds)
    asked = ask(session, table, args.statement, **price, tables={}, options=options)
    with Outputs(args, args.chart, inputs=(args.data, args.ledger)) as files:
        return _planned(asked) if args.plan else _answered(args, asked, files)


def _planned(asked: Asked) -> Reply:
    """What it would spend, the errors to expect, and how often the rows would be read."""
    found = attempt(asked.work)  # no plan fails because it cannot be rehearsed
    text, data = asked.plan(), asked.to_json()
    return Reply(text, data) if found is None else Reply(f"{text}\n{found[0]}", {**data, "work": found[0].to_json()})


def _answered(args: argparse.Namespace, asked: Asked, files: Outputs) -> Reply:
    """Pay, then draw what was asked for; whatever the file does, the answer is told."""
    key = key_of(args)
    with waiting("charging, reading and noising"):
        answers = asked.release(key)
    if args.chart:
        files.write(args.chart, answers.chart().save)
    data = {"rows": json.loads(json.dumps(answers.table.to_pylist(), default=str))}
    data["release"] = json.loads(answers.release.to_json()) | {"stored_on": answers.release.stored_on}
    problems = told(files.problems, key)
    return Reply("\n".join([str(answers), *problems]), data, exit_code=2 if problems else 0)


def _given(texts: list[str] | None) -> Any:
    """An option for all columns, or by name."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    pairs = [text.partition("=") for text in texts]
    if not all(name and equals and value for name, equals, value in pairs):
        raise InvalidTask("give one number for all columns, or NAME=NUMBER for each.")
    return {name: value for name, _, value in pairs}
