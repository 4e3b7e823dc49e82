"""Values to bytes and back; what does not fit is refused; bytes that are none are a DataError."""

from __future__ import annotations

import io
import math
import pickle
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.formats._golden import plain
from tombola.errors import DataError, FormatError, ValueTypeError
from tombola.formats import encoding, encoding_names

INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "float32", "float64"]
ARRAYS = [*INTEGERS, *FLOATS]


def trip(name: str, value: Any) -> Any:
    kind = encoding(name)
    data = kind.encode(value)
    assert kind.size is None or len(data) == kind.size
    return kind.decode(memoryview(data))


def test_there_are_28() -> None:
    assert len(encoding_names()) == 28
    for name in encoding_names():
        kind = encoding(name)
        assert kind.name == name
        assert pickle.loads(pickle.dumps(kind)) == kind
        assert kind.unsafe == (name == "pkl")


@given(st.binary())
def test_bytes(value: bytes) -> None:
    assert trip("bytes", value) == trip("bytes", bytearray(value)) == trip("bytes", memoryview(value)) == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text(value: str) -> None:
    assert trip("str", value) == value


@pytest.mark.parametrize("name", ["int", *INTEGERS])
@given(data=st.data())
def test_integers(name: str, data: st.DataObject) -> None:
    bounds = np.iinfo("int64" if name == "int" else name)
    value = data.draw(st.integers(int(bounds.min), int(bounds.max)))
    assert trip(name, value) == value
    assert type(trip(name, value)) is (int if name == "int" else getattr(np, name))
    assert encoding(name).encode(value) == np.array(value, encoding(name).dtype).tobytes()
    for beyond in (int(bounds.min) - 1, int(bounds.max) + 1):
        with pytest.raises(ValueTypeError, match="does not fit"):
            encoding(name).encode(beyond)


@pytest.mark.parametrize("name", FLOATS)
@given(data=st.data())
def test_floats(name: str, data: st.DataObject) -> None:
    value = data.draw(st.floats(width={"float16": 16, "float32": 32, "float64": 64}[name]))  # type: ignore[arg-type]
    for given_value in (value, getattr(np, name)(value)):
        found = trip(name, given_value)
        assert type(found) is getattr(np, name)
        assert found == value or (math.isnan(found) and math.isnan(value))


def test_floats_do_not_become_infinite() -> None:
    for name, value in (("float16", 1e6), ("float32", 1e300), ("float32", 10**39), ("float64", 10**400)):
        with pytest.raises(ValueTypeError, match="does not fit"):
            encoding(name).encode(value)
    assert trip("float32", math.inf) == math.inf


@given(st.integers(), st.floats(allow_nan=False), st.decimals(allow_nan=False))
def test_numbers_as_text(whole: int, real: float, exact: Decimal) -> None:
    assert trip("str_int", whole) == whole
    assert trip("str_float", real) == real
    assert plain(trip("str_decimal", exact)) == plain(exact)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON)
def test_json(value: Any) -> None:
    assert trip("json", value) == value
    assert trip("json", {"a": np.arange(3), "b": np.int8(4)}) == {"a": [0, 1, 2], "b": 4}


@given(hnp.arrays(st.sampled_from(ARRAYS), hnp.array_shapes(min_dims=1, max_dims=5, max_side=4)))
def test_arrays(value: np.ndarray[Any, Any]) -> None:
    name = value.dtype.name
    shape = ",".join(map(str, value.shape))
    for kind in ("ndarray", f"ndarray:{name}", f"ndarray:{name}:{shape}"):
        for given_value in (value, np.asfortranarray(value), value.astype(value.dtype.newbyteorder(">"))):
            found = trip(kind, given_value)
            assert found.dtype == value.dtype
            assert found.shape == value.shape
            assert found.tobytes() == value.tobytes()
            assert not found.flags.writeable


