"""`tombola cat`: records as lines of JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from tombola._ints import integers
from tombola.cli._dataset import add_dataset, add_order, names_of, spec_of, stream_of
from tombola.cli._values import plain
from tombola.errors import InputError
from tombola.stream import Stream


def add(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "cat",
        allow_abbrev=False,
        help="print records as lines of JSON",
        description=f"{__doc__} Bytes become base64 text. The output is JSON with and without --json.",
    )
    add_dataset(parser)
    parser.add_argument("--records", type=int, nargs="+", metavar="R", help="these records; all unless given")
    parser.add_argument("--columns", metavar="A,B", help="which columns; all unless given")
    parser.add_argument("--shuffled", action="store_true", help="in the order of an epoch, not as stored")
    add_order(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    with stream_of(
        arguments,
        order=spec_of(arguments),
        shuffle=arguments.shuffled,
        seed=arguments.seed,
        columns=names_of(arguments.columns),
    ) as stream:
        for record in _records(stream, arguments):
            print(json.dumps(plain(record)))
    return 0


def _records(stream: Stream, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if arguments.records is not None:
        integers(arguments.records, "record", stream.layout.records, InputError)
        return (stream[number] for number in arguments.records)
    stream.set_epoch(arguments.epoch)
    return stream.records()
