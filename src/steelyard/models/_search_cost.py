"""What a scikit-learn search over private estimators will spend, told before it spends anything.

Every fit of a search is a release of its own: candidates times folds, and one more on all rows. Nothing is fitted and nothing is charged here.
A search begins by cloning its estimator, so an estimator of ours that is cloned by one says what is to come, or refuses what the account cannot pay for.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from fractions import Fraction
from types import FrameType
from typing import Any

from steelyard.account import Account
from steelyard.bounding import Spend
from steelyard.errors import BudgetExceeded, EngineMissing, InvalidTask
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
        fits = f"{self.fits} fits ({self.candidates} candidate{'s' * (self.candidates > 1)} on {self.folds} folds{', and one on all rows' * self.refits})"
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
    _candidates(search)  # what is no such search is refused first
    if hasattr(search.cv, "__next__"):
        raise InvalidTask("cv= can be read only once, so its folds are not counted here; give them as a list.")
    return _cost(search, check_cv(search.cv, y, classifier=is_classifier(search.estimator)).get_n_splits(X, y, groups))


def _cost(search: Any, folds: int) -> SearchCost:
    tried = [_private(clone(search.estimator).set_params(**each)) for each in _candidates(search)]
    if not all(tried):
        raise InvalidTask("this search fits no private estimator of steelyard's, so it spends nothing here.")
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


class Charged:
    """An estimator whose every fit is charged: where a search of scikit-learn begins with it, it says what that will spend."""

    def __sklearn_clone__(self) -> Any:
        """A copy that is not fitted."""
        _announce(self)
        return super().__sklearn_clone__()  # type: ignore[misc]


def _announce(estimator: Any) -> None:
    """Where a search has just begun: warn of what it will spend, or refuse what its account cannot pay for.

    *Privacy:* nothing is read here, and nothing was charged: how many folds there are the search has found out before.
    """
    frame, level = _beginning(estimator)
    if frame is None:
        return
    search = frame.f_locals["self"]
    try:
        cost = _cost(search, int(frame.f_locals.get("n_splits") or search.n_splits_))
    except InvalidTask as unknown:
        warnings.warn(f"every fit of this search is charged: {unknown}", UserWarning, stacklevel=level)
        return
    cheaper = "PrivateSearchCV is charged once, whatever it tries."
    if not cost.affordable:
        raise BudgetExceeded(f"{cost} Nothing was charged. {cheaper}", wanted=cost.loss, remaining=cost.left)
    warnings.warn(f"every fit of this search is charged: {cost} {cheaper}", UserWarning, stacklevel=level)


def _beginning(estimator: Any) -> tuple[FrameType | None, int]:
    """The call of a search's ``fit`` that clones this very estimator as the first of its own, and how many calls it is up to whoever made it."""
    frame, level = sys._getframe(2), 2
    while frame is not None and frame.f_code is not _cost.__code__:
        if frame.f_code.co_name == "fit" and hasattr(frame.f_locals.get("self"), "_run_search"):
            first = next(iter(_private(frame.f_locals["self"].estimator)), None)
            return (frame, level + _inside(frame)) if first is estimator else (None, level)
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return None, level


def _inside(frame: FrameType | None) -> int:
    """How many calls from here up are scikit-learn's own."""
    count = 0
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "sklearn":
        frame, count = frame.f_back, count + 1
    return count


def _private(estimator: Any) -> list[Any]:
    """The private estimators among an estimator and its parts."""
    parts = [estimator, *(estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ())]
    return list({id(part): part for part in parts if isinstance(part, Charged)}.values())


def _whose(account: Any) -> Any:
    """An account by what it is: a clone's is a copy."""
    return None if account is None else (str(account.location), account.name)


def _amount(estimator: Any, account: Account) -> int:
    spend = Spend.read(estimator.epsilon, None, account.terms)
    return spend.micro**2 if spend.gaussian else spend.micro
