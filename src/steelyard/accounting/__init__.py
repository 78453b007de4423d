"""How losses add and convert: pure epsilon, mu squared, odometers, and a small pessimistic curve.

Everything that becomes a cost or a cap is exact or rounded to the safe side; the proofs are in ``docs/proofs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.accounting._bounded import loss_curve, whole_weights
    from steelyard.accounting._curves import Curve
    from steelyard.accounting._gaussian import epsilon_of, mu_cap, mu_request, told
    from steelyard.accounting._normal import normal_quantile, normal_tail, tail_above
    from steelyard.accounting._objective import LEAST, MOST, STEEPEST, objective_mu
    from steelyard.accounting._objective_replaced import epsilon_replaced
    from steelyard.accounting._objective_users import STEEPEST_USERS, user_mu
    from steelyard.accounting._odometers import MixtureOdometer
    from steelyard.accounting._prices import composed, disjoint, grouped, paid_apart, price, steps
    from steelyard.accounting._pure import pure_to_mu, range_to_mu

__all__ = [
    "LEAST",
    "MOST",
    "STEEPEST",
    "STEEPEST_USERS",
    "Curve",
    "MixtureOdometer",
    "composed",
    "disjoint",
    "epsilon_of",
    "epsilon_replaced",
    "grouped",
    "loss_curve",
    "mu_cap",
    "mu_request",
    "normal_quantile",
    "normal_tail",
    "objective_mu",
    "paid_apart",
    "price",
    "pure_to_mu",
    "range_to_mu",
    "steps",
    "tail_above",
    "told",
    "user_mu",
    "whole_weights",
]
_HOMES = {
    "_bounded": ("loss_curve", "whole_weights"),
    "_curves": ("Curve",),
    "_gaussian": ("epsilon_of", "mu_cap", "mu_request", "told"),
    "_normal": ("normal_quantile", "normal_tail", "tail_above"),
    "_objective": ("LEAST", "MOST", "STEEPEST", "objective_mu"),
    "_objective_replaced": ("epsilon_replaced",),
    "_objective_users": ("STEEPEST_USERS", "user_mu"),
    "_odometers": ("MixtureOdometer",),
    "_prices": ("composed", "disjoint", "grouped", "paid_apart", "price", "steps"),
    "_pure": ("pure_to_mu", "range_to_mu"),
}
__getattr__ = loading(__name__, _HOMES)
