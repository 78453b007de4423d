"""Noise applied to bounded integers; each mechanism carries the event it must be charged for."""

from steelyard.mechanisms.gaussian import Gaussian
from steelyard.mechanisms.laplace import Laplace
from steelyard.mechanisms.observe import Seen, observing

__all__ = ["Gaussian", "Laplace", "Seen", "observing"]
