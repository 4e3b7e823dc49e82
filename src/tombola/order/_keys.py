"""Seeds are keys, not sums: a key is a hash of (seed, purpose, …), so no two purposes share a random stream."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from typing import Any

import numpy as np

from tombola._ints import integer
from tombola.errors import OrderError

# Part of every hash. Changing it would change every order: it never changes.
_DOMAIN = b"tombola:1:"
_SEED_END = 2**1024
_DRAWN_END = 2**63 - 1
# A shuffle of a few rows would spend most of its time on making JSON of the same few words.
_quoted = functools.lru_cache(256)(json.dumps)


def derive_key(seed: int, *purpose: int | str) -> int:
    """The 64-bit key of a seed and a purpose.

    The first eight bytes, little-endian, of the BLAKE2b-64 hash of ``tombola:1:`` and the JSON list
    ``[seed,purpose,…]`` (ASCII, no spaces).

    >>> hex(derive_key(7, "lanes/parts", 0))
    '0xd30ff474733f4a4b'
    >>> derive_key(7, "epoch", 1) == derive_key(8, "epoch", 0)
    False
    """
    words = [str(check_seed(seed))]
    for word in purpose:
        if isinstance(word, str):
            words.append(_quoted(word))
        else:
            words.append(str(integer(word, "a purpose word", -(2**63), 2**63 - 1, OrderError)))
    text = f"[{','.join(words)}]".encode("ascii")
    return int.from_bytes(hashlib.blake2b(_DOMAIN + text, digest_size=8).digest(), "little")


def check_seed(seed: Any) -> int:
    """The seed as an int: any whole number, of any size and sign."""
    if type(seed) is int and -_SEED_END <= seed <= _SEED_END:
        return seed
    if isinstance(seed, np.ndarray) and seed.ndim:
        raise OrderError("seed is an array; it must be one whole number")
    return integer(seed, "seed", -_SEED_END, _SEED_END, OrderError)


def seed_of(seed: Any) -> int:
    """The seed as a whole number. A generator is drawn from once; None takes fresh entropy.

    >>> seed_of(7)
    7
    >>> seed_of(np.random.default_rng(0)) == seed_of(np.random.default_rng(0))
    True
    """
    if type(seed) is int:
        return seed
    if seed is None:
        return int.from_bytes(os.urandom(8), "little")
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(_DRAWN_END))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(seed, torch.Generator):
        return int(torch.randint(0, _DRAWN_END, (1,), generator=seed, device=seed.device).item())
    return seed  # type: ignore[no-any-return]  # derive_key checks it
