"""Two tables that differ by one user, led through a method to the same releases: how far apart were the integers?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.audit._steering import SteeredNoise, declared_scale, distance
from steelyard.mechanisms._observe import Observed, observing
from steelyard.models._columns import SIZE
from steelyard.models._passes import Method
from steelyard.models._rows import Fitted, Rows
from steelyard.privacy import Neighbours


@dataclass(frozen=True)
class Trace:
    """What one fit let a test see."""

    seen: tuple[Observed, ...]
    written: list[list[int]]
    fitted: Fitted
    enough_noise: bool


def rows_of(x: Any, y: Any, users: Any) -> Rows:
    """Features of length at most one and labels of at most one, on the grid."""
    given = np.asarray(x, dtype=float)
    whole = np.trunc(given / np.maximum(1, np.linalg.norm(given, axis=1, keepdims=True)) * SIZE)
    labels = np.clip(np.rint(np.asarray(y, dtype=float) * SIZE), -SIZE, SIZE)
    return Rows(whole, labels, np.asarray(users, dtype=np.int64))


def made_up(users: int = 40, width: int = 3, seed: int = 5) -> Rows:
    """A small table of users with one to nine rows."""
    source = np.random.default_rng(seed)
    owners = np.repeat(np.arange(users), source.integers(1, 10, users))
    x = source.normal(size=(owners.size, width))
    return rows_of(x, np.where(x[:, 0] + source.normal(size=owners.size) > 0, 1.0, -1.0), owners)


def alike_users() -> Rows:
    """Thirty thousand rows of one linear model, users of very different weight."""
    source = np.random.default_rng(6)
    owners = source.zipf(1.6, 30_000).clip(max=4000) + 10 * source.integers(0, 4000, 30_000)
    x = source.normal(size=(30_000, 3)) / 3
    return rows_of(x, x @ [0.5, -0.25, 0.0] + 0.1 * source.normal(size=30_000), owners)


def joined(rows: Rows, more: Rows) -> Rows:
    """Both tables' rows; codes are kept."""
    assert rows.users is not None
    assert more.users is not None
    users = np.concatenate([rows.users, more.users])
    return Rows(np.concatenate([rows.x, more.x]), np.concatenate([rows.y, more.y]), users)


def newcomers(width: int = 3, code: int = 9999, heavy: int = 3000) -> dict[str, Rows]:
    """What the user that comes and goes may bring."""
    long = np.full((heavy, width), 1 / np.sqrt(width))
    source = np.random.default_rng(6)
    mixed = source.normal(size=(heavy, width))
    return {
        "one row": rows_of(long[:1], [1.0], [code]),
        "many rows of one direction": rows_of(long, -np.ones(heavy), [code] * heavy),
        "as many the other way": rows_of(-long, -np.ones(heavy), [code] * heavy),
        "many mixed rows": rows_of(mixed, np.sign(mixed[:, -1]), [code] * heavy),
        "rows of zeros": rows_of(np.zeros((70, width)), np.zeros(70), [code] * 70),
        "first of all": rows_of(long[:5], np.ones(5), [-1] * 5),
    }


def trace(method: Method, rows: Rows, script: list[list[int]] | None = None) -> Trace:
    """Fit with observed noise, steered towards ``script``."""
    with observing() as window:
        noise = SteeredNoise(window, 7, script)
        fitted = method.fit(rows, noise)
    wide = all(
        draw.release is not None and draw.scale == declared_scale(window[draw.release].event) for draw in noise.draws
    )
    return Trace(tuple(window), noise.written, fitted, wide and len(noise.draws) == len(window))


def furthest(method: Method, base: Rows, more: dict[str, Rows]) -> float:
    """The largest distance of any release, in sensitivities; the transcripts and results must be the same."""
    left, worst = trace(method, base), 0.0
    for extra in more.values():
        right = trace(method, joined(base, extra), left.written)
        assert left.enough_noise
        assert right.enough_noise
        assert [a.event for a in left.seen] == [b.event for b in right.seen]
        for a, b in zip(left.seen, right.seen, strict=True):
            worst = max(worst, distance(a.event, a.values, b.values, Neighbours.ADD_REMOVE).share)
        same_result(left.fitted, right.fitted)
    return worst


def same_result(left: Fitted, right: Fitted) -> None:
    """Equal releases must give equal models."""
    assert left.coefficients.tolist() == right.coefficients.tolist()
    assert left.details == right.details


def reordered(rows: Rows, change: Callable[[Any], Any]) -> Rows:
    """The same rows in another order."""
    assert rows.users is not None
    place = change(np.arange(rows.y.size))
    return Rows(rows.x[place], rows.y[place], rows.users[place])
