"""``steelyard fit … --target-loss`` or ``--excess-loss``: name the accuracy, watch what it costs, stop when it is reached.

Accuracy first speaks of a mean over a public number of rows, so the account hides one replaced row among ``--rows``; or,
with ``--user COLUMN``, one replaced user among ``--users``, every user counting once.
Each step is charged before it is drawn and told as it is released; the cap ``--epsilon`` is a limit, not a price.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steelyard.cli.answer import Answer, columns, waiting
from steelyard.errors import InvalidTask
from steelyard.models.first.wanted import CHECKS

if TYPE_CHECKING:
    from steelyard.ledger import Account
    from steelyard.models.first.outcome import Stop
    from steelyard.models.first.reach import Reached

_REASONS = {
    "target_met": "reached",
    "null_model_ok": "reached without a model: predicting the middle is good enough",
    "cap_reached": "NOT reached: the budget ended first",
    "target_impossible": "NOT reached: no level of the path could be shown to be good enough",
}


def add_arguments(fit: argparse.ArgumentParser) -> None:
    """The options that turn a fit at a price into a fit at an accuracy."""
    fit.add_argument("--target-loss", help="spend as little as reaches this mean loss; --epsilon is then the most")
    fit.add_argument("--excess-loss", help="the same, for the loss above that of the best model there is")
    fit.add_argument("--confidence", default="0.9", help="with either: how sure the accuracy is (default 0.9)")
    fit.add_argument(
        "--penalty", default="0.001", help="with either: lambda of the mean penalized loss (default 0.001)"
    )
    fit.add_argument("--rows", type=int, help="with either, without a ledger: the public number of rows")
    fit.add_argument("--users", type=int, help="with either and --user, without a ledger: the public number of users")
    fit.add_argument("--check", choices=CHECKS, default="auto", help="with either: how it is checked (see the docs)")
    fit.add_argument("--ids", metavar="COLUMN", help="with --check disjoint: the column by which rows are divided")


def asked(args: argparse.Namespace) -> bool:
    """Whether an accuracy was named."""
    return args.target_loss is not None or args.excess_loss is not None


def account_for(args: argparse.Namespace) -> Any:
    """An account of this command alone that hides one replaced row, or user, among a public number of them.

    With a disjoint check one that is added or removed: there no number is public.
    """
    from steelyard.ledger import open_account

    delta = {} if args.delta == "0" else {"delta": args.delta}
    return open_account(":memory:", "fit", unit=_unit(args), epsilon=args.epsilon, **delta)


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


def reach(args: argparse.Namespace, session: Any, task: Any, note: str) -> Answer:
    """Walk the path until the task's model is accurate enough, or the budget is gone."""
    from steelyard.models.first.reach import reach_linear, reach_logistic
    from steelyard.models.first.wanted import Wanted

    wanted = Wanted.read(args.target_loss, args.excess_loss, None, args.confidence, args.check)
    if args.ids is not None and args.check != "disjoint":
        raise InvalidTask("--ids says how rows are divided for --check disjoint; without that it means nothing.")
    if args.plan:
        return _plan(session)
    told: dict[str, Any] = {"penalty": args.penalty, "key": args.key, "ids": args.ids}
    scale = 1.0 if args.model == "logistic" else task.target.half**2
    told["progress"] = _teller(args, session.account, scale)
    with waiting("charging, measuring and checking"):
        if args.model == "logistic":
            found = reach_logistic(session, task.features, task.label, task.classes, wanted, **told)
        else:
            found = reach_linear(session, task.features, task.target, wanted, **told)
    return _answer(args, found, wanted.amount, note, scale)


def _plan(session: Any) -> Answer:
    left = session.account.remaining
    text = f"would spend what the accuracy turns out to cost, step by step, at most {left}; try it on public rows first"
    return Answer(text, {"at_most": left.to_json()})


def _teller(args: argparse.Namespace, account: Account, scale: float) -> Callable[[Stop], None] | None:
    """A line for each step on standard error, from what was released; nothing when a program listens.

    What was spent so far is read from the account, which knows where parts of a path cost the dearer one alone.
    """
    from steelyard.models.first.reach import epsilons

    if args.json:
        return None
    before = account.spent.amount
    print(f"{'step':<24} {'epsilon so far':<16} loss", file=sys.stderr)

    def tell(stop: Stop) -> None:
        spent, _ = epsilons(account.terms, account.spent.amount - before)
        said = [] if stop.bound is None else [f"at most {stop.bound * scale:.4g}"]
        said += [] if stop.loss is None else [f"about {stop.loss * scale:.4g},"]
        said += [] if stop.passed is None else ["passed" if stop.passed else "not yet"]
        print(f"{stop.step:<24} {spent:<16.4g} {' '.join(said)}".rstrip(), file=sys.stderr, flush=True)

    return tell


def _answer(args: argparse.Namespace, found: Reached, target: float, note: str, scale: float) -> Answer:
    if found.model is not None:
        found.model.save(args.out)
    if args.chart:
        from steelyard.models.first.charts import path_chart

        path_chart(found.path, target, scale=scale).save(args.chart)
    lines = [
        ("accuracy", _REASONS[found.reason]),
        ("certificate", str(found.certificate)),
        (
            "epsilon",
            f"{found.epsilon:.4g} for everything released on the way (ex post); {found.epsilon_filter:.4g} on the account",
        ),
        ("steps", str(len(found.path))),
        ("model", f"saved to {args.out}" if found.model is not None else "none"),
        ("account", note or "charged to the account that was named"),
    ]
    data = {
        "reason": found.reason,
        "certificate": str(found.certificate),
        "bound": found.certificate.bound if found.certificate.met else None,
        "epsilon": found.epsilon,
        "epsilon_filter": found.epsilon_filter,
        "path": [stop.to_json() for stop in found.path],
        "model": args.out if found.model is not None else None,
    }
    return Answer(columns(lines), data)
