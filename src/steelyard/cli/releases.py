"""``steelyard sum|count|mean|quantile|histogram|profile``: releases from a table on disk."""

from __future__ import annotations

import argparse
import json
from typing import Any

from steelyard.cli.answer import Answer, columns, waiting
from steelyard.cli.files import Outputs, add_overwrite, add_types, key_of, open_table, told
from steelyard.errors import InvalidTask
from steelyard.privacy import exact, whole_number


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add one command per kind of release."""
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


def _command(commands: Any, shared: Any, name: str, told: str, run: Any, column: str = "") -> argparse.ArgumentParser:
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
    command.set_defaults(run=run)
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


def _sum(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import Sum

    cap = {"cap": _cap(args.cap), "lower": args.lower, "upper": args.upper}
    return _release(args, lambda table: Sum(args.column, **_price(args), **cap, **_groups(args, table)))


def _count(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import Count

    cap = {"cap": _cap(args.cap), "upper": args.upper}
    return _release(args, lambda table: Count(**_price(args), **cap, **_groups(args, table)))


def _mean(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import Mean

    bounds = {"lower": args.lower, "upper": args.upper, "cap": args.cap}
    return _release(args, lambda table: Mean(args.column, **_price(args), **bounds, **_keys(args, table)))


def _quantile(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import Quantile

    asked = args.quantile.split(",")
    facts = {"lower": args.lower, "upper": args.upper, "cap": args.cap, "resolution": args.resolution}
    quantile = asked if len(asked) > 1 else asked[0]
    return _release(
        args, lambda table: Quantile(args.column, **_price(args), quantile=quantile, **facts, **_keys(args, table))
    )


def _histogram(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import Histogram

    edges = args.edges.split(",")
    facts = {"edges": edges, "cap": args.cap, "ranges": args.ranges}
    return _release(args, lambda table: Histogram(args.column, **_price(args), **facts, **_keys(args, table)))


def _profile(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import Profile

    facts = {"upper": args.upper, "resolution": args.resolution, "rows": args.rows}
    return _release(args, lambda table: Profile(args.column, **_price(args), **facts))


def _price(args: argparse.Namespace) -> dict[str, Any]:
    return {"epsilon": args.epsilon, "mu": args.mu}


def _cap(text: str) -> Any:
    if not text.endswith(".json"):
        return text
    from steelyard.bounding import ContributionProfile

    return ContributionProfile.load(text)


def _groups(args: argparse.Namespace, table: Any) -> dict[str, Any]:
    return {**_keys(args, table), "max_keys": args.max_keys, "rows_per_key": args.rows_per_key}


def _keys(args: argparse.Namespace, table: Any) -> dict[str, Any]:
    keys = None if args.keys is None else [_key(key, args.by, table) for key in args.keys.split(",")]
    return {"by": args.by, "keys": keys}


def _key(text: str, by: str | None, table: Any) -> Any:
    """A key as typed, in the kind of its column."""
    kind = table.columns.get(by, "string")
    try:
        if kind in ("integer", "decimal"):
            return whole_number(text)
        if kind == "float":
            return float(exact(text, "a key"))
    except ValueError:
        raise InvalidTask(f"column {by!r} holds {kind} values; {text!r} is not one.") from None
    return text == "true" if kind == "boolean" else text


def _release(args: argparse.Namespace, make: Any) -> Answer:
    from steelyard.ledger import Ledger
    from steelyard.session import Session

    if args.chart:
        from steelyard.charts import check_target

        check_target(args.chart)
    account = Ledger(args.ledger).account(args.account)
    column, out = getattr(args, "column", None), getattr(args, "out", None)
    with waiting("opening the table"):
        table = open_table(args, [column] if column else [])
        session = Session(table, account)
    task = make(table)
    with Outputs(args, out, args.chart, inputs=(args.data, args.ledger, str(getattr(args, "cap", "")))) as files:
        return _plan(session, task) if args.plan else _released(args, session, task, files)


def _released(args: argparse.Namespace, session: Any, task: Any, files: Outputs) -> Answer:
    """Pay, then write what was asked for; whatever the files do, the answer is told."""
    key, out = key_of(args), getattr(args, "out", None)
    with waiting("charging, reading and noising"):
        release = session.release(task, key=key)
    if out:
        files.write(out, release.value.save)
    if args.chart:
        files.write(args.chart, _draw(release).save)
    text = "\n".join([_text(release), *told(files.problems, key)])
    data = json.loads(release.to_json()) | {"stored_on": release.stored_on}
    return Answer(text, data, exit_code=2 if files.problems else 0)


def _plan(session: Any, task: Any) -> Answer:
    from steelyard.accounting.prices import price

    account, plan = session.account, session.plan(task)
    cost, error, left = price(plan.event, account.terms), plan.predicted, account.remaining
    enough = cost <= left
    lines = [
        ("would spend", str(cost)),
        ("left now", str(left)),
        ("enough", "yes" if enough else "no: it would be refused"),
        ("error", str(error) if error else "known after the release; a profile or a public cap tells it before"),
    ]
    data = {"cost": cost.to_json(), "enough": enough, "error": error.to_json() if error else None}
    return Answer(columns(lines), data)


def _text(release: Any) -> str:
    receipt = release.receipt
    lines = [_shown(release.value), *([str(release.error)] if release.error else []), str(release.guarantee)]
    lines += [release.again] if release.again else []
    lines.append(f"receipt: entry {receipt.sequence} of account {receipt.account}, head {receipt.head[:16]}…")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        lines = [(_name(key), _shown(item).replace("\n", "\n  ")) for key, item in value.items()]
        if any(isinstance(item, dict) for item in value.values()):
            return "\n".join(f"{key}\n  {shown}" for key, shown in lines)
        return columns(lines) or "no key reached its threshold"
    if isinstance(value, list):
        return "  ".join(f"{item:,.10g}" for item in value)
    if hasattr(value, "plan"):
        return f"profile of {len(value.counts)} bins; plan from it for free with: steelyard plan"
    return f"{value:,.10g}"


def _name(key: Any) -> str:
    return f"{key[0]:g} to {key[1]:g}" if isinstance(key, tuple) else str(key)


def _draw(release: Any) -> Any:
    from steelyard.charts import bars

    value, error, name = release.value, release.error, release.task["type"]
    ranks = name == "Quantile"  # whose error is in rows, not in values
    half = 0.0 if error is None or ranks else error.interval
    about: dict[str, Any] = {"subtitle": f"Whiskers: {error}" if half else "", "caption": str(release.guarantee)}
    if hasattr(value, "plan"):
        tops = [f"up to {top * float(value.step):,.4g}" for top in value.histogram.grid.tops]
        return bars(tops, value.counts, [half] * len(tops), title="Units by what they contribute", **about)
    flat = _flat(value)
    return bars([key or name for key in flat], list(flat.values()), [half] * len(flat), title=name, **about)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Every number of a value under one name of its own."""
    if not isinstance(value, dict | list):
        return {name: value}
    items = value.items() if isinstance(value, dict) else enumerate(value, 1)
    start = f"{name}, " if name else ""
    return {key: each for part, item in items for key, each in _flat(item, f"{start}{_name(part)}").items()}
