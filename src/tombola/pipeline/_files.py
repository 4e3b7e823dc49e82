"""Records in files: one shard a file, and a place in it is an offset in bytes."""

from __future__ import annotations

import codecs
import csv
import functools
import glob
import importlib
import io
import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tombola.errors import DataError, InputError, StateError
from tombola.formats import unpacked
from tombola.pipeline._sources import Source, passed
from tombola.pipeline._step import State, describe_value

Reader = Callable[[str], Iterable[Any]]
_BLOCK_BYTES, _BUFFER_BYTES = 1 << 15, 1 << 16
_PACKED = {"gz": "gz", "bz2": "bz2", "xz": "xz", "zst": "zstd", "zstd": "zstd"}
_BOM = codecs.BOM_UTF8


@functools.cache
def _json_loads() -> Callable[[bytes], Any]:
    """msgspec reads JSON about five times as fast. What it refuses, NaN for one, is read by the standard library."""
    try:
        fast: Callable[[bytes], Any] = importlib.import_module("msgspec").json.Decoder().decode
    except ImportError:
        return json.loads
    return fast


class FromFiles(Source):
    """Lines, JSON Lines or CSV, plain or compressed, or whatever a function reads from a path."""

    def __init__(self, pattern: Any, form: str | Reader, encoding: str) -> None:
        self._pattern = _patterns(pattern)
        if not callable(form) and form not in _FORMS:
            raise InputError(
                f"the format is {form!r}; from_files reads {', '.join(map(repr, _FORMS))}, or calls a function with "
                f"each path"
            )
        try:
            if "\n".encode(encoding) != b"\n":
                raise LookupError
        except LookupError:
            raise InputError(
                f"encoding is {encoding!r}; give the name of one in which a line ends with one byte"
            ) from None
        self._form = form
        self._encoding = encoding
        self._found: list[tuple[str, ...]] = []

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in the order of their names; looked for once."""
        if not self._found:
            self._found.append(_matching(self._pattern, callable(self._form)))
        return self._found[0]

    def begin(self) -> None:
        # What is compressed is read from its beginning to get anywhere, and so is what a function reads.
        self.seeks = not callable(self._form) and not any(_ending(path) in _PACKED for path in self.paths)
        super().begin()

    def shards(self) -> int:
        return len(self.paths)

    def name(self, shard: int) -> str:
        return self.paths[shard]

    def open(self, shard: int, place: Any) -> Iterator[Any]:
        path, form = self.paths[shard], self._form
        if callable(form):
            return passed(iter(form(path)), place)
        return _FORMS[form](path, self._encoding, place)

    def place(self, records: Iterator[Any], count: int) -> Any:
        return records.place() if isinstance(records, Lines) else count

    def state(self) -> State:
        return [len(self.paths), super().state()]

    def load(self, state: State) -> None:
        files, places = state
        if files != len(self.paths):
            raise StateError(
                f"the state was taken with {files} files, and {', '.join(self._pattern)} are {len(self.paths)}"
            )
        super().load(places)

    def describe(self) -> str:
        # Not the pattern: files may have moved.
        return f"from_files({describe_value(self._form)})"

    def __getstate__(self) -> dict[str, Any]:
        # Another process must read the same files, even if there are more by then.
        _ = self.paths
        return self.__dict__


def _ending(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _patterns(pattern: Any) -> tuple[str, ...]:
    given = [pattern] if isinstance(pattern, (str, os.PathLike)) else pattern
    try:
        found = tuple(os.fsdecode(one) for one in given)
    except TypeError:
        raise InputError(f"from_files was given {pattern!r}; give a pattern such as 'data/*.jsonl', or paths") from None
    if not found:
        raise InputError("from_files was given an empty list; give a pattern such as 'data/*.jsonl', or paths")
    return found


def _matching(patterns: Sequence[str], any_name: bool) -> tuple[str, ...]:
    found: list[str] = []
    for pattern in patterns:
        if not glob.has_magic(pattern) or os.path.exists(pattern):
            paths = [pattern] if any_name or os.path.isfile(pattern) else []
        else:
            paths = sorted(one for one in glob.glob(pattern, recursive=True) if os.path.isfile(one))
        if not paths:
            raise InputError(f"no file is there by {pattern!r}; patterns know *, ?, [] and ** for folders in folders")
        found += paths
    return tuple(found)


class Lines(Iterator[Any]):
    """The records of a file of lines, and at which byte the next one begins."""

    def __init__(self, path: str, encoding: str, offset: int) -> None:
        self._path = path
        self._encoding = encoding
        self._file = _opened(path)
        self._offset = offset  # of the first line that was not counted
        self._lines: list[bytes] = []
        self._ahead: Iterator[bytes] = iter(())
        self._counted = 0  # of `_lines`, in `_offset`
        self._records = self._read()
        try:
            _skip(self._file, offset, path)
        except BaseException:
            self._file.close()
            raise

    def __next__(self) -> Any:
        return next(self._records)

    def __iter__(self) -> Iterator[Any]:
        # Straight to the generator: nothing of ours is called for a record.
        return self._records

    def _read(self) -> Iterator[Any]:
        """The records."""
        raise NotImplementedError

    def _blocks(self) -> Iterator[Iterator[bytes]]:
        """Some lines at a time, so few that they stay in the processor's cache."""
        if not self._offset and self._file.peek(len(_BOM)).startswith(_BOM):
            self._offset = len(self._file.read(len(_BOM)))
        while lines := self._file.readlines(_BLOCK_BYTES):
            self._count(len(self._lines))
            self._lines, self._counted = lines, 0
            self._ahead = iter(lines)
            yield self._ahead

    def _taken(self) -> int:
        """How many of the lines at hand were taken."""
        return len(self._lines) - operator.length_hint(self._ahead)

    def _count(self, lines: int) -> None:
        self._offset += sum(map(len, self._lines[self._counted : lines]))
        self._counted = lines

    def place(self) -> int:
        """The offset of the next line."""
        self._count(self._taken())
        return self._offset

    def close(self) -> None:
        """Closes the file."""
        self._records.close()  # type: ignore[attr-defined]  # it is a generator
        self._file.close()


