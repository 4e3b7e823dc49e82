"""`tombola info`: what a dataset holds, from its manifest alone."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from tombola.cli._dataset import add_dataset
from tombola.cli._table import print_pairs
from tombola.formats import Manifest, open_manifest
from tombola.stores import LocalStore


def add(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("info", allow_abbrev=False, help="show what a dataset holds", description=__doc__)
    add_dataset(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    store = LocalStore(arguments.dataset)
    # Nothing is decoded here, so pickled columns do no harm.
    found = _info(open_manifest(store, allow_unsafe=True), store.uri)
    if arguments.json:
        print(json.dumps(found))
        return 0
    sizes, columns = found["records_per_shard"], found["columns"]
    print_pairs(
        [
            ("dataset", found["dataset"]),
            ("records", found["records"]),
            ("shards", f"{found['shards']:,} of {sizes['least']:,} to {sizes['most']:,} records"),
            ("bytes", f"{found['raw_bytes']:,} as read, {found['stored_bytes']:,} as stored"),
            ("a record", f"{found['record_bytes']:,.1f} bytes on average"),
            ("format", ", ".join(found["formats"])),
            ("compression", ", ".join(found["compressions"]) or "none"),
            ("hashes", ", ".join(found["hashes"]) or "none"),
            ("digest", found["digest"]),
            *((f"column {name}", kind) for name, kind in columns.items()),
        ]
    )
    return 0


def _info(manifest: Manifest, uri: str) -> dict[str, Any]:
    sizes = manifest.records_of if len(manifest) else np.zeros(1, np.int64)
    raw = int(manifest.raw_bytes.sum())
    return {
        "dataset": uri,
        "records": manifest.records,
        "shards": len(manifest),
        "records_per_shard": {"least": int(sizes.min()), "mean": float(sizes.mean()), "most": int(sizes.max())},
        "raw_bytes": raw,
        "stored_bytes": int(manifest.stored_bytes.sum()),
        "record_bytes": raw / max(1, manifest.records),
        "formats": sorted({schema.format for schema in manifest.schemas}),
        "compressions": sorted({schema.compression for schema in manifest.schemas if schema.compression}),
        "hashes": sorted({name for files in manifest.files.values() for name in files.hashes}),
        "columns": manifest.columns.spec(),
        "digest": manifest.digest,
    }
