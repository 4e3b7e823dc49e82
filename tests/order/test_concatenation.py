"""Concatenation: its slow twin, how much of each stream comes, which records, and where."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import concatenations, epochs, layouts_of_streams, seeds
from tombola import _core
from tombola.errors import LayoutError, OrderError
from tombola.order import Concatenation, Global, Lanes, Layout, Order, Sequential, Take, derive_key, make_spec
from tombola.order._slow_combine import slow_concatenation, slow_fractions
from tombola.plan import Plan, World
from tombola.testing import OrderTests

THREE = tuple(
    Layout(layout.sizes, streams=np.arange(layout.shards) % 3)
    for layout in OrderTests.layouts
    if np.count_nonzero(layout.sizes) > 4
)
SCORED = Layout.joined([Layout.equal(20, 50), Layout.equal(30, 50), Layout.equal(14, 50)])
STREAMS = (*THREE, Layout.joined([Layout.equal(8, 16), Layout([5, 0, 9]), Layout([40])]))


def planned(order: Order, epoch: int) -> np.ndarray:
    return np.bincount(slow_concatenation(order, epoch), minlength=order.layout.records)


class ConcatenationTests(OrderTests):
    layouts = STREAMS
    large = Layout(np.full(999, 10**9), streams=np.arange(999) % 3)
    scored: ClassVar = SCORED

    def planned(self, order: Order, epoch: int) -> np.ndarray:
        counts = planned(order, epoch)
        streams = order.layout.streams
        assert streams is not None
        of_stream = np.repeat(streams, order.layout.sizes)
        for stream, count in enumerate(order.spec.counts(order.layout)):  # type: ignore[attr-defined]
            there = counts[of_stream == stream]
            assert there.sum() == count
            assert there.max(initial=0) - there.min(initial=there.max(initial=0)) <= 1
        return counts


class TestOnceIsTheBase(OrderTests):
    spec = Concatenation(base=Lanes(lanes=3))
    visits_exact = True

    def test_it_is(self) -> None:
        layout = Layout([5, 0, 9, 3])
        base = Lanes(lanes=3).over(layout, seed=5)
        assert np.array_equal(Concatenation(base=base.spec).over(layout, seed=5).slice(0, 17, 2), base.slice(0, 17, 2))


class TestRepeats(ConcatenationTests):
    spec = Concatenation(takes=(Take(repeat=2), Take(repeat=1.5), Take(repeat=0.3)), base=Lanes(lanes=3))


class TestChoose(ConcatenationTests):
    spec = Concatenation((Take(choose=7), Take(choose=30), Take()), granularity=4, base=Lanes(lanes=2, window=2))
    layouts = tuple(layout for layout in STREAMS if layout.records > 60)
    scored = Layout.joined([Layout([30]), Layout.equal(20, 50), Layout.equal(40, 50)])


class TestProportionsOverAGlobalShuffle(ConcatenationTests):
    spec = Concatenation((Take(proportion=1), Take(proportion=0.5), Take(proportion=2)), base=Global())


class TestFixedSampling(ConcatenationTests):
    spec = Concatenation((Take(), Take(repeat=0.5), Take(repeat=2.5)), sampling="fixed", base=Lanes(lanes=3))


class TestSequentialRepeats(ConcatenationTests):
    spec = Concatenation((Take(repeat=2), Take(), Take(repeat=0.5)), sampling="fixed", base=Sequential())
    epochs_differ = False
    scored = None  # no shuffle


@given(order=concatenations(), epoch=epochs)
def test_it_equals_its_slow_twin(order: Order, epoch: int) -> None:
    records = order.slice(0, len(order), epoch)
    assert np.array_equal(records, slow_concatenation(order, epoch))
    assert np.array_equal(order.at(np.arange(len(order)), epoch), records)
    positions, starts = order.find_all(np.arange(order.layout.records), epoch)
    assert np.array_equal(np.diff(starts), np.bincount(records, minlength=order.layout.records))
    assert np.array_equal(records[positions], np.repeat(np.arange(order.layout.records), np.diff(starts)))


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    share=st.floats(0, 1),
    granularity=st.one_of(st.integers(1, 60), st.just(2**62)),
    seed=seeds,
)
def test_fractions_equal_their_slow_twin(sizes: list[int], share: float, granularity: int, seed: int) -> None:
    total, key = int(share * (sum(sizes) - 1)), derive_key(seed, "x")
    out = np.empty(len(sizes), np.int64)
    _core.deal_fractions(np.array(sizes, np.int64), total, granularity, key, out)
    assert out.tolist() == slow_fractions(sizes, total, granularity, key)
    assert out.sum() == total
    assert ((out >= 0) & (out <= sizes)).all()
    if granularity == 1:
        assert (np.abs(out - total * np.array(sizes) / sum(sizes)) < 1 + 1e-6).all()


def test_fractions_favour_no_shard() -> None:
    """Over many keys each shard gives its share, also where the granularity is above most of them."""
    sizes = np.array([3, 10, 40, 7, 20, 20] * 12)
    for granularity in (1, 8, 40):
        out, sums = np.empty(sizes.size, np.int64), np.zeros(sizes.size)
        for seed in range(1000):
            _core.deal_fractions(sizes, 360, granularity, derive_key(seed, "x"), out)
            sums += out
        means = sums.reshape(12, 6).mean(axis=0) / 1000
        # 12,000 draws of a share of 0.3: the standard error is below 1.5 %.
        assert np.allclose(means, sizes[:6] * 0.3, rtol=0.06), granularity


def test_a_granularity_of_a_shard_takes_whole_shards() -> None:
    layout = Layout.equal(100, 50)
    order = Concatenation((Take(repeat=0.25),), granularity=50).over(layout, seed=1)
    shards, _ = layout.locate(order.slice(0, len(order), 3))
    assert np.unique(shards).size == 25
    assert np.unique(layout.locate(order.slice(0, len(order), 4))[0]).size == 25
    assert Plan(order, World(ranks=4, nodes=4), 64).locality(3).first <= (100 + 63) / 100


def test_balanced_fractions_reach_every_record_and_fixed_ones_do_not() -> None:
    layout = Layout.equal(20, 50)
    seen = {}
    for sampling in ("balanced", "fixed"):
        order = Concatenation((Take(repeat=0.3),), sampling=sampling).over(layout, seed=2)  # type: ignore[arg-type]
        seen[sampling] = np.unique(np.concatenate([order.slice(0, len(order), epoch) for epoch in range(30)])).size
    assert seen == {"balanced": 1000, "fixed": 300}


def test_homes_stay_put_when_fractions_change() -> None:
    layout = Layout.joined([Layout.equal(300, 100), Layout.equal(50, 100)])
    order = Concatenation((Take(), Take(repeat=1.5)), base=Lanes(lanes=16)).over(layout, seed=2)
    assert Plan(order, World(ranks=4, nodes=4), 64).locality().later < 0.05


def test_repeats_are_scattered() -> None:
    layout = Layout.joined([Layout.equal(100, 10), Layout.equal(1, 10)])
    order = Concatenation((Take(), Take(repeat=20)), base=Lanes(lanes=10)).over(layout, seed=2)
    assert np.unique(order.find(1005) % 10).size > 6


def test_counts() -> None:
    layout = Layout.joined([Layout([70]), Layout([30]), Layout([10])])
    counts = lambda *takes: Concatenation(takes).counts(layout)  # noqa: E731
    assert counts() == [70, 30, 10]
    assert counts(Take(repeat=0.7), Take(repeat=1 / 3), Take(choose=25)) == [49, 10, 25]
    assert counts(*[Take(proportion=p) for p in (1, 1, 1)]) == [37, 37, 36]
    assert counts(*[Take(proportion=p) for p in (0.1, 0.2, 0)]) == [37, 73, 0]
    assert counts(Take(), Take(repeat=0), Take()) == [70, 0, 10]


@given(layout=layouts_of_streams(), seed=seeds)
def test_options_survive_json(layout: Layout, seed: int) -> None:
    spec = Concatenation((Take(repeat=1.5),) * (1 + int(max(layout.streams))), base=Lanes(window=2))  # type: ignore
    assert make_spec("concatenation", **spec.options()) == spec


def test_joined_layouts() -> None:
    joined = Layout.joined([Layout([1, 2]), Layout([3], streams=[1]), Layout([]), Layout([4])])
    assert joined.streams is not None
    assert joined.streams.tolist() == [0, 0, 2, 4]
    with pytest.raises(LayoutError, match="a part is a list"):
        Layout.joined([[1, 2]])  # type: ignore[list-item]


LAYOUT = Layout([5, 5, 0], streams=[0, 1, 2])
ONE = Layout([10])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Take(repeat=2, choose=3), "repeat and choose each decide"),
        (lambda: Take(repeat=-1), "repeat is -1"),
        (lambda: Take(repeat=float("nan")), "repeat is nan"),
        (lambda: Take(proportion="a"), "proportion is 'a'"),  # type: ignore[arg-type]
        (lambda: Take(choose=1.5), "choose is 1.5"),  # type: ignore[arg-type]
        (lambda: Concatenation((Take(proportion=1), Take())), "all of them one, or none"),
        (lambda: Concatenation((Take(proportion=0),)), "all zero"),
        (lambda: Concatenation((3,)), "3 does not say how much"),  # type: ignore[arg-type]
        (lambda: Concatenation({"repeat": 2}), "give a list"),  # type: ignore[arg-type]
        (lambda: Concatenation(granularity=0), "granularity is 0"),
        (lambda: Concatenation(sampling="some"), "sampling is 'some'"),  # type: ignore[arg-type]
        (lambda: Concatenation(base="lanse"), "no order named 'lanse'"),  # type: ignore[arg-type]
        (lambda: Concatenation(base=7), "base is 7"),  # type: ignore[arg-type]
        (lambda: Concatenation((Take(),)).over(LAYOUT), "1 entries for 3 streams"),
        (lambda: Concatenation((Take(), Take(), Take(repeat=2))).over(LAYOUT), "stream 2 holds no records"),
        (lambda: Concatenation((Take(choose=0),)).over(ONE), "would have 0 records"),
        (lambda: Concatenation((Take(repeat=2**60),)).over(ONE), "it must have 1 to 2^62"),
        (lambda: Concatenation((Take(repeat=2**40),)).over(ONE), "more than 2^32 repeats"),
    ],
)
def test_bad_input(call, words: str) -> None:
    with pytest.raises(OrderError) as caught:
        call()
    assert words in str(caught.value)
