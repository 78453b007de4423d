"""Exact integer noise and where it comes from.

Numbers only become private by adding integers drawn here: discrete Laplace or the rounded normal, from the operating
system's entropy, without floats and without approximation. ``norms`` checks integer norms, ``finite`` draws from
tables of integer weights. Law: importing this room loads neither numpy nor cryptography.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.noise.sources import ExactNoise, Noise, OpenDPNoise, TestNoise

__all__ = [
    "ExactNoise",
    "Noise",
    "OpenDPNoise",
    "TestNoise",
]
_HOMES = {
    "sources": (
        "ExactNoise",
        "Noise",
        "OpenDPNoise",
        "TestNoise",
    ),
}
__getattr__ = loading(__name__, _HOMES)
