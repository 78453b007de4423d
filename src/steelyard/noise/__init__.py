"""Exact integer noise and where it comes from.

Numbers only become private by adding integers drawn here: discrete Laplace or the rounded normal, from the operating
system's entropy, without floats and without approximation; ``finite`` draws from tables of integer
weights. Law: importing this room loads neither numpy nor cryptography.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.noise._finite import FiniteTable as FiniteTable
    from steelyard.noise._keyed import new_key as new_key
    from steelyard.noise._keyed import record_words as record_words
    from steelyard.noise._sources import ExactNoise, Noise, TestNoise

__all__ = ["ExactNoise", "Noise", "TestNoise"]
_HOMES = {
    "_finite": ("FiniteTable",),
    "_keyed": ("new_key", "record_words"),
    "_sources": ("ExactNoise", "Noise", "TestNoise"),
}
__getattr__ = loading(__name__, _HOMES)
