"""What many shards have in common: everything a manifest says of a shard but its files and its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tombola.errors import FormatError
from tombola.formats._codecs import codec
from tombola.formats._columns import Columns
from tombola.formats._text import SEPARATORS, text_columns

VERSION = 2


@dataclass(frozen=True)
class Schema:
    """The format, columns and compression of shards.

    format
        "mds", "json", "xsv", "csv" or "tsv".
    compression
        As the manifest has it, "zstd:7" for example; None without.
    separator, newline
        Of text shards.
    """

    format: str
    columns: Columns
    compression: str | None = None
    separator: str | None = None
    newline: str = "\n"

    @property
    def is_text(self) -> bool:
        """True for the formats that are lines of text and a second file."""
        return self.format != "mds"

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Schema:
        """Out of a shard's entry in a manifest; a FormatError where it makes no sense."""
        kind, version, compression = entry.get("format"), entry.get("version"), entry.get("compression")
        if version != VERSION:
            raise FormatError(f"its version is {version!r}; only version {VERSION} is known")
        if compression is not None:
            codec(_text(compression, "compression"))
        if kind == "mds":
            return cls("mds", _mds_columns(entry), compression)
        newline = _text(entry.get("newline", "\n"), "newline")
        if kind == "json":
            spec = entry.get("columns")
            if not isinstance(spec, dict):
                raise FormatError("its columns are not there")
            return cls("json", text_columns(list(spec.items())), compression, None, newline)
        if kind in ("xsv", "csv", "tsv"):
            separator = _text(entry.get("separator", SEPARATORS.get(kind)), "separator")
            return cls(kind, text_columns(_pairs(entry)), compression, separator, newline)
        raise FormatError(f"the format {kind!r} does not exist; there are mds, json, xsv, csv and tsv")


def _mds_columns(entry: Mapping[str, Any]) -> Columns:
    columns = Columns(_pairs(entry))
    sizes = [-1 if size is None else size for size in _list(entry, "column_sizes")]
    if sizes != list(columns.sizes):
        raise FormatError(f"its column_sizes are {sizes}; its encodings have {list(columns.sizes)}, -1 being null")
    return columns


def _pairs(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    names, encodings = _list(entry, "column_names"), _list(entry, "column_encodings")
    if len(names) != len(encodings):
        raise FormatError(f"it has {len(names)} column_names and {len(encodings)} column_encodings")
    return list(zip(names, encodings, strict=True))


def _list(entry: Mapping[str, Any], name: str) -> list[Any]:
    found = entry.get(name)
    if not isinstance(found, list):
        raise FormatError(f"its {name} are not there")
    return found


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise FormatError(f"its {what} is {value!r}; it must be a string that is not empty")
    return value
