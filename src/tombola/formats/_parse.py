"""A manifest out of index.json, an entry at a time: no more than one of them is ever an object."""

from __future__ import annotations

import codecs
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Any

import numpy as np

from tombola.errors import FormatError, ManifestError, StoreError, UnsafeError
from tombola.formats._manifest import FILES, Files, Manifest
from tombola.formats._schema import Schema
from tombola.stores import Bytes, check_key

_SPACE = re.compile(r"[ \t\r\n]*")
_SPACES = ("", " ", "\n", "\r", "\t")
_INT_MAX = 2**62
# Bytes of the text that are decoded at a time, and shards that are objects at a time.
_WINDOW = 256 << 10
_BLOCK = 4096
# So many characters of what may go on as a number are no end of it: "1.5e+".
_NUMBER_TAIL = 3
# Without any of these, and printable, a name is a key: `check_key` need not be asked. A search for each of them
# is many times faster than one regular expression for all.
_SUSPECT = ("\\", ":", "//", "/.", "\n.", "\n/", "/\n", "\n\n")


def parse_manifest(data: Bytes, *, uri: str = "index.json", allow_unsafe: bool = False) -> Manifest:
    """The manifest in the bytes of an index.json, of one dataset or of several merged into one.

    uri
        Where the bytes came from, for messages.
    allow_unsafe
        Let pickled columns be.

    >>> parse_manifest(b"[]")
    Traceback (most recent call last):
    tombola.errors.ManifestError: index.json: it is no JSON object
    """
    manifest = parse_pieces([data], uri=uri)
    manifest.check_safe(allow_unsafe)
    return manifest


def parse_pieces(pieces: Iterable[Bytes], *, uri: str) -> Manifest:
    """The same out of a text that comes in pieces, of which no more than a window is held, pickled columns allowed.

    All pieces are taken, also where there is an error: it is the same however the text is cut.
    """
    builder, text = _Builder(uri), _Text(pieces, uri)
    try:
        for entry in _entries(text):
            builder.add(entry)
    except ManifestError:
        text.drain()  # what is no text at all is said first
        raise
    return builder.manifest()


class _Text:
    """The text of a manifest, read from its front through a window: what was read is let go."""

    def __init__(self, pieces: Iterable[Bytes], uri: str) -> None:
        self._slices = _slices(pieces)
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._uri = uri
        self._raw_decode = json.JSONDecoder().raw_decode
        self._whole = False  # the window reaches to the end of the text
        self._text = ""
        self._at = 0
        self._before = 0  # characters that were let go

    @property
    def place(self) -> int:
        """How many characters were read."""
        return self._before + self._at

    def sign(self) -> str:
        """The next character that is no space, which stays; none at the end."""
        sign = self._text[self._at : self._at + 1]
        while sign in _SPACES:
            found = _SPACE.match(self._text, self._at)
            if found is not None:
                self._at = found.end()
            if self._at == len(self._text):
                if self._whole:
                    return ""
                self._more()
            sign = self._text[self._at : self._at + 1]
        return sign

    def skip(self) -> None:
        """Goes past the character that `sign` gave."""
        self._at += 1

    def value(self) -> Any:
        """The next value of JSON."""
        self.sign()
        while True:
            try:
                found, end = self._raw_decode(self._text, self._at)
            except (json.JSONDecodeError, RecursionError) as error:
                if self._whole:
                    raise self.broken(self._before + getattr(error, "pos", self._at)) from None
            else:
                # A number may go on behind the window: of "1.5e+7" cut short at its end "1.5" would be read.
                if self._whole or end + _NUMBER_TAIL <= len(self._text):
                    self._at = end
                    return found
            self._more()

    def member(self, closing: str) -> bool:
        """After a value: False at the closing bracket, which stays; True after a comma."""
        sign = self.sign()
        if sign not in (",", closing) or not sign:
            raise self.broken(self.place)
        if sign == closing:
            return False
        self._at += 1
        return True

    def bad(self, what: str) -> ManifestError:
        """An error about it."""
        return ManifestError(f"{self._uri}: {what}", uri=self._uri)

    def broken(self, place: int) -> ManifestError:
        """The error for what is no JSON. The rest of the text is read, to say how long it is."""
        self.drain()
        return self.bad(f"it is no JSON, or cut short, at character {place} of {self._before + len(self._text)}")

    def drain(self) -> None:
        """Reads the rest of the text and lets it go."""
        while not self._whole:
            self._before += len(self._text)
            self._text, self._at = "", 0
            self._more()

    def _more(self) -> None:
        # What is left of the window at least doubles, so that a value of any length is tried a few times only.
        parts = [self._text[self._at :]]
        self._before, self._at = self._before + self._at, 0
        wanted, added = max(1, len(parts[0])), 0
        try:
            while added < wanted and not self._whole:
                piece = next(self._slices, None)
                self._whole = piece is None
                part = self._decode(b"" if piece is None else piece, self._whole)
                added += len(part)
                parts.append(part)
        except UnicodeDecodeError as error:
            self._whole = True
            raise ManifestError(f"{self._uri}: it is not UTF-8: {error.reason}", uri=self._uri) from error
        self._text = "".join(parts)


