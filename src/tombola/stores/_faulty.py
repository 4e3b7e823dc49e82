"""A store with faults on order, for tests of whatever reads a store."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tombola.errors import InputError, StoreError
from tombola.stores._store import Bytes, Store, check_range

_OPERATIONS = frozenset({"read", "read_range", "size", "list", "write", "delete"})


class FaultyStore(Store):
    """Wraps a store and spoils it: calls that fail, keys that are cut short, bits that are flipped.

    fail_at
        The number of the call that fails, the first one being 1, or several numbers. Run an operation with
        fail_at = 1, 2, 3, … until it succeeds, and every place where it can be hurt has been tried.
    operations
        The methods that count as calls and can fail: all of them, unless given.
    truncate
        Key → how many bytes are left of it.
    flip
        Key → the number of a bit that is the other way round when read.

    `calls` lists what was called: (operation, key) each.

    >>> from tombola.stores import MemoryStore
    >>> store = FaultyStore(MemoryStore({"a": b"1234"}), fail_at=2, truncate={"a": 3})
    >>> bytes(store.read("a"))
    b'123'
    >>> store.read("a")
    Traceback (most recent call last):
    tombola.errors.StoreError: read of memory:/a fails on order, as call 2
    """

    def __init__(
        self,
        store: Store,
        *,
        fail_at: int | Iterable[int] = (),
        operations: Iterable[str] = _OPERATIONS,
        truncate: Mapping[str, int] | None = None,
        flip: Mapping[str, int] | None = None,
    ) -> None:
        self._store = store
        self._fail_at = frozenset([fail_at] if isinstance(fail_at, int) else fail_at)
        self._operations = frozenset(operations)
        if unknown := sorted(self._operations - _OPERATIONS):
            raise InputError(f"{unknown[0]!r} is no operation of a store; they are {sorted(_OPERATIONS)}")
        self._truncate = dict(truncate or {})
        self._flip = dict(flip or {})
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []

    @property
    def uri(self) -> str:
        """That of the wrapped store."""
        return self._store.uri

    def read(self, key: str) -> memoryview:
        """All bytes of a key, spoiled as asked."""
        self._count("read", key)
        data = self._store.read(key)
        return self._spoil(key, data[: self._truncate.get(key, len(data))], 0)

    def read_range(self, key: str, start: int, stop: int) -> memoryview:
        """The bytes start…stop−1, spoiled as asked."""
        self._count("read_range", key)
        if key in self._truncate:
            check_range(self, key, start, stop, min(self._truncate[key], self._store.size(key)))
        return self._spoil(key, self._store.read_range(key, start, stop), start)

    def size(self, key: str) -> int:
        """How many bytes a key has, or is left with."""
        self._count("size", key)
        size = self._store.size(key)
        return min(size, self._truncate.get(key, size))

    def list(self, prefix: str = "") -> Iterator[str]:
        """The keys that begin with a prefix, in sorted order."""
        self._count("list", prefix)
        return self._store.list(prefix)

    def prefetch(self, key: str, start: int = 0, stop: int | None = None) -> None:
        """Handed on."""
        self._store.prefetch(key, start, stop)

    def write(self, key: str, data: Bytes) -> None:
        """Handed on, unless it fails on order."""
        self._count("write", key)
        self._store.write(key, data)

    def delete(self, key: str) -> None:
        """Handed on, unless it fails on order."""
        self._count("delete", key)
        self._store.delete(key)

    def close(self) -> None:
        """Closes the wrapped store."""
        self._store.close()

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process counts for itself.
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def _count(self, operation: str, key: str) -> None:
        if operation not in self._operations:
            return
        with self._lock:
            self.calls.append((operation, key))
            number = len(self.calls)
        if number in self._fail_at:
            uri = self.uri_of(key)
            raise StoreError(f"{operation} of {uri} fails on order, as call {number}", uri=uri)

    def _spoil(self, key: str, data: memoryview, start: int) -> memoryview:
        bit = self._flip.get(key)
        if bit is None or not start <= bit // 8 < start + len(data):
            return data
        spoiled = bytearray(data)
        spoiled[bit // 8 - start] ^= 1 << bit % 8
        return memoryview(spoiled).toreadonly()
