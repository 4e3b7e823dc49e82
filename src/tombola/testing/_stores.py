"""The laws of a store, as a pytest class that a user subclasses."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from tombola.errors import DataError, MissingError, StoreError
from tombola.stores import Bytes, Store

_CONTENTS = {
    "a": b"0123456789",
    "empty": b"",
    "folder/b": bytes(range(256)) * 40,
    "folder/deep er/c.mds.zstd": b"\0",
    "folders": b"not in the folder",
}
_BAD_KEYS = ("", "/a", "../a", "folder/../a", "./a", "a/", "folder//b", "folder\\b", "a\0b", "C:/a")


class StoreTests:
    """What every store promises. Override `make`; pytest does the rest.

    writable
        False for a store that only reads.

    >>> from tombola.stores import MemoryStore
    >>> class TestMyStore(StoreTests):
    ...     def make(self, contents, folder):
    ...         return MemoryStore(contents)
    """

    writable: ClassVar[bool] = True

    # ---- what a subclass overrides

    def make(self, contents: Mapping[str, bytes], folder: Path) -> Store:
        """A store that holds exactly these keys. `folder` is empty and its own."""
        raise StoreError(f"{type(self).__name__} has no make method; give it one")

    # ---- the laws

    def test_read(self, tmp_path: Path) -> None:
        """All bytes, their number, and views that cannot be written."""
        with self.make(_CONTENTS, tmp_path) as store:
            for key, data in _CONTENTS.items():
                found = store.read(key)
                assert isinstance(found, memoryview) and found.readonly and found.format == "B" and found.c_contiguous
                assert found == data, f"read({key!r}) gives other bytes"
                assert store.size(key) == len(data)
                assert store.has(key)

    def test_read_range(self, tmp_path: Path) -> None:
        """Exactly the bytes asked for."""
        with self.make(_CONTENTS, tmp_path) as store:
            for key, data in _CONTENTS.items():
                cuts = sorted({0, 1, 5, len(data) // 2, len(data) - 1, len(data)} & set(range(len(data) + 1)))
                for start in cuts:
                    for stop in (cut for cut in cuts if cut >= start):
                        found = store.read_range(key, start, stop)
                        assert isinstance(found, memoryview) and found.readonly
                        assert found == data[start:stop], f"read_range({key!r}, {start}, {stop}) gives other bytes"

    def test_range_outside(self, tmp_path: Path) -> None:
        """Never fewer bytes than asked for: an error that names the uri."""
        with self.make(_CONTENTS, tmp_path) as store:
            for key, start, stop in (("a", 0, 11), ("a", 10, 11), ("a", 99, 100), ("empty", 0, 1)):
                _refused(StoreError, store.uri_of(key), store.read_range, key, start, stop)
            for start, stop in ((-1, 2), (3, 2)):
                _refused(StoreError, store.uri_of("a"), store.read_range, "a", start, stop)

    def test_missing(self, tmp_path: Path) -> None:
        """What is not there is a MissingError with the uri, which survives pickling."""
        with self.make(_CONTENTS, tmp_path) as store:
            for key in ("b", "folder", "folder/bb", "a/b"):
                assert not store.has(key)
                errors = [
                    _refused(MissingError, store.uri_of(key), store.read, key),
                    _refused(MissingError, store.uri_of(key), store.read_range, key, 0, 0),
                    _refused(MissingError, store.uri_of(key), store.size, key),
                ]
                # A file system may call the removal of a folder something else.
                if self.writable and key != "folder":
                    errors.append(_refused(MissingError, store.uri_of(key), store.delete, key))
                for error in errors:
                    copy = pickle.loads(pickle.dumps(error))
                    assert (type(copy), str(copy), copy.uri) == (type(error), str(error), error.uri)

    def test_list(self, tmp_path: Path) -> None:
        """The keys with a prefix, sorted; a prefix need not end at a slash."""
        with self.make(_CONTENTS, tmp_path) as store:
            for prefix in ("", "a", "f", "folder", "folder/", "folder/d", "folder/b", "zzz", "none/at/all/"):
                wanted = sorted(key for key in _CONTENTS if key.startswith(prefix))
                assert list(store.list(prefix)) == wanted, f"list({prefix!r})"

    def test_bad_keys(self, tmp_path: Path) -> None:
        """A key that could leave the store is refused by every method."""
        with self.make(_CONTENTS, tmp_path) as store:
            for key in _BAD_KEYS:
                _refused(StoreError, repr(key), store.read, key)
                _refused(StoreError, repr(key), store.read_range, key, 0, 1)
                _refused(StoreError, repr(key), store.size, key)
                if self.writable:
                    _refused(StoreError, repr(key), store.write, key, b"x")
                    _refused(StoreError, repr(key), store.delete, key)

    def test_prefetch_is_only_a_hint(self, tmp_path: Path) -> None:
        """It changes nothing, and does not mind what is not there."""
        with self.make(_CONTENTS, tmp_path) as store:
            for key in (*_CONTENTS, "missing"):
                store.prefetch(key)
                store.prefetch(key, 1, 3)
            assert store.read("a") == _CONTENTS["a"]

    def test_write(self, tmp_path: Path) -> None:
        """Bytes of any kind, in new folders, over what was there; what was read before stays as it was."""
        with self.make(_CONTENTS, tmp_path) as store:
            if not self.writable:
                _refused(StoreError, store.uri_of("x"), store.write, "x", b"1")
                _refused(StoreError, store.uri_of("a"), store.delete, "a")
                return
            before = store.read("a")
            writes: dict[str, Bytes] = {
                "new/er/x": b"12",
                "a": bytearray(b"abc"),
                "m": memoryview(b"0123")[1:3],
                "e": b"",
            }
            for key, data in writes.items():
                store.write(key, data)
                assert store.read(key) == data
            assert before == _CONTENTS["a"], "a view changed when its key was written anew"
            assert list(store.list()) == sorted({*_CONTENTS, *writes})
            store.delete("a")
            assert not store.has("a")
            assert before == _CONTENTS["a"], "a view changed when its key was removed"

    def test_threads(self, tmp_path: Path) -> None:
        """Reading from several threads at once."""
        with self.make(_CONTENTS, tmp_path) as store, ThreadPoolExecutor(4) as pool:
            keys = [key for key in _CONTENTS for _ in range(25)]
            for key, found in zip(keys, pool.map(store.read, keys), strict=True):
                assert found == _CONTENTS[key]

    def test_pickle(self, tmp_path: Path) -> None:
        """A store reaches a worker process by pickling."""
        with self.make(_CONTENTS, tmp_path) as store:
            store.read("a")
            with pickle.loads(pickle.dumps(store)) as copy:
                assert copy.uri == store.uri
                assert copy.read("folder/b") == _CONTENTS["folder/b"]


def _refused(kind: type[DataError], named: str, call: Callable[..., object], *arguments: object) -> DataError:
    try:
        call(*arguments)
    except kind as error:
        assert named in str(error), f"the message does not name {named}: {error}"
        return error
    raise AssertionError(f"a {kind.__name__} was due that names {named}")
