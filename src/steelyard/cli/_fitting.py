"""``steelyard fit|predict``: a private model of a table, at a price or at an accuracy, and what it says about another."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from steelyard.cli._files import Outputs, add_overwrite, add_types, check_chart, key_of, open_table, told, waiting
from steelyard.documents import load
from steelyard.errors import InvalidTask
from steelyard.privacy import whole_number
from steelyard.requests import Reply, classes_typed, feature_typed, fit_options, fit_terms

if TYPE_CHECKING:
    from steelyard.ledger import Account
    from steelyard.tables import Table

_ALONE = "charged to an account of this command alone: nothing adds up several fits; --ledger would"
_CHECKS = ("auto", "every", "screened", "certificate", "disjoint")  # models.accuracy.CHECKS, without loading it
_METHODS = ("auto", "objective", "output", "descent", "choice")
_WAYS = (
    "auto (default), objective (noise in the objective), output (noise on the minimizer), descent (noisy steps; logistic) or "
    "choice (the exponential mechanism, with --candidates or --radius); where users are hidden all but auto need --cap"
)
_CHECKED = (
    "with either: how it is checked. auto (default): a model is looked at more and more sharply while it may pass, and not "
    "where the released statistics rule it out (an excess: two looks at most); screened: another name for auto; every: one "
    "sharp look at each model (--target-loss); certificate: no looks (linear, --excess-loss); disjoint: train on one half, "
    "look at the other, n stays secret (--target-loss)"
)


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``fit`` and ``predict``."""
    fit = commands.add_parser("fit", parents=[shared], help="a private linear, logistic or Poisson model of one column")
    fit.add_argument("data", help="a Parquet or CSV file, a glob of them, or a database URL")
    fit.add_argument("--label", required=True, help="the column to be predicted")
    fit.add_argument(
        "--features",
        required=True,
        nargs="+",
        metavar="FEATURE",
        help="age:0:100 (a number and its public bounds), land=FR,DE (public values), or a bare name (with --x-bound)",
    )
    fit.add_argument(
        "--model",
        choices=["linear", "logistic", "poisson"],
        default="linear",
        help="what to fit (default linear); poisson: a count, where its label alone is hidden and features are public",
    )
    fit.add_argument("--lower", help="linear, poisson: the public lower bound of the label")
    fit.add_argument("--upper", help="linear, poisson: the public upper bound of the label")
    fit.add_argument("--classes", help="logistic: the label's public values, separated by commas")
    fit.add_argument("--x-bound", help="the public largest length of a row of features; needed for bare names")
    fit.add_argument(
        "--public-rows", type=whole_number, help="users hidden: a row count known without looking; it helps the fit"
    )
    fit.add_argument(
        "--cap", type=whole_number, help="users hidden: keep this many rows of each user, for any --method"
    )
    fit.add_argument("--method", choices=_METHODS, help=_WAYS)
    fit.add_argument(
        "--ridge", help="--method objective or output: the weight of the penalty (default: from the price)"
    )
    fit.add_argument(
        "--candidates", metavar="FILE", help="--method choice: public models, a JSON list of coefficient lists"
    )
    fit.add_argument(
        "--radius", help="--method choice: choose among a grid over the ball of coefficients of this length"
    )
    fit.add_argument("--weight", metavar="COLUMN", help="rows hidden: how much each row counts, 0 to --weight-bound")
    fit.add_argument("--weight-bound", help="the public largest weight (default 1); what is beyond counts as this much")
    fit.add_argument("--epsilon", required=True, help="how much this model may spend")
    fit.add_argument("--delta", help="without a ledger: the delta of the guarantee (0: pure; default 1e-6)")
    fit.add_argument(
        "--user",
        help="without a ledger: hide all rows of one value of this column (default: one row; poisson: one label)",
    )
    fit.add_argument("--ledger", help="the ledger that holds the account (without one nothing adds fits up)")
    fit.add_argument("--account", help="the account that pays")
    fit.add_argument("--key", help="a name for this request, so that a retry is free")
    fit.add_argument(
        "--chart", metavar="FILE", help="draw the coefficients, or with an accuracy the path to it: .svg, .png or .html"
    )
    fit.add_argument(
        "--out",
        required=True,
        help="save the model here, as JSON (where an accuracy was missed, the best that was bought)",
    )
    add_types(fit)
    add_overwrite(fit)
    _add_accuracy(fit)
    fit.set_defaults(run=_fit)
    _add_predict(commands, shared)


def _add_accuracy(fit: argparse.ArgumentParser) -> None:
    """The options that turn a fit at a price into a fit at an accuracy."""
    fit.add_argument("--target-loss", help="spend as little as reaches this mean loss; --epsilon is then the most")
    fit.add_argument(
        "--target-rmse", help="the same, for the root of a linear model's mean squared error, in the label's units"
    )
    fit.add_argument("--target-r2", help="the same, for a linear model's R squared, such as 0.5")
    fit.add_argument("--target-accuracy", help="the same, for a classifier's share of right classes, such as 0.8")
    fit.add_argument("--excess-loss", help="the same, for the loss above that of the best model there is")
    fit.add_argument("--confidence", help="with either: how sure the accuracy is (default 0.9)")
    fit.add_argument("--penalty", help="with either: lambda of the mean penalized loss (default 0.001)")
    fit.add_argument("--rows", type=whole_number, help="with either, without a ledger: the public number of rows")
    fit.add_argument(
        "--users", type=whole_number, help="with either and --user, without a ledger: the public number of users"
    )
    fit.add_argument("--check", choices=_CHECKS, help=_CHECKED)
    fit.add_argument("--ids", metavar="COLUMN", help="with --check disjoint: the column by which rows are divided")


