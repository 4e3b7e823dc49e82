"""The laws of an order, over generated layouts, options, seeds and epochs; the slow twin of the lanes."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.order._checks import assert_visits_cover
from tests.strategies import epochs, lane_specs, layouts, orders, seeds
from tombola.errors import LayoutError, OrderError
from tombola.order import Global, Lanes, Layout, Order, OrderSpec, Sequential, make_spec, register
from tombola.order._slow import slow_lanes


@given(order=orders(), epoch=epochs)
def test_every_record_exactly_once_and_back(order: Order, epoch: int) -> None:
    records = order.slice(0, len(order), epoch)
    assert np.array_equal(np.sort(records), np.arange(len(order)))
    positions, starts = order.find_all(records, epoch)
    assert np.array_equal(positions, np.arange(len(order)))
    assert np.array_equal(starts, np.arange(len(order) + 1))


@given(order=orders(), epoch=epochs, data=st.data())
def test_at_slice_and_steps_agree(order: Order, epoch: int, data: st.DataObject) -> None:
    whole = order.at(np.arange(len(order)), epoch)
    start = data.draw(st.integers(0, len(order)))
    stop = data.draw(st.integers(start, len(order)))
    step = data.draw(st.one_of(st.integers(1, 9), st.sampled_from([d for d in range(1, 71) if order.lanes % d == 0])))
    assert np.array_equal(order.slice(start, stop, epoch, step=step), whole[start:stop:step])
    t = data.draw(st.integers(0, len(order) - 1))
    assert order.at(t, epoch) == whole[t]
    assert order.find(int(whole[t]), epoch).tolist() == [t]


@given(data=st.data(), layout=layouts(), seed=seeds, epoch=epochs)
def test_lanes_equal_their_slow_twin(data: st.DataObject, layout: Layout, seed: int, epoch: int) -> None:
    order = data.draw(lane_specs(layout.records)).over(layout, seed=seed)
    assert np.array_equal(order.slice(0, len(order), epoch), slow_lanes(order, epoch))


@given(data=st.data(), sizes=st.lists(st.integers(0, 6), min_size=1, max_size=40).filter(any), seed=seeds, epoch=epochs)
def test_shards_that_are_empty_for_once_keep_their_place(data, sizes: list[int], seed: int, epoch: int) -> None:
    """Where sizes change between epochs, an empty shard has its place on the line, a part, and no visit."""
    layout = Layout._of_units(np.array(sizes))
    order = data.draw(lane_specs(layout.records)).over(layout, seed=seed)
    records = order.slice(0, len(order), epoch)
    assert np.array_equal(records, slow_lanes(order, epoch))
    assert np.array_equal(order.find_all(records, epoch)[0], np.arange(len(order)))
    visits = order.visits(epoch)
    assert (visits.record_start < visits.record_stop).all()
    assert_visits_cover(order, visits, records)


@given(order=orders(records_max=800), epoch=epochs)
def test_visits_tell_when_each_part_is_needed(order: Order, epoch: int) -> None:
    """Every use of a record lies in a visit of its lane; without a window or a global shuffle the bounds are exact."""
    visits, slow = order.visits(epoch), Order.visits(order, epoch)
    records = order.slice(0, len(order), epoch)
    covered = np.zeros(len(order), bool)
    for lane, shard, start, stop, first, last in zip(
        visits.lane, visits.shard, visits.record_start, visits.record_stop, visits.first, visits.last, strict=True
    ):
        assert first % order.lanes == last % order.lanes == lane
        assert order.layout.starts[shard] <= start < stop <= order.layout.starts[shard + 1]
        mine = np.arange(first, last + 1, order.lanes)
        covered[mine[(records[mine] >= start) & (records[mine] < stop)]] = True
    assert covered.all()
    assert np.array_equal(np.lexsort((visits.first, visits.lane)), np.arange(len(visits)))
    spec = order.spec
    if isinstance(spec, Sequential) or (isinstance(spec, Lanes) and not (spec.window or spec.window_records)):
        assert {*zip(slow.lane, slow.shard, strict=True)} == {*zip(visits.lane, visits.shard, strict=True)}
        for lane, shard, first, last in zip(slow.lane, slow.shard, slow.first, slow.last, strict=True):
            own = (visits.lane == lane) & (visits.shard == shard)
            assert visits.first[own].min() == first
            assert visits.last[own].max() == last


@given(layout=layouts(records_max=2000), seed=seeds, data=st.data())
def test_open_shards_and_reach_of_a_window_are_bounded(layout: Layout, seed: int, data: st.DataObject) -> None:
    """At most one shard a lane without a window, 2k with a window of k shards, at every place of the epoch."""
    window = data.draw(st.one_of(st.none(), st.integers(1, 5)))
    lanes = data.draw(st.integers(1, min(20, layout.records)))
    order = Lanes(lanes=lanes, window=window).over(layout, seed=seed)
    visits = order.visits(1)
    for lane in range(lanes):
        mine = visits.lane == lane
        opened = np.bincount(visits.first[mine] // lanes, minlength=len(order) // lanes + 2)
        closed = np.bincount(visits.last[mine] // lanes + 1, minlength=opened.size)
        assert np.cumsum(opened - closed).max() <= (2 * window if window else 1)


@given(order=orders(records_max=300), seed=seeds)
def test_orders_are_values(order: Order, seed: int) -> None:
    again = pickle.loads(pickle.dumps(order))
    assert again == order
    assert hash(again) == hash(order)
    assert np.array_equal(again.slice(0, len(order), 3), order.slice(0, len(order), 3))
    assert again.fingerprint == order.fingerprint
    other = order.spec.over(order.layout, seed=order.seed + 1)
    assert other != order
    assert make_spec(order.spec.name, **order.spec.options()) == order.spec


def test_epochs_seeds_and_their_sums_are_unrelated() -> None:
    """Law 5: epoch 1 of seed 7 is not epoch 0 of seed 8, and neighbours agree in about one position."""
    layout = Layout.equal(100, 100)
    for spec in (Global(), Lanes(lanes=16), Lanes(lanes=16, window=2)):
        taken = [spec.over(layout, seed=s).slice(0, 10_000, e) for s in (7, 8) for e in (0, 1, 2)]
        for i, one in enumerate(taken):
            for two in taken[i + 1 :]:
                # Fixed homes keep records in their lane, so up to lanes × as many agree by chance.
                assert np.count_nonzero(one == two) < 60


def test_fixed_homes_keep_lanes_and_fresh_homes_do_not() -> None:
    layout = Layout.equal(64, 50)
    for homes, same in (("fixed", True), ("fresh", False)):
        order = Lanes(lanes=8, homes=homes).over(layout, seed=1)  # type: ignore[arg-type]
        lanes = [order.find_all(np.arange(layout.records), epoch)[0] % 8 for epoch in (0, 1)]
        assert np.array_equal(*lanes) is same


@pytest.mark.parametrize("shards", [64, 65, 100, 1000, 1023, 1024, 1025, 1056, 1087])
def test_lanes_do_not_change_shards_together(shards: int) -> None:
    """Equal shards of 1,000 over 64 lanes: few lanes change shard within 16 places; without phases nearly all do."""

    def most(phase: str) -> int:
        visits = Lanes(lanes=64, phase=phase).over(Layout.equal(shards, 1000), seed=3).visits()  # type: ignore[arg-type]
        places = visits.first // 64
        return int(np.convolve(np.bincount(places[places > 0], minlength=16), np.ones(16, int)).max())

    assert most("spread") <= (2 if shards % 64 == 0 else 8)
    if shards > 100:
        assert most("none") >= 32


def test_lane_counts_from_radius_and_memory() -> None:
    layout = Layout.equal(1000, 500)
    lanes = lambda **options: Lanes(**options).over(layout).lanes  # noqa: E731
    assert lanes() == 64
    assert lanes(radius_records=50_000) == 100
    assert lanes(radius_records=50_000, window=2) == 25
    assert lanes(radius_records=50_000, window_records=1000) == 25
    assert lanes(radius_records=10**9) == 1000
    assert lanes(memory_bytes=50_000 * 100, record_bytes=100) == 100
    assert lanes(memory_bytes=50_000 * 100, record_bytes=100, window=5) == 10
    assert lanes(memory_bytes=10**15, record_bytes=100) == 1000
    assert Lanes().over(Layout([3, 4])).lanes == 1
    assert Lanes().over(Layout.equal(30, 8)).lanes == 60
    uneven = Layout([1000] * 10 + [10] * 990)
    budget = Lanes(memory_bytes=10_000, record_bytes=1).over(uneven)
    assert budget.lanes == 10  # the ten largest may all be open at once
    assert budget.fingerprint["options"]["lanes"] == 10


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=30).filter(any), st.data())
def test_layout_locates_every_record(sizes: list[int], data: st.DataObject) -> None:
    layout = Layout(sizes)
    record = data.draw(st.integers(0, layout.records - 1))
    shard, place = layout.locate([record])
    assert sum(sizes[: shard[0]]) + place[0] == record
    assert 0 <= place[0] < sizes[shard[0]]
    assert layout.sizes.tolist() == sizes
    assert Layout(np.array(sizes)) == layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert Layout([*sizes, 0]) != layout


def test_layouts_are_joined_from_any_iterable() -> None:
    parts = [Layout([3, 4]), Layout([5])]
    assert Layout.joined(iter(parts)) == Layout.joined(parts)
    assert Layout.joined(parts).sizes.tolist() == [3, 4, 5]


def test_streams_are_part_of_a_layout() -> None:
    layout = Layout([1, 2], streams=[0, 1])
    assert layout.streams is not None
    assert layout.streams.tolist() == [0, 1]
    assert layout != Layout([1, 2])
    assert "2 shards" in repr(layout)


def test_very_large_layouts_work_at_both_ends() -> None:
    layout = Layout([2**61, 2**60, 2**60 - 7, 7])
    for spec in (Lanes(lanes=5), Lanes(lanes=5, window=2), Lanes(lanes=3, window_records=10**9), Global()):
        order = spec.over(layout, seed=1)
        points = np.array([0, 1, 2**61, len(order) - 1])
        records = order.at(points, 3)
        assert np.array_equal(order.find_all(records, 3)[0], points)
        assert np.array_equal(order.slice(len(order) - 5, len(order)), order.at(np.arange(len(order) - 5, len(order))))


LAYOUT = Layout([5, 5])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Lanes(lanes=0), "lanes is 0"),
        (lambda: Lanes(lanes=2.0), "lanes is 2.0"),  # type: ignore[arg-type]
        (lambda: Lanes(lanes=11).over(LAYOUT), "only 10 records"),
        (lambda: Lanes(lanes=2, radius_records=5), "lanes and radius_records"),
        (lambda: Lanes(memory_bytes=100), "record_bytes"),
        (lambda: Lanes(memory_bytes=100, record_bytes=30).over(LAYOUT), "one lane needs 150 bytes"),
        (lambda: Lanes(window=1, window_records=1), "window_records"),
        (lambda: Lanes(window=-1), "window is -1"),
        (lambda: Lanes(homes="new"), "homes is 'new'"),  # type: ignore[arg-type]
        (lambda: Lanes(phase="some"), "phase is 'some'"),  # type: ignore[arg-type]
        (lambda: Lanes().over([5, 5]), "needs a tombola.order.Layout"),  # type: ignore[arg-type]
        (lambda: Global().over(Layout([0, 0])), "no records"),
        (lambda: Global().over(Layout([])), "no records"),
        (lambda: Global().over(LAYOUT, seed=None), "seed is None"),  # type: ignore[arg-type]
        (lambda: Global().over(LAYOUT).at(10), "position 10 is outside 0…9"),
        (lambda: Global().over(LAYOUT).at(0, epoch=-1), "epoch is -1"),
        (lambda: Global().over(LAYOUT).find(10), "record 10 is outside 0…9"),
        (lambda: Global().over(LAYOUT).find([1, 2]), "find_all"),  # type: ignore[arg-type]
        (lambda: Global().over(LAYOUT).slice(0, 11), "stop is 11"),
        (lambda: Global().over(LAYOUT).slice(0, 5, step=0), "step is 0"),
        (lambda: make_spec(["lanes"]), "the name of an order is ['lanes']"),  # type: ignore[arg-type]
        (lambda: make_spec("lanse"), "no order named 'lanse'; known are concatenation, device_per_stream, global"),
        (lambda: make_spec("lanes", lane=3), "no option 'lane'"),
        (lambda: make_spec("global", lanes=3), "it has none"),
        (lambda: register("lanes")(Global), "belongs to Lanes already"),
        (lambda: register("tests/none")(int), "give a frozen dataclass that is an OrderSpec"),  # type: ignore[type-var]
        (lambda: register(5), "the name of an order is 5"),  # type: ignore[arg-type]
    ],
)
def test_bad_orders(call, words: str) -> None:
    with pytest.raises(OrderError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Layout([3, -1]), "shard 1 has -1 records"),
        (lambda: Layout([[3]]), "2 dimensions"),
        (lambda: Layout([1.5]), "float64"),
        (lambda: Layout([2**62, 1]), "more than 2^62"),
        (lambda: Layout([2**70]), "shard size 1180591620717411303424 is more than 64 bits"),
        (lambda: Layout([[1], [2, 3]]), "lists of unequal length"),
        (lambda: Layout([1, 2], streams=[[1], [1, 2]]), "lists of unequal length"),
        (lambda: Layout([]).locate([0]), "record 0 does not exist"),
        (lambda: Layout(np.full(4, 2**63 - 1, np.uint64)), "more than 2^62"),
        (lambda: Layout([1, 2], streams=[0]), "1 streams were given for 2 shards"),
        (lambda: Layout([1], streams=[-1]), "stream -1"),
        (lambda: Layout.equal(-1, 5), "shards is -1"),
        (lambda: Layout([3]).locate([3]), "record 3 is outside"),
        (lambda: Layout.joined(Layout([3])), "joined takes a list of layouts, not <Layout of 3 records"),
        (lambda: Layout.joined(5), "joined takes a list of layouts, not 5"),  # type: ignore[arg-type]
    ],
)
def test_bad_layouts(call, words: str) -> None:
    with pytest.raises(LayoutError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("spec", [Lanes(lanes=16), Lanes(lanes=16, window=2), Lanes(lanes=16, phase="none")])
def test_both_ends_of_an_epoch_are_like_its_middle(spec: Lanes) -> None:
    """Half the records lie in small shards and half in shards ten times as large: so must half of any batch."""
    layout = Layout(np.random.default_rng(0).permutation([20] * 500 + [200] * 50))
    large = layout.sizes[layout.locate(np.arange(layout.records))[0]] == 200
    seeds = 400
    for start in (0, 10_000, layout.records - 64):
        shares = [
            large[spec.over(layout, seed=seed).slice(start, start + 64, seed % 3)].mean() for seed in range(seeds)
        ]
        # 16 open shards a batch: the standard error of the mean is about 0.5 / √(16 · seeds) = 0.006.
        assert abs(np.mean(shares) - 0.5) < 0.035


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_numpy_numbers_as_options_are_plain_numbers(dtype) -> None:
    """A small NumPy number wraps round in arithmetic, and none of them is JSON."""
    layout = Layout.equal(100, 30)
    given = Lanes(lanes=dtype(100), window=dtype(100)).over(layout, seed=dtype(7))
    plain = Lanes(lanes=100, window=100).over(layout, seed=7)
    assert given == plain
    assert json.loads(json.dumps(given.fingerprint)) == plain.fingerprint
    assert np.array_equal(given.slice(0, 3000), plain.slice(0, 3000))


@pytest.mark.parametrize("spec", [Lanes(lanes=48), Lanes(lanes=48, window=2), Lanes(lanes=48, window_records=500)])
def test_threads_change_nothing(spec: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 2, for threads: tables, runs, single positions and inverses of an order large enough to be shared out."""
    from tombola.order import _lanes

    layout = Layout(np.random.default_rng(1).integers(0, 400, 3000))
    taken = []
    for threads in (1, 2, 3, 8):
        monkeypatch.setattr(_lanes, "THREADS", threads)
        order = spec.over(layout, seed=9)
        whole = order.slice(0, len(order), 2)
        assert np.array_equal(order.at(np.arange(len(order)), 2), whole)
        assert np.array_equal(order.find_all(whole, 2)[0], np.arange(len(order)))
        taken.append(whole)
    assert all(np.array_equal(one, taken[0]) for one in taken)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("spec", [Lanes(lanes=64), make_spec("mosaic/py1s", canonical_nodes=64)])
