"""tombola's side of bench/streams.py, on one core."""

from __future__ import annotations

import os

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the import: threads are counted then

import numpy as np
from _contestant import Prepared, contest

from tombola import Lanes, Layout
from tombola.order import Concatenation, DevicePerStream, Mixture, PerStream, Stratified

NODES, RANKS, BATCH, LANES = 4, 16, 256, 16


def run_of_positions(streams: int, count: int) -> Prepared:
    """One long slice in mid-epoch, of streams weighted 1, 2, 3, …"""
    layout = Layout.joined([Layout.equal(10_000 // streams, 10_000)] * streams)
    spec = Mixture(tuple(range(1, streams + 1))) if streams > 1 else Lanes()
    order = spec.over(layout, seed=7)
    begin = len(order) // 3
    order.slice(begin, begin + 64)
    return (lambda: order.slice(begin, begin + count)), count


def fetched(which: int) -> Prepared:
    """Shards that hold what each node reads in an epoch, summed over nodes, ÷ shards."""
    layout = Layout.joined([Layout.equal(shards, 256) for shards in (200, 150, 100, 50)])
    base = Lanes(lanes=LANES)
    specs = (Concatenation(base=base), Stratified(BATCH, base), PerStream(BATCH, base), DevicePerStream(16, base))
    order = specs[which].over(layout, seed=7)

    def run() -> float:
        shards, _ = layout.locate(order.slice(0, len(order)))
        node = np.arange(len(order)) // order.run % RANKS // (RANKS // NODES)
        return sum(np.unique(shards[node == each]).size for each in range(NODES)) / layout.shards

    return run, layout.shards


if __name__ == "__main__":
    contest({"run_of_positions": run_of_positions, "fetched": fetched})
