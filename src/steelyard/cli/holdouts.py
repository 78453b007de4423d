"""``steelyard holdout open|check|show|plan|attack``: a validation set with one durable budget, from the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from steelyard.cli.answer import Answer, waiting
from steelyard.errors import InvalidTask


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``holdout`` and its verbs."""
    verbs = commands.add_parser("holdout", help="check predictions against hidden labels").add_subparsers(
        metavar="VERB", required=True
    )
    for name, run, told in (
        ("open", _open, "open a holdout, or re-open it on the same settings"),
        ("check", _check, "check predictions"),
        ("show", _show, "what is promised, spent and left"),
    ):
        verb = verbs.add_parser(name, parents=[shared], help=told)
        _add_holdout(verb)
        verb.set_defaults(run=run)
        if name == "check":
            verb.add_argument("predictions", help="a CSV, Parquet or .npy file, one row for each label")
            verb.add_argument("--predicted", metavar="COLUMN", help="the column of predictions")
            verb.add_argument("--guess", help="the score you expect: a right guess is free")
    _add_plan(verbs, shared)
    attack = verbs.add_parser(
        "attack", parents=[shared], help="attack coin-flip labels behind a holdout of your settings"
    )
    attack.add_argument("--rows", type=int, default=10_000)
    attack.add_argument("--questions", type=int, default=1000)
    attack.add_argument("--tolerance", default="0.05")
    attack.add_argument("--confidence", default="0.95")
    attack.set_defaults(run=_attack)


def _add_holdout(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("labels", help="a CSV, Parquet or .npy file of labels")
    verb.add_argument("--column", help="the column of labels")
    verb.add_argument("--ledger", required=True, help="where the budget is kept, such as budget.db")
    verb.add_argument("--name", required=True, help="the holdout's name; one name, one budget")
    verb.add_argument("--tolerance", default="0.05", help="how far an answer may be off (default 0.05)")
    verb.add_argument("--confidence", default="0.95", help="for all answers together (default 0.95)")
    verb.add_argument("--mode", default="certified", choices=["certified", "ladder"])
    verb.add_argument("--metric", default="accuracy", help="accuracy (default), error or brier")
    verb.add_argument("--questions", type=int, help="the most questions ever asked, if that can be promised")


def _add_plan(verbs: Any, shared: argparse.ArgumentParser) -> None:
    plan = verbs.add_parser("plan", parents=[shared], help="which way of answering fits, and how many questions")
    plan.add_argument("--rows", type=int, required=True)
    plan.add_argument("--questions", type=int, required=True)
    plan.add_argument("--tolerance", default="0.05")
    plan.add_argument("--confidence", default="0.95")
    plan.add_argument("--guess-error", help="how far your guesses are from the holdout's scores, at most")
    plan.set_defaults(run=_plan)


def _holdout(args: argparse.Namespace, *, memory: bool = False) -> Any:
    from steelyard.holdout.holdout import Holdout

    options = {} if args.questions is None else {"questions": args.questions}
    return Holdout(
        read_column(args.labels, args.column), args.tolerance, args.confidence, args.mode, args.metric,
        name=args.name, ledger=None if memory else args.ledger, **options,
    )  # fmt: skip


def _open(args: argparse.Namespace) -> Answer:
    opened = _holdout(args, memory=args.plan)
    return Answer(f"would open on {args.ledger}:\n{opened}" if args.plan else str(opened), _facts(opened))


def _show(args: argparse.Namespace) -> Answer:
    from steelyard.ledger import Ledger

    Ledger(args.ledger).account(args.name)
    found = _holdout(args)
    return Answer(str(found), _facts(found))


def _check(args: argparse.Namespace) -> Answer:
    from steelyard.ledger import Ledger

    predictions = read_column(args.predictions, args.predicted)
    Ledger(args.ledger).account(args.name)
    found = _holdout(args)
    if args.plan:
        left = found.forecast()
        return Answer(f"would ask one question; {left} surprises are left\n{found}", _facts(found))
    with found:
        answer = found.check(predictions, guess=args.guess)
    data = {**answer.to_json(), "surprises_left": found.forecast()}
    return Answer(str(answer), data, exit_code=3 if answer.kind == "refused" else 0)


def _facts(holdout: Any) -> dict[str, Any]:
    account = holdout.account
    return {
        "holdout": holdout.name,
        "rows": holdout.rows,
        "mode": holdout.mode,
        "metric": str(holdout.metric),
        "surprises_left": holdout.forecast(),
        "spent": account.spent.to_json(),
        "remaining": account.remaining.to_json(),
    }


def _plan(args: argparse.Namespace) -> Answer:
    from steelyard.holdout.planner import plan

    guess_error = None if args.guess_error is None else _number(args.guess_error, "--guess-error")
    found = plan(
        args.rows, args.questions, _number(args.tolerance, "--tolerance"),
        _number(args.confidence, "--confidence"), guess_error,
    )  # fmt: skip
    data = {"best": found.best.name, "possible": found.possible, "half_width": found.half_width}
    return Answer(str(found), data)


def _number(text: str, name: str) -> float:
    from steelyard.privacy import exact

    return float(exact(text, name))


def _attack(args: argparse.Namespace) -> Answer:
    import numpy as np

    from steelyard.holdout.attacks import suite
    from steelyard.holdout.holdout import Holdout

    labels = np.random.default_rng().integers(0, 2, args.rows)
    if args.plan:
        return Answer(f"would attack {args.rows:,} coin flips with {args.questions:,} questions; spends nothing")
    with waiting("attacking"):
        report = suite(
            None, labels=labels, questions=args.questions,
            renew=lambda: Holdout(labels, args.tolerance, args.confidence),
        )  # fmt: skip
    return Answer(report.table(), {"attacks": report.data})


def read_column(path: str, column: str | None) -> Any:
    """One column of a CSV, Parquet or .npy file, as an array; errors name the file and never a row."""
    import numpy as np

    kind = Path(path).suffix.lower()
    try:
        if kind == ".npy":
            return np.load(path, allow_pickle=False)
        if kind in (".parquet", ".pq"):
            import pyarrow.parquet as parquet

            table = parquet.read_table(path)
        elif kind == ".csv":
            from pyarrow import csv

            table = csv.read_csv(path)
        else:
            raise InvalidTask(f"{path} must be a .csv, .parquet or .npy file.")
    except (OSError, ValueError) as problem:
        if isinstance(problem, InvalidTask):
            raise
        raise InvalidTask(f"{path} cannot be read ({type(problem).__name__}).") from None
    return _pick(table, path, column)


def _pick(table: Any, path: str, column: str | None) -> Any:
    names = table.column_names
    if column is None and len(names) != 1:
        raise InvalidTask(f"{path} has {len(names)} columns; say which one: {', '.join(names[:20])}.")
    if column is not None and column not in names:
        raise InvalidTask(f"{path} has no column {column!r}; it has {', '.join(names[:20])}.")
    return table.column(column or names[0]).to_numpy()
