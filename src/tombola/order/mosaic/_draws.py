"""NumPy's random draws without NumPy's generator: the ground the exact orders stand on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import Ints, integer
from tombola.errors import OrderError

#: Seeds and seed + epoch are 64-bit words; one bit less, so that their sum is one too.
SEED_END = 2**63


class Draws:
    """What ``numpy.random.default_rng(seed)`` of NumPy 2.1.3 draws, whatever NumPy is installed.

    NumPy may change the streams of `Generator` from one release to the next, and says so; the orders of this room may
    not change with them. Only the methods those orders need are here, with the same results and the same state after.

    >>> Draws(7).permutation(5).tolist() == np.random.default_rng(7).permutation(5).tolist()
    True
    """

    __slots__ = ("_core",)

    def __init__(self, seed: int) -> None:
        self._core = _core.Pcg64(integer(seed, "seed", 0, 2**64 - 1, OrderError))

    def shuffle(self, values: npt.NDArray[Any]) -> None:
        """Shuffle a flat, contiguous array of 32- or 64-bit whole numbers in place, as `Generator.shuffle`."""
        if values.dtype not in (np.int32, np.int64) or values.ndim != 1 or not values.flags.c_contiguous:
            raise OrderError(
                f"shuffle takes a flat contiguous int32 or int64 array, not {values.dtype} of {values.ndim} dimensions"
            )
        self._core.shuffle(values)

    def permutation(self, n: int) -> Ints:
        """0 … n−1 shuffled, as `Generator.permutation`."""
        out = np.arange(integer(n, "n", 0, 2**62, OrderError), dtype=np.int64)
        self._core.shuffle(out)
        return out

    def integers(self, low: int, high: int, count: int) -> Ints:
        """`count` whole numbers from low to high − 1, as `Generator.integers`."""
        low = integer(low, "low", -(2**63), 2**63 - 2, OrderError)
        high = integer(high, "high", low + 1, min(2**63, low + 2**63), OrderError)
        out = np.empty(integer(count, "count", 0, None, OrderError), np.int64)
        self._core.bounded(high - low - 1, out)
        return out + np.int64(low)

    def uniform(self, low: float, high: float, count: int) -> npt.NDArray[np.float64]:
        """`count` numbers between low and high, as `Generator.uniform`."""
        out = np.empty(integer(count, "count", 0, None, OrderError), np.float64)
        self._core.units(out)
        return low + (high - low) * out

    def choice(self, n: int, k: int) -> Ints:
        """k of 0 … n−1, each at most once, as `Generator.choice` with ``replace=False``."""
        n = integer(n, "n", 0, 2**62, OrderError)
        k = integer(k, "k, how many are chosen,", 0, n, OrderError)
        return np.array(self._core.choose(n, k), np.int64)


def check_seed(seed: Any) -> int:
    """A seed of the peer: it adds the epoch to it, and both must fit its generator's word."""
    return integer(seed, "the seed of an exact MosaicML order", 0, SEED_END - 1, OrderError)


def width(count: int) -> npt.DTypeLike:
    """The narrower whole number that holds 0 … count − 1."""
    return np.int32 if count <= 2**31 else np.int64
