"""Compression: the one file that imports zstandard, brotli and cramjam, optional dependencies (extra "codecs").

Whole files only, as MDS has them. What is given out has exactly the length that the manifest promises, and no
file can make us allocate much more than that, whatever it holds.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from tombola.errors import DataError, FormatError, MissingExtra
from tombola.stores import Bytes

Compress = Callable[[Bytes, int], bytes]
Decompress = Callable[[Bytes, int], bytes]


@dataclass(frozen=True)
class Codec:
    """One compression: its name, which is also the ending of its files, its levels and its two functions."""

    name: str
    levels: range
    level: int
    compress: Compress
    decompress: Decompress


def codec(text: str) -> tuple[Codec, int]:
    """The compression and its level, from "zstd" or "zstd:7".

    >>> codec("gz:6")[1]
    6
    """
    name, colon, level = text.partition(":")
    if name not in CODECS:
        raise FormatError(f"the compression {text!r} does not exist; there are {', '.join(sorted(CODECS))}")
    found = CODECS[name]
    if not colon:
        return found, found.level
    if not found.levels:
        raise FormatError(f"the compression {name!r} has no levels: write {name!r}")
    if not level.isdecimal() or int(level) not in found.levels:
        raise FormatError(f"{text!r}: the level must be one of {found.levels[0]}…{found.levels[-1]}")
    return found, int(level)


def decompress(data: Bytes, compression: str, size: int) -> bytes:
    """The bytes of a compressed file, of which there must be exactly `size`.

    >>> import zlib
    >>> decompress(zlib.compress(b"1234", wbits=31), "gz", 4)
    b'1234'
    """
    found, _ = codec(compression)
    try:
        raw = found.decompress(data, size)
    except MissingExtra:
        raise
    except Exception as error:  # each library has exceptions of its own, some of them bare
        raise DataError(f"it cannot be decompressed as {found.name}: {error}") from error
    if len(raw) != size:
        more = "more than" if len(raw) > size else f"{len(raw)} bytes, not"
        raise DataError(f"decompressed it has {more} the {size} bytes that the manifest promises")
    return raw


def unpacked(file: IO[bytes], compression: str) -> io.BufferedReader[Any]:
    """A compressed file, to be read from its beginning to its end as what it holds: gz, bz2, xz or zstd.

    >>> unpacked(io.BytesIO(bz2.compress(b"1234")), "bz2").read()
    b'1234'
    """
    if compression not in _STREAMS:
        raise FormatError(f"the compression {compression!r} cannot be read from a file; {', '.join(_STREAMS)} can")
    return io.BufferedReader(_Unpacked(_STREAMS[compression](file), file), _BUFFER_BYTES)


_BUFFER_BYTES = 1 << 16
_STREAMS: dict[str, Callable[[IO[bytes]], Any]] = {
    "gz": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    "bz2": lambda file: bz2.BZ2File(file, "rb"),
    "xz": lambda file: lzma.LZMAFile(file, "rb"),  # noqa: SIM115  closed with what reads it
    # Several frames end to end are one file, as they are for the zstd program.
    "zstd": lambda file: _library("zstandard", "zstd").ZstdDecompressor().stream_reader(file, read_across_frames=True),
}


class _Unpacked(io.RawIOBase):
    """What a library unpacks, and the file below, which it closes."""

    def __init__(self, reader: Any, file: IO[bytes]) -> None:
        self._reader = reader
        self._file = file

    def readinto(self, into: Any) -> int:
        data = self._reader.read(len(into))
        into[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
            self._file.close()
        super().close()


def _library(name: str, compression: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"{compression} compression needs {name}: pip install 'tombola[codecs]'") from error


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _compress_zstd(data: Bytes, level: int) -> bytes:
    stdlib = _optional("compression.zstd")
    if stdlib is not None:
        return bytes(stdlib.compress(data, level))
    return bytes(_library("zstandard", "zstd").ZstdCompressor(level=level).compress(data))


def _decompress_zstd(data: Bytes, size: int) -> bytes:
    stdlib = _optional("compression.zstd")
    if stdlib is not None:
        found = bytes(stdlib.ZstdDecompressor().decompress(data, size + 1))
        return found
    zstandard = _library("zstandard", "zstd")
    announced = zstandard.frame_content_size(data)
    if announced > size:
        raise DataError(f"its frame announces {announced} bytes")
    if announced == size:
        return bytes(zstandard.ZstdDecompressor().decompress(data))
    # No length, or one that is too short in a file of several frames.
    with zstandard.ZstdDecompressor().stream_reader(bytes(data), read_across_frames=True) as reader:
        return bytes(reader.read(size + 1))


def _compress_br(data: Bytes, level: int) -> bytes:
    return bytes(_library("brotli", "br").compress(bytes(data), quality=level))


def _decompress_br(data: Bytes, size: int) -> bytes:
    library = _library("brotli", "br")
    decoder = library.Decompressor()
    out, given = [], bytes(data)
    length = 0
    while not decoder.is_finished() and length <= size:
        part = decoder.process(given, output_buffer_limit=max(size + 1 - length, 1))
        given = b""
        if not part and decoder.can_accept_more_data() and not decoder.is_finished():
            raise DataError("it ends too early")
        out.append(part)
        length += len(part)
    return b"".join(out)


def _compress_snappy(data: Bytes, level: int) -> bytes:
    return bytes(_library("cramjam", "snappy").snappy.compress_raw(bytes(data)))


def _decompress_snappy(data: Bytes, size: int) -> bytes:
    announced = shift = 0
    for byte in bytes(data[:5]):
        announced |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if announced != size:
        raise DataError(f"it announces {announced} bytes, not {size}")
    return bytes(_library("cramjam", "snappy").snappy.decompress_raw(bytes(data)))


def _compress_gz(data: Bytes, level: int) -> bytes:
    # No name and no time in the header: equal data gives equal files.
    packer = zlib.compressobj(level, wbits=31)
    return packer.compress(data) + packer.flush()


def _decompress_gz(data: Bytes, size: int) -> bytes:
    return _members(data, size, lambda: zlib.decompressobj(wbits=31))


def _decompress_bz2(data: Bytes, size: int) -> bytes:
    return _members(data, size, bz2.BZ2Decompressor)


def _members(data: Bytes, size: int, start: Callable[[], Any]) -> bytes:
    """gzip and bzip2 files may be several, one after the other."""
    out = b""
    rest: Bytes = data
    while rest and len(out) <= size:
        member = start()
        out += member.decompress(rest, size + 1 - len(out))
        if not member.eof and len(out) <= size:
            raise DataError("it ends too early")
        rest = member.unused_data
    return out


CODECS = {
    made.name: made
    for made in (
        Codec("br", range(12), 11, _compress_br, _decompress_br),
        Codec("bz2", range(1, 10), 9, lambda data, level: bz2.compress(data, level), _decompress_bz2),
        Codec("gz", range(10), 9, _compress_gz, _decompress_gz),
        Codec("snappy", range(0), 0, _compress_snappy, _decompress_snappy),
        Codec("zstd", range(1, 23), 3, _compress_zstd, _decompress_zstd),
    )
}
