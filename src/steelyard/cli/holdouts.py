"""``steelyard holdout open|check|show|plan|attack``: a validation set with one durable budget, from the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from steelyard.cli.answer import Answer, waiting
from steelyard.cli.files import Outputs, add_overwrite
from steelyard.cli.holdout_settings import add_settings, arguments, remembered, typed
from steelyard.errors import InvalidTask
from steelyard.privacy import whole_number


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``holdout`` and its verbs."""
    verbs = commands.add_parser("holdout", help="check predictions against hidden labels").add_subparsers(
        metavar="VERB", required=True
    )
    opening = _add_holdout(verbs, shared, "open", _open, "open a holdout, or re-open it on the same settings")
    opening.add_argument(
        "--separate", action="store_true", help="hidden labels: no row is in another holdout of as many rows there"
    )
    check = _add_holdout(
        verbs, shared, "check", _check, "check predictions, one question for each file; mode rounds: which file wins"
    )
    check.add_argument("predictions", nargs="+", help="a CSV, Parquet or .npy file, one row for each label")
    check.add_argument("--predicted", metavar="COLUMN", help="the column of predictions")
    check.add_argument("--guess", help="the score you expect, or one for each file: a right guess is free")
    check.add_argument("--finish", action="store_true", help="mode rounds: the score of your choice; ends the search")
    _add_holdout(verbs, shared, "show", _show, "what is promised, spent and left")
    plan = _add_question(verbs, shared, "plan", _plan, "which way of answering fits, and how many questions")
    plan.add_argument("--guess-error", help="how far your guesses are from the holdout's scores, at most")
    plan.add_argument("--delta", default="1e-6", help="mode private: the delta of its account (default 1e-6)")
    _add_question(verbs, shared, "attack", _attack, "attack coin-flip labels behind a holdout of your settings")


def _add_holdout(verbs: Any, shared: Any, name: str, run: Any, told: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, parents=[shared], help=told)
    verb.add_argument("labels", help="a CSV, Parquet or .npy file of labels")
    verb.add_argument("--column", help="the column of labels")
    verb.add_argument("--ledger", required=True, help="where the budget is kept, such as budget.db")
    verb.add_argument("--name", required=True, help="the holdout's name; one name, one budget")
    verb.add_argument("--account", help="the account that pays (default: one of the holdout's own, with its name)")
    add_settings(verb)
    verb.set_defaults(run=run)
    return verb


def _add_question(verbs: Any, shared: Any, name: str, run: Any, told: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, parents=[shared], help=told)
    verb.add_argument("--rows", type=whole_number, default=10_000, help="the holdout's rows (default 10000)")
    verb.add_argument("--questions", type=whole_number, default=1000, help="how many are asked (default 1000)")
    verb.add_argument("--tolerance", default="0.05", help="how far an answer may be off (default 0.05)")
    verb.add_argument("--confidence", default="0.95", help="for all answers together (default 0.95)")
    verb.add_argument("--chart", metavar="FILE", help="draw it: .svg, .png or .html")
    add_overwrite(verb)
    verb.set_defaults(run=run)
    return verb


def _open(args: argparse.Namespace) -> Answer:
    from steelyard.ledger import Ledger

    where: dict[str, Any] = {"ledger": None if args.plan else args.ledger}
    if args.account is not None and not args.plan:
        where = {"account": Ledger(args.ledger).account(args.account)}
    opened = _holdout(args, typed(args), {**where, "separate": args.separate})
    return Answer(f"would open on {args.ledger}:\n{opened}" if args.plan else str(opened), _facts(opened))


def _again(args: argparse.Namespace) -> Any:
    """The holdout as it was opened; only its labels, and where it is kept, are asked for."""
    from steelyard.ledger import Ledger

    ledger = Ledger(args.ledger)
    account, settings = remembered(ledger, args.account, args.name)
    return _holdout(args, settings | typed(args), {"account": ledger.account(account)})


def _holdout(args: argparse.Namespace, settings: dict[str, Any], where: dict[str, Any]) -> Any:
    from steelyard.holdout import HIDING, Holdout

    labels = read_column(args.labels, args.column, written=True)
    written = Path(args.labels).suffix.lower() == ".csv"
    found = arguments(settings, None if written else _numeric(labels))
    if written and found["mode"] not in HIDING:
        labels = _of_one_kind(labels, args.labels, found.get("classes"))
    return Holdout(labels, name=args.name, **where, **found)


def _numeric(labels: Any) -> bool:
    """Whether a file's own type, a public fact, says that labels are numbers."""
    kind = getattr(labels, "dtype", None)
    return kind.kind in "biuf" if kind is not None else str(labels.type).startswith(("int", "uint", "fl", "do", "bool"))


def _of_one_kind(labels: Any, path: str, classes: list[Any] | None) -> list[Any]:
    """Labels as written, as numbers if the classes are or if every one of them is one; no single row decides for others."""
    from steelyard.tables import decoded, finite_of

    rows = labels.to_pylist()
    read = [finite_of(row) for row in rows]
    found = {number is None for number in read}
    numeric = not isinstance(classes[0], str) if classes else found == {False}
    if (numeric and True in found) or (not classes and len(found) > 1):
        raise InvalidTask(
            f"some labels of {path} are numbers and others are not, or are missing; say what they may be."
        )
    return read if numeric else [decoded(row) for row in rows]


def _show(args: argparse.Namespace) -> Answer:
    found = _again(args)
    return Answer(str(found), _facts(found))


