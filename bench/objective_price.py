"""What objective perturbation is charged, beside what the best adversary on a grid needs. Run: python bench/objective_price.py

Both are ratios to s, the price of one Gaussian release of the same noise.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from steelyard.accounting._objective import objective_mu
from steelyard.privacy import MICRO


def attained(slope: float, shift: float, epsilon: float, step: float) -> float:
    """The delta of the best weight function that switches on a grid."""
    w = np.arange(-slope - shift - 6, slope + 4, step)
    c: NDArray[np.float64] = expit(np.arange(-9, 16, slope * step))
    value = np.zeros(len(c))
    for left, right in zip(w[-2::-1], w[:0:-1], strict=True):
        start, end = (ndtr(at + shift * c) - np.exp(epsilon) * ndtr(at) for at in (left, right))
        rise, risen = np.append(end[1:], end[-1]), np.append(value[1:], value[-1])
        value = np.maximum.reduce([value, risen, end - start + value, rise - start + risen])
    return float(value.max())


def gaussian(mu: float, epsilon: float) -> float:
    """The delta of one Gaussian release."""
    return float(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-epsilon / mu - mu / 2))


def needed(slope: float, shift: float, step: float) -> float:
    """The mu that the adversary needs at some epsilon."""
    found = shift
    for ratio in np.linspace(0, slope, 9):
        epsilon, told = float(ratio) * shift, attained(slope, shift, float(ratio) * shift, step)
        if gaussian(found, epsilon) < told:
            found = float(brentq(lambda mu: gaussian(mu, epsilon) - told, found, 4 * shift))  # noqa: B023
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=float, default=0.01)
    args = parser.parse_args()
    print("| kappa | s | charged / s | needed / s |\n|---|---|---|---|")
    for slope in ("1", "2", "2.5", "3", "4"):
        for shift in (100_000, 1_000_000):
            charged = objective_mu(Fraction(slope), shift) / shift
            least = needed(float(slope), shift / MICRO, args.step) * MICRO / shift
            print(f"| {slope} | {shift / MICRO:g} | {charged:.4f} | {least:.4f} |")


if __name__ == "__main__":
    main()
