"""`tombola order`: what an order does for a layout, a seed and a world."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from tombola.cli._imports import add_import, import_modules
from tombola.cli._layout import HELP, parse_layout
from tombola.cli._spec import add_options, described, spec_of
from tombola.cli._table import print_pairs, print_rows
from tombola.errors import OrderError
from tombola.order import Order, order_names
from tombola.plan import Plan, World

_TAILS = ("drop", "pad", "short")
_BATCH_SIZE = 256
_NODES_LISTED = 16  # beyond that the mean says more than a list


def add(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("order", allow_abbrev=False, help="show what an order does", description=__doc__)
    parser.add_argument("layout", metavar="LAYOUT", help=HELP)
    parser.add_argument(
        "--order", default="lanes", metavar="NAME", help=f"{', '.join(order_names())}, or one of your own"
    )
    add_import(parser)
    add_options(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--batch-size", type=int, help=f"over all ranks; {_BATCH_SIZE}, or what there is, unless given")
    parser.add_argument("--tail", choices=_TAILS, default="drop", help="what becomes of a last batch that is not full")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--replication", type=int, default=1, help="consecutive ranks that read the same rows")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--at", type=int, nargs="+", metavar="T", help="what these positions read")
    asked.add_argument("--find", type=int, nargs="+", metavar="R", help="where these records are read")
    asked.add_argument("--head", type=int, metavar="K", help="the first K positions")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    import_modules(arguments.imports)
    plan, epoch = _plan(arguments), arguments.epoch
    order = plan.order
    if arguments.at is not None:
        order.at(arguments.at, epoch)  # all positions are checked before the first line is printed
        _print_positions(plan, arguments.at, epoch, as_json=arguments.json)
    elif arguments.find is not None:
        positions, _ = order.find_all(arguments.find, epoch)
        _print_positions(plan, positions.tolist(), epoch, as_json=arguments.json)
    elif arguments.head is not None:
        if arguments.head < 0:
            raise OrderError(f"--head is {arguments.head}; it must be at least 0")
        _print_positions(plan, list(range(min(arguments.head, len(order)))), epoch, as_json=arguments.json)
    else:
        _print_summary(plan, epoch, as_json=arguments.json)
    return 0


def _plan(arguments: argparse.Namespace) -> Plan:
    given = {name: getattr(arguments, name) for name in ("lanes", "window", "batch_size")}
    spec = spec_of(arguments.order, arguments.option, **given)
    order = spec.over(parse_layout(arguments.layout), seed=arguments.seed)
    world = World(ranks=arguments.ranks, nodes=arguments.nodes, replication=arguments.replication)
    size = arguments.batch_size
    if size is None:
        size = order.batch_size or max(1, min(_BATCH_SIZE, len(order)) // world.readers) * world.readers
    return Plan(order, world, size, tail=arguments.tail)


# ---- positions


def _print_positions(plan: Plan, positions: list[int], epoch: int, *, as_json: bool) -> None:
    found = [_position(plan, position, epoch) for position in positions]
    if as_json:
        print(json.dumps({"positions": found}))
        return
    columns = ["position", "record", "shard", "place", "lane", "step", "rank", "row"]
    print_rows(columns, [[entry[name] for name in columns] for entry in found])


def _position(plan: Plan, position: int, epoch: int) -> dict[str, int | None]:
    order = plan.order
    record = order.at(position, epoch)
    shard, place = order.layout.locate([record])
    where = next(found for found in plan.where(record, epoch) if found.position == position)
    return {
        "position": position,
        "record": record,
        "shard": int(shard[0]),
        "place": int(place[0]),
        "lane": position // order.run % order.lanes,
        "step": where.step,
        "rank": where.rank,
        "row": where.row,
    }


# ---- the summary


def _print_summary(plan: Plan, epoch: int, *, as_json: bool) -> None:
    summary = _summary(plan, epoch)
    if as_json:
        print(json.dumps(summary))
        return
    first = summary["first_batch"]
    options = f"{summary['order']} {described(summary['options'])}".rstrip()
    world = plan.world
    print_pairs(
        [
            ("records", summary["records"]),
            ("shards", summary["shards"]),
            ("epoch", f"{summary['epoch_records']:,} positions"),
            ("order", f"{options}, seed {summary['seed']}"),
            ("lanes", summary["lanes"]),
            ("open shards", f"{summary['open_shards_max']} at most, {summary['open_shards_mean']:.1f} on average"),
            ("batch size", f"{plan.batch_size:,} over {world.ranks} ranks on {world.nodes} nodes"),
            ("batches", f"{summary['batches']:,} in epoch {epoch}, tail={plan.tail}"),
            ("first batch", f"{first['shards']} shards; records {_some(first['records'])}"),
            ("shards per node", _some(summary["shards_of_nodes"]) or f"{summary['shards_per_node']:.1f} on average"),
            ("locality", f"{summary['locality_first']:.3f} first epoch, {summary['locality_later']:.3f} later"),
            *(("note", note) for note in summary["notes"]),
        ]
    )


def _summary(plan: Plan, epoch: int) -> dict[str, Any]:
    order, world = plan.order, plan.world
    records = plan.what(0, epoch)
    open_max, open_mean = _open_shards(order, epoch)
    locality = plan.locality(epoch)
    shards = order.layout.shards - int(np.count_nonzero(order.layout.sizes == 0))
    return {
        "records": order.layout.records,
        "shards": order.layout.shards,
        "order": order.spec.name,
        "options": order.spec.options(),
        "seed": order.seed,
        "epoch": epoch,
        "epoch_records": len(order),
        "lanes": order.lanes,
        "open_shards_max": open_max,
        "open_shards_mean": open_mean,
        "batch_size": plan.batch_size,
        "batches": plan.steps(epoch),
        "first_batch": {
            "records": records.tolist(),
            "shards": int(np.unique(order.layout.locate(records)[0]).size),
        },
        "shards_of_nodes": _shards_of_nodes(plan, epoch),
        "shards_per_node": locality.first * shards / world.nodes,
        "locality_first": locality.first,
        "locality_later": locality.later,
        "notes": list(plan.notes),
    }


def _shards_of_nodes(plan: Plan, epoch: int) -> list[int]:
    """Shards that each node reads; empty when there are too many nodes to list."""
    world, size = plan.world, plan.batch_size
    if world.nodes > _NODES_LISTED:
        return []
    counts = []
    for node in range(world.nodes):
        there = World(
            rank=node * world.ranks_per_node, ranks=world.ranks, nodes=world.nodes, replication=world.replication
        )
        counts.append(len(Plan(plan.order, there, size, tail=plan.tail).needs(epoch, scope="node")))
    return counts


def _open_shards(order: Order, epoch: int) -> tuple[int, float]:
    """How many parts of shards are needed at once: at most, and on average over the epoch."""
    visits = order.visits(epoch)
    edges = np.concatenate([visits.first, visits.last + 1])
    change = np.repeat([1, -1], len(visits))
    by = np.lexsort((change, edges))  # a part that ends where another begins leaves before it comes
    mean = float((visits.last + 1 - visits.first).sum(dtype=np.float64)) / len(order)
    return int(np.cumsum(change[by]).max()), mean


def _some(values: list[int], most: int = 8) -> str:
    return ", ".join(map(str, values[:most])) + (", …" if len(values) > most else "")
