"""``steelyard sum|count|mean|quantile|…|together|profile|plan``: releases from a table on disk, and what a profile plans."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steelyard.cli._asking import add_views, derived_names, viewed
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
from steelyard.cli._reports import plan_report
from steelyard.errors import InvalidTask
from steelyard.privacy import figure, whole_number
from steelyard.requests import Reply, by_typed, columns, keys_typed

MINIMISE = ("mean", "relative", "total")  # as steelyard.bounding has them, which would be slow to import

if TYPE_CHECKING:
    from steelyard.plan import Task
    from steelyard.session import Session
    from steelyard.tables import Table


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add one command per kind of release, and ``plan``."""
    _add_totals(commands, shared)
    _add_counts(commands, shared)
    _add_values(commands, shared)
    _add_histogram(commands, shared)
    look = _command(commands, shared, "profile", "one private look at what units contribute; plans are free", _profile)
    look.add_argument("column", nargs="?", help="the column whose totals are looked at (leave out with --rows)")
    look.add_argument("--rows", action="store_true", help="look at numbers of rows instead of a column's totals")
    look.add_argument("--upper", required=True, help="the public largest total per unit worth considering")
    look.add_argument("--resolution", help="the smallest total worth telling apart")
    look.add_argument("--out", help="save the profile here, for --cap and for steelyard plan")
    _add_together(commands, shared)
    _add_plan(commands, shared)


def _add_totals(commands: Any, shared: argparse.ArgumentParser) -> None:
    total = _command(commands, shared, "sum", "a private sum of one column", _sum, "the column to add up")
    total.add_argument("--cap", default="auto", help="auto (default), a public number, or a saved profile")
    total.add_argument("--upper", help="with auto: the public largest total per unit worth considering")
    total.add_argument(
        "--lower", help="the least one unit may add: 0 where no total is negative (default: minus the cap)"
    )
    count = _command(commands, shared, "count", "a private count of rows", _count)
    count.add_argument("--cap", default="auto", help="auto (default), a public number of rows, or a saved profile")
    count.add_argument("--upper", help="with auto: the public largest number of rows per unit worth considering")
    for command in (total, count):
        _keyed(command)
        _minimised(command)
        command.add_argument("--rows-per-key", type=whole_number, help="at most this many rows per unit and key")
    _ratio_command(commands, shared)


def _add_counts(commands: Any, shared: argparse.ArgumentParser) -> None:
    people = _command(commands, shared, "count-users", "a private count of units, each once", _count_users)
    _minimised(people)
    kinds = _command(
        commands, shared, "count-distinct", "a private count of different values", _count_distinct, "the column"
    )
    kinds.add_argument("--cap", default="auto", help="the most values one unit counts for: auto (default) or a number")
    for command in (people, kinds):
        _keyed(command)
        command.set_defaults(numbers=())
    top = _command(
        commands, shared, "top-k", "the values that most units hold", _top_k, "the column, or several: country,product"
    )
    top.add_argument("--k", type=whole_number, default=10, help="how many values (default 10)")
    top.add_argument("--by", help="so many values under each key of these columns: country, or country,month")
    top.add_argument(
        "--keys", help="the public candidates as CSV, or @FILE (.csv or .parquet); with --by, the public keys"
    )
    top.add_argument("--values", help="with --by: the public candidates, in the same way")
    top.add_argument("--cap", type=whole_number, help="with --by: at most this many pairs of key and value per unit")
    top.add_argument(
        "--max-keys", type=whole_number, help="without --keys: at most this many values per unit; they are found"
    )
    top.set_defaults(numbers=())


def _add_values(commands: Any, shared: argparse.ArgumentParser) -> None:
    told = {"Mean": "mean", "Variance": "variance", "Std": "standard deviation", "Median": "median"}
    means = [
        _command(commands, shared, kind.lower(), f"a private {what} of one column", _of_values, "the column")
        for kind, what in told.items()
    ]
    for command, kind in zip(means, told, strict=True):
        command.set_defaults(kind=kind)
    spot = _command(commands, shared, "quantile", "private quantiles of one column", _quantile, "the column")
    spot.add_argument("--quantile", default="0.5", help="one or several, separated by commas (default 0.5)")
    for command in (*means, spot):
        _bounds(command)
        _keyed(command)
    for command in (means[-1], spot):
        _flanked(command)


def _add_histogram(commands: Any, shared: argparse.ArgumentParser) -> None:
    bars = _command(
        commands, shared, "histogram", "private counts between edges, or by values", _histogram, "the column"
    )
    bars.add_argument(
        "--edges", help="the public edges, ascending, separated by commas: numbers, or dates such as 2025-01-31"
    )
    bars.add_argument(
        "--values",
        help="the public values to count by, as CSV, or @FILE; without both, with --max-keys, they are found",
    )
    bars.add_argument(
        "--cap",
        default="auto",
        help="the most rows one unit may count for: auto (default), a number, or a saved profile of rows",
    )
    bars.add_argument("--ranges", action="store_true", help="noise a tree of counts, sharper for sums over many bins")
    bars.set_defaults(numbers=())
    _keyed(bars)


