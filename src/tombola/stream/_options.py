"""How a stream reads: one small frozen value."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from tombola._ints import integer
from tombola.errors import InputError
from tombola.stores import LocalStore, Store

Read = Literal["auto", "mmap", "pread"]
OnError = Literal["raise", "skip", "stop"]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How bytes are fetched and how far ahead. None of it changes which records come.

    read
        How local files are read: "mmap", "pread" (for file systems where mapping is slow), or "auto".
    threads
        That open shards and gather records; as many as there are cores unless given.
    ahead_bytes_max
        How many bytes of batches, and how many bytes of shards that are not needed yet, may wait. At least one
        batch and the shards of a batch are always held.
    open_shards_max
        How many shards stay open, those of the batch being read apart.
    verify
        Check a hash of each shard that has one when it is opened; names choose which.
    wait_seconds_max
        A `StreamError` instead of a longer wait for a batch.
    cache
        A folder (or store) that keeps the manifest in a form that opens at once.

    >>> Reading(ahead_bytes_max=1 << 20).read
    'auto'
    """

    read: Read = "auto"
    threads: int | None = None
    ahead_bytes_max: int = 64 << 20
    open_shards_max: int = 4096
    verify: bool | tuple[str, ...] = False
    wait_seconds_max: float = 600.0
    cache: str | os.PathLike[str] | Store | None = None

    def __post_init__(self) -> None:
        if self.read not in get_args(Read):
            raise InputError(f"read is {self.read!r}; it must be one of {', '.join(get_args(Read))}")
        if self.threads is not None:
            integer(self.threads, "threads", 1, 1024, InputError)
        integer(self.ahead_bytes_max, "ahead_bytes_max", 0, None, InputError)
        integer(self.open_shards_max, "open_shards_max", 1, None, InputError)
        if not isinstance(self.verify, bool):
            if isinstance(self.verify, str) or not isinstance(self.verify, Iterable):
                raise InputError(f"verify is {self.verify!r}; it must be True, False or a list of names of hashes")
            object.__setattr__(self, "verify", tuple(self.verify))
        seconds = self.wait_seconds_max
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise InputError(f"wait_seconds_max is {seconds!r}; it must be a number of seconds above 0")

    def manifest_cache(self) -> Store | None:
        """The store that keeps manifests; None without."""
        if self.cache is None or isinstance(self.cache, Store):
            return self.cache
        return LocalStore(self.cache)
