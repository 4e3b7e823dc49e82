"""Measures the orders that combine streams, on one core, and writes docs/reference/streams.md's table of figures.

    python bench/mixture.py [--rounds N]

Medians over rounds in which the cases take turns. Writes bench/results/mixture.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the import: threads are counted then

import numpy as np
from _page import DOCS, keep, machine, put, table

from tombola import Lanes, Layout, Plan, World
from tombola.order import Concatenation, DevicePerStream, Kept, Mixture, Order, PerStream, Stratified, Subset, Take

COUNT = 2_000_000


def streams(count: int, shards: int, records: int) -> Layout:
    return Layout.joined([Layout.equal(shards, records)] * count)


def slices(order: Order) -> Callable[[], float]:
    """Positions per second of one long slice in mid-epoch."""
    start = len(order) // 3
    order.slice(start, start + 64)

    def run() -> float:
        begun = time.perf_counter()
        order.slice(start, start + COUNT)
        return COUNT / (time.perf_counter() - begun)

    return run


def batches(order: Order) -> Callable[[], float]:
    """Batches of 256 per second, one after the other."""
    place = [len(order) // 3 // 256 * 256]

    def run() -> float:
        begun = time.perf_counter()
        for _ in range(200):
            order.slice(place[0], place[0] + 256)
            place[0] += 256
        return 200 / (time.perf_counter() - begun)

    return run


def starts(make: Callable[[], Order]) -> Callable[[], float]:
    """Seconds from a layout to the first batch."""

    def run() -> float:
        begun = time.perf_counter()
        make().slice(0, 256)
        return time.perf_counter() - begun

    return run


def positions(value: float) -> str:
    return f"{value / 1e6:.3g} M/s"


def localities(spec: object) -> str:
    """Shards fetched over 4 nodes ÷ shards, first and later epochs: 500 shards of four streams, 16 lanes."""
    layout = Layout.joined([Layout.equal(shards, 256) for shards in (200, 150, 100, 50)])
    order = spec.over(layout, seed=7)  # type: ignore[attr-defined]
    found = Plan(order, World(ranks=16, nodes=4), order.batch_size or 256).locality()
    return f"{found.first:.3f}, {found.later:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ten, weights = streams(10, 1000, 10_000), tuple(range(1, 11))
    wide = streams(10, 100_000, 10_000)
    kept = Kept.mask(np.random.default_rng(0).random(ten.records) < 0.5)
    cases: list[tuple[str, str, Callable[[], float], Callable[[float], str]]] = [
        ("mixture of 10 streams, `slice`", "≥ 10 M/s", slices(Mixture(weights).over(ten, seed=7)), positions),
        ("one stream of the same size, `slice`", "", slices(Lanes().over(ten, seed=7)), positions),
        ("stratified, 10 streams, `slice`", "", slices(Stratified(640, Mixture(weights)).over(ten, seed=7)), positions),
        ("per_stream, 10 streams, `slice`", "", slices(PerStream(640, Mixture(weights)).over(ten, seed=7)), positions),
        (
            "concatenation, every stream 1.5 times, `slice`",
            "",
            slices(Concatenation((Take(repeat=1.5),) * 10).over(ten, seed=7)),
            positions,
        ),
        ("subset, every other record, `slice`", "", slices(Subset(kept).over(ten, seed=7)), positions),
        (
            "mixture of 10 streams, batches of 256",
            "",
            batches(Mixture(weights).over(ten, seed=7)),
            lambda rate: f"{1e6 / rate:.0f} µs each",
        ),
        (
            "mixture of 10 streams, 10^10 records in 10^6 shards, first batch",
            "",
            starts(lambda: Mixture(weights).over(wide, seed=7)),
            lambda seconds: f"{1e3 * seconds:.3g} ms",
        ),
    ]
    taken: list[list[float]] = [[] for _ in cases]
    for _ in range(rounds):
        for values, (_, _, run, _) in zip(taken, cases, strict=True):
            values.append(run())
    rows = [
        {"figure": name, "reach": reach, "shown": show(statistics.median(values)), "values": values}
        for values, (name, reach, _, show) in zip(taken, cases, strict=True)
    ]
    base = Lanes(lanes=16)
    combinations = (Concatenation(base=base), Mixture((4, 3, 2, 1), base=base))
    for spec in (*combinations, Stratified(256, base), PerStream(256, base), DevicePerStream(16, base)):
        rows.append(
            {
                "figure": f"shards fetched over 4 nodes ÷ shards, first and later epochs: {spec.name}",
                "reach": "≤ 1.15",
                "shown": localities(spec),
                "values": [],
            }
        )
    where = machine(f"one core, median of {rounds} rounds")
    keep("mixture", {"machine": where, "figures": rows})
    text = table(["figure", "reach", "measured"], [[row["figure"], row["reach"], row["shown"]] for row in rows])
    print(text)
    put(DOCS / "reference" / "streams.md", "mixture", f"Measured on {where}.\n\n{text}")


if __name__ == "__main__":
    main()