def _slices(pieces: Iterable[Bytes]) -> Iterator[memoryview]:
    for piece in pieces:
        view = memoryview(piece)
        for at in range(0, len(view), _WINDOW):
            yield view[at : at + _WINDOW]


def _entries(text: _Text) -> Iterator[dict[str, Any]]:
    """The entries of "shards", one after the other. json.loads would hold hundreds of megabytes of dicts."""
    if text.sign() != "{":
        raise text.bad("it is no JSON object")
    text.skip()
    seen = False
    while text.sign() != "}":
        key = text.value()
        if text.sign() != ":" or not isinstance(key, str):
            raise text.broken(text.place)
        text.skip()
        if key != "shards":
            other = text.value()
            if key == "version" and other != 2:
                raise text.bad(f"its version is {other!r}; only version 2 is known")
        else:
            if text.sign() != "[" or seen:
                raise text.bad('its "shards" are no list, or come twice')
            seen = True
            text.skip()
            while text.sign() != "]":
                entry = text.value()
                if not isinstance(entry, dict):
                    raise text.bad('something in "shards" is no object')
                yield entry
                if not text.member("]"):
                    break
            text.skip()
        if not text.member("}"):
            break
    text.skip()
    end = text.place
    if text.sign():
        raise text.bad(f"there is more after its end, at character {end}")
    if not seen:
        raise text.bad('it has no "shards": is it the index.json of a dataset?')


