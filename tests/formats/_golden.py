"""What the golden datasets hold, by construction: see tests/vectors/mosaic_formats/README.md."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "vectors" / "mosaic_formats"
MDS = ("mds_raw", "mds_br", "mds_bz2", "mds_gz", "mds_snappy", "mds_zstd")
TEXT = tuple(f"{kind}_{form}" for kind in ("json", "csv", "tsv", "xsv") for form in ("raw", "zstd"))


def pixels() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 255, (5, 4, 3), np.uint8)


def file_pixels(i: int) -> np.ndarray[Any, Any]:
    """The picture of record i of the dataset of image files."""
    return np.random.default_rng(i).integers(0, 255, (8 + i, 9, 3), np.uint8)


def mds_record(i: int) -> dict[str, Any]:
    """Record i of the MDS datasets; an image as its pixels."""
    return {
        "bytes": bytes(range(i)),
        "str": "é" * i,
        "int": -i,
        "nd": np.arange(i + 1, dtype=np.uint16)[None],
        "nd_t": np.full((2, i + 1), -i, np.int16),
        "nd_ts": np.arange(6, dtype=np.float32).reshape(2, 3) + np.float32(i),
        "u8": np.uint8(i),
        "u16": np.uint16(300 + i),
        "u32": np.uint32(70000 + i),
        "u64": np.uint64(2**40 + i),
        "i8": np.int8(-i),
        "i16": np.int16(-300 - i),
        "i32": np.int32(-70000 - i),
        "i64": np.int64(-(2**40) - i),
        "f16": np.float16(i / 2),
        "f32": np.float32(i / 3),
        "f64": np.float64(i / 7),
        "si": 10**20 + i,
        "sf": i / 9,
        "sd": Decimal(i) / 7,
        "json": {"k": [i, None, "x"]},
        "pil": pixels(),
        "png": pixels(),
        "lpil": [pixels()] * (i % 3),
    }


def text_record(i: int) -> dict[str, Any]:
    """Record i of the text datasets."""
    return {"s": f"w{i}", "i": i * i, "f": i / 4}


def plain(value: Any) -> Any:
    """Something that compares by ==: (dtype, shape, values) for arrays and images, type and value for the rest."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if type(value).__module__.startswith("PIL"):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tolist()
    return type(value).__name__, value
