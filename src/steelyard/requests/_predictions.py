"""What saved models say about the rows of a file, written in their order; it spends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.csv import CSVWriter

from steelyard.errors import ColumnMissing, TableError
from steelyard.models import Model
from steelyard.tables import scan

_BATCH = 65_536


def write_predictions(models: Sequence[Model], data: str, out: str, *, csv: bool = False) -> int:
    """Stream the predictions into a Parquet or CSV file, and count them."""
    wanted, source = models[0].features.source, scan(data)
    for name in wanted:
        if name not in source.schema.names:
            raise ColumnMissing(name, source.schema.names)
    count = 0
    scanner = source.scanner(columns=wanted, batch_size=_BATCH, batch_readahead=1, fragment_readahead=1)
    try:
        writing, told = CSVWriter if csv else pq.ParquetWriter, _predicted(models, _empty(scanner.projected_schema))
        with writing(out, told.schema) as writer:
            for batch in scanner.to_batches():
                writer.write_batch(_predicted(models, batch))
                count += batch.num_rows
    except (OSError, pa.ArrowInvalid):
        raise TableError(f"{data!r} could not be read to its end; nothing was written.") from None
    return count


def _predicted(models: Sequence[Model], batch: Any) -> Any:
    """What the models say about a batch: a label, or the likeliest class and the probability of each."""
    told, first = [model.predict_batch(batch) for model in models], models[0]
    if len(models) == 1 and (first.kind != "logistic" or first.negative is None):
        name = (
            "prediction" if first.kind != "logistic" else f"probability_{first.positive}"
        )  # saved without its other class
        return pa.record_batch([pa.array(told[0])], [name])
    if len(models) == 1:
        chances, classes = np.column_stack([1 - told[0], told[0]]), [first.negative, first.positive]
    else:
        chances, classes = np.maximum(np.column_stack(told), 1e-300), [model.positive for model in models]
        chances /= chances.sum(axis=1, keepdims=True)
    mixed = len({type(each) for each in classes}) > 1
    values = pa.array([str(each) for each in classes] if mixed else classes)
    columns = [values.take(pa.array(chances.argmax(axis=1))), *map(pa.array, chances.T)]
    return pa.record_batch(columns, ["prediction", *(f"probability_{each}" for each in classes)])


def _empty(schema: Any) -> Any:
    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
