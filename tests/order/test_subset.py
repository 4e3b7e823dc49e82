"""Subsets: the bitmap against NumPy, the laws of orders over what is left, what is refused."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import epochs, lane_specs, layouts, seeds
from tombola.errors import CursorError, OrderError
from tombola.order import Concatenation, Kept, Lanes, Layout, Mixture, Order, OrderSpec, Passes, Subset, Take, make_spec
from tombola.plan import Plan, World
from tombola.testing import OrderTests


class SubsetTests(OrderTests):
    base: ClassVar[OrderSpec] = Lanes(lanes=2)
    large = Layout.equal(1000, 20_000)

    def make(self, layout: Layout, seed: int) -> Order:
        mask = np.random.default_rng(3).random(layout.records) < 0.6
        return Subset(Kept.mask(mask), self.base).over(layout, seed=seed)

    def planned(self, order: Order, epoch: int) -> np.ndarray:
        return (np.random.default_rng(3).random(order.layout.records) < 0.6).astype(np.int64)

    def remake(self, order: Order) -> OrderSpec:
        return dataclasses.replace(super().remake(_named(order)), kept=order.spec.kept)  # type: ignore


def _named(order: Order) -> Order:
    """The order with a path where its bitmap's digest stands."""
    options = order.spec.options() | {"kept": "path"}
    mark = order.fingerprint | {"options": options}
    return type("Named", (), {"fingerprint": mark})()  # type: ignore[return-value]


class TestLanes(SubsetTests):
    visits_exact = True


class TestWindow(SubsetTests):
    base = Lanes(lanes=2, window=2)


class TestRepeatedSubset(SubsetTests):
    base = Concatenation((Take(repeat=2),), base=Lanes(lanes=2))

    def planned(self, order: Order, epoch: int) -> np.ndarray:
        return 2 * super().planned(order, epoch)


@given(mask=st.lists(st.booleans(), max_size=3000), data=st.data())
def test_bitmaps_count_and_find(mask: list[bool], data: st.DataObject) -> None:
    kept = Kept.mask(np.array(mask, bool))
    ids = np.flatnonzero(mask)
    assert kept.count == ids.size
    assert np.array_equal(kept.ids(), ids)
    assert np.array_equal(kept.before(np.arange(len(mask) + 1)), np.append(0, np.cumsum(mask)))
    assert np.array_equal(kept.has(np.arange(len(mask))), np.array(mask, bool))
    assert Kept.of(np.random.default_rng(0).permutation(ids), records=len(mask)) == kept
    other = Kept.mask(np.random.default_rng(1).random(len(mask)) < 0.5)
    assert np.array_equal((~kept).ids(), np.flatnonzero(~np.array(mask, bool)))
    assert np.array_equal((kept & other).ids(), np.intersect1d(ids, other.ids()))
    assert np.array_equal((kept | other).ids(), np.union1d(ids, other.ids()))
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert hash(pickle.loads(pickle.dumps(kept))) == hash(kept)


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.5, 0.999])
def test_large_bitmaps_find(share: float) -> None:
    mask = np.random.default_rng(0).random(1_000_003) < share
    mask[300_000:600_000] = False  # a stretch of empty blocks
    kept = Kept.mask(mask)
    ids = np.flatnonzero(mask)
    assert np.array_equal(kept.ids(), ids)
    assert np.array_equal(kept.before(ids), np.arange(ids.size))
    assert Kept.where(lambda records: mask[records], records=mask.size) == kept


@given(layout=layouts(), seed=seeds, epoch=epochs, data=st.data())
def test_a_subset_is_the_order_of_a_rewritten_dataset(layout: Layout, seed: int, epoch: int, data) -> None:  # type: ignore[no-untyped-def]
    """As if only the kept records had been written, in the same shards."""
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(layout.records) < data.draw(st.floats(0.1, 1))
    mask[data.draw(st.integers(0, layout.records - 1))] = True
    kept = Kept.mask(mask)
    shards = layout.locate(kept.ids())[0]
    rewritten = Layout(np.bincount(shards, minlength=layout.shards))
    spec = data.draw(lane_specs(rewritten.records))
    order, other = Subset(kept, spec).over(layout, seed=seed), spec.over(rewritten, seed=seed)
    assert np.array_equal(order.slice(0, len(order), epoch), kept.ids()[other.slice(0, len(other), epoch)])
    found, starts = order.find_all(np.arange(layout.records), epoch)
    assert np.array_equal(np.diff(starts), mask)
    assert np.array_equal(order.at(found, epoch), kept.ids())


def test_shards_without_kept_records_are_not_fetched() -> None:
    order = Subset(range(0, 1000), Lanes(lanes=8)).over(Layout.equal(100, 100), seed=1)
    assert set(Plan(order, World(), 64).needs().shard.tolist()) == set(range(10))


