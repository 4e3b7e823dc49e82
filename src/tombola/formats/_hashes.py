"""Hashes: hashlib's, and xxhash's. The one file that imports xxhash, an optional dependency (extra "codecs")."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from tombola.errors import FormatError, HashError, MissingExtra
from tombola.stores import Bytes

_XXHASH = frozenset({"xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128"})
# Without a fixed length: a hash in a manifest has one.
_VARIABLE = frozenset({"shake_128", "shake_256"})
_HASHLIB = frozenset(name for name in hashlib.algorithms_available if hasattr(hashlib, name) and name not in _VARIABLE)
# Of the hashes a manifest may hold, check the one that is fastest on a machine like any.
_FASTEST = ("xxh3_128", "xxh128", "xxh3_64", "xxh64", "xxh32", "sha1", "sha256", "blake2b", "md5")


def hash_names() -> list[str]:
    """The names of all hashes that a manifest may have."""
    return sorted(_HASHLIB | _XXHASH)


def check_hashes(names: Iterable[str]) -> tuple[str, ...]:
    """The names, sorted, or a FormatError for one that does not exist or comes twice."""
    if isinstance(names, str):
        names = [names]
    given = tuple(sorted(names))
    for name in given:
        if name not in _HASHLIB | _XXHASH:
            raise FormatError(f"the hash {name!r} does not exist; there are {', '.join(hash_names())}")
    if len(set(given)) != len(given):
        raise FormatError(f"the hashes {list(given)} hold one twice")
    return given


def hash_of(data: Bytes, name: str) -> str:
    """The hash of bytes, in hexadecimal.

    >>> hash_of(b"", "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    if name in _XXHASH:
        return str(getattr(_xxhash(), name)(data).hexdigest())
    if name not in _HASHLIB:
        raise FormatError(f"the hash {name!r} does not exist; there are {', '.join(hash_names())}")
    return hashlib.new(name, data, usedforsecurity=False).hexdigest()


def check_hash(data: Bytes, hashes: Mapping[str, str], uri: str, *, names: Iterable[str] | None = None) -> None:
    """A HashError when bytes differ from a hash of theirs; without `names`, the fastest one is checked.

    Where there are no hashes nothing is checked: a manifest need not have any.
    """
    if names is None:
        known = sorted(hashes, key=lambda name: (_FASTEST.index(name) if name in _FASTEST else 99, name))
        # Without xxhash one of hashlib's will do; only where there is none is the extra asked for.
        names = [name for name in known if name not in _XXHASH or find_spec("xxhash")][:1] or known[:1]
    for name in names:
        if name not in hashes:
            raise FormatError(f"{uri} has no {name} hash in its manifest; there are {sorted(hashes)}")
        found = hash_of(data, name)
        if found != hashes[name].lower():
            raise HashError(
                f"{uri} is damaged: its {name} hash is {found}, the manifest has {hashes[name]}; fetch it again",
                uri=uri,
            )


def _xxhash() -> Any:
    try:
        return importlib.import_module("xxhash")
    except ImportError as error:
        raise MissingExtra("xxh hashes need xxhash: pip install 'tombola[codecs]'") from error
