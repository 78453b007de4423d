"""What an auditor looks at in a batch of outputs: a score per output, so that events are "score at least t".

Thresholds on the values themselves find the best event of additive noise. For outputs with few outcomes the score is
the outcome's likelihood ratio, learnt on the choosing half. For floating-point outputs the lowest set bit is a score
too: it is what gives away noise that was added in floating point (Mironov 2012; Haney et al. 2022).
Any function of the output is a fair score: a poor one weakens the bound, none makes it wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COORDINATES = 16
_OUTCOMES = 20_000


@dataclass(frozen=True)
class Feature:
    """A named score of outputs."""

    name: str
    score: Callable[[NDArray[Any]], NDArray[Any]]


def features(left: NDArray[Any], right: NDArray[Any]) -> Iterator[Feature]:
    """The scores worth trying, given the choosing halves of both sides."""
    import numpy as np

    if left.ndim == 1:
        yield Feature("the value", _value)
    else:
        for column in range(min(left.shape[1], _COORDINATES)):
            yield Feature(f"coordinate {column}", partial(_column, column))
        yield from _directions(left, right)
    if np.issubdtype(left.dtype, np.floating):
        yield Feature("the lowest set bit", lambda x: lowest_bit(x.reshape(len(x), -1)[:, 0]))
    ratios = _likelihood_ratio(left, right)
    if ratios is not None:
        yield Feature("the likelihood ratio of the outcome", ratios)


def _column(column: int, x: NDArray[Any]) -> NDArray[Any]:
    return _value(x[:, column])


def _directions(left: NDArray[Any], right: NDArray[Any]) -> Iterator[Feature]:
    """All coordinates at once: along the line between the two means, and all of them beyond their midpoints."""
    import numpy as np

    middle = (left.mean(axis=0) + right.mean(axis=0)) / 2
    gap = left.mean(axis=0) - right.mean(axis=0)
    spread = np.maximum(left.std(axis=0) + right.std(axis=0), 1e-300)
    line, side = gap / spread**2, np.where(gap >= 0, 1.0, -1.0) / spread
    moved = np.abs(gap) > 0.02 * spread
    if not np.isfinite(line).all() or not moved.any():
        return
    yield Feature("the place between the two means", lambda x: _value((x - middle) @ line))
    yield Feature("the least of the moved coordinates", lambda x: _value(((x - middle) * side)[:, moved].min(axis=1)))


def _value(x: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.nan_to_num(x, nan=np.inf, posinf=np.inf, neginf=-np.inf) if x.dtype.kind == "f" else x


def lowest_bit(x: NDArray[Any]) -> NDArray[Any]:
    """The exponent of a float's lowest set bit: how fine the grid is that the number lies on."""
    import numpy as np

    mantissa, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    trailing = np.where(whole == 0, 0, np.log2((whole & -whole).astype(float) + (whole == 0)))
    return np.where(whole == 0, 2000, exponent - 53 + trailing).astype(np.int64)


def _likelihood_ratio(left: NDArray[Any], right: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    import numpy as np

    codes = np.concatenate([_codes(left), _codes(right)])
    known, inverse = np.unique(codes, return_inverse=True)
    if len(known) > min(_OUTCOMES, len(left) // 10):
        return None
    here = np.bincount(inverse[: len(left)], minlength=len(known))
    there = np.bincount(inverse[len(left) :], minlength=len(known))
    ratio = np.log(here + 0.5) - np.log(there + 0.5)

    def score(outputs: NDArray[Any]) -> NDArray[Any]:
        wanted = _codes(outputs)
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[place] == wanted, ratio[place], 0.0)

    return score


def _codes(outputs: NDArray[Any]) -> NDArray[Any]:
    """One number per output; two outputs that share one are taken for the same, which is merely a coarser event."""
    import numpy as np

    grid = np.ascontiguousarray(outputs.reshape(len(outputs), -1))
    words = grid.astype(np.float64).view(np.uint64) if grid.dtype.kind == "f" else grid.astype(np.int64).view(np.uint64)
    code = np.zeros(len(outputs), dtype=np.uint64)
    for column in range(words.shape[1]):
        code = (code ^ words[:, column]) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    return code
