"""Record the order in which another loader visits record ids: run inside that loader's own environment.

    bench/.venv-mosaic/bin/python bench/record_orders.py py1s OUT.npy --lanes 64 --block 2000

Each run writes an int32 array, one row per seed, of the record ids in the order they come out. Nothing is imported
from tombola here, so that the peers' pins cannot touch it.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SHARDS, SIZE = 1024, 1000


def mosaic(args: argparse.Namespace, seed: int) -> np.ndarray:
    """mosaicml-streaming's own get_shuffle and get_partitions, on one node with one rank."""
    # The package's __init__ imports its vision datasets and with them torchvision, which the orders do not need.
    if "streaming" not in sys.modules:
        spec = importlib.util.find_spec("streaming")
        package = types.ModuleType("streaming")
        package.__path__ = list((spec.submodule_search_locations if spec else None) or [])
        sys.modules["streaming"] = package
    from streaming.base.partition import get_partitions
    from streaming.base.shuffle import get_shuffle

    sizes = np.full(args.shards, args.size)
    ids = get_shuffle(args.peer, sizes, args.lanes, seed, args.epoch, args.block or 1 << 18)
    places = get_partitions("orig", int(sizes.sum()), args.lanes, 1, 1, 1, args.batch_size, 0).reshape(-1)
    return ids[places[places >= 0]]


def _rows(shards: list[int], size: int) -> Iterator[dict[str, int]]:
    for shard in shards:
        for record in range(shard * size, (shard + 1) * size):
            yield {"id": record}


def datasets(args: argparse.Namespace, seed: int) -> np.ndarray:
    """IterableDataset.shuffle of Hugging Face datasets, read in one process."""
    from datasets import IterableDataset

    stream = IterableDataset.from_generator(
        _rows, gen_kwargs={"shards": list(range(args.shards)), "size": args.size}
    ).shuffle(seed=seed, buffer_size=args.buffer, max_buffer_input_shards=args.lanes)
    stream.set_epoch(args.epoch)
    return np.fromiter((row["id"] for row in stream), np.int64)


def webdataset(args: argparse.Namespace, seed: int) -> np.ndarray:
    """WebDataset's detshuffle of shards, then of samples, as its README's pipeline has them."""
    from webdataset.filters import detshuffle

    names = detshuffle(args.shards, args.shards, seed).run(iter(range(args.shards)))
    rows = (record for name in names for record in range(name * args.size, (name + 1) * args.size))
    return np.fromiter(detshuffle(args.buffer, min(args.buffer, 100), seed).run(rows), np.int64)


def litdata(args: argparse.Namespace, seed: int) -> np.ndarray:
    """LitData's StreamingDataset(shuffle=True) over chunks that its own writer wrote."""
    from litdata import StreamingDataset
    from litdata.streaming import Cache

    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(folder, chunk_size=args.size)
        for record in range(args.shards * args.size):
            cache[record] = record
        cache.done()
        cache.merge()
        return np.fromiter((int(r) for r in StreamingDataset(folder, shuffle=True, seed=seed)), np.int64)


PEERS = {"py1s": mosaic, "py1e": mosaic, "py1br": mosaic, "py2s": mosaic, "naive": mosaic}
PEERS |= {"datasets": datasets, "webdataset": webdataset, "litdata": litdata}


def main() -> None:
    """Write the ids."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("out", type=Path)
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument(
        "--lanes", type=int, default=64, help="canonical nodes, or shards fed into the buffer at a time"
    )
    parser.add_argument("--block", type=int, default=0, help="records a block (py1e, py1br)")
    parser.add_argument("--buffer", type=int, default=1000, help="records in the shuffle buffer")
    args = parser.parse_args()
    rows = [PEERS[args.peer](args, seed).astype(np.int32) for seed in range(7, 7 + args.seeds)]
    for row in rows:
        if np.unique(row).size != args.shards * args.size:
            print(f"{args.peer}: {row.size} ids, {np.unique(row).size} distinct", file=sys.stderr)
    np.save(args.out, np.stack(rows))


if __name__ == "__main__":
    main()
