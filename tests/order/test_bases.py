"""Every order as the base of every order that takes one: the order it should be, or an error that names it."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from tombola import _core
from tombola.errors import OrderError
from tombola.order import (
    Concatenation,
    DevicePerStream,
    Global,
    Kept,
    Lanes,
    Layout,
    Mixture,
    Order,
    OrderSpec,
    Passes,
    PerStream,
    Sequential,
    Stratified,
    Subset,
    Take,
    mosaic,
    order_names,
)
from tombola.plan import Plan

ONE = Layout([7, 0, 13, 20, 9, 11])  # 60 records
BASES: dict[str, OrderSpec] = {
    "concatenation": Concatenation(base=Lanes(lanes=3)),
    "concatenation, some of it twice": Concatenation((Take(repeat=1.5),), base=Lanes(lanes=3)),
    "concatenation, of an even length": Concatenation(epoch_records=60, base=Lanes(lanes=3)),
    "device_per_stream": DevicePerStream(4, Lanes(lanes=3)),
    "device_per_stream, of one": DevicePerStream(1, Lanes(lanes=3)),
    "global": Global(),
    "lanes": Lanes(lanes=4, window=2),
    "mixture": Mixture((1,), base=Lanes(lanes=3)),
    "mixture, short": Mixture((1,), epoch_records=17, base=Lanes(lanes=3)),
    "mosaic/naive": mosaic.Naive(canonical_nodes=3),
    "mosaic/py1b": mosaic.Py1b(canonical_nodes=3, block_records=8),
    "mosaic/py1br": mosaic.Py1br(canonical_nodes=3, block_records=8),
    "mosaic/py1e": mosaic.Py1e(canonical_nodes=3, block_records=8),
    "mosaic/py1e, with padding": mosaic.Py1e(canonical_nodes=7, block_records=8),
    "mosaic/py1s": mosaic.Py1s(canonical_nodes=3),
    "mosaic/py2s": mosaic.Py2s(canonical_nodes=3),
    "passes": Passes(100, Lanes(lanes=3)),
    "passes, short": Passes(25, Lanes(lanes=3)),
    "per_stream": PerStream(6, Lanes(lanes=3)),
    "sequential": Sequential(),
    "stratified": Stratified(6, Lanes(lanes=3)),
    "subset": Subset([1, 2, 3], Lanes(lanes=2)),
    "subset, all": Subset(range(60), Lanes(lanes=2)),
}


def test_every_order_is_tried() -> None:
    known = {spec.name: spec for spec in BASES.values()}
    left = set(order_names()) - set(known)
    assert not {name for name in left if "/" not in name or name.startswith("mosaic/")}


def lanes_of_epochs(order: Order, epochs: int) -> list[list[int]]:
    """What each lane reads, over some epochs."""
    records = [order.slice(0, len(order), epoch).tolist() for epoch in range(epochs)]
    return [[record for epoch in records for record in epoch[lane :: order.lanes]] for lane in range(order.lanes)]


def lawful(order: Order) -> list[np.ndarray]:
    """The records of three epochs, whose ways to be asked for agree."""
    found = []
    for epoch in range(3):
        records = order.slice(0, len(order), epoch)
        assert records.size == len(order)
        assert records.min() >= 0
        assert records.max() < order.layout.records
        assert np.array_equal(order.at(np.arange(len(order)), epoch), records)
        positions, starts = order.find_all(np.arange(order.layout.records), epoch)
        assert np.array_equal(np.repeat(np.arange(order.layout.records), np.diff(starts)), records[positions])
        assert np.array_equal(np.sort(positions), np.arange(len(order)))
        visits = order.visits(epoch)
        for t, record in enumerate(records.tolist()):
            spans = (visits.first <= t) & (t <= visits.last) & (visits.lane == order.lane_of(np.array([t]))[0])
            assert (spans & (visits.record_start <= record) & (record < visits.record_stop)).any()
        found.append(records)
    return found


def refused(make: Callable[[], Order], base: OrderSpec) -> bool:
    """Whether an order is refused with an error that names the base."""
    try:
        make()
    except OrderError as problem:
        message = str(problem)
    else:
        return False
    assert repr(base.name) in message
    return True


@pytest.mark.parametrize("name", BASES)
def test_as_the_base_of_passes(name: str) -> None:
    """Each lane reads what it would read in epochs of the base, one after the other."""
    base = BASES[name]
    inner = base.over(ONE, seed=5)
    for length in (17, 60, 131):
        spec = Passes(length, base)
        if refused(lambda spec=spec: spec.over(ONE, seed=5), base):  # type: ignore[misc]
            assert inner.run > 1 or inner.batch_size is not None
            continue
        order = spec.over(ONE, seed=5)
        lawful(order)
        wanted = lanes_of_epochs(inner, 3 * length // (len(inner) // inner.lanes * inner.lanes) + 4)
        for of_base, of_lane in zip(wanted, lanes_of_epochs(order, 3), strict=True):
            assert of_base[: len(of_lane)] == of_lane


@pytest.mark.parametrize("name", BASES)
def test_as_the_base_of_a_subset(name: str) -> None:
    """As if only the kept records had been written: any base will do, its length and batches are handed on."""
    base = BASES[name]
    kept = Kept.where(lambda ids: ids % 3 != 1, records=90)
    layout = Layout([10, 0, 20, 30, 15, 15])
    rewritten = Layout(np.bincount(layout.locate(kept.ids())[0], minlength=layout.shards))
    assert rewritten.records == 60
    order, inner = Subset(kept, base).over(layout, seed=5), base.over(rewritten, seed=5)
    assert (order.lanes, order.run, order.batch_size) == (inner.lanes, inner.run, inner.batch_size)
    for epoch, records in enumerate(lawful(order)):
        assert np.array_equal(records, kept.ids()[inner.slice(0, len(inner), epoch)])


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("takes", [(), (Take(repeat=2),), (Take(choose=41),), (Take(repeat=1.5),)], ids=repr)
def test_as_the_base_of_a_concatenation(name: str, takes: tuple[Take, ...]) -> None:
    base = BASES[name]
    spec = Concatenation(takes, base=base)
    if refused(lambda: spec.over(ONE, seed=5), base):
        assert not isinstance(base, (Lanes, Global, Sequential))
        return
    order = spec.over(ONE, seed=5)
    whole, rest = divmod(len(order), 60)
    for records in lawful(order):
        counts = np.bincount(records, minlength=60)
        assert set(counts.tolist()) <= ({whole, whole + 1} if rest else {whole})
        assert counts.sum() == whole * 60 + rest == (spec.counts(ONE)[0])


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("make", [Mixture, Stratified, PerStream, DevicePerStream])
def test_as_the_base_of_streams(name: str, make: type[OrderSpec]) -> None:
    """Each stream goes through passes of its own, so no record of it is missed."""
    base = BASES[name]
    mixed = Mixture((2, 1), epoch_records=60, base=base)
    layout = Layout([20, 20, 20], streams=[0, 0, 1])
    spec = mixed if make is Mixture else make(12, mixed)  # type: ignore[call-arg]
    if refused(lambda: spec.over(layout, seed=5), base):
        assert not isinstance(base, (Lanes, Global, Sequential))
        return
    order = spec.over(layout, seed=5)
    counts = np.bincount(np.concatenate(lawful(order)), minlength=60)
    assert counts.sum() == 180
    if len(base.over(Layout([20]), seed=5)) == 20:
        assert counts.min() >= 1
        assert counts.max() <= 5


def test_the_reported_ones_are_refused() -> None:
    layout = Layout.joined([Layout.equal(100, 50)] * 2)
    for base, reason in (
        (Subset([1, 2, 3]), "3 positions for 10000 records"),
        (Passes(100), "100 positions"),
        (DevicePerStream(16), "16 consecutive positions"),
        (Mixture((1,), epoch_records=100), "100 positions"),
        (Stratified(64), "batches of 64"),
        (Concatenation((Take(repeat=2),)), "20000 positions"),
    ):
        with pytest.raises(OrderError, match=f"'{base.name}' cannot be the base of a concatenation: .*{reason}"):
            Plan(Concatenation(base=base).over(layout), batch_size=64)


def test_the_core_reads_nothing_out_of_range() -> None:
    """An order of a user's own may give any number: the core refuses it instead of reading other memory."""
    one = np.array([0, 1, 2], np.int64)
    out = np.empty(3, np.int64)
    units = _core.Units(np.array([0, 2, 3]), np.array([0, 0]), np.array([1, 0], np.uint8), np.array([0, 2]), 1)
    bitmap = _core.Bitmap(np.array([7], np.uint64))
    order = Lanes(lanes=2).over(Layout([2, 1]))
    epoch = order._epoch(0)  # type: ignore[attr-defined]
    permutation = _core.Permutation(3, 1)
    weave = _core.Weave(1, 1, 1, 3, [3])
    weave.set_shards(0, np.array([0]), np.array([0]), 3)
    phase = np.zeros(1, np.int64)
    weave.add_segment(phase, columns=1, stride=1, start=phase, phase=phase, column=phase, carry=False)
    calls: list[Callable[[np.ndarray], object]] = [
        lambda at: units.at(at, out, 1),
        lambda at: bitmap.select(at, out, 1),
        lambda at: epoch.at(at, out, 1),
        lambda at: epoch.find(at, out, 1),
        lambda at: permutation.at(at, out, 1),
        lambda at: permutation.find(at, out, 1),
        lambda at: weave.map(at, 0, out.copy(), out.copy(), out.copy(), 1),
        lambda at: weave.to_records(0, at.copy()),
    ]
    for call in calls:
        call(one)
        for bad in (-1, 3, 2**62, -(2**63)):
            with pytest.raises(IndexError, match=f"{bad} is not below 3"):
                call(np.array([0, bad, 1], np.int64))
    for start in (-1, 1, 3):
        with pytest.raises(IndexError):
            epoch.slice(start, 1, out, 1)
        with pytest.raises(IndexError):
            permutation.run(start, out, 1)
    bitmap.rank(np.array([0, 64, 64]), out, 1)
    for place in (-1, 65):
        with pytest.raises(IndexError, match="is not below 65"):
            bitmap.rank(np.array([place, 0, 0]), out, 1)
    for shard, offset in ((1, 0), (-1, 0), (0, 2), (0, -1)):
        with pytest.raises(IndexError):
            units.find_in_fraction(np.array([shard]), np.array([offset]), np.empty(1, np.int64))
    with pytest.raises(IndexError, match="shard 1 is not below 1"):
        _core.Units(np.array([0, 2, 3]), np.array([0, 1]), np.array([1, 0], np.uint8), np.array([0, 2]), 1)


