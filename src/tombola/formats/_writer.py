"""Datasets are written here: MDS shards as they fill up, and the manifest last."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Self

from tombola.errors import FormatError, OutputError, StoreError, ValueTypeError
from tombola.formats._codecs import codec
from tombola.formats._columns import Columns
from tombola.formats._hashes import check_hashes, hash_of
from tombola.formats._manifest import Manifest
from tombola.formats._open import MANIFEST_KEY
from tombola.formats._parse import parse_manifest
from tombola.formats._schema import VERSION
from tombola.stores import Bytes, LocalStore, Store

_OWN = re.compile(r"shard\.(\d{5,})\.mds(\.\w+)?")
_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_SIZE_LIMIT = 1 << 26


class _Filling:
    """A shard while records are added: their bytes and where each ends."""

    #: Offsets have 32 bits.
    BYTES_MAX = (1 << 32) - 1

    def __init__(self, columns: Columns, settings: Mapping[str, Any]) -> None:
        self.columns = columns
        config = {
            "column_encodings": [each.name for each in columns.encodings],
            "column_names": list(columns.names),
            "column_sizes": [each.size for each in columns.encodings],
            "format": "mds",
            "version": VERSION,
            **settings,
        }
        self.settings = config
        self.config = json.dumps(config, sort_keys=True).encode()
        self.clear()

    def clear(self) -> None:
        self.body = bytearray()
        self.ends: list[int] = []

    def __len__(self) -> int:
        return len(self.ends)

    def bytes_with(self, record: bytes) -> int:
        """How large the file would be with one more record."""
        return 8 + len(self.config) + 4 * (len(self) + 1) + len(self.body) + len(record)

    def add(self, record: bytes) -> None:
        self.body += record
        self.ends.append(len(self.body))

    def file(self) -> bytes:
        begin = 8 + 4 * len(self) + len(self.config)
        table = struct.pack(f"<{len(self) + 2}I", len(self), begin, *(begin + end for end in self.ends))
        return b"".join((table, self.config, self.body))

    def encode(self, record: Mapping[str, Any], number: int) -> bytes:
        """The bytes of a record; a ValueTypeError names its number and the column that is wrong."""
        if not isinstance(record, Mapping):
            raise ValueTypeError(f"record {number} is a {type(record).__name__}, not a dict", record=number)
        if record.keys() != self.columns.keys():
            name = next(iter(sorted(record.keys() ^ self.columns.keys(), key=str)))
            what = "is missing" if name in self.columns else "is none of the columns"
            raise ValueTypeError(f"record {number}: column {name!r} {what}", record=number, column=str(name))
        lengths, payloads = [], []
        for name, kind in self.columns.items():
            try:
                payload = kind.encode(record[name])
            except ValueTypeError as error:
                what = f"record {number}, column {name!r} ({kind.name}): {error}"
                raise ValueTypeError(what, record=number, column=name) from error
            payloads.append(payload)
            if kind.size is None:
                lengths.append(len(payload))
        total = sum(map(len, payloads)) + 4 * len(lengths)
        if total > self.BYTES_MAX - len(self.config) - 12:
            raise OutputError(f"record {number} has {total} bytes; a shard can hold 4 GiB: store large values apart")
        return b"".join((struct.pack(f"<{len(lengths)}I", *lengths), *payloads))


class Writer:
    """Writes a dataset of MDS shards that mosaicml-streaming reads too.

    out
        A folder, or a store.
    columns
        Name → encoding. `tombola.formats.encoding_names` lists them.
    compression
        "zstd", "zstd:7", "gz", … of each shard; None without.
    hashes
        Names of hashes to keep in the manifest, "sha1" or "xxh3_64" for example.
    size_limit
        Bytes of a shard, as a number or as "64mb"; None for 4 GiB, the most there can be. A record that is
        larger gets a shard of its own.
    append
        Add to the dataset that is there; its shards stay as they are.
    overwrite
        Remove the dataset that is there, or what an unfinished writer left.
    allow_unsafe
        Let pickled columns be.

    Shards are written when they are full, the manifest when the writer finishes: until then nothing there looks
    like a dataset, or, with `append`, like more than it was before. A `with` block that ends in an exception
    does not finish, and takes its shards away. Of two writers to one place at a time the second one to write or to
    finish is refused with an `OutputError`.

    >>> from tombola.stores import MemoryStore
    >>> store = MemoryStore()
    >>> with Writer(store, columns={"text": "str", "label": "int"}) as writer:
    ...     writer.write({"text": "hello", "label": 1})
    >>> list(store.list())
    ['index.json', 'shard.00000.mds']
    """

    def __init__(
        self,
        out: str | os.PathLike[str] | Store,
        *,
        columns: Mapping[str, str],
        compression: str | None = None,
        hashes: Iterable[str] = (),
        size_limit: int | str | None = _SIZE_LIMIT,
        append: bool = False,
        overwrite: bool = False,
        allow_unsafe: bool = False,
    ) -> None:
        if not columns:
            raise FormatError("no columns were given: a record without any cannot be read back")
        kinds = Columns(dict(sorted(columns.items())))
        if kinds.unsafe is not None and not allow_unsafe:
            raise FormatError(
                f"column {kinds.unsafe!r} would be pickled, which runs code when read: use json, or allow_unsafe=True"
            )
        if append and overwrite:
            raise FormatError("append and overwrite exclude each other")
        self._codec = None if compression is None else codec(compression)
        self._limit = _Filling.BYTES_MAX if size_limit is None else _bytes(size_limit)
        self._store = out if isinstance(out, Store) else LocalStore(out)
        self._hashes = check_hashes(hashes)
        settings = {
            "compression": compression,
            "hashes": list(self._hashes),
            "size_limit": None if size_limit is None else self._limit,
        }
        self._shard = _Filling(kinds, settings)
        self._append, self._overwrite, self._allow_unsafe = append, overwrite, allow_unsafe
        self._entries: list[dict[str, Any]] = []
        self._written: list[str] = []
        self._records = 0
        self._next = 0
        self._state = "new"
        self._manifest: Manifest | None = None
        # The manifest that is added to, as it was when this writer began.
        self._before: bytes | None = None

    @property
    def columns(self) -> Columns:
        """Names and encodings, in the order of the file: by name."""
        return self._shard.columns

    @property
    def records(self) -> int:
        """How many records this writer was given."""
        return self._records

    def write(self, record: Mapping[str, Any]) -> None:
        """Adds a record. Where it does not fit its columns, it is refused and the writer goes on as if nothing was."""
        self._open()
        data = self._shard.encode(record, self._records)
        if len(self._shard) and self._shard.bytes_with(data) > min(self._limit, self._shard.BYTES_MAX):
            self._flush()
        self._shard.add(data)
        self._records += 1

    def finish(self) -> Manifest:
        """Writes what is left and then the manifest, which it returns. The writer is done then."""
        if self._manifest is None:
            self._open()
            if len(self._shard):
                self._flush()
            text = json.dumps({"shards": self._entries, "version": VERSION}, sort_keys=True).encode()
            uri = self._store.uri_of(MANIFEST_KEY)
            manifest = parse_manifest(text, uri=uri, allow_unsafe=True)
            if self._manifest_text() != self._before:
                raise self._refuse_others("its manifest changed")
            self._store.write(MANIFEST_KEY, text)
            self._manifest, self._state = manifest, "finished"
        return self._manifest

    def abort(self) -> None:
        """Ends without a manifest and takes away the shards that were written; what was there before stays."""
        if self._state == "finished":
            return
        self._state = "aborted"
        self._shard.clear()
        for key in self._written:
            # What stays belongs to nothing, without a manifest.
            with suppress(StoreError):
                self._store.delete(key)
        self._written = []

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.abort()

    def __repr__(self) -> str:
        return f"<Writer of {self._store.uri}, {self._state}: {self._records} records>"

    def _open(self) -> None:
        if self._state in ("finished", "aborted"):
            raise OutputError(f"the writer of {self._store.uri} has {self._state}: make a new one, or append=True")
        if self._state == "open":
            return
        if self._append:
            self._go_on()
        else:
            self._make_room()
        self._state = "open"

    def _make_room(self) -> None:
        there = self._store.has(MANIFEST_KEY)
        left = [key for key in self._store.list("shard.") if _OWN.fullmatch(key)]
        if not there and not left:
            return
        if not self._overwrite:
            what = "holds a dataset" if there else "holds shards of a writer that did not finish"
            other = "append=True to add to it, " if there else ""
            raise OutputError(f"{self._store.uri} {what}: give {other}overwrite=True to replace it, or another place")
        if there:
            self._store.delete(MANIFEST_KEY)  # first: what is left after a crash must not look whole
        for key in left:
            self._store.delete(key)

    def _go_on(self) -> None:
        # Shards that no manifest names may be those of a writer at work: they are left alone.
        names = [_OWN.fullmatch(key) for key in self._store.list("shard.")]
        text = self._manifest_text()
        if text is not None:
            names += [_OWN.fullmatch(info.raw.key) for info in self._check_old(text)]
            self._entries = json.loads(text)["shards"]
        self._before = text
        self._next = 1 + max((int(found[1]) for found in names if found), default=-1)

    def _check_old(self, text: bytes) -> Manifest:
        uri = self._store.uri_of(MANIFEST_KEY)
        manifest = parse_manifest(text, uri=uri, allow_unsafe=self._allow_unsafe)
        for schema in manifest.schemas:
            if schema.format != "mds" or schema.columns != self.columns:
                raise OutputError(
                    f"{self._store.uri} has {schema.format} shards with the columns {schema.columns.spec()}; "
                    f"{self.columns.spec()} cannot be added to them: give the same columns, or another place"
                )
        return manifest

    def _manifest_text(self) -> bytes | None:
        return bytes(self._store.read(MANIFEST_KEY)) if self._store.has(MANIFEST_KEY) else None

    def _refuse_others(self, what: str) -> OutputError:
        return OutputError(
            f"{self._store.uri} is written to by somebody else: {what} since this writer began; nothing of theirs was "
            f"changed. Write to a place of your own, or one after the other with append=True"
        )

    def _flush(self) -> None:
        data: Bytes = self._shard.file()
        name = f"shard.{self._next:05d}.mds"
        entry = {**self._shard.settings, "samples": len(self._shard), "zip_data": None}
        entry["raw_data"] = self._file(name, data)
        if self._codec is not None:
            found, level = self._codec
            name = f"{name}.{found.name}"
            data = found.compress(data, level)
            entry["zip_data"] = self._file(name, data)
        if self._store.has(name):
            raise self._refuse_others(f"{name} came")
        self._written.append(name)
        self._store.write(name, data)
        self._entries.append(entry)
        self._next += 1
        self._shard.clear()

    def _file(self, name: str, data: Bytes) -> dict[str, Any]:
        return {"basename": name, "bytes": len(data), "hashes": {kind: hash_of(data, kind) for kind in self._hashes}}


def encode_mds(records: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> bytes:
    """The bytes of one MDS shard.

    >>> len(encode_mds([{"n": 7}], {"n": "int"}))
    179
    """
    filling = _Filling(Columns(dict(sorted(columns.items()))), {"compression": None, "hashes": [], "size_limit": None})
    for number, record in enumerate(records):
        data = filling.encode(record, number)
        if filling.bytes_with(data) > filling.BYTES_MAX:
            raise OutputError(f"record {number} makes the shard larger than 4 GiB: begin another before it")
        filling.add(data)
    return filling.file()


def _bytes(size: int | str) -> int:
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?b?)\s*", size.lower())
        if not found or (found[2] and not found[2].endswith("b")):
            raise FormatError(f"size_limit={size!r} is not understood: write bytes, or '64mb'")
        size = int(float(found[1]) * _UNITS[found[2]])
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 1 << 32:
        raise FormatError(f"size_limit={size!r} is out of range: give 1…{(1 << 32) - 1} bytes, or None")
    return size
