"""What we write, mosaicml-streaming reads, and the reverse: with its own code, in its own environment."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.formats._golden import MDS, file_pixels, mds_record, plain, text_record
from tests.formats.test_golden import images
from tests.peers import ROOT, run_peer
from tombola import Writer
from tombola.formats import open_manifest, open_shard
from tombola.stores import LocalStore

PEER = ("-m", "tests.formats._peer")
COUNT = 12
pytestmark = pytest.mark.peer("mosaic")


def columns() -> dict[str, str]:
    manifest = open_manifest(LocalStore(ROOT / "tests" / "vectors" / "mosaic_formats" / "mds_raw"))
    return manifest.columns.spec()


def write(folder: Path, numbers: Sequence[int], compression: str | None, append: bool) -> None:
    # The compressions of one dataset may differ; its columns may not.
    out = Writer(folder, columns=columns(), compression=compression, hashes=["sha1"], size_limit=3000, append=append)
    with out as writer:
        for number in numbers:
            writer.write(images(mds_record(number)))


FILES = {name: name for name in ("jpeg", "jpeg_array", "jpegarray", "list[jpeg]", "list[png]", "pkl")}


def of_files(number: int) -> dict[str, Any]:
    """A record of the columns that hold whole files: the same as the peer's."""
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.fromarray(file_pixels(number)).save(out, "JPEG", quality=90)
    data = out.getvalue()
    pixels = [image.fromarray(file_pixels(number))] * (number % 3)
    listed = {"jpeg": data, "list[jpeg]": [data] * (number % 3), "list[png]": pixels, "pkl": {"set": {number}}}
    return {**listed, "jpeg_array": [data] * (1 + number % 3), "jpegarray": [data]}


def shown(record: dict[str, Any]) -> dict[str, Any]:
    """The record as a reader gives it, in plain values: images for the bytes of files."""

    def image_of(value: Any) -> Any:
        return pytest.importorskip("PIL.Image").open(io.BytesIO(value)) if isinstance(value, bytes) else value

    return {
        name: plain([image_of(one) for one in value] if isinstance(value, list) else image_of(value))
        for name, value in record.items()
    }


def test_it_reads_what_we_write(tmp_path: Path) -> None:
    folders = []
    for name in MDS:
        folder = tmp_path / name
        write(folder, range(5), name.removeprefix("mds_").replace("raw", "") or None, append=False)
        write(folder, range(5, COUNT), None, append=True)
        folders.append(str(folder))
    unsafe = tmp_path / "pkl"
    with Writer(unsafe, columns={"a": "pkl"}, hashes=["sha1"], allow_unsafe=True) as writer:
        writer.write({"a": {1, 2}})
    merged = tmp_path / "merged"
    entries = []
    for part in range(2):
        write(merged / str(part), range(part * 6, part * 6 + 6), None, append=False)
        for entry in json.loads((merged / str(part) / "index.json").read_text())["shards"]:
            entry["raw_data"]["basename"] = f"{part}/{entry['raw_data']['basename']}"
            entries.append(entry)
    (merged / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))

    photos = tmp_path / "photos"
    with Writer(photos, columns=FILES, hashes=["sha1"], allow_unsafe=True) as writer:
        for number in range(COUNT):
            writer.write(of_files(number))

    words = ("read", str(tmp_path / "found"), *folders, str(merged), str(unsafe), str(photos))
    run_peer("mosaic", tmp_path / "home", *PEER, *words, seconds_max=250)
    found = pickle.loads((tmp_path / "found").read_bytes())
    wanted = [{name: plain(value) for name, value in mds_record(number).items()} for number in range(COUNT)]
    for folder in [*folders, str(merged)]:
        assert found[folder] == wanted, folder
    assert found[str(unsafe)] == [{"a": plain({1, 2})}]
    assert found[str(photos)] == [shown(of_files(number)) for number in range(COUNT)]
    store = LocalStore(merged)
    manifest = open_manifest(store)
    assert sum(len(list(open_shard(manifest, number, store))) for number in range(len(manifest))) == COUNT


def test_we_read_what_it_writes(tmp_path: Path) -> None:
    run_peer("mosaic", tmp_path / "home", *PEER, "write", str(tmp_path), seconds_max=250)
    for name in [*MDS, "json", "csv", "tsv", "xsv"]:
        store = LocalStore(tmp_path / name)
        manifest = open_manifest(store)
        assert len(manifest) > (name in MDS)
        shards = [open_shard(manifest, number, store, verify=True) for number in range(len(manifest))]
        make = mds_record if name in MDS else text_record
        found = [{key: plain(value) for key, value in record.items()} for shard in shards for record in shard]
        assert found == [{key: plain(value) for key, value in make(number).items()} for number in range(COUNT)], name
    store = LocalStore(tmp_path / "files")
    manifest = open_manifest(store, allow_unsafe=True)
    found = [dict(record) for record in open_shard(manifest, 0, store, verify=True, allow_unsafe=True)]
    wanted = [shown(of_files(number)) for number in range(COUNT)]
    assert [{key: plain(value) for key, value in record.items()} for record in found] == wanted