NUMBERS: tuple[OrderSpec, ...] = (
    Stratified(np.int64(6), Lanes(lanes=np.int64(3))),  # type: ignore[arg-type]
    PerStream(np.int64(6), Lanes(lanes=3)),  # type: ignore[arg-type]
    DevicePerStream(np.int64(6), Lanes(lanes=3)),  # type: ignore[arg-type]
    Passes(np.int64(50), Lanes(lanes=3)),  # type: ignore[arg-type]
    Mixture(np.array([0.7]), epoch_records=np.int64(30), base=Lanes(lanes=3)),  # type: ignore[arg-type]
    Mixture((np.float32(0.7),), schedule=((np.int64(30), (np.float32(1),)),), base=Lanes(lanes=3)),  # type: ignore[arg-type]
    Concatenation(granularity=np.int64(2), epoch_records=np.int64(30), base=Lanes(lanes=3)),  # type: ignore[arg-type]
    Concatenation((Take(repeat=np.float32(0.7)),), base=Lanes(lanes=3)),  # type: ignore[arg-type]
    Concatenation((Take(choose=np.int64(30)),), base=Lanes(lanes=3)),  # type: ignore[arg-type]
    Concatenation((Take(proportion=np.float64(0.7)),), base=Lanes(lanes=3)),
    Subset(np.arange(30), Lanes(lanes=3)),  # type: ignore[arg-type]
    Subset([np.int64(k) for k in range(20)], Lanes(lanes=1)),  # type: ignore[misc]
    mosaic.Py1e(canonical_nodes=np.int64(3), choose=np.array([30]), granularity=np.int64(2), block_records=np.int64(8)),  # type: ignore[arg-type]
)


@pytest.mark.parametrize("spec", NUMBERS, ids=lambda spec: spec.name)
def test_numbers_of_numpy_can_be_saved(spec: OrderSpec) -> None:
    order = spec.over(ONE, seed=np.int64(5))  # type: ignore[arg-type]
    assert json.loads(json.dumps(spec.options())) == spec.options()
    assert json.loads(json.dumps(order.fingerprint)) == order.fingerprint
    plan = Plan(order, batch_size=6)
    cursor = plan.batch(1).cursor
    assert type(cursor).from_json(cursor.to_json()) == cursor


def test_floats_of_32_bits_are_read_as_decimal_fractions() -> None:
    assert Take(repeat=np.float32(0.7)) == Take(repeat=0.7)  # type: ignore[arg-type]
    assert Mixture((np.float32(0.7), np.float32(0.3))) == Mixture((7, 3))  # type: ignore[arg-type]
