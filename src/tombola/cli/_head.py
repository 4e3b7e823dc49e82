"""`tombola head`: the first records of an epoch, or as they are stored."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tombola.cli._dataset import add_dataset, add_order, names_of, spec_of, stream_of
from tombola.cli._table import print_rows
from tombola.cli._values import plain, short
from tombola.errors import InputError

_TERMINAL = 52  # columns that an ordinary terminal has left for the values


def add(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("head", allow_abbrev=False, help="show the first records", description=__doc__)
    add_dataset(parser)
    parser.add_argument("-n", "--records", type=int, default=10, metavar="K", help="how many; 10 unless given")
    parser.add_argument("--columns", metavar="A,B", help="which columns; all unless given")
    parser.add_argument("--shuffled", action="store_true", help="in the order of an epoch, not as stored")
    add_order(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    if arguments.records < 0:
        raise InputError(f"--records is {arguments.records}; it must be at least 0")
    with stream_of(
        arguments,
        order=spec_of(arguments),
        shuffle=arguments.shuffled,
        seed=arguments.seed,
        columns=names_of(arguments.columns),
    ) as stream:
        order, layout = stream.plan.order, stream.layout
        numbers = order.slice(0, min(arguments.records, len(order)), arguments.epoch)
        shards, places = layout.locate(numbers)
        where = zip(numbers.tolist(), shards.tolist(), places.tolist(), strict=True)
        found = [(number, shard, place, stream[number]) for number, shard, place in where]
        names = list(stream.columns)
    if arguments.json:
        rows = [
            {"record": number, "shard": shard, "place": place, "values": plain(record)}
            for number, shard, place, record in found
        ]
        print(json.dumps({"records": rows}))
        return 0
    width = max(10, _TERMINAL // max(1, len(names)))
    cells = [
        [number, shard, place, *(short(record[name], width) for name in names)]
        for number, shard, place, record in found
    ]
    print_rows(["record", "shard", "place", *names], cells)
    return 0
