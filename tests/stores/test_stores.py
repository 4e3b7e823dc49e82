"""The laws of stores, run on ours; and what only a folder can do wrong."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tombola import _core
from tombola.errors import InputError, MissingError, StoreError
from tombola.stores import FaultyStore, LocalStore, MemoryStore, Store, check_key
from tombola.stores._local import SLOW_TO_MAP, choose_read
from tombola.testing import StoreTests


def fill(folder: Path, contents: Mapping[str, bytes]) -> Path:
    for key, data in contents.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


class TestMappedFolder(StoreTests):
    def make(self, contents: Mapping[str, bytes], folder: Path) -> Store:
        return LocalStore(fill(folder, contents), read="mmap")


class TestReadFolder(StoreTests):
    def make(self, contents: Mapping[str, bytes], folder: Path) -> Store:
        return LocalStore(fill(folder, contents), read="pread", sync=False)


class TestFolderAsItComes(StoreTests):
    def make(self, contents: Mapping[str, bytes], folder: Path) -> Store:
        return LocalStore(str(fill(folder, contents)))


class TestMemory(StoreTests):
    def make(self, contents: Mapping[str, bytes], folder: Path) -> Store:
        return MemoryStore(contents)


class TestFaultyWithoutFaults(StoreTests):
    def make(self, contents: Mapping[str, bytes], folder: Path) -> Store:
        return FaultyStore(MemoryStore(contents))


class OnlyReads(MemoryStore):
    def write(self, key: str, data: object) -> None:
        Store.write(self, check_key(key), b"")

    def delete(self, key: str) -> None:
        Store.delete(self, check_key(key))


class TestReadOnly(StoreTests):
    writable = False

    def make(self, contents: Mapping[str, bytes], folder: Path) -> Store:
        return OnlyReads(contents)


def test_the_suite_finds_a_store_that_gives_too_little(tmp_path: Path) -> None:
    class Short(MemoryStore):
        def read_range(self, key: str, start: int, stop: int) -> memoryview:
            return self.read(key)[start:stop]

    class TestShort(StoreTests):
        def make(self, contents: Mapping[str, bytes], folder: Path) -> Store:
            return Short(contents)

    TestShort().test_read_range(tmp_path)
    with pytest.raises(AssertionError, match="StoreError was due"):
        TestShort().test_range_outside(tmp_path)


# ---- folders


def test_how_to_read_is_chosen_by_file_system(tmp_path: Path) -> None:
    assert all(choose_read(magic) == "pread" for magic in SLOW_TO_MAP)
    assert {"lustre", "nfs", "gpfs"} <= set(SLOW_TO_MAP.values())
    assert choose_read(0xEF53) == choose_read(0x01021994) == choose_read(0) == "mmap"  # ext4, tmpfs, unknown
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert LocalStore(tmp_path).mode == choose_read(_core.filesystem_magic(descriptor))
    finally:
        os.close(descriptor)


@pytest.mark.skipif(not Path("/proc/self/mounts").exists(), reason="Linux only")
def test_the_magic_number_is_the_kernels() -> None:
    descriptor = os.open("/proc", os.O_RDONLY)
    try:
        assert _core.filesystem_magic(descriptor) == 0x9FA0  # proc, see statfs(2)
    finally:
        os.close(descriptor)


def test_a_constructor_does_no_work(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "not" / "there")
    for call in (lambda: store.read("a"), lambda: store.mode):
        with pytest.raises(MissingError, match="not there"):
            call()
    assert list(store.list()) == []
    store.write("a", b"1")
    assert store.read("a") == b"1"


def test_an_unknown_way_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'direct' is not known"):
        LocalStore(tmp_path, read="direct")


def test_mapping_holds_no_descriptor_and_survives_removal(tmp_path: Path) -> None:
    store = LocalStore(fill(tmp_path, {"a": b"x" * 10000}), read="mmap")
    store.read("a")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    views = [store.read("a") for _ in range(100)]
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
    store.delete("a")
    assert all(view == b"x" * 10000 for view in views)
    part = views[0][5:8]
    views.clear()
    del store
    assert part == b"xxx"


def test_a_mapping_is_unmapped_when_its_last_view_goes(tmp_path: Path) -> None:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("Linux only")
    store = LocalStore(fill(tmp_path, {"only-here.bin": b"x" * 10000}), read="mmap")
    view = store.read("only-here.bin")
    part = view[1:2]
    assert "only-here.bin" in maps.read_text()
    del view
    assert "only-here.bin" in maps.read_text()
    del part
    assert "only-here.bin" not in maps.read_text()


def test_large_files_stay_mapped_within_a_bound(tmp_path: Path) -> None:
    """Within it a second reading is the same mapping; a file that changed, or is gone, is never read from the old."""
    mb = 1 << 20
    folder = fill(tmp_path, {"a": b"a" * mb, "b": b"b" * mb, "c": b"c" * mb, "small": b"s" * 100})

    def place(view: memoryview) -> int:
        return np.frombuffer(view, np.uint8).ctypes.data

    store = LocalStore(folder, read="mmap", mapped_bytes_max=2 * mb)
    views = {name: store.read(name) for name in ("a", "b", "c", "small")}
    same = {name for name, view in views.items() if place(store.read(name)) == place(view)}
    assert same == {"a", "b"}
    assert store.read_range("a", 5, 7) == b"aa"
    (tmp_path / "new").write_bytes(b"n" * mb)
    (tmp_path / "new").rename(tmp_path / "a")
    assert (store.read("a")[:3], views["a"][:3]) == (b"nnn", b"aaa")
    (tmp_path / "b").write_bytes(b"x" * (mb + 1))
    assert len(store.read("b")) == mb + 1
    store.delete("a")
    with pytest.raises(MissingError):
        store.read("a")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.read("c") == views["c"]
    store.close()
    assert place(store.read("c")) == place(store.read("c"))
    none = LocalStore(folder, read="mmap", mapped_bytes_max=0)
    first = none.read("c")
    assert place(first) != place(none.read("c"))
    with pytest.raises(InputError, match="mapped_bytes_max is -1"):
        LocalStore(folder, mapped_bytes_max=-1)


def test_pread_of_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    store = LocalStore(fill(tmp_path, {"a": b"x" * 100}), read="pread")
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        os.truncate(tmp_path / "a", 60)
        with pytest.raises(StoreError, match="has 60 bytes; 0…100 were asked for"):
            store._pread("a", descriptor, 0, 100)
    finally:
        os.close(descriptor)


def test_what_is_no_file_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    store = LocalStore(tmp_path)
    for call in (store.read, store.size):
        with pytest.raises(MissingError):
            call("folder")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(fill(tmp_path, {"a": b"old"}))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("write", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(StoreError, match="no space is left"):
                store.write("a", b"new")
        assert (tmp_path / "a").read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["a"]


KILLED = """
import os, sys
from tombola.stores import LocalStore
write = os.write
def die(descriptor, data):
    write(descriptor, data[: len(data) // 2])
    os._exit(9)
os.write = die
LocalStore(sys.argv[1]).write("a", b"new" * 1000)
"""


def test_killed_in_the_middle_of_a_write(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"old"})
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60).returncode == 9
    store = LocalStore(tmp_path)
    assert store.read("a") == b"old"
    assert len(os.listdir(tmp_path)) == 2  # what was written aside is there,
    assert list(store.list()) == ["a"]  # but it is no key


# ---- faults on order


def test_the_nth_call_fails() -> None:
    store = FaultyStore(MemoryStore({"a": b"1"}), fail_at=[2, 4])
    store.read("a")
    with pytest.raises(StoreError, match="size of memory:/a fails on order, as call 2"):
        store.size("a")
    store.size("a")
    with pytest.raises(StoreError, match="call 4"):
        list(store.list())
    assert store.calls == [("read", "a"), ("size", "a"), ("size", "a"), ("list", "")]


def test_only_the_operations_asked_for_fail() -> None:
    store = FaultyStore(MemoryStore(), fail_at=1, operations=["write"])
    assert not store.has("a")
    with pytest.raises(StoreError, match="write"):
        store.write("a", b"1")
    assert not store.has("a")
    with pytest.raises(InputError, match="'wrote' is no operation"):
        FaultyStore(MemoryStore(), operations=["wrote"])


def test_cut_short_and_flipped() -> None:
    store = FaultyStore(MemoryStore({"a": b"\0" * 4, "b": b"\0" * 4}), truncate={"a": 3}, flip={"b": 17})
    assert (store.size("a"), bytes(store.read("a"))) == (3, b"\0" * 3)
    with pytest.raises(StoreError):
        store.read_range("a", 2, 4)
    assert bytes(store.read("b")) == bytes(store.read_range("b", 0, 4)) == b"\0\0\2\0"
    assert bytes(store.read_range("b", 2, 3)) == b"\2"
    assert bytes(store.read_range("b", 0, 2)) == b"\0\0"
