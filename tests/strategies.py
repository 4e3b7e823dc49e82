"""Generated layouts, orders and worlds: what the law tests run over."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tombola.order import Global, Lanes, Layout, Order, OrderSpec, Sequential
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
