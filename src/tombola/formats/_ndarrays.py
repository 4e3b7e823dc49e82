"""NumPy arrays as MDS has them: what the encoding's name leaves open stands in front of each value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tombola.errors import DataError, FormatError, ValueTypeError

_CODES = {
    "uint8": 8,
    "int8": 9,
    "uint16": 16,
    "int16": 17,
    "float16": 18,
    "uint32": 32,
    "int32": 33,
    "float32": 34,
    "uint64": 64,
    "int64": 65,
    "float64": 66,
}
_NAMES = {code: name for name, code in _CODES.items()}
_WIDTHS = tuple(map(np.dtype, ("<u1", "<u2", "<u4", "<u8")))
_DIMENSIONS_MAX = 63


def little(name: str) -> np.dtype[Any]:
    """The little-endian dtype of a name; by way of its code, so that it is the plain one on most machines."""
    return np.dtype(np.dtype(name).newbyteorder("<").str)


Dtype = np.dtype[Any] | None
Shape = tuple[int, ...] | None


def array_spec(name: str, rest: list[str]) -> tuple[Dtype, Shape]:
    """The dtype and shape that an encoding's name fixes; None for what it leaves to each value."""
    if len(rest) > 2 or (rest and rest[0] not in _CODES):
        raise FormatError(f"{name!r} is no encoding: write ndarray[:dtype[:d0,d1,…]] with a dtype of {sorted(_CODES)}")
    dtype = little(rest[0]) if rest else None
    if len(rest) < 2:
        return dtype, None
    try:
        shape = tuple(int(text) for text in rest[1].split(","))
    except ValueError:
        raise FormatError(f"{name!r}: the shape is no list of whole numbers") from None
    if min(shape) < 1 or len(shape) > _DIMENSIONS_MAX:
        raise FormatError(f"{name!r}: the dimensions must be at least 1, and at most {_DIMENSIONS_MAX} of them")
    return dtype, shape


def encode_array(value: Any, dtype: Dtype, shape: Shape) -> bytes:
    """The bytes of an array. Nothing is cast: another dtype or shape is an error."""
    if not isinstance(value, np.ndarray):
        raise ValueTypeError(f"a {type(value).__name__} was given, it takes a numpy.ndarray")
    name = value.dtype.name
    if dtype is not None and name != dtype.name:
        raise ValueTypeError(f"an array of {name} was given, it takes {dtype.name}: convert it with astype")
    if name not in _CODES:
        raise ValueTypeError(f"an array of {name} was given, it takes one of {sorted(_CODES)}")
    if shape is not None and value.shape != shape:
        raise ValueTypeError(f"an array of shape {value.shape} was given, it takes {shape}")
    if value.size == 0 or not 1 <= value.ndim <= _DIMENSIONS_MAX:
        raise ValueTypeError(f"an array of shape {value.shape} was given; give 1…63 dimensions, not empty")
    head = b""
    if dtype is None:
        head += bytes([_CODES[name]])
    if shape is None:
        width = next(k for k, kind in enumerate(_WIDTHS) if max(value.shape) <= np.iinfo(kind).max)
        head += bytes([value.ndim << 2 | width]) + np.array(value.shape, _WIDTHS[width]).tobytes()
    return head + np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()


def read_head(data: memoryview, dtype: Dtype, shape: Shape) -> tuple[int, np.dtype[Any], tuple[int, ...]]:
    """The length of what stands in front of an array's values, its dtype and its shape, all checked."""
    at = 0
    if dtype is None:
        if len(data) < 1 or data[0] not in _NAMES:
            raise DataError("the array's first byte names no dtype")
        dtype, at = little(_NAMES[data[0]]), 1
    if shape is None:
        if len(data) < at + 1:
            raise DataError("the array ends before its shape")
        dimensions, width = data[at] >> 2, _WIDTHS[data[at] & 3]
        end = at + 1 + dimensions * width.itemsize
        if not dimensions or len(data) < end:
            raise DataError("the array ends before its shape")
        shape, at = tuple(np.frombuffer(data[at + 1 : end], width).tolist()), end
    # Python's integers: a shape that lies cannot wrap round to one that fits.
    if math.prod(shape) * dtype.itemsize != len(data) - at:
        raise DataError(f"{len(data) - at} bytes cannot be an array of {dtype.name} of shape {shape}")
    return at, dtype, shape


def decode_array(data: memoryview, dtype: Dtype, shape: Shape) -> np.ndarray[Any, Any]:
    """A read-only view of the bytes as an array."""
    at, dtype, shape = read_head(data, dtype, shape)
    array = np.frombuffer(data[at:], dtype).reshape(shape)
    array.flags.writeable = False
    return array
