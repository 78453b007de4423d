"""A search over settings: charged once, private as a whole, refused before the charge, and worth its price."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import steelyard as sy
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.mechanisms._observe import observing
from steelyard.models._search import _FINE, _stopping
from steelyard.noise import TestNoise

DRAW = np.random.default_rng(1)
X = DRAW.normal(size=(3000, 3))
Y = np.where(X[:, 0] - X[:, 1] + 0.3 * DRAW.normal(size=3000) > 0, "yes", "no")
LOGISTIC = sy.LogisticRegression(classes=["yes", "no"], x_bound=3)
LINEAR = sy.LinearRegression(x_bound=3, y_bounds=(-6, 6))


def search(estimator: Any = LOGISTIC, grid: Any = None, **given: Any) -> Any:
    return sy.PrivateSearchCV(estimator, grid or {"x_bound": [3, 30_000]}, **{"epsilon": 3, "runs": 5, **given})


def test_the_better_setting_is_found_and_its_model_predicts() -> None:
    found = [search(runs=8).fit(X, Y) for _ in range(4)]
    good = [each for each in found if each.best_params_ == {"x_bound": 3}]
    assert len(good) >= 2
    assert np.median([each.score(X, Y) for each in good]) > 0.9
    best = good[0]
    assert best.best_estimator_.classes_.tolist() == ["no", "yes"]
    assert best.predict_proba(X[:5]).shape == (5, 2)
    assert abs(best.best_score_ - best.score(X, Y)) < 0.1
    assert pickle.loads(pickle.dumps(best)).predict(X[:9]).tolist() == best.predict(X[:9]).tolist()  # noqa: S301


def test_numbers_are_searched_by_their_squared_error() -> None:
    label = X @ [1, -1, 0.5] + 0.1 * DRAW.normal(size=3000)
    found = search(LINEAR, {"x_bound": [3, 3000]}, runs=8).fit(X, label)
    assert found.best_score_ > 0.9
    assert found.best_estimator_.predict(X).shape == (3000,)


@pytest.mark.parametrize(("law", "times"), [("geometric", 3), ("logarithmic", 2)])
def test_the_account_is_charged_once_however_many_runs(law: str, times: int) -> None:
    account = sy.open_account(":memory:", "search", unit=sy.rows(), epsilon="1")
    for _ in range(2):
        found = search(epsilon="0.3", account=account, law=law, runs=3).fit(X[:200], Y[:200])
        assert found.guarantee_.spent.amount == 300_000
    assert account.spent.amount == 600_000
    assert found.release_.event.parameters["order"] == times - 2


def test_a_gaussian_account_pays_the_mu_of_the_whole() -> None:
    account = sy.open_account(":memory:", "search", unit=sy.rows(), epsilon="2", delta="1e-6")
    search(epsilon="2", account=account, runs=2).fit(X[:200], Y[:200])
    assert 0 <= account.remaining.amount < account.terms.cap.amount * 1e-4


def shown(rows: Any, labels: Any) -> list[Any]:
    with observing() as seen:
        search(noise=TestNoise(7), runs=3).fit(rows, labels)
    return list(seen)


def test_one_label_moves_a_score_by_no_more_than_its_noise_is_for() -> None:
    """The same coins send the same rows to the same parts; a label that is scored moves good and bad by one row each way."""
    before, worst = shown(X[:60], Y[:60]), 0
    scored = np.flatnonzero(TestNoise(7).bits(60) < np.uint64(2**62))
    for place in scored[:4]:
        changed = Y[:60].copy()
        changed[place] = "neither"
        for one, other in zip(before, shown(X[:60], changed), strict=False):
            assert one.event == other.event
            if one.event.name == "laplace" and len(one.values) == 2:
                worst = max(worst, sum(abs(a - b) for a, b in zip(one.values, other.values, strict=True)))
    assert 0 < worst <= 2 * _FINE  # a replaced row is one removed and one added


def test_good_and_bad_of_one_row_add_up_to_one_whatever_it_holds() -> None:
    from steelyard.models._search import _Runs

    runs = _Runs(LINEAR, [{}], None, None, X, X[:, 0])  # type: ignore[arg-type]
    model = LINEAR.fit(X, X[:, 0])
    odd = np.array([0.0, np.nan, np.inf, -np.inf, 1e300, -1e300])
    good = runs._good(model, X[:6], odd)
    assert ((good >= 0) & (good <= _FINE)).all()
    assert (good[1:4] == 0).all()


def test_nothing_leaves_but_the_best() -> None:
    """The number of runs beside the best would cost epsilon for every run."""
    found = search(runs=3).fit(X[:200], Y[:200])
    assert set(found.release_.value) == {"candidate", "score", "model"}
    assert not found.release_.point
    assert not [name for name in vars(found) if name.startswith("runs_")]


def test_runs_that_warn_are_not_heard(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    from steelyard.models._search import _Runs

    good = _Runs._good

    def loud(*given: Any) -> Any:
        warnings.warn("a run", UserWarning, stacklevel=1)
        return good(*given)

    monkeypatch.setattr(_Runs, "_good", loud)
    search(runs=3).fit(X[:100], Y[:100])
    assert not [each for each in recwarn if "a run" in str(each.message)]


def moved(score: Any, widths: tuple[int, ...] = (2, 5, 8, 17, 33)) -> int:
    """How many rows' scores change when rows before them go, of a model with coefficients of this many."""
    draw, changed = np.random.default_rng(0), 0
    for width in widths:
        theta, rows = draw.normal(size=width), draw.normal(size=(width, 301))
        for start in range(1, 9):
            changed += int((score(theta, rows)[start:] != score(theta, np.ascontiguousarray(rows[:, start:]))).sum())
    return changed


