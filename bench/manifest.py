"""Opening a manifest of 200,000 shards: the first time, which parses it, and later, from what was kept.

python bench/manifest.py [--shards 200000]

Each opening is a process of its own; the memory is what its peak grew by over the imports (Linux). The shards are
compressed, with a sha1 hash of each file: the longest entry that is usual, about 480 bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = r"""
import re, sys, time
from tombola.formats import open_manifest
from tombola.stores import LocalStore
peak = lambda: int(re.search(r'VmHWM:\s+(\d+)', open('/proc/self/status').read())[1])
before = peak()
start = time.perf_counter()
manifest = open_manifest(LocalStore(sys.argv[1]), cache=LocalStore(sys.argv[2]))
layout = manifest.layout()
took = time.perf_counter() - start
grown = (peak() - before) / 1024
print(f"{sys.argv[3]:8} {took * 1000:8.0f} ms {grown:8.0f} MB   {layout}")
"""


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=200_000)
    shards = parser.parse_args().shards
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index.json")
        text = json.dumps({"shards": [entry(number) for number in range(shards)], "version": 2}, sort_keys=True)
        path.write_text(text)
        print(f"{shards} shards, {path.stat().st_size / 1e6:.0f} MB of text")
        for what in ("first", "later", "later", "later"):
            subprocess.run([sys.executable, "-c", PROGRAM, folder, f"{folder}/cache", what], check=True)


if __name__ == "__main__":
    main()
