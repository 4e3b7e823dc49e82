"""MosaicML Streaming's side of bench/exact.py: its own functions, on one core."""

from __future__ import annotations

import os

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import mosaic_peer as peer
import numpy as np
from _contestant import Prepared, contest


def epoch(which: int, records: int, shard_records: int, canonical_nodes: int, nodes: int) -> Prepared:
    """Its generate_work."""
    data = peer.dataset(
        [[shard_records] * (records // shard_records)],
        [{}],
        shuffle=True,
        shuffle_algo=("py1e", "py1s", "py2s")[which],
        num_canonical_nodes=canonical_nodes,
        batch_size=32,
        shuffle_block_size=max(4_000_000 // canonical_nodes, 1 << 18),
    )
    return (lambda: int(peer.work(data, nodes, 8, 8, 1, 0)[-1, -1, -1].sum())), records


def py2s(records: int, shard_records: int, canonical_nodes: int) -> Prepared:
    """Its get_shuffle."""
    units = np.full(records // shard_records, shard_records, np.int64)
    return (lambda: int(peer.get_shuffle("py2s", units, canonical_nodes, 9176, 1)[-(10**6) :].sum())), records


if __name__ == "__main__":
    contest({"epoch": epoch, "py2s": py2s})
