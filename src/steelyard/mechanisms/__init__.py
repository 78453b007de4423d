"""Noise applied to bounded integers; each mechanism carries the event it must be charged for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.mechanisms._above_threshold import AboveThreshold
    from steelyard.mechanisms._above_threshold import Questions as Questions
    from steelyard.mechanisms._bounded import BoundedNoise
    from steelyard.mechanisms._exponential import Exponential
    from steelyard.mechanisms._finite import Finite
    from steelyard.mechanisms._gaussian import Gaussian
    from steelyard.mechanisms._gaussian import sigma_for as sigma_for
    from steelyard.mechanisms._gradual import LaplacePath
    from steelyard.mechanisms._gradual import release_array as release_array
    from steelyard.mechanisms._histogram import NoisyCounts
    from steelyard.mechanisms._integers import WIDEST as WIDEST
    from steelyard.mechanisms._key_threshold import KeyThreshold
    from steelyard.mechanisms._laplace import Laplace
    from steelyard.mechanisms._objective import GRID as GRID
    from steelyard.mechanisms._objective import Objective, PureObjective, UserObjective
    from steelyard.mechanisms._observe import show as show
    from steelyard.mechanisms._random_stop import RandomStop
    from steelyard.mechanisms._sphere import error as error
    from steelyard.mechanisms._staircase import Staircase

__all__ = [
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
    "RandomStop",
    "Staircase",
    "UserObjective",
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
