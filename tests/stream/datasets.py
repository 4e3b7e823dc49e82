"""Small real datasets for the tests of streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tombola import Writer
from tombola.formats import encode_mds, open_manifest, open_shard
from tombola.stores import LocalStore, MemoryStore, Store

COLUMNS = {"text": "str", "blob": "bytes", "label": "int", "vector": "ndarray:float32:3", "loose": "ndarray"}


def record(number: int) -> dict[str, Any]:
    """A record of every kind of column; what it holds follows from its number."""
    return {
        "text": f"record {number} " + "é" * (number % 5),
        "blob": bytes([number % 256]) * (number * 7 % 23),
        "label": number,
        "vector": np.arange(3, dtype=np.float32) + number,
        "loose": np.full((2, 1 + number // 64 % 2), number, np.int16),
    }


def of_sizes(sizes: list[int], columns: tuple[str, ...] = tuple(COLUMNS)) -> MemoryStore:
    """A dataset with shards of exactly these sizes, the empty ones included."""
    files: dict[str, bytes] = {}
    entries = []
    spec = {name: COLUMNS[name] for name in sorted(columns)}
    first = 0
    for number, size in enumerate(sizes):
        data = encode_mds([{name: record(at)[name] for name in columns} for at in range(first, first + size)], spec)
        first += size
        files[f"shard.{number:05d}.mds"] = data
        entries.append(
            {
                "format": "mds",
                "version": 2,
                "column_names": list(spec),
                "column_encodings": list(spec.values()),
                "column_sizes": [{"int": 8, "ndarray:float32:3": 12}.get(kind) for kind in spec.values()],
                "compression": None,
                "hashes": [],
                "size_limit": None,
                "samples": size,
                "zip_data": None,
                "raw_data": {"basename": f"shard.{number:05d}.mds", "bytes": len(data), "hashes": {}},
            }
        )
    files["index.json"] = json.dumps({"shards": entries, "version": 2}).encode()
    return MemoryStore(files)


def on_disk(folder: Path, records: int = 600, shards: int = 12, **options: Any) -> Path:
    """A dataset of equal shards in a folder."""
    spec = {"text": "str", "label": "int"}
    each = -(-records // shards)
    size = len(encode_mds([{"text": f"record {n:06d}", "label": n} for n in range(each)], spec)) + 200
    with Writer(folder, columns=spec, size_limit=size, **options) as writer:
        for number in range(records):
            writer.write({"text": f"record {number:06d}", "label": number})
    return folder


def one_by_one(store: Store | Path) -> list[dict[str, Any]]:
    """Every record of a dataset, read in the plainest way there is."""
    store = LocalStore(store) if isinstance(store, Path) else store
    manifest = open_manifest(store)
    return [found for number in range(len(manifest)) for found in open_shard(manifest, number, store)]


def same(left: Any, right: Any) -> bool:
    """Equal, whether arrays or not."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return bool(left == right)


@st.composite
def sizes(draw: st.DrawFn, records_max: int = 400) -> list[int]:
    """Records per shard: ragged, some empty."""
    each = max(1, records_max // 12)
    return draw(st.lists(st.integers(0, each), min_size=1, max_size=12).filter(any))
