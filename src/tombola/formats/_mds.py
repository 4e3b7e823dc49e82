"""An MDS shard in memory. native/src/mds.hpp draws the format; this is its slow twin, and opens it."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from tombola import _core
from tombola.errors import FormatError, ShardError
from tombola.formats._columns import Columns
from tombola.formats._shard import Shard
from tombola.stores import Bytes

#: What the native reader reports, in words. The slow one uses the same.
NO_RECORD, OFFSET, LENGTHS, CHANGED = 1, 2, 3, 4
FAULTS = {
    NO_RECORD: "there is no such record",
    OFFSET: "its offsets lie outside the shard: the shard is damaged; fetch it again",
    LENGTHS: "the lengths of its columns do not add up: the shard is damaged; fetch it again",
    CHANGED: "the shard changed while it was read: write new files and rename them over the old",
}


class MdsShard(Shard):
    """An uncompressed MDS shard. Nothing is decoded, or read but the header, until a record is asked for.

    data
        The whole file. It is kept, and read in place.
    columns
        Those of the manifest; without them, those that the shard's own header names.
    records
        How many the manifest promises.
    allow_unsafe
        Let pickled columns be. Reading one runs whatever code is in the data.

    >>> from tombola.formats import encode_mds
    >>> data = encode_mds([{"text": "one"}, {"text": "two"}], {"text": "str"})
    >>> MdsShard(data).read(1)
    {'text': 'two'}
    """

    def __init__(
        self,
        data: Bytes,
        columns: Columns | None = None,
        *,
        records: int | None = None,
        uri: str = "a shard in memory",
        number: int | None = None,
        allow_unsafe: bool = False,
    ) -> None:
        self.uri = uri
        self.number = number
        self._data = memoryview(data).cast("B").toreadonly()
        self.records, begin = self._check_header(records)
        config = self._config(begin)
        if columns is None:
            columns = config
            if columns is None:
                raise self.error(None, "its header names no columns; give those of the manifest")
        elif config is not None and config != columns:
            raise self.error(
                None, f"its header has the columns {config.spec()}, the manifest {columns.spec()}: it is another's"
            )
        if columns.unsafe is not None and not allow_unsafe:
            raise self.error(
                None, f"column {columns.unsafe!r} is pickled, and reading it runs code: allow_unsafe=True allows it"
            )
        self.columns = columns
        self._lengths = struct.Struct(f"<{sum(size < 0 for size in columns.sizes)}I")
        self.native = _core.MdsShard(np.frombuffer(self._data, np.uint8), list(columns.sizes), columns.schema)

    def payloads(self, record: int) -> tuple[memoryview, ...]:
        """The bytes of all columns of a record, in place."""
        begin, end = struct.unpack_from("<2I", self._data, 4 + 4 * self._within(record))
        if not 8 + 4 * self.records <= begin <= end <= len(self._data):
            raise self.error(record, FAULTS[OFFSET])
        at = begin + self._lengths.size
        if at > end:
            raise self.error(record, FAULTS[LENGTHS])
        lengths = iter(self._lengths.unpack_from(self._data, begin))
        found = []
        for size in self.columns.sizes:
            stop = at + (next(lengths) if size < 0 else size)
            if stop > end:
                raise self.error(record, FAULTS[LENGTHS])
            found.append(self._data[at:stop])
            at = stop
        if at != end:
            raise self.error(record, FAULTS[LENGTHS])
        return tuple(found)

    def _check_header(self, promised: int | None) -> tuple[int, int]:
        """The number of records and where the first begins."""
        size = len(self._data)
        if size < 8:
            raise self.error(None, f"it has {size} bytes, too few for an MDS shard: it is cut short; fetch it again")
        records, begin = struct.unpack_from("<2I", self._data)
        if promised is not None and records != promised:
            raise self.error(None, f"its header says {records} records, the manifest {promised}: it is another's")
        if 8 + 4 * records > size:
            raise self.error(None, f"its header says {records} records, for which its {size} bytes are too few")
        (end,) = struct.unpack_from("<I", self._data, 4 + 4 * records)
        if end != size:
            raise self.error(None, f"it has {size} bytes, its header says {end}: it is damaged; fetch it again")
        if not 8 + 4 * records <= begin <= end:
            raise self.error(None, "its header ends outside the shard: it is damaged; fetch it again")
        return records, begin

    def _config(self, begin: int) -> Columns | None:
        """The columns that the header's own JSON names; None where it does not."""
        try:
            config: Any = json.loads(bytes(self._data[8 + 4 * self.records : begin]))
            names, encodings = config["column_names"], config["column_encodings"]
            return Columns(zip(names, encodings, strict=True))
        except (ValueError, KeyError, TypeError):
            # Readers need the manifest only; this JSON is there for when the manifest is lost.
            return None
        except FormatError as error:
            raise self.error(None, str(error)) from error


def fault_error(shard: Shard, record: int, fault: int) -> ShardError:
    """The error for what the native reader found."""
    return shard.error(record, FAULTS[fault])
