"""Damaged data: a prompt error that names the uri, the shard and the record, and never wrong values."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tombola import Writer
from tombola.errors import DataError, FormatError, HashError, InputError, MissingError, MissingExtra, ShardError
from tombola.formats import (
    check_hash,
    decompress,
    encoding,
    gather,
    hash_names,
    hash_of,
    open_manifest,
    open_shard,
)
from tombola.formats._codecs import CODECS
from tombola.stores import FaultyStore, MemoryStore, Store

RECORDS = [{"data": bytes([n % 251]) * (n * 7 % 50), "n": n} for n in range(200)]


def dataset(**options: Any) -> MemoryStore:
    store = MemoryStore()
    with Writer(store, columns={"data": "bytes", "n": "int"}, size_limit=2000, **options) as writer:
        for record in RECORDS:
            writer.write(record)
    return store


def read_all(store: Store, **options: Any) -> list[dict[str, Any]]:
    manifest = open_manifest(store)
    shards = [open_shard(manifest, number, store, **options) for number in range(len(manifest))]
    numbers, places = manifest.layout().locate(range(manifest.records))
    batch = gather(shards, numbers, places)
    found = [{"data": batch["data"][row], "n": int(batch["n"][row])} for row in range(manifest.records)]
    assert found == [record for shard in shards for record in shard]
    return found


@pytest.mark.parametrize("packed", [None, *sorted(CODECS)])
def test_missing(packed: str | None) -> None:
    store = dataset(compression=packed)
    key = sorted(store.list("shard."))[1]
    store.delete(key)
    manifest = open_manifest(store)
    with pytest.raises(MissingError, match=key) as caught:
        open_shard(manifest, 1, store)
    assert (caught.value.shard, caught.value.uri) == (1, store.uri_of(key))
    assert open_shard(manifest, 0, store).read(3) == RECORDS[3]


@pytest.mark.parametrize("packed", [None, *sorted(CODECS)])
def test_cut_short(packed: str | None) -> None:
    store = dataset(compression=packed)
    manifest = open_manifest(store)
    key = sorted(store.list("shard."))[1]
    size = store.size(key)
    for left in {0, 1, 7, 8, size // 2, size - 1}:
        with pytest.raises(ShardError, match="cut short") as caught:
            open_shard(manifest, 1, FaultyStore(store, truncate={key: left}))
        assert (caught.value.shard, caught.value.uri) == (1, store.uri_of(key))
        assert vars(pickle.loads(pickle.dumps(caught.value))) == vars(caught.value)
    store.write(key, bytes(store.read(key)) + b"\0")
    with pytest.raises(ShardError, match="too long"):
        open_shard(manifest, 1, store)


@pytest.mark.parametrize("packed", [None, *sorted(CODECS)])
@pytest.mark.parametrize("hashes", [["sha1"], ["xxh3_64", "blake2b"]])
def test_any_flipped_bit_is_seen_with_hashes_on(packed: str | None, hashes: list[str]) -> None:
    store = dataset(compression=packed, hashes=hashes)
    manifest = open_manifest(store)
    key = sorted(store.list("shard."))[1]
    for bit in range(0, 8 * store.size(key), 61):
        with pytest.raises(HashError, match="is damaged") as caught:
            open_shard(manifest, 1, FaultyStore(store, flip={key: bit}), verify=True)
        assert (caught.value.shard, caught.value.uri) == (1, store.uri_of(key))
    assert read_all(store, verify=True) == read_all(store, verify=hashes) == read_all(store) == RECORDS
    with pytest.raises(FormatError, match="no md5 hash"):
        open_shard(manifest, 1, store, verify=["md5"])


@pytest.mark.parametrize("packed", sorted(CODECS))
def test_any_flipped_bit_of_a_compressed_shard_without_hashes(packed: str) -> None:
    """A DataError, or other values, which nothing can know without a hash. No other exception, and no crash."""
    store = dataset(compression=packed)
    manifest = open_manifest(store)
    key = sorted(store.list("shard."))[0]
    errors = []
    for bit in range(0, 8 * store.size(key), 37):
        try:
            shard = open_shard(manifest, 0, FaultyStore(store, flip={key: bit}))
            for record in range(len(shard)):
                gather([shard], [0], [record])
        except DataError as error:
            errors.append(error)
    assert errors
    assert {error.shard for error in errors} == {0}


def test_the_nth_call_of_the_store_fails() -> None:
    inner = dataset(hashes=["sha1"])
    said: list[tuple[bool, bool]] = []
    for n in range(1, 100):
        store = FaultyStore(inner, fail_at=n)
        try:
            assert read_all(store, verify=True) == RECORDS
        except DataError as error:
            said.append((f"call {n}" in str(error), error.uri is not None))
        else:
            break
    else:
        pytest.fail("it never succeeded")
    assert said == [(True, True)] * (n - 1)
    assert n > 5


# ---- codecs and hashes


@pytest.mark.parametrize("name", sorted(CODECS))
@pytest.mark.parametrize("data", [b"", b"x", b"abc" * 5000, bytes(range(256)) * 400])
def test_every_level(name: str, data: bytes) -> None:
    found = CODECS[name]
    levels = sorted({*list(found.levels)[:2], *list(found.levels)[-1:], found.level})
    for level in levels:
        assert decompress(found.compress(data, level), name, len(data)) == data
        assert decompress(found.compress(data, level), f"{name}:{level}" if found.levels else name, len(data)) == data


@pytest.mark.parametrize("name", sorted(CODECS))
def test_a_length_that_lies(name: str) -> None:
    """A bomb is not unpacked, and too little is not passed on."""
    found = CODECS[name]
    data = found.compress(b"\0" * 10_000_000, found.level)
    for size in (0, 10, 9_999_999, 10_000_001):
        with pytest.raises(DataError, match=r"bytes"):
            decompress(data, name, size)
    for cut in (0, 1, len(data) // 2, len(data) - 1):
        with pytest.raises(DataError):
            decompress(data[:cut], name, 10_000_000)


def test_files_of_several_members() -> None:
    assert decompress(gzip.compress(b"one") + gzip.compress(b"two"), "gz", 6) == b"onetwo"
    assert decompress(bz2.compress(b"one") + bz2.compress(b"two"), "bz2", 6) == b"onetwo"
    zstd = CODECS["zstd"].compress
    assert decompress(zstd(b"one", 3) + zstd(b"two", 3), "zstd", 6) == b"onetwo"


def test_a_zstd_frame_without_its_length() -> None:
    zstandard = pytest.importorskip("zstandard")
    data = zstandard.ZstdCompressor(write_content_size=False).compress(b"abc" * 1000)
    assert decompress(data, "zstd", 3000) == b"abc" * 1000
    with pytest.raises(DataError, match="more than the 2999 bytes"):
        decompress(data, "zstd", 2999)


def test_every_hash() -> None:
    assert {"md5", "sha1", "sha256", "blake2b", "xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128"} <= set(hash_names())
    assert "shake_128" not in hash_names()
    for name in hash_names():
        assert bytes.fromhex(hash_of(b"abc", name))
        check_hash(b"abc", {name: hash_of(b"abc", name)}, "x")
        check_hash(memoryview(b"abc"), {name: hash_of(b"abc", name).upper()}, "x")
        with pytest.raises(HashError):
            check_hash(b"abd", {name: hash_of(b"abc", name)}, "x")
    # Values published with the algorithms.
    assert hash_of(b"", "sha1") == hashlib.sha1().hexdigest() == "da39a3ee5e6b4b0d3255bfef95601890afd80709"
    assert hash_of(b"", "xxh64") == "ef46db3751d8e999"
    assert hash_of(b"", "xxh3_64") == "2d06800538d394c2"
    with pytest.raises(InputError, match="'md4000' does not exist"):
        hash_of(b"", "md4000")


# ---- optional libraries that are not there


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("zstandard", "codecs", lambda: decompress(b"\x28\xb5\x2f\xfd", "zstd", 1)),
        ("brotli", "codecs", lambda: decompress(b"x", "br", 1)),
        ("cramjam", "codecs", lambda: decompress(b"\1\0x", "snappy", 1)),
        ("xxhash", "codecs", lambda: hash_of(b"", "xxh64")),
        ("PIL", "image", lambda: encoding("png").decode(memoryview(b"\x89PNG"))),
    ],
)
def test_a_missing_library_is_named(
    library: str, extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in (library, "compression")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'tombola\[{extra}\]'"):
        use()


def test_without_xxhash_another_hash_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {"sha1": hash_of(b"abc", "sha1"), "xxh64": hash_of(b"abc", "xxh64")}
    monkeypatch.setitem(sys.modules, "xxhash", None)
    check_hash(b"abc", hashes, "x")
    with pytest.raises(HashError, match="sha1"):
        check_hash(b"abd", hashes, "x")
    with pytest.raises(MissingExtra):
        check_hash(b"abc", {"xxh64": hashes["xxh64"]}, "x")
