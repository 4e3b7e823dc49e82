"""What is streamed: the shards of one dataset, or of several laid end to end."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from tombola._ints import Ints
from tombola.errors import FormatError, InputError
from tombola.formats import Columns, Manifest, Shard, open_manifest, open_shard
from tombola.order import Layout
from tombola.stores import LocalStore, Store
from tombola.stream._options import Reading

Source = str | os.PathLike[str] | Store


def check_sources(given: Source | Sequence[Source]) -> tuple[Source, ...]:
    """One source or several, as a tuple; nothing is opened."""
    sources = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    if not sources:
        raise InputError("no dataset was given: give the folder of one, or a store")
    for source in sources:
        if not isinstance(source, (str, os.PathLike, Store)):
            raise InputError(f"{source!r} is no dataset: give the path of a folder, or a tombola.stores.Store")
        if isinstance(source, str) and "://" in source and not source.startswith("file://"):
            scheme = source.partition("://")[0]
            raise InputError(f"{source} cannot be opened by its name: give a store that reads {scheme}, or a folder")
    return sources


def _store(source: Source, reading: Reading) -> Store:
    if isinstance(source, Store):
        return source
    path = os.fspath(source)
    return LocalStore(Path(path.removeprefix("file://")), read=reading.read)


class Dataset:
    """The manifests of all sources, opened, and their shards numbered through."""

    def __init__(self, sources: Sequence[Source], reading: Reading, *, allow_unsafe: bool) -> None:
        self._stores = [_store(source, reading) for source in sources]
        cache = reading.manifest_cache()
        self.manifests: list[Manifest] = [
            open_manifest(store, cache=cache, allow_unsafe=allow_unsafe) for store in self._stores
        ]
        self._verify = reading.verify
        self._allow_unsafe = allow_unsafe
        # The first shard of each source, and one more entry for the end.
        self._first = np.cumsum([0, *(len(manifest) for manifest in self.manifests)])
        self.columns: Columns = self.manifests[0].columns
        for manifest in self.manifests[1:]:
            if manifest.columns != self.columns:
                raise FormatError(
                    f"the columns of {manifest.uri} are {manifest.columns.spec()}, those of {self.manifests[0].uri} "
                    f"{self.columns.spec()}: only datasets of the same columns can be read together"
                )

    @cached_property
    def layout(self) -> Layout:
        """Records per shard; with several sources, each is a stream of the layout."""
        sizes = np.concatenate([manifest.records_of for manifest in self.manifests])
        if len(self.manifests) == 1:
            return Layout(sizes)
        return Layout(sizes, streams=np.repeat(np.arange(len(self.manifests)), np.diff(self._first)))

    @cached_property
    def digest(self) -> str:
        """A hash of all manifests."""
        if len(self.manifests) == 1:
            return self.manifests[0].digest
        text = ",".join(manifest.digest for manifest in self.manifests)
        return hashlib.blake2b(b"tombola:manifests:1:" + text.encode(), digest_size=16).hexdigest()

    @cached_property
    def shard_bytes(self) -> Ints:
        """Bytes of each shard as it is read."""
        return np.concatenate([manifest.raw_bytes for manifest in self.manifests])

    @cached_property
    def record_bytes(self) -> float:
        """Bytes of a record on average, at least one."""
        return max(1.0, float(self.shard_bytes.sum(dtype=np.float64)) / max(1, self.layout.records))

    @property
    def uri(self) -> str:
        """Where it is, for messages."""
        return ", ".join(store.uri for store in self._stores)

    def open(self, shard: int) -> Shard:
        """Opens a shard: its bytes are mapped or read, unpacked where they are compressed, and checked."""
        source, number = self._place(shard)
        opened = open_shard(
            self.manifests[source],
            number,
            self._stores[source],
            verify=self._verify,
            allow_unsafe=self._allow_unsafe,
        )
        if len(self.manifests) > 1:
            opened.number = shard
        return opened

    def prefetch(self, shard: int) -> None:
        """A hint that a shard is read soon."""
        source, number = self._place(shard)
        for raw, zipped in self.manifests[source][number].pairs:
            self._stores[source].prefetch((zipped or raw).key)

    def describe(self, shard: int) -> str:
        """The uri of a shard, for messages."""
        source, number = self._place(shard)
        return self._stores[source].uri_of(self.manifests[source][number].raw.key)

    def _place(self, shard: int) -> tuple[int, int]:
        source = int(np.searchsorted(self._first, shard, side="right")) - 1
        return source, shard - int(self._first[source])

    def close(self) -> None:
        """Closes the stores."""
        for store in self._stores:
            store.close()
