"""What a scikit-learn search will spend is told beforehand, and is what it spends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - makes it importable
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import steelyard as sy
from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.models import LinearRegression, LogisticRegression, PrivateScaler, search_cost

X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
Y = (X[:, 0] > 0).astype(int)


def account(epsilon: Any, **more: Any) -> Any:
    return sy.open_account(":memory:", "search", unit=sy.rows(), epsilon=epsilon, **more)


@pytest.mark.parametrize("delta", [None, "1e-6"])
@pytest.mark.parametrize("refit", [True, False])
def test_it_is_what_the_search_spends(delta: str | None, refit: bool) -> None:
    paying = account(50, **({} if delta is None else {"delta": delta}))
    model = LogisticRegression(epsilon=1, classes=[0, 1], account=paying)
    search = GridSearchCV(model, {"ridge": [4, 8], "x_bound": [1, 2]}, cv=3, refit=refit)
    told = search_cost(search, X, Y)
    assert (told.candidates, told.folds, told.fits) == (4, 3, 12 + refit)
    assert told.affordable
    assert told.loss is not None
    with pytest.warns(UserWarning, match="every fit of this search is charged") as heard:
        search.fit(X, Y)
    (said,) = heard
    assert str(told) in str(said.message)
    assert said.filename == __file__
    assert 0.97 * told.loss.amount <= paying.spent.amount <= told.loss.amount
    assert "which is enough" in str(told)


def test_a_search_that_cannot_be_paid_for_is_told_so() -> None:
    paying = account(3)
    search = GridSearchCV(
        LinearRegression(epsilon=1, delta=None, account=paying), {"x_bound": [1, 2]}, cv=2, error_score="raise"
    )
    assert not search_cost(search).affordable
    assert "NOT enough" in str(search_cost(search))
    with pytest.raises(
        BudgetExceeded, match=r"5 fits .* would spend epsilon 5; the account has epsilon 3 left"
    ) as refused:
        search.fit(X, X[:, 0])
    assert paying.spent.amount == 0
    assert (str(refused.value.wanted), str(refused.value.remaining)) == ("epsilon 5", "epsilon 3")


def test_a_search_says_what_it_will_spend_once_in_pipelines_and_in_processes_too() -> None:
    pipe = make_pipeline(PrivateScaler(epsilon=2), LinearRegression(epsilon=1))
    search = GridSearchCV(pipe, {"linearregression__x_bound": [1, 2]}, cv=2, n_jobs=2)
    for _ in range(2):  # every time it is fitted
        with pytest.warns(UserWarning, match="every fit of this search is charged") as heard:
            search.fit(X, X[:, 0])
        assert ["would spend epsilon 15 in all" in str(each.message) for each in heard] == [True]
    with pytest.warns(UserWarning, match="draws epsilon itself"):
        RandomizedSearchCV(LinearRegression(), {"epsilon": [1, 2]}, n_iter=2, cv=2).fit(X, X[:, 0])


def test_folds_that_can_be_read_once_are_left_to_the_search() -> None:
    search = GridSearchCV(LinearRegression(epsilon=1), {"x_bound": [1, 2]}, cv=iter(list(KFold(3).split(X))))
    with pytest.raises(InvalidTask, match="only once"):
        search_cost(search)
    with pytest.warns(UserWarning, match="7 fits .2 candidates on 3 folds"):
        assert search.fit(X, X[:, 0]).n_splits_ == 3


def test_a_clone_outside_a_search_says_nothing() -> None:
    clone(make_pipeline(LinearRegression()))
    cross_val_score(LinearRegression(epsilon=1), X, X[:, 0], cv=2)


def test_pipelines_price_each_private_step_and_each_candidates_own_epsilon() -> None:
    paying = account(50)
    pipe = make_pipeline(
        PrivateScaler(epsilon=2, account=paying), LinearRegression(epsilon=1, delta=None, account=paying)
    )
    told = search_cost(GridSearchCV(pipe, {"linearregression__epsilon": [1, 3]}, cv=2))
    assert told.epsilon == (3 + 5) * 2 + 5
    assert told.loss is not None
    assert told.loss.amount == told.epsilon * 10**6
    alone = search_cost(RandomizedSearchCV(LinearRegression(epsilon=1), {"x_bound": [1, 2, 3]}, n_iter=3, cv=2))
    assert alone.loss is None
    assert alone.fits == alone.epsilon == 7
    assert "nothing adds that up" in str(alone)


def test_what_cannot_be_known_beforehand_is_refused() -> None:
    for search, words in (
        (RandomizedSearchCV(LinearRegression(), {"epsilon": [1, 2]}, n_iter=2), "draws epsilon"),
        (HalvingGridSearchCV(LinearRegression(), {"x_bound": [1, 2]}), "not known beforehand"),
        (GridSearchCV(Ridge(), {"alpha": [1]}), "no private estimator"),
        (LinearRegression(), "not known beforehand"),
    ):
        with pytest.raises(InvalidTask, match=words):
            search_cost(search, X, Y)
