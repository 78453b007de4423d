from __future__ import annotations

import inspect
import pickle

import pytest

from steelyard import errors


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.SteelyardError):
            assert name in drawn


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.BudgetExceeded("no", wanted=1, remaining=0), 3),
        (errors.KeyConflict("no"), 3),
        (errors.LedgerTampered("no", findings=["x"]), 4),
        (errors.LedgerTooNew("no", found=2, known=1), 4),
        (errors.ColumnMissing("amont", ["amount", "user"]), 2),
        (errors.EngineMissing("no spark.", install="pip install x"), 2),
        (errors.InvalidTask("no"), 2),
        (errors.OurBug("no"), 1),
    ],
)
def test_errors_have_their_exit_code_and_cross_process_borders(error: errors.SteelyardError, code: int) -> None:
    assert error.exit_code == code
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_a_missing_column_names_the_nearest_ones() -> None:
    assert "did you mean 'amount'" in str(errors.ColumnMissing("amont", ["amount", "user"]))
    assert "none is close" in str(errors.ColumnMissing("zzz", ["amount"]))


def test_an_invalid_task_is_a_value_error() -> None:
    assert issubclass(errors.InvalidTask, ValueError)
