"""The key of a method: one for each seed and number of rows."""

from __future__ import annotations

from tombola.order import derive_key


def key_of(seed: int, method: str, n: int) -> int:
    """The 64-bit key from which a method computes its permutation of n rows."""
    return derive_key(seed, f"arrays/{method}", n)
