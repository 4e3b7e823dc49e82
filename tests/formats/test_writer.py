"""Writing datasets: round trips, limits, appending, and what a crash leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tombola
from tombola import Writer
from tombola.errors import FormatError, MissingError, OutputError, StoreError, ValueTypeError
from tombola.formats import _writer, encode_mds, open_manifest, open_shard
from tombola.stores import FaultyStore, LocalStore, MemoryStore, Store

COLUMNS = {"text": "str", "n": "int"}


def records(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"text": "x" * (n % 7), "n": n} for n in range(start, stop)]


def write(out: Any, some: Sequence[dict[str, Any]], **options: Any) -> tombola.formats.Manifest:
    writer = Writer(out, columns=options.pop("columns", COLUMNS), **options)
    with writer:
        for record in some:
            writer.write(record)
    return writer.finish()


def read(store: Store) -> list[dict[str, Any]]:
    manifest = open_manifest(store)
    return [record for number in range(len(manifest)) for record in open_shard(manifest, number, store, verify=True)]


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.integers(-9, 9)), max_size=40
    ),
    st.sampled_from([None, "gz", "bz2:1", "zstd", "br:1", "snappy"]),
    st.sampled_from([(), ("sha1",), ("xxh64", "md5")]),
    st.sampled_from([1, 300, "1kb", None]),
)
def test_what_is_written_is_read(pairs: list[tuple[str, int]], packed: str | None, hashes: Any, limit: Any) -> None:
    store = MemoryStore()
    given_records = [{"text": text, "n": n} for text, n in pairs]
    manifest = write(store, given_records, compression=packed, hashes=hashes, size_limit=limit)
    assert read(store) == given_records
    assert manifest == open_manifest(store)
    assert all(info.records > 0 for info in manifest), "an empty shard"
    assert all(set(info.raw.hashes) == set(hashes) for info in manifest)
    if limit == 1:
        assert len(manifest) == len(pairs)
    if limit is None:
        assert len(manifest) <= 1


@pytest.mark.parametrize("limit", [250, 300, 500])
def test_shards_are_as_full_as_the_limit_lets_them(limit: int) -> None:
    store = MemoryStore()
    some = records(0, 50)
    manifest = write(store, some, size_limit=limit)
    done = 0
    for info in manifest:
        assert info.raw.size == len(store.read(info.raw.key))
        assert info.raw.size <= limit or info.records == 1
        done += info.records
        if done < len(some):
            longer = some[done - info.records : done + 1]
            shard = len(encode_mds(longer, COLUMNS)) + len(str(limit)) - len("null")
            assert shard > limit, "another record would have fitted"


def test_a_record_larger_than_the_limit_has_a_shard_of_its_own() -> None:
    big = {"text": "x" * 5000, "n": 0}
    for some in ([big], [big, *records(0, 3)], [*records(0, 3), big], [big, big]):
        store = MemoryStore()
        manifest = write(store, some, size_limit=1000)
        assert read(store) == some
        assert all(info.records for info in manifest)


def test_nothing_wraps_at_four_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code with the limit of 32-bit offsets brought into reach."""
    assert _writer._Filling.BYTES_MAX == 2**32 - 1
    monkeypatch.setattr(_writer._Filling, "BYTES_MAX", 2000)
    store = MemoryStore()
    some = [{"text": "x" * 500, "n": n} for n in range(10)]
    manifest = write(store, some, size_limit=None)
    assert len(manifest) > 2
    assert max(info.raw.size for info in manifest) <= 2000
    assert read(store) == some
    with pytest.raises(OutputError, match="record 1 has 3"):
        write(MemoryStore(), [some[0], {"text": "x" * 3000, "n": 1}], size_limit=None)
    # The largest that fits, and one byte more.
    head = len(encode_mds([{"text": "", "n": 1}], COLUMNS))
    assert len(encode_mds([{"text": "x" * (2000 - head), "n": 1}], COLUMNS)) == 2000
    with pytest.raises(OutputError):
        encode_mds([{"text": "x" * (2001 - head), "n": 1}], COLUMNS)


def test_an_empty_dataset() -> None:
    store = MemoryStore()
    assert len(write(store, [])) == 0
    assert read(store) == []
    assert list(store.list()) == ["index.json"]


# ---- what is refused


