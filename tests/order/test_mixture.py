"""Mixtures: their slow twin, the bounds on counts, streams on every rank, locality, changes of weights."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.order._checks import assert_visits_cover
from tests.order.test_concatenation import SCORED, STREAMS
from tests.strategies import epochs, mixtures
from tombola import _core
from tombola.errors import OrderError
from tombola.order import Global, Lanes, Layout, Mixture, Order, Passes, Sequential, make_spec
from tombola.order._mixture import rounded_weights, sequence_of
from tombola.order._slow_combine import slow_chairman, slow_mixture, slow_multiplier
from tombola.plan import Plan, World
from tombola.testing import OrderTests


class MixtureTests(OrderTests):
    layouts = STREAMS
    large: ClassVar = Layout(np.full(999, 10**9), streams=np.arange(999) % 3)
    scored: ClassVar = SCORED

    def planned(self, order: Order, epoch: int) -> np.ndarray:
        return np.bincount(slow_mixture(order, epoch), minlength=order.layout.records)


class TestThreeStreams(MixtureTests):
    spec = Mixture((5, 3, 2), base=Lanes(lanes=3))
    visits_exact = True


class TestWeightsThatChange(MixtureTests):
    spec = Mixture((0.6, 0.3, 0.1), schedule=((20, (1, 1, 1)), (50, (0, 1, 0.5))), base=Lanes(lanes=4))
    visits_exact = True


class TestEpochsOfAnyLength(MixtureTests):
    spec = Mixture((1, 2, 1), epoch_records=47, base=Lanes(lanes=2, window=2, homes="fresh"))
    scored = None  # too short
    visits_sharp = False


class TestOfGlobalShuffles(MixtureTests):
    spec = Mixture((1, 2, 1), base=Global())


class TestOfStoredOrder(MixtureTests):
    spec = Mixture((101, 57, 23), base=Sequential())
    scored = None  # no shuffle


@settings(max_examples=60)
@given(order=mixtures(), epoch=st.integers(0, 3), data=st.data())
def test_it_equals_its_slow_twin(order: Order, epoch: int, data: st.DataObject) -> None:
    slow, n = slow_mixture(order, epoch), len(order)
    assert np.array_equal(order.slice(0, n, epoch), slow)
    assert np.array_equal(order.at(np.arange(n), epoch), slow)
    start = data.draw(st.integers(0, n))
    step = data.draw(st.sampled_from([d for d in range(1, 10) if order.lanes % d == 0]))
    assert np.array_equal(order.slice(start, n, epoch, step=step), slow[start::step])
    positions, starts = order.find_all(np.arange(order.layout.records), epoch)
    assert positions.size == n
    assert np.array_equal(slow[positions], np.repeat(np.arange(order.layout.records), np.diff(starts)))


# ---- sequences


@given(weights=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any))
def test_every_prefix_of_a_sequence_is_within_one_of_every_share(weights: list[int]) -> None:
    sequence, total = sequence_of(weights), sum(weights)
    assert sequence.tolist() == slow_chairman(weights)
    prefix = np.arange(1, total + 1)
    for stream, weight in enumerate(weights):
        error = np.cumsum(sequence == stream) * total - prefix * weight
        assert (np.abs(error) < total).all()


@settings(max_examples=20)
@given(weights=st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any), lanes=st.integers(1, 12))
def test_the_best_multiplier_is_the_best(weights: list[int], lanes: int) -> None:
    multiplier, _ = _core.spread_phases(sequence_of(weights), np.array(weights), lanes)
    assert multiplier == slow_multiplier(tuple(weights), lanes)


# ---- counts


def streams_read(order: Order, positions: int) -> np.ndarray:
    """The stream of each position of the run."""
    assert order.layout.streams is not None
    epochs_ = range(-(-positions // len(order)))
    records = np.concatenate([order.slice(0, len(order), epoch) for epoch in epochs_])[:positions]
    return order.layout.streams[order.layout.locate(records)[0]]


def errors(order: Order, changes: list[tuple[int, tuple[int, ...]]], positions: int) -> tuple[np.ndarray, np.ndarray]:
    """How far counts are from shares: (per lane, the worst over lanes and streams at each place; over all lanes)."""
    read = streams_read(order, positions)
    share = np.empty((positions, len(changes[0][1])))
    for position, weights in changes:
        share[position:] = np.array(weights) / sum(weights)
    off = (read[:, None] == np.arange(share.shape[1])) - share
    lanes = np.abs(np.cumsum(off.reshape(-1, order.lanes, share.shape[1]), axis=0)).max(axis=(1, 2))
    return lanes, np.abs(np.cumsum(off, axis=0)).max(axis=1)


def layout_of(streams: int, shards: int = 4, records: int = 50) -> Layout:
    return Layout.joined([Layout.equal(shards, records)] * streams)


weights_of = lambda count: st.lists(st.integers(1, 30), min_size=count, max_size=count).map(tuple)  # noqa: E731


@settings(max_examples=40)
@given(count=st.integers(1, 7), lanes=st.sampled_from([1, 3, 8]), seed=st.integers(0, 99), data=st.data())
def test_counts_are_within_two_in_each_lane_and_within_the_bound_over_all(count, lanes, seed, data) -> None:  # type: ignore[no-untyped-def]
    weights = data.draw(weights_of(count))
    order = Mixture(weights, base=Lanes(lanes=lanes)).over(layout_of(count), seed=seed)
    of_lanes, of_all = errors(order, [(0, weights)], lanes * 3 * sum(weights))
    assert of_lanes.max() < 2
    assert of_all.max() <= order.deviation_max + 1e-6  # type: ignore[attr-defined]


def test_over_all_lanes_the_bound_is_small() -> None:
    for weights in ((1, 1), (7, 3), (70, 20, 9, 1), tuple(range(1, 11)), (1, 1, 2, 3, 5, 8, 13, 21, 34)):
        order = Mixture(weights).over(layout_of(len(weights)), seed=1)
        assert order.lanes == 64
        assert order.deviation_max <= 10, weights  # type: ignore[attr-defined]


@settings(max_examples=25)
@given(count=st.integers(2, 6), length=st.sampled_from([10, 100, 1000]), seed=st.integers(0, 99), data=st.data())
def test_errors_do_not_grow_with_changes_of_weights(count, length, seed, data) -> None:  # type: ignore[no-untyped-def]
    changes = [(0, data.draw(weights_of(count)))]
    for _ in range(30):
        changes.append((changes[-1][0] + data.draw(st.integers(1, length)), data.draw(weights_of(count))))
    spec = Mixture(changes[0][1], schedule=tuple(changes[1:]), base=Lanes(lanes=4), epoch_records=40_000)
    order = spec.over(layout_of(count), seed=seed)
    of_lanes, of_all = errors(order, changes, changes[-1][0] // 4 * 4 + 400)
    assert of_lanes.max() < 3.5  # 3 by construction where a change is paid back before the next one comes
    assert of_all.max() < 4 * 3


def test_rare_streams_are_on_every_rank_and_batches_hold_their_shares() -> None:
    weights = (50, 30, 15, 4, 1)
    order = Mixture(weights, base=Lanes(lanes=64), epoch_records=64_000).over(layout_of(5), seed=3)
    read = streams_read(order, 64_000)
    for ranks in (2, 4, 8, 16, 32):
        for rank in range(ranks):
            mine = np.bincount(read[rank::ranks], minlength=5) / (64_000 / ranks)
            assert (np.abs(mine - np.array(weights) / 100) < 0.01).all()
    batches = np.stack([np.bincount(batch, minlength=5) for batch in read.reshape(-1, 64)])
    independent = np.sqrt(64 * np.array(weights) / 100 * (1 - np.array(weights) / 100))
    assert (batches.std(axis=0) < 0.8 * independent).all()  # steadier than drawing streams at random would be


def test_two_equal_streams_share_every_ranks_rows() -> None:
    """Lanes that all took turns together would give each rank one stream only, batch after batch."""
    order = Mixture((1, 1)).over(layout_of(2, shards=40), seed=5)
    read = streams_read(order, 64 * 20).reshape(20, 64)
    for ranks in (1, 2, 4, 8):
        for rank in range(ranks):
            share = read[:, rank::ranks].mean(axis=1)
            assert (np.abs(share - 0.5) <= 0.25).all(), ranks


@pytest.mark.parametrize("lanes", [16, 60, 64])
@pytest.mark.parametrize(
    "weights", [(1, 1), (1, 1, 1), (2, 1), (1, 2, 3), (1, 1, 1, 1, 1), (1,) * 7, (3, 1), (7, 3), (50, 30, 15, 4, 1)]
)
def test_every_rank_reads_every_stream_for_any_number_of_ranks(weights: tuple[int, ...], lanes: int) -> None:
    """Also for 3 ranks and 3 equal streams, or twice as many ranks as lanes: a period and ranks in step would give a
    rank the same stream for ever."""
    order = Mixture(weights, base=Lanes(lanes=lanes), epoch_records=lanes * 1500).over(layout_of(len(weights)), seed=5)
    read = streams_read(order, len(order))
    share = np.array(weights) / sum(weights)
    for ranks in (2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 20, 24, 32, 48, 64, 96, 128):
        for rank in range(ranks):
            rows = read[rank::ranks]
            mine = np.bincount(rows, minlength=len(weights)) / rows.size
            # Wider where a rank's places come from one lane in part: there only the keyed turns even them out.
            assert (np.abs(mine - share) < 0.05 + 3 / np.sqrt(rows.size)).all(), (ranks, rank)
            assert (mine > 0).all() or rows.size * share.min() < 20, (ranks, rank)


def test_every_rank_reads_every_stream_soon_in_worlds_of_three_and_six() -> None:
    order = Mixture((1, 1, 1)).over(layout_of(3, shards=40), seed=5)
    read = streams_read(order, 64 * 3 * 5)
    for ranks in (3, 6, 12):
        for rank in range(ranks):
            mine = np.bincount(read[rank::ranks], minlength=3) * ranks / read.size
            assert (np.abs(mine - 1 / 3) < 0.08).all(), (ranks, rank)


# ---- streams


def test_each_stream_goes_through_its_own_passes() -> None:
    layout = Layout.joined([Layout.equal(10, 20), Layout.equal(2, 20)])
    order = Mixture((1, 1), base=Lanes(lanes=4)).over(layout, seed=5)
    count = np.zeros(240, int)
    for epoch in range(10):
        np.add.at(count, order.slice(0, 240, epoch), 1)
        assert np.ptp(count[:200]) <= 1
        assert np.ptp(count[200:]) <= 1
    assert count[:200].sum() == count[200:].sum() == 1200


def test_a_stream_smaller_than_the_lanes() -> None:
    layout = Layout.joined([Layout.equal(10, 100), Layout([3])])
    order = Mixture((9, 1), base=Lanes(lanes=16)).over(layout, seed=5)
    read = np.bincount(order.slice(0, len(order)), minlength=1003)
    assert read[1000:].sum() == pytest.approx(100, abs=3)
    assert (read[1000:] > 20).all()
    positions = order.find(1001)
    assert (order.at(positions) == 1001).all()


def test_locality_is_that_of_the_streams_alone() -> None:
    layouts = [Layout.equal(shards, 60) for shards in (200, 150, 100, 50)]
    order = Mixture((40, 30, 20, 10), base=Lanes(lanes=16)).over(Layout.joined(layouts), seed=2)
    world = World(ranks=4, nodes=4)
    alone = sum(
        Plan(Lanes(lanes=16).over(layout, seed=seed), world, 64).locality().first * layout.shards
        for seed, layout in enumerate(layouts)
    )
    locality = Plan(order, world, 64).locality()
    assert locality.first <= alone / 500 + 0.002
    assert locality.first <= 1.15
    assert locality.later < 0.02
    assert Plan(order, world, 64).notes == ()


def test_ten_streams_in_a_slice_larger_than_their_passes() -> None:
    order = Mixture(tuple(range(1, 11)), epoch_records=64 * 5000).over(layout_of(10, 3, 70), seed=1)
    records = order.slice(64, 64 * 5000, 1)
    some = np.random.default_rng(0).integers(64, 64 * 5000, 2000)
    assert np.array_equal(records[some - 64], order.at(some, 1))


def test_hundreds_of_streams_in_one_slice() -> None:
    """More streams than passes are kept at once: the slice is not cut into ever smaller ones for it."""
    order = Mixture((1,) * 700, base=Lanes(lanes=8)).over(layout_of(700, 2, 30), seed=1)
    records = order.slice(0, 20_000)
    some = np.random.default_rng(0).integers(0, 20_000, 500)
    assert np.array_equal(records[some], order.at(some))


# ---- options


def test_weights_are_decimal_fractions_in_lowest_terms() -> None:
    assert Mixture((0.7, 0.2, 0.1)).weights == (7, 2, 1)
    assert Mixture((300, 100)).weights == (3, 1)
    assert Mixture(np.array([0.5, 0.5])).weights == (1, 1)  # type: ignore[arg-type]
    assert sum(Mixture((1 / 3, 1 / 3, 1 / 3 + 1e-9)).weights) <= 2**16
    assert Mixture((1 / 3, 2 / 3)).weights == (1, 2)
    assert rounded_weights([10**9, 10**9 + 1]) == [1, 1]
    spec = Mixture((0.25, 0.75), schedule=((10, (1, 2)),), base=Lanes(window=2))
    assert make_spec("mixture", **spec.options()) == spec


def test_memory_and_radius_are_for_all_streams_together() -> None:
    layout = layout_of(4, 100, 100)
    assert Mixture((1, 1, 1, 1), base=Lanes(radius_records=6400)).over(layout).lanes == 16
    budget = Lanes(memory_bytes=6400 * 10, record_bytes=10)
    assert Mixture((1, 1, 1, 1), base=budget).over(layout).lanes == 16


TWO = Layout([9, 9, 0], streams=[0, 1, 2])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Mixture(()), "weights is ()"),
        (lambda: Mixture("12"), "weights is '12'"),  # type: ignore[arg-type]
        (lambda: Mixture((0, 0)), "all zero"),
        (lambda: Mixture((1, -1)), "weight 1 of weights is -1"),
        (lambda: Mixture((1, float("nan"))), "weight 1 of weights is nan"),
        (lambda: Mixture((1, float("inf"))), "is inf"),
        (lambda: Mixture((1, "x")), "is 'x'"),  # type: ignore[arg-type]
        (lambda: Mixture((1, 1e-9)), "weight 1 of weights is 1e-09 of their sum"),
        (lambda: Mixture((1, 1), schedule=((5, (1,)),)), "1 weights from position 5 on, and 2 before"),
        (lambda: Mixture((1, 1), schedule=((5, (1, 1)), (5, (2, 1)))), "positions must rise"),
        (lambda: Mixture((1, 1), schedule=((0, (1, 1)),)), "the position of a change of weights is 0"),
        (lambda: Mixture((1, 1), schedule=((5, (0, 0)),)), "from position 5 on are all zero"),
        (lambda: Mixture((1, 1), schedule=(5,)), "the entry 5"),  # type: ignore[arg-type]
        (lambda: Mixture((1, 1), schedule=5), "schedule is 5"),  # type: ignore[arg-type]
        (lambda: Mixture((1, 1), epoch_records=0), "epoch_records is 0"),
        (lambda: Mixture((10**400, 10**400)), "a number of 1329 bits"),
        (lambda: Mixture((-(10**400), 1)), "not below 0"),
        (lambda: Mixture(np.array(3.0)), "give a list with a number for each stream"),  # type: ignore[arg-type]
        (lambda: Mixture(np.ones((2, 2))), "give a list with a number for each stream"),  # type: ignore[arg-type]
        (lambda: Mixture(b"ab"), "give a list with a number for each stream"),  # type: ignore[arg-type]
        (lambda: Mixture(3), "give a list with a number for each stream"),  # type: ignore[arg-type]
        (lambda: Mixture((1, None)), "weight 1 of weights is None"),  # type: ignore[arg-type]
        (lambda: Mixture((1,)).over(TWO), "1 weights for 3 streams"),
        (lambda: Mixture((1, 1, 1)).over(TWO), "stream 2 holds no records, but has a weight above 0"),
        (lambda: Mixture((1, 1, 0), schedule=((5, (1, 1, 1)),)).over(TWO), "stream 2 holds no records"),
        (
            lambda: Mixture((1, 1, 0, 1)).over(TWO),
            "4 weights for 3 streams; stream 3 has a weight above 0 but no shard",
        ),
        (lambda: Mixture((1, 1)).over(Layout([5, 5], streams=[0, 2**30])), "there is a stream 1073741824"),
        (lambda: Mixture((1, 1, 0), epoch_records=3, base=Lanes(lanes=4)).over(TWO), "there are 4 lanes"),
        (lambda: Mixture((1, 1, 0), base=Passes(5, Lanes(lanes=2))).over(TWO), "cannot be the base of streams"),
    ],
)
def test_bad_input(call, words: str) -> None:
    with pytest.raises(OrderError) as caught:
        call()
    assert words in str(caught.value)


@given(order=mixtures(), epoch=epochs)
def test_visits_cover_what_is_read(order: Order, epoch: int) -> None:
    visits, slow = order.visits(epoch), Order.visits(order, epoch)
    records = order.slice(0, len(order), epoch)
    assert_visits_cover(order, visits, records)
    assert np.array_equal(np.lexsort((visits.first, visits.lane)), np.arange(len(visits)))
    if order.lanes > 1 and not order.spec.base.window:  # type: ignore[attr-defined]
        assert {*zip(slow.lane, slow.shard, strict=True)} == {*zip(visits.lane, visits.shard, strict=True)}
