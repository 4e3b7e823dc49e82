"""The peers' side of bench/stream.py: each writes the same records in its own format and reads them shuffled.

Run in the peer's own environment and in the data's folder; nothing of tombola is imported. Cases are named PEER_write,
PEER_read and PEER_mixing. All read in one process, with no decoding, in batches of 64 where the peer has batches.
"""

from __future__ import annotations

import importlib
import io
import itertools
import sys
import tarfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _contestant import Prepared, contest

BATCH = 64


def rows(record: int, records: int) -> Iterator[tuple[bytes, int]]:
    """The same bytes as everybody's."""
    rng = np.random.default_rng(0)
    for number in range(records):
        yield rng.bytes(record), number


# ---- mosaicml-streaming: reads the MDS shards that tombola wrote


def _streaming() -> Any:
    # Its top-level import wants torchvision for the vision datasets, which are not used here.
    importlib.import_module("transformers.feature_extraction_utils")
    for name in ("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.transforms.functional"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
    sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]
    return importlib.import_module("streaming")


def mosaic(records: int) -> Callable[[], Iterator[list[int]]]:
    dataset = _streaming().StreamingDataset(
        local="tombola", batch_size=BATCH, shuffle=True, shuffle_algo="py1e", num_canonical_nodes=1, shuffle_seed=7
    )

    def epoch() -> Iterator[list[int]]:
        found = iter(dataset)
        while labels := [int(row["label"]) for row in itertools.islice(found, BATCH)]:
            yield labels

    return epoch


def mosaic_open() -> Prepared:
    """A manifest alone, as each rank opens it: the reader of every shard."""
    streaming = _streaming()
    world = importlib.import_module("streaming.base.world").World.detect()

    def run() -> int:
        return len(streaming.Stream(local="manifest").get_shards(world, False))

    return run, 1


# ---- Hugging Face datasets


def datasets_write(record: int, records: int, shards: int) -> Prepared:
    from datasets import Dataset

    def run() -> int:
        data, label = zip(*rows(record, records), strict=True)
        Dataset.from_dict({"data": list(data), "label": list(label)}).save_to_disk("datasets", num_shards=shards)
        return records

    return run, records


def datasets_stream(records: int) -> Callable[[], Iterator[list[int]]]:
    """Its streaming shuffle: shards in a random order, and a buffer of 1000 fed from 64 of them."""
    from datasets import load_from_disk

    found = load_from_disk("datasets")
    stream = found.to_iterable_dataset(num_shards=64)
    try:
        stream = stream.shuffle(seed=7, buffer_size=1000, max_buffer_input_shards=64)
    except TypeError:
        stream = stream.shuffle(seed=7, buffer_size=1000)
    return lambda: (batch["label"] for batch in stream.iter(BATCH))


def _map_style(one_piece: bool) -> Callable[[], Iterator[list[int]]]:
    from datasets import load_from_disk

    found = load_from_disk("datasets").with_format("arrow")
    seeds = itertools.count(7)

    def epoch() -> Iterator[list[int]]:
        for table in found.shuffle(seed=next(seeds)).iter(batch_size=BATCH):
            if one_piece:
                table = table.combine_chunks()
            yield table["label"].to_numpy().tolist()

    return epoch


def datasets_map(records: int) -> Callable[[], Iterator[list[int]]]:
    """Its map-style shuffle: a table of all records in memory, batches as Arrow tables, buffer and offsets."""
    return _map_style(True)


def datasets_refs(records: int) -> Callable[[], Iterator[list[int]]]:
    """The same, where a batch is a list of references into the files: no byte of a record is read or moved."""
    return _map_style(False)


# ---- WebDataset


def webdataset_write(record: int, records: int, shards: int) -> Prepared:
    def run() -> int:
        Path("webdataset").mkdir(exist_ok=True)
        each = -(-records // shards)
        source = rows(record, records)
        for shard in range(shards):
            with tarfile.open(f"webdataset/{shard:05d}.tar", "w", format=tarfile.USTAR_FORMAT) as out:
                for data, label in itertools.islice(source, each):
                    for name, value in (("data", data), ("label", str(label).encode())):
                        info = tarfile.TarInfo(f"{label:09d}.{name}")
                        info.size = len(value)
                        out.addfile(info, io.BytesIO(value))
        return records

    return run, records


def webdataset(records: int) -> Callable[[], Iterator[list[int]]]:
    import webdataset as wds

    names = sorted(map(str, Path("webdataset").glob("*.tar")))
    stream = wds.WebDataset(names, shardshuffle=len(names), empty_check=False).shuffle(1000).batched(BATCH)
    return lambda: ([int(label) for label in batch["label"]] for batch in stream)


# ---- LitData


def litdata_write(record: int, records: int, shards: int) -> Prepared:
    from litdata.streaming import Cache

    def run() -> int:
        Path("litdata").mkdir(exist_ok=True)
        cache = Cache("litdata", chunk_size=-(-records // shards))
        for data, label in rows(record, records):
            cache[label] = {"data": data, "label": label}
        cache.done()
        cache.merge()
        return records

    return run, records


def litdata(records: int) -> Callable[[], Iterator[list[int]]]:
    from litdata import StreamingDataset

    stream = StreamingDataset("litdata", shuffle=True, seed=7)

    def epoch() -> Iterator[list[int]]:
        found = iter(stream)
        while labels := [int(row["label"]) for row in itertools.islice(found, BATCH)]:
            yield labels

    return epoch


# ---- cases


def reading(open_it: Callable[[int], Callable[[], Iterator[list[int]]]]) -> Callable[..., Prepared]:
    def case(records: int, limit: int) -> Prepared:
        """An epoch, or the first batches of it that hold `limit` records."""
        epoch = open_it(records)

        def run() -> int:
            count = 0
            for labels in epoch():
                count += len(labels)
                if count >= limit:
                    break
            return count

        return run, min(records, limit)

    return case


def mixing(open_it: Callable[[int], Callable[[], Iterator[list[int]]]]) -> Callable[..., Prepared]:
    def case(records: int, shards: int, what: int) -> Prepared:
        epoch = open_it(records)
        each = -(-records // shards)

        def run() -> float:
            found: list[Any] = []
            for labels in itertools.islice(epoch(), 20, 1020):
                counts = np.unique(np.asarray(labels) // each, return_counts=True)[1]
                rows_ = len(labels)
                found.append(counts.size if what == 0 else (counts * (counts - 1)).sum() / (rows_ * (rows_ - 1)))
            return float(np.mean(found))

        return run, records

    return case


READERS = {
    "mosaic": mosaic,
    "datasets_stream": datasets_stream,
    "datasets_map": datasets_map,
    "datasets_refs": datasets_refs,
    "webdataset": webdataset,
    "litdata": litdata,
}

if __name__ == "__main__":
    cases: dict[str, Callable[..., Prepared]] = {
        "datasets_write": datasets_write,
        "webdataset_write": webdataset_write,
        "litdata_write": litdata_write,
        "mosaic_open": mosaic_open,
    }
    for name, open_it in READERS.items():
        cases[f"{name}_read"] = reading(open_it)
        cases[f"{name}_mixing"] = mixing(open_it)
    contest(cases)
