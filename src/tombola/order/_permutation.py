"""The keyed permutation of 0…n−1: random access both ways, no memory."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from tombola import _core
from tombola._ints import THREADS, Ints, IntsLike, check_threads, integer, integers, is_scalar
from tombola.errors import OrderError
from tombola.order._keys import check_seed, derive_key

SIZE_MAX = 2**62


class Permutation:
    """A keyed bijection on 0…n−1, 1 ≤ n ≤ 2^62, with its inverse.

    Any element costs the same, whatever n is, and nothing is stored. The purpose words make as many unrelated
    permutations of one seed as there are purposes.

    >>> p = Permutation(10, 7)
    >>> sorted(p.at(range(10)).tolist()) == list(range(10))
    True
    >>> p.find(p.at(3))
    3
    """

    __slots__ = ("_core", "_identity")

    def __init__(self, n: int, seed: int, *purpose: int | str) -> None:
        size = integer(n, "n, the size of a permutation,", 1, SIZE_MAX, OrderError)
        self._identity = (size, check_seed(seed), *purpose)
        self._core = _core.Permutation(size, derive_key(seed, "permutation", *purpose))

    @property
    def n(self) -> int:
        """How many elements are permuted."""
        return int(self._identity[0])

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Permutation({', '.join(map(repr, self._identity))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Permutation) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Permutation, self._identity)

    @overload
    def at(self, i: int, *, threads: int = ...) -> int: ...
    @overload
    def at(self, i: IntsLike, *, threads: int = ...) -> Ints: ...
    def at(self, i: IntsLike, *, threads: int = THREADS) -> int | Ints:
        """Where i goes: a whole number for a whole number, an array for an array."""
        if is_scalar(i):
            return self._core.at_one(integer(i, "position", 0, self.n - 1, OrderError))
        given = integers(i, "position", self.n, OrderError)
        out = np.empty_like(given)
        self._core.at(given.reshape(-1), out.reshape(-1), check_threads(threads, OrderError))
        return out

    @overload
    def find(self, j: int, *, threads: int = ...) -> int: ...
    @overload
    def find(self, j: IntsLike, *, threads: int = ...) -> Ints: ...
    def find(self, j: IntsLike, *, threads: int = THREADS) -> int | Ints:
        """The i with at(i) == j."""
        if is_scalar(j):
            return self._core.find_one(integer(j, "value", 0, self.n - 1, OrderError))
        given = integers(j, "value", self.n, OrderError)
        out = np.empty_like(given)
        self._core.find(given.reshape(-1), out.reshape(-1), check_threads(threads, OrderError))
        return out

    def slice(self, start: int, stop: int, *, threads: int = THREADS) -> Ints:
        """at(start), …, at(stop − 1)."""
        stop = integer(stop, "stop", 0, self.n, OrderError)
        start = integer(start, "start", 0, stop, OrderError)
        out = np.empty(stop - start, np.int64)
        self._core.run(start, out, check_threads(threads, OrderError))
        return out
