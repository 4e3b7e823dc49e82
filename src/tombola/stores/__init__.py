"""Stores: bytes by key, from a folder, from memory, from anywhere.

>>> from tombola.stores import MemoryStore
>>> bytes(MemoryStore({"a/b": b"some bytes"}).read_range("a/b", 5, 10))
b'bytes'
"""

from tombola.stores._faulty import FaultyStore
from tombola.stores._keys import check_key
from tombola.stores._local import LocalStore
from tombola.stores._memory import MemoryStore
from tombola.stores._store import Bytes, Store

__all__ = ["Bytes", "FaultyStore", "LocalStore", "MemoryStore", "Store", "check_key"]
