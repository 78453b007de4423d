"""Public rows made as many as the private ones, to try a search on: by rows, or by whole users."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def repeated(given: Any, n: int | None) -> tuple[Ints, Ints | None]:
    """Which public rows make up n private ones, or n users; and then whose each is. As many as given where n is None.

    ``given`` is the number of public rows, or whose each of them is; then users are repeated with all their rows.

    >>> repeated(3, 5)[0].tolist()
    [0, 1, 2, 0, 1]
    >>> [part.tolist() for part in repeated(["a", "b", "a"], 3)]
    [[0, 2, 1, 0, 2], [0, 0, 1, 2, 2]]
    """
    if isinstance(given, int):
        return np.resize(np.arange(given), given if n is None else n), None
    _, codes = np.unique(np.asarray(given), return_inverse=True)
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    chosen = np.resize(np.arange(len(sizes)), len(sizes) if n is None else n)
    counts = sizes[chosen]
    whose = np.repeat(np.arange(len(chosen)), counts)
    starts = np.concatenate([[0], np.cumsum(sizes)])[chosen] - np.concatenate([[0], np.cumsum(counts)[:-1]])
    return order[starts[whose] + np.arange(len(whose))], whose
