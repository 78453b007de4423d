"""``steelyard fit``: a private model of a table (``predicting`` says what it tells about another)."""

from __future__ import annotations

import argparse
import json
from typing import Any

from steelyard.cli import fit_options, predicting, reaching
from steelyard.cli.answer import Answer, columns, waiting
from steelyard.cli.files import Outputs, add_overwrite, add_types, key_of, open_table, told
from steelyard.errors import InvalidTask
from steelyard.privacy import whole_number

_ALONE = "charged to an account of this command alone: nothing adds up several fits; --ledger would"


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Register the commands of this file."""
    fit = commands.add_parser("fit", parents=[shared], help="a private linear or logistic model of one column")
    fit.add_argument("data", help="a Parquet or CSV file, a glob of them, or a database URL")
    fit.add_argument("--label", required=True, help="the column to be predicted")
    fit.add_argument(
        "--features",
        required=True,
        nargs="+",
        metavar="FEATURE",
        help="age:0:100 (a number and its public bounds), land=FR,DE (public values), or a bare name (with --x-bound)",
    )
    fit.add_argument("--model", choices=["linear", "logistic"], default="linear", help="what to fit (default linear)")
    fit.add_argument("--lower", help="linear: the public lower bound of the label")
    fit.add_argument("--upper", help="linear: the public upper bound of the label")
    fit.add_argument("--classes", help="logistic: the label's public values, separated by commas")
    fit.add_argument("--x-bound", help="the public largest length of a row of features; needed for bare names")
    fit.add_argument(
        "--public-rows", type=whole_number, help="users hidden: a row count known without looking; it helps the fit"
    )
    fit.add_argument("--cap", type=whole_number, help="logistic, users hidden: keep this many rows of each user")
    fit.add_argument("--epsilon", required=True, help="how much this model may spend")
    fit.add_argument("--delta", help="without a ledger: the delta of the guarantee (0: pure; default 1e-6)")
    fit.add_argument("--user", help="without a ledger: hide all rows of one value of this column (default: one row)")
    fit.add_argument("--ledger", help="the ledger that holds the account (without one nothing adds fits up)")
    fit.add_argument("--account", help="the account that pays")
    fit.add_argument("--key", help="a name for this request, so that a retry is free")
    fit.add_argument(
        "--chart", metavar="FILE", help="draw the coefficients, or with an accuracy the path to it: .svg, .png or .html"
    )
    fit.add_argument("--out", required=True, help="save the model here, as JSON (not where an accuracy was missed)")
    add_types(fit)
    add_overwrite(fit)
    reaching.add_arguments(fit)
    fit.set_defaults(run=_fit)
    predicting.add_commands(commands, shared)


def _fit(args: argparse.Namespace) -> Answer:
    fit_options.settle(args)
    if args.chart:
        from steelyard.charts import check_target

        check_target(args.chart)
    account, note = _account(args)
    features = [_feature(text) for text in args.features]
    with waiting("opening the table"):
        table = open_table(args, _numbers(args, features))
    task = _task(args, table, features)
    if args.chart and len(getattr(task, "classes", ())) > 2:
        raise InvalidTask("a chart shows one model, and one of several classes has as many; leave --chart out.")
    with Outputs(args, args.out, args.chart, inputs=(args.data, args.ledger)) as files:
        if fit_options.asked(args):
            return reaching.reach(args, table, account, task, note, files)
        return _released(args, table, account, task, note, files)


def _released(args: argparse.Namespace, table: Any, account: Any, task: Any, note: str, files: Outputs) -> Answer:
    """Pay, then write what was asked for; whatever the files do, the model is told."""
    from steelyard.models.saved import write
    from steelyard.session import Session

    session, key = Session(table, account), key_of(args)
    if args.plan:
        return _plan(session, task)
    with waiting("charging, reading and noising"):
        release = session.release(task, key=key)
    files.write(args.out, lambda part: write(release.value.to_json(), part))
    if args.chart:
        files.write(args.chart, _draw(release, args.label).save)
    receipt = release.receipt
    saved = f"saved to {args.out}; predict with: steelyard predict {args.out} DATA --out FILE"
    lines = [
        _coefficients(release.value),
        *_accuracy(release),
        str(release.guarantee),
        *([release.again] if release.again else []),
        note or f"receipt: entry {receipt.sequence} of account {receipt.account}, head {receipt.head[:16]}…",
        *(told(files.problems, key) or [saved]),
    ]
    data = json.loads(release.to_json()) | {"stored_on": release.stored_on}
    return Answer("\n".join(lines), data, exit_code=2 if files.problems else 0)


def _numbers(args: argparse.Namespace, features: list[Any]) -> list[str]:
    """The columns that are numbers, whatever a file says of them."""
    from steelyard.models import Categorical

    numbers = [feature.column for feature in features if not isinstance(feature, Categorical)]
    return [*numbers, args.label] if args.model == "linear" else numbers


def _task(args: argparse.Namespace, table: Any, features: list[Any]) -> Any:
    common = {"epsilon": args.epsilon, "x_bound": args.x_bound, "public_rows": args.public_rows}
    if args.model == "logistic":
        from steelyard.models import FitLogistic

        if args.classes is None:
            raise InvalidTask("a logistic model needs --classes, the public values of its label.")
        classes = _classes(args.classes, table.columns.get(args.label))
        return FitLogistic(features, args.label, classes, cap=args.cap, **common)
    from steelyard.models import FitLinear

    if args.lower is None or args.upper is None:
        raise InvalidTask("a linear model needs --lower and --upper, the public bounds of its label.")
    return FitLinear(features, args.label, args.lower, args.upper, **common)


def _classes(text: str, kind: str | None) -> list[Any]:
    """The classes as typed, in the kind of the label's column."""
    words = text.split(",")
    if kind == "boolean":
        return _truths(words)
    if kind not in ("integer", "float", "decimal"):
        return list(words)
    try:
        return [whole_number(word) for word in words]
    except ValueError:
        raise InvalidTask(f"the label holds {kind} values; give its classes as whole numbers.") from None


