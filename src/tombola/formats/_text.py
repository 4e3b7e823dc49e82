"""JSON, XSV, CSV and TSV shards: lines of text, and a second file that says where each begins."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tombola.errors import DataError, FormatError, ValueTypeError
from tombola.formats._columns import Columns
from tombola.formats._shard import Shard
from tombola.stores import Bytes

#: The encodings that text has, and what each is in MDS.
TEXT_ENCODINGS = {"str": "str", "int": "int", "float": "float64"}
SEPARATORS = {"csv": ",", "tsv": "\t"}


def text_columns(pairs: list[tuple[str, str]]) -> Columns:
    """The columns of a text shard, a float being 64 bits wide."""
    for name, kind in pairs:
        if kind not in TEXT_ENCODINGS:
            raise FormatError(f"column {name!r} is {kind!r}; in text there are {', '.join(sorted(TEXT_ENCODINGS))}")
    return Columns([(name, TEXT_ENCODINGS[kind]) for name, kind in pairs])


class TextShard(Shard):
    """An uncompressed JSON, XSV, CSV or TSV shard.

    data, meta
        Its two files.
    separator
        What stands between the values of a line; None where a line is a JSON object.

    >>> lines = b'{"n": 1}\\n{"n": 22}\\n'
    >>> meta = struct.pack("<4I", 2, 0, 9, 19)
    >>> TextShard(lines, meta, Columns({"n": "int"})).read(1)
    {'n': 22}
    """

    def __init__(
        self,
        data: Bytes,
        meta: Bytes,
        columns: Columns,
        *,
        separator: str | None = None,
        newline: str = "\n",
        records: int | None = None,
        uri: str = "a shard in memory",
        number: int | None = None,
    ) -> None:
        self.uri = uri
        self.number = number
        self.columns = columns
        self._separator = separator
        self._newline = newline.encode()
        self._data = memoryview(data).cast("B").toreadonly()
        table = memoryview(meta).cast("B")
        count = struct.unpack_from("<I", table)[0] if len(table) >= 8 else -1
        if count < 0 or len(table) < 8 + 4 * count:
            raise self.error(None, "its .meta file is cut short: fetch it again")
        if records is not None and count != records:
            raise self.error(None, f"its .meta file says {count} records, the manifest {records}: it is another's")
        self.records = count
        self._starts = np.frombuffer(table, "<u4", count + 1, 4)
        if int(self._starts[-1]) != len(self._data):
            end = int(self._starts[-1])
            raise self.error(None, f"it has {len(self._data)} bytes, its .meta file says {end}: it is damaged")

    def payloads(self, record: int) -> tuple[memoryview, ...]:
        """The values of a record as MDS would encode them."""
        encode: list[Callable[[Any], bytes]] = [each.encode for each in self.columns.encodings]
        values = self._values(self._within(record))
        try:
            return tuple(memoryview(do(value)) for do, value in zip(encode, values, strict=True))
        except ValueTypeError as error:
            raise self.error(record, str(error)) from error

    def read(self, record: int, columns: Iterable[str] | None = None) -> dict[str, Any]:
        """A record as a dict of plain Python values, of all columns or of some."""
        values = self._values(self._within(record))
        return {self.columns.names[place]: values[place] for place in self.columns.places(columns)}

    def _values(self, record: int) -> list[Any]:
        begin, end = int(self._starts[record]), int(self._starts[record + 1])
        if not begin <= end <= len(self._data):
            raise self.error(record, "its offsets lie outside the shard: the .meta file is damaged; fetch it again")
        line = bytes(self._data[begin:end])
        if not line.endswith(self._newline):
            raise self.error(record, "its line does not end with a newline: the .meta file is damaged; fetch it again")
        try:
            text = line[: len(line) - len(self._newline)].decode()
            return self._of_json(text) if self._separator is None else self._of_line(text, self._separator)
        except (ValueError, DataError) as error:
            raise self.error(record, f"its line cannot be read: {error}") from error

    def _of_json(self, text: str) -> list[Any]:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise DataError("it is no JSON object")
        missing = [name for name in self.columns if name not in found]
        if missing:
            raise DataError(f"it has no {missing[0]!r}")
        return [found[name] for name in self.columns]

    def _of_line(self, text: str, separator: str) -> list[Any]:
        parts = text.split(separator)
        if len(parts) != len(self.columns):
            raise DataError(f"it has {len(parts)} values, not {len(self.columns)}")
        make = {"int": int, "float64": float, "str": str}
        return [make[each.name](part) for each, part in zip(self.columns.encodings, parts, strict=True)]
