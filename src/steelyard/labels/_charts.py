"""What a mechanism looks like: the chance of every output for every label, and its error label by label."""

from __future__ import annotations

from steelyard.charts import Chart, Line, lines, matrix
from steelyard.errors import InvalidTask
from steelyard.labels._baselines import AddedNoise
from steelyard.labels._mechanism import FiniteMechanism


def draw_mechanism(mechanism: FiniteMechanism | AddedNoise, method: str = "") -> Chart:
    """The table as a heat map: one row per label, one column per output, from the least output to the largest."""
    mechanism = _table(mechanism, method)
    bias = "no bias" if mechanism.unbiased else "biased"
    order = sorted(range(len(mechanism.outputs)), key=lambda j: mechanism.outputs[j])
    return matrix(
        mechanism.probabilities()[:, order].tolist(),
        down=[f"{float(y):g}" for y in mechanism.inputs],
        across=[f"{float(mechanism.outputs[j]):.4g}" for j in order],
        title=f"How a label is randomized{f': {method}' if method else ''}",
        subtitle=f"epsilon {float(mechanism.epsilon):g}, {len(mechanism.outputs)} outputs, {bias}",
        x_title="noisy label",
        y_title="label",
    )


def draw_errors(mechanism: FiniteMechanism | AddedNoise, method: str = "") -> Chart:
    """Standard deviation and bias of the noisy label, label by label."""
    mechanism = _table(mechanism, method)
    y = [float(label) for label in mechanism.inputs]
    bias = [float(b) for b in mechanism.bias()]
    spread = [max(0.0, float(e) - b * b) ** 0.5 for e, b in zip(mechanism.errors(), bias, strict=True)]
    return lines(
        [Line("standard deviation", y, spread), Line("bias", y, bias)],
        title=f"Error of a noisy label{f': {method}' if method else ''}",
        subtitle=f"epsilon {float(mechanism.epsilon):g}",
        x_title="label",
        y_title="error",
    )


def _table(mechanism: FiniteMechanism | AddedNoise, method: str) -> FiniteMechanism:
    if isinstance(mechanism, AddedNoise):
        raise InvalidTask(f"method {method!r} has no table to draw: its noise has no end.")
    return mechanism
