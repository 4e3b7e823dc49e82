"""mosaicml-streaming's own side of test_peer.py, run by the Python of its environment.

_peer.py read OUT FOLDER…      a pickle: folder → its records in plain values
_peer.py write OUT             datasets below OUT, one for each compression and text format
"""

from __future__ import annotations

import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import transformers.feature_extraction_utils  # noqa: F401  before the stand-ins: it looks for torchvision itself

# Its top-level import wants torchvision for the vision datasets, which no format touches.
for _name in ("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.transforms.functional"):
    sys.modules[_name] = types.ModuleType(_name)
sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]

from PIL import Image
from streaming import CSVWriter, JSONWriter, MDSWriter, StreamingDataset, TSVWriter, XSVWriter

from tests.formats._golden import MDS, file_pixels, mds_record, plain, text_record

COUNT = 12
COLUMNS = {
    **dict.fromkeys(["bytes", "str", "int", "json", "pil", "png"]),
    **{"nd": "ndarray", "nd_t": "ndarray:int16", "nd_ts": "ndarray:float32:2,3", "lpil": "list[pil]"},
    **{"si": "str_int", "sf": "str_float", "sd": "str_decimal"},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
COLUMNS = {name: kind or name for name, kind in COLUMNS.items()}
TEXT = {"s": "str", "i": "int", "f": "float"}
FILES = {name: name for name in ("jpeg", "jpeg_array", "jpegarray", "list[jpeg]", "list[png]", "pkl")}


def with_images(record: dict[str, Any]) -> dict[str, Any]:
    made = {name: Image.fromarray(record[name]) for name in ("pil", "png")}
    return {**record, **made, "lpil": [Image.fromarray(each) for each in record["lpil"]]}


def of_files(folder: Path, number: int) -> dict[str, Any]:
    """A record of the columns that hold whole files. JPEG is read from a file: only then its bytes stay as they are."""
    path = folder / f"{number}.jpg"
    Image.fromarray(file_pixels(number)).save(path, quality=90)
    data = path.read_bytes()
    images = [Image.open(path), Image.open(path)][: number % 3]
    pixels = [Image.fromarray(file_pixels(number))] * (number % 3)
    listed = {"jpeg": Image.open(path), "list[jpeg]": images, "list[png]": pixels, "pkl": {"set": {number}}}
    return {**listed, "jpeg_array": [data] * (1 + number % 3), "jpegarray": [data]}


def read(out: str, folders: list[str]) -> None:
    found = {}
    for folder in folders:
        dataset = StreamingDataset(local=folder, batch_size=1, validate_hash="sha1", allow_unsafe_types=True)
        found[folder] = [
            {name: plain(value) for name, value in dataset[number].items()} for number in range(dataset.num_samples)
        ]
    Path(out).write_bytes(pickle.dumps(found))


def write(out: str) -> None:
    for name in MDS:
        compression = name.removeprefix("mds_").replace("raw", "")
        options = {"compression": compression or None, "hashes": ["sha1", "xxh64"], "size_limit": 3000}
        with MDSWriter(columns=COLUMNS, out=f"{out}/{name}", **options) as writer:
            for number in range(COUNT):
                writer.write(with_images(mds_record(number)))
    with MDSWriter(columns=FILES, out=f"{out}/files", hashes=["sha1"]) as writer:
        for number in range(COUNT):
            writer.write(of_files(Path(out), number))
    made = {"json": JSONWriter, "csv": CSVWriter, "tsv": TSVWriter, "xsv": XSVWriter}
    for name, kind in made.items():
        options = {"separator": "::"} if name == "xsv" else {}
        with kind(columns=TEXT, out=f"{out}/{name}", compression="zstd", size_limit=300, **options) as writer:
            for number in range(COUNT):
                writer.write(text_record(number))


if __name__ == "__main__":
    if sys.argv[1] == "read":
        read(sys.argv[2], sys.argv[3:])
    else:
        write(sys.argv[2])
    print(json.dumps("done"))
