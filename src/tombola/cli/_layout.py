"""A layout from one word of a command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from tombola.errors import LayoutError
from tombola.formats import open_manifest
from tombola.order import Layout
from tombola.stores import LocalStore

# A word is quickly typed and a shard costs memory, also in an order: more come from a file, which is as long.
_SHARDS_MAX = 10**8
_RECORDS_MAX = 2**62
MANIFEST_KEY = "index.json"
HELP = (
    "records per shard: 1000x1024 (shards x records), 100,200,300, a .json or .npy file with a list of them, or the "
    "folder of a dataset, with or without /index.json; several of these joined by + are the streams of one dataset"
)


def parse_layout(word: str) -> Layout:
    """The layout that a word describes.

    >>> parse_layout("3x10"), parse_layout("5,0,7")
    (<Layout of 30 records in 3 shards>, <Layout of 12 records in 3 shards>)
    >>> parse_layout("3x10+5,0,7").streams.tolist()
    [0, 0, 0, 1, 1, 1]
    """
    if "+" in word and not Path(word).exists():
        return Layout.joined([parse_layout(part) for part in word.split("+")])
    if re.fullmatch(r"[0-9]+x[0-9]+", word):
        shards, size = (_number(text) for text in word.split("x"))
        if shards > _SHARDS_MAX:
            raise LayoutError(
                f"the layout {word} has more than the {_SHARDS_MAX} shards that a word may ask for; "
                f"give fewer shards, or a file with their sizes"
            )
        return Layout.equal(shards, size)
    if re.fullmatch(r"-?[0-9]+(,-?[0-9]+)*", word):
        return Layout([_number(text) for text in word.split(",")])
    path = Path(word)
    if path.is_dir() or path.name == MANIFEST_KEY:
        folder = path if path.is_dir() else path.parent
        return open_manifest(LocalStore(folder), allow_unsafe=True).layout()  # its names and numbers; no record is read
    if path.suffix not in (".json", ".npy"):
        raise LayoutError(f"the layout {word!r} is not understood; give {HELP.split(': ')[1]}")
    try:
        if path.suffix == ".npy":
            return Layout(np.load(path, allow_pickle=False))
        return Layout(json.loads(path.read_text()))
    except LayoutError:
        raise
    except (OSError, ValueError, EOFError, RecursionError) as problem:
        raise LayoutError(f"the layout file {word} cannot be read: {problem}") from None


def _number(text: str) -> int:
    # Python itself refuses to read thousands of digits, with an error that would not name the layout.
    if len(text.lstrip("-")) > 99 or int(text) > _RECORDS_MAX:
        raise LayoutError(f"the layout has a number of {len(text)} digits; its records may be 2^62 at most, in all")
    return int(text)
