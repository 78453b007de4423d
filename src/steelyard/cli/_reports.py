"""``steelyard report``, and ``steelyard plan`` of a report: a whole report within its tolerances at the least price."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from steelyard.cli._files import (
    Outputs,
    add_overwrite,
    add_types,
    check_chart,
    key_of,
    open_table,
    save_chart,
    told,
    waiting,
)
from steelyard.errors import InvalidTask
from steelyard.privacy import Loss
from steelyard.requests import Reply

if TYPE_CHECKING:
    from steelyard.account import Account
    from steelyard.bounding import Division


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``report``."""
    command = commands.add_parser(
        "report", parents=[shared], help="every number of a report within its tolerance, as one release"
    )
    command.add_argument("data", help="a Parquet or CSV file, a glob of them, or a database URL")
    command.add_argument("report", help="the report as TOML: numbers with tolerances (docs/report.md)")
    command.add_argument("--ledger", required=True, help="the ledger that holds the account")
    command.add_argument("--account", required=True, help="the account that pays")
    command.add_argument("--key", help="a name for this request, so that a retry is free")
    command.add_argument("--chart", metavar="FILE", help="draw the answer: .svg, .png or .html")
    add_types(command)
    add_overwrite(command)
    command.set_defaults(run=_report)


def _report(args: argparse.Namespace) -> Reply:
    from steelyard.ledger import Ledger
    from steelyard.requests import read_report, summed_columns
    from steelyard.session import Session

    check_chart(args)
    plan, _ = read_report(args.report)
    account = Ledger(args.ledger).account(args.account)
    with waiting("opening the table"):
        session = Session(open_table(args, summed_columns(plan)), account)
    with Outputs(args, args.chart, inputs=(args.data, args.ledger, args.report)) as files:
        if args.plan:
            division: Any = session.plan(plan)
            return _told(division, account)
        key = key_of(args)
        with waiting("planning, charging, reading and noising"):
            release = session.release(plan, key=key)
        if args.chart:
            files.write(args.chart, release.chart().save)
        return Reply.of_release(release, told(files.problems, key))


def plan_report(args: argparse.Namespace) -> Reply:
    """What a report would cost and how that is divided, without a table; on the terms of an account or of the file."""
    from steelyard.ledger import Ledger
    from steelyard.requests import paper_schema, read_report, report_terms

    check_chart(args)
    if args.mu is not None or args.keys != 1:
        raise InvalidTask("--mu and --keys are for a profile; a report finds its own price and knows its keys.")
    if (args.ledger is None) != (args.account is None):
        raise InvalidTask("give both --ledger and --account, or neither.")
    plan, given = read_report(args.profile)
    account = None if args.ledger is None else Ledger(args.ledger).account(args.account)
    terms = report_terms(given, args.unit, args.delta) if account is None else account.terms
    division = plan.plan(paper_schema(plan, terms.unit), terms)
    save_chart(args, division.chart, inputs=[args.profile])
    return _told(division, account, args.epsilon)


def _told(division: Division, account: Account | None, most: str | None = None) -> Reply:
    lines, data = [str(division)], division.to_json()
    enough = None if account is None else division.cost <= account.remaining
    if most is not None:
        whole = division.epsilon if division.epsilon is not None else float(division.cost.value)
        enough = whole <= float(Loss.pure(most).value) and enough is not False
    if enough is not None:
        left = "" if account is None else f"; left now {account.remaining}"
        lines.append(f"enough: {'yes' if enough else 'no: loosen or drop what is expensive'}{left}")
        data["enough"] = enough
    return Reply("\n".join(lines), data)
