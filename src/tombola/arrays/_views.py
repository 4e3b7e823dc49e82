"""What a user hands over, seen as rows in memory: where they are and how far apart."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola.errors import ArrayError

_CPU = 1  # the device types of DLPack
_GPUS = {2: "CUDA", 10: "ROCm", 13: "CUDA managed memory"}
_OVERLAP_WORK_MAX = 10_000  # of NumPy's exact test, beyond which a pair of views counts as overlapping

Array = npt.NDArray[Any]


# (address, bytes from row to row, bytes that lie side by side in a row, inner axes as (size, step))
View = tuple[int, int, int, list[tuple[int, int]]]


class Rows(NamedTuple):
    """The rows of one array."""

    address: int
    length: int
    step: int  #: bytes from row to row
    run: int  #: bytes that lie side by side in a row
    axes: list[tuple[int, int]]  #: (size, step) of the inner axes whose places hold a run each
    array: Array

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.run * math.prod(size for size, _ in self.axes)

    def views(self) -> list[View]:
        """What the core has to move: one view, or several that move in unison where items have holes."""
        if self.run == 0:
            return []
        x = self.array
        if not has_holes(x):
            return [(self.address, self.step, self.run, self.axes)]
        address, steps = x.__array_interface__["data"][0], x.strides
        axes = list(zip(x.shape[1:], steps[1:], strict=True))
        return [(address + begin, steps[0], size, axes) for begin, size in _runs(x.dtype)]

    @property
    def holds_objects(self) -> bool:
        """True when rows are pointers that the interpreter counts."""
        return bool(self.array.dtype.hasobject)


def is_on_gpu(x: Any) -> bool:
    """True for an array in the memory of a GPU."""
    try:
        device = x.__dlpack_device__()[0]
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return False
    return device in _GPUS


def is_torch(x: Any) -> bool:
    """True for a torch tensor; torch is not imported for this."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def as_array(x: Any, name: str) -> Array:
    """The NumPy array that shares the memory of x, or an error that says why there is none to shuffle in place."""
    if isinstance(x, np.ndarray):
        if _is_masked(x):
            raise ArrayError(
                f"{name} is a masked array; shuffle its parts in unison: shuffle(({name}.data, {name}.mask))"
            )
        return x
    if is_torch(x):
        return _from_torch(x, name)
    if isinstance(x, (list, tuple, str, bytes, dict, set, int, float, complex)) or x is None:
        raise ArrayError(
            f"{name} is a {type(x).__name__}; it must be a writable NumPy array, torch tensor, or another array "
            "or buffer whose memory can be shuffled in place"
        )
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_dlpack(x, name)
    try:
        return np.asarray(memoryview(x))
    except (TypeError, ValueError, NotImplementedError):
        raise ArrayError(
            f"{name} is a {type(x).__name__}, which has neither __dlpack__ nor the buffer protocol; "
            "give an array that has"
        ) from None


def rows_of(array: Array, name: str) -> Rows:
    """The rows along axis 0, or an error when they cannot be written or are not apart."""
    if array.ndim == 0:
        raise ArrayError(f"{name} is 0-d, so it has no rows; an array needs at least one axis")
    if not array.flags.writeable:
        raise ArrayError(f"{name} is read-only; shuffle a copy, for example with tombola.shuffled")
    found = _core.rows_of(array.__array_struct__)
    if found is None:
        raise ArrayError(f"{name} is a view whose elements overlap in memory; shuffle a copy, or the array it views")
    address, step, run, axes = found
    return Rows(address, len(array), step, run, axes, array)


def has_holes(x: Array) -> bool:
    """True for a view of some of the fields of another array's items: the bytes between them are not its own.

    >>> table = np.zeros(5, [("a", "u1"), ("b", "u4"), ("c", "u1")])
    >>> has_holes(table[["a", "c"]]), has_holes(table)
    (True, False)
    """
    if x.dtype.names is None or _runs(x.dtype) == [(0, x.dtype.itemsize)]:
        return False
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    # What lies between the fields of an array of its own is padding, and moves along: that is faster.
    return bool(owner.dtype != x.dtype)


@functools.lru_cache(256)
def _runs(dtype: np.dtype[Any]) -> list[tuple[int, int]]:
    """(first, size) of the bytes of an item that belong to a field."""
    owned = np.zeros(dtype.itemsize + 1, bool)
    _mark(dtype, owned[:-1])
    borders = np.flatnonzero(np.diff(owned, prepend=False)).tolist()
    return [(begin, end - begin) for begin, end in zip(borders[::2], borders[1::2], strict=True)]


def _mark(dtype: np.dtype[Any], owned: npt.NDArray[np.bool_]) -> None:
    item = dtype.base  # of a subarray: what it repeats
    if item.fields is None:
        owned[:] = True
        return
    for place in owned.reshape(-1, item.itemsize) if owned.size else ():
        for field, begin, *_ in item.fields.values():
            _mark(field, place[begin : begin + field.itemsize])


def check_unison(all_rows: Sequence[Rows], names: Sequence[str]) -> None:
    """Refuses arrays of different lengths, and arrays that share memory."""
    for rows, name in zip(all_rows[1:], names[1:], strict=True):
        if rows.length != all_rows[0].length:
            raise ArrayError(
                f"{names[0]} has {all_rows[0].length} rows and {name} has {rows.length}; "
                "arrays in unison need the same number"
            )
    for (a, first), (b, second) in itertools.combinations(zip(all_rows, names, strict=True), 2):
        if _overlap(a.array, b.array):
            raise ArrayError(f"{first} and {second} share memory; shuffle the array that holds both, once")


def _overlap(a: Array, b: Array) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=_OVERLAP_WORK_MAX))  # type: ignore[arg-type]  # NumPy's stubs know 0 and −1
    except np.exceptions.TooHardError:
        return True


def _is_masked(x: Array) -> bool:
    ma = sys.modules.get("numpy.ma")
    return ma is not None and isinstance(x, ma.MaskedArray)


def _from_torch(x: Any, name: str) -> Array:
    if x.is_nested or x.layout is not sys.modules["torch"].strided:
        kind = "nested" if x.is_nested else x.layout
        raise ArrayError(f"{name} is a {kind} tensor; only dense tensors can be shuffled in place")
    if x.requires_grad:
        raise ArrayError(f"{name} requires grad; shuffle {name}.detach(), which shares its memory")
    if x.device.type != "cpu":
        raise ArrayError(f"{name} is on the device {x.device}; tensors on cpu and cuda can be shuffled")
    if x.is_conj() or x.is_neg():
        raise ArrayError(f"{name} is a lazy conjugate or negative view; shuffle {name}.resolve_conj().resolve_neg()")
    try:
        return cast(Array, x.numpy())
    except TypeError:
        # A dtype that NumPy does not know, such as bfloat16 or float8: its bytes are all that matters.
        torch = sys.modules["torch"]
        same_size = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
        return cast(Array, x.view(same_size[x.element_size()]).numpy())


def _from_dlpack(x: Any, name: str) -> Array:
    device = x.__dlpack_device__()[0]
    if device != _CPU:
        raise ArrayError(
            f"{name} is on a device of type {device} (DLPack); only CPU memory and CUDA tensors can be shuffled"
        )
    try:
        return np.from_dlpack(x)
    except (RuntimeError, BufferError, TypeError, ValueError) as problem:
        raise ArrayError(f"{name} cannot be shared through DLPack: {problem}") from None