def test_large_dimensions_are_written_wide() -> None:
    for side, width in ((255, 1), (256, 2), (65535, 2), (65536, 4)):
        value = np.zeros((1, side), np.uint8)
        data = encoding("ndarray:uint8").encode(value)
        assert len(data) == 1 + 2 * width + side
        assert trip("ndarray:uint8", value).shape == (1, side)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bytes", "text", "a str was given, it takes bytes"),
        ("bytes", [1, 2], "it takes bytes"),
        ("str", b"bytes", "a bytes was given, it takes a str"),
        ("str", "\ud800", "UTF-8"),
        ("int", 1.0, "whole number"),
        ("int", True, "a bool was given"),
        ("int", "7", "whole number"),
        ("uint8", np.float32(1), "whole number"),
        ("uint8", np.array([1]), "whole number"),
        ("float32", "1.0", "a float"),
        ("float32", True, "a float"),
        ("str_int", 1.5, "whole number"),
        ("str_float", 1, "a float"),
        ("str_decimal", 1.5, "Decimal"),
        ("json", {1, 2}, "cannot be written as JSON"),
        ("ndarray", [1, 2], "numpy.ndarray"),
        ("ndarray", np.zeros(2, bool), "array of bool"),
        ("ndarray", np.zeros(()), "dimensions"),
        ("ndarray", np.zeros((2, 0)), "not empty"),
        ("ndarray:int32", np.zeros(2, np.int64), "int64 was given, it takes int32"),
        ("ndarray:int32:2,3", np.zeros((3, 2), np.int32), r"shape \(3, 2\) was given"),
        ("pil", b"123", "PIL image"),
        ("jpeg", b"123", "no JPEG file"),
        ("png", b"123", "no PNG file"),
        ("list[png]", b"123", "list"),
        ("jpeg_array", [], "at least one"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueTypeError, match=message):
        encoding(name).encode(value)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "text",
        "int128",
        "bfloat16",
        "ndarray:bool",
        "ndarray:int8:",
        "ndarray:int8:0",
        "ndarray:int8:2:3",
        "list[str]",
    ],
)
def test_no_such_encoding(name: str) -> None:
    with pytest.raises(FormatError):
        encoding(name)


@pytest.mark.parametrize("name", [*sorted({*encoding_names()} - {"pkl"}), "ndarray:float16", "ndarray:int8:3", "pkl"])
@given(data=st.binary(max_size=60))
def test_any_bytes_decode_or_are_a_data_error(name: str, data: bytes) -> None:
    if name == "pkl":
        data = b"." + data  # nothing on the stack: a pickle that does nothing but fail
    with suppress(DataError):
        encoding(name).decode(memoryview(data))


# ---- images


def picture(mode: str = "RGB") -> Any:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    return image.fromarray(rng.integers(0, 255, (5, 4, 3), np.uint8)).convert(mode)


def jpeg_file(quality: int) -> bytes:
    out = io.BytesIO()
    picture().save(out, "JPEG", quality=quality)
    return out.getvalue()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "I", "F"])
def test_pixels_come_back(mode: str) -> None:
    image = picture(mode)
    found = trip("pil", image)
    assert (found.mode, found.size, found.tobytes()) == (image.mode, image.size, image.tobytes())
    assert [each.tobytes() for each in trip("list[pil]", [image, image])] == [image.tobytes()] * 2
    assert trip("list[pil]", []) == []


def test_png_is_exact() -> None:
    image = picture()
    assert trip("png", image).tobytes() == image.tobytes()
    assert trip("png", encoding("png").encode(image)).tobytes() == image.tobytes()
    assert [each.size for each in trip("list[png]", [image])] == [image.size]
    with pytest.raises(ValueTypeError, match="mode CMYK"):
        encoding("png").encode(picture("CMYK"))


def test_jpeg_is_never_encoded_anew(tmp_path: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    data = jpeg_file(95)
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    with image.open(path) as opened:
        assert encoding("jpeg").encode(data) == encoding("jpeg").encode(opened) == data
    for lossy in (picture(), image.open(io.BytesIO(data))):
        with pytest.raises(ValueTypeError, match="would lose quality"):
            encoding("jpeg").encode(lossy)
    files = [jpeg_file(50), data]
    for name in ("jpeg_array", "jpegarray", "list[jpeg]"):
        found = trip(name, files)
        assert [each.size for each in found] == [(4, 5), (4, 5)]
        assert found[1].tobytes() == image.open(io.BytesIO(data)).tobytes()
