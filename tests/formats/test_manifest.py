"""Manifests: what is in them, what is refused, and the form in which they are kept."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats._golden import FOLDER, MDS, TEXT
from tombola import Writer
from tombola.errors import DataError, FormatError, ManifestError, StoreError, UnsafeError
from tombola.formats import Columns, Manifest, open_manifest, open_shard, parse_manifest
from tombola.formats import _open as opening
from tombola.formats import _parse as parsing
from tombola.formats._compact import pack_manifest, unpack_manifest
from tombola.formats._digest import digest, digest_slow
from tombola.formats._parse import parse_pieces
from tombola.order import Lanes
from tombola.stores import FaultyStore, LocalStore, MemoryStore

Entry = dict[str, Any]


def entry(number: int, **changes: Any) -> Entry:
    made: Entry = {
        "column_encodings": ["bytes", "int"],
        "column_names": ["data", "label"],
        "column_sizes": [None, 8],
        "compression": None,
        "format": "mds",
        "hashes": ["sha1"],
        "raw_data": {
            "basename": f"shard.{number:05d}.mds",
            "bytes": 1000 + number,
            "hashes": {"sha1": f"{number:040x}"},
        },
        "samples": 10 + number,
        "size_limit": 1 << 26,
        "version": 2,
        "zip_data": None,
    }
    return {**made, **changes}


def text_of(*entries: Entry, **top: Any) -> bytes:
    return json.dumps({"shards": list(entries), "version": 2, **top}).encode()


def test_what_is_in_it() -> None:
    manifest = parse_manifest(text_of(*map(entry, range(5))))
    assert (len(manifest), manifest.records) == (5, 60)
    assert manifest.layout().sizes.tolist() == [10, 11, 12, 13, 14]
    assert manifest.raw_bytes.tolist() == manifest.stored_bytes.tolist() == [1000, 1001, 1002, 1003, 1004]
    assert manifest.columns == Columns({"data": "bytes", "label": "int"})
    info = manifest[-2]
    assert (info.number, info.records, info.raw.key, info.raw.size) == (3, 13, "shard.00003.mds", 1003)
    assert info.raw.hashes == {"sha1": f"{3:040x}"}
    assert info.zipped is None
    assert [each.number for each in manifest[1:3]] == [1, 2]
    with pytest.raises(IndexError):
        manifest[5]
    assert Lanes(lanes=4).over(manifest.layout(), seed=7).at(59) < 60


@pytest.mark.parametrize("name", [*MDS, *TEXT])
def test_every_field_of_the_golden_ones(name: str) -> None:
    store = LocalStore(FOLDER / name)
    shards = json.loads(bytes(store.read("index.json")))["shards"]
    manifest = open_manifest(store)
    for info, wanted in zip(manifest, shards, strict=True):
        files = {"raw_data": info.raw, "zip_data": info.zipped, "raw_meta": info.raw_meta, "zip_meta": info.zipped_meta}
        for kind, file in files.items():
            found = file and {"basename": file.key, "bytes": file.size, "hashes": file.hashes}
            assert found == wanted.get(kind)
        assert info.records == wanted["samples"]
        assert (info.schema.format, info.schema.compression) == (wanted["format"], wanted["compression"])


def test_merged_datasets_keep_their_folders() -> None:
    """Of several formats, compressions and hashes, as a merge leaves them."""
    store, entries = MemoryStore(), []
    for place, options in enumerate(({}, {"compression": "gz"}, {"hashes": ["md5"]}, {"hashes": ["md5", "sha1"]})):
        own = MemoryStore()
        with Writer(own, columns={"n": "int"}, size_limit=250, **options) as writer:  # type: ignore[arg-type]
            for n in range(10):
                writer.write({"n": 10 * place + n})
        for key in own.list("shard."):
            store.write(f"{place}/{key}", own.read(key))
        for each in json.loads(bytes(own.read("index.json")))["shards"]:
            for kind in ("raw_data", "zip_data"):
                if each[kind]:
                    each[kind]["basename"] = f"{place}/{each[kind]['basename']}"
            entries.append(each)
    store.write("index.json", text_of(*entries))
    manifest = open_manifest(store)
    assert manifest[0].raw.key == "0/shard.00000.mds"
    assert len(manifest.schemas) == 2
    assert manifest.columns == Columns({"n": "int"})
    shards = [open_shard(manifest, number, store, verify=True) for number in range(len(manifest))]
    assert [record["n"] for shard in shards for record in shard] == list(range(40))
    hashes = [set(info.raw.hashes) for info in manifest]
    assert set() in hashes
    assert {"md5"} in hashes
    assert {"md5", "sha1"} in hashes
    again = unpack_manifest(pack_manifest(manifest, b"k" * 16), b"k" * 16, uri=manifest.uri)
    assert again is not None
    assert list(again) == list(manifest)
    with pytest.raises(FormatError, match="differ in their columns"):
        _ = parse_manifest(text_of(entry(0), entry(1, column_names=["data", "x"]))).columns


def test_no_shards() -> None:
    manifest = parse_manifest(b' { "version" : 2 , "shards" : [ ] } ')
    assert (len(manifest), manifest.records, list(manifest)) == (0, 0, [])
    packed = pack_manifest(manifest, b"k" * 16)
    assert unpack_manifest(packed, b"k" * 16, uri="") == manifest


# ---- what is refused


@pytest.mark.parametrize(
    "name",
    [
        "../shard.mds",
        "/etc/passwd",
        "a/../../b",
        "a/..",
        "..",
        ".",
        "",
        "./a",
        "a//b",
        "a/",
        "a\\b",
        "C:/a",
        "a:b",
        "\ud800",
        "a\nb",
        "a\0b",
        "\x7f",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", ["raw_data", "zip_data"])
def test_names_cannot_leave_the_folder(name: str, place: int, kind: str) -> None:
    zipped = {"basename": "fine.zstd", "bytes": 1, "hashes": {}}
    entries = [entry(n, compression="zstd", zip_data={**zipped, "basename": f"{n}.zstd"}) for n in range(3)]
    entries[place][kind]["basename"] = name
    with pytest.raises(UnsafeError, match=f"shard {place} has the name") as caught:
        parse_manifest(text_of(*entries))
    assert caught.value.shard == place


@pytest.mark.parametrize("name", ["a.mds", "...", ".hidden", "a/b.c/d", "a b", "é.mds", "x..y", "ab:c", "\u3000x"])
def test_other_names_are_fine(name: str) -> None:
    entries = [entry(0), entry(1), entry(2)]
    entries[1]["raw_data"]["basename"] = name
    assert parse_manifest(text_of(*entries))[1].raw.key == name


def without(name: str) -> Entry:
    made = entry(1)
    del made[name]
    return made


BAD: list[tuple[str, Callable[[], bytes], str]] = [
    ("no object", lambda: b"[]", "no JSON object"),
    ("empty", lambda: b"", "no JSON object"),
    ("not UTF-8", lambda: b'{"\xff": 1}', "UTF-8"),
    ("no shards", lambda: b'{"version": 2}', 'has no "shards"'),
    ("shards twice", lambda: b'{"shards": [], "shards": []}', "come twice"),
    ("shards no list", lambda: b'{"shards": {}}', "no list"),
    ("a shard no object", lambda: b'{"shards": [1]}', "no object"),
    ("more after its end", lambda: text_of(entry(0)) + b"}", "more after its end"),
    ("version", lambda: text_of(entry(0), version=3), "version is 3"),
    ("shard version", lambda: text_of(entry(0), entry(1, version=1)), "shard 1: its version is 1"),
    ("format", lambda: text_of(entry(0, format="tar")), "format 'tar' does not exist"),
    ("compression", lambda: text_of(entry(0, compression="lz4")), "compression 'lz4' does not exist"),
    ("no zip", lambda: text_of(entry(0, compression="gz")), "it is compressed, but has no 'zip_data'"),
    ("zip", lambda: text_of(entry(0, zip_data={"basename": "x", "bytes": 1, "hashes": {}})), "but no compression"),
    ("no samples", lambda: text_of(entry(0), without("samples")), "shard 1: it has no 'samples'"),
    ("no raw", lambda: text_of(entry(0), without("raw_data")), "shard 1: it has no 'raw_data'"),
    ("no meta", lambda: text_of({**entry(0), "format": "json", "columns": {"a": "str"}}), "has no 'raw_meta'"),
    ("negative", lambda: text_of(entry(0, samples=-1)), "samples are -1"),
    ("true", lambda: text_of(entry(0, samples=True)), "samples are True"),
    ("a fraction", lambda: text_of(entry(0, samples=1.5)), "samples are 1.5"),
    ("bytes", lambda: text_of(entry(0, raw_data={"basename": "x", "bytes": None, "hashes": {}})), "are None"),
    ("name", lambda: text_of(entry(0, raw_data={"basename": 7, "bytes": 1, "hashes": {}})), "is 7"),
    ("no hashes", lambda: text_of(entry(0, raw_data={"basename": "x", "bytes": 1})), "has no 'hashes'"),
    (
        "hash",
        lambda: text_of(entry(0), entry(1, raw_data={"basename": "x", "bytes": 1, "hashes": {"sha1": "xyz"}})),
        "shard 1 has a sha1 hash that is none",
    ),
    ("twice", lambda: text_of(entry(0), entry(0)), "'shard.00000.mds' comes twice"),
    ("sizes", lambda: text_of(entry(0, column_sizes=[None, 4])), "column_sizes are"),
    ("lengths", lambda: text_of(entry(0, column_names=["a"])), "1 column_names and 2 column_encodings"),
    ("a name twice", lambda: text_of(entry(0, column_names=["a", "a"])), "hold a name twice"),
    ("encoding", lambda: text_of(entry(0, column_encodings=["bytes", "int9"])), "'int9' does not exist"),
    ("unhashable", lambda: text_of(entry(0, column_encodings=["bytes", []])), "not understood"),
]


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_refused(make: Callable[[], bytes], message: str) -> None:
    with pytest.raises(ManifestError, match=message) as caught:
        parse_manifest(make(), uri="there/index.json")
    assert str(caught.value).startswith("there/index.json")
    assert caught.value.uri == "there/index.json"
    assert vars(pickle.loads(pickle.dumps(caught.value))) == vars(caught.value)


def test_cut_short_anywhere() -> None:
    text = text_of(*map(entry, range(3)), other={"a": [1, "]"]})
    for size in range(len(text)):
        with pytest.raises(ManifestError):
            parse_manifest(text[:size])


# ---- through a window


def said(parse: Callable[[], Manifest]) -> object:
    """All of a manifest, or all of its error."""
    try:
        manifest = parse()
    except ManifestError as error:
        return type(error), str(error), vars(error)
    return manifest.digest, list(manifest), manifest.schemas


LONG = 1.5e30
MIXED = [
    entry(0, note='ü€😀 \\ " ]}'),
    entry(1, compression="zstd:3", zip_data={"basename": "é/z", "bytes": 7, "hashes": {"md5": "0a" * 16}}),
    entry(2, raw_data={"basename": "b", "bytes": 0, "hashes": {}}),
    entry(3, column_names=["data", "x"]),
]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_text_cut_anywhere_is_read_alike(indent: int | None) -> None:
    top = {"a": -LONG, "b": [1, {"c": "]"}], "d": 10, "shards": MIXED, "version": 2, "e": 0.25}
    text = json.dumps(top, ensure_ascii=False, indent=indent).encode()
    wanted = said(lambda: parse_manifest(text))
    assert isinstance(wanted, tuple)
    assert isinstance(wanted[0], str)
    for cut in range(len(text) + 1):
        assert said(lambda cut=cut: parse_pieces([text[:cut], text[cut:]], uri="index.json")) == wanted


@pytest.mark.parametrize("number", ["10", "-1.5E+7", "1.25", "2e5", "NaN", "-Infinity", "true"])
def test_a_number_cut_anywhere_is_read_whole(number: str) -> None:
    """It would be another where a window ends in it: then it were a version that is known, or no JSON."""
    for text in (f'{{"shards": [], "x": {number}, "version": {number}}}', f'{{"shards": [{number}', number):
        data = text.encode()
        wanted = said(lambda data=data: parse_manifest(data))
        for cut in range(len(data) + 1):
            assert said(lambda data=data, cut=cut: parse_pieces([data[:cut], data[cut:]], uri="index.json")) == wanted


@pytest.mark.parametrize("make", [case[1] for case in BAD], ids=[case[0] for case in BAD])
@pytest.mark.parametrize("end", [b"", b" \xff"])
def test_what_is_refused_is_refused_alike_in_windows(make: Callable[[], bytes], end: bytes) -> None:
    """What is no text is said first, wherever else the text is bad."""
    text = make() + end
    wanted = said(lambda: parse_manifest(text))
    assert isinstance(wanted, tuple)
    assert wanted[0] is ManifestError
    for cut in range(len(text) + 1):
        assert said(lambda cut=cut: parse_pieces([text[:cut], text[cut:]], uri="index.json")) == wanted


@given(st.data())
def test_windows_and_blocks_of_any_length_agree(data: st.DataObject) -> None:
    hashes = st.dictionaries(st.sampled_from(["md5", "sha1"]), st.sampled_from(["00", "fF", "a1b2", "0", "g0", "a b "]))
    entries = []
    for number in range(data.draw(st.integers(0, 6))):
        changes: Entry = {"raw_data": {"basename": f"é{number}", "bytes": number, "hashes": data.draw(hashes)}}
        if data.draw(st.booleans()):
            zipped = {"basename": f"z{number // 5}", "bytes": 1, "hashes": data.draw(hashes)}
            changes |= {"compression": "gz", "zip_data": zipped}
        entries.append(entry(number, **changes))
    text = json.dumps({"shards": entries, "version": 2}, ensure_ascii=False).encode()
    text = text[: data.draw(st.one_of(st.just(len(text)), st.integers(0, len(text))))]
    wanted = said(lambda: parse_manifest(text))
    window, block = data.draw(st.integers(1, 80)), data.draw(st.integers(1, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "_WINDOW", window)
        patch.setattr(parsing, "_BLOCK", block)
        assert said(lambda: parse_manifest(text)) == wanted
    if isinstance(wanted[0], str):
        for info, given_entry in zip(parse_manifest(text), entries, strict=True):
            for found, kind in ((info.raw, "raw_data"), (info.zipped, "zip_data")):
                file = given_entry[kind]
                assert (found is None) == (file is None)
                if found is not None:
                    lower = {name: digest.lower() for name, digest in file["hashes"].items()}
                    assert (found.key, found.size, found.hashes) == (file["basename"], file["bytes"], lower)


def test_names_with_the_same_hash_are_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "hash", lambda _: 7, raising=False)
    assert len(parse_manifest(text_of(*map(entry, range(5))))) == 5
    with pytest.raises(ManifestError, match=r"'shard\.00001\.mds' comes twice"):
        parse_manifest(text_of(entry(0), entry(1), entry(1)))


def test_the_text_is_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor an object for each shard: of 20,000 what is held stays far below the text."""
    monkeypatch.setattr(parsing, "_WINDOW", 16 << 10)
    monkeypatch.setattr(parsing, "_BLOCK", 256)
    piece = json.dumps(entry(0)).encode()
    number = json.dumps(f"shard.{0:05d}.mds").encode()
    total = 0

    def pieces() -> Iterator[bytes]:
        nonlocal total
        for shard in range(20_000):
            text = piece.replace(number, json.dumps(f"shard.{shard:05d}.mds").encode())
            total += len(text)
            yield (b"," if shard else b'{"version": 2, "shards": [') + text
        yield b"]}"

    tracemalloc.start()
    try:
        manifest = parse_pieces(pieces(), uri="index.json")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(manifest) == 20_000
    assert peak < total / 2