def test_a_score_depends_on_its_own_row_alone() -> None:
    from steelyard.models._columns import SIZE, Features, Plain
    from steelyard.models._model import Model

    def ours(theta: Any, rows: Any) -> Any:
        features = Features([Plain(f"x{i}") for i in range(len(theta))], "clip", 1, False)
        return Model("logistic", features, "y", theta, positive=1).scores(rows * SIZE)

    assert moved(ours) == 0


def test_a_product_of_matrices_would_be_caught() -> None:
    if np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"] not in ("openblas", "scipy-openblas"):
        pytest.skip("another BLAS may add up rows alike")
    assert moved(lambda theta, rows: rows.T @ theta) > 0


@pytest.mark.parametrize("labels", [[], ["yes"], ["neither"] * 3, [None, 3, "yes"]])
def test_any_labels_give_a_model(labels: list[Any]) -> None:
    found = search(runs=2).fit(X[: len(labels)], np.array(labels, dtype=object))
    assert 0 <= found.best_score_ <= 1


def test_what_cannot_be_searched_is_refused_before_the_charge() -> None:
    from sklearn.linear_model import LogisticRegression as Plain

    account = sy.open_account(":memory:", "search", unit=sy.rows(), epsilon="1")
    wrong: list[tuple[Any, type[Exception]]] = [
        (search(Plain(), {"C": [1]}, account=account), InvalidTask),
        (search(sy.LogisticRegression(), account=account), InvalidTask),
        (search(grid={"epsilon": [1, 2]}, account=account), InvalidTask),
        (search(grid={"ridge": [1, -1]}, account=account), InvalidTask),
        (search(grid={"no such setting": [1]}, account=account), ValueError),
        (search(runs=1, account=account), InvalidTask),
        (search(law="poisson", account=account), InvalidTask),
        (search(validation=1, account=account), InvalidTask),
        (search(epsilon="1e-6", account=account), InvalidTask),
    ]
    for each, kind in wrong:
        with pytest.raises(kind):
            each.fit(X[:50], Y[:50])
    with pytest.raises(ValueError, match="inconsistent"):
        search(account=account).fit(X[:50], Y[:49])
    users = sy.open_account(":memory:", "people", unit=sy.users("who"), epsilon="1")
    with pytest.raises(UnitMismatch):
        search(account=users).fit(X[:50], Y[:50])
    assert account.spent.amount == 0


def test_it_is_an_estimator_like_others() -> None:
    made = clone(search(law="logarithmic", validation="0.5"))
    assert made.get_params(deep=False)["law"] == "logarithmic"
    piped = make_pipeline(FunctionTransformer(), made.set_params(runs=2)).fit(X[:300], Y[:300])
    assert set(piped.predict(X[:20])) <= {"yes", "no"}
    with pytest.raises(Exception, match="not fitted"):
        search().predict(X)


@pytest.mark.parametrize("mean", [2, 24, 400])
def test_so_many_runs_are_made_on_average(mean: int) -> None:
    from fractions import Fraction

    assert _stopping(Fraction(mean), "geometric") == Fraction(1, mean)
    stop = float(_stopping(Fraction(mean), "logarithmic"))
    assert (1 / stop - 1) / -np.log(stop) == pytest.approx(mean, rel=1e-3)


ANEW = "compares two searches exactly, and two searches draw different noise"
PRIVATE = "what an entry is, and whether there are rows, is private, so it is not a reason to refuse"
FAILING = {
    "check_dtype_object": PRIVATE,
    "check_estimators_empty_data_messages": PRIVATE,
    "check_supervised_y_no_nan": PRIVATE,
    "check_regressor_data_not_an_array": ANEW,
    "check_supervised_y_2d": ANEW,
    "check_regressors_int": ANEW,
    "check_fit_idempotent": ANEW,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        sy.PrivateSearchCV(
            sy.LinearRegression(x_bound=10, y_bounds=(-10, 10)), {"method": ["auto"]}, epsilon=100, runs=1.1
        )
    ],
    expected_failed_checks=lambda estimator: FAILING,
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_search_over_numbers_tells_no_chances() -> None:
    assert not hasattr(sy.PrivateSearchCV(sy.LinearRegression(), {"method": ["auto"]}), "predict_proba")
    assert hasattr(sy.PrivateSearchCV(sy.LogisticRegression(classes=[0, 1]), {"ridge": [4]}), "predict_proba")