class _Hashes:
    """The hashes by one name of one kind of file, a block of shards at a time."""

    def __init__(self) -> None:
        self.block: list[str] = []
        self.rows = bytearray()
        self.there = bytearray()
        # The first shard with a hash of each length, in characters, and the first with one that is not hexadecimal.
        self._lengths: dict[int, int] = {}
        self._wrong: int | None = None

    def flush(self, begin: int, count: int) -> None:
        """Packs the block of so many shards, of which the first has the number `begin`."""
        digests, self.block = self.block, []
        digests.extend([""] * (count - len(digests)))
        for length in {*map(len, digests)} - {0, *self._lengths}:
            self._lengths[length] = begin + next(n for n, each in enumerate(digests) if len(each) == length)
        self.there.extend(bytes(begin - len(self.there)))
        self.there.extend(map(bool, digests))
        # Of several lengths, or an odd one, there is a bad one in any case: nothing is packed any more.
        width = next(iter(self._lengths))
        if len(self._lengths) == 1 and width % 2 == 0:
            self.rows.extend(bytes(begin * (width // 2) - len(self.rows)))
            with suppress(ValueError):
                packed = bytes.fromhex("".join(digest or "0" * width for digest in digests))
                # It leaves spaces out.
                if len(packed) == count * (width // 2):
                    self.rows.extend(packed)
                    return
        if self._wrong is None:
            self._wrong = next((begin + n for n, each in enumerate(digests) if each and not _is_hex(each)), None)

    def wrong(self) -> int | None:
        """The first shard whose hash is none, or is not as long as the longest; None where all are sound."""
        longest = max(self._lengths)
        found = [shard for length, shard in self._lengths.items() if length != longest or longest % 2]
        if self._wrong is not None:
            found.append(self._wrong)
        return min(found, default=None)


class _Column:
    """One kind of file while it is collected: lists of a block of shards, packed when it is full."""

    def __init__(self) -> None:
        self.sizes, self.ends = array("q"), array("q")
        self.names = bytearray()
        self.hashes: dict[str, _Hashes] = {}
        # A hash of each name that is there: the same one twice may be the same name.
        self.marks = array("q")
        self.suspect = False  # some name may be no key
        self._names: list[str] = []
        self._sizes: list[int] = []

    def add(self, name: str, size: int, hashes: dict[str, Any], place: int) -> None:
        """The file of the shard at a place of the block."""
        if len(self._sizes) < place:
            self._pad(place)
        self._names.append(name)
        self._sizes.append(size)
        for kind, digest in hashes.items():
            column = self.hashes.get(kind)
            if column is None:
                column = self.hashes[kind] = _Hashes()
            if len(column.block) < place:
                column.block.extend([""] * (place - len(column.block)))
            if type(digest) is not str or not digest:
                raise FormatError(f"its {kind} hash is {digest!r}; it must be a string that is not empty")
            column.block.append(digest)

    def _pad(self, count: int) -> None:
        missing = count - len(self._sizes)
        self._names.extend([""] * missing)
        self._sizes.extend([-1] * missing)

    def flush(self, begin: int, count: int) -> None:
        """Packs the block of so many shards, of which the first has the number `begin`."""
        self._pad(count)
        names, sizes, self._names, self._sizes = self._names, self._sizes, [], []
        self.sizes.extend([-1] * (begin - len(self.sizes)))
        self.ends.extend([0] * (begin - len(self.ends)))
        keys = names if min(sizes) >= 0 else [name for name, size in zip(names, sizes, strict=True) if size >= 0]
        # All at once; which one it is matters only when one is bad.
        lines = "\n".join(["", *keys, ""])
        plain = lines.count("\n") == len(keys) + 1 and lines.replace("\n", "").isprintable()
        self.suspect |= bool(keys) and (not plain or any(text in lines for text in _SUSPECT))
        self.marks.extend(map(hash, keys))
        self.sizes.extend(sizes)
        packed = [name.encode("utf-8", "surrogatepass") for name in names]
        self.ends.extend(accumulate(map(len, packed[1:]), initial=len(self.names) + len(packed[0])))
        self.names.extend(b"".join(packed))
        for column in self.hashes.values():
            column.flush(begin, count)

    def named(self) -> Iterator[tuple[int, str]]:
        """The shards that have such a file, and its name."""
        begin = 0
        for shard, (size, end) in enumerate(zip(self.sizes, self.ends, strict=True)):
            if size >= 0:
                yield shard, self.names[begin:end].decode("utf-8", "surrogatepass")
            begin = end

    def files(self, uri: str) -> Files:
        shards = len(self.sizes)
        rows, present = {}, {}
        for name, hashes in self.hashes.items():
            wrong = hashes.wrong()
            if wrong is not None:
                what = f"{uri}: shard {wrong} has a {name} hash that is none"
                raise ManifestError(what, uri=uri, shard=wrong)
            rows[name] = np.frombuffer(hashes.rows, np.uint8).reshape(shards, -1)
            there = np.frombuffer(hashes.there, np.bool_)
            if not (there | (np.frombuffer(self.sizes, np.int64) < 0)).all():
                present[name] = there
        sizes, ends = np.frombuffer(self.sizes, np.int64), np.frombuffer(self.ends, np.int64)
        return Files(sizes, np.frombuffer(self.names, np.uint8), ends, rows, present)


class _Builder:
    """Collects entries in blocks, which are packed into arrays: a whole manifest of objects is many times larger."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.records = array("q")
        self.numbers = array("i")
        self.schemas: list[Schema] = []
        self._rest: dict[str, Any] = {}
        self._rest_number = -1
        self._columns: dict[str, _Column] = {}
        self._begin = 0  # the first shard of the block

    def add(self, entry: dict[str, Any]) -> None:
        number = len(self.records)
        try:
            records = entry.pop("samples")
            if type(records) is not int or not 0 <= records < _INT_MAX:
                raise FormatError(f"its samples are {records!r}; they must be a whole number, not negative")
            for kind in FILES:
                found = entry.pop(kind, None)
                if found is not None:
                    self._add_file(kind, found, number - self._begin)
            # The rest is nearly always what the shard before had.
            if entry != self._rest or self._rest_number < 0:
                self._rest, self._rest_number = entry, self._schema_number(entry)
        except KeyError as error:
            raise self._bad(number, f"it has no {error.args[0]!r}") from None
        except FormatError as error:
            raise self._bad(number, str(error)) from error
        except (TypeError, AttributeError) as error:
            raise self._bad(number, f"its entry is not understood: {error}") from error
        self.records.append(records)
        self.numbers.append(self._rest_number)
        if len(self.records) - self._begin == _BLOCK:
            self._flush()

    def _flush(self) -> None:
        count = len(self.records) - self._begin
        if count:
            for column in self._columns.values():
                column.flush(self._begin, count)
        self._begin = len(self.records)

    def manifest(self) -> Manifest:
        """What was collected, checked as a whole."""
        self._flush()
        self._check_names()
        self._check_kinds()
        files = {kind: self._columns[kind].files(self.uri) for kind in FILES if kind in self._columns}
        return Manifest(self.records, self.numbers, self.schemas, files, uri=self.uri)

    def _add_file(self, kind: str, found: dict[str, Any], place: int) -> None:
        column = self._columns.get(kind)
        if column is None:
            column = self._columns[kind] = _Column()
        name, size = found["basename"], found["bytes"]
        if type(size) is not int or not 0 <= size < _INT_MAX:
            raise FormatError(f"the bytes of its {kind} are {size!r}; they must be a whole number, not negative")
        if type(name) is not str:
            raise FormatError(f"the basename of its {kind} is {name!r}; it must be a string")
        column.add(name, size, found["hashes"], place)

    def _schema_number(self, entry: dict[str, Any]) -> int:
        schema = Schema.of(entry)
        if schema not in self.schemas:
            self.schemas.append(schema)
        return self.schemas.index(schema)

    def _check_names(self) -> None:
        columns = self._columns.values()
        if any(column.suspect for column in columns):
            for column in columns:
                for number, name in column.named():
                    self._check_name(number, name)
        marks = np.array([], np.int64)
        for column in columns:
            marks = np.concatenate([marks, np.frombuffer(column.marks, np.int64)])
        marks.sort()
        # Two names may have one hash, so it is looked at again.
        if (marks[1:] == marks[:-1]).any():
            counts = Counter(name for column in columns for _, name in column.named())
            twice = next((name for name, count in counts.items() if count > 1), None)
            if twice is not None:
                raise ManifestError(f"{self.uri}: the name {twice!r} comes twice", uri=self.uri)

    def _check_name(self, number: int, name: str) -> None:
        try:
            check_key(name)
        except StoreError:
            raise UnsafeError(
                f"{self.uri}: shard {number} has the name {name!r}, which is not a path below the dataset",
                uri=self.uri,
                shard=number,
            ) from None

    def _check_kinds(self) -> None:
        numbers = np.frombuffer(self.numbers, np.int32)
        none = np.zeros(numbers.size, np.bool_)
        there = {kind: np.frombuffer(column.sizes, np.int64) >= 0 for kind, column in self._columns.items()}
        text = np.array([schema.is_text for schema in self.schemas], np.bool_)[numbers] if numbers.size else none
        packed = np.array([schema.compression is not None for schema in self.schemas], np.bool_)
        zipped = packed[numbers] if numbers.size else none
        for wrong, what in (
            (~there.get("raw_data", none), "it has no 'raw_data'"),
            (text & ~there.get("raw_meta", none), "it has no 'raw_meta'"),
            (zipped & ~there.get("zip_data", none), "it is compressed, but has no 'zip_data'"),
            (zipped & text & ~there.get("zip_meta", none), "it is compressed, but has no 'zip_meta'"),
            (~zipped & there.get("zip_data", none), "it has 'zip_data', but no compression"),
        ):
            if wrong.any():
                raise self._bad(int(np.argmax(wrong)), what)

    def _bad(self, number: int, what: str) -> ManifestError:
        return ManifestError(f"{self.uri}: shard {number}: {what}", uri=self.uri, shard=number)


def _is_hex(text: str) -> bool:
    return re.fullmatch("[0-9a-fA-F]+", text) is not None