def test_a_text_that_changes_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of two texts never become one manifest: it is read again, or refused where there is no end to it."""
    monkeypatch.setattr(opening, "_PIECE", 100)
    texts = [text_of(*map(entry, range(first, first + 3))) for first in (100, 200)]

    class Changing(MemoryStore):
        def __init__(self, changes: int) -> None:
            super().__init__({"index.json": texts[0]})
            self.changes, self.passes = changes, 0

        def read_range(self, key: str, start: int, stop: int) -> memoryview:
            # In the middle of each second pass: the first is for the digest, the second is parsed.
            if start == 300:
                self.passes += 1
                if self.passes % 2 == 0 and self.changes:
                    self.changes -= 1
                    self.write(key, texts[self.passes // 2 % 2])
            return super().read_range(key, start, stop)

    for cached in (False, True):
        for changes in (0, 1, 2):
            found = open_manifest(Changing(changes), cache=MemoryStore() if cached else None)
            assert list(found) == list(parse_manifest(texts[changes % 2]))
        with pytest.raises(ManifestError, match="written to again and again"):
            open_manifest(Changing(3), cache=MemoryStore() if cached else None)


def test_a_large_one_that_is_cut_short_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_PIECE", 100)
    text = text_of(*map(entry, range(3)))
    wanted = said(lambda: parse_manifest(text[:-1], uri="memory:/index.json"))
    assert said(lambda: open_manifest(MemoryStore({"index.json": text[:-1]}))) == wanted
    assert list(open_manifest(MemoryStore({"index.json": text}))) == list(parse_manifest(text))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*entry(0)]), VALUES)
def test_any_value_anywhere_is_read_or_refused(name: str, value: Any) -> None:
    try:
        manifest = parse_manifest(text_of(entry(0), entry(1, **{name: value}), entry(2)))
        for info in manifest:
            assert info.raw.size >= 0
    except ManifestError:
        pass


@given(st.sampled_from(["basename", "bytes", "hashes"]), VALUES)
def test_any_value_in_a_file_is_read_or_refused(name: str, value: Any) -> None:
    changed = entry(1)
    changed["raw_data"][name] = value
    try:
        manifest = parse_manifest(text_of(entry(0), changed, entry(2)))
        assert [info.number for info in manifest] == [0, 1, 2]
    except ManifestError:
        pass


def test_pickled_columns_are_refused() -> None:
    text = text_of(entry(0), entry(1, column_names=["a", "x"], column_encodings=["int", "pkl"], column_sizes=[8, None]))
    with pytest.raises(UnsafeError, match="column 'x' is pickled") as caught:
        parse_manifest(text)
    assert caught.value.shard == 1
    assert len(parse_manifest(text, allow_unsafe=True)) == 2
    # It is also refused, and allowed, where the manifest was kept.
    store, cache = MemoryStore({"index.json": text}), MemoryStore()
    for _ in range(2):
        assert len(open_manifest(store, cache=cache, allow_unsafe=True)) == 2
        with pytest.raises(UnsafeError):
            open_manifest(store, cache=cache)


def test_the_digest_tells_datasets_apart() -> None:
    first = parse_manifest(text_of(*map(entry, range(3))))
    assert first == parse_manifest(text_of(*map(entry, range(3)), other=1))
    assert hash(first) == hash(pickle.loads(pickle.dumps(first)))
    raw = entry(1)["raw_data"]
    others: list[Entry] = [
        entry(1, samples=99),
        entry(1, raw_data={**raw, "bytes": 1}),
        entry(1, raw_data={**raw, "basename": "x"}),
        entry(1, raw_data={**raw, "hashes": {"sha1": "f" * 40}}),
        entry(1, raw_data={**raw, "hashes": {}}),
        entry(1, column_names=["data", "x"]),
    ]
    digests = {parse_manifest(text_of(entry(0), other, entry(2))).digest for other in others}
    assert len(digests | {first.digest}) == len(others) + 1


# ---- kept


def test_kept_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store, cache = FaultyStore(MemoryStore({"index.json": text_of(*map(entry, range(50)))})), MemoryStore()
    plain = open_manifest(store)
    first = open_manifest(store, cache=cache)
    (kept,) = cache.list()
    assert kept.startswith("manifest-")
    store.calls.clear()
    with monkeypatch.context() as patch:
        patch.delattr(opening, "parse_pieces")
        patch.delattr(opening, "parse_manifest")
        again = open_manifest(store, cache=cache)
    assert all(operation != "read" for operation, _ in store.calls), "the text was parsed again"
    assert list(plain) == list(first) == list(again)
    assert plain.digest == first.digest == again.digest
    assert again.uri == plain.uri
    assert np.array_equal(again.layout().starts, plain.layout().starts)
    assert list(cache.list()) == [kept]


def test_another_text_is_another_manifest() -> None:
    cache = MemoryStore()
    for number in range(3):
        store = MemoryStore({"index.json": text_of(entry(0, samples=number))})
        assert open_manifest(store, cache=cache).records == number
    assert len(list(cache.list())) == 3


def test_a_damaged_one_is_made_again() -> None:
    store, cache = MemoryStore({"index.json": text_of(*map(entry, range(5)))}), MemoryStore()
    wanted = list(open_manifest(store, cache=cache))
    (kept,) = cache.list()
    good = bytes(cache.read(kept))
    rng = np.random.default_rng(0)
    damaged = [good[:size] for size in (0, 10, 47, 48, 100, len(good) - 1)] + [good + b"\0", b"\0" * len(good)]
    for place in [*range(60), *rng.integers(60, len(good), 100).tolist()]:
        damaged.append(good[:place] + bytes([good[place] ^ 1 << int(rng.integers(8))]) + good[place + 1 :])
    for data in damaged:
        cache.write(kept, data)
        assert list(open_manifest(store, cache=cache)) == wanted
        assert bytes(cache.read(kept)) == good, "it was not written again"


def test_one_of_a_later_version_is_made_again() -> None:
    """Its digest fits, but it does not have what this version looks for."""
    manifest = parse_manifest(text_of(entry(0)))
    good = bytearray(pack_manifest(manifest, b"k" * 16))
    for what, other in (
        (b'"records"', b'"RECORDS"'),
        (b'"schemas"', b'"SCHEMAS"'),
        (b'"mds"', b'"mdz"'),
        (b'"bytes"', b'"bytez"'),
    ):
        changed = bytearray(bytes(good).replace(what, other))
        changed[16:32] = digest(memoryview(changed)[32:])
        found = unpack_manifest(changed, b"k" * 16, uri="")
        assert found is None or what == b'"mds"'
    assert unpack_manifest(good, b"k" * 16, uri="") == manifest
    assert unpack_manifest(good, b"j" * 16, uri="") is None


def test_a_cache_that_cannot_be_written_is_no_error() -> None:
    store = MemoryStore({"index.json": text_of(entry(0))})
    cache = FaultyStore(MemoryStore(), fail_at=range(100))
    assert len(open_manifest(store, cache=cache)) == 1
    with pytest.raises(StoreError):
        open_manifest(FaultyStore(store, fail_at=2), cache=MemoryStore())


def test_many_shards_are_kept_in_few_bytes() -> None:
    count = 20_000
    store = MemoryStore({"index.json": text_of(*map(entry, range(count)))})
    cache = MemoryStore()
    manifest = open_manifest(store, cache=cache)
    (kept,) = cache.list()
    assert cache.size(kept) < 100 * count
    again = open_manifest(store, cache=cache)
    assert again[count - 1] == manifest[count - 1]
    assert (again.records_of == manifest.records_of).all()


@given(st.binary(max_size=300))
def test_the_digest_equals_its_slow_twin(data: bytes) -> None:
    assert digest(data) == digest_slow(data)
    assert digest(data + b"\0") != digest(data)


def test_the_digest_sees_every_bit() -> None:
    data = bytes(range(200))
    found = {digest(data)}
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        found.add(digest(changed))
    assert len(found) == 8 * len(data) + 1


def test_a_missing_manifest_says_so(tmp_path: Any) -> None:
    with pytest.raises(DataError, match=r"index\.json is not there"):
        open_manifest(LocalStore(tmp_path))