def _check(args: argparse.Namespace) -> Answer:
    batch = [read_column(path, args.predicted) for path in args.predictions]
    found = _again(args)
    if found.mode == "rounds" and not args.finish:
        return _round(args, found, batch)
    guesses = _guesses(args, len(batch))
    if args.finish and (found.mode != "rounds" or len(batch) != 1):
        raise InvalidTask(f"--finish asks for one score in mode rounds; got {len(batch)} in mode {found.mode}.")
    if args.plan:
        return Answer(f"would ask {len(batch)} question(s)\n{found}", _facts(found))
    with found:
        pairs = zip(batch, guesses, strict=True)
        answers = [found.finish(batch[0])] if args.finish else [found.check(each, guess) for each, guess in pairs]
    data = [answer.to_json() for answer in answers]
    shown: dict[str, Any] = data[0] if len(data) == 1 else {"answers": data}
    refused = any(answer.kind == "refused" for answer in answers)
    return Answer("\n".join(map(str, answers)), {**shown, "left": found.forecast()}, exit_code=3 if refused else 0)


def _guesses(args: argparse.Namespace, files: int) -> list[str | None]:
    """One guess for each file of predictions; one for all of them will do."""
    if args.guess is None:
        return [None] * files
    guesses = args.guess.split(",")
    if len(guesses) not in (1, files):
        raise InvalidTask(f"there are {len(guesses)} guesses for {files} file(s) of predictions: give one for each.")
    return list(guesses) if len(guesses) == files else guesses * files


def _round(args: argparse.Namespace, found: Any, batch: list[Any]) -> Answer:
    if args.guess is not None:
        raise InvalidTask("mode rounds tells winners and takes no guess.")
    if len(batch) < 2:
        raise InvalidTask("mode rounds compares several files of predictions; --finish asks for the score of one.")
    if args.plan:
        return Answer(f"would ask which of {len(batch)} is best\n{found}", _facts(found))
    with found:
        best = found.best_of(batch)
    return Answer(f"{args.predictions[best]} is the best of {len(batch)}", {"best": best, "left": found.forecast()})


def _facts(holdout: Any) -> dict[str, Any]:
    account = holdout.account
    return {
        "holdout": holdout.name,
        "rows": holdout.rows,
        "mode": holdout.mode,
        "metric": str(holdout.metric),
        "left": holdout.forecast(),
        "account": account.name,
        "spent": account.spent.to_json(),
        "remaining": account.remaining.to_json(),
    }


def _plan(args: argparse.Namespace) -> Answer:
    from dataclasses import asdict

    from steelyard.holdout import plan

    guess_error = None if args.guess_error is None else _number(args.guess_error, "--guess-error")
    _check_chart(args)
    found = plan(
        args.rows, args.questions, _number(args.tolerance, "--tolerance"),
        _number(args.confidence, "--confidence"), guess_error, args.delta,
    )  # fmt: skip
    _save_chart(args, found)
    best = {"best": found.best.name, "mode": found.best.best_at, "possible": found.possible, "options": found.options}
    return Answer(str(found), {**best, "half_width": found.half_width, "methods": [asdict(row) for row in found.rows]})


def _number(text: str, name: str) -> float:
    from steelyard.privacy import exact

    return float(exact(text, name))


def _attack(args: argparse.Namespace) -> Answer:
    import numpy as np

    from steelyard.audit.attacks import suite
    from steelyard.holdout import Holdout

    _check_chart(args)
    if args.rows < 2 or args.questions < 1:
        raise InvalidTask(f"an attack needs two rows and one question; got {args.rows} and {args.questions}.")
    labels = np.random.default_rng().integers(0, 2, args.rows)
    Holdout(labels, args.tolerance, args.confidence)
    if args.plan:
        return Answer(f"would attack {args.rows:,} coin flips with {args.questions:,} questions; spends nothing")
    with waiting("attacking"):
        report = suite(
            None, labels=labels, questions=args.questions,
            renew=lambda: Holdout(labels, args.tolerance, args.confidence),
        )  # fmt: skip
    _save_chart(args, report)
    return Answer(report.table(), {"attacks": report.data})


def _check_chart(args: argparse.Namespace) -> None:
    if args.chart:
        from steelyard.charts import check_target

        check_target(args.chart)


def _save_chart(args: argparse.Namespace, drawn: Any) -> None:
    if args.chart and not args.plan:
        with Outputs(args, args.chart) as files:
            files.write_now(args.chart, drawn.chart().save)


def read_column(path: str, column: str | None, *, written: bool = False) -> Any:
    """One column of a CSV, Parquet or .npy file, as an array; errors name the file and never a row.

    ``written``: as it stands in the file, a column whose type hangs on no row. (A CSV file has no types: all is bytes.)
    """
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

            parse = csv.ParseOptions(ignore_empty_lines=False)
            names = csv.open_csv(path, parse_options=parse).schema.names if written else []
            kinds = csv.ConvertOptions(column_types=dict.fromkeys(names, "binary"))
            table = csv.read_csv(path, parse_options=parse, convert_options=kinds)
        else:
            raise InvalidTask(f"{path} must be a .csv, .parquet or .npy file.")
    except FileNotFoundError:
        raise InvalidTask(f"there is no file {path}.") from None
    except (EOFError, OSError, ValueError) as problem:
        if isinstance(problem, InvalidTask):
            raise
        raise InvalidTask(f"{path} cannot be read as {kind} ({type(problem).__name__}).") from None
    found = _pick(table, path, column)
    return found if written else found.to_numpy()


def _pick(table: Any, path: str, column: str | None) -> Any:
    names = table.column_names
    if column is None and len(names) != 1:
        raise InvalidTask(f"{path} has {len(names)} columns; say which one: {', '.join(names[:20])}.")
    if column is not None and column not in names:
        raise InvalidTask(f"{path} has no column {column!r}; it has {', '.join(names[:20])}.")
    return table.column(column or names[0])
