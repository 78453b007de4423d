"""The two filters: sums of epsilon, and sums of mu squared, with the failure probabilities summed beside them.

A filter lets an analyst choose every next step, its price included, from all answers so far, as long as the price is
fixed before the step and the sum stays under the cap. The ledger is the real filter; this is its rule in one line.
Law: nothing else may be summed. Curves convolved along a path of adaptive choices are not a filter.
"""

from __future__ import annotations

from steelyard.privacy import Loss


def admits(spent: Loss, step: Loss, cap: Loss) -> bool:
    """Whether a step whose price is already fixed still fits under the cap.

    >>> admits(Loss.pure(1), Loss.pure(1), Loss.pure(2))
    True
    >>> admits(Loss.mu("0.6"), Loss.mu("0.8"), Loss.mu("0.999"))
    False
    """
    return spent + step <= cap
