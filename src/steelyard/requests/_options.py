"""Which options go together, as a table: one that would mean nothing is refused, never passed over in silence.

An option counts as given where it is not None, so defaults are filled in after the rules were looked at and never look like a
wish. Law: everything here is said before an account is opened or charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit, exact, labels, rows, users

_LARGEST = Fraction(10) ** 100


@dataclass(frozen=True)
class Rule:
    """Where all of ``where`` holds, each option must be left out or, with ``needed``, be given; ``told`` says why.

    A condition is an option that was given, ``option=value``, or either with a "!" in front, which then must not hold.
    """

    options: tuple[str, ...]
    where: tuple[str, ...]
    told: str
    needed: bool = False

    def check(self, facts: frozenset[str]) -> None:
        """Refuse what breaks this rule."""
        if all((each.removeprefix("!") in facts) != each.startswith("!") for each in self.where):
            for option in self.options:
                if (option in facts) != self.needed:
                    raise InvalidTask(self.told.format(option=named(option)))


def named(option: str) -> str:
    """An option as it is typed."""
    return f"--{option.replace('_', '-')}"


def check_rules(rules: Iterable[Rule], given: Mapping[str, Any], *more: str) -> None:
    """Refuse options that contradict a rule; the first rule that is broken is told. ``more`` are further facts."""
    facts = {name for name, value in given.items() if value is not None}
    facts |= {f"{name}={value}" for name, value in given.items()} | set(more)
    for rule in rules:
        rule.check(frozenset(facts))


_BOTH = "give both --ledger and --account, or neither."
_ACCOUNT_SAYS = "{option} is what the account already says"
_SECRET = "with --check disjoint the numbers of rows and users stay secret; leave --rows and --users out."
_OWN = ("accuracy", "!ledger")
_COUNTED = (*_OWN, "!check=disjoint")
FIT_RULES = (
    Rule(
        ("confidence", "penalty", "rows", "users", "check", "ids"), ("!accuracy",),
        "{option} is for an accuracy, and none was named: add --target-loss or --excess-loss (or --target-rmse, --target-r2, --target-accuracy); or leave it out.",
    ),
    Rule(
        ("public_rows",), ("accuracy",),
        "{option} helps a fit at a fixed price; with an accuracy --rows or --users is the public number; leave it out.",
    ),
    Rule(
        ("cap",), ("accuracy",),
        "{option} bounds the rows of a user at a fixed price; with an accuracy every user counts once, uncapped; leave it out.",
    ),
    Rule(
        ("ids",), ("!check=disjoint",),
        "{option} says how rows are divided for --check disjoint; without that it means nothing.",
    ),
    Rule(("account",), ("ledger",), _BOTH, needed=True),
    Rule(("account",), ("!ledger",), _BOTH),
    Rule(("user",), ("ledger",), f"{_ACCOUNT_SAYS}: who is hidden; leave it out."),
    Rule(
        ("rows", "users"), ("ledger",),
        f"{_ACCOUNT_SAYS}: how many there are, where that is public; leave it out.",
    ),
    Rule(("delta",), ("ledger",), f"{_ACCOUNT_SAYS}; leave it out."),
    Rule(
        ("method", "ridge", "candidates", "radius"), ("accuracy",),
        "{option} says how a model is fitted at a fixed price; an accuracy has a way of its own; leave it out.",
    ),
    Rule(
        ("weight", "weight_bound"), ("accuracy",),
        "{option} lets rows count differently, and an accuracy is that of rows which count alike; leave it out.",
    ),
    Rule(("weight_bound",), ("!weight",), "{option} bounds the weights in a column that --weight names; add that, or leave it out."),
    Rule(
        ("candidates", "radius"), ("!method=choice",),
        "{option} is what --method choice chooses among; add that, or leave it out.",
    ),
    Rule(("classes",), ("model=linear",), "{option} names the values of a label for --model logistic; leave it out."),
    Rule(
        ("lower", "upper"), ("model=logistic",),
        "{option} bounds the label of a linear model; a logistic one has --classes; leave it out.",
    ),
    Rule(
        ("classes",), ("model=logistic",),
        "a logistic model needs --classes, the public values of its label.", needed=True,
    ),
    Rule(
        ("lower", "upper"), ("model=linear",),
        "a linear model needs --lower and --upper, the public bounds of its label.", needed=True,
    ),
    Rule(
        ("target_loss", "target_rmse", "target_r2", "target_accuracy", "excess_loss", "method", "ridge", "candidates", "radius", "weight", "cap", "public_rows", "user"),
        ("model=poisson",),
        "{option} is for linear and logistic models; a Poisson model is fitted at a price, one way, and hides labels alone; leave it out.",
    ),
    Rule(("classes",), ("model=poisson",), "{option} names the values of a label for --model logistic; leave it out."),
    Rule(
        ("lower", "upper"), ("model=poisson",),
        "a Poisson model needs --lower and --upper, the public bounds of its counts.", needed=True,
    ),
    Rule(("rows", "users"), (*_OWN, "check=disjoint"), _SECRET),
    Rule(("users",), (*_OWN, "!user"), "{option} needs --user, the column that says whose each row is."),
    Rule(
        ("rows",), (*_COUNTED, "!user"),
        "naming an accuracy needs --rows, the public number of rows (or a --ledger account that says it).", needed=True,
    ),
    Rule(
        ("users",), (*_COUNTED, "user"),
        "naming an accuracy where users are hidden needs --users, the public number of users (or a --ledger account that says "
        "it).", needed=True,
    ),
    Rule(
        ("rows",), (*_OWN, "user"),
        "where users are hidden their number is public and that of rows is not; leave --rows out.",
    ),
)  # fmt: skip
"""The options of a fit; the fact "accuracy" is that one was named."""

_ACCURACIES = ("target_loss", "target_rmse", "target_r2", "target_accuracy", "excess_loss")
FIT_DEFAULTS = {"confidence": "0.9", "penalty": "0.001", "check": "auto", "delta": "1e-6"}


def fit_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a fit with their defaults; those that would be ignored and numbers out of any range are refused.

    Besides, under ``accuracy``, whether one was named instead of a price.
    """
    accuracy = any(given[name] is not None for name in _ACCURACIES)
    check_rules(FIT_RULES, given, *(["accuracy"] if accuracy else []))
    _check_sizes(given, (*_ACCURACIES, "penalty"))
    defaults = {name: default for name, default in FIT_DEFAULTS.items() if given[name] is None}
    return {**given, **defaults, "accuracy": accuracy}


def fit_terms(given: Mapping[str, Any]) -> dict[str, Any]:
    """What an account of a fit alone is opened with: whom it hides, what it may spend, and a delta unless that is zero.

    An accuracy speaks of a mean over a public number of rows, or users, of whom one is replaced; with a disjoint check one is
    added or removed, and no number is public. A Poisson model hides its label alone.
    """
    delta = {} if exact(given["delta"], "delta") == 0 else {"delta": given["delta"]}
    return {"unit": _fit_unit(given), "epsilon": given["epsilon"], **delta}


def _fit_unit(given: Mapping[str, Any]) -> Unit:
    if given["model"] == "poisson":
        return labels(given["label"])
    user, n = given["user"], given["rows"] if given["user"] is None else given["users"]
    relation: dict[str, Any] = {} if n is None else {"neighbours": "replace", "n": n}
    return rows(**relation) if user is None else users(user, **relation)


def _check_sizes(given: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        text = given[name]
        if text is not None and not 1 / _LARGEST <= abs(exact(text, named(name)) or Fraction(1)) <= _LARGEST:
            raise InvalidTask(f"{named(name)} is out of any sensible range; got {text!r}.")
