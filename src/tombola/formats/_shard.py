"""What a shard is: records by number, out of bytes in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from tombola.errors import DataError, InputError, ShardError
from tombola.formats._columns import Columns


class Shard(ABC):
    """The records of one shard. A subclass gives `payloads`; the rest follows.

    uri, number
        Where it came from and its place in the manifest, for messages.
    """

    columns: Columns
    records: int
    uri: str
    number: int | None
    #: What the native reader takes; None where there is only the slow one.
    native: Any = None

    @abstractmethod
    def payloads(self, record: int) -> tuple[memoryview, ...]:
        """The bytes of all columns of a record, as MDS would encode them, not decoded."""

    def read(self, record: int, columns: Iterable[str] | None = None) -> dict[str, Any]:
        """A record as a dict of decoded values, of all columns or of some."""
        payloads = self.payloads(self._within(record))
        out = {}
        for place in self.columns.places(columns):
            name = self.columns.names[place]
            try:
                out[name] = self.columns.encodings[place].decode(payloads[place])
            except DataError as error:
                raise self.error(record, f"column {name!r}: {error}") from error
        return out

    def error(self, record: int | None, what: str) -> ShardError:
        """An error about this shard, or a record of it."""
        where = f"{self.uri}, record {record}" if record is not None else self.uri
        return ShardError(f"{where}: {what}", uri=self.uri, shard=self.number, record=record)

    def _within(self, record: int) -> int:
        if not 0 <= record < self.records:
            raise InputError(f"record {record} is outside {self.uri}, which has {self.records}")
        return record

    def __len__(self) -> int:
        return self.records

    def __getitem__(self, record: int) -> dict[str, Any]:
        if record >= self.records:
            raise IndexError(f"record {record} of {self.records}")
        return self.read(record)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self.read(record) for record in range(self.records))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uri}: {self.records} records>"
