"""Datasets that mosaicml-streaming wrote, read record for record; and ours, byte for byte what it writes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.formats._golden import FOLDER, MDS, TEXT, mds_record, plain, text_record
from tombola import Writer
from tombola.formats import Ragged, gather, gather_slow, hash_of, open_manifest, open_shard
from tombola.stores import LocalStore, MemoryStore


@pytest.mark.parametrize("name", [*MDS, *TEXT])
@pytest.mark.parametrize("read", ["mmap", "pread"])
def test_every_record(name: str, read: str) -> None:
    store = LocalStore(FOLDER / name, read=read)
    manifest = open_manifest(store)
    make = mds_record if name in MDS else text_record
    number = 0
    for shard in range(len(manifest)):
        for record in open_shard(manifest, shard, store, verify=True):
            wanted = make(number)
            assert {key: plain(value) for key, value in record.items()} == {
                key: plain(value) for key, value in wanted.items()
            }
            number += 1
    assert number == manifest.records == (7 if name in MDS else 30)
    assert manifest.layout().records == number


@pytest.mark.parametrize("name", [*MDS, *TEXT])
def test_every_hash_is_checked(name: str) -> None:
    store = LocalStore(FOLDER / name)
    manifest = open_manifest(store)
    for info in manifest:
        for pair in info.pairs:
            for file in pair:
                if file is None or not store.has(file.key):
                    continue
                data = store.read(file.key)
                assert len(data) == file.size
                assert file.hashes
                assert {kind: hash_of(data, kind) for kind in file.hashes} == file.hashes


@pytest.mark.parametrize("name", [*MDS, *TEXT])
def test_gather_gives_the_same(name: str) -> None:
    store = LocalStore(FOLDER / name)
    manifest = open_manifest(store)
    shards = [open_shard(manifest, number, store) for number in range(len(manifest))]
    where, places = manifest.layout().locate(np.random.default_rng(0).permutation(manifest.records))
    batch, slow = gather(shards, where, places), gather_slow(shards, where, places)
    for row, (number, place) in enumerate(zip(where.tolist(), places.tolist(), strict=True)):
        for key, value in shards[number].read(place).items():
            for columns in (batch, slow):
                found = columns[key][row]
                if name in MDS:
                    assert plain(found) == plain(value) or (key == "int" and found == value)
                else:
                    assert found == value
    assert isinstance(batch["str" if name in MDS else "s"], Ragged)


def images(record: dict[str, Any]) -> dict[str, Any]:
    image = pytest.importorskip("PIL.Image")
    made = {name: image.fromarray(record[name]) for name in ("pil", "png")}
    return {**record, **made, "lpil": [image.fromarray(each) for each in record["lpil"]]}


@pytest.mark.parametrize("name", ["mds_raw", "mds_bz2", "mds_gz", "mds_zstd"])
def test_what_we_write_is_byte_for_byte_the_same(name: str) -> None:
    """But for the PNG, of which there are many for the same pixels: its bytes are taken from the golden file."""
    golden = LocalStore(FOLDER / name)
    manifest = open_manifest(golden)
    index = json.loads(bytes(golden.read("index.json")))
    entry = index["shards"][0]
    store = MemoryStore()
    shards = [open_shard(manifest, number, golden) for number in range(len(manifest))]
    writer = Writer(
        store,
        columns=manifest.columns.spec(),
        compression=entry["compression"],
        hashes=entry["hashes"],
        size_limit=entry["size_limit"],
    )
    with writer:
        for number in range(7):
            shard, place = (0, number) if number < 4 else (1, number - 4)
            png = shards[shard].payloads(place)[manifest.columns.place("png")]
            writer.write({**images(mds_record(number)), "png": bytes(png)})
    for number, info in enumerate(manifest):
        ours = open_shard(open_manifest(store), number, store)
        for place in range(info.records):
            assert ours.payloads(place) == shards[number].payloads(place)
    if name == "mds_raw":
        assert bytes(store.read("index.json")) == bytes(golden.read("index.json"))
        for info in manifest:
            assert store.read(info.raw.key) == golden.read(info.raw.key)
    # Compressed files depend on the library's version; the raw ones must still have the golden hashes.
    for ours_info, info in zip(open_manifest(store), manifest, strict=True):
        assert ours_info.raw == info.raw
