"""Seeds are keys, not sums: a key is a hash of (seed, purpose, …), so no two purposes share a random stream."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from tombola._ints import integer
from tombola.errors import OrderError

# Part of every hash. Changing it would change every order: it never changes.
_DOMAIN = b"tombola:1:"
# Made once: json.dumps would make one for every key, which is what a shuffle of a few rows would spend its time on.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)


def derive_key(seed: int, *purpose: int | str) -> int:
    """The 64-bit key of a seed and a purpose.

    The first eight bytes, little-endian, of the BLAKE2b-64 hash of ``tombola:1:`` and the JSON list
    ``[seed,purpose,…]`` (ASCII, no spaces).

    >>> hex(derive_key(7, "lanes/parts", 0))
    '0xd30ff474733f4a4b'
    >>> derive_key(7, "epoch", 1) == derive_key(8, "epoch", 0)
    False
    """
    words: list[Any] = [check_seed(seed)]
    for word in purpose:
        if isinstance(word, str):
            words.append(word)
        else:
            words.append(integer(word, "a purpose word", -(2**63), 2**63 - 1, OrderError))
    text = _ENCODER.encode(words).encode("ascii")
    return int.from_bytes(hashlib.blake2b(_DOMAIN + text, digest_size=8).digest(), "little")


def check_seed(seed: Any) -> int:
    """The seed as an int: any whole number, of any size and sign."""
    if isinstance(seed, np.ndarray) and seed.ndim:
        raise OrderError("seed is an array; it must be one whole number")
    return integer(seed, "seed", -(2**1024), 2**1024, OrderError)