def test_a_fork_while_another_thread_makes_an_epoch(spec: OrderSpec) -> None:
    order = spec.over(Layout.equal(200_000, 3), seed=1)
    expected = order.at(5, 10_000)
    stop = threading.Event()

    def make_epochs() -> None:
        epoch = 0
        while not stop.is_set():
            order.at(0, epoch := epoch + 1)

    busy = threading.Thread(target=make_epochs)
    busy.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a lock held across the fork would hang here for ever
                os._exit(0 if order.at(5, 10_000) == expected else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        busy.join()


@pytest.mark.parametrize("lanes", [250, 256, 512, 727])
def test_cut_shards_do_not_meet_in_a_batch(lanes: int) -> None:
    """More lanes than a batch has rows: the two lanes that share a cut shard are far apart in it."""
    layout = Layout(np.random.default_rng(0).integers(500, 1500, 1024))
    order = Lanes(lanes=lanes).over(layout, seed=1)
    batches = len(order) // 64
    shards = np.sort(layout.locate(order.slice(0, batches * 64))[0].reshape(batches, 64), axis=1)
    together = np.count_nonzero(np.diff(shards, axis=1) == 0) / batches
    assert together < 0.5 * 64 * 63 / 2 * np.sum((layout.sizes / layout.records) ** 2)


@pytest.mark.parametrize(("name", "option"), [("stratified", "batch_size"), ("subset", "kept"), ("mixture", "weights")])
def test_an_option_that_is_missing_is_named(name: str, option: str) -> None:
    with pytest.raises(OrderError, match=f"the order '{name}' needs the option '{option}'"):
        make_spec(name)
