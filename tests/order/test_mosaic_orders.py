"""The exact MosaicML orders as orders: the public laws, their slow twins, and the peer's batches through a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tombola.errors import OrderError
from tombola.order import Layout, Order, OrderSpec, make_spec, mosaic, order_names
from tombola.order.mosaic._deal import traversal
from tombola.order.mosaic._shuffle import NAMES
from tombola.order.mosaic._slow import slow_deal, slow_sample_records, slow_sample_shards, slow_shuffle
from tombola.plan import Plan, World
from tombola.quality import score
from tombola.testing import OrderTests

Ints = Any


def slow_epoch(order: Order, epoch: int) -> Ints:
    """An epoch by the slow twins alone, for a layout of one stream."""
    options: dict[str, Any] = order.spec.options()
    name, sizes, seed = order.spec.name.removeprefix("mosaic/"), order.layout.sizes.tolist(), order.seed
    drawn = seed + epoch if options["sampling"] == "balanced" else seed
    counts = slow_sample_shards(sizes, *options["choose"], granularity=options["granularity"], seed=drawn)
    units, records = slow_sample_records(sizes, counts, seed=drawn)
    lanes, block = options["canonical_nodes"], options.get("block_records", 0)
    ids = slow_shuffle(name, units, canonical_nodes=lanes, seed=seed, epoch=epoch, block_records=block)
    dealt = slow_deal(len(ids), canonical_nodes=lanes, nodes=1, ranks=1, workers=1, batch=1, drop_first=0)
    return np.array(records)[np.array(ids)[np.array(dealt).reshape(-1)]]


class MosaicTests(OrderTests):
    large = None
    seeds = (0, 7, 2**40)

    def planned(self, order: Order, epoch: int) -> Ints:
        return np.bincount(slow_epoch(order, epoch), minlength=order.layout.records)

    def test_epochs(self, layout: Layout, seed: int) -> None:
        """As for any order, but for the law that they break: their seeds are sums, not keys."""
        order, other = self.make(layout, seed), self.make(layout, seed + 1)
        here, there = (np.stack([self._all(each, epoch) for epoch in range(6)]) for each in (order, other))
        assert not np.array_equal(here[:5], here[1:])
        assert not np.array_equal(here, there)

    def test_slow_twin(self, layout: Layout, seed: int) -> None:
        order = self.make(layout, seed)
        for epoch in self.epochs:
            assert np.array_equal(order.slice(0, len(order), epoch), slow_epoch(order, epoch))


class TestNaive(MosaicTests):
    spec = mosaic.Naive(canonical_nodes=4)
    scored = None  # a score sees that its seeds are sums: see below


def test_seeds_are_sums() -> None:
    """The defect that the names promise: epoch 1 of a seed is epoch 0 of the next."""
    layout = Layout([30, 70])
    this, following = (mosaic.Naive(canonical_nodes=2).over(layout, seed=seed) for seed in (7, 8))
    assert np.array_equal(this.slice(0, 100, epoch=1), following.slice(0, 100, epoch=0))
    judged = score(mosaic.Naive(canonical_nodes=4).over(Layout.equal(64, 50), seed=7), batch_size=16, epochs=4)
    assert judged.verdict == "flawed"
    assert judged["seed_epoch_correlation"] == pytest.approx(1)


class TestPy1s(MosaicTests):
    spec = mosaic.Py1s(canonical_nodes=3)


class TestPy2s(MosaicTests):
    spec = mosaic.Py2s(canonical_nodes=3)


class TestPy1b(MosaicTests):
    spec = mosaic.Py1b(canonical_nodes=4, block_records=8)


class TestPy1br(MosaicTests):
    spec = mosaic.Py1br(canonical_nodes=4, block_records=8)


class TestPy1e(MosaicTests):
    spec = mosaic.Py1e(canonical_nodes=4, block_records=8)


class TestPy1eDefaults(MosaicTests):
    spec = mosaic.Py1e()
    # With 64 records or fewer each lane holds one.
    layouts = (Layout.equal(80, 7), Layout([200, 0, 1, 150]), Layout([300]), Layout([1] * 211))


class TestUpsampled(MosaicTests):
    spec = mosaic.Py1s(canonical_nodes=2, choose=(47,), granularity=3)
    scored = None  # too short


class TestSubsampledFixed(MosaicTests):
    spec = mosaic.Naive(canonical_nodes=2, choose=(11,), sampling="fixed")
    scored = None  # too short


SPECS: dict[str, OrderSpec] = {name: make_spec(name) for name in order_names() if name.startswith("mosaic/")}


def test_every_shuffle_has_its_order() -> None:
    assert set(SPECS) == {f"mosaic/{name}" for name in NAMES}
    for name, spec in SPECS.items():
        assert spec == make_spec(name, **json.loads(json.dumps(spec.options())))
        assert ("block_records" in spec.options()) == (name in {"mosaic/py1b", "mosaic/py1br", "mosaic/py1e"})


@pytest.mark.parametrize("name", sorted(SPECS))
def test_options_survive_json(name: str) -> None:
    layout = Layout([40, 30, 50], streams=[0, 0, 1])
    order = replace(SPECS[name], canonical_nodes=3, choose=(60, 70)).over(layout, seed=5)
    again = make_spec(name, **json.loads(json.dumps(order.fingerprint["options"]))).over(layout, seed=5)
    assert again == order
    assert again.fingerprint == order.fingerprint
    assert again.slice(0, len(again)).tolist() == order.slice(0, len(order)).tolist()


@pytest.mark.parametrize("name", sorted(SPECS))
@pytest.mark.parametrize("world", [(1, 2), (2, 2), (4, 1)])
def test_a_plan_reads_the_peers_batches(name: str, world: tuple[int, int]) -> None:
    layout = Layout([50, 30, 120, 77, 43], streams=[0, 0, 1, 1, 1])
    weights = mosaic.weigh([80, 240], repeat=[2.5, 0.7])
    block = {"block_records": 40} if "block_records" in SPECS[name].options() else {}
    order = make_spec(name, canonical_nodes=8, choose=weights.choose, **block).over(layout, seed=11)
    options = mosaic.Options(canonical_nodes=8, shuffle=name.removeprefix("mosaic/"), seed=11, **block)
    nodes, ranks = world
    for epoch in (0, 1):
        dealt = mosaic.work(
            layout,
            options,
            nodes=nodes,
            ranks_per_node=ranks,
            workers_per_rank=2,
            device_batch=20 // (nodes * ranks),
            epoch=epoch,
            weights=weights,
        )
        theirs = traversal(dealt)
        for step in range(weights.records // 20):
            batch = theirs[step * 20 : (step + 1) * 20].reshape(nodes, ranks, -1)
            # Their device (node, rank) takes the positions that ours numbered node + nodes · rank takes.
            for node in range(nodes):
                for rank in range(ranks):
                    reader = World(rank=node + nodes * rank, ranks=nodes * ranks)
                    got = Plan(order, reader, batch_size=20).batch(step, epoch=epoch)
                    assert got.records.tolist() == batch[node, rank].tolist()


def test_only_two_epochs_are_kept() -> None:
    order = mosaic.Naive(canonical_nodes=1).over(Layout([100]), seed=1)
    first = order.slice(0, 100, 0)
    for epoch in range(4):
        order.at(0, epoch)
    assert len(order._epochs) == 2  # type: ignore[attr-defined]
    assert np.array_equal(order.slice(0, 100, 0), first)


def test_records_that_an_epoch_leaves_out_are_found_nowhere() -> None:
    order = mosaic.Naive(canonical_nodes=1, choose=(4,)).over(Layout([10]), seed=1)
    read = order.slice(0, len(order)).tolist()
    assert len(read) == 4
    for record in range(10):
        assert order.find(record).tolist() == [t for t, r in enumerate(read) if r == record]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: mosaic.Naive(canonical_nodes=5).over(Layout([4])), "use 4 or fewer"),
        (lambda: mosaic.Naive(canonical_nodes=0), "canonical_nodes"),
        (lambda: mosaic.Naive(choose=(1, 2)).over(Layout([4])), "2 entries for 1"),
        (lambda: mosaic.Naive(choose=(0,)), "no record"),
        (lambda: mosaic.Naive(choose=(3, 3)).over(Layout([4, 0], streams=[0, 1])), "stream 1 holds no records"),
        (lambda: mosaic.Naive(sampling="x"), "'x'"),
        (lambda: mosaic.Naive(granularity=0), "granularity"),
        (lambda: mosaic.Py1br(block_records=1), "block_records of py1br"),
        (lambda: mosaic.Naive().over(Layout([4]), seed=-1), "-1"),
        (lambda: mosaic.Naive().over(Layout([4]), seed=2**63 - 1).at(0, epoch=1), "seed \\+ epoch"),
        (lambda: mosaic.Naive().over(Layout([4, 4], streams=[1, 0])), "mixed"),
        (lambda: make_spec("mosaic/naive", block_records=4), "no option 'block_records'"),
    ],
)
def test_bad_input_is_named(make: Any, named: str) -> None:
    with pytest.raises(OrderError, match=named):
        make()
