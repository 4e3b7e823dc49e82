"""Batches of shares and batches of one stream: what they hold, in every world, and what that costs in shards."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.order.test_concatenation import SCORED, STREAMS
from tests.strategies import batchings, whole_batch
from tombola.errors import CursorError, OrderError, PlanError
from tombola.order import (
    Concatenation,
    DevicePerStream,
    Global,
    Lanes,
    Layout,
    Mixture,
    Order,
    PerStream,
    Stratified,
    Subset,
    Take,
    make_spec,
)
from tombola.order._batching import stride_of
from tombola.order._slow_combine import slow_batching
from tombola.plan import Plan, World
from tombola.testing import OrderTests


class BatchingTests(OrderTests):
    layouts = STREAMS
    large: ClassVar = Layout(np.full(999, 10**9), streams=np.arange(999) % 3)
    scored: ClassVar = SCORED

    def planned(self, order: Order, epoch: int) -> np.ndarray:
        return np.bincount(slow_batching(order, epoch), minlength=order.layout.records)


class TestStratified(BatchingTests):
    spec = Stratified(6, Mixture((3, 2, 1), base=Lanes(lanes=3)))
    visits_sharp = False  # a shorter epoch may leave out what a fraction of a lane would have read


class TestStratifiedConcatenation(BatchingTests):
    spec = Stratified(4, Concatenation((Take(), Take(repeat=2), Take(repeat=1.5)), base=Lanes(lanes=2)))
    visits_sharp = False
    large = None  # the shares of 10^12 records do not come out even in few batches: see below


class TestPerStream(BatchingTests):
    spec = PerStream(6, Mixture((3, 2, 1), schedule=((60, (1, 1, 1)),), base=Lanes(lanes=3)))
    visits_exact = True


class TestPerStreamOfGlobalShuffles(BatchingTests):
    spec = PerStream(5, Concatenation(base=Global()))


class TestDevicePerStream(BatchingTests):
    spec = DevicePerStream(3, Mixture((3, 2, 1), schedule=((60, (1, 1, 1)),), base=Lanes(lanes=2)))


@settings(max_examples=80)
@given(order=batchings(), epoch=st.integers(0, 2))
def test_it_equals_its_slow_twin(order: Order, epoch: int) -> None:
    slow = slow_batching(order, epoch)
    assert np.array_equal(order.slice(0, len(order), epoch), slow)
    assert np.array_equal(order.at(np.arange(len(order)), epoch), slow)
    for step in (1, 2, order.lanes):
        assert np.array_equal(order.slice(len(order) // 3, len(order), epoch, step=step), slow[len(order) // 3 :: step])
    positions, starts = order.find_all(np.arange(order.layout.records), epoch)
    assert positions.size == len(order)
    assert np.array_equal(slow[positions], np.repeat(np.arange(order.layout.records), np.diff(starts)))
    visits = order.visits(epoch)
    covered = np.zeros(len(order), bool)
    for i in range(len(visits)):
        mine = np.arange(visits.first[i], visits.last[i] + 1)
        mine = mine[order.lane_of(mine) == visits.lane[i]]
        covered[mine[(slow[mine] >= visits.record_start[i]) & (slow[mine] < visits.record_stop[i])]] = True
    assert covered.all()


# ---- what batches hold


def layout_of(*shards: int, records: int = 60) -> Layout:
    return Layout.joined([Layout.equal(count, records) for count in shards])


def streams_read(order: Order, epochs: int, group: int) -> np.ndarray:
    """The stream of each position of the run, in groups of so many."""
    assert order.layout.streams is not None
    records = np.concatenate([order.slice(0, len(order), epoch) for epoch in range(epochs)])
    return order.layout.streams[order.layout.locate(records)[0]].reshape(-1, group)


@settings(max_examples=40)
@given(
    weights=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    size=st.sampled_from([4, 12, 64]),
    seed=st.integers(0, 9),
)
def test_every_stratified_batch_holds_its_shares(weights: list[int], size: int, seed: int) -> None:
    layout = layout_of(*[3] * len(weights))
    order = Stratified(size, Mixture(tuple(weights), base=Lanes(lanes=4))).over(layout, seed=seed)
    batches = streams_read(order, 3, size)
    counts = np.stack([(batches == stream).sum(axis=1) for stream in range(len(weights))], axis=1)
    share = size * np.array(weights) / sum(weights)
    assert (np.abs(counts - share) < 2).all()
    turns = np.arange(1, len(counts) + 1)[:, None]
    assert (np.abs(np.cumsum(counts, axis=0) - turns * share) < 1).all()  # the remainder is carried on
    if (share % 1 == 0).all():
        assert (counts == share).all()


@settings(max_examples=40)
@given(weights=st.lists(st.integers(1, 20), min_size=1, max_size=6), seed=st.integers(0, 9))
def test_every_batch_per_stream_is_of_one_stream(weights: list[int], seed: int) -> None:
    layout = layout_of(*[3] * len(weights))
    order = PerStream(12, Mixture(tuple(weights), epoch_records=1200, base=Lanes(lanes=4))).over(layout, seed=seed)
    batches = streams_read(order, 3, 12)
    assert (batches == batches[:, :1]).all()
    counts = np.cumsum(batches[:, :1] == np.arange(len(weights)), axis=0)
    share = np.arange(1, len(batches) + 1)[:, None] * np.array(weights) / sum(weights)
    assert (np.abs(counts - share) < 2).all()


def test_every_run_per_device_is_of_one_stream() -> None:
    layout = layout_of(40, 30, 20, 10)
    order = DevicePerStream(8, Mixture((4, 3, 2, 1), base=Lanes(lanes=16))).over(layout, seed=4)
    runs = streams_read(order, 2, 8)
    assert (runs == runs[:, :1]).all()
    for ranks in (1, 2, 4, 8, 16):
        batch_size = 8 * ranks
        streams = set()
        for rank in range(ranks):
            plan = Plan(order, World(rank=rank, ranks=ranks), batch_size)
            for step in range(min(12, plan.steps())):
                mine = np.unique(layout.locate(plan.batch(step).records)[0])
                assert np.unique(layout.streams[mine]).size == 1  # type: ignore[index]
                streams |= set(layout.streams[mine].tolist())  # type: ignore[index]
        assert len(streams) > 1
    batches = streams_read(order, 1, 128)
    assert np.mean([np.unique(batch).size for batch in batches]) > 3


def test_a_curriculum_in_stratified_batches() -> None:
    layout = layout_of(20, 20)
    spec = Stratified(16, Mixture((3, 1), schedule=((160, (1, 1)), (320, (0, 1))), base=Lanes(lanes=8)))
    batches = streams_read(spec.over(layout, seed=4), 1, 16)
    assert batches.sum(axis=1).tolist()[:30] == [4] * 10 + [8] * 10 + [16] * 10


def test_shares_that_come_out_even_in_no_few_batches() -> None:
    layout = Layout.joined([Layout([10**6 + 3]), Layout([333_331]), Layout([77_777])])
    order = Stratified(128, Lanes(lanes=16)).over(layout, seed=4)
    streams = layout.streams[layout.locate(order.slice(0, 128 * 4000))[0]].reshape(-1, 128)  # type: ignore[index]
    counts = np.stack([(streams == stream).sum(axis=1) for stream in range(3)], axis=1)
    share = 128 * layout.sizes / layout.records
    assert (np.abs(counts - share) < 2).all()
    assert (np.abs(counts.sum(axis=0) - 4000 * share) < 8).all()


def test_every_lane_reads_every_stream_in_turn() -> None:
    """Also a stream that has less than one record a lane in a period of the pattern."""
    order = Stratified(32, Mixture((300, 15, 5), epoch_records=32 * 3000, base=Lanes(lanes=16))).over(
        layout_of(9, 3, 3), seed=2
    )
    read = streams_read(order, 1, 32)
    for lane in range(16):
        mine = np.bincount(read[:, lane::16].reshape(-1), minlength=3) / (2 * 3000)
        assert (np.abs(mine - np.array([300, 15, 5]) / 320) < 0.02).all()


@pytest.mark.parametrize("weights", [(1, 1), (1, 1, 1), (2, 1), (5, 3), (4, 3, 2, 1)])
@pytest.mark.parametrize("kind", ["stratified", "per_stream", "device_per_stream"])
def test_every_rank_reads_every_stream_for_any_number_of_ranks(kind: str, weights: tuple[int, ...]) -> None:
    layout, share = layout_of(*[4] * len(weights)), np.array(weights) / sum(weights)
    for ranks in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        run, size = (4 if kind == "device_per_stream" else 1), 96
        mixture = Mixture(weights, epoch_records=size * run * 600, base=Lanes(lanes=16))
        spec = {"stratified": Stratified, "per_stream": PerStream, "device_per_stream": DevicePerStream}[kind]
        order = spec(run if run > 1 else size, mixture).over(layout, seed=3)
        read = streams_read(order, 1, 1).reshape(-1)
        rank = np.arange(read.size) // run % ranks
        for each in range(ranks):
            mine = np.bincount(read[rank == each], minlength=share.size) / np.count_nonzero(rank == each)
            assert (np.abs(mine - share) < 0.05).all(), (ranks, each)


def test_a_rare_stream_of_a_stratified_batch_comes_to_every_rank() -> None:
    """Even when each rank reads one row of a batch: rows are dealt anew from batch to batch."""
    layout = layout_of(30, 2, records=100)
    order = Stratified(64, Mixture((63, 1), epoch_records=64 * 3000, base=Lanes(lanes=16))).over(layout, seed=2)
    read = streams_read(order, 1, 64)
    assert (read.sum(axis=1) == 1).all()
    rare = read.mean(axis=0) * 64  # how often, of what it should be, each rank of 64 reads it
    assert 0.4 < rare.min() <= rare.max() < 1.8


@pytest.mark.parametrize("records", [10**5, 10**6])
def test_what_a_stratified_epoch_lacks_does_not_grow(records: int) -> None:
    """Lanes are some records ahead or behind at an epoch's end; the data and the epochs read do not matter."""
    layout = layout_of(100, 100, records=records // 200)
    order = Stratified(64, Concatenation(base=Lanes(lanes=64))).over(layout, seed=7)
    times = np.zeros(layout.records, np.int64)
    for epoch in range(12):
        read = np.bincount(order.slice(0, len(order), epoch), minlength=layout.records)
        assert np.count_nonzero(read == 0) < 3000
        times += read
        assert times.max() <= epoch + 2
    assert times.min() >= 11


@pytest.mark.parametrize("kind", [PerStream, DevicePerStream])
def test_epochs_of_whole_batches_per_stream_are_passes(kind: type[PerStream | DevicePerStream]) -> None:
    layout = layout_of(64, 64, records=64)
    order = kind(64, Concatenation(base=Lanes(lanes=16))).over(layout, seed=7)
    for epoch in range(3):
        assert sorted(order.slice(0, len(order), epoch).tolist()) == list(range(layout.records))


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 5, 12, 16, 60, 64, 1024])
def test_strides_meet_all_lanes(lanes: int) -> None:
    assert len({step * stride_of(lanes) % lanes for step in range(lanes)}) == lanes


