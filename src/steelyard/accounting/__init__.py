"""How losses add and convert: pure epsilon, mu squared, odometers, and a small pessimistic curve.

Everything that becomes a cost or a cap is exact or rounded to the safe side; the proofs are in ``docs/proofs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.accounting._bounded import loss_curve as loss_curve
    from steelyard.accounting._bounded import whole_weights as whole_weights
    from steelyard.accounting._curves import Curve
    from steelyard.accounting._gaussian import epsilon_of, mu_cap, mu_request, told
    from steelyard.accounting._normal import normal_quantile as normal_quantile
    from steelyard.accounting._normal import normal_tail as normal_tail
    from steelyard.accounting._normal import tail_above as tail_above
    from steelyard.accounting._objective import LEAST as LEAST
    from steelyard.accounting._objective import MOST as MOST
    from steelyard.accounting._objective import STEEPEST as STEEPEST
    from steelyard.accounting._objective import objective_mu as objective_mu
    from steelyard.accounting._objective_replaced import epsilon_replaced as epsilon_replaced
    from steelyard.accounting._objective_users import STEEPEST_USERS as STEEPEST_USERS
    from steelyard.accounting._objective_users import user_mu as user_mu
    from steelyard.accounting._odometers import MixtureOdometer
    from steelyard.accounting._prices import disjoint as disjoint
    from steelyard.accounting._prices import grouped as grouped
    from steelyard.accounting._prices import paid_apart as paid_apart
    from steelyard.accounting._prices import price
    from steelyard.accounting._prices import steps as steps
    from steelyard.accounting._pure import pure_to_mu
    from steelyard.accounting._pure import range_to_mu as range_to_mu

__all__ = ["Curve", "MixtureOdometer", "epsilon_of", "mu_cap", "mu_request", "price", "pure_to_mu", "told"]
_HOMES = {
    "_bounded": ("loss_curve", "whole_weights"),
    "_curves": ("Curve",),
    "_gaussian": ("epsilon_of", "mu_cap", "mu_request", "told"),
    "_normal": ("normal_quantile", "normal_tail", "tail_above"),
    "_objective": ("LEAST", "MOST", "STEEPEST", "objective_mu"),
    "_objective_replaced": ("epsilon_replaced",),
    "_objective_users": ("STEEPEST_USERS", "user_mu"),
    "_odometers": ("MixtureOdometer",),
    "_prices": ("disjoint", "grouped", "paid_apart", "price", "steps"),
    "_pure": ("pure_to_mu", "range_to_mu"),
}
__getattr__ = loading(__name__, _HOMES)
