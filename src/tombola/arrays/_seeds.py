"""A seed from what users have: a whole number, a generator, or nothing."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from tombola.order import derive_key

_END = 2**63 - 1


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
        return int(seed.integers(_END))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(seed, torch.Generator):
        return int(torch.randint(0, _END, (1,), generator=seed, device=seed.device).item())
    return seed  # type: ignore[no-any-return]  # derive_key checks it


def key_of(seed: int, method: str, n: int) -> int:
    """The 64-bit key from which a method computes its permutation of n rows."""
    return derive_key(seed, f"arrays/{method}", n)
