"""MosaicML Streaming's side of bench/order.py: its own generate_work, which every node runs at each epoch start."""

from __future__ import annotations

import os

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import sys
import types
from typing import Any

import transformers.feature_extraction_utils  # noqa: F401  before the stand-ins: it looks for torchvision itself
from _contestant import Prepared, contest

# Its top-level import wants torchvision for the vision datasets, which no order touches.
for _name in ("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.transforms.functional"):
    sys.modules[_name] = types.ModuleType(_name)
sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]

import numpy as np
from streaming.base.batching import generate_work
from streaming.base.dataset import StreamingDataset
from streaming.base.world import World


def dataset(sizes: Any, canonical_nodes: int) -> Any:
    """What generate_work reads of a dataset, without the files: the method itself is the real one."""
    records, shards = int(sizes.sum()), sizes.size
    d = types.SimpleNamespace(
        num_streams=1,
        streams=[types.SimpleNamespace(choose=records)],
        shard_offset_per_stream=np.array([0]),
        shards_per_stream=np.array([shards]),
        samples_per_shard=sizes,
        sample_offset_per_shard=np.cumsum(sizes) - sizes,
        sampling_granularity=1,
        sampling_method="balanced",
        epoch_seed_change=True,
        shuffle=True,
        shuffle_algo="py1e",
        shuffle_seed=9176,
        shuffle_block_size=max(4_000_000 // canonical_nodes, 1 << 18),
        num_canonical_nodes=canonical_nodes,
        initial_physical_nodes=1,
        partition_algo="relaxed",
        epoch_size=records,
        batch_size=128,
    )
    d.resample_streams = types.MethodType(StreamingDataset.resample_streams, d)
    return d


def first_batch(records: int, shards: int, percent: int) -> Prepared:
    """An epoch start, or a resume at a percentage, on one node of 8 ranks with 128 records a device."""
    d = dataset(np.full(shards, records // shards, np.int64), 1)
    world = World(1, 8, 1, 0)
    return (lambda: generate_work("random", d, world, 0, records * percent // 100)), records


def fetched(shards: int, nodes: int) -> Prepared:
    """Shards fetched, summed over nodes, ÷ shards, with as many canonical nodes as nodes: its default for py1e."""
    sizes = np.random.default_rng(1).integers(500, 1500, shards)
    starts = np.cumsum(sizes) - sizes
    d = dataset(sizes, nodes)

    def run() -> float:
        work = generate_work("random", d, World(nodes, 8, 1, 0), 0, 0)
        shards_of = [np.unique(np.searchsorted(starts, part[part >= 0], side="right")) for part in work]
        return sum(found.size for found in shards_of) / shards

    return run, shards


if __name__ == "__main__":
    contest({"first_batch": first_batch, "fetched": fetched})
