"""MosaicML Streaming's side of bench/streams.py: its own generate_work."""

from __future__ import annotations

import os

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import mosaic_peer as peer
import numpy as np
from _contestant import Prepared, contest

METHODS = ("random", "stratified", "per_stream", "device_per_stream")
SIZES = [[256] * shards for shards in (200, 150, 100, 50)]


def fetched(which: int) -> Prepared:
    """Shards that hold what each of 4 nodes of 4 ranks reads in an epoch, summed over nodes, ÷ shards."""
    data = peer.dataset(
        SIZES,
        [{}] * len(SIZES),
        shuffle=True,
        shuffle_algo="py1e",
        num_canonical_nodes=16,
        batch_size=16,
        batching_method=METHODS[which],
    )

    def run() -> float:
        work = peer.work(data, 4, 4, 1, 0, 0)
        return sum(np.unique(part[part >= 0] // 256).size for part in work) / sum(map(len, SIZES))

    return run, sum(map(len, SIZES))


if __name__ == "__main__":
    contest({"fetched": fetched})