@pytest.mark.parametrize(
    ("record", "column", "message"),
    [
        ({"text": 1, "n": 1}, "text", "record 2, column 'text' \\(str\\): a int was given, it takes a str"),
        ({"text": "", "n": "1"}, "n", "record 2, column 'n' \\(int\\)"),
        ({"text": ""}, "n", "record 2: column 'n' is missing"),
        ({"text": "", "n": 1, "x": 1}, "x", "record 2: column 'x' is none of the columns"),
        ([1, 2], None, "record 2 is a list, not a dict"),
    ],
)
def test_wrong_records_are_named_and_leave_no_trace(record: Any, column: str | None, message: str) -> None:
    store = MemoryStore()
    with Writer(store, columns=COLUMNS) as writer:
        for each in records(0, 2):
            writer.write(each)
        with pytest.raises(ValueTypeError, match=message) as caught:
            writer.write(record)
        assert (caught.value.record, caught.value.column) == (2, column)
        writer.write(records(2, 3)[0])
    assert read(store) == records(0, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {}}, "no columns"),
        ({"columns": {"a": "int7"}}, "'int7' does not exist"),
        ({"columns": {"": "int"}}, "no name for a column"),
        ({"columns": {"a": "pkl"}}, "allow_unsafe"),
        ({"compression": "zip"}, "'zip' does not exist"),
        ({"compression": "zstd:99"}, "level must be one of 1…22"),
        ({"compression": "snappy:1"}, "has no levels"),
        ({"hashes": ["sha0"]}, "'sha0' does not exist"),
        ({"hashes": ["md5", "md5"]}, "hold one twice"),
        ({"size_limit": 0}, "out of range"),
        ({"size_limit": 1 << 32}, "out of range"),
        ({"size_limit": True}, "out of range"),
        ({"size_limit": "64 kib"}, "not understood"),
        ({"append": True, "overwrite": True}, "exclude each other"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    store = FaultyStore(MemoryStore())
    with pytest.raises(FormatError, match=message):
        Writer(store, **{"columns": COLUMNS, **options})
    assert store.calls == []


def test_a_constructor_does_no_work(tmp_path: Path) -> None:
    Writer(tmp_path / "new", columns=COLUMNS)
    assert not (tmp_path / "new").exists()
    assert read(LocalStore(write(tmp_path / "new", records(0, 3)).uri.rpartition("/")[0])) == records(0, 3)


def test_a_place_that_is_taken_is_refused() -> None:
    store = MemoryStore()
    write(store, records(0, 30), size_limit=300)
    before = {key: bytes(store.read(key)) for key in store.list()}
    with pytest.raises(OutputError, match="holds a dataset: give append=True"):
        write(store, records(0, 1))
    assert {key: bytes(store.read(key)) for key in store.list()} == before
    store.write("README.md", b"not ours")
    write(store, records(5, 6), overwrite=True)
    assert read(store) == records(5, 6)
    assert list(store.list()) == ["README.md", "index.json", "shard.00000.mds"]
    store.delete("index.json")
    with pytest.raises(OutputError, match="did not finish"):
        write(store, records(0, 1))


def test_a_finished_writer_is_done() -> None:
    store = MemoryStore()
    writer = Writer(store, columns=COLUMNS)
    writer.write(records(0, 1)[0])
    assert writer.finish() is writer.finish()
    with pytest.raises(OutputError, match="has finished"):
        writer.write(records(1, 2)[0])
    writer.abort()
    assert read(store) == records(0, 1)


# ---- appending


@pytest.mark.parametrize("packed", [None, "gz"])
def test_append(packed: str | None) -> None:
    store = MemoryStore()
    write(store, records(0, 30), size_limit=300, append=True)
    before = {key: bytes(store.read(key)) for key in store.list("shard.")}
    write(store, records(30, 60), size_limit=400, append=True, compression=packed)
    write(store, [], append=True)
    assert read(store) == records(0, 60)
    assert all(bytes(store.read(key)) == data for key, data in before.items())


def test_append_after_other_names() -> None:
    """Merged datasets have folders; new shards go beside them."""
    store = MemoryStore()
    write(store, records(0, 5))
    index = json.loads(bytes(store.read("index.json")))
    for name in ("3/shard.00007.mds", "shard.00041.mds"):
        copy = MemoryStore({"index.json": store.read("index.json"), name: store.read("shard.00000.mds")})
        index["shards"][0]["raw_data"]["basename"] = name
        copy.write("index.json", json.dumps(index).encode())
        write(copy, records(5, 9), append=True)
        assert read(copy) == records(0, 9)


def test_append_of_other_columns_is_refused() -> None:
    store = MemoryStore()
    write(store, records(0, 5))
    before = bytes(store.read("index.json"))
    for columns in ({"text": "str"}, {"text": "bytes", "n": "int"}, {"text": "str", "n": "int", "m": "int"}):
        with pytest.raises(OutputError, match="cannot be added"):
            write(store, [], columns=columns, append=True)
    assert bytes(store.read("index.json")) == before


# ---- two at a time


@pytest.mark.parametrize("way", ["new", "append"])
def test_the_second_of_two_writers_is_refused(way: str) -> None:
    """Whichever of them is first to write or to finish keeps all it wrote, and the other is told."""
    for turns in ("abab", "abba", "baab", "baba"):
        store = MemoryStore()
        if way == "append":
            write(store, records(0, 30), size_limit=300)
        options: dict[str, Any] = {"columns": COLUMNS, "size_limit": 300, "append": way == "append"}
        writers = {name: Writer(store, **options) for name in "ab"}
        for writer in writers.values():
            writer._open()
        given = {"a": records(100, 130), "b": records(200, 230)}
        done: set[str] = set()
        refused: set[str] = set()
        said: set[bool] = set()
        for name in turns:
            if name in refused:
                continue
            try:
                if name in done:
                    writers[name].finish()
                else:
                    done.add(name)
                    for record in given[name]:
                        writers[name].write(record)
            except OutputError as error:
                said.add("somebody else" in str(error))
                refused.add(name)
                writers[name].abort()
                given[name] = []
        assert (len(refused), said) == (1, {True})
        base = records(0, 30) if way == "append" else []
        assert read(store) == base + given["a"] + given["b"]


def test_a_manifest_that_changed_is_not_replaced() -> None:
    """Also where the other one wrote no shard, or was done before this one wrote its first."""
    store = MemoryStore()
    write(store, records(0, 5))
    writer = Writer(store, columns=COLUMNS, append=True)
    writer._open()
    write(store, records(5, 9), append=True)
    writer.write(records(9, 10)[0])
    with pytest.raises(OutputError, match="somebody else"):
        writer.finish()
    writer.abort()
    assert read(store) == records(0, 9)
    new = MemoryStore()
    first, second = (Writer(new, columns=COLUMNS) for _ in range(2))
    first._open()
    second._open()
    first.finish()
    with pytest.raises(OutputError, match="its manifest changed"):
        second.finish()


# ---- what a crash leaves


def write_and_fail(writer: Writer, some: Sequence[dict[str, Any]]) -> None:
    with writer:
        for record in some:
            writer.write(record)
        assert len(writer._written) > 1
        _ = 1 / 0


def test_an_exception_does_not_finish() -> None:
    store = MemoryStore()
    writer = Writer(store, columns=COLUMNS, size_limit=300)
    with pytest.raises(ZeroDivisionError):
        write_and_fail(writer, records(0, 50))
    assert list(store.list()) == []
    with pytest.raises(OutputError, match="aborted"):
        writer.finish()


def test_an_exception_while_appending_leaves_what_was_there() -> None:
    store = MemoryStore()
    write(store, records(0, 30), size_limit=300)
    before = {key: bytes(store.read(key)) for key in store.list()}
    writer = Writer(store, columns=COLUMNS, size_limit=300, append=True)
    with pytest.raises(ZeroDivisionError):
        write_and_fail(writer, records(30, 60))
    assert {key: bytes(store.read(key)) for key in store.list()} == before


@pytest.mark.parametrize("way", ["new", "append", "overwrite"])
def test_any_call_of_the_store_fails(way: str) -> None:
    """At every n: nothing that looks whole and is not, and the next attempt succeeds."""
    for n in range(1, 200):
        inner = MemoryStore()
        if way != "new":
            write(inner, records(0, 30), size_limit=300)
        old = read(inner) if way != "new" else None
        wanted = records(30, 60) if way != "append" else records(0, 60)
        options: dict[str, Any] = {"size_limit": 300} if way == "new" else {"size_limit": 300, way: True}
        store = FaultyStore(inner, fail_at=n)
        try:
            write(store, records(30, 60), **options)
        except StoreError:
            try:
                found = read(inner)
            except MissingError:
                assert way != "append", "what was there is gone"
            else:
                assert found in (old, wanted)
            again = {"new": {"overwrite": True}}.get(way, {way: True})
            write(inner, records(30, 60), **{**options, **again})
        else:
            assert n > 3
            assert len(store.calls) < n
            break
        if way != "append" or found == old:
            assert read(inner) == wanted
    else:
        pytest.fail("it never succeeded")
    assert read(inner) == wanted


KILLED = """
import os, signal, sys
from tombola import Writer
with Writer(sys.argv[1], columns={"text": "str", "n": "int"}, size_limit=300, append=sys.argv[2] == "append") as writer:
    for n in range(100, 130):
        writer.write({"text": "", "n": n})
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("way", ["new", "append"])
def test_killed(way: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    if way == "append":
        write(folder, records(0, 30), size_limit=300)
    run = subprocess.run([sys.executable, "-c", KILLED, str(folder), way], timeout=60)
    assert run.returncode == -signal.SIGKILL
    store = LocalStore(folder)
    assert len(list(store.list("shard."))) > 1, "it was killed before it wrote a shard"
    if way == "new":
        with pytest.raises(MissingError):
            open_manifest(store)
        write(folder, records(0, 9), overwrite=True)
        assert read(store) == records(0, 9)
    else:
        assert read(store) == records(0, 30)
        write(folder, records(30, 60), size_limit=300, append=True)
        assert read(store) == records(0, 60)


def test_the_manifest_comes_last() -> None:
    store = FaultyStore(MemoryStore())
    write(store, records(0, 60), size_limit=300)
    written = [key for operation, key in store.calls if operation == "write"]
    assert written[-1] == "index.json"
    assert written.count("index.json") == 1
    assert len(written) > 3
