"""Measures the orders against Grain, MosaicML Streaming and NumPy, all in one run, and writes down the figures.

    python bench/peers.py grain mosaic && python bench/order.py [--quick] [--rounds N] [--only WORD]

Every measurement is a fresh process on one core. The contestants of a figure take turns, so that a slow minute of the
machine hits all of them; medians are compared. Writes bench/results/order.json and the table in
docs/explanation/speed.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from typing import Any

import exact
import streams
from _figures import (
    MILLION,
    Contestant,
    Figure,
    duration,
    measure,
    mosaic,
    number,
    ours,
    rate,
    row_of,
    start,
    table_of,
)
from _page import DOCS, keep, kept, machine, put
from peers import python_of


def figures(*, quick: bool) -> list[Figure]:
    """The table; `quick` leaves out what takes long or much memory."""

    sizes = [10] if quick else [10, 50]
    peers_start = tuple(
        mosaic("first_batch", n * MILLION, n * 100, 0, label=f"MosaicML py1e, {n} M records") for n in sizes
    )
    peers_resume = tuple(
        mosaic("first_batch", n * MILLION, n * 100, 80, label=f"MosaicML py1e, {n} M records") for n in sizes
    )
    grain = Contestant("Grain", "grain", "order_grain.py", "permutation", (10**9, 200_000), 3)
    table = [
        Figure(
            "`Permutation.at` on an array, n = 10^9, one core",
            "≥ 100 M/s",
            rate,
            (
                ours("permutation", 10**9, 10 * MILLION, repeats=5),
                grain,
                ours("numpy_feistel", 10**9, MILLION, label="NumPy, the slow twin", repeats=3),
                ours("numpy_permutation", 10 * MILLION, label="NumPy rng.permutation, n = 10^7", repeats=3),
            ),
        ),
        Figure(
            "first batch, 10^9 records in 10^5 shards, 1024 lanes",
            "≤ 20 ms, ≤ 30 MB",
            start,
            (ours("first_batch", 10**9, 10**5, 1024, 0), *peers_start),
        ),
        Figure(
            "first batch, 10^12 records in 10^7 shards, 1024 lanes",
            "≤ 2 s, ≤ 1 GB",
            start,
            (ours("first_batch", 10**12, 10**7, 1024, 0),),
        ),
        Figure(
            "resume at 80 %, 10^9 records in 10^5 shards",
            "the same as a start",
            start,
            (ours("first_batch", 10**9, 10**5, 1024, 80), *peers_resume),
        ),
        Figure(
            "`slice` of consecutive positions, 64 lanes, one core",
            "≥ 20 M/s",
            rate,
            (
                ours("run_of_positions", 10**9, 10**5, 10 * MILLION, 0, repeats=5),
                ours("run_of_positions", 10**9, 10**5, 5 * MILLION, 2, label="tombola, window of 2 shards", repeats=3),
            ),
        ),
        Figure(
            "shards fetched over 4 nodes ÷ shards, S = 1000, C = 64, first epoch",
            "≤ 1.063",
            number,
            (ours("fetched", 1000, 64, 4, 0), mosaic("fetched", 1000, 4, label="MosaicML py1e")),
        ),
        Figure(
            "the same, later epochs, with a cache of the node's share",
            "≤ 0.05",
            number,
            (ours("fetched", 1000, 64, 4, 1),),
        ),
        Figure(
            "lanes that change shard within 16 consecutive places, 1024 shards of 1,000, 64 lanes",
            "≤ 2",
            number,
            (ours("switches", 1024, 1000, 64, 16),),
        ),
    ]
    return table


def time_and_best(result: dict[str, Any]) -> str:
    """Time, and the least of it: on a busy machine the one says what happened, the other what the code needs."""
    return f"{duration(result['seconds'])}, at best {duration(result['seconds_spread'][0])}"


IMPORT_NAME = "`import`"
IMPORT = "{before}import time; t = time.perf_counter(); {words}; print(time.perf_counter() - t)"
# What is imported in which environment, and what is there already when the clock starts.
PLANNING = "from tombola import Lanes, Layout, Plan, World"
IMPORTS = {
    "`import tombola`": ("tombola", "import tombola", ""),
    f"`{PLANNING}`": ("tombola", PLANNING, ""),
    "the same where NumPy is imported already": ("tombola", PLANNING, "import numpy; "),
    "NumPy alone": ("tombola", "import numpy", ""),
    "Grain": ("grain", "import grain", ""),
}


def imports(rounds: int) -> list[dict[str, Any]]:
    """Seconds of an import in a fresh process; all take turns in every round.

    Compiled beforehand, as an installer does: an editable install in an environment that says PYTHONDONTWRITEBYTECODE
    would compile its sources in every process.
    """
    seconds: dict[str, list[float]] = {label: [] for label in IMPORTS}
    with tempfile.TemporaryDirectory() as compiled:
        environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environ["PYTHONPYCACHEPREFIX"] = compiled
        for number in range(rounds + 1):
            for label, (venv, words, before) in IMPORTS.items():
                command = [str(python_of(venv)), "-c", IMPORT.format(words=words, before=before)]
                run = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
                if number:  # the first round compiles
                    seconds[label].append(float(run.stdout))
    return [
        {"label": label, "seconds": statistics.median(all_), "seconds_spread": [min(all_), max(all_)]}
        for label, all_ in seconds.items()
    ]


def main() -> None:
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller peers; nothing is written")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default="", metavar="WORD", help="only figures with this in their name")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 5)
    rows = []
    for figure in [*figures(quick=options.quick), *streams.figures(), *exact.figures(quick=options.quick)]:
        if options.only not in figure.name:
            continue
        rows.append(row_of(figure, measure(figure, rounds)) | {"rounds": rounds})
        print(f"{figure.name} ({figure.reach}): {rows[-1]['shown']}", flush=True)
    if options.only in IMPORT_NAME:
        load = os.getloadavg()[0]
        results = imports(4 * rounds + 1)
        shown = {result["label"]: time_and_best(result) for result in results}
        rows.append(
            {
                "name": IMPORT_NAME,
                "reach": "< 150 ms",
                "shown": shown,
                "results": results,
                "load": load,
                "rounds": rounds,
            }
        )
    print(table_of(rows))
    if not options.quick:
        write(rows)


def write(rows: list[dict[str, Any]]) -> None:
    """Puts the figures into the results and the page; those that were not measured now stay as they were."""
    there = {row["name"]: row for row in kept("order").get("figures", [])}
    rows = list((there | {row["name"]: row for row in rows}).values())
    # In the order of the tables above; a row that took fewer rounds says so.
    names = [figure.name for figure in [*figures(quick=False), *streams.figures(), *exact.figures(quick=False)]]
    rows.sort(key=lambda row: [*names, row["name"]].index(row["name"]))
    usual = max(row["rounds"] for row in rows)
    shown = [row if row["rounds"] == usual else row | {"name": f"{row['name']} ({_times(row)})"} for row in rows]
    where = machine(f"one core, median of {usual} rounds")
    keep("order", {"machine": where, "figures": rows})
    put(DOCS / "explanation" / "speed.md", "order", f"Measured on {where}.\n\n{table_of(shown)}")


def _times(row: dict[str, Any]) -> str:
    return "one round" if row["rounds"] == 1 else f"{row['rounds']} rounds"


if __name__ == "__main__":
    main()
