"""tombola's side of bench/stream.py, and the floors: a bare loop over mapped shards, and memcpy in two ways.

Runs in the folder of the data.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
from _contestant import Prepared, contest, resident_bytes

from tombola import Lanes, Reading, Stream, Writer
from tombola.formats import open_manifest
from tombola.stores import LocalStore

BATCH = 64
FOLDER = "tombola"


def write(record: int, records: int, shards: int) -> Prepared:
    """The data, the same bytes for everybody: record i holds i as its label."""

    def run() -> int:
        rng = np.random.default_rng(0)
        limit = records // shards * (record + 16) + 400
        with Writer(FOLDER, columns={"data": "bytes", "label": "int"}, size_limit=limit) as writer:
            for number in range(records):
                writer.write({"data": rng.bytes(record), "label": number})
        return records

    return run, records


def _stream(lanes: int = 64, **options: object) -> Stream:
    return Stream(FOLDER, order=Lanes(lanes=lanes), batch_size=BATCH, seed=7, **options)


def batches(records: int, lanes: int) -> Prepared:
    """An epoch of batches, a new one with each call."""
    stream = _stream(lanes)

    def run() -> int:
        return sum(len(batch) for batch in stream)

    run()
    return run, records // BATCH * BATCH


def objects(records: int, lanes: int) -> Prepared:
    """The same, every record as a dict of Python objects."""
    stream = _stream(lanes)

    def run() -> int:
        return sum(1 for _ in stream.records())

    run()
    return run, records // BATCH * BATCH


def lists(records: int, lanes: int) -> Prepared:
    """Batches whose columns are turned into lists of Python objects."""
    stream = _stream(lanes)

    def run() -> int:
        return sum(len(batch["data"].tolist()) + 0 * len(batch["label"].tolist()) for batch in stream)

    run()
    return run, records // BATCH * BATCH


def mixing(records: int, lanes: int, what: int) -> Prepared:
    """Shards a batch (what=0), or the share of pairs in a batch that come from one shard (1)."""
    stream = _stream(lanes)

    def run() -> float:
        found = []
        for batch in stream:
            counts = np.unique(stream.layout.locate(batch.records)[0], return_counts=True)[1]
            found.append(counts.size if what == 0 else (counts * (counts - 1)).sum() / (BATCH * (BATCH - 1)))
        return float(np.mean(found))

    return run, records


def mmap_loop(records: int) -> Prepared:
    """The least a Python loop can do: an offset and a slice of the mapped file for each record, in a shuffled order."""
    store = LocalStore(FOLDER, read="mmap")
    manifest = open_manifest(store)
    files, tables = [], []
    for shard in manifest:
        data = store.read(shard.raw.key)
        files.append(data)
        tables.append(np.frombuffer(data, "<u4", shard.records + 1, 4).tolist())
    order = Lanes(lanes=min(64, len(manifest))).over(manifest.layout(), seed=7)
    shards, places = order.layout.locate(order.slice(0, len(order)))
    where = list(zip(shards.tolist(), places.tolist(), strict=True))

    def run() -> int:
        total = 0
        for shard, place in where:
            table = tables[shard]
            total += len(bytes(files[shard][table[place] : table[place + 1]]))
        return total

    run()
    return run, records


def memcpy(record: int, records: int) -> Prepared:
    """One core: the bytes of all batches at once from one block into another, both larger than the cache."""
    _pin()
    block = np.ones(records // BATCH * BATCH * record, np.uint8)
    target = np.zeros_like(block)

    def run() -> None:
        np.copyto(target, block)

    return run, records // BATCH * BATCH


def memcpy_cached(record: int, records: int) -> Prepared:
    """One core: batch by batch out of such a block into one batch that is used again and never leaves the cache."""
    _pin()
    rows = BATCH * record
    block = np.ones(records // BATCH * rows, np.uint8).reshape(-1, rows)
    target = np.zeros(rows, np.uint8)

    def run() -> None:
        for source in block:
            np.copyto(target, source)

    run()
    return run, records // BATCH * BATCH


def _pin() -> None:
    """Stays on one core from here on, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def first_batch(percent: int) -> Prepared:
    """A fresh stream to its first batch, at a percentage of the epoch."""
    plain = _stream()
    cursor = plain.cursor_at(len(plain) * percent // 100, 0)
    plain.close()

    def run() -> int:
        with _stream(cursor=cursor) as stream:
            return next(iter(stream)).step

    run()
    return run, 1


def growth(epochs: int, datasets: int, what: int) -> Prepared:
    """What epochs and datasets opened and dropped leave behind: megabytes of resident memory (what=0), file
    descriptors (1) or threads (2). Memory goes up and down with what the allocator keeps, so it is looked at after
    each: the median of the last third less that of the first. Pages of mapped files are the system's and do not count.
    """
    held: list[float] = []
    places = ("", "/proc/self/fd", "/proc/self/task")

    def look() -> None:
        gc.collect()
        if what:
            time.sleep(0.05)  # threads that were told to end do so
        held.append(resident_bytes("RssAnon") / 1e6 if what == 0 else len(os.listdir(places[what])))

    def run() -> float:
        stream = _stream(reading=Reading(ahead_bytes_max=8 << 20))
        for done in range(epochs + 5):
            sum(len(batch) for batch in stream)
            if done >= 5:
                look()
        for seed in range(datasets):
            next(iter(Stream(FOLDER, batch_size=BATCH, seed=seed, reading=Reading(ahead_bytes_max=8 << 20))))
            look()
        third = len(held) // 3
        return statistics.median(held[-third:]) - statistics.median(held[:third])

    return run, 1


def entry(number: int) -> dict[str, object]:
    """What a manifest says of a shard."""

    def file(name: str, size: int) -> dict[str, object]:
        return {"basename": name, "bytes": size, "hashes": {"sha1": hashlib.sha1(name.encode()).hexdigest()}}

    return {
        "column_encodings": ["bytes", "int"],
        "column_names": ["data", "label"],
        "column_sizes": [None, 8],
        "compression": "zstd:3",
        "format": "mds",
        "hashes": ["sha1"],
        "raw_data": file(f"shard.{number:05d}.mds", 67_108_000 + number % 100),
        "samples": 1000 + number % 7,
        "size_limit": 1 << 26,
        "version": 2,
        "zip_data": file(f"shard.{number:05d}.mds.zstd", 33_000_000),
    }


def manifest_write(shards: int) -> Prepared:
    """A manifest alone: of compressed shards with a sha1 hash of each file, the longest entry that is usual."""

    def run() -> int:
        Path("manifest").mkdir()
        text = json.dumps({"shards": [entry(number) for number in range(shards)], "version": 2}, sort_keys=True)
        Path("manifest", "index.json").write_text(text)
        return len(text)

    return run, shards


def manifest_open() -> Prepared:
    """The manifest and its layout; the first time it is parsed, later what was kept of it is read."""

    def run() -> int:
        return open_manifest(LocalStore("manifest"), cache=LocalStore("kept")).layout().shards

    return run, 1


if __name__ == "__main__":
    contest(
        {
            "write": write,
            "batches": batches,
            "objects": objects,
            "mixing": mixing,
            "mmap_loop": mmap_loop,
            "memcpy": memcpy,
            "memcpy_cached": memcpy_cached,
            "first_batch": first_batch,
            "growth": growth,
            "manifest_write": manifest_write,
            "manifest_open": manifest_open,
            "lists": lists,
        }
    )
