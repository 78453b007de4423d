"""What a scikit-learn search over private estimators will spend, told before it spends anything.

Every fit of a search is a release of its own: candidates times folds, and one more on all rows. Nothing is fitted and nothing is charged here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.account import Account
from steelyard.bounding import Spend
from steelyard.errors import EngineMissing, InvalidTask
from steelyard.models._estimator import PrivateEstimator
from steelyard.privacy import Loss, decimal_text, exact

try:
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import ParameterGrid, check_cv
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None


@dataclass(frozen=True)
class SearchCost:
    """How many fits a search makes and what they spend; ``loss`` and ``left`` where one account pays for all of them."""

    candidates: int
    folds: int
    refits: int
    epsilon: Fraction
    loss: Loss | None = None
    left: Loss | None = None

    @property
    def fits(self) -> int:
        """Each candidate on each fold, and the best once more on all rows."""
        return self.candidates * self.folds + self.refits

    @property
    def affordable(self) -> bool:
        """Whether the account can pay for all of it; without one, nothing would stop the search."""
        return self.loss is None or self.left is None or self.loss.amount <= self.left.amount

    def __str__(self) -> str:
        fits = f"{self.fits} fits ({self.candidates} candidates on {self.folds} folds{', and one on all rows' * self.refits})"
        if self.loss is None:
            return f"{fits} would spend epsilon {decimal_text(self.epsilon, 6)} in all, and without account= nothing adds that up or stops it."
        enough = "which is enough" if self.affordable else "which is NOT enough: the search would end without a model"
        return f"{fits} would spend {self.loss}; the account has {self.left} left, {enough}."


def search_cost(search: Any, X: Any = None, y: Any = None, groups: Any = None) -> SearchCost:
    """What ``search.fit(X, y)`` would spend at most: a ``GridSearchCV`` or ``RandomizedSearchCV`` over estimators of ours, in pipelines too.

    *Cost:* nothing. ``PrivateSearchCV`` is charged once instead, whatever it tries.

    >>> from sklearn.model_selection import GridSearchCV
    >>> from steelyard.models import LinearRegression
    >>> print(search_cost(GridSearchCV(LinearRegression(epsilon="0.5"), {"x_bound": [1, 2, 3]}, cv=4)))
    13 fits (3 candidates on 4 folds, and one on all rows) would spend epsilon 6.5 in all, and without account= nothing adds that up or stops it.
    """
    tried = [_private(clone(search.estimator).set_params(**each)) for each in _candidates(search)]
    if not all(tried):
        raise InvalidTask("this search fits no private estimator of steelyard's, so it spends nothing here.")
    folds = check_cv(search.cv, y, classifier=is_classifier(search.estimator)).get_n_splits(X, y, groups)
    refits = int(bool(search.refit))
    accounts = {_whose(one.account): one.account for each in tried for one in each}
    account = next(iter(accounts.values())) if len(accounts) == 1 else None
    prices = [sum((exact(one.epsilon, "epsilon") for one in each), Fraction(0)) for each in tried]
    epsilon = sum(prices) * folds + refits * max(prices)
    if account is None:
        return SearchCost(len(tried), folds, refits, epsilon)
    amounts = [sum(_amount(one, account) for one in each) for each in tried]
    loss = Loss(account.terms.currency, sum(amounts) * folds + refits * max(amounts))
    return SearchCost(len(tried), folds, refits, epsilon, loss, account.remaining)


def _candidates(search: Any) -> list[dict[str, Any]]:
    if hasattr(search, "param_grid") and hasattr(search, "refit") and not hasattr(search, "aggressive_elimination"):
        return [dict(each) for each in ParameterGrid(search.param_grid)]
    drawn = getattr(search, "param_distributions", None)
    if drawn is not None and hasattr(search, "n_iter"):
        if any(
            name.rpartition("__")[2] == "epsilon"
            for each in ([drawn] if hasattr(drawn, "keys") else drawn)
            for name in each
        ):
            raise InvalidTask("this search draws epsilon itself, so what it will spend is not known beforehand.")
        return [{}] * int(search.n_iter)
    raise InvalidTask(
        f"a {type(search).__name__} is no GridSearchCV or RandomizedSearchCV; what it will fit is not known beforehand."
    )


def _private(estimator: Any) -> list[Any]:
    """The private estimators among an estimator and its parts."""
    parts = [estimator, *(estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ())]
    return list({id(part): part for part in parts if isinstance(part, PrivateEstimator)}.values())


def _whose(account: Any) -> Any:
    """An account by what it is: a clone's is a copy."""
    return None if account is None else (str(account.location), account.name)


def _amount(estimator: Any, account: Account) -> int:
    spend = Spend.read(estimator.epsilon, None, account.terms)
    return spend.micro**2 if spend.gaussian else spend.micro
