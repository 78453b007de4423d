"""``steelyard predict``: what a saved model says about a table, in the order of its rows; it spends nothing."""

from __future__ import annotations

import argparse
import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard.cli.answer import Answer, waiting
from steelyard.cli.files import Outputs, add_overwrite
from steelyard.errors import ColumnMissing, TableError

_BATCH = 65_536


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Register the command of this file."""
    tell = commands.add_parser(
        "predict", parents=[shared], help="what a saved model says about a table; spends nothing"
    )
    tell.add_argument("model", help="a model saved by steelyard fit")
    tell.add_argument("data", help="a Parquet or CSV file with the model's columns, or a glob of them (taken by name)")
    tell.add_argument("--out", required=True, help="write the predictions here, as Parquet, in the order of the rows")
    add_overwrite(tell)
    tell.set_defaults(run=_predict)


def _predict(args: argparse.Namespace) -> Answer:
    from steelyard.models.saved import read_models

    models = read_models(args.model)
    wanted = models[0].features.source
    with Outputs(args, args.out, inputs=(args.model, args.data)) as files:
        if args.plan:
            return Answer(f"would read {', '.join(wanted)}; spends nothing", {"columns": wanted})
        told: list[int] = []
        with waiting("predicting"):
            files.write_now(args.out, lambda part: told.append(_write(models, args.data, part)))
    count = told[0]
    return Answer(f"{count:,} predictions of {models[0].label!r} in {args.out}", {"rows": count, "out": args.out})


def _write(models: Sequence[Any], data: str, out: str) -> int:
    """Stream predictions in the order of the rows, and count them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = models[0].features.source
    source = _source(data)
    for name in wanted:
        if name not in source.schema.names:
            raise ColumnMissing(name, source.schema.names)
    count = 0
    scanner = source.scanner(columns=wanted, batch_size=_BATCH, batch_readahead=1, fragment_readahead=1)
    try:
        with pq.ParquetWriter(out, _told(models, _empty(scanner.projected_schema)).schema) as writer:
            for batch in scanner.to_batches():
                writer.write_batch(_told(models, batch))
                count += batch.num_rows
    except (OSError, pa.ArrowInvalid):
        raise TableError(f"{data!r} could not be read to its end; nothing was written.") from None
    return count


def _told(models: Sequence[Any], batch: Any) -> Any:
    """What the models say about a batch: a label, the chance of the positive class, or the likeliest of several."""
    import numpy as np
    import pyarrow as pa

    told = [model.predict_batch(batch) for model in models]
    if len(models) == 1:
        name = "prediction" if models[0].kind == "linear" else "probability"
        return pa.record_batch([pa.array(told[0])], [name])
    chances = np.maximum(np.column_stack(told), 1e-300)
    chances /= chances.sum(axis=1, keepdims=True)
    classes = [model.positive for model in models]
    mixed = len({type(each) for each in classes}) > 1
    values = pa.array([str(each) for each in classes] if mixed else classes)
    columns = [values.take(pa.array(chances.argmax(axis=1))), *map(pa.array, chances.T)]
    return pa.record_batch(columns, ["prediction", *(f"probability of {each}" for each in classes)])


def _empty(schema: Any) -> Any:
    import pyarrow as pa

    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)


def _source(data: str) -> Any:
    """Files as one table in the order of their names."""
    import pyarrow as pa
    import pyarrow.dataset

    files = [data] if Path(data).is_file() else sorted(filter(os.path.isfile, glob.glob(data, recursive=True)))
    kinds = {Path(file).suffix.lower() for file in files}
    if not files or not (kinds <= {".parquet", ".pq"} or kinds == {".csv"}):
        raise TableError(f"no Parquet or CSV file can be read at {data!r}; several must be of one kind.")
    try:
        return pyarrow.dataset.dataset(files, format="csv" if kinds == {".csv"} else "parquet")
    except (OSError, pa.ArrowInvalid):
        raise TableError(f"{data!r} cannot be read as a table.") from None
