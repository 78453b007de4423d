"""``steelyard holdout open|check|show|plan|attack``: a validation set with one durable budget, from the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from steelyard.cli._files import add_overwrite, check_chart, save_chart, waiting
from steelyard.errors import InvalidTask
from steelyard.privacy import exact, whole_number
from steelyard.requests import Reply

_METRICS = "accuracy (default), error, brier, auc, balanced_accuracy, f1, log_loss:CUT, absolute_error:CUT, squared_error:CUT, rmse:CUT, r2:LOW:HIGH, cost:FILE"

if TYPE_CHECKING:
    from steelyard.holdout import Holdout


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
    attack = _add_question(
        verbs, shared, "attack", _attack, "attack coin-flip labels behind a holdout of your settings"
    )
    attack.add_argument(
        "--mode",
        choices=["certified", "ladder", "private", "classic"],
        default="certified",
        help="how the holdout answers (default certified); classic is Thresholdout",
    )
    _add_classic(attack)


def _add_holdout(verbs: Any, shared: Any, name: str, run: Any, told: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, parents=[shared], help=told)
    verb.add_argument("labels", help="a CSV, Parquet or .npy file of labels")
    verb.add_argument("--column", help="the column of labels")
    verb.add_argument(
        "--id", metavar="COLUMN", help="the column of public ids, in all files: predictions are matched by it"
    )
    verb.add_argument("--ledger", required=True, help="where the budget is kept, such as budget.db")
    verb.add_argument("--name", required=True, help="the holdout's name; one name, one budget")
    verb.add_argument("--account", help="the account that pays (default: one of the holdout's own, with its name)")
    _add_settings(verb)
    verb.set_defaults(run=run)
    return verb


def _add_settings(verb: argparse.ArgumentParser) -> None:
    """Everything that ``Holdout`` takes; defaults are filled in later, so that what was typed can be told."""
    verb.add_argument("--tolerance", help="how far an answer may be off (default 0.05)")
    verb.add_argument("--confidence", help="for all answers together (default 0.95)")
    verb.add_argument(
        "--mode",
        choices=["certified", "ladder", "rounds", "private", "classic"],
        help="certified (default): guesses; ladder: best so far; rounds: winners; private, classic: noisy scores (classic: one command is one row of answers)",
    )
    verb.add_argument(
        "--metric",
        metavar="NAME",
        help=f"{_METRICS} (CUT: the largest loss of a row that counts; LOW:HIGH: bounds of the label; FILE: a JSON matrix, a row for each right class)",
    )
    verb.add_argument("--classes", help="what labels may be, separated by commas; private and classic need it")
    verb.add_argument(
        "--questions", type=whole_number, help="the most questions ever asked; how many, where labels are hidden"
    )
    verb.add_argument("--between", metavar="LOW,HIGH", help="the scores that must be answered within the tolerance")
    verb.add_argument("--steps", type=whole_number, help="certified, ladder: the grid of answers")
    verb.add_argument("--start", help="ladder: the score shown before any record")
    verb.add_argument("--epsilon", help="private: the most that all answers may cost")
    verb.add_argument("--delta", help="private: default 1e-6")
    verb.add_argument("--noise", choices=["gaussian", "bounded"], help="private: default gaussian")
    _add_classic(verb)


def _add_classic(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--budget", type=whole_number, help="classic: how many answers are paid for")
    verb.add_argument("--threshold", help="classic: how far a guess may be off")
    verb.add_argument("--sigma", help="classic: the noise of a paid answer")


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


def _open(args: argparse.Namespace) -> Reply:
    from steelyard.ledger import Ledger
    from steelyard.requests import open_holdout, settings_typed

    where: dict[str, Any] = {"ledger": None if args.plan else args.ledger}
    if args.account is not None and not args.plan:
        where = {"account": Ledger(args.ledger).account(args.account)}
    settings = settings_typed(vars(args))
    opened = open_holdout(args.labels, args.column, settings, args.id, name=args.name, separate=args.separate, **where)
    return Reply(f"would open on {args.ledger}:\n{opened}" if args.plan else str(opened), _facts(opened))


def _again(args: argparse.Namespace) -> Holdout:
    """The holdout as it was opened; only its labels, and where it is kept, are asked for."""
    from steelyard.ledger import Ledger
    from steelyard.requests import open_holdout, settings_kept, settings_typed

    ledger = Ledger(args.ledger)
    account, kept = settings_kept(ledger, args.account, args.name)
    settings = kept | settings_typed(vars(args))
    return open_holdout(args.labels, args.column, settings, args.id, name=args.name, account=ledger.account(account))


def _show(args: argparse.Namespace) -> Reply:
    found = _again(args)
    return Reply(str(found), _facts(found))


def _check(args: argparse.Namespace) -> Reply:
    from steelyard.requests import read_labels

    batch = [read_labels(path, args.predicted, args.id) for path in args.predictions]
    found = _again(args)
    if found.mode == "rounds" and not args.finish:
        return _round(args, found, batch)
    guesses = _guesses(args, len(batch))
    if args.finish and (found.mode != "rounds" or len(batch) != 1):
        raise InvalidTask(f"--finish asks for one score in mode rounds; got {len(batch)} in mode {found.mode}.")
    if args.plan:
        return Reply(f"would ask {len(batch)} question(s)\n{found}", _facts(found))
    with found:
        pairs = zip(batch, guesses, strict=True)
        if args.finish:
            answers = [found.finish(batch[0][0], ids=batch[0][1])]
        else:
            answers = [found.check(each, guess, ids=ids) for (each, ids), guess in pairs]
    data = [answer.to_json() for answer in answers]
    shown: dict[str, Any] = data[0] if len(data) == 1 else {"answers": data}
    refused = any(answer.kind == "refused" for answer in answers)
    return Reply("\n".join(map(str, answers)), {**shown, "left": found.forecast()}, exit_code=3 if refused else 0)


def _guesses(args: argparse.Namespace, files: int) -> list[str | None]:
    """One guess for each file of predictions; one for all of them will do."""
    if args.guess is None:
        return [None] * files
    guesses = args.guess.split(",")
    if len(guesses) not in (1, files):
        raise InvalidTask(f"there are {len(guesses)} guesses for {files} file(s) of predictions: give one for each.")
    return list(guesses) if len(guesses) == files else guesses * files


def _round(args: argparse.Namespace, found: Holdout, batch: list[Any]) -> Reply:
    if args.guess is not None:
        raise InvalidTask("mode rounds tells winners and takes no guess.")
    if len(batch) < 2:
        raise InvalidTask("mode rounds compares several files of predictions; --finish asks for the score of one.")
    if args.plan:
        return Reply(f"would ask which of {len(batch)} is best\n{found}", _facts(found))
    with found:
        best = found.best_of([each for each, _ in batch], ids=None if args.id is None else [ids for _, ids in batch])
    return Reply(f"{args.predictions[best]} is the best of {len(batch)}", {"best": best, "left": found.forecast()})


def _facts(holdout: Holdout) -> dict[str, Any]:
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


def _plan(args: argparse.Namespace) -> Reply:
    from dataclasses import asdict

    from steelyard.holdout import plan

    guess_error = None if args.guess_error is None else _number(args.guess_error, "--guess-error")
    check_chart(args)
    found = plan(
        args.rows, args.questions, _number(args.tolerance, "--tolerance"),
        _number(args.confidence, "--confidence"), guess_error, args.delta,
    )  # fmt: skip
    save_chart(args, found.chart)
    best = {"best": found.best.name, "mode": found.best.best_at, "possible": found.possible, "options": found.options}
    return Reply(str(found), {**best, "half_width": found.half_width, "methods": [asdict(row) for row in found.rows]})


def _number(text: str, name: str) -> float:
    return float(exact(text, name))


def _attack(args: argparse.Namespace) -> Reply:
    import numpy as np

    from steelyard.audit.attacks import suite
    from steelyard.holdout import HIDING, Holdout

    check_chart(args)
    if args.rows < 2 or args.questions < 1:
        raise InvalidTask(f"an attack needs two rows and one question; got {args.rows} and {args.questions}.")
    labels = np.random.default_rng().integers(0, 2, args.rows)
    options: dict[str, Any] = {name: getattr(args, name) for name in ("budget", "threshold", "sigma")}
    options = {name: value for name, value in options.items() if value is not None}
    if args.mode in HIDING:  # an attacker asks one question more, about the last predictor
        options |= {"classes": [0, 1], "questions": args.questions + 1}

    def opened() -> Holdout:
        return Holdout(labels, args.tolerance, args.confidence, args.mode, **options)

    told = str(opened())
    if args.plan:
        return Reply(f"would attack {args.rows:,} coin flips with {args.questions:,} questions; spends nothing\n{told}")
    with waiting("attacking"):
        report = suite(None, labels=labels, questions=args.questions, renew=opened)
    save_chart(args, report.chart)
    return Reply(f"{told}\n{report.table()}", {"mode": args.mode, "attacks": report.data})
