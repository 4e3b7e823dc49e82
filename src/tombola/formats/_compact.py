"""A manifest as a file of arrays: what is kept beside a cache so that 200,000 shards open at once.

    0     8 bytes "tombolaM", uint32 version, uint32 length of the header, 16 bytes digest of all that follows
    32    16 bytes: the key, a digest of the index.json it was made from
    48    the header, JSON: what is no array, and (name, dtype, shape, offset) of each array
    …     the arrays, each at a multiple of 64 bytes

Only a hint: where anything about it is wrong, the manifest is parsed again.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola.errors import DataError, FormatError
from tombola.formats._columns import Columns
from tombola.formats._digest import digest
from tombola.formats._manifest import Files, Manifest
from tombola.formats._schema import Schema
from tombola.stores import Bytes

_MAGIC = b"tombolaM"
_VERSION = 1
_HEAD = struct.Struct("<8s2I16s16s")
_ALIGN = 64


def pack_manifest(manifest: Manifest, key: bytes) -> bytearray:
    """The file for a manifest that was made from the index.json of this key."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "records": manifest.records_of,
        "schema_numbers": manifest.schema_numbers,
    }
    for kind, files in manifest.files.items():
        arrays |= {f"{kind}/sizes": files.sizes, f"{kind}/names": files.names, f"{kind}/ends": files.ends}
        arrays |= {f"{kind}/hashes/{name}": rows for name, rows in files.hashes.items()}
        arrays |= {f"{kind}/present/{name}": rows for name, rows in files.present.items()}
    places: list[tuple[str, str, list[int], int]] = []
    at = 0
    for name, array in arrays.items():
        places.append((name, array.dtype.newbyteorder("<").str, list(array.shape), at))
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    schemas = [{**asdict(schema), "columns": list(schema.columns.spec().items())} for schema in manifest.schemas]
    header = json.dumps({"digest": manifest.digest, "schemas": schemas, "arrays": places}).encode()
    header += b" " * (-(_HEAD.size + len(header)) % _ALIGN)
    body = bytearray(_HEAD.size + len(header) + at)
    body[_HEAD.size : _HEAD.size + len(header)] = header
    for (_, _, _, offset), array in zip(places, arrays.values(), strict=True):
        begin = _HEAD.size + len(header) + offset
        # Straight to its place: of 200,000 shards each copy of everything is 25 MB.
        place = np.frombuffer(body, array.dtype.newbyteorder("<"), array.size, begin).reshape(array.shape)
        place[...] = array
    _HEAD.pack_into(body, 0, _MAGIC, _VERSION, len(header), b"", key)
    covered = digest(memoryview(body)[32:])
    _HEAD.pack_into(body, 0, _MAGIC, _VERSION, len(header), covered, key)
    return body


def unpack_manifest(data: Bytes, key: bytes, *, uri: str) -> Manifest | None:
    """The manifest out of such a file; None where it is damaged, of another version, or of another key."""
    view = memoryview(data)
    if len(view) < _HEAD.size:
        return None
    magic, version, length, covered, found_key = _HEAD.unpack_from(view)
    if (magic, version, found_key) != (_MAGIC, _VERSION, key) or digest(view[32:]) != covered:
        return None
    try:
        header = json.loads(bytes(view[_HEAD.size : _HEAD.size + length]))
        arrays = {}
        for name, dtype, shape, offset in header["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(view, dtype, count, _HEAD.size + length + offset).reshape(shape)
        schemas = [Schema(**{**each, "columns": Columns(each["columns"])}) for each in header["schemas"]]
        kinds = sorted({name.partition("/")[0] for name in arrays if "/" in name})
        files = {kind: _files(kind, arrays) for kind in kinds}
        return Manifest(arrays["records"], arrays["schema_numbers"], schemas, files, uri=uri, digest=header["digest"])
    except (ValueError, KeyError, TypeError, FormatError, DataError):
        # The digest fits, so another version of this program wrote it.
        return None


def _files(kind: str, arrays: dict[str, npt.NDArray[Any]]) -> Files:
    def under(what: str) -> dict[str, npt.NDArray[Any]]:
        head = f"{kind}/{what}/"
        return {name[len(head) :]: array for name, array in arrays.items() if name.startswith(head)}

    names, ends = arrays[f"{kind}/names"], arrays[f"{kind}/ends"]
    return Files(arrays[f"{kind}/sizes"], names, ends, under("hashes"), under("present"))
