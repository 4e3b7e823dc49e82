"""The laws of plans and cursors: world-free, resumed exactly, equal ranks, provenance, shards needed."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import any_orders, epochs, whole_batch, worlds
from tombola.errors import CursorError, PlanError
from tombola.order import Global, Lanes, Layout, Order, OrderSpec, Sequential, make_spec
from tombola.plan import Cursor, Plan, Rows, World

TAILS = ("drop", "pad", "short")


def rank_views(world: World) -> list[World]:
    return [
        World(rank=rank, ranks=world.ranks, nodes=world.nodes, replication=world.replication)
        for rank in range(world.ranks)
    ]


def gather(plans: list[Plan], step: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """The (positions, records) that all ranks together read in a step, by position, unmasked rows only."""
    readers = {plan.world.reader: plan.batch(step, epoch) for plan in plans}
    for reader, rows in readers.items():  # a position belongs to the same reader whatever batch it is in
        assert (rows.positions[rows.mask] // plans[0].order.run % plans[0].world.readers == reader).all()
    positions = np.concatenate([rows.positions[rows.mask] for rows in readers.values()])
    records = np.concatenate([rows.records[rows.mask] for rows in readers.values()])
    by = np.argsort(positions)
    return positions[by], records[by]


@settings(deadline=None)
@given(order=any_orders(records_max=600), world=worlds(), tail=st.sampled_from(TAILS), epoch=epochs, data=st.data())
def test_all_ranks_together_read_the_order(order, world: World, tail, epoch: int, data: st.DataObject) -> None:
    """Laws 1, 2 and 9: the union over ranks is the order itself, in batches of one size, as many on every rank."""
    size = whole_batch(data.draw, world.readers)
    if tail == "drop" and size > len(order):
        with pytest.raises(PlanError, match="tail='drop'"):
            Plan(order, world, size, tail=tail)
        return
    plans = [Plan(order, view, size, tail=tail) for view in rank_views(world)]
    counts = {plan.steps(epoch) for plan in plans}
    assert counts == {len(order) // size if tail == "drop" else -(-len(order) // size)}
    whole = order.slice(0, len(order), epoch)
    seen = []
    for step in range(counts.pop()):
        positions, records = gather(plans, step, epoch)
        rows = plans[0].global_batch(step, epoch)
        assert np.array_equal(rows.records[rows.mask], records)
        assert np.array_equal(plans[0].what(step, epoch), records)
        assert np.array_equal(whole[positions], records)
        seen.append(records)
        for plan in plans:
            mine = plan.batch(step, epoch)
            assert np.array_equal(mine.lanes, mine.positions % order.lanes)
            assert np.array_equal(whole[mine.positions], mine.records)
            if tail != "short" or (step + 1) * size <= len(order):
                assert len(mine) == size // world.readers
            if order.lanes % world.readers == 0:
                assert set((mine.lanes[mine.mask] % world.readers).tolist()) <= {world.reader, plan.world.reader}
    read = len(order) // size * size if tail == "drop" else len(order)
    assert np.array_equal(np.concatenate([*seen, []]), whole[:read])


@settings(deadline=None, max_examples=60)
@given(order=any_orders(records_max=500), tail=st.sampled_from(TAILS), data=st.data())
def test_resume_under_other_worlds_and_batch_sizes(order, tail, data: st.DataObject) -> None:
    """Law 3: several cuts in a row, each resumed by other ranks in other batches, read what no cut would have read."""
    stories: list[tuple[int, int, np.ndarray]] = []  # (epoch, position after, records)
    cursor, plan = None, None
    for _ in range(data.draw(st.integers(1, 4))):
        world = data.draw(worlds(ranks_max=16))
        size = whole_batch(data.draw, world.readers, size_max=64)
        if tail == "drop" and size > len(order):
            size = world.readers if world.readers <= len(order) else 0
        if not size:
            break
        views = [Plan(order, view, size, tail=tail, cursor=cursor) for view in rank_views(world)]
        plan = views[0]
        epoch, step = plan.start
        for _ in range(data.draw(st.integers(1, 12))):
            if step == plan.steps(epoch):
                epoch, step = epoch + 1, 0
            positions, records = gather(views, step, epoch)
            assert positions.size
            assert np.array_equal(positions, np.arange(positions[0], positions[-1] + 1))
            stories.append((epoch, int(positions[0]), records))
            cursors = {view.batch(step, epoch).cursor for view in views}
            assert len(cursors) == 1  # any rank's cursor will do
            cursor = Cursor.from_json(cursors.pop().to_json())
            step += 1
    # Uninterrupted: each epoch is one run of the order from its start, cut only by the tail policy.
    read: dict[int, list[np.ndarray]] = {}
    for epoch, position, records in stories:
        parts = read.setdefault(epoch, [])
        assert position == sum(map(len, parts))
        parts.append(records)
    assert sorted(read) == list(range(len(read)))
    for epoch, parts in read.items():
        records = np.concatenate(parts)
        assert np.array_equal(records, order.slice(0, records.size, epoch))
        if tail != "drop" and epoch < len(read) - 1:
            assert records.size == len(order)
    # The history of batch sizes answers in steps for every batch that was read, whatever the world was.
    if plan is not None and cursor is not None:
        last = Plan(order, World(), 1, tail=tail, cursor=cursor) if tail != "drop" else plan
        log = [(last.run_step(*_step_of(last, epoch, position)), epoch, position) for epoch, position, _ in stories]
        assert [entry[0] for entry in log] == list(range(len(stories)))
        for run_step, epoch, position in log:
            assert last.locate(run_step)[0] == epoch
            assert last.what(last.locate(run_step)[1], epoch)[0] == order.at(position, epoch)


@st.composite
def ramps(draw: st.DrawFn, records: int, unit: int, start: tuple[int, int]) -> list[tuple[int, int, int]]:
    """A batch size from a place of the run on, and up to four changes where one of its batches ends."""
    sizes = st.integers(1, max(1, min(records, 64) // unit)).map(lambda k: k * unit)
    epoch, position = start
    found = [(epoch, position, draw(sizes))]
    for _ in range(draw(st.integers(0, 4))):
        position += draw(st.integers(0, 4)) * found[-1][2]
        if position == found[-1][1] or position >= records:
            epoch, position = epoch + draw(st.integers(1, 2)), 0
        found.append((epoch, position, draw(sizes)))
    return found


@settings(deadline=None, max_examples=80)
@given(order=any_orders(records_max=300), tail=st.sampled_from(TAILS), data=st.data())
def test_cuts_among_ramps(order, tail, data: st.DataObject) -> None:
    """Law 3 with batch sizes that change between the cuts, at them, and are given anew, carried on or ended there."""
    read: list[tuple[int, int, int]] = []
    cursor = None
    for _ in range(data.draw(st.integers(2, 5))):
        world = data.draw(worlds(ranks_max=8))
        start = (0, 0) if cursor is None else (cursor.epoch, cursor.position)
        kinds = ["ramp", "number"] if cursor is None else ["ramp", "number", "none"]
        kind = data.draw(st.sampled_from(kinds))
        sizes = {
            "ramp": lambda: data.draw(ramps(len(order), world.readers, start)),  # noqa: B023
            "number": lambda: whole_batch(data.draw, world.readers, size_max=48),  # noqa: B023
            "none": lambda: None,
        }[kind]()
        refused = ""
        try:
            views = [Plan(order, view, sizes, tail=tail, cursor=cursor) for view in rank_views(world)]
        except PlanError as problem:
            refused = str(problem)
        if refused:  # an epoch of less than a batch, or a history that these ranks cannot share out
            assert "tail='drop'" in refused or (kind == "none" and "shared out evenly" in refused)
            continue
        plan = views[0]
        epoch, step = plan.start
        for _ in range(data.draw(st.integers(1, 10))):
            if step == plan.steps(epoch):
                epoch, step = epoch + 1, 0
            positions, records = gather(views, step, epoch)
            assert np.array_equal(positions, np.arange(positions[0], positions[-1] + 1))
            assert np.array_equal(records, order.at(positions, epoch))
            assert plan.locate(plan.run_step(step, epoch)) == (epoch, step)
            read.append((epoch, int(positions[0]), int(positions[-1]) + 1))
            cursor = Cursor.from_json(plan.batch(step, epoch).cursor.to_json())
            step += 1
    for (epoch, _, stop), (then, start_then, _) in pairwise(read):
        if then == epoch:
            assert start_then == stop
        else:
            assert (then, start_then) == (epoch + 1, 0)
            assert tail == "drop" or stop == len(order)
    if cursor is not None:  # one process answers for the whole run: every batch that was read, by its number in the log
        whole = Plan(order, World(), tail=tail, cursor=cursor)
        for number, (epoch, first, stop) in enumerate(read):
            there, step = whole.locate(number)
            assert there == epoch
            assert np.array_equal(whole.what(step, epoch), order.slice(first, stop, epoch))


def _step_of(plan: Plan, epoch: int, position: int) -> tuple[int, int]:
    record = plan.order.at(position, epoch)
    place = next(p for p in plan.where(record, epoch) if p.position == position)
    assert place.step is not None
    return place.step, epoch


def test_a_ramp_in_mid_epoch() -> None:
    order = Lanes(lanes=8).over(Layout.equal(20, 50), seed=5)
    ramp = [(0, 0, 16), (0, 320, 32), (0, 640, 64), (2, 0, 128)]
    plan = Plan(order, World(ranks=8), ramp, tail="short")
    assert [plan.steps(epoch) for epoch in range(4)] == [20 + 10 + 6, 16, 8, 8]
    read = np.concatenate([plan.global_batch(step).records for step in range(plan.steps())])
    assert np.array_equal(read, order.slice(0, len(order)))
    cursor = plan.batch(24).cursor
    assert (cursor.epoch, cursor.position) == (0, 320 + 5 * 32)
    for sizes in (None, ramp):  # a ramp goes on after a resume, whether it is given again or not
        again = Plan(order, World(ranks=16), sizes, tail="short", cursor=cursor)
        assert again.start == (0, 25)
        assert [again.steps(epoch) for epoch in range(4)] == [36, 16, 8, 8]
    cut = Plan(order, World(ranks=2), 10, tail="short", cursor=cursor)  # one number ends the ramp
    assert cut.steps() == 25 + -(-(1000 - 480) // 10)
    assert cut.steps(2) == 100


def test_end_of_epoch_is_the_start_of_the_next() -> None:
    order = Global().over(Layout.equal(10, 10), seed=1)
    for tail, size in (("drop", 30), ("pad", 30), ("short", 30), ("drop", 50)):
        plan = Plan(order, batch_size=size, tail=tail)
        cursor = plan.batch(plan.steps() - 1).cursor
        assert (cursor.epoch, cursor.position) == (1, 0)
        assert Plan(order, batch_size=size, tail=tail, cursor=cursor).start == (1, 0)
    # With a larger batch the rest of an epoch may be less than one: tail="drop" goes on with the next epoch.
    cursor = Plan(order, batch_size=10).batch(8).cursor
    assert Plan(order, batch_size=40, cursor=cursor).start == (1, 0)
    assert Plan(order, batch_size=40, tail="drop", cursor=cursor).cursor().epoch == 1


def test_padding_repeats_rows_at_hand_under_a_mask() -> None:
    order = Lanes(lanes=4).over(Layout.equal(10, 10), seed=1)
    for ranks in (1, 2, 4):
        plans = [Plan(order, World(rank=r, ranks=ranks), 32, tail="pad") for r in range(ranks)]
        rows = [plan.batch(3) for plan in plans]
        assert sum(int(r.mask.sum()) for r in rows) == 4
        padded = Counter(np.concatenate([r.positions[~r.mask] for r in rows]).tolist())
        assert padded == Counter(range(68, 96))  # the same in every world: rows of the batch before
        for r, one in enumerate(rows):
            assert len(one) == 32 // ranks
            assert (one.positions % ranks == r).all()
    tiny = Plan(order, batch_size=256, tail="pad").batch(0)
    assert len(tiny) == 256
    assert int(tiny.mask.sum()) == 100
    assert Counter(tiny.records.tolist()).most_common()[-1][1] >= 2


def test_short_gives_empty_rows_and_never_fewer_batches() -> None:
    order = Sequential().over(Layout([10]))
    rows = [Plan(order, World(rank=r, ranks=4), 8, tail="short").batch(1) for r in range(4)]
    assert [len(r) for r in rows] == [1, 1, 0, 0]
    assert rows[3].records.dtype == np.int64


@given(order=any_orders(records_max=400), world=worlds(ranks_max=12), tail=st.sampled_from(TAILS), data=st.data())
def test_where_and_what(order, world: World, tail, data: st.DataObject) -> None:
    size = whole_batch(data.draw, world.readers, size_max=64)
    if tail == "drop" and size > len(order):
        return
    plan = Plan(order, world, size, tail=tail)
    epoch = data.draw(epochs)
    record = order.at(data.draw(st.integers(0, len(order) - 1)), epoch)
    found = plan.where(record, epoch)
    places, padding = ([one for one in found if one.padding is is_padding] for is_padding in (False, True))
    assert [one.position for one in places] == order.find(record, epoch).tolist()
    place = data.draw(st.sampled_from(places))
    for again in padding:
        assert tail == "pad"
        view = World(rank=again.rank, ranks=world.ranks, nodes=world.nodes, replication=world.replication)
        rows = Plan(order, view, size, tail=tail).batch(again.step, epoch)
        assert (rows.records[again.row], rows.positions[again.row]) == (record, again.position)
        assert not rows.mask[again.row]
    assert order.at(place.position, epoch) == record
    if place.step is None:
        assert tail == "drop"
        assert place.position >= plan.steps(epoch) * size
        return
    assert record in plan.what(place.step, epoch).tolist()
    view = World(rank=place.rank, ranks=world.ranks, nodes=world.nodes, replication=world.replication)
    rows = Plan(order, view, size, tail=tail).batch(place.step, epoch)
    assert rows.records[place.row] == record
    assert rows.mask[place.row]


@settings(deadline=None)
@given(order=any_orders(records_max=600), world=worlds(ranks_max=16), tail=st.sampled_from(TAILS), data=st.data())
def test_needs_bound_every_use(order, world: World, tail, data: st.DataObject) -> None:
    """Against reading the plan: each shard a rank or node reads is in its needs, and used between first and last."""
    size = whole_batch(data.draw, world.readers, size_max=64)
    if tail == "drop" and size > len(order):
        return
    rank = data.draw(st.integers(0, world.ranks - 1))
    view = dataclasses.replace(world, rank=rank, node=None)
    plan = Plan(order, view, size, tail=tail)
    for scope in ("rank", "node"):
        peers = [v for v in rank_views(world) if v.reader == view.reader or (scope == "node" and v.node == view.node)]
        used: list[dict[int, list[int]]] = [{}, {}]
        for epoch in (0, 1):
            for step in range(plan.steps(epoch)):
                for peer in peers:
                    rows = Plan(order, peer, size, tail=tail).batch(step, epoch)
                    shards, _ = order.layout.locate(rows.records)
                    # A row that pads is read when the last batch is.
                    turns = np.where(rows.mask, rows.positions, len(order) - 1)
                    for shard, position in zip(shards.tolist(), turns.tolist(), strict=True):
                        used[epoch].setdefault(shard, []).append(position)
        needs = plan.needs(0, scope=scope)
        assert np.array_equal(needs.first, np.sort(needs.first))
        exact = tail != "pad" and (
            isinstance(order.spec, Sequential)
            or (isinstance(order.spec, Lanes) and not (order.spec.window or order.spec.window_records))
        )
        found = dict(zip(needs.shard.tolist(), range(len(needs)), strict=True))
        assert len(found) == len(needs)
        assert set(used[0]) <= set(found)
        for shard, at in found.items():
            if shard in used[0]:
                assert needs.first[at] <= min(used[0][shard])
                assert needs.last[at] >= max(used[0][shard])
            if shard in used[1]:
                assert 0 <= needs.next[at] <= min(used[1][shard])
            if exact:
                assert (needs.first[at], needs.last[at]) == (min(used[0][shard]), max(used[0][shard]))
                assert needs.next[at] == min(used[1].get(shard, [-1]))


@pytest.mark.parametrize("lanes", [4, 16, 64, 128])
@pytest.mark.parametrize("window", [None, 2])
def test_locality_over_four_nodes(lanes: int, window: int | None) -> None:
    shards = 1000
    order = Lanes(lanes=lanes, window=window).over(Layout.equal(shards, 100), seed=2)
    for ranks in (4, 16):
        plan = Plan(order, World(ranks=ranks, nodes=4), 64)
        locality = plan.locality()
        if ranks <= lanes:
            assert locality.first <= (shards + lanes - 1) / shards
            # With a power of two of ranks only the borders between ranks cut a shard for two of them.
            assert locality.first <= (shards + ranks - 1) / shards
            assert locality.later <= 0.05
            assert plan.notes == ()
        else:
            assert "share 4 lanes" in plan.notes[0]
    fresh = Lanes(lanes=lanes, homes="fresh").over(Layout.equal(shards, 100), seed=2)
    assert 0.5 < Plan(fresh, World(ranks=4, nodes=4), 64).locality().later < 1
    uneven = Plan(order, World(ranks=12, nodes=4), 60)
    assert "do not divide" in uneven.notes[0] or "share" in uneven.notes[0]
    assert uneven.locality().first > 1.5
    assert Plan(Global().over(order.layout), World(ranks=4, nodes=4), 64).locality().first == pytest.approx(4)


def test_replicas_read_the_same_and_workers_share_the_steps() -> None:
    order = Lanes(lanes=8).over(Layout.equal(16, 20), seed=3)
    rows = [Plan(order, World(rank=r, ranks=8, nodes=2, replication=4), 16).batch(2).records.tolist() for r in range(8)]
    assert rows[0] == rows[1] == rows[2] == rows[3] != rows[4]
    assert rows[4] == rows[7]
    assert Plan(order, World(ranks=8, nodes=4, replication=4), 16).locality().first == pytest.approx(2, abs=0.2)
    cursor = Plan(order, batch_size=16).batch(3).cursor
    alone = [r.step for r in Plan(order, World(), 16, cursor=cursor).rows()]
    for workers in (1, 2, 3, 5):
        plans = [Plan(order, World(worker=w, workers=workers), 16, cursor=cursor) for w in range(workers)]
        taken = [[r.step for r in plan.rows()] for plan in plans]
        dealt = [taken[i % workers][i // workers] for i in range(len(alone))]
        assert dealt == alone == list(range(4, 20))
    assert len(list(Plan(order, batch_size=16, cursor=cursor).rows(1))) == 20


class _Runs(Order):
    """A small order whose ranks read runs of two, in batches of eight."""

    run = 2
    batch_size = 8

    def _at(self, positions, epoch: int):
        return len(self) - 1 - positions

    def _find(self, records, epoch: int):
        return len(self) - 1 - records


@dataclasses.dataclass(frozen=True)
class _RunsSpec(OrderSpec):
    name = "runs"

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        return _Runs(self, layout, seed)


def test_orders_with_runs_and_a_batch_size_of_their_own() -> None:
    order = _RunsSpec().over(Layout.equal(4, 10))
    plans = [Plan(order, World(rank=r, ranks=2), 8) for r in range(2)]
    assert plans[0].batch(0).positions.tolist() == [0, 1, 4, 5]
    assert plans[1].batch(0).positions.tolist() == [2, 3, 6, 7]
    place = plans[0].where(39 - 6)[0]
    assert (place.step, place.rank, place.row) == (0, 1, 2)
    assert set(plans[1].needs().shard.tolist()) == {0, 1, 2, 3}
    with pytest.raises(PlanError, match="made for batches of 8, not of 16"):
        Plan(order, batch_size=16)
    with pytest.raises(PlanError, match="in runs of 2"):
        Plan(order, World(ranks=8), batch_size=8)


def test_cursors_are_plain_values() -> None:
    order = Lanes(lanes=8).over(Layout.equal(16, 20), seed=3)
    cursor = Plan(order, batch_size=16).batch(3).cursor
    assert Cursor.from_json(cursor.to_json()) == cursor
    assert pickle.loads(pickle.dumps(cursor)) == cursor
    assert len({cursor, Cursor.from_dict(cursor.to_dict())}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        cursor.epoch = 3  # type: ignore[misc]
    for mapping in (cursor.fingerprint, cursor.fingerprint["options"]):
        with pytest.raises(TypeError):
            mapping["seed"] = 99
    for name in ("order", "world", "tail", "fingerprint", "start"):
        with pytest.raises(AttributeError):
            setattr(Plan(order, batch_size=16), name, None)
    values = {"seed": 1}
    kept = Cursor(0, 0, ((0, 0, 1),), values)
    values["seed"] = 2
    assert kept.fingerprint["seed"] == 1


def test_plans_are_copied_and_pickled() -> None:
    """A worker that is spawned is sent its plan."""
    order = Lanes(lanes=8).over(Layout.equal(16, 20), seed=3)
    cursor = Plan(order, batch_size=16).batch(3).cursor
    plan = Plan(order, World(rank=1, ranks=4), [(0, 0, 32), (0, 160, 16)], tail="pad")
    for one in (plan, Plan(order, World(ranks=4), 8, cursor=cursor)):
        for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)):
            assert (other.start, other.steps(), other.world) == (one.start, one.steps(), one.world)
            assert other.fingerprint == one.fingerprint
            assert other.batch(4).cursor == one.batch(4).cursor
            assert other.batch(4).records.tolist() == one.batch(4).records.tolist()
        with pytest.raises(TypeError):
            one.fingerprint["seed"] = 99  # type: ignore[index]
    rows = pickle.loads(pickle.dumps(plan.batch(2)))
    assert rows.cursor == plan.batch(2).cursor


def test_a_cursor_takes_any_whole_numbers() -> None:
    """Those of NumPy too, as a checkpoint may bring them back."""
    given = Cursor(np.int64(0), np.uint16(64), [np.array([0, 0, 16])], {"seed": 3})  # type: ignore[arg-type]
    assert given == Cursor(0, 64, ((0, 0, 16),), {"seed": 3})
    assert Cursor.from_json(given.to_json()) == given


LAYOUT = Layout.equal(16, 20)
CURSOR = Plan(Lanes(lanes=8).over(LAYOUT, seed=3), batch_size=16).batch(3).cursor


@pytest.mark.parametrize(
    ("order", "tail", "words"),
    [
        (Lanes(lanes=8).over(LAYOUT, seed=4), "drop", ["seed (3 then, 4 now)"]),
        (Lanes(lanes=16).over(LAYOUT, seed=3), "drop", ["lanes (8 then, 16 now)"]),
        (Lanes(lanes=8, window=2).over(LAYOUT, seed=3), "drop", ["window (None then, 2 now)"]),
        (Global().over(LAYOUT, seed=3), "drop", ["order ('lanes' then, 'global' now)"]),
        (Lanes(lanes=8).over(Layout.equal(16, 21), seed=3), "drop", ["dataset", "records (320 then, 336 now)"]),
        (Lanes(lanes=8).over(LAYOUT, seed=3), "pad", ["tail ('drop' then, 'pad' now)"]),
    ],
)
def test_cursors_of_another_run_are_refused_by_name(order, tail, words: list[str]) -> None:
    with pytest.raises(CursorError) as caught:
        Plan(order, batch_size=16, tail=tail, cursor=CURSOR)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "no entry 'tombola_cursor'"),
        ("[" * 100_000, "not JSON"),
        ('{"epoch": 3}', "no entry 'tombola_cursor'"),
        ('{"tombola_cursor": 2}', "schema 2"),
        ('{"tombola_cursor": true}', "schema True"),
        ('{"tombola_cursor": 1, "epoch": 0}', "no entry 'position'"),
        ('{"tombola_cursor": 1, "epoch": 0, "position": 0, "batch_sizes": [[0,0,0]], "fingerprint": {}}', "damaged"),
        ('{"tombola_cursor": 1, "epoch": 0, "position": 0, "batch_sizes": [[0,0,-8]], "fingerprint": {}}', "damaged"),
        ('{"tombola_cursor": 1, "epoch": 0, "position": 0, "batch_sizes": [[0,0]], "fingerprint": {}}', "damaged"),
        ('{"tombola_cursor": 1, "epoch": 0, "position": 0, "batch_sizes": 5, "fingerprint": {}}', "damaged"),
        ('{"tombola_cursor": 1, "epoch": 0, "position": 0, "batch_sizes": [[0,0,1]], "fingerprint": 5}', "damaged"),
        ('{"tombola_cursor": 1, "epoch": 1e30, "position": 0, "batch_sizes": [[0,0,1]], "fingerprint": {}}', "1e+30"),
        ('{"tombola_cursor": 1, "epoch": 0.5, "position": 0, "batch_sizes": [[0,0,1]], "fingerprint": {}}', "0.5"),
        ('{"tombola_cursor": 1, "epoch": 0, "position": -1, "batch_sizes": [[0,0,1]], "fingerprint": {}}', "damaged"),
        ('{"tombola_cursor": 1, "epoch": 0, "position": 0, "batch_sizes": [], "fingerprint": {}}', "damaged"),
    ],
)
def test_damaged_cursors(text: str, words: str) -> None:
    with pytest.raises(CursorError) as caught:
        Cursor.from_json(text)
    assert words in str(caught.value)


def test_cursors_outside_or_between_batches() -> None:
    order = Lanes(lanes=8).over(LAYOUT, seed=3)
    for position, words in ((320, "past the 320"), (7, "where no batch begins")):
        cursor = dataclasses.replace(CURSOR, position=position)
        with pytest.raises(CursorError, match=words):
            Plan(order, cursor=cursor)
        with pytest.raises(CursorError, match=words):
            Plan(order, batch_size=1, cursor=cursor)
    with pytest.raises(CursorError, match="batch sizes do not fit"):
        Plan(order, cursor=dataclasses.replace(CURSOR, batch_sizes=((0, 0, 16), (0, 7, 8))))
    for other in (CURSOR.to_dict(), CURSOR.to_json()):
        with pytest.raises(CursorError, match=r"try Cursor\.from_dict or Cursor\.from_json"):
            Plan(order, cursor=other)
    # A batch size given at a resume begins where the cursor stands.
    assert Plan(order, batch_size=32, cursor=CURSOR).batch(4).positions[0] == 64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda order: Plan(order), "batch_size is missing"),
        (lambda order: Plan(order, World(ranks=8), 100), "the nearest sizes that can are 96 and 104"),
        (lambda order: Plan(order, World(ranks=8), 3), "the nearest sizes that can are 8"),
        (lambda order: Plan(order, batch_size=0), "batch_size is 0"),
        (lambda order: Plan(order, batch_size=2**62, tail="pad"), "must be between 1 and"),
        (lambda order: Plan(order, batch_size=[(0, 0, 16), (2**70, 0, 8)]), "epoch of a batch-size change"),
        (lambda order: Plan(order, batch_size=16, tail="keep"), "tail is 'keep'"),
        (lambda order: Plan(LAYOUT, batch_size=16), "needs an order over a layout"),
        (lambda order: Plan(order, batch_size=16).batch(20), "step (of 20 in epoch 0) is 20"),
        (lambda order: Plan(order, batch_size=16).batch(-1), "is -1"),
        (lambda order: Plan(order, batch_size=16).batch(0, epoch=-1), "epoch is -1"),
        (lambda order: Plan(order, batch_size=16).needs(scope="rack"), "scope is 'rack'"),
        (lambda order: Plan(order, batch_size=16).cursor(21), "is 21"),
        (lambda order: Plan(order, {"ranks": 2}, 16), "world is {'ranks': 2}"),
        (lambda order: Plan(order, World(ranks=2), [(0, 0, 16), (0, 160, 15)]), "batch_size 15 cannot be shared"),
        (lambda order: Plan(order, batch_size=[(0, 0, 16), (0, 160, 400)]), "only 320 records"),
        (lambda order: Plan(order, batch_size=400, cursor=CURSOR), "only 320 records"),
        (lambda order: Plan(order, World(ranks=5), 5, cursor=CURSOR).batch(0), "belongs to another world"),
    ],
)
def test_bad_plans(call, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        call(Lanes(lanes=8).over(LAYOUT, seed=3))
    assert words in str(caught.value)


def test_rows_carry_what_a_step_needs() -> None:
    plan = Plan(make_spec("lanes", lanes=4).over(LAYOUT, seed=1), World(rank=1, ranks=2), 8)
    rows = plan.batch(2)
    assert isinstance(rows, Rows)
    assert (rows.epoch, rows.step, len(rows)) == (0, 2, 4)
    assert rows.cursor == plan.cursor(3)
    assert "batch_size=8" in repr(plan)
    assert math.prod(rows.mask.shape) == 4


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.uint64])
def test_numpy_numbers_are_plain_numbers(dtype) -> None:
    order = Lanes(lanes=6).over(Layout([2**40, 2**39]), seed=3)
    step = 6 * 2**30
    for last in (0, 100):
        given = Plan(order, World(rank=dtype(1), ranks=dtype(3), nodes=dtype(3)), dtype(48)).batch(dtype(last))
        plain = Plan(order, World(rank=1, ranks=3, nodes=3), 48).batch(last)
        assert given.records.tolist() == plain.records.tolist()
        assert given.cursor == plain.cursor
        assert given.cursor.to_json() == plain.cursor.to_json()
    far = Plan(order, World(rank=dtype(1), ranks=dtype(3)), dtype(48)).batch(step)
    assert far.positions[0] == step * 48 + 1
    assert World(rank=dtype(1), ranks=dtype(3)) == World(rank=1, ranks=3)


def test_long_histories_of_batch_sizes() -> None:
    """Thousands of changes, in one epoch and over many: every answer is a search, none a walk."""
    order = Sequential().over(Layout([10**9]))
    ramp = [(0, 64 * 1000 * i, 64 if i % 2 == 0 else 32) for i in range(5000)]
    plan = Plan(order, World(ranks=32), ramp)
    step = sum(1000 if i % 2 == 0 else 2000 for i in range(4999))
    assert plan.global_batch(step).positions[0] == ramp[-1][1]
    assert plan.where(ramp[-1][1])[0].step == step
    epochs = [(epoch, 0, 64 if epoch % 2 == 0 else 32) for epoch in range(5000)]
    plan = Plan(order, World(ranks=32), epochs)
    per_pair = 10**9 // 64 + 10**9 // 32
    assert plan.locate(per_pair * 2000 + 7) == (4000, 7)
    assert plan.run_step(7, 4000) == per_pair * 2000 + 7


def test_needs_and_locality_with_many_ranks() -> None:
    """Readers that share lanes: against reading everything, for shards shorter and longer than the ranks are many."""
    for sizes in ([3] * 60, [500] * 6, [1, 400, 2, 30, 0, 90, 5, 5, 5]):
        for spec in (Lanes(lanes=6), Lanes(lanes=4, window=2), Global()):
            order = spec.over(Layout(sizes), seed=1)
            for ranks, nodes, replication in ((9, 3, 1), (10, 5, 2), (16, 2, 1), (12, 4, 6)):
                world = World(ranks=ranks, nodes=nodes, replication=replication)
                size = world.readers * 2
                held: list[list[set[int]]] = [[set() for _ in range(nodes)] for _ in range(2)]
                for view in rank_views(world):
                    plan = Plan(order, view, size, tail="pad")
                    for epoch in (0, 1):
                        for step in range(plan.steps(epoch)):
                            shards, _ = order.layout.locate(plan.batch(step, epoch).records)
                            held[epoch][view.node or 0] |= set(shards.tolist())
                filled = np.count_nonzero(sizes)
                locality = Plan(order, world, size, tail="pad").locality()
                first = sum(map(len, held[0])) / filled
                later = sum(len(b - a) for a, b in zip(*held, strict=True)) / filled
                if isinstance(spec, Lanes) and spec.window is None:
                    assert (locality.first, locality.later) == (first, later)
                else:  # bounds of visits are not exact, so neither is what follows from them
                    assert locality.first >= first
