"""``steelyard fit … --target-loss`` or ``--excess-loss``: name the accuracy, watch what it costs, stop when it is reached.

Accuracy first speaks of a mean over a public number of rows, so the account hides one replaced row among ``--rows``; or,
with ``--user COLUMN``, one replaced user among ``--users``, every user counting once.
Each step is charged before it is drawn and told as it is released; the cap ``--epsilon`` is a limit, not a price.
"""

from __future__ import annotations

import argparse
from typing import Any

from steelyard.cli import reached
from steelyard.cli.answer import Answer, waiting
from steelyard.cli.files import Outputs
from steelyard.cli.fit_options import delta_of
from steelyard.errors import InvalidTask, KeyConflict
from steelyard.models.accuracy import CHECKS
from steelyard.privacy import whole_number

_CHECKED = (
    "with either: how it is checked. auto (default): a model is looked at more and more sharply while it may pass, and not "
    "where the released statistics rule it out (an excess: two looks at most); screened: another name for auto; every: one "
    "sharp look at each model (--target-loss); certificate: no looks (linear, --excess-loss); disjoint: train on one half, "
    "look at the other, n stays secret (--target-loss)"
)


def add_arguments(fit: argparse.ArgumentParser) -> None:
    """The options that turn a fit at a price into a fit at an accuracy."""
    fit.add_argument("--target-loss", help="spend as little as reaches this mean loss; --epsilon is then the most")
    fit.add_argument("--excess-loss", help="the same, for the loss above that of the best model there is")
    fit.add_argument("--confidence", help="with either: how sure the accuracy is (default 0.9)")
    fit.add_argument("--penalty", help="with either: lambda of the mean penalized loss (default 0.001)")
    fit.add_argument("--rows", type=whole_number, help="with either, without a ledger: the public number of rows")
    fit.add_argument(
        "--users", type=whole_number, help="with either and --user, without a ledger: the public number of users"
    )
    fit.add_argument("--check", choices=CHECKS, help=_CHECKED)
    fit.add_argument("--ids", metavar="COLUMN", help="with --check disjoint: the column by which rows are divided")


def account_for(args: argparse.Namespace) -> Any:
    """An account of this command alone that hides one replaced row, or user, among a public number of them.

    With a disjoint check one that is added or removed: there no number is public.
    """
    from steelyard.ledger import open_account

    return open_account(":memory:", "fit", unit=_unit(args), epsilon=args.epsilon, **delta_of(args))


def _unit(args: argparse.Namespace) -> Any:
    from steelyard.privacy import rows, users

    if args.check == "disjoint":
        if args.rows is not None or args.users is not None:
            raise InvalidTask(
                "with --check disjoint the numbers of rows and users stay secret; leave --rows and --users out."
            )
        return rows() if args.user is None else users(args.user)
    if args.user is None:
        if args.users is not None:
            raise InvalidTask("--users needs --user, the column that says whose each row is.")
        if args.rows is None:
            raise InvalidTask(
                "naming an accuracy needs --rows, the public number of rows (or a --ledger account that says it)."
            )
        return rows(neighbours="replace", n=args.rows)
    if args.users is None:
        raise InvalidTask(
            "naming an accuracy where users are hidden needs --users, the public number of users (or a --ledger account "
            "that says it)."
        )
    if args.rows is not None:
        raise InvalidTask("where users are hidden their number is public and that of rows is not; leave --rows out.")
    return users(args.user, neighbours="replace", n=args.users)


def reach(args: argparse.Namespace, table: Any, account: Any, task: Any, note: str, files: Outputs) -> Answer:
    """Walk the path until the task's model is accurate enough, or the budget is gone."""
    from steelyard.models.accuracy import Goal, loss_unit

    wanted = Goal.read(args.target_loss, args.excess_loss, None, args.confidence, args.check)
    scale = 1.0 if args.model == "logistic" else loss_unit(task.target)
    try:
        if args.plan:
            return _plan(args, table, account, task, wanted)
        with waiting("charging, measuring and checking"):
            found = _walk(args, table, account, task, wanted, reached.teller(args, account, scale))
    except KeyConflict as conflict:
        raise _named_conflict(args, conflict) from None
    return reached.answer(args, account.terms, found, wanted.amount, note, scale, files)


def _walk(args: argparse.Namespace, table: Any, account: Any, task: Any, wanted: Any, progress: Any) -> Any:
    from steelyard.models.accuracy import reach_linear, reach_logistic, within
    from steelyard.session import Session

    session = within(Session(table, account), None if args.ledger is None else args.epsilon)
    told: dict[str, Any] = {"penalty": args.penalty, "key": args.key, "ids": args.ids, "progress": progress}
    if args.model == "logistic":
        return reach_logistic(session, task.features, task.label, task.classes, wanted, **told)
    return reach_linear(session, task.features, task.target, wanted, **told)


def _plan(args: argparse.Namespace, table: Any, account: Any, task: Any, wanted: Any) -> Answer:
    """The same request up to its first charge, which for a classifier near the best is the only one."""
    from steelyard.cli.door import Checked, Shut
    from steelyard.models.accuracy import epsilons

    try:
        found = _walk(args, table, Shut(account), task, wanted, None)
    except Checked as checked:
        if args.model == "linear" or wanted.kind != "excess" or checked.cost is None or checked.event is None:
            return reached.planned_path(account)
        alone, _ = epsilons(account.terms, checked.cost.amount, [checked.event])
        return reached.planned_release(account, checked.cost, alone)
    return reached.planned_path(account) if found.reason == "cap_reached" else reached.planned_nothing(account)


def _named_conflict(args: argparse.Namespace, conflict: KeyConflict) -> KeyConflict:
    """The same refusal by the key that was typed: a path's steps have names of their own under it."""
    if "already names another request" not in str(conflict):
        return conflict
    return KeyConflict(
        f"the key {args.key!r} already names another request on account {args.account!r}: another setting than now was given "
        "then (model, label, its bounds or classes, features, penalty, or --check disjoint). Repeat that one to go on along "
        "its path, or choose a new key."
    )
