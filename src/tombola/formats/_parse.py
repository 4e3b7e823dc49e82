"""A manifest out of index.json, an entry at a time: no more than one of them is ever an object."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from tombola.errors import FormatError, ManifestError, StoreError, UnsafeError
from tombola.formats._manifest import FILES, Files, Manifest
from tombola.formats._schema import Schema
from tombola.stores import Bytes, check_key

_SPACE = re.compile(r"[ \t\r\n]*")
_INT_MAX = 2**62
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
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{uri}: it is not UTF-8: {error.reason}", uri=uri) from error
    builder = _Builder(uri)
    for entry in _entries(text, uri):
        builder.add(entry)
    manifest = builder.manifest()
    manifest.check_safe(allow_unsafe)
    return manifest


def _entries(text: str, uri: str) -> Iterator[dict[str, Any]]:
    """The entries of "shards", one after the other. json.loads would hold hundreds of megabytes of dicts."""

    def bad(what: str) -> ManifestError:
        return ManifestError(f"{uri}: {what}", uri=uri)

    def skip(at: int) -> int:
        found = _SPACE.match(text, at)
        return found.end() if found else at

    def value(at: int) -> tuple[Any, int]:
        try:
            found, end = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            raise bad(f"it is no JSON, or cut short, at character {getattr(error, 'pos', at)} of {len(text)}") from None
        return found, skip(end)

    def member(at: int, opening: str, closing: str) -> int:
        # After a value: −1 at the closing bracket, else where the next value begins.
        sign = text[at : at + 1]
        if sign not in (",", closing) or not sign:
            raise bad(f"it is no JSON, or cut short, at character {at} of {len(text)}")
        return -1 if sign == closing else skip(at + 1)

    decoder = json.JSONDecoder()
    at = skip(0)
    if text[at : at + 1] != "{":
        raise bad("it is no JSON object")
    at = skip(at + 1)
    seen = False
    while text[at : at + 1] != "}":
        key, at = value(at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise bad(f"it is no JSON, or cut short, at character {at} of {len(text)}")
        at = skip(at + 1)
        if key != "shards":
            other, at = value(at)
            if key == "version" and other != 2:
                raise bad(f"its version is {other!r}; only version 2 is known")
        else:
            if seen or text[at : at + 1] != "[":
                raise bad('its "shards" are no list, or come twice')
            seen, at = True, skip(at + 1)
            while text[at : at + 1] != "]":
                entry, at = value(at)
                if not isinstance(entry, dict):
                    raise bad('something in "shards" is no object')
                yield entry
                onward = member(at, "[", "]")
                if onward < 0:
                    break
                at = onward
            at = skip(at + 1)
        onward = member(at, "{", "}")
        if onward < 0:
            break
        at = onward
    if skip(at + 1) < len(text):
        raise bad(f"there is more after its end, at character {at + 1}")
    if not seen:
        raise bad('it has no "shards": is it the index.json of a dataset?')


class _Column:
    """One kind of file while it is collected: lists now, arrays at the end."""

    def __init__(self, before: int) -> None:
        self.names: list[str] = [""] * before
        self.sizes: list[int] = [-1] * before
        self.hashes: dict[str, list[str]] = {}

    def add(self, found: dict[str, Any]) -> None:
        hashes = found["hashes"]
        count = len(self.sizes)
        self.names.append(found["basename"])
        self.sizes.append(found["bytes"])
        for name, digest in hashes.items():
            column = self.hashes.get(name)
            if column is None:
                column = self.hashes[name] = []
            if len(column) < count:
                column.extend([""] * (count - len(column)))
            if type(digest) is not str or not digest:
                raise FormatError(f"its {name} hash is {digest!r}; it must be a string that is not empty")
            column.append(digest)

    def files(self, uri: str) -> Files:
        names = [name.encode() for name in self.names]
        shards = len(names)
        rows, present = {}, {}
        for name, digests in self.hashes.items():
            digests.extend([""] * (shards - len(digests)))
            width = max(map(len, digests))
            there = np.array([bool(digest) for digest in digests], np.bool_)
            try:
                packed = bytes.fromhex("".join(digest or "0" * width for digest in digests))
                rows[name] = np.frombuffer(packed, np.uint8).reshape(shards, width // 2)
            except (ValueError, TypeError):
                wrong = next(n for n, each in enumerate(digests) if each and not _is_hex(each, width))
                what = f"{uri}: shard {wrong} has a {name} hash that is none"
                raise ManifestError(what, uri=uri, shard=wrong) from None
            if not (there | (np.array(self.sizes) < 0)).all():
                present[name] = there
        return Files(
            np.array(self.sizes, np.int64),
            np.frombuffer(b"".join(names), np.uint8),
            np.cumsum([len(name) for name in names], dtype=np.int64),
            rows,
            present,
        )


class _Builder:
    """Collects entries into lists, from which the arrays are made."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.records: list[int] = []
        self.numbers: list[int] = []
        self.schemas: list[Schema] = []
        self._rest: dict[str, Any] = {}
        self._rest_number = -1
        self._columns: dict[str, _Column] = {}

    def add(self, entry: dict[str, Any]) -> None:
        number = len(self.records)
        try:
            records = entry.pop("samples")
            if type(records) is not int or not 0 <= records < _INT_MAX:
                raise FormatError(f"its samples are {records!r}; they must be a whole number, not negative")
            for kind in FILES:
                found = entry.pop(kind, None)
                if found is not None:
                    self._add_file(kind, found, number)
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

    def manifest(self) -> Manifest:
        shards = len(self.records)
        for column in self._columns.values():
            missing = shards - len(column.sizes)
            column.names.extend([""] * missing)
            column.sizes.extend([-1] * missing)
        self._check_names()
        self._check_kinds()
        files = {kind: self._columns[kind].files(self.uri) for kind in FILES if kind in self._columns}
        return Manifest(self.records, self.numbers, self.schemas, files, uri=self.uri)

    def _add_file(self, kind: str, found: dict[str, Any], number: int) -> None:
        column = self._columns.get(kind)
        if column is None:
            column = self._columns[kind] = _Column(number)
        if len(column.sizes) < number:
            column.names.extend([""] * (number - len(column.names)))
            column.sizes.extend([-1] * (number - len(column.sizes)))
        name, size = found["basename"], found["bytes"]
        if type(size) is not int or not 0 <= size < _INT_MAX:
            raise FormatError(f"the bytes of its {kind} are {size!r}; they must be a whole number, not negative")
        if type(name) is not str:
            raise FormatError(f"the basename of its {kind} is {name!r}; it must be a string")
        column.add(found)

    def _schema_number(self, entry: dict[str, Any]) -> int:
        schema = Schema.of(entry)
        if schema not in self.schemas:
            self.schemas.append(schema)
        return self.schemas.index(schema)

    def _check_names(self) -> None:
        columns = self._columns.values()
        keys = [name for column in columns for name, size in zip(column.names, column.sizes, strict=True) if size >= 0]
        # All at once; which one it is matters only when one is bad.
        lines = "\n".join(["", *keys, ""])
        plain = lines.count("\n") == len(keys) + 1 and lines.replace("\n", "").isprintable()
        if not plain or any(text in lines for text in _SUSPECT):
            for column in columns:
                for number, name in enumerate(column.names):
                    if column.sizes[number] >= 0:
                        self._check_name(number, name)
        if len(set(keys)) != len(keys):
            twice = next(name for name, count in Counter(keys).items() if count > 1)
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
        numbers = np.array(self.numbers, np.int64)
        none = np.zeros(numbers.size, np.bool_)
        there = {kind: np.array(column.sizes) >= 0 for kind, column in self._columns.items()}
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


def _is_hex(text: object, width: int) -> bool:
    fits = isinstance(text, str) and len(text) == width and width % 2 == 0
    return fits and re.fullmatch("[0-9a-fA-F]+", str(text)) is not None
