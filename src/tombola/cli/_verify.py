"""`tombola verify`: reads every file and every record of a dataset; exit code 1 when something is wrong."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tombola.cli._dataset import add_dataset
from tombola.cli._table import print_pairs, print_rows
from tombola.errors import DataError
from tombola.formats import Manifest, check_file, open_manifest, open_shard
from tombola.stores import LocalStore, Store


def add(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("verify", allow_abbrev=False, help="check every hash and record", description=__doc__)
    add_dataset(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    store = LocalStore(arguments.dataset, read="pread")  # a damaged disk then gives an error and not a signal
    manifest = open_manifest(store, allow_unsafe=arguments.allow_unsafe)
    counts = {"shards": len(manifest), "records": manifest.records, "hashes": 0, "records_read": 0}
    problems: list[dict[str, Any]] = []
    for number in range(len(manifest)):
        _verify(manifest, number, store, arguments.allow_unsafe, counts, problems)
    if arguments.json:
        print(json.dumps({**counts, "problems": problems}))
        return 1 if problems else 0
    print_pairs(
        [
            ("shards", counts["shards"]),
            ("hashes checked", counts["hashes"]),
            ("records read", f"{counts['records_read']:,} of {counts['records']:,}"),
            ("problems", len(problems)),
        ]
    )
    if problems:
        print_rows(
            ["shard", "record", "problem"],
            [[problem["shard"], problem["record"], problem["message"]] for problem in problems],
        )
    return 1 if problems else 0


def _verify(
    manifest: Manifest,
    number: int,
    store: Store,
    allow_unsafe: bool,
    counts: dict[str, int],
    problems: list[dict[str, Any]],
) -> None:
    """Checks a shard: each of its files against all hashes it has, then each record."""

    def note(error: DataError, record: int | None = None) -> None:
        problems.append(
            {"shard": number, "record": record if error.record is None else error.record, "message": str(error)}
        )

    for raw, zipped in manifest[number].pairs:
        for info in (raw, zipped):
            # Of a compressed shard the raw file need not be there; opening it checks what comes out.
            if info is None or (info is raw and zipped is not None and not store.has(raw.key)):
                continue
            try:
                check_file(store.read(info.key), info, uri=store.uri_of(info.key), verify=tuple(info.hashes))
                counts["hashes"] += len(info.hashes)
            except DataError as error:
                note(error)
                return
    try:
        shard = open_shard(manifest, number, store, verify=True, allow_unsafe=allow_unsafe)
    except DataError as error:
        note(error)
        return
    for record in range(shard.records):
        try:
            shard.read(record)
            counts["records_read"] += 1
        except DataError as error:
            note(error, record)
