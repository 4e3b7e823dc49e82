"""Images: the one file that imports Pillow, an optional dependency (extra "image")."""

from __future__ import annotations

import importlib
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tombola.errors import DataError, MissingExtra, ValueTypeError

_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"


def _pillow() -> Any:
    try:
        importlib.import_module("PIL.JpegImagePlugin")
        importlib.import_module("PIL.PngImagePlugin")
        return importlib.import_module("PIL")
    except ImportError as error:
        raise MissingExtra("image columns need Pillow: pip install 'tombola[image]'") from error


def _given_bytes(value: Any, signature: bytes, kind: str) -> bytes | None:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return None
    data = bytes(value)
    if not data.startswith(signature):
        raise ValueTypeError(f"bytes were given that are no {kind} file: they do not begin like one")
    return data


def _image(value: Any, wanted: str) -> Any:
    if not isinstance(value, _pillow().Image.Image):
        raise ValueTypeError(f"a {type(value).__name__} was given, it takes {wanted}")
    return value


def encode_pil(value: Any) -> bytes:
    """Width, height, mode and the raw pixels."""
    image = _image(value, "a PIL image")
    mode: bytes = image.mode.encode()
    pixels: bytes = image.tobytes()
    return b"".join((struct.pack("<3I", *image.size, len(mode)), mode, pixels))


def decode_pil(data: memoryview) -> Any:
    """An image from its raw pixels."""
    pillow = _pillow()
    try:
        width, height, length = struct.unpack_from("<3I", data)
        mode = str(data[12 : 12 + length], "ascii")
        # No mode has less than a bit a pixel. Pillow makes the image before it looks at the bytes.
        if width * height > 8 * len(data):
            raise ValueError(f"{width} times {height} pixels out of {len(data)} bytes")
        return pillow.Image.frombytes(mode, (width, height), bytes(data[12 + length :]))
    except (struct.error, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise DataError(f"the image's header does not fit its bytes: {error}") from error


def encode_jpeg(value: Any) -> bytes:
    """The bytes of a JPEG file as they are. Encoding pixels anew would lose some silently, so it is refused."""
    data = _given_bytes(value, _JPEG, "JPEG")
    if data is not None:
        return data
    image = _image(value, "the bytes of a JPEG file, or a PIL image opened from one")
    name = getattr(image, "filename", "")
    if isinstance(image, _pillow().JpegImagePlugin.JpegImageFile) and name and Path(name).is_file():
        return Path(name).read_bytes()
    raise ValueTypeError(
        "a PIL image without the JPEG file it came from was given; encoding it anew would lose quality: "
        "give the file's bytes, or encode it yourself with the quality you want and give those bytes"
    )


def encode_png(value: Any) -> bytes:
    """The bytes of a PNG file, or those of an image, which PNG keeps exactly."""
    data = _given_bytes(value, _PNG, "PNG")
    if data is not None:
        return data
    out = io.BytesIO()
    image = _image(value, "the bytes of a PNG file, or a PIL image")
    try:
        image.save(out, "PNG")
    except OSError as error:
        raise ValueTypeError(f"PNG cannot hold an image of mode {image.mode}: convert it first") from error
    return out.getvalue()


def decode_image(data: memoryview) -> Any:
    """An image from the bytes of an image file, fully decoded."""
    pillow = _pillow()
    try:
        image = pillow.Image.open(io.BytesIO(data))
        image.load()
    except (OSError, ValueError, SyntaxError, pillow.Image.DecompressionBombError) as error:
        raise DataError(f"the image cannot be decoded: {error}") from error
    return image


def encode_list(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Of several images in one value."""

    def encode_all(value: Any) -> bytes:
        if not isinstance(value, (list, tuple)):
            raise ValueTypeError(f"a {type(value).__name__} was given, it takes a list of images")
        files = [encode(image) for image in value]
        return struct.pack(f"<{len(files) + 2}I", 0, len(files), *map(len, files)) + b"".join(files)

    return encode_all


def decode_list(decode: Callable[[memoryview], Any]) -> Callable[[memoryview], list[Any]]:
    """Of several images in one value."""
    return lambda data: [decode(part) for part in _cut(data, 4)]


def encode_jpeg_array(value: Any) -> bytes:
    """Of several JPEG files in one value."""
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueTypeError("it takes a list of at least one JPEG file's bytes")
    files = [encode_jpeg(image) for image in value]
    return struct.pack(f"<{len(files) + 1}I", len(files), *map(len, files)) + b"".join(files)


def decode_jpeg_array(data: memoryview) -> list[Any]:
    """Of several JPEG files in one value."""
    return [decode_image(part) for part in _cut(data, 0)]


def _cut(data: memoryview, at: int) -> list[memoryview]:
    """The parts of a list: from `at`, their number and their lengths, then they themselves."""
    try:
        (count,) = struct.unpack_from("<I", data, at)
        lengths = struct.unpack_from(f"<{count}I", data, at + 4)
    except (struct.error, MemoryError) as error:
        raise DataError("the list of images ends before its lengths") from error
    at += 4 + 4 * count
    if sum(lengths) != len(data) - at:
        raise DataError(f"the lengths of the list's images add up to {sum(lengths)}, not {len(data) - at} bytes")
    parts = []
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    return parts
