"""One suite for every loss: derivatives are its derivatives, whole numbers are theirs, and bounds hold. Twins are caught."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.models._columns import RESIDUAL_BITS, SIZE, exact_scores
from steelyard.models._losses import CEILING, COST_BITS, LOG_COSH, LOSSES, LossFunction, SquaredLoss
from steelyard.models._objective import ObjectiveFit, gaussian_objective, pure_objective
from steelyard.models._smooth_losses import PoissonLoss, SmoothLoss

SCORES = np.concatenate([np.linspace(-3, 3, 301), np.random.default_rng(5).normal(size=200)])
TARGETS = np.random.default_rng(6).uniform(-1, 1, SCORES.size)
WIDE = PoissonLoss(60.0, 40.0)
SMOOTH = pytest.mark.parametrize(
    "loss", [*LOSSES.values(), LOG_COSH, WIDE], ids=[*LOSSES, "log cosh", "poisson 20-100"]
)
ROWS = {name: loss for name, loss in LOSSES.items() if isinstance(loss, LossFunction)} | {"log cosh": LOG_COSH}
EVERY = pytest.mark.parametrize("loss", ROWS.values(), ids=ROWS)


def labels_of(loss: SmoothLoss) -> Any:
    """Labels as this loss reads them, for rows of one feature."""
    return loss.oriented(np.full((SCORES.size, 1), float(SIZE)), np.rint(TARGETS * SIZE))[1]


def slope_error(loss: SmoothLoss, h: float = 1e-5) -> float:
    """How far the first derivative is from the loss's own differences."""
    labels = labels_of(loss)
    differences = (loss.value(SCORES + h, labels) - loss.value(SCORES - h, labels)) / (2 * h)
    return float(np.abs(differences - loss.derivatives(SCORES, labels)[0]).max())


@SMOOTH
def test_derivatives_are_those_of_the_value(loss: SmoothLoss) -> None:
    assert slope_error(loss) < 1e-8
    labels, h = labels_of(loss), 1e-5
    slopes = [loss.derivatives(SCORES + move, labels)[0] for move in (h, -h)]
    assert np.abs((slopes[0] - slopes[1]) / (2 * h) - loss.derivatives(SCORES, labels)[1]).max() < 1e-8


class Steeper(SquaredLoss):
    """The twin: forgets that half of the square is meant."""

    def derivatives(self, scores: Any, labels: Any) -> tuple[Any, Any]:
        slopes, curves = super().derivatives(scores, labels)
        return 2 * slopes, curves


def test_a_slope_that_is_not_the_values_is_caught() -> None:
    assert slope_error(Steeper()) > 0.1


@SMOOTH
def test_no_curvature_is_beyond_its_bound_and_means_are_finite(loss: SmoothLoss) -> None:
    wild = np.concatenate([SCORES, SCORES * 1e6])
    curves = loss.derivatives(wild, None)[1]
    assert 0 <= curves.min() <= curves.max() <= loss.smoothness
    means = loss.mean(np.sort(wild))
    assert np.isfinite(means).all()
    assert (np.diff(means) >= 0).all()


@EVERY
def test_no_counted_slope_is_beyond_its_bound(loss: LossFunction) -> None:
    labels = labels_of(loss)
    wild = np.concatenate([SCORES * 1e6, SCORES])
    both = None if labels is None else np.concatenate([labels, labels])
    assert np.abs(loss.residuals(wild, both)).max() <= loss.steepness * 2**RESIDUAL_BITS
    assert 0 <= loss.costs(wild, both).min() <= loss.costs(wild, both).max() <= CEILING << COST_BITS


@EVERY
def test_whole_numbers_are_the_slope_and_the_value_up_to_a_step(loss: LossFunction) -> None:
    labels = labels_of(loss)
    slopes = np.clip(loss.derivatives(SCORES, labels)[0], -loss.steepness, loss.steepness)
    grain = 2.0**-11 * loss.smoothness  # half of a step of the score, where a table is read
    assert np.abs(loss.residuals(SCORES, labels) / 2.0**RESIDUAL_BITS - slopes).max() <= 2.0**-RESIDUAL_BITS + grain
    values = np.minimum(loss.value(SCORES, labels), CEILING)
    apart = 2.0**-COST_BITS + 2.0**-11 * loss.steepness
    assert np.abs(loss.costs(SCORES, labels) / 2.0**COST_BITS - values).max() <= apart


@EVERY
def test_decimals_say_what_doubles_say(loss: LossFunction) -> None:
    labels = labels_of(loss)
    with localcontext() as context:
        context.prec = 60
        each = [
            float(loss.exact_slope(Decimal(float(score)), None if labels is None else Decimal(float(labels[place]))))
            for place, score in enumerate(SCORES)
        ]
    assert np.abs(np.array(each) - loss.derivatives(SCORES, labels)[0]).max() < 1e-14


@EVERY
def test_a_rows_whole_numbers_do_not_depend_on_the_rows_beside_it(loss: LossFunction) -> None:
    draw = np.random.default_rng(7)
    x, theta = np.rint(draw.normal(size=(1000, 7)) * SIZE / 8), draw.normal(size=7) * 20
    rows, labels = loss.oriented(x, np.rint(draw.uniform(-1, 1, 1000) * SIZE))
    together = loss.residuals(exact_scores(rows, theta), labels)
    for place in (0, 1, 500, 999):
        own = None if labels is None else labels[place : place + 1]
        assert loss.residuals(exact_scores(rows[place : place + 1], theta), own)[0] == together[place]


@EVERY
def test_the_objective_is_perturbed_only_at_a_price_proved_for_this_loss(loss: LossFunction) -> None:
    for price, mechanism in ((gaussian_objective, loss.objective), (pure_objective, loss.pure_objective)):
        if mechanism is None:
            with pytest.raises(InvalidTask, match="no price is proved"):
                price(3, 500_000, None, loss)
            with pytest.raises(InvalidTask, match="no price is proved"):
                ObjectiveFit(price(3, 500_000).mechanism, loss)
        else:
            assert isinstance(price(3, 500_000, None, loss).mechanism, mechanism)
