"""``steelyard sum|count|mean|quantile|histogram|profile|plan``: releases from a table on disk, and what a profile plans."""

from __future__ import annotations

import argparse
from collections.abc import Callable
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
from steelyard.privacy import whole_number
from steelyard.release import figure
from steelyard.requests import Reply, columns, key_typed, release_chart

if TYPE_CHECKING:
    from steelyard.session import Session, Task
    from steelyard.tables import Table


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add one command per kind of release, and ``plan``."""
    total = _command(commands, shared, "sum", "a private sum of one column", _sum, "the column to add up")
    total.add_argument("--cap", default="auto", help="auto (default), a public number, or a saved profile")
    total.add_argument("--upper", help="with auto: the public largest total per unit worth considering")
    total.add_argument("--lower", default="0", help="the least one unit may add, zero or below (default 0)")
    count = _command(commands, shared, "count", "a private count of rows", _count)
    count.add_argument("--cap", default="auto", help="auto (default), a public number of rows, or a saved profile")
    count.add_argument("--upper", help="with auto: the public largest number of rows per unit worth considering")
    for command in (total, count):
        _keyed(command)
        command.add_argument("--max-keys", type=whole_number, help="at most this many keys per unit")
        command.add_argument("--rows-per-key", type=whole_number, help="at most this many rows per unit and key")
    mean = _command(commands, shared, "mean", "a private mean of one column", _mean, "the column to average")
    _bounds(mean)
    spot = _command(commands, shared, "quantile", "private quantiles of one column", _quantile, "the column")
    _bounds(spot)
    spot.add_argument("--quantile", default="0.5", help="one or several, separated by commas (default 0.5)")
    spot.add_argument("--resolution", help="the smallest difference worth telling apart")
    for command in (mean, spot):
        _keyed(command)
    bars = _command(commands, shared, "histogram", "private counts between public edges", _histogram, "the column")
    bars.add_argument("--edges", required=True, help="the public edges, ascending, separated by commas")
    bars.add_argument("--cap", type=whole_number, help="the most rows one unit may count for")
    bars.add_argument("--ranges", action="store_true", help="noise a tree of counts, sharper for sums over many bins")
    _keyed(bars)
    look = _command(commands, shared, "profile", "one private look at what units contribute; plans are free", _profile)
    look.add_argument("column", nargs="?", help="the column whose totals are looked at (leave out with --rows)")
    look.add_argument("--rows", action="store_true", help="look at numbers of rows instead of a column's totals")
    look.add_argument("--upper", required=True, help="the public largest total per unit worth considering")
    look.add_argument("--resolution", help="the smallest total worth telling apart")
    look.add_argument("--out", help="save the profile here, for --cap and for steelyard plan")
    _add_plan(commands, shared)


def _add_plan(commands: Any, shared: argparse.ArgumentParser) -> None:
    plan = commands.add_parser("plan", parents=[shared], help="the best cap for an epsilon, from a saved profile; free")
    plan.add_argument("profile", help="a profile saved by steelyard profile --out")
    plan.add_argument("--epsilon", help="what the release will spend")
    plan.add_argument("--delta", help="with it the release is Gaussian")
    plan.add_argument("--mu", help="the same as mu")
    plan.add_argument("--chart", metavar="FILE", help="draw the trade-off: .svg, .png or .html")
    add_overwrite(plan)
    plan.set_defaults(run=_plan)


def _command(
    commands: Any, shared: Any, name: str, told: str, make: Callable[..., Task], column: str = ""
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, parents=[shared], help=told)
    command.add_argument("data", help="a Parquet or CSV file, a glob of them, or a database URL")
    if column:
        command.add_argument("column", help=column)
    command.add_argument("--ledger", required=True, help="the ledger that holds the account")
    command.add_argument("--account", required=True, help="the account that pays")
    command.add_argument("--epsilon", help="how much of the account this release may spend")
    command.add_argument("--mu", help="the same on a Gaussian account, as mu")
    command.add_argument("--key", help="a name for this request, so that a retry is free")
    command.add_argument("--chart", metavar="FILE", help="draw the answer: .svg, .png or .html")
    add_types(command)
    add_overwrite(command)
    command.set_defaults(run=_release, make=make)
    return command


def _keyed(command: argparse.ArgumentParser) -> None:
    command.add_argument("--by", help="one answer per key of this column")
    command.add_argument("--keys", help="the public keys, separated by commas")


def _bounds(command: argparse.ArgumentParser) -> None:
    command.add_argument("--lower", required=True, help="the public lower bound of one value")
    command.add_argument("--upper", required=True, help="the public upper bound of one value")
    command.add_argument(
        "--cap", type=whole_number, help="the most rows one unit may count for; not needed where it is the row"
    )


def _sum(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Sum

    cap = {"cap": _cap(args.cap), "lower": args.lower, "upper": args.upper}
    return Sum(args.column, **_price(args), **cap, **_groups(args, table))


def _count(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Count

    return Count(**_price(args), cap=_cap(args.cap), upper=args.upper, **_groups(args, table))


def _mean(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Mean

    bounds = {"lower": args.lower, "upper": args.upper, "cap": args.cap}
    return Mean(args.column, **_price(args), **bounds, **_keys(args, table))


def _quantile(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Quantile

    asked = args.quantile.split(",")
    facts = {"lower": args.lower, "upper": args.upper, "cap": args.cap, "resolution": args.resolution}
    quantile = asked if len(asked) > 1 else asked[0]
    return Quantile(args.column, **_price(args), quantile=quantile, **facts, **_keys(args, table))


def _histogram(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Histogram

    facts = {"edges": args.edges.split(","), "cap": args.cap, "ranges": args.ranges}
    return Histogram(args.column, **_price(args), **facts, **_keys(args, table))


def _profile(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Profile

    return Profile(args.column, **_price(args), upper=args.upper, resolution=args.resolution, rows=args.rows)


def _price(args: argparse.Namespace) -> dict[str, Any]:
    return {"epsilon": args.epsilon, "mu": args.mu}


def _cap(text: str) -> Any:
    if not text.endswith(".json"):
        return text
    from steelyard.bounding import ContributionProfile

    return ContributionProfile.load(text)


def _groups(args: argparse.Namespace, table: Table) -> dict[str, Any]:
    return {**_keys(args, table), "max_keys": args.max_keys, "rows_per_key": args.rows_per_key}


def _keys(args: argparse.Namespace, table: Table) -> dict[str, Any]:
    kind = table.columns.get(args.by, "string")
    keys = None if args.keys is None else [key_typed(key, args.by, kind) for key in args.keys.split(",")]
    return {"by": args.by, "keys": keys}


def _release(args: argparse.Namespace) -> Reply:
    from steelyard.ledger import Ledger
    from steelyard.session import Session

    check_chart(args)
    account = Ledger(args.ledger).account(args.account)
    column, out = getattr(args, "column", None), getattr(args, "out", None)
    with waiting("opening the table"):
        table = open_table(args, [column] if column else [])
        session = Session(table, account)
    task = args.make(args, table)
    with Outputs(args, out, args.chart, inputs=(args.data, args.ledger, str(getattr(args, "cap", "")))) as files:
        return Reply.of_plan(session, task) if args.plan else _released(args, session, task, files)


def _released(args: argparse.Namespace, session: Session, task: Task, files: Outputs) -> Reply:
    """Pay, then write what was asked for; whatever the files do, the answer is told."""
    key, out = key_of(args), getattr(args, "out", None)
    with waiting("charging, reading and noising"):
        release = session.release(task, key=key)
    if out:
        files.write(out, release.value.save)
    if args.chart:
        files.write(args.chart, release_chart(release).save)
    return Reply.of_release(release, told(files.problems, key))


def _plan(args: argparse.Namespace) -> Reply:
    from steelyard.bounding import ContributionProfile

    curve = ContributionProfile.load(args.profile).plan(args.epsilon, mu=args.mu, delta=args.delta)
    best = curve.best
    check_chart(args)
    save_chart(args, lambda: curve.chart(f"Predicted from {args.profile}"), inputs=[args.profile])
    found = {"cap": best.cap, "noise": best.noise, "bias": best.bias, "error": best.error}
    lines = [("best cap" if name == "cap" else f"expected {name}", figure(value)) for name, value in found.items()]
    lines += [("error between", f"{figure(best.low)} and {figure(best.high)} at 95%, calibrated")]
    found |= {"low": best.low, "high": best.high}
    return Reply(columns(lines), {"best": found, "curve": curve.to_json()})
