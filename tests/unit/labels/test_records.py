"""Each record is randomized once, across batches, processes and crashes; disjoint batches are one charge."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steelyard.account import Charge
from steelyard.errors import BudgetExceeded, InvalidTask, KeyConflict, LedgerLocked, OurBug, TableError
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._records import Collection, digests
from steelyard.labels._sampler import GroupSampler
from steelyard.ledger import Account, open_account
from steelyard.noise import ExactNoise
from steelyard.privacy import labels


def account(where: Any = ":memory:", epsilon: str = "1") -> Account:
    return open_account(where, "labels", unit=labels("y"), epsilon=epsilon)


def views_of(draws: list[np.ndarray[Any, Any]]) -> int:
    """How many different outputs one record was ever seen with: more than one is a second look at its label."""
    return max(len({float(draw[i]) for draw in draws}) for i in range(len(draws[0])))


def test_disjoint_batches_of_records_are_one_charge() -> None:
    budget = account()
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    for start in range(0, 100, 10):
        made.transform(np.arange(10) % 4, ids=np.arange(start, start + 10))
    assert str(budget.spent) == "epsilon 1"


def test_a_record_seen_again_gets_what_it_got_whatever_its_label_is_now() -> None:
    made = LabelRandomizer(1, 0, 3, account=account()).fit()
    ids = [f"r{i}" for i in range(200)]
    draws = [made.transform(np.full(200, label), ids=ids) for label in (0, 1, 2, 3)]
    assert views_of(draws) == 1


def test_without_the_memo_the_same_check_sees_a_second_look() -> None:
    made = LabelRandomizer(1, 0, 3, account=account(epsilon="4")).fit()
    draws = [made.transform(np.full(200, 2)) for _ in range(4)]
    assert views_of(draws) > 1


def test_a_record_named_twice_in_one_batch_is_drawn_once_even_where_nothing_refused_it() -> None:
    made = LabelRandomizer(1, 0, 3, account=account()).fit()
    noisy = made._open_pass(records=True).noisy(np.array([0.0, 3.0] * 50), digests([1] * 100))
    assert len(set(noisy.tolist())) == 1


@pytest.mark.parametrize("ids", [["a"] * 3, [1, 2, "1"], np.array([5, 5, 6]), pd.array([1, 2, 1], dtype="Int64")])
def test_ids_that_come_twice_in_one_call_are_refused_before_the_charge(ids: Any) -> None:
    budget = account()
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    with pytest.raises(InvalidTask, match="different ids"):
        made.transform([0, 1, 2], ids=ids)
    assert budget.spent.amount == 0


def test_the_memo_outlives_the_process(tmp_path: Path) -> None:
    budget = account(tmp_path / "l.db")
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    made.save(tmp_path / "m.json")
    first = made.transform(np.arange(60) % 4, ids=np.arange(60))
    again = LabelRandomizer.load(tmp_path / "m.json", account=Account(budget.location, "labels"))
    assert again.transform(np.zeros(60), ids=np.arange(60)).tolist() == first.tolist()
    assert len(again.transform(np.zeros(5), ids=np.arange(60, 65))) == 5
    assert str(budget.spent) == "epsilon 1"


def test_a_pickled_randomizer_goes_on_with_the_same_collection(tmp_path: Path) -> None:
    budget = account(tmp_path / "l.db")
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    first = made.transform(np.arange(60) % 4, ids=np.arange(60))
    again = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert again.transform(np.zeros(60), ids=np.arange(60)).tolist() == first.tolist()
    assert str(budget.spent) == "epsilon 1"


def test_other_mechanisms_and_other_collections_are_other_charges() -> None:
    budget = account(epsilon="2.5")
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    made.transform([1, 2], ids=[1, 2])
    with pytest.raises(KeyConflict):
        LabelRandomizer(1, 0, 3, "rr", account=budget).fit().transform([1, 2], ids=[1, 2])
    made.transform([1, 2], ids=[1, 2], key="second survey")
    assert str(budget.spent) == "epsilon 2"
    with pytest.raises(BudgetExceeded):
        made.transform([1, 2], ids=[1, 2], key="third survey")


def test_two_handles_that_race_deliver_one_answer() -> None:
    budget = account()
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    first, second = made._open_pass(records=True), None
    made._collections.clear()
    second = made._open_pass(records=True)
    keys, y = digests(list(range(500))), np.full(500, 2.0)
    here, there = first.noisy(y[:300], keys[:300]), second.noisy(y[200:], keys[200:])
    assert here[200:].tolist() == there[:100].tolist()
    assert first.noisy(y, keys).tolist() == second.noisy(y, keys).tolist()


class Forgetful(Collection):
    """A twin that delivers what it drew instead of what the store kept."""

    def outputs(self, keys: Any, draw: Any) -> Any:
        drawn = draw(np.arange(len(keys)), ExactNoise())
        super().outputs(keys, lambda new, noise: drawn[new])
        return drawn


def test_a_memo_that_delivers_its_own_draw_is_caught() -> None:
    budget = account()
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    keys, y = digests(list(range(200))), np.full(200, 2.0)
    honest, twins = (
        [kind(made._till.desk("records", "twin", {}), made._sampler).noisy(y, keys) for _ in range(2)]
        for kind in (Collection, Forgetful)
    )
    assert views_of(honest) == 1
    assert views_of(twins) > 1


def _worker(location: str, saved: str, results: Any) -> None:
    made = LabelRandomizer.load(saved, account=Account(location, "labels"))
    results.put([made.transform(np.full(40, 1.0), ids=np.arange(k, k + 40)).tolist() for k in (0, 20)])


def test_processes_that_race_agree_on_every_record(tmp_path: Path) -> None:
    budget = account(tmp_path / "l.db")
    LabelRandomizer(1, 0, 3, account=budget).fit().save(tmp_path / "m.json")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=_worker, args=(budget.location, str(tmp_path / "m.json"), results)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    seen = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert seen[0] == seen[1]
    assert seen[0][0][20:] == seen[0][1][:20]
    assert str(budget.spent) == "epsilon 1"


def test_ids_are_integers_or_texts() -> None:
    assert digests([7]).tolist() == digests(["7"]).tolist() == digests(np.array([7], np.int32)).tolist()
    assert digests([7]).tolist() != digests([8]).tolist()
    for bad in ([1.5], [None], [True], [[1]]):
        with pytest.raises(InvalidTask):
            digests(bad)


def test_a_pass_with_a_key_keeps_every_batch_apart() -> None:
    budget = account()
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    first, again = (made._open_pass("k", size=80) for _ in range(2))
    batches = [first.noisy(np.full(40, label)) for label in (0.0, 3.0)]
    assert batches[0].tolist() != batches[1].tolist()
    assert [again.noisy(np.zeros(40)).tolist() for _ in range(2)] == [batch.tolist() for batch in batches]
    assert str(budget.spent) == "epsilon 1"
    with pytest.raises(OurBug, match="more labels"):
        first.noisy(np.zeros(1))


def test_a_draw_that_fails_loses_no_record_that_was_drawn_and_none_that_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget = account()
    made = LabelRandomizer(1, 0, 3, account=budget).fit()
    first = made.transform(np.zeros(30), ids=range(30))

    def exhausted(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(GroupSampler, "draw", exhausted)
        with pytest.raises(TableError, match="for good"):
            made.transform(np.zeros(10), ids=range(30, 40))
    later = made.transform(np.zeros(40), ids=range(40))
    again = LabelRandomizer(1, 0, 3, account=budget).fit().transform(np.full(40, 3.0), ids=range(40))
    assert later[:30].tolist() == first.tolist()
    assert again.tolist() == later.tolist()
    assert str(budget.spent) == "epsilon 1"


class Skipping(Collection):
    """A twin that counts a step before it is stored, and so leaves one out when it is interrupted there."""

    def __init__(self, desk: Any, sampler: Any) -> None:
        super().__init__(desk, sampler)
        self._next = len(self._parts)

    def _draw(self, keys: Any, fresh: Any, draw: Any) -> None:
        step, self._next = self._next, self._next + 1
        payload = lambda noise: keys[fresh].tobytes() + draw(fresh, noise).astype(self._code).tobytes()  # noqa: E731
        self._parts[step] = self._read(self._desk.draw(self._charge, payload, step=step))


def views_after(error: BaseException, where: tuple[Any, str], kind: type[Collection]) -> int:
    """How many different draws of the same records are told when one draw was cut short and asked for again."""
    made = LabelRandomizer(1, 0, 3, account=account()).fit()
    keys, y = digests(list(range(200))), np.full(200, 2.0)

    def opened() -> Collection:
        return kind(made._till.desk("records", "cut", {}), made._sampler)

    handle = opened()
    handle.noisy(y[:50], keys[:50])

    def cut(*_: Any, **__: Any) -> Any:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*where, cut)
        with pytest.raises(type(error)):
            handle.noisy(y, keys)
    return views_of([each.noisy(y, keys) for each in (handle, opened(), handle, opened())])


CUTS: list[tuple[BaseException, tuple[Any, str]]] = [
    (KeyboardInterrupt(), (GroupSampler, "draw")),
    (LedgerLocked("in use"), (Charge, "store")),
    (KeyboardInterrupt(), (Charge, "store")),
]


@pytest.mark.parametrize(("error", "where"), CUTS, ids=["while it draws", "a ledger in use", "while it stores"])
def test_a_step_that_was_cut_short_draws_no_record_twice_and_its_broken_twin_is_caught(
    error: BaseException, where: tuple[Any, str]
) -> None:
    assert views_after(error, where, Collection) == 1
    assert views_after(error, where, Skipping) > 1


def test_threads_that_share_a_randomizer_are_told_one_draw_of_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    made = LabelRandomizer(1, 0, 3, account=account()).fit()
    made.transform(np.zeros(3), ids=range(3))
    barrier, plain = threading.Barrier(4), GroupSampler.draw

    def slowly(self: GroupSampler, y: Any, noise: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(0.2)  # all of them are about to draw the same records
        return plain(self, y, noise)

    monkeypatch.setattr(GroupSampler, "draw", slowly)
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: made.transform(np.zeros(500), ids=range(500)), range(4)))
    again = LabelRandomizer(1, 0, 3, account=made.account_).fit().transform(np.zeros(500), ids=range(500))
    assert views_of([*told, again]) == 1


def test_a_pass_is_not_taken_up_again_in_other_batches() -> None:
    made = LabelRandomizer(1, 0, 3, account=account()).fit()
    made._open_pass("k", size=80).noisy(np.zeros(50))
    with pytest.raises(OurBug, match="other batches"):
        made._open_pass("k", size=80).noisy(np.zeros(30))
