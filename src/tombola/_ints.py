"""Taking whole numbers from a user: checked once, refused with an error that names them."""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola.errors import InputError

Ints = npt.NDArray[np.int64]
IntsLike = npt.ArrayLike

#: Threads worth starting for a large array. Results never depend on it.
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def integer(value: Any, what: str, low: int, high: int | None, error: type[InputError]) -> int:
    """The value as an int between low and high, both included, or an error that names it."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise error(f"{what} is {value!r}; it must be a whole number") from None
    if number < low or (high is not None and number > high):
        span = f"at least {digits(low)}" if high is None else f"between {digits(low)} and {digits(high)}"
        raise error(f"{what} is {digits(number)}; it must be {span}")
    return number


def digits(number: int) -> str:
    """A whole number for a message. Python refuses to print thousands of digits, and nobody wants hundreds.

    >>> digits(-7), digits(2**1024), digits(1 - 2**1024)
    ('-7', '2^1024', 'a negative number of 1024 bits')
    """
    size = abs(number)
    if size.bit_length() <= 128:
        return str(number)
    if size & (size - 1) == 0:
        return f"{'-' if number < 0 else ''}2^{size.bit_length() - 1}"
    return f"a {'negative ' if number < 0 else ''}number of {size.bit_length()} bits"


def flat_array(values: IntsLike, what: str, error: type[InputError]) -> npt.NDArray[Any]:
    """The values as an array of whole numbers of any width, or an error that says what they are instead."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise error(f"the {what}s are lists of unequal length; give an array of whole numbers") from None
    if given.size and given.dtype.kind not in "iu":
        wide = [v for v in given.reshape(-1).tolist() if isinstance(v, int) and not -(2**63) <= v < 2**63]
        if given.dtype.kind in "Of" and wide:
            raise error(f"{what} {digits(wide[0])} is more than 64 bits can hold")
        raise error(f"the {what}s have dtype {given.dtype}; they must be whole numbers")
    return given


def integers(values: IntsLike, what: str, end: int, error: type[InputError]) -> Ints:
    """The values as a C-contiguous int64 array, all in 0…end−1, or an error that names the first that is not."""
    given = flat_array(values, what, error)
    if given.size == 0:
        return np.empty(given.shape, np.int64)
    check_bounds(given, what, end, error)
    return np.ascontiguousarray(given, np.int64)


def check_bounds(given: npt.NDArray[Any], what: str, end: int, error: type[InputError]) -> None:
    """Refuses an array of whole numbers that are not all in 0…end−1, without a copy of it."""
    low, high = int(given.min()), int(given.max())
    if low < 0 or high >= end:
        bad = low if low < 0 else high
        raise error(f"{what} {bad} is outside 0…{end - 1}" if end else f"{what} {bad} does not exist: there is none")


def check_threads(threads: Any, error: type[InputError]) -> int:
    """A number of threads."""
    return integer(threads, "threads", 1, 4096, error)


def is_scalar(value: Any) -> bool:
    """True for Python and NumPy whole numbers and 0-d arrays: what a scalar answer is owed to."""
    return isinstance(value, (int, np.integer)) or (isinstance(value, np.ndarray) and value.ndim == 0)
