"""The figures of streams combined for bench/order.py; bench/mixture.py has more of our own."""

from __future__ import annotations

from functools import partial

from _figures import MILLION, Figure, mosaic, number, ours, rate

METHODS = ("random", "stratified", "per_stream", "device_per_stream")
here = partial(ours, file="streams")


def figures() -> list[Figure]:
    """The rows."""
    table = [
        Figure(
            "mixture of 10 streams, `slice`",
            "≥ 10 M/s",
            rate,
            (
                here("run_of_positions", 10, 2 * MILLION, repeats=5),
                here("run_of_positions", 1, 2 * MILLION, label="tombola, one stream as large", repeats=5),
            ),
        )
    ]
    table += [
        Figure(
            f"shards fetched over 4 nodes ÷ shards, 500 shards of 4 streams, 16 lanes, {method}",
            "≤ 1.15",
            number,
            (here("fetched", which), mosaic("fetched", which, file="streams")),
        )
        for which, method in enumerate(METHODS)
    ]
    return table
