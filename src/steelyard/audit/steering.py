"""Noise that makes the released numbers, not the noise, the same on two tables.

On the first table it draws from a seed and writes down what came out of each mechanism. On the second it sees the
integers that are about to be noised (the audit's window) and draws exactly what leads to the same released numbers.
So both runs have one transcript, and whatever may lawfully depend only on the transcript (the next step's event, the
outcome, an error) must be the same; whatever differs has leaked around the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.mechanisms import Seen
from steelyard.noise import TestNoise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Draw:
    """One call for additive noise: which law, how wide, and for which observed release (None: for none)."""

    law: str
    scale: Fraction
    size: int
    release: int | None


@dataclass
class SteeredNoise:
    """Seeded noise, or (given ``script``) noise that leads to the scripted numbers. Protects nobody."""

    window: list[Seen]
    seed: int | str
    script: list[list[int]] | None = None
    draws: list[Draw] = field(default_factory=list)
    written: list[list[int]] = field(default_factory=list)
    name: str = "steered: no guarantee"
    secure: bool = False

    def __post_init__(self) -> None:
        self._source = TestNoise(self.seed)
        self._served = 0

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        """Laplace noise, steered where it hides observed integers."""
        return self._draw("laplace", scale, size)

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        """Normal noise, steered where it hides observed integers."""
        return self._draw("gaussian", sigma, size)

    def laplace_array(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """The same as an array."""
        import numpy as np

        return np.array(self._draw("laplace", scale, size), dtype=np.int64)

    def normal_array(self, sigma: Fraction, size: int) -> NDArray[np.int64]:
        """The same as an array."""
        import numpy as np

        return np.array(self._draw("gaussian", sigma, size), dtype=np.int64)

    def below(self, bound: int) -> int:
        """A uniform integer: the same one on both tables."""
        return self._source.below(bound)

    def bits(self, size: int) -> NDArray[np.uint64]:
        """Uniform words: the same ones on both tables."""
        return self._source.bits(size)

    def _draw(self, law: str, scale: Fraction, size: int) -> list[int]:
        fresh = self._source.laplace(scale, size) if law == "laplace" else self._source.normal(scale, size)
        hides = len(self.window) > self._served and len(self.window[-1].values) == size
        self.draws.append(Draw(law, Fraction(scale), size, len(self.window) - 1 if hides else None))
        if not hides:
            return fresh
        self._served = len(self.window)
        values = self.window[-1].values
        target = [value + noise for value, noise in zip(values, fresh, strict=True)]
        place = len(self.written)
        if self.script is not None and place < len(self.script) and len(self.script[place]) == size:
            target = self.script[place]
        self.written.append(target)
        return [goal - value for goal, value in zip(target, values, strict=True)]
