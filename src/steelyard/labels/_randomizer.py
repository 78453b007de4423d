"""LabelRandomizer: noisy labels that are right on average, each drawn once, each paid for before it is drawn.

``fit`` fixes the public nodes, buys a prior if it was asked to and that pays, and makes the mechanism; ``transform``
pays for a pass and draws. With record ids a whole collection of records costs one charge however many batches it comes
in, because each record is drawn once and kept (memo.py). Proofs: docs/proofs/label_randomizer.md, label_prior.md.
The law: charge, then draw, then store, then deliver; and noisy labels are never clipped.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.account import Account
from steelyard.accounting import price
from steelyard.charts import Chart
from steelyard.errors import InvalidTask, OurBug
from steelyard.labels._balance import balanced
from steelyard.labels._baselines import KINDS, AddedNoise
from steelyard.labels._charts import draw_mechanism
from steelyard.labels._check import CheckReport, check
from steelyard.labels._choice import WITHOUT_PRIOR, build, check_bias, check_method, prior_free, split
from steelyard.labels._document import GroupFit, document, judge, read, restore, write
from steelyard.labels._mechanism import FiniteMechanism, read_epsilon
from steelyard.labels._nodes import Floats, Nodes
from steelyard.labels._noise_loss import check_floats, read_noise_loss
from steelyard.labels._prior import ALL, Prior, count, public_priors
from steelyard.labels._prior_free import two_point
from steelyard.labels._records import Collection, Pass, beside, buy, check_once, digests, read_groups, wrapped
from steelyard.labels._sampler import GroupSampler, sampler_of
from steelyard.labels._till import Till
from steelyard.labels.solve._linear import check_exact
from steelyard.noise import Noise, new_key
from steelyard.privacy import MICRO, Event, Loss
from steelyard.tables import numbers_of

_CONSTANT = (
    "under this prior randomized response tells most often the truth by always saying the likeliest label, so the noisy labels say nothing. "
    "Use method='auto' (for classes LabelPrivateClassifier), or a larger epsilon."
)
_NAMES = (
    "epsilon", "lower", "upper", "method", "prior", "loss", "account", "nodes", "missing", "column", "noise",
    "unbiased", "noise_loss", "outputs",
)  # fmt: skip
_NOT_NUMBERS = (
    "some labels are missing, not finite or no numbers (a text is none: give each word a number first). Say what they count "
    "as with missing= (a public value between lower and upper), or leave those records out; nothing was charged."
)
_SPARK = (
    "labels of a Spark frame are not randomized as a column: Spark may compute a frame again for each look at it, and every time the "
    "labels would be drawn anew, for one charge. Nothing was charged. Let the executors write them once: "
    "steelyard.labels.randomize_spark(randomizer, frame, folder, column, ids=...), or steelyard labels apply ... --spark MASTER."
)
_OBJECTS = (
    "the labels are a column of objects, whose type does not say that they are numbers: whatever is none counts as missing. "
    "If it holds text, stop and give each word a number; else convert the column to a number type first."
)


class LabelRandomizer:
    """Makes labels private one by one: pure epsilon for a change of one label, and no bias by default.

    ``method`` is auto, unbiased, balanced, two_point, debiased, piecewise, hybrid, laplace, discrete_laplace or staircase
    (no bias), or rr, rr_with_prior, rr_on_bins (biased). ``prior`` is
    None, public weights for the nodes, or "private" (a part of epsilon buys a histogram). Labels outside
    [lower, upper] are clipped to it first; ``missing`` is what labels that are no number count as (default: refused).

    Two losses, not to be mixed up: ``loss`` is what a model will be trained with (labels with no bias serve the ones affine in the
    label; rr_on_bins is made for it). ``noise_loss`` is what method "unbiased" makes least between noisy and true labels:
    "squared" (default), "absolute" or a function of (output, label), the last two with public ``outputs`` (see ``solve_unbiased``).

    ``unbiased=False`` lets auto trade bias for variance under the prior, by the number of records: better models where epsilon
    or data are small, and noisy labels that are no longer right on average.

    *Privacy:* epsilon in all for fit and one pass; charged to ``account``, or to one in memory of exactly epsilon.

    >>> randomizer = LabelRandomizer(epsilon=1, lower=0, upper=10).fit()
    >>> noisy = randomizer.transform([0, 2.5, 10])
    >>> randomizer.method_, len(noisy), str(randomizer.guarantee_.spent)
    ('balanced', 3, 'epsilon 1')
    """

    def __init__(
        self,
        epsilon: Any = 1.0,
        lower: Any = 0,
        upper: Any = 1,
        method: str = "auto",
        prior: Any = None,
        loss: str = "squared",
        account: Account | None = None,
        *,
        nodes: Any = None,
        missing: Any = None,
        column: str | None = None,
        noise: Noise | None = None,
        unbiased: bool = True,
        noise_loss: Any = None,
        outputs: Any = None,
    ) -> None:
        self.unbiased, self.noise_loss, self.outputs = unbiased, noise_loss, outputs
        self.epsilon, self.lower, self.upper = epsilon, lower, upper
        self.method, self.prior, self.loss, self.account = method, prior, loss, account
        self.nodes, self.missing, self.column, self.noise = nodes, missing, column, noise

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as scikit-learn wants them."""
        return {name: getattr(self, name) for name in _NAMES}

    def set_params(self, **params: Any) -> LabelRandomizer:
        """Change constructor arguments; ``fit`` must follow."""
        strange = sorted(set(params) - set(_NAMES))
        if strange:
            raise InvalidTask(f"LabelRandomizer has no parameter {strange[0]!r}; it has {', '.join(_NAMES)}.")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **({"_collections": {}} if hasattr(self, "_collections") else {})}

    def __repr__(self) -> str:
        return f"LabelRandomizer(epsilon={self.epsilon!r}, lower={self.lower!r}, upper={self.upper!r}, method={self.method!r})"

    def fit(self, y: Any = None, *, groups: Any = None, key: str | None = None) -> LabelRandomizer:
        """Make the mechanism. The labels are read only to buy a private prior, and only after that is charged.

        With ``groups``, the public group of every record (never computed from its label), each group gets a mechanism
        of its own: a public prior is then a mapping from group to weights, a private one is bought for all at once.
        """
        _refuse_spark(y)
        private = self._wants_prior()
        if private and y is None:
            raise InvalidTask("prior='private' is bought from the labels: fit(y) needs them.")
        values = self._read(y) if private else np.zeros(0)
        nodes, missing = self.grid()
        known = ALL
        if groups is not None:
            names = read_groups(groups)
            known = tuple(sorted(set(names)))
            values = beside(values, names if private else [], known)
        size = 0 if y is None else len(y)
        return self.fit_counts(lambda: count(nodes, values, missing, len(known)), size, key=key, groups=known)

    def fit_counts(
        self, counter: Any, records: int, *, key: str | None = None, groups: tuple[str, ...] = ALL, of: str = ""
    ) -> LabelRandomizer:
        """As ``fit``, from a function that counts labels by (group and) nearest node, and the public number of records.

        ``of`` says in public words which labels they are; the key of a bought prior is bound to it.
        """
        if not self.unbiased:
            check_bias(self.method, self.loss, self.prior, records, len(self.grid()[0].labels))
        check_method(self.method, self.loss, self.noise_loss, self.outputs)
        if groups != ALL and self.method in KINDS:
            raise InvalidTask(f"method {self.method!r} treats all records alike; leave groups= out.")
        nodes, missing = self.grid()
        micro, cells = Loss.pure(read_epsilon(self.epsilon)).amount, len(nodes.labels) * len(groups)
        part = self._part(micro, cells, records)
        rest = read_epsilon(Fraction(micro - part, MICRO))
        found = self._priors(nodes, Fraction(micro, MICRO), groups)
        if part and self.method == "auto" and self.unbiased:
            two_point(nodes.labels, rest)  # what nodes rule out is told before the prior is paid for
        asked = "squared" if self.noise_loss is None else self.noise_loss
        # read once: a second reading may fail when money is spent
        noise = read_noise_loss(asked, self.outputs, nodes.labels, rest)
        if part:
            check_floats(noise, nodes.labels, rest)
            check_exact(noise, nodes.labels, rest)
        self._start(micro)
        if part:
            about = hashlib.sha256(repr([[str(node) for node in nodes.labels], groups, missing]).encode()).hexdigest()
            desk = self._till.desk("prior", key, {"bins": cells, "micro": part, "about": about}, of)
            bought, event = buy(desk, counter, cells, part)
            self._spent(event)
            found = bought.split(len(groups))
        weighed = None if self.unbiased else records // len(groups)
        built = [(*build(self.method, nodes, prior, rest, self.loss, weighed, noise), prior) for prior in found]
        made = [GroupFit(method, sampler_of(mechanism, missing), prior) for method, mechanism, prior in built]
        self._adopt(dict(zip(groups, made, strict=True)), Fraction(micro, MICRO))
        if self.method == "rr_with_prior" and all(len(each.sampler.values) == 1 for each in made):
            warnings.warn(_CONSTANT, UserWarning, stacklevel=3)  # last: where it is an error, nothing paid for is lost
        return self

    def _priors(self, nodes: Nodes, epsilon: Fraction, groups: tuple[str, ...]) -> list[Prior]:
        """What is known of every group before anything is bought."""
        untold = self.prior is None or self._wants_prior()
        if self.method == "balanced" or (untold and self.method == "auto" and prior_free(nodes, epsilon) == "balanced"):
            return [balanced(nodes, epsilon)] * len(groups)
        if untold:
            return [Prior.none(nodes)] * len(groups)
        return public_priors(self.prior, nodes, groups)

    def plan(self, records: int = 0, groups: int = 1) -> dict[str, Loss]:
        """What fit would spend on a prior and a pass on labels, in pure epsilon; reads nothing and spends nothing."""
        check_method(self.method, self.loss, self.noise_loss, self.outputs)
        nodes, _ = self.grid()
        whole = Loss.pure(read_epsilon(self.epsilon))
        prior = Loss(whole.currency, self._part(whole.amount, len(nodes.labels) * groups, records))
        return {"prior": prior, "labels": whole - prior}

    def transform(self, y: Any, ids: Any = None, *, groups: Any = None, key: str | None = None) -> Any:
        """Noisy labels, in the container the labels came in; ``groups`` as in ``fit``.

        *Privacy:* each record's label is drawn once per charge. Without ``ids`` every call is a pass of its own and a
        charge of its own (with ``key`` a retry gets the stored pass). With ``ids`` all calls with one ``key`` are one
        collection and one charge: a record seen before gets what it got, whatever its label is now. Ids are public, and each
        names one record: one that comes twice in a call is refused.
        """
        self._fitted()
        _refuse_spark(y)
        values = self._read(y)
        names = None if ids is None else digests(ids)
        if names is not None and len(names) != len(values):
            raise InvalidTask(f"there are {len(names)} ids for {len(values)} labels.")
        check_once(names)
        if (groups is None) != (self.groups_ is None):
            raise InvalidTask("groups= is given to both fit and transform, or to neither.")
        if self.groups_ is not None:
            values = beside(values, read_groups(groups), tuple(self.groups_))
        return wrapped(y, self._open_pass(key, records=names is not None, size=len(values)).noisy(values, names))

    def fit_transform(self, y: Any, ids: Any = None, *, groups: Any = None, key: str | None = None) -> Any:
        """``fit``, then ``transform``."""
        return self.fit(y, groups=groups, key=key).transform(y, ids, groups=groups, key=key)

    def _open_pass(self, key: str | None = None, *, records: bool = False, size: int = 0) -> Pass | Collection:
        """Pay for a pass over records; every batch of it is then drawn for nothing more."""
        self._fitted()
        if records and key in self._collections:
            return self._collections[key]
        sampler = self._sampler
        sampler.prepare()
        paid: Pass | Collection
        if records:
            desk = self._till.desk("records", "all" if key is None else key, {"mechanism": sampler.digest})
            paid = self._collections[key] = Collection(desk, sampler)
        else:
            desk = self._till.desk("pass", key, {"mechanism": sampler.digest, "size": size})
            paid = Pass(desk, sampler, size, keep=key is not None)
        self._spent(sampler.event)
        return paid

    def _open_keyed(self, size: int) -> bytes:
        """Pay for a pass whose records are drawn elsewhere, and draw its key; no retry can ask for the key, so it is stored nowhere."""
        sampler = self._sampler
        sampler.prepare()
        desk = self._till.desk("pass", None, {"mechanism": sampler.digest, "size": size})
        charge = desk.charge(sampler.event)
        self._spent(sampler.event)
        return desk.draw(charge, new_key, keep=False)

    def price(self) -> Loss:
        """What a pass costs, in the currency of the account."""
        self._fitted()
        return price(self._sampler.event, self.account_.terms)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write mechanism, certificate, grid and the prior's provenance as JSON; no label is in it."""
        write(path, self._document())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, account: Account | None = None, noise: Noise | None = None
    ) -> LabelRandomizer:
        """Read a saved randomizer, after judging it; passes are charged to ``account``, or to one in memory."""
        data = read(path)
        groups = restore(data)
        first, epsilon = next(iter(groups.values())), Fraction(data["epsilon"])
        nodes, free = first.sampler.nodes, first.method == "compromise"
        proof = getattr(first.mechanism, "certificate", None)
        noise_loss = None if proof is None or proof.loss.name == "squared" else proof.loss
        made = cls(
            epsilon, nodes.lower, nodes.upper, "auto" if free else first.method, unbiased=not free, account=account, nodes=list(nodes.labels),
            missing=first.sampler.missing, column=data["column"] if account is None else None, noise=noise,
            noise_loss=noise_loss and noise_loss.name, outputs=noise_loss and noise_loss.outputs,
        )  # fmt: skip
        made._start(int(epsilon * MICRO) - first.prior.micro)
        made._adopt(groups, epsilon)
        return made

    def verify(self) -> CheckReport:
        """Re-prove privacy, bias, optimality gap and the prior's provenance from the form that is saved."""
        return judge(self._document())

    def chart(self, group: Any = None) -> Chart:
        """The mechanism (of one group) as a picture: the chance of every output for every label."""
        self._fitted()
        name = "" if group is None else str(group)
        if name not in self._groups:
            raise InvalidTask(f"chart draws one group's mechanism: {', '.join(self._groups)}; got {group!r}.")
        return draw_mechanism(self._groups[name].mechanism, self._groups[name].method)

    def _document(self) -> dict[str, Any]:
        self._fitted()
        return document(self._groups, self.account_.terms.unit.column or "", self.epsilon_)

    def grid(self) -> tuple[Nodes, float | None]:
        """The nodes, and what labels that are no number count as."""
        nodes = Nodes.of(self.lower, self.upper, self.nodes)
        return nodes, None if self.missing is None else nodes.read_missing(self.missing)

    def _wants_prior(self) -> bool:
        if isinstance(self.prior, str) and self.prior != "private":
            raise InvalidTask(f"prior must be None, 'private', or weights for the nodes; got {self.prior!r}.")
        return isinstance(self.prior, str)

    def _part(self, micro: int, cells: int, records: int) -> int:
        if not self._wants_prior() or self.method in WITHOUT_PRIOR:
            return 0
        return split(micro, cells, records) if self.method == "auto" and self.unbiased else max(1, micro // 10)

    def _read(self, y: Any) -> Floats:
        values = numbers_of(y)
        if self.missing is not None and str(getattr(y, "dtype", "")).lower() == "object":
            warnings.warn(_OBJECTS, UserWarning, stacklevel=3)
        if self.missing is None and not np.all(np.isfinite(values)):
            raise InvalidTask(_NOT_NUMBERS)
        return values

    def _start(self, micro: int) -> None:
        """The account that will pay, checked before anything is spent."""
        self._till = Till(self.account, self.noise, micro, self.column)
        self.account_, self.note_ = self._till.account, self._till.note
        self._collections: dict[str | None, Collection] = {}

    def _adopt(self, groups: dict[str, GroupFit], epsilon: Fraction) -> None:
        for each in groups.values():
            proof = _proof(each.mechanism)
            if not proof.passed:
                raise OurBug(f"a label mechanism failed its own check: {'; '.join(proof.findings[:3])}")
        self._groups, self.epsilon_ = groups, epsilon
        self._sampler = GroupSampler({name: each.sampler for name, each in groups.items()})
        self.unbiased_ = all(each.mechanism.unbiased for each in groups.values())
        self.groups_ = None if tuple(groups) == ALL else groups
        for name in ("sampler_", "mechanism_", "method_", "prior_"):  # an earlier fit's, where this one has groups
            self.__dict__.pop(name, None)
        if self.groups_ is None:
            only: Any = groups[""]  # its mechanism is a table, or noise on a grid
            self.sampler_, self.mechanism_, self.method_, self.prior_ = (
                only.sampler, only.mechanism, only.method, only.prior
            )  # fmt: skip

    def _spent(self, event: Event) -> None:
        """Every charge of this randomizer so far, as one promise."""
        self.guarantee_ = self._till.spent(event)

    def _fitted(self) -> None:
        if not hasattr(self, "_sampler"):
            raise InvalidTask("this LabelRandomizer is not fitted yet; call fit first.")


def _refuse_spark(labels: Any) -> None:
    if type(labels).__module__.partition(".")[0] == "pyspark":
        raise InvalidTask(_SPARK)


def _proof(mechanism: FiniteMechanism | AddedNoise) -> CheckReport:
    """The judge's word on privacy and bias; how near the optimum a table is takes longer and is asked for by verify."""
    saved = mechanism.to_json()
    return check({**saved, "certificate": None} if "certificate" in saved else saved)
