"""A number that is wanted within a tolerance: what a report's plan is made of.

A tolerance is half the width of what is acceptable around the truth, in the answer's own unit or as a share of its size
("2%"). What a tolerance costs is worked out in ``_reading``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from steelyard.bounding._amounts import bound
from steelyard.bounding._distinct import CountDistinct
from steelyard.bounding._means import Mean, Std, Variance
from steelyard.bounding._quantiles import Median, Quantile
from steelyard.bounding._ratio import Ratio
from steelyard.bounding._top import TopK
from steelyard.bounding._totals import Count, CountUsers, Sum
from steelyard.bounding._values import Histogram
from steelyard.errors import InvalidTask
from steelyard.privacy import Number, positive

Wanted = Sum | Count | CountUsers | CountDistinct | Ratio | Mean | Variance | Std | Median | Quantile | Histogram | TopK


@dataclass(frozen=True)
class Within:
    """A task without a price, and how close to the truth it is wanted.

    ``tolerance`` is an amount, or a share such as ``"2%"``: of the answer's size ``of`` (of a total with a profile that is known;
    of a ``Quantile`` it is the number of rows). A ``Quantile`` is off by rows of rank. ``rows`` is how many rows are at least behind a
    ``Mean``, ``Variance`` or ``Std`` (of each key), unless a profile of rows tells it; of a ``Ratio`` it is the least that its denominator adds up
    to, and ``of`` the largest that the ratio may be. Both are public, or released before. ``noise_alone`` leaves out what the cap cuts
    off, where no profile tells it.

    >>> Within(Count(cap=3), "2%", of=5000).tolerance
    '2%'
    """

    task: Wanted
    tolerance: Number
    of: Number | None = None
    rows: Number | None = None
    noise_alone: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        kinds = get_args(Wanted)
        if type(self.task) not in kinds:
            names = ", ".join(kind.__name__ for kind in kinds)
            raise InvalidTask(f"a plan takes {names}; got {type(self.task).__name__}.")
        if isinstance(self.task, Histogram) and not self.task.edges:
            raise InvalidTask("a plan takes a Histogram of edges; for one of values give a Count by them.")
        if self.task.epsilon is not None or self.task.mu is not None:
            raise InvalidTask("a plan finds the price of each number: leave epsilon and mu out of its tasks.")
        if not isinstance(self.name, str) or len(self.name) > 200:
            raise InvalidTask("the name of a number is a text of at most 200 characters.")
        if not isinstance(self.noise_alone, bool):
            raise InvalidTask(f"noise_alone is True or False; got {self.noise_alone!r}.")
        _, relative = self.size
        object.__setattr__(self, "tolerance", self.tolerance if relative else positive(self.tolerance, "tolerance"))
        for name in ("of", "rows"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, bound(positive(getattr(self, name), name), name))

    @property
    def size(self) -> tuple[float, bool]:
        """The tolerance, or the share, and whether it is one."""
        text = self.tolerance
        relative = isinstance(text, str) and text.endswith("%")
        if not relative:
            return float(bound(positive(text, "tolerance"), "tolerance")), False
        share = positive(str(text)[:-1].strip(), "tolerance") / 100
        if share >= 1:
            raise InvalidTask(f"a tolerance of {text} is no wish: give a share below 100%.")
        return float(bound(share, "tolerance")), True
