"""Gathering batches out of mapped MDS shards: bytes per second against memcpy on one core.

python bench/gather.py [--mb 512]

Each row is one size of record. Records come from 64 shards in a shuffled order, page cache warm; `batches` gathers
64 records a call, `wide` 1024 records a call (several batches ahead), `slow twin` is the Python reading of the same
format. The floor is memcpy on one core: blocks of 64 records, one after the other,
out of an array as large as the data into one that is used again. Medians of
interleaved rounds. `1 thread` and `all` are the threads that gather may use.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np

from tombola import Lanes, Writer
from tombola.formats import gather, gather_slow, open_manifest, open_shard
from tombola.stores import LocalStore

ROUNDS = 5
SIZES = {"200 B": 200, "8 KiB": 8192, "100 KB": 100_000}


def measure(run: Callable[[], int], seconds: float = 0.25) -> float:
    """Bytes per second of a call that says how many bytes it made, repeated for a while."""
    done, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        done += run()
    return done / took


def contestants(folder: str, record: int, total: int) -> dict[str, Callable[[], int]]:
    """Writes the data and returns what is to be timed."""
    records = max(64 * 64, total // record)
    rng = np.random.default_rng(0)
    per_shard = records // 64
    with Writer(
        folder, columns={"data": "bytes", "label": "int"}, size_limit=per_shard * (record + 16) + 400
    ) as writer:
        for number in range(records):
            writer.write({"data": rng.bytes(record), "label": number})
    store = LocalStore(folder, read="mmap")
    manifest = open_manifest(store)
    shards = [open_shard(manifest, number, store) for number in range(len(manifest))]
    order = Lanes(lanes=min(64, len(shards))).over(manifest.layout(), seed=7)
    where, starts = order.slice(0, len(order)), manifest.layout().starts
    numbers = np.searchsorted(starts, where, side="right") - 1
    places = where - starts[numbers]
    position = 0

    def batch(rows: int, threads: int, function: Callable[..., object]) -> Callable[[], int]:
        def run() -> int:
            nonlocal position
            if position + rows > len(order):
                position = 0
            cut = slice(position, position + rows)
            position += rows
            if threads:
                function(shards, numbers[cut], places[cut], threads=threads)
            else:
                function(shards, numbers[cut], places[cut])
            return rows * record

        return run

    # As a gather: out of memory that no cache holds, into a batch that is used again.
    rows = 64 * record
    block, target = np.ones(total // rows * rows, np.uint8).reshape(-1, rows), np.empty(rows, np.uint8)
    target[:] = 0

    def memcpy() -> int:
        for source in block:
            np.copyto(target, source)
        return block.size

    wide = 1024 if record < 50_000 else 256
    cores = os.cpu_count() or 1
    return {
        "memcpy": memcpy,
        "batches, 1 thread": batch(64, 1, gather),
        f"batches, {cores} threads": batch(64, cores, gather),
        f"{wide} a call, 1 thread": batch(wide, 1, gather),
        f"{wide} a call, {cores} threads": batch(wide, cores, gather),
        "slow twin": batch(64, 0, gather_slow),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=256, help="megabytes of data per size of record")
    options = parser.parse_args()
    print(f"{'record':8} {'what':24} {'GB/s':>7} {'of memcpy':>10} {'records/s':>12}")
    for name, record in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            runs = contestants(folder, record, options.mb << 20)
            speeds: dict[str, list[float]] = {what: [] for what in runs}
            for _ in range(ROUNDS):
                for what, run in runs.items():
                    speeds[what].append(measure(run))
            floor = statistics.median(speeds["memcpy"])
            for what, found in speeds.items():
                speed = statistics.median(found)
                print(f"{name:8} {what:24} {speed / 1e9:7.2f} {speed / floor:10.2f} {speed / record:12,.0f}")


if __name__ == "__main__":
    main()
