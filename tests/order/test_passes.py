"""Epochs of another length than a pass: cut from whole passes, lane by lane."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import concatenations, epochs, orders
from tombola.errors import OrderError
from tombola.order import Concatenation, Global, Lanes, Layout, Order, Passes, Sequential, Take
from tombola.order._slow_combine import slow_passes
from tombola.plan import Plan, World
from tombola.testing import OrderTests


class PassesTests(OrderTests):
    """Every record comes as often as the passes that the epoch cuts through say."""

    large: ClassVar = Layout.equal(1000, 10**9)
    scored: ClassVar = None  # most epochs here are of a few records

    def planned(self, order: Order, epoch: int) -> np.ndarray:
        base = order.spec.base.over(order.layout, seed=order.seed)  # type: ignore[attr-defined]
        return np.bincount(slow_passes(base, len(order), epoch), minlength=order.layout.records)


class TestHalfEpochs(PassesTests):
    spec = Passes(1600, Lanes(lanes=4))
    scored: ClassVar = Layout.equal(64, 50)


class TestShortEpochs(PassesTests):
    spec = Passes(11, Lanes(lanes=3))
    visits_exact = True


class TestLongEpochs(PassesTests):
    spec = Passes(100, Lanes(lanes=4, homes="fresh"))


class TestWindows(PassesTests):
    spec = Passes(40, Lanes(lanes=2, window=2))
    visits_sharp = False


class TestOfAGlobalShuffle(PassesTests):
    spec = Passes(17, Global())


class TestOfAConcatenation(PassesTests):
    spec = Passes(17, Concatenation((Take(repeat=1.5),), base=Lanes(lanes=2)))
    visits_sharp = False


class TestSequential(PassesTests):
    """Epochs differ by where they begin."""

    spec = Passes(13, Sequential())
    seeds_differ = False


@given(base=st.one_of(orders(records_max=200), concatenations(records_max=200)), epoch=epochs, data=st.data())
def test_it_equals_its_slow_twin(base: Order, epoch: int, data: st.DataObject) -> None:
    records = data.draw(st.integers(base.lanes, base.lanes + 2 * len(base)))
    order = Passes(records, base.spec).over(base.layout, seed=base.seed)
    slow = slow_passes(base, records, epoch)
    assert np.array_equal(order.slice(0, records, epoch), slow)
    assert np.array_equal(order.at(np.arange(records), epoch), slow)
    step = data.draw(st.sampled_from([d for d in range(1, 71) if order.lanes % d == 0]))
    start = data.draw(st.integers(0, records))
    assert np.array_equal(order.slice(start, records, epoch, step=step), slow[start::step])
    positions, starts = order.find_all(np.arange(order.layout.records), epoch)
    assert positions.size == records
    assert np.array_equal(slow[positions], np.repeat(np.arange(order.layout.records), np.diff(starts)))


@given(base=orders(records_max=200), data=st.data())
def test_no_record_is_missed_for_ever(base: Order, data: st.DataObject) -> None:
    """At any time the records of a lane with fixed homes differ by at most one in how often they came."""
    records = data.draw(st.integers(base.lanes, base.lanes + len(base)))
    order = Passes(records, base.spec).over(base.layout, seed=base.seed)
    count = np.zeros(base.layout.records, np.int64)
    homes = base.find_all(np.arange(count.size))[0] % base.lanes
    fixed = not isinstance(base.spec, Lanes) or base.spec.homes == "fixed"
    for epoch in range(6):
        np.add.at(count, order.slice(0, records, epoch), 1)
        if fixed:
            for lane in range(base.lanes):
                assert np.ptp(count[homes == lane]) <= 1
    whole = 6 * (records // base.lanes) // -(-len(base) // base.lanes)
    assert not fixed or count.min() >= whole


def test_an_epoch_of_a_pass_is_the_pass() -> None:
    base = Lanes(lanes=4).over(Layout.equal(10, 13), seed=3)
    order = Passes(130, base.spec).over(base.layout, seed=3)
    for epoch in (0, 3):
        assert np.array_equal(order.slice(0, 130, epoch), base.slice(0, 130, epoch))


def test_an_option_of_concatenation() -> None:
    layout = Layout([30, 20, 10], streams=[0, 0, 1])
    spec = Concatenation((Take(), Take(repeat=2.5)), epoch_records=31, base=Lanes(lanes=2))
    order = spec.over(layout, seed=4)
    same = Passes(31, dataclasses.replace(spec, epoch_records=None)).over(layout, seed=4)
    assert len(order) == 31
    assert order.fingerprint["options"]["epoch_records"] == 31
    assert np.array_equal(order.slice(0, 31, 5), same.slice(0, 31, 5))


def test_lanes_stay_with_their_shards() -> None:
    order = Passes(30_000, Lanes(lanes=16)).over(Layout.equal(1000, 100), seed=2)
    plans = [Plan(order, World(rank=rank, ranks=4, nodes=4), 64) for rank in range(4)]
    held = [set() for _ in plans]
    for epoch in range(8):
        for plan, shards in zip(plans, held, strict=True):
            shards |= set(plan.needs(epoch, scope="node").shard.tolist())
    assert sum(map(len, held)) <= 1000 + 15


def test_far_epochs() -> None:
    order = Passes(10**6, Lanes(lanes=5)).over(Layout.equal(100, 10**6 + 1), seed=1)
    far = 2**61 // 10**6
    records = order.slice(10, 40, far)
    assert [int(order.at(t, far)) for t in range(10, 40)] == records.tolist()
    with pytest.raises(OrderError, match="over 2\\^62"):
        order.at(0, 2**50)


def test_epochs_of_more_passes_than_can_be_listed() -> None:
    """Listing them would fill the memory; what a position reads is known all the same."""
    order = Passes(2**61, Lanes(lanes=4)).over(Layout([200]), seed=1)
    assert order.at(2**61 - 1) == order.slice(2**61 - 1, 2**61)[0]
    for call in (lambda: order.find(3), order.visits):
        with pytest.raises(OrderError, match="some 11529215046068470 passes"):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Passes(0), "epoch_records is 0"),
        (lambda: Passes(1.5), "epoch_records is 1.5"),  # type: ignore[arg-type]
        (lambda: Passes(5, 7), "base is 7"),  # type: ignore[arg-type]
        (lambda: Passes(5, Lanes(lanes=6)).over(Layout([10])), "there are 6 lanes and each needs a record"),
        (lambda: Passes(5).over(Layout([])), "no records"),
    ],
)
def test_bad_input(call, words: str) -> None:
    with pytest.raises(OrderError) as caught:
        call()
    assert words in str(caught.value)
