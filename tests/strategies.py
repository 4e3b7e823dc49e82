"""Generated layouts, orders and worlds: what the law tests run over."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

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
)
from tombola.plan import World

seeds = st.integers(-(2**70), 2**70)
epochs = st.integers(0, 5)


@st.composite
def layouts(draw: st.DrawFn, records_max: int = 3000) -> Layout:
    """Equal shards, ragged shards, empty shards, single records, one shard."""
    kind = draw(st.sampled_from(["equal", "ragged", "tiny", "one"]))
    if kind == "one":
        return Layout([draw(st.integers(1, records_max))])
    if kind == "equal":
        shards = draw(st.integers(1, 60))
        return Layout.equal(shards, draw(st.integers(1, max(1, records_max // shards))))
    size = 3 if kind == "tiny" else max(1, records_max // 40)
    sizes = draw(st.lists(st.integers(0, size), min_size=1, max_size=40).filter(any))
    return Layout(sizes)


@st.composite
def lane_specs(draw: st.DrawFn, records: int) -> Lanes:
    """Any lanes order that fits so many records."""
    window = draw(st.sampled_from([None, None, "shards", "records"]))
    return Lanes(
        lanes=draw(st.integers(1, min(records, 70))),
        homes=draw(st.sampled_from(["fixed", "fresh"])),
        phase=draw(st.sampled_from(["spread", "none"])),
        window=draw(st.integers(1, 7)) if window == "shards" else None,
        window_records=draw(st.integers(1, 300)) if window == "records" else None,
    )


@st.composite
def orders(draw: st.DrawFn, records_max: int = 3000) -> Order:
    """Any of our orders over any layout."""
    layout = draw(layouts(records_max))
    spec: OrderSpec = draw(st.one_of(lane_specs(layout.records), st.sampled_from([Sequential(), Global()])))
    return spec.over(layout, seed=draw(seeds))


@st.composite
def layouts_of_streams(draw: st.DrawFn, records_max: int = 1000) -> Layout:
    """Any layout, its shards dealt to one to four streams, none of them empty."""
    layout = draw(layouts(records_max))
    filled = [shard for shard in range(layout.shards) if layout.sizes[shard]]
    count = draw(st.integers(1, min(4, len(filled))))
    streams = draw(st.lists(st.integers(0, count - 1), min_size=layout.shards, max_size=layout.shards))
    for stream in range(count):
        streams[filled[stream]] = stream
    return Layout(layout.sizes, streams=sorted(streams) if draw(st.booleans()) and count == 1 else streams)


@st.composite
def bases(draw: st.DrawFn, lanes_max: int = 12) -> OrderSpec:
    """Orders to combine streams with; few lanes, so that they fit small streams."""
    lanes = st.builds(
        Lanes,
        lanes=st.integers(1, lanes_max),
        homes=st.sampled_from(["fixed", "fresh"]),
        window=st.sampled_from([None, None, 1, 3]),
    )
    return draw(st.one_of(lanes, st.sampled_from([Sequential(), Global()])))


@st.composite
def concatenations(draw: st.DrawFn, records_max: int = 600) -> Order:
    """Streams repeated, chosen from or in proportion."""
    layout = draw(layouts_of_streams(records_max))
    assert layout.streams is not None
    count = int(layout.streams.max()) + 1
    repeats = st.one_of(
        st.builds(Take, repeat=st.floats(0, 3)), st.builds(Take, choose=st.integers(0, 400)), st.just(Take())
    )
    kind = draw(st.sampled_from([st.builds(Take, proportion=st.floats(0.1, 10)), repeats]))
    takes = tuple(draw(st.lists(kind, min_size=count - 1, max_size=count - 1)))
    takes += (draw(kind) if takes and takes[0].proportion is not None else Take(),)
    if count == 1:
        takes = (draw(st.sampled_from([Take(repeat=1.5), Take(choose=draw(st.integers(1, 400)))])),)
    spec = Concatenation(
        takes=takes,
        granularity=draw(st.integers(1, 50)),
        sampling=draw(st.sampled_from(["balanced", "fixed"])),
        base=draw(bases(lanes_max=1)),
    )
    if isinstance(spec.base, Lanes):
        lanes = draw(st.integers(1, min(12, sum(spec.counts(layout)))))
        spec = replace(spec, base=replace(spec.base, lanes=lanes))
    return spec.over(layout, seed=draw(seeds))


@st.composite
def mixtures(draw: st.DrawFn, records_max: int = 300, changes_max: int = 3) -> Order:
    """Streams by weight, the weights changing; streams smaller than the lanes; epochs of any length."""
    layout = draw(layouts_of_streams(records_max))
    assert layout.streams is not None
    count = int(layout.streams.max()) + 1
    weights = st.lists(st.integers(0, 7), min_size=count, max_size=count).filter(any).map(tuple)
    positions = sorted(draw(st.sets(st.integers(1, 500), max_size=changes_max)))
    base = draw(bases(lanes_max=1))
    if isinstance(base, Lanes):
        base = replace(base, lanes=draw(st.integers(1, min(9, *np.bincount(layout.streams, layout.sizes).astype(int)))))
    spec = Mixture(
        weights=draw(weights),
        schedule=tuple((position, draw(weights)) for position in positions),
        epoch_records=draw(st.one_of(st.none(), st.integers(9, 400))),
        base=base,
    )
    return spec.over(layout, seed=draw(seeds))


@st.composite
def passes(draw: st.DrawFn, records_max: int = 500) -> Order:
    """Epochs of another length over any order."""
    base = draw(st.one_of(orders(records_max), concatenations(records_max)))
    most = max(2 * len(base), base.lanes)
    records = draw(st.integers(base.lanes, most))
    return Passes(records, base.spec).over(base.layout, seed=base.seed)


@st.composite
def subsets(draw: st.DrawFn, records_max: int = 500) -> Order:
    """Any order over some of the records."""
    layout = draw(layouts(records_max))
    mask = np.random.default_rng(draw(st.integers(0, 99))).random(layout.records) < draw(st.floats(0.2, 1))
    mask[draw(st.integers(0, layout.records - 1))] = True
    kept = Kept.mask(mask)
    spec = draw(st.one_of(lane_specs(kept.count), st.sampled_from([Sequential(), Global()])))
    return Subset(kept, spec).over(layout, seed=draw(seeds))


def any_orders(records_max: int = 600) -> st.SearchStrategy[Order]:
    """Any order that takes any batch size."""
    return st.one_of(*(make(records_max) for make in (orders, concatenations, passes, mixtures, subsets)))


@st.composite
def batchings(draw: st.DrawFn, readers: int = 1, batch_size_max: int = 48) -> Order:
    """Batches of shares or of one stream, of a size that so many readers divide."""
    layout = draw(layouts_of_streams(300))
    assert layout.streams is not None
    count = int(layout.streams.max()) + 1
    lanes = draw(st.sampled_from([1, 2, 3, 4, 6]))
    base = Lanes(lanes=lanes, homes=draw(st.sampled_from(["fixed", "fresh"])), window=draw(st.sampled_from([None, 2])))
    if layout.records < lanes:
        base = Lanes(lanes=1)
        lanes = 1
    unit = math.lcm(lanes, readers)
    size = unit * draw(st.integers(1, max(1, batch_size_max // unit)))
    run = draw(st.integers(1, 5))
    kind = draw(st.sampled_from([Stratified, PerStream, DevicePerStream]))
    weights = st.lists(st.integers(0, 5), min_size=count, max_size=count).filter(any).map(tuple)
    step = run if kind is DevicePerStream else size
    epoch = draw(st.one_of(st.none(), st.integers(1, 4).map(lambda k: k * step * lanes)))
    if draw(st.booleans()):
        positions = sorted(draw(st.sets(st.integers(1, 20), max_size=2)))
        schedule = tuple((position * step, draw(weights)) for position in positions)
        first = draw(weights)
        used = [any(ws[i] for ws in (first, *(w for _, w in schedule))) for i in range(count)]
        if sum(int(layout.sizes[layout.streams == i].sum()) for i in range(count) if used[i]) < lanes:
            first = (1,) * count
        combination: OrderSpec = Mixture(first, schedule=schedule, epoch_records=epoch, base=base)
    else:
        takes = tuple(draw(st.sampled_from([Take(), Take(repeat=2), Take(repeat=1.5)])) for _ in range(count))
        combination = Concatenation(takes, epoch_records=epoch, base=base)
    spec = kind(run if kind is DevicePerStream else size, combination)  # type: ignore[arg-type, call-arg]
    return spec.over(layout, seed=draw(seeds))


@st.composite
def worlds(draw: st.DrawFn, ranks_max: int = 64) -> World:
    """A world seen from its rank 0."""
    nodes = draw(st.integers(1, 8))
    per_node = draw(st.integers(1, max(1, ranks_max // nodes)))
    divisors = [d for d in range(1, nodes * per_node + 1) if nodes * per_node % d == 0]
    return World(ranks=nodes * per_node, nodes=nodes, replication=draw(st.sampled_from(divisors[:3])))


def whole_batch(draw: st.DrawFn, *readers: int, size_max: int = 256) -> int:
    """A batch size that all these numbers of readers divide."""
    unit = math.lcm(*readers)
    return unit * draw(st.integers(1, max(1, size_max // unit)))
