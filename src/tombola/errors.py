"""The exceptions of tombola: one tree, so that one `except` catches as much as you mean.

    TombolaError
    ├── InputError (ValueError)      an argument makes no sense; nothing was done
    │   ├── LayoutError              records per shard
    │   ├── OrderError               an order, its options, a position or record outside it
    │   ├── WorldError               nodes, ranks, workers
    │   ├── PlanError                batch size, tail policy, step
    │   ├── ArrayError               an array that cannot be shuffled as asked
    │   ├── FormatError              columns, compression, hashes, a column that is not there
    │   ├── ValueTypeError           a value does not fit its column: has record and column
    │   └── OutputError              the place to write to is taken, or a record cannot be written there
    ├── DataError                    data cannot be read: has uri, shard and record
    │   ├── StoreError               a store could not give or take bytes
    │   │   └── MissingError         there is nothing by that key
    │   ├── ManifestError            a manifest that cannot be understood, or must not be trusted
    │   │   └── UnsafeError          pickled columns, names that leave the folder of the dataset
    │   ├── HashError                bytes that differ from their hash
    │   └── ShardError               a shard that is cut short, or whose header or offsets lie
    ├── CursorError (ValueError)     a cursor does not belong to this run
    ├── StateError (ValueError)      a state does not belong to this pipeline, or it cannot give one
    ├── StreamError                  a stream cannot go on: closed, replaced by a newer iteration, or kept waiting
    ├── MapError                     a mapped function failed: has record
    └── MissingExtra (ImportError)   an optional dependency is not installed

Every message says what happened, to which thing, and what to do next.

>>> from tombola.errors import InputError, OrderError
>>> issubclass(OrderError, InputError) and issubclass(OrderError, ValueError)
True
"""

from __future__ import annotations

__all__ = [
    "ArrayError",
    "CursorError",
    "DataError",
    "FormatError",
    "HashError",
    "InputError",
    "LayoutError",
    "ManifestError",
    "MapError",
    "MissingError",
    "MissingExtra",
    "OrderError",
    "OutputError",
    "PlanError",
    "ShardError",
    "StateError",
    "StoreError",
    "StreamError",
    "TombolaError",
    "UnsafeError",
    "ValueTypeError",
    "WorldError",
]


class TombolaError(Exception):
    """The root: every exception that tombola raises on purpose."""


class InputError(TombolaError, ValueError):
    """An argument makes no sense; nothing was done."""


class LayoutError(InputError):
    """The records per shard make no sense."""


class OrderError(InputError):
    """An order, one of its options, or a position or record outside it."""


class WorldError(InputError):
    """The nodes, ranks or workers make no sense."""


class PlanError(InputError):
    """The batch size, the tail policy or a step make no sense."""


class ArrayError(InputError):
    """An array cannot be shuffled as asked; no row was moved."""


class CursorError(TombolaError, ValueError):
    """A cursor does not belong to this run."""


class StateError(TombolaError, ValueError):
    """A state does not belong to this pipeline, is damaged or not whole, or cannot be given."""


class StreamError(TombolaError):
    """A stream cannot go on: it was closed, a newer iteration took its place, or nothing came for too long."""


class MapError(TombolaError):
    """A function failed: has `record`, where it takes one record: its number in the dataset, or in a pipeline's run."""

    def __init__(self, message: str, *, record: int | None = None) -> None:
        super().__init__(message)
        self.record = record


class MissingExtra(TombolaError, ImportError):
    """An optional dependency is not installed."""


class FormatError(InputError):
    """Columns, an encoding, a compression or a hash that does not exist, or a column that is not there."""


class ValueTypeError(InputError):
    """A value does not fit its column: has `record`, its number in this writer, and `column`."""

    def __init__(self, message: str, *, record: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.record = record
        self.column = column


class OutputError(InputError):
    """The place to write to is taken, or a record cannot be written there."""


class DataError(TombolaError):
    """Data cannot be read: has `uri` (what was read), `shard` and `record` (its place in the shard), where known."""

    def __init__(
        self, message: str, *, uri: str | None = None, shard: int | None = None, record: int | None = None
    ) -> None:
        super().__init__(message)
        self.uri = uri
        self.shard = shard
        self.record = record


class StoreError(DataError):
    """A store could not give or take bytes."""


class MissingError(StoreError):
    """There is nothing by that key."""


class ManifestError(DataError):
    """A manifest that cannot be understood, or must not be trusted."""


class UnsafeError(ManifestError):
    """Pickled columns, or names that leave the folder of the dataset."""


class HashError(DataError):
    """Bytes that differ from their hash."""


class ShardError(DataError):
    """A shard that is cut short, or whose header or offsets lie."""
