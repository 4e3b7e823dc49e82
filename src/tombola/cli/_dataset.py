"""Arguments that commands about a dataset share."""

from __future__ import annotations

import argparse
from typing import Any

from tombola.cli import _spec
from tombola.errors import PlanError
from tombola.order import OrderSpec, order_names
from tombola.plan import World
from tombola.stream import Stream

TAILS = ("drop", "pad", "short")


def add_dataset(parser: Any) -> None:
    """The dataset, and how to print."""
    parser.add_argument("dataset", metavar="DATASET", help="the folder of a dataset")
    parser.add_argument("--allow-unsafe", action="store_true", help="read pickled columns, which runs code in the data")
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_order(parser: Any) -> None:
    """The order of the records."""
    parser.add_argument("--order", default="lanes", metavar="NAME", help=f"one of {', '.join(order_names())}")
    _spec.add_options(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epoch", type=int, default=0)


def add_world(parser: Any) -> None:
    """The batches and who reads them."""
    parser.add_argument("--batch-size", type=int, help="over all ranks; one record a rank unless given")
    parser.add_argument("--tail", choices=TAILS, default="drop", help="what becomes of a last batch that is not full")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--replication", type=int, default=1, help="consecutive ranks that read the same rows")


def spec_of(arguments: argparse.Namespace) -> OrderSpec:
    """The order that the arguments name."""
    given = {name: getattr(arguments, name, None) for name in ("lanes", "window", "batch_size")}
    return _spec.spec_of(arguments.order, arguments.option, **given)


def stream_of(arguments: argparse.Namespace, **options: Any) -> Stream:
    """The stream that the arguments describe."""
    return Stream(arguments.dataset, allow_unsafe=arguments.allow_unsafe, **options)


def world_of(arguments: argparse.Namespace) -> World:
    """The world that the arguments describe, seen from its first rank."""
    return World(ranks=arguments.ranks, nodes=arguments.nodes, replication=arguments.replication)


def names_of(text: str | None) -> list[str] | None:
    """Names of columns, separated by commas."""
    if text is None:
        return None
    names = [name for name in text.split(",") if name]
    if not names:
        raise PlanError("--columns names no column; write --columns text,label")
    return names
