"""Searches by scikit-learn and Optuna: five lines, and no raw holdout score anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.holdout import ClosedHoldout
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._scorers import RoundObjective

optuna = pytest.importorskip("optuna")
pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def data() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9000, 5))
    y = (x[:, 0] + rng.normal(size=9000) > 0).astype(int)
    return x[:1000], y[:1000], x[1000:], y[1000:]


def test_a_grid_search_asks_through_the_scorer(data: tuple[Any, ...]) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    x, y, x_held, y_held = data
    holdout = Holdout(y_held, tolerance=0.06, between=(0.5, 1))
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=holdout.scorer(x_held), cv=3).fit(x, y)
    assert 0.65 < search.best_score_ < 0.85
    assert "6" in str(holdout) or "7" in str(holdout)


def test_a_scorer_stops_the_search_when_the_holdout_refuses(data: tuple[Any, ...]) -> None:
    _, _, x_held, y_held = data

    class Constant:
        def __init__(self, seed: int) -> None:
            self.seed = seed

        def predict(self, x: Any) -> Any:
            return np.random.default_rng(self.seed).integers(0, 2, len(x))

    holdout = Holdout(y_held, questions=1)
    scorer = holdout.scorer(x_held, guess=0.5)
    assert scorer(Constant(0), None) == 0.5
    with pytest.raises(ClosedHoldout, match="no more questions"):
        scorer(Constant(1), None)


def test_a_search_over_a_closed_holdout_ends_instead_of_choosing_by_nothing(data: tuple[Any, ...]) -> None:
    """scikit-learn makes NaN of an Exception of a scorer, and its first candidate wins."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    x, y, x_held, y_held = data
    holdout = Holdout(y_held, questions=1)
    holdout.check(np.zeros(len(y_held), dtype=int), 0.5)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=holdout.scorer(x_held), cv=2)
    with pytest.raises(ClosedHoldout):
        search.fit(x, y)


def test_losses_are_turned_so_that_more_is_better(data: tuple[Any, ...]) -> None:
    _, _, x_held, y_held = data

    class Zero:
        def predict(self, x: Any) -> Any:
            return np.zeros(len(x), dtype=int)

    assert Holdout(y_held, metric="error").scorer(x_held, guess=0.5)(Zero(), x_held, y_held) == -0.5


def test_an_optuna_study_sees_its_own_score_and_the_holdout_picks_winners(data: tuple[Any, ...]) -> None:
    x, y, x_held, y_held = data
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def trial(trial: Any) -> tuple[float, Any]:
        cut = trial.suggest_float("cut", -2, 2)
        return float(((x[:, 0] > cut) == y).mean()), (x_held[:, 0] > cut).astype(int)

    objective = RoundObjective(Holdout(y_held, mode="rounds"), trial, batch=5)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=12)
    number, answer = objective.best()
    assert abs(study.trials[number].params["cut"]) < 0.8
    assert answer.value == pytest.approx(0.75, abs=0.04)
    assert answer.low is not None
    assert answer.low < 0.75
    assert study.best_value == max(each.value for each in study.trials)


def test_the_objective_needs_rounds_and_trials(data: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidTask, match="mode='rounds'"):
        RoundObjective(Holdout(data[3]), lambda trial: (0.0, None))
    with pytest.raises(InvalidTask, match="no trial"):
        RoundObjective(Holdout(data[3], mode="rounds"), lambda trial: (0.0, None)).best()


def snippet(start: str) -> str:
    """The code of a block of the user's page that is no doctest, because it needs scikit-learn or Optuna."""
    page = (Path(__file__).parents[3] / "docs" / "holdout.md").read_text()
    block = page[page.index(start) :].split("```")[1]
    assert ">>>" not in block
    return block


def test_the_search_on_the_page_runs(data: tuple[Any, ...]) -> None:
    from sklearn.linear_model import LogisticRegression

    x, y, x_held, y_held = data
    known = {"Holdout": Holdout, "X": x, "y": y, "X_holdout": x_held, "y_holdout": y_held}
    known |= {"model": LogisticRegression(), "grid": {"C": [0.1, 1.0]}}
    exec(snippet("A scikit-learn search"), known)  # noqa: S102 (our own page)
    search: Any = known["search"]
    assert 0.65 < search.best_score_ < 0.85


def test_the_study_on_the_page_runs(data: tuple[Any, ...]) -> None:
    x, y, x_held, y_held = data
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def trial(trial: Any) -> tuple[float, Any]:
        cut = trial.suggest_float("cut", -2, 2)
        return float(((x[:, 0] > cut) == y).mean()), (x_held[:, 0] > cut).astype(int)

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    known: dict[str, Any] = {
        "Holdout": Holdout,
        "y_holdout": y_held,
        "study": study,
        "trial_to_score_and_predictions": trial,
    }
    exec(snippet("An Optuna study").replace("n_trials=1000", "n_trials=150"), known)  # noqa: S102 (our own page)
    assert abs(study.trials[known["number"]].params["cut"]) < 0.3
    assert known["answer"].low < 0.75 < known["answer"].high
