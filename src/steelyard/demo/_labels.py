"""The demo's labels: parcels whose weight is known and whose price is not, and a model that learns prices privately.

The price of each purchase is randomized once, on an account of its own, before anybody trains on it. What the carrier
knows of a parcel (weight, number of articles, country) is made up here and public.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.charts import Chart, Line, Section, Tabular, lines
from steelyard.demo._story import COUNTRIES, Story
from steelyard.labels import LabelRandomizer, laplace_variance, two_point_variance
from steelyard.ledger import open_account
from steelyard.privacy import labels

Floats = NDArray[np.float64]

EPSILON = "3"
UPPER = 100


def tell(story: Story) -> Section:
    """Randomize the prices, train on them, and tell what that cost and what it was worth."""
    X, y = _parcels(story)
    half = len(y) // 2
    account = open_account(story.ledger, "demo labels", unit=labels("amount"), epsilon=EPSILON)
    randomizer = LabelRandomizer(EPSILON, 0, UPPER, prior="private", account=account)
    noisy = randomizer.fit_transform(y[:half])
    truth = y[half:]
    guesses = {
        "the average price for every parcel": np.full(len(truth), y[:half].mean()),
        "trained on true prices": _least_squares(X[:half], y[:half], X[half:]),
        "trained on noisy prices": _least_squares(X[:half], noisy, X[half:]),
    }
    apart = {name: float(np.sqrt(np.mean((guess - truth) ** 2))) for name, guess in guesses.items()}
    spread = _spreads(randomizer)
    bias = max(abs(b) for b in randomizer.mechanism_.bias())
    found = {"method": randomizer.method_, "bias": str(bias), "spread": spread, "models": apart}
    proof = randomizer.verify()
    story.facts["labels"] = found | {
        "spent": str(account.spent),
        "verified": proof.passed,
        "gap": float(proof.gap or 0),
    }
    story.say(
        f"     a noisy price is off by {spread['ours']:,.0f}, by Laplace noise {spread['Laplace']:,.0f}; bias {bias}"
    )
    models = f"{apart['trained on noisy prices']:,.2f}, on true ones {apart['trained on true prices']:,.2f}"
    story.say(f"     typical error of a model trained on {half:,} noisy prices: {models}")
    return _section(story.facts["labels"], randomizer, half)


def _parcels(story: Story) -> tuple[Floats, Floats]:
    """What is public about every purchase, and its price (never above ``UPPER``), in an order that means nothing."""
    _, amount, country = story.columns()
    draw = np.random.default_rng(2026)
    weight = 0.4 * np.log(amount) + 0.2 * draw.normal(size=len(amount))
    articles = draw.poisson(np.sqrt(amount) / 2)
    where = [(country == name).astype(np.float64) for name in COUNTRIES[1:]]
    X = np.column_stack([np.ones(len(amount)), weight, weight**2, articles, *where])
    order = draw.permutation(len(amount))
    return X[order], np.minimum(amount, UPPER)[order]


def _least_squares(X: Floats, y: Floats, others: Floats) -> Floats:
    fitted: Floats = others @ np.linalg.lstsq(X, y, rcond=None)[0]
    return fitted


def _spreads(randomizer: LabelRandomizer) -> dict[str, float]:
    """The typical error of a noisy label under the released prior, exactly, at the whole of epsilon."""
    weights, epsilon = randomizer.prior_.weights, float(EPSILON)
    ours = [float(error) for error in randomizer.mechanism_.errors()]
    simple = [two_point_variance(y, 0, UPPER, epsilon) for y in range(UPPER + 1)]
    mean = {"ours": ours, "two-point": simple, "Laplace": [laplace_variance(UPPER, epsilon)] * len(ours)}
    return {n: (sum(w * e for w, e in zip(weights, es, strict=True)) / sum(weights)) ** 0.5 for n, es in mean.items()}


def _section(found: dict[str, Any], randomizer: LabelRandomizer, size: int) -> Section:
    words = (
        "A carrier may know the weight of a parcel, how many articles are in it and where it goes, but not what it cost. "
        f"Each price, at most {UPPER}, was replaced once by a noisy one, for epsilon {EPSILON} on an account of its own; "
        "a part of that bought a rough private picture of what prices are common. Anybody may train on the result."
    )
    spread = found["spread"]
    rows = [
        (f"this mechanism ({found['method'].replace('_', '-')})", found["bias"], f"{spread['ours']:.1f}"),
        ("two-point, which needs no prior", "0", f"{spread['two-point']:.1f}"),
        ("Laplace noise", "0", f"{spread['Laplace']:.1f}"),
    ]
    caption = (
        "Bias exact, over all labels; error as the square root of the mean square, for the prices as privately seen."
    )
    errors = Tabular(("noisy labels", "bias", "typical error"), rows, caption)
    models = [(name, f"{error:.2f}") for name, error in found["models"].items()]
    told = f"Least squares on {size:,} parcels, error on as many others with their true prices."
    judged = "was" if found["verified"] else "was NOT"
    last = (
        "One noisy label says next to nothing; together they are right on average, which is what least squares needs. The "
        f"mechanism {judged} proved private, without bias and within "
        f"{found['gap']:.0e} of the least variance possible, in exact arithmetic."
    )
    trained = Tabular(("model", "error"), models, told)
    pictures = _prior(randomizer), randomizer.chart()
    return Section("A model of prices nobody may see", [words, *pictures, errors, trained, last])


def _prior(randomizer: LabelRandomizer) -> Chart:
    weights = randomizer.prior_.weights
    return lines(
        [Line("share of prices", range(UPPER + 1), [100 * w / sum(weights) for w in weights])],
        title="What prices are common, as bought",
        subtitle=f"for epsilon {randomizer.prior_.micro / 1e6:.2g} of {EPSILON}; the noise is part of it",
        x_title="price",
        y_title="per cent",
    )
