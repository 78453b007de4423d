"""Noise applied to bounded integers; each mechanism carries the event it must be charged for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.mechanisms.above_threshold import AboveThreshold, Questions
    from steelyard.mechanisms.bounded import BoundedNoise
    from steelyard.mechanisms.exponential import Exponential
    from steelyard.mechanisms.finite import Finite
    from steelyard.mechanisms.gaussian import Gaussian, sigma_for
    from steelyard.mechanisms.gradual import GaussianPath, LaplacePath, combined
    from steelyard.mechanisms.histogram import NoisyCounts
    from steelyard.mechanisms.key_threshold import KeyThreshold
    from steelyard.mechanisms.laplace import Laplace
    from steelyard.mechanisms.objective import Objective, PureObjective, UserObjective
    from steelyard.mechanisms.observe import Observed, observing
    from steelyard.mechanisms.sphere import spherical
    from steelyard.mechanisms.staircase import Staircase

__all__ = [
    "AboveThreshold",
    "BoundedNoise",
    "Exponential",
    "Finite",
    "Gaussian",
    "GaussianPath",
    "KeyThreshold",
    "Laplace",
    "LaplacePath",
    "NoisyCounts",
    "Objective",
    "Observed",
    "PureObjective",
    "Questions",
    "Staircase",
    "UserObjective",
    "combined",
    "observing",
    "sigma_for",
    "spherical",
]
_HOMES = {
    "above_threshold": (
        "AboveThreshold",
        "Questions",
    ),
    "bounded": ("BoundedNoise",),
    "exponential": ("Exponential",),
    "finite": ("Finite",),
    "gaussian": (
        "Gaussian",
        "sigma_for",
    ),
    "gradual": (
        "GaussianPath",
        "LaplacePath",
        "combined",
    ),
    "histogram": ("NoisyCounts",),
    "key_threshold": ("KeyThreshold",),
    "laplace": ("Laplace",),
    "objective": (
        "Objective",
        "PureObjective",
        "UserObjective",
    ),
    "observe": (
        "Observed",
        "observing",
    ),
    "sphere": ("spherical",),
    "staircase": ("Staircase",),
}
__getattr__ = loading(__name__, _HOMES)