def test_a_subset_of_streams_that_are_mixed() -> None:
    layout = Layout.joined([Layout.equal(8, 50), Layout.equal(8, 50)])
    kept = Kept.where(lambda ids: ids % 5 != 0, records=800)
    order = Subset(kept, Mixture((3, 1), base=Lanes(lanes=4))).over(layout, seed=2)
    records = order.slice(0, 400)
    assert (records % 5 != 0).all()
    assert np.bincount(records // 400).tolist() == [300, 100]


def test_another_subset_is_refused_at_a_resume() -> None:
    layout = Layout.equal(10, 10)
    orders = [Subset(range(n), Lanes(lanes=2)).over(layout, seed=1) for n in (80, 81)]
    cursor = Plan(orders[0], batch_size=8).batch(2).cursor
    assert Plan(orders[0], cursor=cursor).start == (0, 3)
    with pytest.raises(CursorError, match="kept"):
        Plan(orders[1], cursor=cursor)


def test_files(tmp_path: Path) -> None:
    kept = Kept.of(range(0, 100, 7), records=100)
    kept.save(tmp_path / "kept.npz")
    assert Kept.load(tmp_path / "kept.npz") == kept
    layout = Layout.equal(10, 10)
    order = Subset(tmp_path / "kept.npz").over(layout, seed=1)
    assert order == Subset(list(range(0, 100, 7))).over(layout, seed=1)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "kept.npz").read_bytes()[:100])
    np.save(tmp_path / "plain.npy", np.arange(3))
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("cut.npz", "missing.npz", "plain.npy", "empty.npz"):
        with pytest.raises(OrderError, match=name):
            Kept.load(tmp_path / name)


def test_the_options_of_a_file_make_the_order_again(tmp_path: Path) -> None:
    kept, layout = Kept.of(range(0, 100, 7), records=100), Layout.equal(10, 10)
    kept.save(tmp_path / "kept.npz")
    order = Subset(tmp_path / "kept.npz", Lanes(lanes=2)).over(layout, seed=1)
    for spec in (order.spec, Passes(20, order.spec)):
        options = json.loads(json.dumps(spec.over(layout, seed=1).spec.options()))
        again = make_spec(spec.name, **options)
        assert again == spec
        assert again.over(layout, seed=1) == spec.over(layout, seed=1)
        assert again.over(layout, seed=1).spec.options() == options
    # Where the file lies does not decide the order: a run resumes when it has moved, and not when it has changed.
    cursor = Plan(order, batch_size=4).batch(1).cursor
    (tmp_path / "kept.npz").rename(tmp_path / "moved.npz")
    moved = Subset(str(tmp_path / "moved.npz"), Lanes(lanes=2)).over(layout, seed=1)
    assert moved.fingerprint == order.fingerprint
    assert Plan(moved, cursor=cursor).start == (0, 2)
    (~kept).save(tmp_path / "kept.npz")
    with pytest.raises(OrderError, match=r"kept\.npz holds other records"):
        make_spec("subset", **order.spec.options())
    with pytest.raises(OrderError, match="a digest, which does not hold them"):
        make_spec("subset", **Subset(kept).options())


def test_bitmaps_of_equal_words_differ_by_their_records() -> None:
    words = np.array([5], np.uint64)
    few, many = Kept(words, 10), Kept(words, 11)
    assert few.ids().tolist() == many.ids().tolist()
    assert few.digest != many.digest
    assert few != many
    assert few.digest == Kept.of([0, 2], records=10).digest


LAYOUT = Layout([5, 5])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Kept.of([3, 10], records=10), "record 10 is outside"),
        (lambda: Kept.of([3, 3], records=10), "record 3 is listed 2 times"),
        (lambda: Kept.of([0.5], records=10), "float64"),
        (lambda: Kept.mask([1, 0]), "a flat list of booleans"),
        (lambda: Kept.mask([[True]]), "2 dimensions"),
        (lambda: Kept.where(lambda ids: ids, records=5), "one boolean for each"),
        (lambda: Kept.where(lambda ids: True, records=5), "one boolean for each"),
        (lambda: Kept(np.array([2**10], np.uint64), 10), "beyond its 10 records"),
        (lambda: Kept(np.zeros(2, np.uint64), 10), "is 1 words"),
        (lambda: Kept.of([1], records=10) & Kept.of([1], records=11), "cannot be combined"),
        (lambda: Subset(5), "kept is 5"),  # type: ignore[arg-type]
        (lambda: Subset(b"ab"), "kept is b'ab'"),  # type: ignore[arg-type]
        (lambda: Subset(np.ones(10, bool)), "Kept.mask"),  # type: ignore[arg-type]
        (lambda: Subset([True, False]), "Kept.mask"),
        (lambda: Subset([[1], [2, 3]]), "lists of unequal length"),  # type: ignore[list-item]
        (lambda: Kept.where(3, records=5), "the predicate is 3"),  # type: ignore[arg-type]
        (lambda: Subset([]).over(LAYOUT), "none of the 10 records is kept"),
        (lambda: Subset([10]).over(LAYOUT), "record 10 is outside"),
        (lambda: Subset("nowhere.npz").over(LAYOUT), "the bitmap nowhere.npz cannot be read: No such file"),
        (lambda: Kept.load(__file__), "holds no bitmap of records; write one with Kept.save"),
        (lambda: Kept.mask([True]).save("nowhere/kept.npz"), "the bitmap nowhere/kept.npz cannot be written"),
        (lambda: Subset(Kept.of([1], records=11)).over(LAYOUT), "11 records and the layout has 10"),
        (lambda: Subset([1, 2], Lanes(lanes=3)).over(LAYOUT), "only 2 records"),
        (lambda: Subset([1, 2], "lanse"), "no order named"),  # type: ignore[arg-type]
    ],
)
def test_bad_input(call, words: str) -> None:
    with pytest.raises(OrderError) as caught:
        call()
    assert words in str(caught.value)
