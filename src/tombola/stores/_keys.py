"""What a key may be: a relative path with forward slashes that cannot leave the store."""

from __future__ import annotations

import re

from tombola.errors import StoreError

# A drive letter's colon is only refused in front: names of shards may hold one elsewhere.
_BAD = re.compile(r"^/|^[A-Za-z]:|\\|[\x00-\x1f\x7f\ud800-\udfff]|(?:^|/)(?:\.{0,2})(?:/|$)")


def is_key(text: object) -> bool:
    """True for what `check_key` lets through."""
    return isinstance(text, str) and not _BAD.search(text)


def check_key(key: str) -> str:
    """The key itself, or a StoreError: it must be a relative path with forward slashes and no `.` or `..`.

    >>> check_key("train/shard.00000.mds")
    'train/shard.00000.mds'
    """
    if not is_key(key):
        raise StoreError(
            f"the key {key!r} is not one: give a relative path with forward slashes, without empty parts, '.' and '..'"
        )
    return key
