"""What a store is: the few methods that everything above the bytes is built on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self

from tombola.errors import MissingError, StoreError

#: What a store takes. It always gives read-only memoryviews of single bytes.
Bytes = bytes | bytearray | memoryview


class Store(ABC):
    """Bytes by key. A subclass gives `read`, `read_range`, `size` and `list`, and what it can of the rest.

    A constructor only stores its arguments; the first call does the work. All methods may be called from
    several threads at once. What fails raises a `StoreError` with the uri of the key; a key that is not there, a
    `MissingError`. `tombola.testing.StoreTests` checks all of it.

    >>> from tombola.stores import MemoryStore
    >>> store = MemoryStore({"a": b"1234"})
    >>> store.size("a"), bytes(store.read("a")), list(store.list())
    (4, b'1234', ['a'])
    """

    @property
    @abstractmethod
    def uri(self) -> str:
        """Where the store is, for messages."""

    @abstractmethod
    def read(self, key: str) -> memoryview:
        """All bytes of a key, read-only; where the store can, without a copy."""

    @abstractmethod
    def read_range(self, key: str, start: int, stop: int) -> memoryview:
        """The bytes start…stop−1, exactly so many; a StoreError when the key ends before `stop`."""

    @abstractmethod
    def size(self, key: str) -> int:
        """How many bytes a key has."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[str]:
        """The keys that begin with a prefix, in sorted order."""

    def has(self, key: str) -> bool:
        """True when there is something by that key."""
        try:
            self.size(key)
        except MissingError:
            return False
        return True

    def prefetch(self, key: str, start: int = 0, stop: int | None = None) -> None:  # noqa: B027
        """A hint that these bytes are read soon. It may do nothing, and never fails."""

    def write(self, key: str, data: Bytes) -> None:
        """Puts bytes under a key, whole or not at all, replacing what was there."""
        uri = self.uri_of(key)
        raise StoreError(f"{uri} cannot be written: {type(self).__name__} only reads", uri=uri)

    def delete(self, key: str) -> None:
        """Removes a key; a MissingError when it is not there."""
        uri = self.uri_of(key)
        raise StoreError(f"{uri} cannot be removed: {type(self).__name__} only reads", uri=uri)

    def uri_of(self, key: str) -> str:
        """Where a key is, for messages."""
        return f"{self.uri.rstrip('/')}/{key}"

    def close(self) -> None:  # noqa: B027
        """Lets go of what the store holds; memory it gave stays valid."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uri}>"


def missing(store: Store, key: str) -> MissingError:
    """The error for a key that is not there."""
    uri = store.uri_of(key)
    return MissingError(f"{uri} is not there: check the name, and that all files of the dataset were copied", uri=uri)


def check_range(store: Store, key: str, start: int, stop: int, size: int) -> None:
    """Refuses a range that does not lie within the bytes of a key."""
    if not 0 <= start <= stop:
        raise StoreError(f"bytes {start}…{stop} of {store.uri_of(key)} are no range", uri=store.uri_of(key))
    if stop > size:
        uri = store.uri_of(key)
        raise StoreError(f"{uri} has {size} bytes; {start}…{stop} were asked for: is the file cut short?", uri=uri)