class _Text(Lines):
    def _read(self) -> Iterator[Any]:
        encoding = self._encoding
        for block in self._blocks():
            for line in block:
                yield {"text": line.decode(encoding).removesuffix("\n").removesuffix("\r")}


class _Json(Lines):
    def _read(self) -> Iterator[Any]:
        if codecs.lookup(self._encoding).name != "utf-8":
            raise InputError(f"{self._path}: JSON Lines are UTF-8; encoding is {self._encoding!r}")
        loads = _json_loads()
        for block in self._blocks():
            while True:
                try:
                    yield from map(loads, block)
                    break
                except Exception:  # noqa: BLE001  of the decoder: it is asked again, by the one that says where
                    line = self._lines[self._taken() - 1]
                if line.strip():
                    yield self._again(line)

    def _again(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except ValueError as error:
            start = self.place() - len(line)
            raise DataError(f"{self._path}, the line at byte {start} is no JSON: {error}", uri=self._path) from error


class _Csv(Lines):
    def _read(self) -> Iterator[Any]:
        here = self._offset
        header = self._header() if here else None
        reader = csv.reader(self._text())
        for row in reader:
            if header is None:
                header = _named(row, self._path)
            elif row:
                if len(row) != len(header):
                    raise DataError(
                        f"{self._path}, the row before byte {self.place()} has {len(row)} fields, the first row has "
                        f"{len(header)}",
                        uri=self._path,
                    )
                yield dict(zip(header, row, strict=True))

    def _header(self) -> list[str]:
        with _opened(self._path) as file:
            lines = (line.decode(self._encoding) for line in file)
            first = next(csv.reader(lines), [])
        return _named(first, self._path)

    def _text(self) -> Iterator[str]:
        for block in self._blocks():
            for line in block:
                yield line.decode(self._encoding).removesuffix("\n").removesuffix("\r") + "\n"


def _named(row: list[str], path: str) -> list[str]:
    row = [row[0].removeprefix("\ufeff"), *row[1:]] if row else row
    if not row or len(set(row)) < len(row):
        raise DataError(f"{path}: the first row must name the columns, each once; it is {row}", uri=path)
    return row


def _opened(path: str) -> io.BufferedReader[Any]:
    packed = _PACKED.get(_ending(path))
    file: io.BufferedReader[Any] = io.BufferedReader(io.FileIO(path), _BUFFER_BYTES)
    return file if packed is None else unpacked(file, packed)


def _skip(file: io.BufferedReader[Any], offset: int, path: str) -> None:
    """Goes to an offset, which of what is compressed means reading up to it."""
    if offset and _ending(path) not in _PACKED:
        file.seek(offset)
        return
    left = offset
    while left:
        data = file.read(min(left, _BUFFER_BYTES))
        if not data:
            raise DataError(f"{path} ends before byte {offset}, where a state goes on: it has become shorter", uri=path)
        left -= len(data)


_FORMS: dict[str, Callable[[str, str, int], Lines]] = {"text": _Text, "jsonl": _Json, "csv": _Csv}