# ---- elastic, and local


@settings(max_examples=60)
@given(order=batchings(readers=12), data=st.data())
def test_batches_are_the_same_in_every_world(order: Order, data: st.DataObject) -> None:
    """The set of each global batch, the order in it, and the tail, for every world that divides; resumed too."""
    size = order.batch_size or 12 * order.run * data.draw(st.integers(1, 3))
    tail = data.draw(st.sampled_from(["drop", "pad", "short"]))
    if tail == "drop" and size > len(order):
        return
    one = Plan(order, World(), size, tail=tail)
    cut = data.draw(st.integers(0, one.steps() - 1))
    cursor = one.cursor(cut)
    for ranks in (1, 2, 3, 4, 6, 12):
        plans = [Plan(order, World(rank=r, ranks=ranks), size, tail=tail) for r in range(ranks)]
        again = [Plan(order, World(rank=r, ranks=ranks), size, tail=tail, cursor=cursor) for r in range(ranks)]
        assert {plan.steps() for plan in plans} == {one.steps()}
        for step in range(one.steps()):
            wanted = one.global_batch(step)
            rows = [plan.batch(step) for plan in plans]
            positions = np.concatenate([row.positions[row.mask] for row in rows])
            records = np.concatenate([row.records[row.mask] for row in rows])
            assert np.array_equal(records[np.argsort(positions)], wanted.records[wanted.mask])
            assert np.array_equal(np.sort(positions), wanted.positions[wanted.mask])
            if step >= cut:
                assert np.array_equal(again[-1].batch(step).records, rows[-1].records)


