"""A paid pass over records: one charge, one draw for each record, however many batches it comes in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import OurBug
from steelyard.noise import Noise

from .added import Added
from .applied import Applied
from .containers import Floats
from .groups import Grouped
from .memo import Memo


class Pass:
    """A paid pass over records: of one charge, however many batches it comes in.

    Only for code that brings each record once: without ids nothing here could tell a record that comes again.
    """

    def __init__(
        self,
        applied: Applied | Added | Grouped,
        noise: Noise,
        charge: Any = None,
        memo: Memo | None = None,
        left: int = 0,
    ) -> None:
        self._applied, self._noise, self._charge, self._memo, self._left = applied, noise, charge, memo, left

    def noisy(self, y: Floats, keys: NDArray[np.bytes_] | None = None) -> Floats:
        """The noisy labels of one batch of records that were not in an earlier batch, or are known by their keys."""
        applied, noise = self._applied, self._noise
        if self._memo is not None:
            if keys is None:
                raise OurBug("a pass with a memo needs the records' keys.")
            return applied.at(self._memo.outputs(keys, lambda new: applied.draw(y[new], noise)))
        self._left -= len(y)
        if self._left < 0:
            raise OurBug("a pass was asked for more labels than it was paid for.")
        if self._charge is None:
            return applied.noisy(y, noise)
        held = self._charge.answer
        if held is None:
            held = self._charge.store(applied.draw(y, noise).astype(applied.code).tobytes())
        return applied.at(np.frombuffer(held, applied.code).astype(np.int64))
