"""The recipes for torch in docs/labels.md, run: counts, zeros and ones, and classes from noisy labels, beside true ones.

    pip install torch && python bench/labels_torch.py           under a minute

For each loss: the held-out loss of a small network trained on true labels, on noisy ones (epsilon 1 for classes, 2 for
counts), and of a constant.
"""

from __future__ import annotations

import numpy as np
import torch

from steelyard.labels import LabelRandomizer
from steelyard.labels._classes import ClassSampler
from steelyard.noise import ExactNoise


def trained(x: torch.Tensor, y: torch.Tensor, outputs: int, loss: object) -> torch.nn.Module:
    """A network of one hidden layer, weighed down, by a few hundred full steps."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 16), torch.nn.Tanh(), torch.nn.Linear(16, outputs))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        loss(model(x).squeeze(1) if outputs == 1 else model(x), y).backward()  # type: ignore[operator]
        optimizer.step()
    return model


def main() -> None:
    """Three losses, three lines."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(60_000, 5))
    scores = rows @ draw.normal(size=(5, 4)) + draw.gumbel(size=(60_000, 4))
    kind = scores.argmax(axis=1)
    counts = np.minimum(draw.poisson(np.exp(0.3 + 0.4 * rows[:, 0] - 0.3 * rows[:, 1])), 10).astype(float)
    ones = (kind == 0).astype(float)
    vectors = ClassSampler.of(4, 1)
    losses = {
        "counts": (1, lambda s, y: torch.nn.functional.poisson_nll_loss(s, y, log_input=True), counts,
                   LabelRandomizer(2, 0, 10).fit_transform(counts)),
        "zeros and ones": (1, torch.nn.functional.binary_cross_entropy_with_logits, ones,
                           LabelRandomizer(1, 0, 1).fit_transform(ones)),
        "four classes": (4, lambda s, y: -(y * torch.log_softmax(s, dim=1)).sum(dim=1).mean(), np.eye(4)[kind],
                         vectors.noisy(kind, ExactNoise())),
    }  # fmt: skip
    x = torch.as_tensor(rows, dtype=torch.float32)
    for name, (outputs, loss, clean, noisy) in losses.items():
        line = []
        for labels in (clean, noisy):
            y = torch.as_tensor(labels, dtype=torch.float32)
            model = trained(x[:40_000], y[:40_000], outputs, loss)
            with torch.no_grad():
                found = model(x[40_000:]).squeeze(1) if outputs == 1 else model(x[40_000:])
                line.append(float(loss(found, torch.as_tensor(clean[40_000:], dtype=torch.float32))))
        print(f"{name:16} true labels {line[0]:.4f}   noisy labels {line[1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
