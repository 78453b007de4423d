"""``TopK``: the values that most units hold, with their numbers of units.

Among public candidates one is chosen after another, each by the exponential mechanism on numbers of units: a unit moves every number by at most
one, however many values it holds, so nothing of a unit is cut off. The chosen ones are then counted afresh. Values that are not public are found as keys
are: those that enough units stand behind, of which the first few are shown. By key, pairs of key and value are counted as ``CountUsers`` counts
them, and the first few under each key are shown. Proof: top_k.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from steelyard.accounting import normal_quantile
from steelyard.bounding._amounts import Spend, check_unit, noise_error
from steelyard.bounding._grouping import (
    By,
    Grouping,
    PublicKeys,
    keep_exact,
    keep_keys,
    labelled,
    plain_key,
    read_by,
)
from steelyard.bounding._private_keys import PrivateKeys
from steelyard.bounding._ranks import level_epsilon
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Exponential, Gaussian, Laplace, sigma_for
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome, Plan
from steelyard.privacy import MICRO, Neighbours, Number, Terms, Unit, composed
from steelyard.tables import Capped, KeyDigest, KeyList, Limits, Quantity, Schema, Table, read_keys

if TYPE_CHECKING:
    from steelyard.bounding._totals import CountUsers

_MOST, _MOST_CANDIDATES = 1000, 2**14
_SHARE = {"laplace": Fraction(1, 2), "gaussian": Fraction(7, 10)}
"""The share of epsilon, or of mu, that buys the choice; the rest buys the numbers."""

_MISSED = 0.05
_CHOSEN = "numbers are shown for being large, noise and all, so those that stand near each other or near the threshold tend to lie above the truth"


@dataclass(frozen=True)
class TopK:
    """The ``k`` values of a column (or tuples of several) that most units hold, most first, each with its number of units.

    ``keys`` are the public candidates, of which ``k`` are chosen; without them values are found on an account that sets ``additive_delta`` aside, and
    ``max_keys`` is the most values one unit stands behind. With ``by`` there are ``k`` values under each key: ``keys`` are then the public keys and ``values`` the
    candidates; or values, or keys and values, are found; a unit stands behind at most ``cap`` pairs of key and value (``max_keys``, where nothing is said).
    *Privacy:* with candidates one unit moves each number by at most one; found ones, and by key, as for ``CountUsers``. *Accuracy:* ``error`` is that of the numbers (with candidates *proved*, and ``error.note`` says how far behind a value left out
    can be). *Cost:* ``epsilon``, or a few micro below.

    >>> TopK("product", k=3, epsilon=1, keys=["a", "b", "c", "d"]).k
    3
    """

    column: By
    k: int = 10
    epsilon: Number | None = None
    keys: PublicKeys | None = None
    max_keys: int | None = None
    mu: Number | None = None
    by: By | None = None
    values: PublicKeys | None = None
    cap: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= _MOST:
            raise InvalidTask(f"k must be a whole number from 1 to {_MOST}; got {self.k!r}.")
        if not isinstance(self.column, str):
            object.__setattr__(self, "column", read_by(self.column))
        if self.by is not None:
            self._read_by_key()
            return
        if self.cap is not None or (self.keys is not None and self.values is not None):
            raise InvalidTask(
                "without by= there are candidates, keys=[...], and no cap; by= says which column holds keys."
            )
        candidates = read_keys(self.keys if self.values is None else self.values, read_by(self.column))
        object.__setattr__(self, "keys", candidates)
        object.__setattr__(self, "values", None)
        if (self.keys is None) == (self.max_keys is None):
            raise InvalidTask(
                "give keys=[...], the public candidates; or, on an account that sets additive_delta= aside, max_keys=, the most "
                "values one unit stands behind, and they are found."
            )
        if self.keys is not None and len(self.keys) > _MOST_CANDIDATES:
            raise InvalidTask(f"at most {_MOST_CANDIDATES:,} candidates can be chosen from; got {len(self.keys):,}.")
        _ = self.grouping
        keep_exact(self, "epsilon", "mu")

    def _read_by_key(self) -> None:
        """Keys and candidates in one form; the pairs are counted as units are."""
        if self.values is not None and self.keys is None:
            raise InvalidTask("public values need public keys= beside them; leave values out, and both are found.")
        if self.keys is None and self.max_keys is None:
            raise InvalidTask(
                f"by={self.by!r} needs keys=[...], or max_keys=, the most keys one unit may reach, to find them."
            )
        if self.cap is None and self.max_keys is None:
            raise InvalidTask("by key, give cap=, the most pairs of key and value that one unit stands behind.")
        keep_keys(self)
        object.__setattr__(self, "values", read_keys(self.values, read_by(self.column)))
        keep_exact(self, "epsilon", "mu")
        _ = self._by_pair

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One choice for each of ``k`` values, then one noisy vector; or the values that reach their threshold."""
        if self.by is not None:
            return self._plan_by_key(schema, terms)
        check_unit(schema, terms)
        grouping, spend = self.grouping, Spend.read(self.epsilon, self.mu, terms)
        grouping.check(schema)
        if grouping.private:
            search = PrivateKeys.plan(grouping.by, grouping.max_keys or 1, spend, terms)
            lost = f"a unit with more than {self.max_keys} values counts for {self.max_keys} of them, and is missing under the others"
            error = replace(noise_error(search.threshold.counts, Fraction(1)), blind_spot=lost, note=_CHOSEN)
            run = partial(_found, k=self.k, search=search, unit=terms.unit, error=error)
            return Plan(search.threshold.event, error, run, _presented)
        assert grouping.public is not None  # checked: candidates that were named by a digest alone are none
        peel = Peeling.of(min(self.k, len(grouping.public)), grouping, spend)
        return Plan(peel.event, peel.error, partial(peel.run, unit=terms.unit), _presented)

    @lazy
    def grouping(self) -> Grouping:
        """The candidates as keys."""
        return Grouping.read(self.column, self.keys, self.max_keys, None)

    @lazy
    def _by_pair(self) -> CountUsers:
        """Units by key and value: the ones that are counted, or found."""
        from steelyard.bounding._totals import CountUsers  # above this module, but for this

        names = (*read_by(self.by), *read_by(self.column))
        pairs: Any = None
        if isinstance(self.keys, KeyDigest) or isinstance(self.values, KeyDigest):
            raise InvalidTask("keys that are named by their digest alone cannot be combined; give a shorter list.")
        if self.values is not None:
            values = Grouping.read(self.column, self.values, None, None).public or ()
            pairs = [(*_parts(key), *_parts(value)) for key in self._keys or () for value in values]
        return CountUsers(self.epsilon, names, pairs, self.max_keys if self.cap is None else self.cap, self.mu)

    @lazy
    def _keys(self) -> KeyList | None:
        """The public keys of ``by``."""
        return Grouping.of(self).public

    def _plan_by_key(self, schema: Schema, terms: Terms) -> Plan:
        """Units by key and value, of which the first under each key are told: that only reads what was noised."""
        Grouping.of(self).check(schema)
        pairs, most = self._by_pair.plan(schema, terms), self._by_pair.max_keys
        lost = f"a unit with more than {most} pairs of key and value counts for {most} of them, and is missing under the others"
        assert pairs.predicted is not None  # the number of pairs is given
        among = None if self.values is None else len(Grouping.read(self.column, self.values, None, None).public or ())
        spend = Spend.read(self.epsilon, self.mu, terms)
        error = replace(_of_largest(pairs.predicted, spend, most or 1, self.k, among), blind_spot=lost)
        keys = None if self._keys is None else _fitted(schema, read_by(self.by), self._keys)

        def run(table: Table, noise: Noise) -> Outcome:
            outcome = pairs.run(table, noise)
            value = self._first(pairs.present(outcome.value), schema, keys)
            return Outcome(value, error, {**outcome.point, "k": self.k})

        return Plan(pairs.event, error, run, self._by_key)

    def _first(
        self, counts: Mapping[Any, int], schema: Schema, public: Sequence[tuple[Any, ...]] | None
    ) -> list[list[Any]]:
        """The first values under each key, as JSON; a public key under which there is none has an empty list.

        A key that was found is one of the public ones if the column holds the same for both, however each is written.
        """
        names = read_by(self.by)
        width, told = (
            len(names),
            {key: _plain(given) for key, given in zip(public or (), self._keys or (), strict=True)},
        )
        found: dict[tuple[Any, ...], list[tuple[Any, int]]] = {key: [] for key in told.values()}
        for pair, count in counts.items():
            key, value = _plain(pair[:width]), _plain(pair[width:])
            if public is not None:
                key = told.get(_same(schema, names, pair[:width]), ())
            if key in found or public is None:
                found.setdefault(key, []).append((value, count))
        first = {key: sorted(held, key=lambda each: -each[1])[: self.k] for key, held in found.items()}
        return [[_bare(key), [[_bare(value), count] for value, count in held]] for key, held in first.items()]

    def _by_key(self, value: Sequence[Any]) -> dict[Any, dict[Any, int]]:
        """Numbers of units by key and value; public keys are as they were given."""
        keys = [_told(key) for key, _ in value] if self._keys is None else self._keys
        return {key: _presented(held) for key, (_, held) in zip(keys, value, strict=True)}