def _minimised(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--minimise",
        choices=MINIMISE,
        default="mean",
        help="by key, with a private cap: which error is to be small (default mean)",
    )


def _flanked(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--no-interval", action="store_true", help="spend everything on the answer, nothing on where the truth lies"
    )
    command.add_argument("--resolution", help="the smallest difference worth telling apart")


def _ratio_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    ratio = _command(commands, shared, "ratio", "a private sum over a private sum", _ratio, "the column above")
    ratio.add_argument("over", help="the column below")
    ratio.add_argument(
        "--cap", default="auto", help="of the column above: auto (default), a number, or a saved profile"
    )
    ratio.add_argument(
        "--over-cap", default="auto", help="of the column below: auto (default), a number, or a saved profile"
    )
    ratio.add_argument("--upper", help="with auto: the public largest total per unit worth considering")
    ratio.add_argument("--over-upper", help="the same of the column below")
    ratio.set_defaults(numbers=("column", "over"))
    _keyed(ratio)


def _add_together(commands: Any, shared: argparse.ArgumentParser) -> None:
    several = _command(commands, shared, "together", "several aggregates by the same keys, at one price", _together)
    several.add_argument(
        "--part",
        action="append",
        required=True,
        metavar="WORDS",
        help="an aggregate: its command, its columns, its options as name=value, such as 'mean amount lower=0 upper=200 cap=5'; "
        "repeat it for each. Without epsilon= of their own they share --epsilon equally",
    )
    several.set_defaults(numbers=None)
    _keyed(several)


def _add_plan(commands: Any, shared: argparse.ArgumentParser) -> None:
    plan = commands.add_parser("plan", parents=[shared], help="the best cap, or the price of a whole report; free")
    plan.add_argument(
        "profile", help="a profile saved by steelyard profile --out, or a report in TOML (docs/report.md)"
    )
    plan.add_argument("--epsilon", help="what the release will spend; of a report, the most it may cost")
    plan.add_argument("--unit", help="of a report: whom it hides, if the file does not say so (users:COLUMN, rows)")
    plan.add_argument("--ledger", help="of a report: plan it for an account of this ledger")
    plan.add_argument("--account", help="of a report: that account")
    plan.add_argument("--delta", help="with it the release is Gaussian")
    plan.add_argument("--mu", help="the same as mu")
    plan.add_argument("--keys", type=whole_number, default=1, help="how many keys the release will have (default 1)")
    plan.add_argument("--minimise", choices=MINIMISE, default="mean", help="by key: which error is to be small")
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
    add_views(command)
    add_overwrite(command)
    command.set_defaults(run=_release, make=make, numbers=("column",))
    return command


def _keyed(command: argparse.ArgumentParser) -> None:
    command.add_argument("--by", help="one answer per key of this column, or of several: country,month")
    command.add_argument("--keys", help="the public keys as CSV: FR,DE; or @FILE (.csv or .parquet)")
    command.add_argument(
        "--max-keys", type=whole_number, help="at most this many keys per unit; without --keys they are found"
    )
    command.add_argument("--others", action="store_true", help="one more answer, for everything under none of the keys")


def _bounds(command: argparse.ArgumentParser) -> None:
    command.add_argument("--lower", required=True, help="the public lower bound of one value, or auto: bought")
    command.add_argument("--upper", required=True, help="the public upper bound of one value, or auto: bought")
    command.add_argument(
        "--cap",
        default="auto",
        help="the most rows one unit may count for: auto (default), a number, or a saved profile of rows",
    )