@pytest.mark.parametrize(
    "spec",
    [
        Stratified(64, Lanes(lanes=16)),
        PerStream(64, Lanes(lanes=16)),
        DevicePerStream(16, Lanes(lanes=16)),
        Mixture((40, 30, 20, 10), base=Lanes(lanes=16)),
        Concatenation(base=Lanes(lanes=16)),
    ],
    ids=lambda spec: spec.name,
)
def test_shards_fetched_over_four_nodes(spec) -> None:  # type: ignore[no-untyped-def]
    """At 16 lanes and 500 shards of four streams."""
    order = spec.over(layout_of(200, 150, 100, 50), seed=3)
    for ranks in (4, 8, 16):
        locality = Plan(order, World(ranks=ranks, nodes=4), 256).locality() if not order.batch_size else None
        locality = locality or Plan(order, World(ranks=ranks, nodes=4), 64).locality()
        assert locality.first <= 1.15
        assert locality.later < 0.05


@settings(max_examples=50)
@given(order=batchings(readers=4), nodes=st.sampled_from([1, 2, 4]), data=st.data())
def test_needs_bound_every_use(order: Order, nodes: int, data: st.DataObject) -> None:
    ranks = data.draw(st.sampled_from([n for n in (1, 2, 4) if n % nodes == 0]))
    size = order.batch_size or order.run * whole_batch(data.draw, ranks, size_max=24)
    for rank in range(ranks):
        plan = Plan(order, World(rank=rank, ranks=ranks, nodes=nodes), size, tail="short")
        used: dict[int, list[int]] = {}
        for step in range(plan.steps()):
            rows = plan.batch(step)
            assert np.array_equal(rows.lanes, order.lane_of(rows.positions))
            shards, _ = order.layout.locate(rows.records)
            for shard, position in zip(shards.tolist(), rows.positions.tolist(), strict=True):
                used.setdefault(shard, []).append(position)
        needs = plan.needs(0)
        found = dict(zip(needs.shard.tolist(), range(len(needs)), strict=True))
        assert set(used) <= set(found)
        for shard, positions in used.items():
            assert needs.first[found[shard]] <= min(positions)
            assert needs.last[found[shard]] >= max(positions)


