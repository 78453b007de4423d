"""How losses add and convert: pure epsilon, mu squared, odometers, and a small pessimistic curve.

Everything that becomes a cost or a cap is exact or rounded to the safe side; the proofs are in ``docs/proofs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.accounting.gaussian import delta_of, epsilon_of, mu_cap, mu_request
    from steelyard.accounting.normal import normal_quantile, normal_tail
    from steelyard.accounting.odometers import LinearOdometer, MixtureOdometer
    from steelyard.accounting.prices import composed, price
    from steelyard.accounting.pure import group, pure_to_mu

__all__ = [
    "LinearOdometer",
    "MixtureOdometer",
    "composed",
    "delta_of",
    "epsilon_of",
    "group",
    "mu_cap",
    "mu_request",
    "normal_quantile",
    "normal_tail",
    "price",
    "pure_to_mu",
]
_HOMES = {
    "gaussian": (
        "delta_of",
        "epsilon_of",
        "mu_cap",
        "mu_request",
    ),
    "normal": (
        "normal_quantile",
        "normal_tail",
    ),
    "odometers": (
        "LinearOdometer",
        "MixtureOdometer",
    ),
    "prices": (
        "composed",
        "price",
    ),
    "pure": (
        "group",
        "pure_to_mu",
    ),
}
__getattr__ = loading(__name__, _HOMES)
