# ruff: noqa: C408 — the peer's keywords, as keywords
"""mosaicml-streaming 0.13.0 as an oracle: its order functions on integers, without data, torchvision or shared memory.

Runs in a venv of its own (`python bench/peers.py mosaic`) and imports nothing of tombola. As a program
it writes the outputs of many random small cases, which `tests/vectors/mosaic/peer.json` holds:

    bench/.venv-mosaic/bin/python bench/mosaic_peer.py tests/vectors/mosaic/peer.json
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import pathlib
import sys
import types
import warnings
from typing import Any

import numpy as np

# The package's top __init__ imports torchvision, which has no place here: give the parents a path and no code.
_found = importlib.util.find_spec("streaming")
if _found is None or _found.origin is None:
    raise SystemExit("mosaicml-streaming is not installed here; run python bench/peers.py mosaic")
_root = pathlib.Path(_found.origin).parent
for _name, _path in (("streaming", _root), ("streaming.base", _root / "base")):
    _module = types.ModuleType(_name)
    _module.__path__ = [str(_path)]
    sys.modules[_name] = _module

from streaming.base.batching import generate_work
from streaming.base.dataset import StreamingDataset
from streaming.base.partition import get_partitions
from streaming.base.sampling import get_sampling
from streaming.base.shuffle import get_shuffle
from streaming.base.stream import Stream
from streaming.base.world import World


def dataset(sizes: list[list[int]], weights: list[dict[str, Any]], **options: Any) -> StreamingDataset:
    """A dataset of streams of shards of the given sizes, with what its order functions read and nothing else."""
    out = object.__new__(StreamingDataset)
    flat = np.array([size for stream in sizes for size in stream], np.int64)
    counts = np.array([len(stream) for stream in sizes], np.int64)
    streams = [Stream(local="unused", **weight) for weight in weights]
    seed = options.get("shuffle_seed", 9176)
    epoch_size = Stream.apply_weights(
        streams, np.array([sum(s) for s in sizes], np.int64), options.get("epoch_size"), seed
    )
    shuffle = options.get("shuffle", False)
    method = options.get("sampling_method", "balanced")
    values = dict(
        streams=streams,
        num_streams=len(streams),
        samples_per_shard=flat,
        sample_offset_per_shard=flat.cumsum() - flat,
        shards_per_stream=counts,
        shard_offset_per_stream=counts.cumsum() - counts,
        stream_per_shard=np.repeat(np.arange(len(sizes)), counts),
        epoch_size=epoch_size,
        batch_size=options["batch_size"],
        num_canonical_nodes=options["num_canonical_nodes"],
        initial_physical_nodes=options.get("initial_physical_nodes"),
        partition_algo=options.get("partition_algo", "relaxed"),
        shuffle=shuffle,
        shuffle_algo=options.get("shuffle_algo", "py1e"),
        shuffle_seed=seed,
        shuffle_block_size=options.get("shuffle_block_size", 1 << 18),
        sampling_method=method,
        sampling_granularity=options.get("sampling_granularity", 1),
        epoch_seed_change=shuffle and method == "balanced",
        batching_method=options.get("batching_method", "random"),
    )
    for name, value in values.items():
        object.__setattr__(out, name, value)
    return out


def work(data: StreamingDataset, nodes: int, ranks: int, workers: int, epoch: int, sample_in_epoch: int) -> Any:
    """`generate_work` of a dataset for a world."""
    world = World(num_nodes=nodes, ranks_per_node=ranks, workers_per_rank=workers, worker=0)
    return generate_work(data.batching_method, data, world, epoch, sample_in_epoch)


def _ids(call: Any) -> dict[str, Any]:
    try:
        out = call()
    except (ValueError, ZeroDivisionError, IndexError) as error:
        return {"error": type(error).__name__}
    return {"ids": out.reshape(-1).tolist()} | ({"shape": list(out.shape)} if out.ndim > 1 else {})


def _cases(rng: np.random.Generator) -> dict[str, Any]:
    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    def some_sizes(shards_max: int, size_max: int, empty: float) -> list[int]:
        sizes = rng.integers(1, size_max, int(rng.integers(1, shards_max)))
        sizes[rng.random(sizes.size) < empty] = 0
        return sizes.tolist()

    shuffles, deals, samples, works = [], [], [], []
    for algo in ("naive", "py1s", "py2s", "py1br", "py1e"):
        for _ in range(40):
            case = dict(
                algo=algo,
                shard_sizes=some_sizes(9, pick(3, 9, 40), pick(0, 0.4)),
                num_canonical_nodes=int(rng.integers(1, 6)),
                seed=int(pick(0, 7, 9176, 2**31, 2**32 + 1)),
                epoch=int(rng.integers(4)),
                block_size=int(rng.integers(2, 40)),
            )
            sizes = np.array(case["shard_sizes"], np.int64)
            shuffles.append(
                case
                | _ids(
                    lambda c=case, s=sizes: get_shuffle(
                        c["algo"], s, c["num_canonical_nodes"], c["seed"], c["epoch"], c["block_size"]
                    )
                )
            )
    for _ in range(250):
        ratio, base = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        canonical, nodes = pick(
            (base, base * ratio), (base * ratio, base), (int(rng.integers(1, 7)), int(rng.integers(1, 7)))
        )
        case = dict(
            algo=pick("orig", "relaxed"),
            num_samples=int(rng.integers(1, pick(12, 90))),
            num_canonical_nodes=canonical,
            num_physical_nodes=nodes,
            ranks_per_node=int(rng.integers(1, 5)),
            workers_per_rank=int(rng.integers(1, 4)),
            batch_size=int(rng.integers(1, 5)),
            drop_first=int(pick(0, rng.integers(0, 20))),
            initial_physical_nodes=pick(None, None, int(rng.integers(1, 5))),
        )
        deals.append(case | _ids(lambda c=case: get_partitions(*c.values())))
    # Few records on more nodes than canonical nodes: rows too short to be padded as meant.
    for canonical, ratio, records in itertools.product((1, 2), (2, 3, 5, 6), range(1, 14)):
        case = dict(
            algo="orig", num_samples=records, num_canonical_nodes=canonical, num_physical_nodes=canonical * ratio
        )
        case |= dict(ranks_per_node=1, workers_per_rank=1, batch_size=1, drop_first=0, initial_physical_nodes=None)
        deals.append(case | _ids(lambda c=case: get_partitions(*c.values())))
    for _ in range(40):
        case = dict(
            samples_per_shard=some_sizes(6, 30, 0.1),
            choose=int(rng.integers(0, 200)),
            granularity=int(rng.integers(1, 9)),
            seed=int(rng.integers(9)),
            epoch=int(rng.integers(3)),
            use_epoch=bool(pick(True, False)),
        )
        if sum(case["samples_per_shard"]):
            samples.append(
                case
                | {
                    "choose_per_shard": get_sampling(
                        np.array(case["samples_per_shard"], np.int64), *list(case.values())[1:]
                    ).tolist()
                }
            )
    for method in ("random", "stratified", "per_stream", "device_per_stream"):
        for _ in range(60):
            sizes = [some_sizes(6, 40, pick(0, 0, 0.2)) for _ in range(int(rng.integers(1, 4)))]
            sizes = [s if sum(s) else [5] for s in sizes]
            kind = pick("none", "proportion", "absolute")
            weights = [
                {
                    "none": {},
                    "proportion": {"proportion": round(float(rng.random()) + 0.05, 3)},
                    "absolute": pick(
                        {"repeat": round(float(rng.random()) * 2 + 0.2, 2)},
                        {"choose": int(rng.integers(5, 120))},
                        {},
                    ),
                }[kind]
                for _ in sizes
            ]
            options = dict(
                batching_method=method,
                batch_size=int(rng.integers(1, 6)),
                num_canonical_nodes=int(pick(1, 2, 4, 6)),
                shuffle=bool(pick(True, True, False)),
                shuffle_algo=pick("naive", "py1s", "py2s", "py1br", "py1e"),
                shuffle_seed=int(rng.integers(99)),
                shuffle_block_size=int(rng.integers(30, 90)),
                sampling_method=pick("balanced", "fixed"),
                sampling_granularity=int(pick(1, 1, 5)),
                partition_algo=pick("orig", "relaxed"),
                initial_physical_nodes=pick(None, None, 2),
            )
            if kind != "absolute" and pick(True, False):
                options["epoch_size"] = int(rng.integers(20, 200))
            world = dict(
                nodes=int(pick(1, 2, 4)),
                ranks_per_node=int(pick(1, 2)),
                workers_per_rank=int(pick(1, 2)),
                epoch=int(rng.integers(3)),
            )
            device = options["batch_size"] * world["nodes"] * world["ranks_per_node"]
            world["sample_in_epoch"] = int(pick(0, device, 2 * device, rng.integers(20)))
            data = dataset(sizes, weights, **options)
            works.append(
                {
                    "sizes": sizes,
                    "weights": weights,
                    "options": options,
                    "world": world,
                    "epoch_size": int(data.epoch_size),
                    "choose": [int(s.choose) for s in data.streams],
                    "proportion": [float(s.proportion) for s in data.streams],
                }
                | _ids(lambda d=data, w=world: work(d, *w.values()))
            )
    return {
        "peer": "mosaicml-streaming 0.13.0",
        "numpy": np.__version__,
        "shuffle": shuffles,
        "deal": deals,
        "sampling": samples,
        "work": works,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = _cases(np.random.default_rng(20260))
    lines = [
        f'"{key}": '
        + (
            json.dumps(value)
            if isinstance(value, str)
            else "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in value) + "\n]"
        )
        for key, value in found.items()
    ]
    pathlib.Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
