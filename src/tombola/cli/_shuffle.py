"""`tombola shuffle`: the rows of a file in random order, in a bounded amount of memory."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from tombola.arrays import shuffle_file
from tombola.errors import ArrayError

_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def add(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("shuffle", allow_abbrev=False, help="shuffle the rows of a file", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="a .npy file, or with --row-bytes a file of plain rows")
    parser.add_argument("--seed", type=int, help="the same seed gives the same order; without one it is fresh")
    parser.add_argument("--memory", default="1GB", metavar="SIZE", help="how much to allocate at most (default: 1GB)")
    parser.add_argument("--threads", type=int, help="all processors unless given; the result does not depend on it")
    parser.add_argument("--row-bytes", type=int, metavar="N", help="the file is nothing but rows of N bytes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    try:
        shuffle_file(
            arguments.file,
            seed=arguments.seed,
            memory_bytes_max=parse_size(arguments.memory),
            threads=arguments.threads,
            row_bytes=arguments.row_bytes,
        )
    except OSError as problem:
        raise ArrayError(f"{arguments.file} could not be shuffled: {problem.strerror}") from None
    size = arguments.file.stat().st_size
    if arguments.json:
        print(json.dumps({"file": str(arguments.file), "bytes": size, "seed": arguments.seed}))
    else:
        print(f"shuffled {arguments.file} ({size:,} bytes)")
    return 0


def parse_size(word: str) -> int:
    """Bytes from a number with or without a unit.

    >>> parse_size("1GB"), parse_size("512MiB"), parse_size("1.5 kB")
    (1000000000, 536870912, 1500)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", word.strip())
    unit = next((u for u in _UNITS if match and u.lower() == match[2].lower()), None)
    if match is None or unit is None:
        raise ArrayError(f"the size {word!r} is not understood; write bytes, or a number with a unit, as in 2GiB")
    size = float(match[1]) * _UNITS[unit]
    if size > 2**62:
        raise ArrayError(f"the size {word[:20]!r} is more than any machine has; write one below 4 EiB")
    return int(size)
