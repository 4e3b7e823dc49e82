"""Bytes in memory: for tests, and for data that is small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tombola.stores._keys import check_key
from tombola.stores._store import Bytes, Store, check_range, missing


class MemoryStore(Store):
    """Keys and bytes in a dict.

    >>> store = MemoryStore()
    >>> store.write("a", b"123")
    >>> store.has("a"), store.has("b")
    (True, False)
    """

    def __init__(self, contents: Mapping[str, Bytes] | None = None) -> None:
        self._contents = {check_key(key): bytes(data) for key, data in (contents or {}).items()}

    @property
    def uri(self) -> str:
        """Always the same: memory has no place."""
        return "memory:/"

    def read(self, key: str) -> memoryview:
        """All bytes of a key, without a copy."""
        return memoryview(self._get(key))

    def read_range(self, key: str, start: int, stop: int) -> memoryview:
        """The bytes start…stop−1, without a copy."""
        data = self._get(key)
        check_range(self, key, start, stop, len(data))
        return memoryview(data)[start:stop]

    def size(self, key: str) -> int:
        """How many bytes a key has."""
        return len(self._get(key))

    def list(self, prefix: str = "") -> Iterator[str]:
        """The keys that begin with a prefix, in sorted order."""
        return iter(sorted(key for key in tuple(self._contents) if key.startswith(prefix)))

    def write(self, key: str, data: Bytes) -> None:
        """Puts a copy of the bytes under a key."""
        self._contents[check_key(key)] = bytes(data)

    def delete(self, key: str) -> None:
        """Removes a key."""
        if self._contents.pop(check_key(key), None) is None:
            raise missing(self, key)

    def _get(self, key: str) -> bytes:
        data = self._contents.get(check_key(key))
        if data is None:
            raise missing(self, key)
        return data