def _add_predict(commands: Any, shared: argparse.ArgumentParser) -> None:
    tell = commands.add_parser(
        "predict", parents=[shared], help="what a saved model says about a table; spends nothing"
    )
    tell.add_argument("model", help="a model saved by steelyard fit")
    tell.add_argument("data", help="a Parquet or CSV file with the model's columns, or a glob of them (taken by name)")
    tell.add_argument(
        "--out",
        required=True,
        help="write the predictions here, in the order of the rows: as CSV where the name ends in .csv, else as Parquet",
    )
    add_overwrite(tell)
    tell.set_defaults(run=_predict)


def _fit(args: argparse.Namespace) -> Reply:
    vars(args).update(fit_options(vars(args)))
    check_chart(args)
    account, note = _account(args)
    features = [feature_typed(text) for text in args.features]
    with waiting("opening the table"):
        table = open_table(args, _numbers(args, features))
    task = _task(args, table, features)
    if args.chart and len(getattr(task, "classes", ())) > 2:
        raise InvalidTask("a chart shows one model, and one of several classes has as many; leave --chart out.")
    with Outputs(args, args.out, args.chart, inputs=(args.data, args.ledger, args.candidates)) as files:
        return (_reached if args.accuracy else _released)(args, table, account, task, note, files)


def _released(args: argparse.Namespace, table: Table, account: Account, task: Any, note: str, files: Outputs) -> Reply:
    """Pay, then write what was asked for; whatever the files do, the model is told."""
    from steelyard.session import Session

    session, key = Session(table, account), key_of(args)
    if args.plan:
        return Reply.of_plan(session, task, work=True)
    with waiting("charging, reading and noising"):
        release = session.release(task, key=key)
    files.write(args.out, release.value.save)
    if args.chart:
        files.write(args.chart, release.chart().save)
    saved = f"saved to {args.out}; predict with: steelyard predict {args.out} DATA --out FILE"
    return Reply.of_model(release, note, saved, told(files.problems, key))


def _reached(args: argparse.Namespace, table: Table, account: Account, task: Any, note: str, files: Outputs) -> Reply:
    """Walk until the model is accurate enough, telling each step; save the best that was found."""
    from steelyard.models.accuracy import path_chart, say, teller
    from steelyard.requests import AccuracyRequest

    names = (
        "target_loss",
        "target_rmse",
        "target_r2",
        "target_accuracy",
        "excess_loss",
        "confidence",
        "check",
        "penalty",
    )
    asked = {name: getattr(args, name) for name in names}
    request = AccuracyRequest(task, **asked, key=args.key, ids=args.ids, most=args.ledger and args.epsilon)
    if args.plan:
        return request.plan(table, account)
    tell = teller(account, args.key)
    with waiting("charging, measuring and checking"):
        found = request.walk(table, account, None if args.json else lambda stop: say(tell(stop)))
    if found.model is not None:
        files.write(args.out, found.model.save)
    if args.chart:
        files.write(args.chart, path_chart(found.path, request.goal.amount).save)
    problems = [f"warning: {problem}" for problem in files.problems]
    if problems:
        problems.append(f"what was paid for: {'' if found.model is None else json.dumps(found.model.to_json())}")
    return request.reply(found, args.out, note, problems)


def _numbers(args: argparse.Namespace, features: list[Any]) -> list[str]:
    """The columns that are numbers, whatever a file says of them."""
    from steelyard.models import Categorical

    numbers = [feature.column for feature in features if not isinstance(feature, Categorical)]
    numbers += [] if args.weight is None else [args.weight]
    return numbers if args.model == "logistic" else [*numbers, args.label]


def _task(args: argparse.Namespace, table: Table, features: list[Any]) -> Any:
    from steelyard.models import FitLinear, FitLogistic, FitPoisson

    if args.model == "poisson":
        return FitPoisson(features, args.label, args.lower, args.upper, args.epsilon, x_bound=args.x_bound)
    way = ("epsilon", "x_bound", "public_rows", "cap", "ridge", "radius")
    common = {name: getattr(args, name) for name in way} | {"method": args.method or "auto"}
    common |= {} if args.weight is None else {"weight": args.weight, "weight_bound": args.weight_bound or 1}
    if args.candidates is not None:
        common["candidates"] = load(Sequence[Sequence[float]], args.candidates, "a list of candidates", "candidates")
    if args.model == "linear":
        return FitLinear(features, args.label, args.lower, args.upper, **common)
    classes = classes_typed(args.classes, table.columns.get(args.label))
    return FitLogistic(features, args.label, classes, **common)


def _account(args: argparse.Namespace) -> tuple[Account, str]:
    from steelyard.ledger import Ledger, open_account

    if args.ledger is not None:
        return Ledger(args.ledger).account(args.account), ""
    return open_account(":memory:", "fit", **fit_terms(vars(args))), _ALONE


def _predict(args: argparse.Namespace) -> Reply:
    from steelyard.models import read_models
    from steelyard.requests import write_predictions

    models = read_models(args.model)
    wanted = models[0].features.source
    with Outputs(args, args.out, inputs=(args.model, args.data)) as files:
        if args.plan:
            return Reply(f"would read {', '.join(wanted)}; spends nothing", {"columns": wanted})
        counts: list[int] = []
        with waiting("predicting"):
            csv = args.out.lower().endswith(".csv")
            files.write_now(args.out, lambda part: counts.append(write_predictions(models, args.data, part, csv=csv)))
    told = f"{counts[0]:,} predictions of {models[0].label!r} in {args.out}"
    return Reply(told, {"rows": counts[0], "out": args.out})
