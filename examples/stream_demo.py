"""Pack a small labelled dataset, stream it shuffled, die in mid-epoch, resume elsewhere, and compare every record.

    python examples/stream_demo.py

A child process reads with 4 ranks and batches of 64 and kills itself in mid-epoch with SIGKILL; all that is left is
the cursor that rank 0 had saved. Three ranks with batches of 48 read the rest. Prefix and suffix must be the epoch
that nobody interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tombola import Lanes, Stream, World, Writer

RECORDS, LABELS, SHARD_BYTES = 40_000, 10, 100_000
BEFORE, AFTER = {"ranks": 4, "size": 64}, {"ranks": 3, "size": 48}
DIES_AFTER = 250


def main() -> int:
    """Prints the demonstration; 1 if a resumed record differs from the uninterrupted run."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        pack(work / "data")
        throughput(work / "data")
        mixing(work / "data")
        return 0 if resume(work) else 1


def stream_of(data: Path, world: World, size: int, **options: object) -> Stream:
    """The stream of this run, for one rank."""
    return Stream(data, order=Lanes(lanes=12), seed=7, batch_size=size, world=world, tail="short", **options)


def pack(data: Path) -> None:
    """Records sorted by label, as a dataset is before anybody shuffles it."""
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    with Writer(data, columns={"text": "str", "label": "int"}, size_limit=SHARD_BYTES) as writer:
        for number in range(RECORDS):
            words = " ".join(f"w{word}" for word in rng.integers(0, 500, 20))
            writer.write({"text": words, "label": number * LABELS // RECORDS})
    took = time.perf_counter() - began
    files = sorted(data.glob("*.mds"))
    size = sum(file.stat().st_size for file in files)
    print(
        f"Packed {RECORDS:,} records, sorted by label, into {len(files)} shards of {size / 1e6:.1f} MB in {took:.1f} s."
    )


def throughput(data: Path) -> None:
    """How fast an epoch is read."""
    with stream_of(data, World(), 64) as stream:
        began = time.perf_counter()
        count = sum(len(batch) for batch in stream)
        print(f"  an epoch as batches: {count / (time.perf_counter() - began):,.0f} records/s")
        began = time.perf_counter()
        count = sum(1 for _ in stream.records())
        print(f"  an epoch as Python objects: {count / (time.perf_counter() - began):,.0f} records/s")


def mixing(data: Path) -> None:
    """How well labels are mixed: neighbours in a batch with the same label, against chance."""
    stream = stream_of(data, World(), 64)
    same, shards = [], []
    for batch in stream:
        labels = batch["label"]
        pairs = len(labels) * (len(labels) - 1)
        same.append(float((np.bincount(labels) * (np.bincount(labels) - 1)).sum()) / pairs)
        shards.append(np.unique(stream.layout.locate(batch.records)[0]).size)
    stream.close()
    print(
        f"  two rows of a batch have the same label: {np.mean(same):.3f}, by chance {1 / LABELS:.3f}, as stored 1.000"
    )
    print(f"  a batch mixes {np.mean(shards):.1f} shards\n")


def read_ranks(data: Path, out: Path, ranks: int, size: int, cursor: dict[str, object] | None) -> None:
    """All ranks in step, as in a training loop; each step appends its records, and rank 0 saves its cursor."""
    streams = [stream_of(data, World(rank=rank, ranks=ranks), size, cursor=cursor) for rank in range(ranks)]
    with (out / "read.txt").open("a") as log:
        for step, batches in enumerate(zip(*streams, strict=True)):
            if cursor is None and step == DIES_AFTER:
                os.kill(os.getpid(), signal.SIGKILL)
            if batches[0].epoch > 0:
                break
            positions = np.concatenate([batch.positions for batch in batches])
            texts = [text for batch in batches for text in batch["text"].tolist()]
            for row in np.argsort(positions).tolist():
                log.write(texts[row] + "\n")
            log.flush()
            aside = out / "cursor.tmp"
            aside.write_text(batches[0].cursor.to_json())
            aside.replace(out / "cursor.json")


def resume(work: Path) -> bool:
    """Kill a run, resume it under another world, compare."""
    data, out = work / "data", work / "out"
    out.mkdir()
    run = subprocess.run([sys.executable, __file__, "read", str(data), str(out)])
    lines = (out / "read.txt").read_text().splitlines()
    size = (out / "cursor.json").stat().st_size
    print(
        f"{BEFORE['ranks']} ranks read batches of {BEFORE['size']} until the process was killed (exit code "
        f"{run.returncode}): {len(lines):,} records. What is left is a cursor of {size} bytes."
    )
    cursor = json.loads((out / "cursor.json").read_text())
    read_ranks(data, out, AFTER["ranks"], AFTER["size"], cursor)
    found = (out / "read.txt").read_text().splitlines()
    whole = [record["text"] for record in stream_of(data, World(), 64).records()]
    same = found == whole
    print(f"{AFTER['ranks']} ranks read the rest in batches of {AFTER['size']}: {len(found) - len(lines):,} records.")
    print(f"prefix + suffix == the uninterrupted epoch of {len(whole):,} records, text for text: {same}")
    return same


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read_ranks(Path(sys.argv[2]), Path(sys.argv[3]), BEFORE["ranks"], BEFORE["size"], None)
    else:
        sys.exit(main())
