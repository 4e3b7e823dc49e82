"""How a value of a column becomes bytes and back: MDS's 28 encodings, byte for byte.

One function pair per family; the table at the end is the list. A decoder is given exactly the bytes of one value
and says with a DataError when they cannot be one; whoever calls it adds the uri, the shard and the record.
"""

from __future__ import annotations

import json
import math
import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import numpy as np

from tombola.errors import DataError, FormatError, ValueTypeError
from tombola.formats import _images
from tombola.formats._ndarrays import array_spec, decode_array, encode_array, little

Encode = Callable[[Any], bytes]
Decode = Callable[[memoryview], Any]

_NUMBERS = {
    "int": "int64",
    **{name: name for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")},
    **{name: name for name in ("float16", "float32", "float64")},
}


@dataclass(frozen=True, eq=False)
class Encoding:
    """One encoding of a column: its name as a manifest has it, and what follows from it.

    size
        Bytes per value, None where each value has its own.
    dtype, shape
        Of a fixed-size value as NumPy sees it; None where a value is no array of one size.
    text
        True for "str", whose bytes are UTF-8.
    """

    name: str
    size: int | None
    encode: Encode
    decode: Decode
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()

    @property
    def unsafe(self) -> bool:
        """True where decoding runs code that the data brings along."""
        return self.name == "pkl"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoding) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<Encoding {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return encoding, (self.name,)


@lru_cache(maxsize=1024)
def encoding(name: str) -> Encoding:
    """The encoding of that name.

    >>> encoding("ndarray:float32:2,3").size
    24
    """
    if not isinstance(name, str):
        raise FormatError(f"an encoding is named by a string, not by {name!r}")
    if name in _NUMBERS:
        return _number(name)
    base, *rest = name.split(":")
    if base == "ndarray":
        dtype, shape = array_spec(name, rest)
        known = dtype is not None and shape is not None
        return Encoding(
            name,
            dtype.itemsize * math.prod(shape) if dtype is not None and shape is not None else None,
            lambda value: encode_array(value, dtype, shape),
            lambda data: decode_array(data, dtype, shape),
            dtype if known else None,
            shape if known and shape is not None else (),
        )
    if name in _VARIABLE:
        return Encoding(name, None, *_VARIABLE[name])
    raise FormatError(f"the encoding {name!r} does not exist; there are {', '.join(encoding_names())}")


def encoding_names() -> list[str]:
    """The names of all encodings; "ndarray" also takes ":dtype" and ":dtype:shape"."""
    return sorted([*_NUMBERS, *_VARIABLE, "ndarray"])


def wrong_type(value: object, wanted: str) -> ValueTypeError:
    """The error for a value that does not fit; the writer adds the record and the column."""
    return ValueTypeError(f"a {type(value).__name__} was given, it takes {wanted}")


# ---- bytes and text


def _encode_bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise wrong_type(value, "bytes")
    return bytes(value)


def _encode_str(value: Any) -> bytes:
    if not isinstance(value, str):
        raise wrong_type(value, "a str")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise ValueTypeError(f"the string cannot be written as UTF-8: {error.reason}") from error


def _decode_str(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"the text is not UTF-8: {error.reason} at byte {error.start}") from error


# ---- numbers


@lru_cache(maxsize=32)
def _number(name: str) -> Encoding:
    dtype = little(_NUMBERS[name])
    kind = dtype.type
    finite_max = float(np.finfo(dtype).max) if dtype.kind == "f" else math.inf
    low, high = (0, 0) if dtype.kind == "f" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))

    def encode_integer(value: Any) -> bytes:
        number = _integer(value)
        if not low <= number <= high:
            raise ValueTypeError(f"{number} does not fit; it takes {low}…{high}")
        return number.to_bytes(dtype.itemsize, "little", signed=low < 0)

    def encode_float(value: Any) -> bytes:
        if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
            raise wrong_type(value, "a float")
        # Rounding to the column's precision is what a float column means. Becoming infinite is not.
        try:
            number = float(value)
            fits = not math.isfinite(number) or abs(number) <= finite_max
        except OverflowError:
            fits = False
        if not fits:
            raise ValueTypeError(f"{value} does not fit; the largest is {finite_max}")
        return np.asarray(number, dtype).tobytes()

    def decode(data: memoryview) -> Any:
        if len(data) != dtype.itemsize:
            raise DataError(f"{len(data)} bytes cannot be a {name}")
        if name == "int":
            return int.from_bytes(data, "little", signed=True)
        return kind(np.frombuffer(data, dtype)[0])

    return Encoding(name, dtype.itemsize, encode_float if dtype.kind == "f" else encode_integer, decode, dtype)


def _integer(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise wrong_type(value, "a whole number")
    try:
        return operator.index(value)
    except TypeError:
        raise wrong_type(value, "a whole number") from None


def _encode_str_int(value: Any) -> bytes:
    return str(_integer(value)).encode()


def _encode_str_float(value: Any) -> bytes:
    if not isinstance(value, (float, np.floating)):
        raise wrong_type(value, "a float")
    return str(float(value)).encode()


def _encode_str_decimal(value: Any) -> bytes:
    if not isinstance(value, Decimal):
        raise wrong_type(value, "a decimal.Decimal")
    return str(value).encode()


def _from_text(kind: Callable[[str], Any]) -> Decode:
    def decode(data: memoryview) -> Any:
        text = _decode_str(data)
        try:
            return kind(text)
        except (ValueError, InvalidOperation):
            raise DataError(f"{text[:40]!r} cannot be read as {kind.__name__}") from None

    return decode


# ---- structures


def _encode_json(value: Any) -> bytes:
    try:
        return json.dumps(value, default=_plain).encode()
    except (TypeError, ValueError) as error:
        raise ValueTypeError(f"it cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _decode_json(data: memoryview) -> Any:
    try:
        return json.loads(bytes(data))
    except ValueError as error:
        raise DataError(f"it is not JSON: {error}") from error


def _decode_pickle(data: memoryview) -> Any:
    # Reached only where the manifest was opened with allow_unsafe=True. A pickle can raise anything at all.
    try:
        return pickle.loads(data)
    except Exception as error:
        raise DataError(f"it cannot be unpickled: {type(error).__name__}: {error}") from error


_VARIABLE: dict[str, tuple[Encode, Decode]] = {
    "bytes": (_encode_bytes, bytes),
    "str": (_encode_str, _decode_str),
    "str_int": (_encode_str_int, _from_text(int)),
    "str_float": (_encode_str_float, _from_text(float)),
    "str_decimal": (_encode_str_decimal, _from_text(Decimal)),
    "json": (_encode_json, _decode_json),
    "pkl": (pickle.dumps, _decode_pickle),
    "pil": (_images.encode_pil, _images.decode_pil),
    "jpeg": (_images.encode_jpeg, _images.decode_image),
    "png": (_images.encode_png, _images.decode_image),
    "jpeg_array": (_images.encode_jpeg_array, _images.decode_jpeg_array),
    "jpegarray": (_images.encode_jpeg_array, _images.decode_jpeg_array),
    "list[pil]": (_images.encode_list(_images.encode_pil), _images.decode_list(_images.decode_pil)),
    "list[jpeg]": (_images.encode_list(_images.encode_jpeg), _images.decode_list(_images.decode_image)),
    "list[png]": (_images.encode_list(_images.encode_png), _images.decode_list(_images.decode_image)),
}
