"""The recipes for torch and opacus in docs/ do what they say: the pages' own lines are run, and the models they make are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import steelyard as sy

DOCS = Path(__file__).parents[2] / "docs"
X = np.random.default_rng(0).normal(size=(6000, 2)).astype(np.float32)
SLOPES = np.array([0.6, -0.4])


def block(page: str, words: str) -> str:
    """The one block of a page that has these words."""
    (found,) = [code for code in re.findall(r"```\w*\n(.*?)```", (DOCS / page).read_text(), re.S) if words in code]
    return str(found)


def trained(line: str, outputs: int, labels: Any) -> Any:
    """The weights of a linear score after some steps down a loss as a page writes it."""
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(2, outputs), torch.as_tensor(X)
    y = vectors = torch.as_tensor(labels, dtype=torch.float32)
    names = {"torch": torch, "x": x, "y": y, "vectors": vectors, "model": lambda rows: layer(rows).squeeze(1)}
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(150):
        exec(line, names)  # noqa: S102 - a line of our own page
        optimizer.zero_grad()
        names["loss"].backward()
        optimizer.step()
    return layer.weight.detach().numpy()


def test_the_losses_of_the_labels_page_find_the_model_of_the_true_labels() -> None:
    draw = np.random.default_rng(1)
    counts, ones, classes = block("labels.md", "poisson_nll_loss").strip().splitlines()
    y = np.minimum(draw.poisson(np.exp(0.2 + X @ SLOPES)), 10).astype(float)
    assert trained(counts, 1, sy.LabelRandomizer(4, 0, 10).fit_transform(y))[0] == pytest.approx(SLOPES, abs=0.15)
    y = (X @ SLOPES + draw.logistic(size=6000) > 0).astype(float)
    noisy = sy.LabelRandomizer(3, 0, 1).fit_transform(y)
    assert noisy.min() < 0
    assert trained(ones, 1, noisy)[0] == pytest.approx(SLOPES, abs=0.2)
    model = sy.LabelPrivateClassifier(epsilon=3, classes=[0.0, 1.0]).fit(X, y)
    weights = trained(classes, 2, model.noisy_)
    assert weights[1] - weights[0] == pytest.approx(SLOPES, abs=0.2)


def test_the_cookbooks_lines_train_on_labels_that_were_drawn_once() -> None:
    code = block("cookbook.md", "TensorDataset")
    y = np.clip(200 + 50 * X @ SLOPES, 0, 400)
    account = sy.open_account(":memory:", "torch", unit=sy.labels("y"), epsilon=1)
    layer = torch.nn.Linear(2, 1)
    names = {"sy": sy, "torch": torch, "account": account, "X": X, "y": y, "record_ids": range(len(y))}
    *made, line = code.strip().splitlines()
    exec("\n".join(made), names)  # noqa: S102 - our own page
    names |= {"model": lambda rows: layer(rows).squeeze(1)}
    names["features"], names["labels"] = names["data"].tensors
    exec(line, names)  # noqa: S102
    names["loss"].backward()
    assert layer.weight.grad is not None
    assert account.spent.amount == 10**6


@pytest.mark.filterwarnings("ignore")  # opacus warns of its own random numbers, and torch of its hooks
def test_a_network_that_hides_users_is_trained_by_opacus_as_the_ledger_page_says() -> None:
    import opacus

    torch.manual_seed(0)
    x, cap = torch.randn(2000, 4, 3), 4
    y, layer = (x[:, :, 0] > 0).long(), torch.nn.Linear(3, 2)
    names = {
        "torch": torch, "PrivacyEngine": opacus.PrivacyEngine, "DataLoader": torch.utils.data.DataLoader,
        "TensorDataset": torch.utils.data.TensorDataset, "x": x, "y": y, "mask": (torch.rand(2000, 4) < 0.7).float(), "cap": cap,
        "model": layer, "optimizer": torch.optim.SGD(layer.parameters(), lr=0.5),
    }  # fmt: skip
    exec(block("ledger.md", "PrivacyEngine"), names)  # noqa: S102 - our own page
    right = (names["model"](x).argmax(-1) == y).float().mean()
    assert float(right) > 0.8
