"""Noise applied to bounded integers; each mechanism carries the event it must be charged for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.mechanisms._above_threshold import AboveThreshold, Questions
    from steelyard.mechanisms._bounded import BoundedNoise
    from steelyard.mechanisms._exponential import Exponential
    from steelyard.mechanisms._finite import Finite
    from steelyard.mechanisms._gaussian import Gaussian, sigma_for
    from steelyard.mechanisms._gradual import LaplacePath, release_array
    from steelyard.mechanisms._histogram import NoisyCounts
    from steelyard.mechanisms._integers import WIDEST
    from steelyard.mechanisms._key_threshold import KeyThreshold
    from steelyard.mechanisms._laplace import Laplace
    from steelyard.mechanisms._objective import GRID, Objective, PureObjective, UserObjective
    from steelyard.mechanisms._observe import show
    from steelyard.mechanisms._random_stop import RandomStop
    from steelyard.mechanisms._sphere import error
    from steelyard.mechanisms._staircase import Staircase

__all__ = [
    "GRID",
    "WIDEST",
    "AboveThreshold",
    "BoundedNoise",
    "Exponential",
    "Finite",
    "Gaussian",
    "KeyThreshold",
    "Laplace",
    "LaplacePath",
    "NoisyCounts",
    "Objective",
    "PureObjective",
    "Questions",
    "RandomStop",
    "Staircase",
    "UserObjective",
    "error",
    "release_array",
    "show",
    "sigma_for",
]
_HOMES = {
    "_above_threshold": ("AboveThreshold", "Questions"),
    "_bounded": ("BoundedNoise",),
    "_exponential": ("Exponential",),
    "_finite": ("Finite",),
    "_gaussian": ("Gaussian", "sigma_for"),
    "_gradual": ("LaplacePath", "release_array"),
    "_histogram": ("NoisyCounts",),
    "_key_threshold": ("KeyThreshold",),
    "_integers": ("WIDEST",),
    "_laplace": ("Laplace",),
    "_objective": ("GRID", "Objective", "PureObjective", "UserObjective"),
    "_observe": ("show",),
    "_random_stop": ("RandomStop",),
    "_sphere": ("error",),
    "_staircase": ("Staircase",),
}
__getattr__ = loading(__name__, _HOMES)