def _sum(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Sum

    cap = {"cap": _cap(args.cap), "lower": args.lower, "upper": args.upper}
    return Sum(args.column, **_price(args), **cap, **_groups(args, table))


def _count(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Count

    return Count(**_price(args), cap=_cap(args.cap), upper=args.upper, **_groups(args, table))


def _of_values(args: argparse.Namespace, table: Table) -> Task:
    from steelyard import bounding

    facts: dict[str, Any] = {"lower": args.lower, "upper": args.upper, "cap": _row_cap(args.cap)}
    if args.kind == "Median":
        facts |= {"resolution": args.resolution, "interval": not args.no_interval}
    task: Task = getattr(bounding, args.kind)(args.column, **_price(args), **facts, **_keys(args, table))
    return task


def _count_users(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import CountUsers

    return CountUsers(**_price(args), **_keys(args, table), minimise=args.minimise)


def _count_distinct(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import CountDistinct

    cap = args.cap if args.cap == "auto" else whole_number(args.cap)
    return CountDistinct(args.column, **_price(args), cap=cap, **_keys(args, table))


def _ratio(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Ratio

    caps = {"cap": _cap(args.cap), "over_cap": _cap(args.over_cap), "upper": args.upper, "over_upper": args.over_upper}
    return Ratio(args.column, args.over, **_price(args), **caps, **_keys(args, table))


def _together(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.ledger import Ledger
    from steelyard.requests import together_typed

    terms = Ledger(args.ledger).account(args.account).terms
    task: Task = together_typed(args.part, _price(args), _keys(args, table), terms)
    return task


def _quantile(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Quantile

    asked = args.quantile.split(",")
    facts = {"lower": args.lower, "upper": args.upper, "cap": _row_cap(args.cap), "resolution": args.resolution}
    facts["interval"] = not args.no_interval
    quantile = asked if len(asked) > 1 else asked[0]
    return Quantile(args.column, **_price(args), quantile=quantile, **facts, **_keys(args, table))


def _histogram(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import Histogram

    facts = {"edges": args.edges.split(",") if args.edges else (), "cap": _row_cap(args.cap), "ranges": args.ranges}
    facts["values"] = keys_typed(args.values, args.column, table.columns)
    return Histogram(args.column, **_price(args), **facts, **_keys(args, table))


def _top_k(args: argparse.Namespace, table: Table) -> Task:
    from steelyard.bounding import TopK

    column: Any = by_typed(args.column)
    by = by_typed(args.by)
    more = {"by": by, "values": keys_typed(args.values, column, table.columns), "cap": args.cap}
    listed = keys_typed(args.keys, column if by is None else by, table.columns)
    return TopK(column, args.k, **_price(args), keys=listed, max_keys=args.max_keys, **more)


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


def _row_cap(text: str) -> Any:
    cap = _cap(text)
    return whole_number(cap) if isinstance(cap, str) and cap != "auto" else cap


def _groups(args: argparse.Namespace, table: Table) -> dict[str, Any]:
    limits = {"max_keys": args.max_keys, "rows_per_key": args.rows_per_key}
    return {**_keys(args, table), **limits, "minimise": args.minimise}


def _keys(args: argparse.Namespace, table: Table) -> dict[str, Any]:
    by = by_typed(args.by)
    listed = keys_typed(args.keys, by, table.columns)
    return {"by": by, "keys": listed, "max_keys": args.max_keys, "others": args.others}


def _release(args: argparse.Namespace) -> Reply:
    from steelyard.ledger import Ledger
    from steelyard.session import Session

    check_chart(args)
    account = Ledger(args.ledger).account(args.account)
    out = getattr(args, "out", None)
    with waiting("opening the table"):
        own = [] if args.view else [name for name in _numbers(args) if name not in derived_names(args)]
        table = viewed(args, open_table(args, own))
        session = Session(table, account)
    task = args.make(args, table)
    with Outputs(args, out, args.chart, inputs=(args.data, args.ledger, str(getattr(args, "cap", "")))) as files:
        return Reply.of_plan(session, task, work=True) if args.plan else _released(args, session, task, files)


def _numbers(args: argparse.Namespace) -> list[str]:
    """The columns that are added up, or laid between numbers: numbers in a file that states no types."""
    from steelyard.tables import as_written

    if args.numbers is None:
        from steelyard.requests import part_columns

        return part_columns(args.part)
    edges = (getattr(args, "edges", None) or "").split(",")
    if edges[0] and isinstance(as_written("date", edges[0]), str):
        return [args.column]
    return [name for name in (getattr(args, each, None) for each in args.numbers) if name]


def _released(args: argparse.Namespace, session: Session, task: Task, files: Outputs) -> Reply:
    """Pay, then write what was asked for; whatever the files do, the answer is told."""
    key, out = key_of(args), getattr(args, "out", None)
    with waiting("charging, reading and noising"):
        release = session.release(task, key=key)
    if out:
        files.write(out, release.value.save)
    if args.chart:
        files.write(args.chart, release.chart().save)
    return Reply.of_release(release, told(files.problems, key))


def _plan(args: argparse.Namespace) -> Reply:
    from steelyard.bounding import ContributionProfile

    if args.profile.lower().endswith(".toml"):
        return plan_report(args)
    for_report = [name for name in ("unit", "ledger", "account") if getattr(args, name) is not None]
    if for_report:
        raise InvalidTask(f"--{for_report[0]} is for a report (a file that ends in .toml); leave it out.")
    price, serving = {"mu": args.mu, "delta": args.delta}, {"keys": args.keys, "minimise": args.minimise}
    curve = ContributionProfile.load(args.profile).plan(args.epsilon, **price, **serving)
    best = curve.best
    check_chart(args)
    save_chart(args, lambda: curve.chart(f"Predicted from {args.profile}"), inputs=[args.profile])
    found = {"cap": best.cap, "noise": best.noise, "bias": best.bias, "error": best.error}
    lines = [("best cap" if name == "cap" else f"expected {name}", figure(value)) for name, value in found.items()]
    lines += [("error between", f"{figure(best.low)} and {figure(best.high)} at 95%, calibrated")]
    found |= {"low": best.low, "high": best.high}
    return Reply(columns(lines), {"best": found, "curve": curve.to_json()})