def _of_largest(error: Error, spend: Spend, pairs: int, k: int, among: int | None) -> Error:
    """The error of the ``k`` numbers that noise made largest ``among`` so many: of those told as many are off as of all, at most.

    Of values that are found nobody knows how many there are, and a sentence says what that does.
    """
    if among is None:
        return replace(error, note=_CHOSEN)
    times, size = max(among / k, 1.0), math.sqrt(pairs) if spend.gaussian else float(pairs)
    scale, middle = size / spend.level * (1 + 1e-7), 1 / (2 * times)
    if spend.gaussian:
        ends = [-normal_quantile(share * middle) for share in (1.0, _MISSED)]
        mean = 2 * times * math.exp(-(ends[0] ** 2) / 2) / math.sqrt(2 * math.pi)
    else:
        ends, mean = [-math.log(_MISSED / times)], 1 + math.log(times)
    wide = max(0, math.ceil(scale * ends[-1] - 0.5))
    return replace(error, noise=max(error.noise, scale * mean), interval=max(error.interval, wide))


def _fitted(schema: Schema, by: Sequence[str], keys: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Keys as their columns hold them."""
    return list(zip(*schema.fit_keys(by, keys), strict=True))


def _same(schema: Schema, by: Sequence[str], key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key that was found, as its columns hold it; an empty one where no public key can be the same."""
    try:
        return _fitted(schema, by, [key[0] if len(by) == 1 else key])[0]
    except InvalidTask:  # of a released key: an infinity, or nothing
        return ()


def _parts(key: Any) -> tuple[Any, ...]:
    return tuple(key) if isinstance(key, list | tuple) else (key,)


def _plain(key: Any) -> tuple[Any, ...]:
    return tuple(plain_key(part) for part in _parts(key))


def _bare(key: tuple[Any, ...]) -> Any:
    """A key of one column as it is, of several as a list."""
    return key[0] if len(key) == 1 else list(key)


def _told(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


@dataclass(frozen=True)
class Peeling:
    """``k`` choices among public candidates, one after another, and the noise that what is ``left`` buys for what was chosen."""

    k: int
    grouping: Grouping
    choice: Exponential
    mechanism: Laplace | Gaussian
    left: Spend

    @classmethod
    def of(cls, k: int, grouping: Grouping, spend: Spend) -> Peeling:
        """Share the spend between the choices and the numbers."""
        first, left = spend.split(_SHARE[spend.law])
        micro = level_epsilon(first, k)
        if micro < 1:
            raise InvalidTask("what this release may spend is too little to choose so many values.")
        mechanism: Laplace | Gaussian = left.mechanism(k)
        if left.gaussian:
            mechanism = Gaussian(None, sigma_for(k, left.micro**2), Neighbours.ADD_REMOVE, k)
        return cls(k, grouping, Exponential(Fraction(micro, MICRO), 1, monotone=True), mechanism, left)

    @property
    def event(self) -> Any:
        """Every choice, and one noisy vector."""
        return composed(*[self.choice.event] * self.k, self.mechanism.event)

    @property
    def error(self) -> Error:
        """That of the numbers; and how far a choice may fall behind."""
        candidates = len(self.grouping.public or ())
        behind = math.floor(math.log(candidates * self.k / _MISSED) / float(self.choice.weight))
        note = f"in 95% of draws no value that is left out has more than {behind:,} units more than one that is shown"
        return replace(noise_error(self.mechanism, Fraction(1), 0.0), note=note)

    def run(self, table: Table, noise: Noise, *, unit: Unit) -> Outcome:
        """Count units by candidate, choose, noise the chosen."""
        keys = self.grouping.public or KeyList()
        ones = Capped(Quantity(None), max(len(keys), 1))  # at most a one for each candidate, so nothing is scaled
        counts = table.sums_by_key(unit, [ones], self.grouping.by, keys, Limits(None, 1))[0]
        left = list(range(len(keys)))
        chosen = [left.pop(self.choice.choose([-counts[place] for place in left], noise)) for _ in range(self.k)]
        noised = self.mechanism.release([counts[place] for place in chosen], noise)
        told = sorted(zip(noised, chosen, strict=True), key=lambda pair: (-pair[0], pair[1]))
        value = labelled([keys[place] for _, place in told], [count for count, _ in told])
        return Outcome(value, self.error, {"k": self.k})


def _found(table: Table, noise: Noise, *, k: int, search: PrivateKeys, unit: Unit, error: Error) -> Outcome:
    """The first of the values that reach their threshold."""
    shown = search.look(table, unit, noise)
    first = sorted(shown.items(), key=lambda pair: -pair[1])[:k]
    point = {"k": k, "max_keys": search.threshold.max_keys, "threshold": search.threshold.threshold}
    return Outcome(labelled([key for key, _ in first], [count for _, count in first]), error, point)


def _presented(value: Sequence[Any]) -> dict[Any, int]:
    """Numbers of units by value, most first."""
    return {_told(key): count for key, count in value}
