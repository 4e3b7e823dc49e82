"""tombola's side of bench/exact.py's figures, and NumPy's: both run in our own environment, on one core."""

from __future__ import annotations

import os

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the import: threads are counted then

import numpy as np
from _contestant import Prepared, contest

from tombola.order import Layout
from tombola.order.mosaic import Draws, Options, shuffle, work

SPANS_TOTAL = 10**7


def epoch(which: int, records: int, shard_records: int, canonical_nodes: int, nodes: int) -> Prepared:
    """Sampled, shuffled, dealt: all that a node computes at an epoch's start."""
    layout = Layout.equal(records // shard_records, shard_records)
    block = max(4_000_000 // canonical_nodes, 1 << 18)
    options = Options(canonical_nodes, ("py1e", "py1s", "py2s")[which], block_records=block)

    def run() -> int:
        dealt = work(layout, options, nodes=nodes, ranks_per_node=8, workers_per_rank=8, device_batch=32, epoch=1)
        return int(dealt[-1, -1, -1].sum())  # of a part: enough to see that both say the same

    return run, records


def py2s(records: int, shard_records: int, canonical_nodes: int) -> Prepared:
    """The shuffle alone, in 32-bit numbers."""
    units = np.full(records // shard_records, shard_records, np.int64)

    def run() -> int:
        ids = shuffle("py2s", units, canonical_nodes=canonical_nodes, seed=9176, epoch=1, compact=True)
        return int(ids[-(10**6) :].sum(dtype=np.int64))

    return run, records


def spans(span: int, bits: int) -> Prepared:
    """Ten million records in spans of one length, each shuffled with one generator, as py1s does."""
    values, draws = np.arange(span, dtype=np.int32 if bits == 32 else np.int64), Draws(7)

    def run() -> int:
        for _ in range(SPANS_TOTAL // span):
            draws.shuffle(values)
        return int(values[0])

    return run, SPANS_TOTAL // span * span


def spans_numpy(span: int) -> Prepared:
    values, draws = np.arange(span), np.random.default_rng(7)

    def run() -> int:
        for _ in range(SPANS_TOTAL // span):
            draws.shuffle(values)
        return int(values[0])

    return run, SPANS_TOTAL // span * span


def naive(records: int) -> Prepared:
    return (lambda: int(shuffle("naive", [records], canonical_nodes=1, seed=7)[0])), records


def naive_numpy(records: int) -> Prepared:
    return (lambda: int(np.random.default_rng(7).permutation(records)[0])), records


if __name__ == "__main__":
    contest({f.__name__: f for f in (epoch, py2s, spans, spans_numpy, naive, naive_numpy)})
