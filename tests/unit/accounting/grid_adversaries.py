"""What an adversary on a grid attains against objective perturbation, and what a Gaussian release allows."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtr


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of one Gaussian release."""
    return float(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-epsilon / mu - mu / 2))


def attained(slope: float, shift: float, epsilon: float, step: float = 0.02) -> float:
    """The delta of the best weight function that switches on a grid: a lower bound, since each one is admissible."""
    w = np.arange(-slope - shift - 6, slope + 4, step)
    c = expit(np.arange(-9, 16, slope * step))
    value = np.zeros(len(c))
    for left, right in zip(w[-2::-1], w[:0:-1], strict=True):
        start = ndtr(left + shift * c) - np.exp(epsilon) * ndtr(left)
        end = ndtr(right + shift * c) - np.exp(epsilon) * ndtr(right)
        rise, risen = np.append(end[1:], end[-1]), np.append(value[1:], value[-1])
        value = np.maximum.reduce([value, risen, end - start + value, rise - start + risen])
    return float(value.max())
