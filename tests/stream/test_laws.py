"""The laws of streams over generated datasets: the records are those of the plan, whatever reads them and however."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import lane_specs
from tests.stream.datasets import COLUMNS, of_sizes, one_by_one, same, sizes
from tombola import _core
from tombola.formats import Ragged
from tombola.order import (
    Concatenation,
    DevicePerStream,
    Global,
    Lanes,
    Layout,
    Mixture,
    OrderSpec,
    PerStream,
    Sequential,
    Stratified,
    Take,
    mosaic,
)
from tombola.plan import Cursor, Plan, World
from tombola.stream import Reading, Stream

readings = st.builds(
    Reading,
    threads=st.integers(1, 3),
    ahead_bytes_max=st.sampled_from([0, 1, 500, 10_000, 1 << 26]),
    open_shards_max=st.sampled_from([1, 3, 4096]),
)
tails = st.sampled_from(["drop", "pad", "short"])


@st.composite
def specs(draw: st.DrawFn, records: int) -> OrderSpec:
    return draw(st.one_of(lane_specs(records), st.sampled_from([Sequential(), Global()])))


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """The arguments of a stream that fit together."""
    store = of_sizes(draw(sizes()), ("text", "label"))
    records = len(one_by_one(store))
    readers = draw(st.integers(1, min(4, records)))
    replication = draw(st.sampled_from([1, 2]))
    return {
        "source": store,
        "order": draw(specs(records)),
        "seed": draw(st.integers(0, 2**60)),
        "batch_size": readers * draw(st.integers(1, max(1, min(40, records // readers)))),
        "tail": draw(tails),
        "world": World(ranks=readers * replication, replication=replication),
    }


def ranks(world: World) -> list[World]:
    return [World(rank=rank, ranks=world.ranks, replication=world.replication) for rank in range(world.ranks)]


def plan_of(run: dict[str, Any], world: World, cursor: Cursor | None = None) -> Plan:
    layout = Layout([shard.records for shard in _manifest(run["source"])])
    return Plan(run["order"].over(layout, seed=run["seed"]), world, run["batch_size"], tail=run["tail"], cursor=cursor)


def _manifest(store: Any) -> Any:
    from tombola.formats import open_manifest

    return open_manifest(store)


@given(runs(), readings, st.integers(0, 2))
@settings(max_examples=60)
def test_batches_are_those_of_the_plan(run: dict[str, Any], reading: Reading, epochs: int) -> None:
    truth = one_by_one(run["source"])
    for world in ranks(run["world"]):
        plan = plan_of(run, world)
        with Stream(**run | {"world": world}, reading=reading) as stream:
            for epoch in range(epochs + 1):
                batches = list(stream)
                assert len(batches) == plan.steps(epoch)
                for step, batch in enumerate(batches):
                    rows = plan.batch(step, epoch)
                    assert (batch.epoch, batch.step) == (epoch, step)
                    assert batch.records.tolist() == rows.records.tolist() == batch["label"].tolist()
                    assert batch.positions.tolist() == rows.positions.tolist()
                    assert batch.mask.tolist() == rows.mask.tolist()
                    assert (batch.cursor.epoch, batch.cursor.position) == (rows.cursor.epoch, rows.cursor.position)
                    assert batch.cursor.batch_sizes == rows.cursor.batch_sizes
                    assert list(batch) == [truth[number] for number in rows.records.tolist()]


@given(runs(), readings, st.data())
@settings(max_examples=60)
def test_a_cut_anywhere_changes_nothing(run: dict[str, Any], reading: Reading, data: st.DataObject) -> None:
    """Cut, resume under another world and batch size: prefix and suffix are the uninterrupted epoch."""
    plan = plan_of(run, World())
    epoch = data.draw(st.integers(0, 1))
    cut = data.draw(st.integers(0, plan.steps(epoch)))
    before = Stream(**run | {"world": World()}, reading=reading)
    before.set_epoch(epoch)
    prefix = [batch for _, batch in zip(range(cut), before, strict=False)] if cut else []
    state = before.state_dict()
    assert state == before.cursor.to_dict()
    if prefix:
        assert Cursor.from_dict(state) == prefix[-1].cursor

    # A batch larger than the epoch would be dropped whole, which is refused.
    readers = data.draw(st.integers(1, min(3, len(plan.order)) if run["tail"] == "drop" else 3))
    size = readers * data.draw(st.integers(1, max(1, min(20, len(plan.order) // readers))))
    records: dict[int, int] = {}
    for rank in range(readers):
        after = Stream(
            **run | {"world": World(rank=rank, ranks=readers), "batch_size": size, "tail": run["tail"]},
            cursor=state,
            reading=reading,
        )
        assert after.epoch == epoch + (cut == plan.steps(epoch)) or run["tail"] == "drop"
        if after.epoch == epoch:
            for batch in after:
                kept = batch.mask
                records |= dict(zip(batch.positions[kept].tolist(), batch["label"][kept].tolist(), strict=True))
        after.close()
    whole = plan.order.slice(0, len(plan.order), epoch).tolist()
    done = sum(int(batch.mask.sum()) for batch in prefix)
    assert [label for batch in prefix for label in batch["label"][batch.mask].tolist()] == whole[:done]
    if done < len(whole):
        rest = [records[position] for position in sorted(records)]
        assert rest == whole[done : done + len(rest)]
        left = len(whole) - done - len(rest)
        assert left == 0 if run["tail"] != "drop" else left < max(size, run["batch_size"])
    before.close()


@given(runs(), st.integers(1, 4), st.data())
@settings(max_examples=40)
def test_workers_share_the_steps(run: dict[str, Any], workers: int, data: st.DataObject) -> None:
    """Worker w reads steps w, w + W, … from the cursor on: taken in turn they are the steps of one reader."""
    alone = Stream(**run | {"world": World()})
    first = data.draw(st.integers(0, len(alone)))
    expected = [batch.records.tolist() for batch in alone.steps_from(0, first)]
    shares = []
    for worker in range(workers):
        stream = Stream(**run | {"world": World(worker=worker, workers=workers)})
        if first < len(alone):
            stream.load_state_dict(alone.steps_from(0, first)._cursors(first, 0).to_dict())
            shares.append([batch.records.tolist() for batch in stream])
        stream.close()
    taken = [shares[step % workers][step // workers] for step in range(len(expected))] if shares else []
    assert taken == expected
    alone.close()


@given(sizes(200), st.integers(1, 40), st.sampled_from([None, ("label", "loose"), ("blob",)]))
@settings(max_examples=40)
def test_columns_equal_the_slow_read(sizes_: list[int], batch_size: int, columns: tuple[str, ...] | None) -> None:
    store = of_sizes(sizes_)
    truth = one_by_one(store)
    names = sorted(COLUMNS) if columns is None else list(columns)
    with Stream(store, batch_size=batch_size, tail="short", columns=columns, seed=3) as stream:
        for batch in stream:
            assert list(batch.keys()) == names == list(stream.columns)
            wanted = [truth[number] for number in batch.records.tolist()]
            for name in names:
                for row, record in enumerate(wanted):
                    assert same(batch[name][row], record[name])
                    assert same(batch[row][name], record[name])
            for found, record in zip(batch, wanted, strict=True):
                assert found.keys() == set(names)
                assert all(same(found[name], record[name]) for name in names)
            if columns is None and len({record["loose"].shape for record in wanted}) == 1:
                assert isinstance(batch["loose"], np.ndarray)
                assert batch["vector"].shape == (len(batch), 3)
            assert columns == ("label", "loose") or isinstance(batch["blob"], Ragged)
        found = stream.read(range(len(truth)))
        for name in names:
            assert all(same(found[name][row], record[name]) for row, record in enumerate(truth))
        assert all(same(stream[-1 - row][names[0]], truth[-1 - row][names[0]]) for row in range(len(truth)))


@given(runs(), st.data())
@settings(max_examples=40)
def test_records_resume_exactly_without_a_batch_size(run: dict[str, Any], data: st.DataObject) -> None:
    run = run | {"world": World(), "batch_size": None, "tail": "drop"}
    truth = one_by_one(run["source"])
    cut = data.draw(st.integers(1, len(truth)))
    stream = Stream(**run)
    records = stream.records()
    prefix = [next(records)["label"] for _ in range(cut)]
    resumed = Stream(**run)
    resumed.load_state_dict(stream.state_dict())
    suffix = [] if cut == len(truth) else [record["label"] for record in resumed.records()]
    whole = [record["label"] for record in Stream(**run).records()]
    assert prefix + suffix == whole
    assert sorted(whole) == list(range(len(truth)))
    stream.close()
    resumed.close()


@given(runs())
@settings(max_examples=20)
def test_records_leave_padding_out(run: dict[str, Any]) -> None:
    run = run | {"tail": "pad"}
    found: list[int] = []
    for world in ranks(run["world"])[:: run["world"].replication]:
        found += [record["label"] for record in Stream(**run | {"world": world}).records()]
    assert sorted(found) == list(range(len(one_by_one(run["source"]))))


@given(runs())
@settings(max_examples=20)
def test_provenance(run: dict[str, Any]) -> None:
    streams = [Stream(**run | {"world": world}) for world in ranks(run["world"])]
    epoch = [list(stream) for stream in streams]
    for record in (0, len(one_by_one(run["source"])) - 1):
        for place in streams[0].where(record, 0):
            if place.step is not None:
                batch = epoch[place.rank][place.step]
                assert batch.records[place.row] == record
                assert place.padding or record in streams[0].what(place.step, 0)


def test_several_datasets_are_read_as_one() -> None:
    first, second = of_sizes([30, 0, 12], ("label", "text")), of_sizes([7, 20], ("label", "text"))
    truth = one_by_one(first) + one_by_one(second)
    with Stream([first, second], batch_size=23, seed=5, tail="short") as stream:
        assert stream.layout.streams is not None
        assert stream.layout.streams.tolist() == [0, 0, 0, 1, 1]
        found = {}
        for batch in stream:
            found |= dict(zip(batch.records.tolist(), batch, strict=True))
        assert [found[number] for number in range(len(truth))] == truth
        assert stream[45] == truth[45]


@pytest.mark.parametrize("bytes_max", [0, 1 << 20])
def test_batch_size_changes(bytes_max: int) -> None:
    """A ramp of batch sizes, in mid-epoch too."""
    store = of_sizes([40, 30, 50, 11], ("label",))
    changes = [(0, 0, 4), (0, 40, 13), (1, 0, 8), (1, 80, 1)]
    stream = Stream(store, batch_size=changes, seed=2, tail="short", reading=Reading(ahead_bytes_max=bytes_max))
    for epoch in range(3):
        batches = list(stream)
        plan = stream.plan
        assert [batch.records.tolist() for batch in batches] == [
            plan.batch(step, epoch).records.tolist() for step in range(plan.steps(epoch))
        ]
    assert len(plan.batch(10, 0)) == 13
    stream.close()


COMBINED = [
    Mixture(weights=(3, 1), base=Lanes(lanes=3)),
    Mixture(weights=(1, 2), schedule=((40, (5, 1)),), epoch_records=100, base=Lanes(lanes=2)),
    Concatenation(takes=(Take(repeat=2.5), Take(choose=13)), base=Lanes(lanes=4)),
    Stratified(batch_size=12, combination=Concatenation(base=Lanes(lanes=4))),
    PerStream(batch_size=12, combination=Concatenation(base=Lanes(lanes=4))),
    DevicePerStream(run=4, combination=Concatenation(base=Lanes(lanes=3))),
    mosaic.Py1e(canonical_nodes=2, block_records=20),
    mosaic.Py2s(canonical_nodes=4),
]


@pytest.mark.parametrize("spec", COMBINED, ids=lambda spec: spec.name)
@pytest.mark.parametrize("tail", ["drop", "pad", "short"])
def test_every_kind_of_order(spec: OrderSpec, tail: Any) -> None:
    """Orders that combine streams, repeat records, are made for one batch size, or give ranks runs of positions."""
    sources = [of_sizes([30, 0, 22], ("label", "text")), of_sizes([17, 21], ("label", "text"))]
    truth = one_by_one(sources[0]) + one_by_one(sources[1])
    for rank in range(3):
        stream = Stream(
            sources, order=spec, seed=5, batch_size=12, world=World(rank=rank, ranks=3), tail=tail, reading=Reading()
        )
        plan = stream.plan
        for epoch in range(2):
            batches = list(stream)
            assert len(batches) == plan.steps(epoch)
            for batch in batches:
                rows = plan.batch(batch.step, epoch)
                assert batch.records.tolist() == rows.records.tolist()
                assert batch.positions.tolist() == rows.positions.tolist()
                assert batch.mask.tolist() == rows.mask.tolist()
                assert list(batch) == [truth[number] for number in rows.records.tolist()]
        cut = plan.steps(0) // 2
        resumed = Stream(
            sources,
            order=spec,
            seed=5,
            batch_size=12,
            world=World(rank=rank, ranks=3),
            tail=tail,
            cursor=stream.cursor_at(cut, 0),
        )
        assert [batch.records.tolist() for batch in resumed] == [
            plan.batch(step, 0).records.tolist() for step in range(cut, plan.steps(0))
        ]
        stream.close()


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=200).filter(any), st.data())
def test_the_native_look_up_equals_the_layouts(sizes_: list[int], data: st.DataObject) -> None:
    """Few rows over many shards are sorted, many over few are marked; both give each shard once."""
    layout = Layout(sizes_)
    rows = data.draw(st.lists(st.integers(0, layout.records - 1), max_size=300))
    shards, places, distinct = _core.locate(layout.starts, np.array(rows, np.int64))
    expected_shards, expected_places = layout.locate(rows)
    assert shards.tolist() == expected_shards.tolist()
    assert places.tolist() == expected_places.tolist()
    assert distinct.tolist() == sorted(set(expected_shards.tolist()))


def test_the_native_look_up_without_the_gil() -> None:
    layout = Layout.equal(1 << 12, 3)
    rows = np.random.default_rng(0).integers(0, layout.records, 1 << 16)
    shards, places, distinct = _core.locate(layout.starts, rows)
    assert np.array_equal(shards, rows // 3)
    assert np.array_equal(places, rows % 3)
    assert np.array_equal(distinct, np.unique(rows // 3))


@pytest.mark.parametrize("row", [-1, 24])
def test_the_native_look_up_refuses_what_is_outside(row: int) -> None:
    with pytest.raises(IndexError, match=f"record {row} is not below 24"):
        _core.locate(Layout.equal(3, 8).starts, np.array([0, row]))
