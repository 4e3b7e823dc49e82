"""From a store to manifests and shards: bytes are fetched here, checked, unpacked and given to the formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from tombola.errors import DataError, FormatError, ManifestError, ShardError, StoreError
from tombola.formats._codecs import decompress
from tombola.formats._compact import pack_manifest, unpack_manifest
from tombola.formats._digest import digest
from tombola.formats._hashes import check_hash
from tombola.formats._manifest import FileInfo, Manifest, ShardInfo
from tombola.formats._mds import MdsShard
from tombola.formats._parse import parse_manifest, parse_pieces
from tombola.formats._shard import Shard
from tombola.formats._text import TextShard
from tombola.stores import Bytes, Store

MANIFEST_KEY = "index.json"
_PIECE = 4 << 20
_TRIES = 3


def open_manifest(
    store: Store, key: str = MANIFEST_KEY, *, cache: Store | None = None, allow_unsafe: bool = False
) -> Manifest:
    """The manifest of the dataset in a store.

    cache
        Where to keep it in a form that opens at once, under a name made from a digest of the index.json's
        bytes. What is kept is a hint: a damaged one is made again, and failing to write one is no error.
    allow_unsafe
        Let pickled columns be.

    >>> from tombola.stores import MemoryStore
    >>> len(open_manifest(MemoryStore({"index.json": b'{"shards": [], "version": 2}'})))
    0
    """
    uri = store.uri_of(key)
    # In pieces: the whole text is many times larger than what is kept of it.
    size = store.size(key)
    if cache is None and size <= _PIECE:
        return parse_manifest(store.read(key), uri=uri, allow_unsafe=allow_unsafe)
    for _ in range(_TRIES):
        text = _Marked(store, key, size)
        mark = text.mark()
        kept = f"manifest-{mark.hex()}.tombola"
        manifest = None if cache is None else _kept(cache, kept, mark, uri)
        if manifest is None:
            manifest = _parse(text, mark, uri)
            if manifest is None:
                size = store.size(key)
                continue
            if cache is not None:
                # A full or read-only cache: the next opening takes as long as this one.
                with suppress(StoreError):
                    cache.write(kept, pack_manifest(manifest, mark))
        manifest.check_safe(allow_unsafe)
        return manifest
    raise ManifestError(f"{uri} is written to again and again while it is read: open it when it is whole", uri=uri)


class _Marked:
    """A text in pieces, and a digest of it made from those of the pieces."""

    def __init__(self, store: Store, key: str, size: int) -> None:
        self._store, self._key, self._size = store, key, size
        self._digests: list[bytes] = []
        self._only: Bytes | None = None

    def pieces(self) -> Iterator[Bytes]:
        self._digests = []
        for at in range(0, self._size, _PIECE):
            piece = self._only
            if piece is None:
                piece = self._store.read_range(self._key, at, min(at + _PIECE, self._size))
            if self._size <= _PIECE:
                self._only = piece  # what fits is not fetched twice
            self._digests.append(digest(piece))
            yield piece

    def mark(self) -> bytes:
        """The digest, of what the text is now."""
        for _ in self.pieces():
            pass
        return self.mark_read()

    def mark_read(self) -> bytes:
        """The digest of the pieces that came last."""
        return digest(b"".join(self._digests))


def _parse(text: _Marked, mark: bytes, uri: str) -> Manifest | None:
    """The manifest; None where the text is not any more what the mark is of: its pieces may be from two texts."""
    try:
        manifest = parse_pieces(text.pieces(), uri=uri)
    except ManifestError:
        if text.mark_read() == mark:
            raise
        return None
    return manifest if text.mark_read() == mark else None


def _kept(cache: Store, key: str, mark: bytes, uri: str) -> Manifest | None:
    try:
        data = cache.read(key)
    except StoreError:
        return None
    return unpack_manifest(data, mark, uri=uri)


def open_shard(
    manifest: Manifest,
    number: int,
    store: Store,
    *,
    verify: bool | Iterable[str] = False,
    allow_unsafe: bool = False,
) -> Shard:
    """Shard `number` of a dataset, from the store that holds its files, compressed or not.

    verify
        True checks one hash of each file that the manifest has hashes of, names check those. Sizes are
        always checked.

    A `DataError` about it names its uri and its number.

    >>> from tombola import Writer
    >>> from tombola.stores import MemoryStore
    >>> store = MemoryStore()
    >>> with Writer(store, columns={"n": "int"}, hashes=["sha1"]) as writer:
    ...     writer.write({"n": 7})
    >>> open_shard(open_manifest(store), 0, store, verify=True).read(0)
    {'n': 7}
    """
    info: ShardInfo = manifest[number]
    try:
        parts = [_read_raw(info, raw, zipped, store, verify) for raw, zipped in info.pairs]
    except DataError as error:
        error.shard = info.number
        raise
    return make_shard(info, parts, uri=store.uri_of(info.raw.key), allow_unsafe=allow_unsafe)


def make_shard(info: ShardInfo, parts: Sequence[Bytes], *, uri: str, allow_unsafe: bool = False) -> Shard:
    """A shard from the raw bytes of its files, in the order of `info.pairs`."""
    schema = info.schema
    if schema.is_text:
        return TextShard(
            parts[0],
            parts[1],
            info.columns,
            separator=schema.separator,
            newline=schema.newline,
            records=info.records,
            uri=uri,
            number=info.number,
        )
    return MdsShard(
        parts[0], info.columns, records=info.records, uri=uri, number=info.number, allow_unsafe=allow_unsafe
    )


def check_file(data: Bytes, info: FileInfo, *, uri: str, verify: bool | Iterable[str] = False) -> None:
    """A DataError when the bytes of a file are not what its manifest says: their number always, a hash if asked."""
    if len(data) != info.size:
        what = "too long" if len(data) > info.size else "cut short"
        raise ShardError(
            f"{uri} is {what}: it has {len(data)} bytes, the manifest says {info.size}; fetch it again", uri=uri
        )
    if verify is not False:
        check_hash(data, info.hashes, uri, names=None if verify is True else verify)


def unpack_file(data: Bytes, info: ShardInfo, raw: FileInfo, *, uri: str) -> Bytes:
    """The raw bytes of a compressed file of a shard; exactly as many as the manifest promises."""
    if info.schema.compression is None:
        raise FormatError(f"{uri} is not compressed")
    try:
        return decompress(data, info.schema.compression, raw.size)
    except DataError as error:
        raise ShardError(f"{uri}: {error}; fetch it again", uri=uri, shard=info.number) from error


def _read_raw(
    info: ShardInfo, raw: FileInfo, zipped: FileInfo | None, store: Store, verify: bool | Iterable[str]
) -> Bytes:
    # A folder may hold both: what a reader unpacked beside what it fetched.
    if zipped is None or store.has(raw.key):
        data: Bytes = store.read(raw.key)
        check_file(data, raw, uri=store.uri_of(raw.key), verify=verify)
        return data
    uri = store.uri_of(zipped.key)
    data = store.read(zipped.key)
    check_file(data, zipped, uri=uri, verify=verify)
    data = unpack_file(data, info, raw, uri=uri)
    check_file(data, raw, uri=uri, verify=verify)
    return data