def _truths(words: list[str]) -> list[bool]:
    if not {word.lower() for word in words} <= {"true", "false"}:
        raise InvalidTask("the label holds boolean values; write --classes false,true.")
    return [word.lower() == "true" for word in words]


def _feature(text: str) -> Any:
    """A feature as typed: ``name:lower:upper``, ``name=value,value`` or ``name``."""
    from steelyard.models import Categorical, Numeric, Plain

    name, equals, values = text.partition("=")
    if equals:
        return Categorical(name, values.split(","))
    if text.count(":") >= 2:
        name, lower, upper = text.rsplit(":", 2)
        return Numeric(name, lower, upper)
    return Plain(text)


def _account(args: argparse.Namespace) -> tuple[Any, str]:
    from steelyard.ledger import Ledger, open_account
    from steelyard.privacy import rows, users

    if args.ledger is not None:
        return Ledger(args.ledger).account(args.account), ""
    if fit_options.asked(args):
        return reaching.account_for(args), _ALONE
    unit = rows() if args.user is None else users(args.user)
    return open_account(":memory:", "fit", unit=unit, epsilon=args.epsilon, **fit_options.delta_of(args)), _ALONE


def _plan(session: Any, task: Any) -> Answer:
    cost, left = session.quote(task), session.account.remaining
    enough = cost <= left
    lines = [
        ("would spend", str(cost)),
        ("left now", str(left)),
        ("enough", "yes" if enough else "no: it would be refused"),
        ("hides", str(session.account.terms.unit)),
        ("features", str(task.features.width)),
    ]
    return Answer(columns(lines), {"cost": cost.to_json(), "enough": enough, "features": task.features.names()})


def _coefficients(model: Any) -> str:
    if hasattr(model, "models"):
        return "\n".join(f"{each.positive}\n{_coefficients(each)}" for each in model.models)
    return columns([(name, f"{value:,.6g}") for name, value in model.coefficients.items()])


def _accuracy(release: Any) -> list[str]:
    excess, warning = release.point.get("expected_excess"), release.point.get("warning")
    said = [] if excess is None else [f"the noise adds about {excess:.3g} to the mean squared error"]
    return said if warning is None else [*said, f"warning: {warning}"]


def _draw(release: Any, label: str) -> Any:
    from steelyard.charts import bars

    names, values = zip(*release.value.coefficients.items(), strict=True)
    return bars(
        list(names), list(values), [0.0] * len(names), title=f"Coefficients for {label}", caption=str(release.guarantee)
    )  # fmt: skip
