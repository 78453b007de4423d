"""Which options of ``steelyard fit`` go together: one that would mean nothing is refused, never passed over in silence.

Options whose default means something are None until they were all looked at, so that a default never looks like a wish.
Law: everything here is said before an account is opened or charged.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import exact

DEFAULTS = {"confidence": "0.9", "penalty": "0.001", "check": "auto", "delta": "1e-6"}
_ACCURACY = ("confidence", "penalty", "rows", "users", "check", "ids")
_LARGEST = Fraction(10) ** 100


def asked(args: argparse.Namespace) -> bool:
    """Whether an accuracy was named."""
    return args.target_loss is not None or args.excess_loss is not None


def settle(args: argparse.Namespace) -> None:
    """Refuse options that would be ignored and numbers out of any range, then fill in the defaults."""
    _check_accuracy(args)
    _check_account(args)
    _check_model(args)
    for name in ("target_loss", "excess_loss", "penalty"):
        _check_size(getattr(args, name), _option(name))
    for name, default in DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, default)


def delta_of(args: argparse.Namespace) -> dict[str, Any]:
    """The delta an account is opened with; none where it is zero, however that was typed."""
    return {} if exact(args.delta, "delta") == 0 else {"delta": args.delta}


def _check_accuracy(args: argparse.Namespace) -> None:
    if not asked(args):
        told = "is for an accuracy, and none was named: add --target-loss or --excess-loss"
        _refuse(args, _ACCURACY, told, "or leave")
        return
    _refuse(
        args, ("public_rows",), "helps a fit at a fixed price; with an accuracy --rows or --users is the public number"
    )
    _refuse(
        args, ("cap",), "bounds the rows of a user at a fixed price; with an accuracy every user counts once, uncapped"
    )
    if args.ids is not None and args.check != "disjoint":
        raise InvalidTask("--ids says how rows are divided for --check disjoint; without that it means nothing.")


def _check_account(args: argparse.Namespace) -> None:
    if (args.ledger is None) != (args.account is None):
        raise InvalidTask("give both --ledger and --account, or neither.")
    if args.ledger is not None:
        _refuse(args, ("user",), "is what the account already says: who is hidden")
        _refuse(args, ("rows", "users"), "is what the account already says: how many there are, where that is public")
        _refuse(args, ("delta",), "is what the account already says")


def _check_model(args: argparse.Namespace) -> None:
    if args.model == "linear":
        _refuse(args, ("cap",), "keeps rows of a user for logistic models")
        _refuse(args, ("classes",), "names the values of a label for --model logistic")
    else:
        _refuse(args, ("lower", "upper"), "bounds the label of a linear model; a logistic one has --classes")


def _refuse(args: argparse.Namespace, names: tuple[str, ...], why: str, instead: str = "leave") -> None:
    for name in names:
        if getattr(args, name) is not None:
            raise InvalidTask(f"{_option(name)} {why}; {instead} it out.")


def _check_size(text: str | None, option: str) -> None:
    if text is not None and not 1 / _LARGEST <= abs(exact(text, option) or Fraction(1)) <= _LARGEST:
        raise InvalidTask(f"{option} is out of any sensible range; got {text!r}.")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
