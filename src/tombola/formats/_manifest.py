"""The manifest: names, sizes, hashes and record counts of the shards, in arrays and not in objects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola.errors import FormatError, ManifestError, UnsafeError
from tombola.formats._columns import Columns
from tombola.formats._schema import Schema
from tombola.order import Layout

FILES = ("raw_data", "zip_data", "raw_meta", "zip_meta")
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FileInfo:
    """A file of a shard: its key below the dataset, its bytes, its hashes in hexadecimal by name."""

    key: str
    size: int
    hashes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardInfo:
    """What a manifest says of a shard.

    number, records
        Its place in the manifest and how many records it has.
    schema
        What many shards have in common: format, columns, compression.
    raw, zipped
        The file as it is read, and compressed, None where there is none.
    raw_meta, zipped_meta
        Of text shards: the second file, which says where each line begins.
    """

    number: int
    records: int
    schema: Schema
    raw: FileInfo
    zipped: FileInfo | None = None
    raw_meta: FileInfo | None = None
    zipped_meta: FileInfo | None = None

    @property
    def columns(self) -> Columns:
        """Names and encodings."""
        return self.schema.columns

    @property
    def pairs(self) -> tuple[tuple[FileInfo, FileInfo | None], ...]:
        """The files it takes to read the shard: each one raw, and compressed where there is such a one."""
        first = (self.raw, self.zipped)
        return (first,) if self.raw_meta is None else (first, (self.raw_meta, self.zipped_meta))


@dataclass(frozen=True, eq=False)
class Files:
    """One kind of file, of all shards: what FILES names.

    sizes
        Bytes, −1 for a shard that has no such file.
    names, ends
        All keys back to back as UTF-8, and where each one ends.
    hashes
        By name: (shards, bytes) of digests. present: which shards have it; None for all that have the file.
    """

    sizes: _Ints
    names: npt.NDArray[np.uint8]
    ends: _Ints
    hashes: dict[str, npt.NDArray[np.uint8]]
    present: dict[str, npt.NDArray[np.bool_]]

    def info(self, shard: int) -> FileInfo | None:
        """What is known of this file of a shard."""
        if self.sizes[shard] < 0:
            return None
        begin = int(self.ends[shard - 1]) if shard else 0
        key = self.names[begin : int(self.ends[shard])].tobytes().decode()
        found = {
            name: rows[shard].tobytes().hex()
            for name, rows in self.hashes.items()
            if name not in self.present or self.present[name][shard]
        }
        return FileInfo(key, int(self.sizes[shard]), found)


class Manifest(Sequence[ShardInfo]):
    """All shards of a dataset. `manifest[s]` is what is known of shard s.

    Kept as arrays, about 100 bytes a shard. Made by `parse_manifest` and `open_manifest`.

    >>> from tombola.formats import parse_manifest
    >>> manifest = parse_manifest(b'{"shards": [], "version": 2}')
    >>> len(manifest), manifest.layout().records
    (0, 0)
    """

    def __init__(
        self,
        records: npt.ArrayLike,
        schema_numbers: npt.ArrayLike,
        schemas: Sequence[Schema],
        files: dict[str, Files],
        *,
        uri: str = "",
        digest: str | None = None,
    ) -> None:
        self.records_of = np.asarray(records, np.int64)
        self.schema_numbers = np.asarray(schema_numbers, np.int32)
        self.schemas = tuple(schemas)
        self.files = files
        self.uri = uri
        self._digest = digest

    @property
    def records(self) -> int:
        """How many records there are in all."""
        return int(self.records_of.sum())

    @cached_property
    def columns(self) -> Columns:
        """The columns, which must be the same in every shard."""
        kinds = {schema.columns for schema in self.schemas}
        if len(kinds) > 1:
            first, second = list(kinds)[:2]
            raise FormatError(f"the shards of {self.uri} differ in their columns: {first.spec()} and {second.spec()}")
        return kinds.pop() if kinds else Columns({})

    @property
    def raw_bytes(self) -> _Ints:
        """Bytes of each shard as it is read, the second file of text shards included."""
        return self._bytes("raw_data", "raw_meta")

    @property
    def stored_bytes(self) -> _Ints:
        """Bytes of each shard as it is stored and fetched: compressed, where it is."""
        stored = self._bytes("raw_data", "raw_meta")
        if "zip_data" in self.files:
            zipped = self.files["zip_data"].sizes >= 0
            stored = np.where(zipped, self._bytes("zip_data", "zip_meta"), stored)
        return stored

    def layout(self) -> Layout:
        """Only the integers: records per shard. What an order is made over."""
        return Layout(self.records_of)

    @property
    def digest(self) -> str:
        """A hash of what makes a record what it is: columns, counts, sizes, names and hashes of the raw shards.

        It belongs in a cursor's fingerprint. An MDS shard names its compression in its header, so the same
        records compressed in another way are another dataset.
        """
        if self._digest is None:
            self._digest = self._compute_digest()
        return self._digest

    def _compute_digest(self) -> str:
        state = hashlib.blake2b(b"tombola:manifest:1:", digest_size=16)
        kinds = [[schema.format, list(schema.columns.spec().items())] for schema in self.schemas]
        # The same columns in another compression are the same records: number them by themselves.
        distinct = [kind for place, kind in enumerate(kinds) if kind not in kinds[:place]]
        numbers = np.array([distinct.index(kind) for kind in kinds] or [0], "<i4")
        state.update(json.dumps(distinct).encode())
        parts: list[npt.NDArray[Any]] = [numbers[self.schema_numbers], np.asarray(self.records_of, "<i8")]
        for kind in ("raw_data", "raw_meta"):
            if kind in self.files:
                files = self.files[kind]
                parts += [np.asarray(files.sizes, "<i8"), np.asarray(files.ends, "<i8"), files.names]
                for name in sorted(files.hashes):
                    state.update(f":{kind}:{name}:".encode())
                    parts.append(files.hashes[name])
        for part in parts:
            state.update(f":{part.nbytes}:".encode())
            state.update(np.ascontiguousarray(part).data)
        return state.hexdigest()

    def _bytes(self, *kinds: str) -> _Ints:
        total = np.zeros(len(self), np.int64)
        for kind in kinds:
            if kind in self.files:
                total += np.maximum(self.files[kind].sizes, 0)
        return total

    def check_safe(self, allow_unsafe: bool) -> None:
        """An UnsafeError where there is a pickled column and it was not allowed."""
        for schema in self.schemas:
            if schema.columns.unsafe is not None and not allow_unsafe:
                raise UnsafeError(
                    f"{self.uri}: column {schema.columns.unsafe!r} is pickled, and reading it runs whatever code is in "
                    "the data; give allow_unsafe=True if you trust where it comes from",
                    uri=self.uri,
                    shard=int(np.argmax(self.schema_numbers == self.schemas.index(schema))),
                )

    def __len__(self) -> int:
        return self.records_of.size

    def __getitem__(self, shard: Any) -> Any:
        if isinstance(shard, slice):
            return [self[place] for place in range(*shard.indices(len(self)))]
        place = int(shard) + len(self) if shard < 0 else int(shard)
        if not 0 <= place < len(self):
            raise IndexError(f"shard {shard} of {len(self)}")
        found = {kind: files.info(place) for kind, files in self.files.items()}
        raw = found.get("raw_data")
        if raw is None:
            raise ManifestError(f"{self.uri}: shard {place} has no raw_data", uri=self.uri, shard=place)
        return ShardInfo(
            place,
            int(self.records_of[place]),
            self.schemas[int(self.schema_numbers[place])],
            raw,
            found.get("zip_data"),
            found.get("raw_meta"),
            found.get("zip_meta"),
        )

    def __iter__(self) -> Iterator[ShardInfo]:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Manifest) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Manifest of {self.records} records in {len(self)} shards, {self.uri}>"
