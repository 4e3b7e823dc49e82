"""`tombola where`: when and by which rank records are read."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from tombola._ints import integers
from tombola.cli._dataset import add_dataset, add_order, add_world, spec_of, stream_of, world_of
from tombola.cli._table import print_rows
from tombola.errors import InputError, OrderError


def add(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("where", allow_abbrev=False, help="show when records are read", description=__doc__)
    add_dataset(parser)
    parser.add_argument("records", type=int, nargs="+", metavar="RECORD", help="numbers of records")
    parser.add_argument("--epochs", type=int, default=1, help="how many epochs, from --epoch on; 1 unless given")
    add_order(parser)
    add_world(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    if arguments.epochs < 1:
        raise InputError(f"--epochs is {arguments.epochs}; it must be at least 1")
    found: list[dict[str, Any]] = []
    with stream_of(
        arguments,
        order=spec_of(arguments),
        seed=arguments.seed,
        batch_size=arguments.batch_size,
        tail=arguments.tail,
        world=world_of(arguments),
    ) as stream:
        integers(arguments.records, "record", stream.layout.records, OrderError)
        for epoch in range(arguments.epoch, arguments.epoch + arguments.epochs):
            for record in arguments.records:
                shard, place = stream.layout.locate([record])
                lies = {"record": record, "shard": int(shard[0]), "place": int(place[0])}
                found += [lies | dataclasses.asdict(at) for at in stream.where(record, epoch)]
    if arguments.json:
        print(json.dumps({"places": found}))
        return 0
    columns = ["record", "shard", "place", "epoch", "position", "step", "rank", "row"]
    print_rows(columns, [[entry[name] for name in columns] for entry in found])
    return 0
