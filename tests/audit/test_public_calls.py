"""Neighbours replayed through the calls people make: estimators on arrays and frames, commands on files.

Both sides are led to the same released numbers. Then nothing else may differ: what is raised, warned, printed or written,
which steps are charged, what the fitted model says. One row or user more, with odd values, in every container.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import steelyard as sy
from steelyard.audit._odd_labels import containers, objects
from steelyard.audit._steering import STEERABLE, SteeredNoise, distance
from steelyard.cli import main
from steelyard.ledger import Account, Ledger
from steelyard.mechanisms._observe import Observed, observing
from steelyard.privacy import Neighbours

ROWS = 30
REAL = (float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1e308, -1e308, 2.0**53 + 2, 0.5)
LOOSE: tuple[Any, ...] = (
    None,
    "x",
    "1",
    b"x",
    True,
    2**70,
    10**400,
    [1.0],
    (),
    {},
    1j,
    object(),
    pd.NA,
    pd.NaT,
    float("nan"),
    1.5,
)
IDS = (101, 102, 2**53 + 3, 2**53 + 4, 2**53 + 5, 107)
"""None of the odd values, and two that are one user as floats."""


@dataclass(frozen=True)
class Heard:
    """Everything a public call let the world hear, and (for the audit alone) what was noised."""

    told: str
    seen: tuple[Observed, ...]
    written: list[list[int]]


def listen(call: Callable[[Any], Any], script: list[list[int]] | None = None) -> Heard:
    """Make a call with steered noise; whatever it raises or warns of is part of what was heard."""
    with observing() as window, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        noise = SteeredNoise(window, 3, script)
        try:
            told = repr(call(noise))
        except Exception as failure:
            told = f"{type(failure).__name__}: {failure}"
    return Heard("\n".join([told, *(str(each.message) for each in warned)]), tuple(window), noise.written)


def findings(left: Heard, right: Heard, account: Neighbours = Neighbours.ADD_REMOVE) -> list[str]:
    """Whatever tells the two sides apart and is not hidden by noise."""
    found = []
    if [seen.event for seen in left.seen] != [seen.event for seen in right.seen]:
        return [f"other releases: {len(left.seen)} and {len(right.seen)}; {left.told:.200} and {right.told:.200}"]
    for one, other in zip(left.seen, right.seen, strict=True):
        far = distance(one.event, one.values, other.values, account)
        found += [str(far)] if far.broken else []
    steered = all(seen.event.name in STEERABLE for seen in left.seen)
    if (steered or not left.seen) and left.told != right.told:
        found.append(f"{left.told:.300} and {right.told:.300}")
    return found


@dataclass(frozen=True)
class Rows:
    """Rows for an estimator: two features, a label, whose each row is."""

    x: list[list[Any]]
    y: list[Any]
    users: list[Any]

    def with_odd(self, value: Any, where: str) -> Rows:
        """The same and one row more, of a user of its own (or, where that is odd, of an odd one)."""
        x, y, user = [0.5, 0.5], 1, "new" if isinstance(self.users[0], str) else -5
        if where == "x":
            return Rows([*self.x, [value, 0.5]], [*self.y, y], [*self.users, user])
        if where == "y":
            return Rows([*self.x, x], [*self.y, value], [*self.users, user])
        return Rows([*self.x, x], [*self.y, y], [*self.users, value])


def base() -> Rows:
    draw = random.Random(5)
    return Rows(
        [[draw.random(), draw.random()] for _ in range(ROWS)],
        [row % 2 for row in range(ROWS)],
        [IDS[row % len(IDS)] for row in range(ROWS)],
    )


def _frame(rows: list[list[Any]], kind: Any) -> pd.DataFrame:
    return pd.DataFrame({f"c{i}": pd.Series([row[i] for row in rows], dtype=kind) for i in range(2)})


def _object_rows(rows: list[list[Any]]) -> Any:
    array = np.empty((len(rows), 2), dtype=object)
    for place, row in enumerate(rows):
        array[place, 0], array[place, 1] = row
    return array


TABLES: dict[str, tuple[Callable[[list[list[Any]]], Any], tuple[Any, ...]]] = {
    "lists": (list, LOOSE + REAL),
    "object array": (_object_rows, LOOSE + REAL),
    "frame of objects": (lambda rows: _frame(rows, object), LOOSE + REAL),
    "float array": (lambda rows: np.array(rows, dtype=np.float64), REAL),
    "frame": (lambda rows: _frame(rows, np.float64), REAL),
    "nullable frame": (lambda rows: _frame(rows, "Float64"), (None, 0.5, 1e308)),
}
MODELS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda noise: sy.LinearRegression(epsilon=1, y_bounds=(0, 1), x_bound=2, noise=noise),
    "logistic": lambda noise: sy.LogisticRegression(epsilon=1, classes=[0, 1], x_bound=2, noise=noise),
}


def fitted(model: str, x: Any, y: Any, users: Any) -> Callable[[Any], Any]:
    def call(noise: Any) -> Any:
        made = MODELS[model](noise).fit(x, y, **({} if users is None else {"users": users}))
        spent = made.account_.spent
        return [
            np.round(made.coef_, 12).tolist(),
            made.predict([[0.0, 1.0]]).tolist(),
            str(made.guarantee_),
            str(spent),
        ]

    return call


Make = Callable[[Rows], tuple[Any, Any, Any]]


def _given(which: str, make: Callable[[Any], Any], *, hides_users: bool = True) -> Make:
    """The arguments of a fit, one of them in a container of its own."""

    def made(rows: Rows) -> tuple[Any, Any, Any]:
        x = make(rows.x) if which == "x" else np.array(rows.x, dtype=float)
        y = make(rows.y) if which == "y" else np.array(rows.y)
        users = make(rows.users) if which == "users" else objects(rows.users)
        return x, y, users if hides_users else None

    return made


def cases() -> Iterator[tuple[str, str, bool, Rows, Make]]:
    """Every model, container, odd place and odd value; rows hidden, and users."""
    rows, labels = base(), [(each.name, each.make, each.odd) for each in containers()]
    tables = [(name, make, odd) for name, (make, odd) in TABLES.items()]
    for model in MODELS:
        for which, ways in (("x", tables), ("y", labels), ("users", labels)):
            for name, make, odd in ways:
                for value in odd:
                    for hides in (True,) if which == "users" else (False, True):
                        given = _given(which, make, hides_users=hides)
                        yield model, f"{which} {name}", hides, rows.with_odd(value, which), given


def _broken(picked: Iterator[Any]) -> tuple[int, list[str]]:
    lefts: dict[tuple[str, str, bool], Heard] = {}
    found, pairs = [], 0
    for model, where, hides_users, odd, make in picked:
        at = (model, where, hides_users)
        try:
            left_args, right_args = make(base()), make(odd)
        except (OverflowError, TypeError, ValueError):  # the container itself holds no such value
            continue
        if at not in lefts:
            lefts[at] = listen(fitted(model, *left_args))
        right = listen(fitted(model, *right_args), lefts[at].written)
        pairs += 1
        found += [f"{model}, {where}, {hides_users}: {each}" for each in findings(lefts[at], right)]
    return pairs, found


def test_no_odd_entry_tells_two_fits_apart() -> None:
    pairs, found = _broken(islice(cases(), 3, None, 23))
    assert not found, f"{len(found)} of {pairs}: " + "\n".join(found[:10])
    assert pairs > 80


@pytest.mark.slow
def test_no_odd_entry_tells_two_fits_apart_in_any_container() -> None:
    pairs, found = _broken(cases())
    assert not found, f"{len(found)} of {pairs}: " + "\n".join(found[:10])
    assert pairs > 2000


def test_ids_that_are_read_as_one_column_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.models._estimator.units", np.asarray)  # one float makes two users one
    odd = [case for case in cases() if case[:2] == ("linear", "users list")]
    assert _broken(iter(odd[:12]))[1]


COMMANDS = (
    ("sum", "v", "--cap", "3"),
    ("sum", "v", "--cap", "5", "--by", "k", "--keys", "a,b"),
    ("sum", "v", "--upper", "100"),
    ("count", "--cap", "2"),
    ("mean", "v", "--lower", "0", "--upper", "5", "--cap", "2"),
    ("histogram", "v", "--edges", "0,1,5", "--cap", "2"),
    ("profile", "v", "--upper", "100"),
    ("fit", "--label", "v", "--lower", "0", "--upper", "5", "--features", "w:0:1", "k=a,b", "--out", "m.json"),
)


def _columns(extra: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    rows: list[tuple[Any, ...]] = [(row % 7, float(row % 5), row / 40, "ab"[row % 2]) for row in range(40)]
    return dict(zip("uvwk", map(list, zip(*rows, *extra, strict=True)), strict=True))


def _write(path: Path, extra: list[tuple[Any, ...]]) -> None:
    data = _columns(extra)
    if path.suffix == ".csv":
        lines = [
            "u,v,w,k",
            *(",".join("" if c is None else str(c) for c in row) for row in zip(*data.values(), strict=True)),
        ]
        path.write_text("\n".join(lines) + "\n")
        return
    kinds = {"u": pa.int64(), "v": pa.float64(), "w": pa.float64(), "k": pa.string()}
    pq.write_table(pa.table({name: pa.array(data[name], kinds[name]) for name in data}), path)


EXTRAS: dict[str, list[tuple[Any, ...]]] = {
    "heavy": [(99, 1e308, 1e308, "a")] * 50,
    "nan": [(99, float("nan"), float("nan"), "a"), (99, float("inf"), float("-inf"), "b")],
    "nulls": [(2**53 + 1, None, None, None), (2**53 + 1, 1.0, 1.0, "zz"), (None, 1.0, 1.0, "a")],
    "odd text": [(-(2**63), 1.0, 1.0, "\x1b[31m"), (-(2**63), -0.0, 5e-324, "")],
}


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:2]))
def test_no_users_rows_tell_two_commands_apart(
    words: tuple[str, ...],
    suffix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Account, "durable", property(lambda account: False))
    pay = ["--epsilon", "1", "--ledger", "b.db", "--account", "a"]
    command = [words[0], f"d{suffix}", *words[1:], *pay, "--json"]

    def call(extra: list[tuple[Any, ...]], name: str) -> Callable[[Any], Any]:
        def made(noise: Any) -> Any:
            home = tmp_path / name
            home.mkdir()
            monkeypatch.chdir(home)
            _write(Path(f"d{suffix}"), extra)
            sy.open_account("b.db", "a", unit=sy.users("u"), epsilon=9, delta="1e-6" if words[0] == "fit" else None)
            monkeypatch.setattr("steelyard.session.ExactNoise", lambda: noise)
            heard = [
                main([*command, "--plan"]),
                capsys.readouterr(),
                main([*command, "--key", "k"]),
                capsys.readouterr(),
            ]
            entries = [(entry.kind, entry.name, entry.amount) for entry in Ledger("b.db").entries()]
            return [*map(_without_receipt, heard), entries, Path("m.json").exists() and Path("m.json").read_text()]

        return made

    left = listen(call([], "base"))
    assert left.seen, left.told
    for name, extra in EXTRAS.items():
        assert findings(left, listen(call(extra, name.replace(" ", "-")), left.written)) == [], name


def _without_receipt(heard: Any) -> Any:
    if isinstance(heard, int):
        return heard
    text = heard.out
    try:
        return {k: v for k, v in json.loads(text).items() if k != "receipt"}, heard.err
    except ValueError:
        return text, heard.err