def test_another_batch_size_is_refused() -> None:
    order = Stratified(64, Lanes(lanes=16)).over(layout_of(20, 10), seed=3)
    cursor = Plan(order, batch_size=64).batch(3).cursor
    with pytest.raises(PlanError, match="made for batches of 64, not of 32"):
        Plan(order, batch_size=32, cursor=cursor)
    other = Stratified(32, Lanes(lanes=16)).over(layout_of(20, 10), seed=3)
    with pytest.raises(CursorError, match="batch_size"):
        Plan(other, batch_size=32, cursor=cursor)
    runs = DevicePerStream(8, Lanes(lanes=16)).over(layout_of(20, 10), seed=3)
    with pytest.raises(PlanError, match="in runs of 8"):
        Plan(runs, World(ranks=4), 40)


def test_lanes_that_are_not_given_divide_the_batch() -> None:
    assert Stratified(96).over(layout_of(20, 10)).lanes == 48
    assert PerStream(100).over(layout_of(20, 10)).lanes == 50
    assert PerStream(64).over(layout_of(20, 10)).lanes == 64
    assert DevicePerStream(7).over(layout_of(20, 10)).lanes == 64


def test_options_survive_json() -> None:
    for spec in (
        Stratified(64, Mixture((1, 2), schedule=((64, (2, 1)),))),
        PerStream(64, Concatenation((Take(), Take(repeat=2)))),
        DevicePerStream(4, Lanes(window=2)),
    ):
        assert make_spec(spec.name, **spec.options()) == spec
        order = spec.over(layout_of(20, 10), seed=1)
        assert make_spec(spec.name, **order.spec.options()).over(layout_of(20, 10), seed=1) == order
        assert len(order) % math.lcm(order.batch_size or 1, order.run) == 0
        assert dataclasses.is_dataclass(order.spec)


TWO = layout_of(2, 3, records=10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Stratified(0), "batch_size is 0"),
        (lambda: PerStream(2.5), "batch_size is 2.5"),  # type: ignore[arg-type]
        (lambda: DevicePerStream(0), "run is 0"),
        (lambda: Stratified(8, 5), "combination is 5"),  # type: ignore[arg-type]
        (lambda: Stratified(8, Subset([1])), "combination is the order 'subset'"),
        (lambda: Stratified(8, Lanes(lanes=3)).over(TWO), "which 3 lanes do not divide"),
        (lambda: PerStream(8, Lanes(lanes=3)).over(TWO), "use for example lanes=2"),
        (lambda: PerStream(8, Mixture((1, 1), epoch_records=20, base=Lanes(lanes=4))).over(TWO), "a multiple of 8"),
        (lambda: PerStream(8, Mixture((1, 1), schedule=((12, (1, 2)),))).over(TWO), "in the middle of a batch of 8"),
        (lambda: Stratified(8, Mixture((1, 1), schedule=((12, (1, 2)),))).over(TWO), "in the middle of a batch of 8"),
        (lambda: DevicePerStream(8, Mixture((1, 1), schedule=((12, (1, 2)),))).over(TWO), "middle of a run of 8"),
        (lambda: DevicePerStream(5, Mixture((1, 1), epoch_records=5)).over(TWO), "at least 60"),
        (lambda: Stratified(8, Mixture((1, 0, 1))).over(TWO), "3 weights for 2 streams"),
        (lambda: Stratified(8, Concatenation((Take(),))).over(TWO), "1 entries for 2 streams"),
        (lambda: PerStream(8).over(Layout([0, 0])), "no records"),
        (
            lambda: PerStream(8).over(Layout([10**9, 10], streams=[0, 1])),
            "weight 1 of the records taken of each stream is 1e-08 of their sum",
        ),
    ],
)
def test_bad_input(call, words: str) -> None:
    with pytest.raises(OrderError) as caught:
        call()
    assert words in str(caught.value)
