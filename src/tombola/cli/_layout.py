"""A layout from one word of a command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from tombola.errors import LayoutError
from tombola.order import Layout

HELP = (
    "records per shard: 1000x1024 (shards x records), 100,200,300, or a .json or .npy file with a list of them; "
    "several of these joined by + are the streams of one dataset"
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
    if equal := re.fullmatch(r"(\d+)x(\d+)", word):
        return Layout.equal(int(equal[1]), int(equal[2]))
    if re.fullmatch(r"-?\d+(,-?\d+)*", word):
        return Layout([int(size) for size in word.split(",")])
    path = Path(word)
    if path.suffix not in (".json", ".npy"):
        raise LayoutError(f"the layout {word!r} is not understood; give {HELP.split(': ')[1]}")
    try:
        if path.suffix == ".npy":
            return Layout(np.load(path, allow_pickle=False))
        return Layout(json.loads(path.read_text()))
    except LayoutError:
        raise
    except (OSError, ValueError, EOFError) as problem:
        raise LayoutError(f"the layout file {word} cannot be read: {problem}") from None
