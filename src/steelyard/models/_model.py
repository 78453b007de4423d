"""A fitted model as one JSON document, and what it predicts.

The document holds the declared features, the coefficients on them and what the label's bounds or classes are: nothing
of the rows but what was released. It is read without running anything that it contains.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from steelyard.documents import decode, plain, read_document
from steelyard.errors import ColumnMissing, InvalidTask
from steelyard.models._columns import SIZE, Features
from steelyard.models._losses import LOSSES
from steelyard.models._rows import Target
from steelyard.privacy import Number, finite

FORMAT = "steelyard model 1"
Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Model:
    """A private model: what it was fitted on, by name and bounds, and its coefficients on features of length one.

    ``kind`` names the loss it was fitted to: "linear" (``lower`` and ``upper`` bound the label, and every prediction;
    ``reach`` is the part of that range, around its middle, that predictions keep to), "poisson" (the same, of a count whose
    logarithm is linear in the features: an expected count is predicted) or "logistic" (``positive`` is the class
    whose probability is predicted, ``negative`` the other of two; ``margin`` is what the log-odds keep to, either way).
    """

    kind: str
    features: Features
    label: str
    theta: Sequence[float]
    lower: Number | None = None
    upper: Number | None = None
    positive: str | int | float | bool | None = None
    negative: str | int | float | bool | None = None
    reach: float = 1.0
    margin: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "theta", tuple(float(value) for value in self.theta))
        if self.kind not in LOSSES or len(self.theta) != self.features.width:
            raise InvalidTask(f"a {self.kind!r} model of {len(self.theta)} coefficients does not fit its features.")
        if not all(math.isfinite(value) for value in self.theta):
            raise InvalidTask("a model's coefficients are finite numbers.")
        if not 0 < self.reach <= 1:
            raise InvalidTask(
                f"predictions keep to a part of the label's range above 0 and up to 1; got {self.reach!r}."
            )
        if self.margin is not None and not 0 < self.margin < math.inf:
            raise InvalidTask(f"log-odds keep to a finite margin above 0; got {self.margin!r}.")
        if not LOSSES[self.kind].classifies:
            LOSSES[self.kind].between(self.target)

    def __repr__(self) -> str:
        return f"Model({self.kind!r} for {self.label!r}: {len(self.theta)} coefficients)"

    def _repr_html_(self) -> str:
        return _page(self, f"A {self.kind} model for {self.label}")

    @property
    def target(self) -> Target:
        """The label's bounds."""
        if self.lower is None or self.upper is None:
            raise InvalidTask(f"a {self.kind} model needs the bounds of its label.")
        return Target(self.label, self.lower, self.upper)

    @property
    def coefficients(self) -> dict[str, float]:
        """By name, on the columns as they were given; the intercept last.

        Exact where no row is shortened; with ``norm="scale"`` it is the model before rows are brought to one length.
        """
        weights, constant = self.features.linear(self.theta)
        if self.kind == "linear":
            half, middle = Fraction(self.target.half), Fraction(self.target.middle)
            weights, constant = [half * weight for weight in weights], half * constant + middle
        names = self.features.names()[: len(weights)]
        return {**dict(zip(names, map(finite, weights), strict=True)), "intercept": finite(constant)}

    def called(self, names: Sequence[str]) -> Model:
        """The same model of columns that are called otherwise; each of them makes one feature."""
        columns = [replace(column, column=name) for column, name in zip(self.features.columns, names, strict=True)]
        return replace(self, features=replace(self.features, columns=columns))

    def predict(self, data: Any) -> Floats:
        """One number per row, in the order of the rows: the label, or the probability of the positive class.

        ``data`` is a dictionary of arrays, a pandas, Polars or Arrow table, with the columns the model was fitted on.
        """
        table = _arrow(data)
        for name in self.features.source:
            if name not in table.schema.names:
                raise ColumnMissing(name, table.schema.names)
        parts = [self.predict_batch(batch) for batch in table.select(self.features.source).to_batches(65_536)]
        return np.concatenate([np.empty(0), *parts])

    def predict_batch(self, batch: Any) -> Floats:
        """The same for an Arrow batch that holds exactly the model's columns, in order."""
        return self.respond(self.scores(self.features.scaled(batch)))

    def scores(self, scaled: Floats) -> Floats:
        """The score of each row (a column of ``scaled``); BLAS rounds by where a row stands, and then a score would depend on other rows."""
        found = np.zeros(scaled.shape[1])
        for line, weight in zip(scaled, self.theta, strict=True):
            found += line * (weight / SIZE)
        return found

    def respond(self, score: Floats) -> Floats:
        """What a score means: a label between its bounds, or a probability."""
        loss = LOSSES[self.kind] if LOSSES[self.kind].classifies else LOSSES[self.kind].between(self.target)
        mean = loss.mean(score if self.margin is None else np.clip(score, -self.margin, self.margin))
        if loss.classifies:
            return mean
        return np.asarray(self.target.middle + self.target.half * np.clip(mean, -self.reach, self.reach))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Model.from_json`` reads it back."""
        parts = {name: plain(getattr(self, name)) for name in ("kind", "label", "theta", "lower", "upper", "positive")}
        parts |= {} if self.negative is None else {"negative": plain(self.negative)}
        parts |= {"reach": self.reach} if self.reach < 1 else {}
        parts |= {} if self.margin is None else {"margin": self.margin}
        return {"format": FORMAT, **parts, "features": plain(self.features), "coefficients": self.coefficients}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Model:
        """Read back what ``to_json`` wrote; anything else is refused."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidTask(f"this is not a saved model: its format is not {FORMAT!r}.")
        own = {name: value for name, value in data.items() if name not in ("format", "coefficients")}
        return cast(Model, decode(cls, own, "this saved model"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON."""
        write(self.to_json(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Read a model that ``save`` wrote."""
        return cls.from_json(read_document(path, "a saved model"))


@dataclass(frozen=True, repr=False)
class OneVsRest:
    """A model for each of more than two classes; the most probable one is predicted."""

    models: tuple[Model, ...]

    def __repr__(self) -> str:
        return f"OneVsRest({len(self.models)} classes: {', '.join(map(str, self.classes[:8]))}{', …' if len(self.models) > 8 else ''})"

    def _repr_html_(self) -> str:
        return _page(self, f"A model for each of {len(self.models)} classes")

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared classes, in order."""
        return tuple(model.positive for model in self.models)

    def probabilities(self, data: Any) -> Floats:
        """One column for each class, each row adding up to one."""
        return shared(np.column_stack([model.predict(data) for model in self.models]))

    def predict(self, data: Any) -> list[Any]:
        """The most probable class of each row."""
        return [self.classes[i] for i in self.probabilities(data).argmax(axis=1)]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``OneVsRest.from_json`` reads it back."""
        return {"models": [model.to_json() for model in self.models]}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the models as one JSON file."""
        write(self.to_json(), path)

    @classmethod
    def from_json(cls, data: Any) -> OneVsRest:
        """Read back what ``to_json`` wrote; anything else is refused."""
        each = data.get("models") if isinstance(data, Mapping) else None
        if not isinstance(each, list) or not each:
            raise InvalidTask("this is not a saved list of models, one for each class.")
        return cls(tuple(map(Model.from_json, each)))


def _page(model: Model | OneVsRest, title: str) -> str:
    """The coefficients for a notebook: a table and a chart."""
    from steelyard.answers import Part, chart, rows
    from steelyard.charts import Tabular, fragment

    label = model.label if isinstance(model, Model) else model.models[0].label
    part = Part({"label": label}, model)
    return fragment(title, Tabular(*rows([part])), chart([part], part.title, "", ""))


def shared(each: Floats) -> Floats:
    """The probabilities of several classes, each found alone, brought to a sum of one."""
    held = np.maximum(each, 1e-300)
    return np.asarray(held / held.sum(axis=1, keepdims=True))


def present(value: Any) -> Model | OneVsRest:
    """A model that predicts, and can be saved; with more than two classes, one for each."""
    several = isinstance(value, Mapping) and "models" in value
    return OneVsRest.from_json(value) if several else Model.from_json(value)


def write(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write what a model's ``to_json`` gave."""
    Path(path).write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")


def read_models(path: str | os.PathLike[str]) -> tuple[Model, ...]:
    """Read a saved model, or one for each of several classes, in their order."""
    return models_of(read_document(path, "a saved model"))


def models_of(document: Any) -> tuple[Model, ...]:
    """The models of such a document."""
    found = present(document)
    return found.models if isinstance(found, OneVsRest) else (found,)


def _arrow(data: Any) -> Any:
    """Whatever holds columns, as an Arrow table in the same order."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping):
        return pa.table(dict(data))
    if hasattr(data, "to_arrow"):
        return data.to_arrow()
    if hasattr(data, "columns") and isinstance(data.columns, Iterable):
        return pa.Table.from_pandas(data, preserve_index=False)
    raise InvalidTask(f"a {type(data).__name__} holds no named columns; give a data frame or a dictionary of arrays.")
