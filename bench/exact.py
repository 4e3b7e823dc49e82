"""Measures the exact MosaicML orders against mosaicml-streaming itself, and their kernels against NumPy's.

    python bench/peers.py mosaic && python bench/exact.py [--quick] [--rounds N]

As bench/order.py: fresh processes on one core, contestants in turns, medians. Both sides have to say the same, or the
run fails. Memory is the peak above what the process held after its imports. Writes bench/results/exact.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from typing import Any

from order import BENCH, Contestant, Figure, duration, measure, rate, start

MILLION = 10**6
NAMES = ("py1e", "py1s", "py2s")


def ours(case: str, *numbers: int, label: str = "tombola", repeats: int = 1) -> Contestant:
    return Contestant(label, "tombola", "exact_tombola.py", case, numbers, repeats)


def theirs(case: str, *numbers: int) -> Contestant:
    return Contestant("MosaicML", "mosaic", "exact_mosaic.py", case, numbers)


def figures(*, quick: bool) -> list[Figure]:
    """The table. The canonical nodes are the peer's defaults for 8 nodes of 8 ranks with 8 workers, batches of 32."""
    records = (5 if quick else 50) * MILLION
    table = [
        Figure(
            f"whole epoch, {NAMES[which]}, {records // MILLION} M records in shards of 5,000, {nodes} canonical nodes",
            "≥ 5 times faster, ≤ 1/3 of the memory",
            start,
            (ours("epoch", which, records, 5000, nodes, 8), theirs("epoch", which, records, 5000, nodes, 8)),
        )
        for which, nodes in ((0, 8), (0, 64), (1, 512), (1, 8))
    ]
    for span in (10**3, 10**4, 10**5, 3 * 10**5):
        table.append(
            Figure(
                f"py1s, the shuffle of spans of {span:,}",
                "≥ 1.5 times faster",
                rate,
                (
                    ours("spans", span, 32, label="tombola, as py1s runs (32 bits)", repeats=3),
                    Contestant("NumPy", "tombola", "exact_tombola.py", "spans_numpy", (span,), 3),
                    ours("spans", span, 64, label="tombola, 64 bits", repeats=3),
                ),
            )
        )
    large = (2 if quick else 20) * MILLION
    table.append(
        Figure(
            f"naive, {large // MILLION} M records, 64-bit result",
            "≥ 2.5 times faster",
            start,
            (
                ours("naive", large, repeats=2),
                Contestant("NumPy permutation", "tombola", "exact_tombola.py", "naive_numpy", (large,), 2),
            ),
        )
    )
    both = (5 if quick else 100) * MILLION
    table.append(
        Figure(
            f"py2s, the shuffle alone, {both // MILLION} M records in shards of 5,000, 512 canonical nodes",
            "a named pain point",
            start,
            (ours("py2s", both, 5000, 512), theirs("py2s", both, 5000, 512)),
        )
    )
    if not quick:
        table.append(
            Figure(
                "the same, 1,000 M records: beyond this machine for the peer",
                "a named pain point",
                start,
                (ours("py2s", 1000 * MILLION, 5000, 512),),
            )
        )
    return table


def ratios(results: list[dict[str, Any]]) -> dict[str, str]:
    """How often the first contestant goes into the second: time per record, and memory."""
    if len(results) < 2:
        return {}
    own, other = results[:2]
    said = {"times faster": f"{other['seconds'] / other['count'] / (own['seconds'] / own['count']):.2f}"}
    if other["peak_bytes"] and own["peak_bytes"]:
        said["of the memory"] = f"{own['peak_bytes'] / other['peak_bytes']:.3f}"
    return said


def main() -> None:
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, smaller numbers; nothing is written")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 3)
    rows = []
    for figure in figures(quick=options.quick):
        results = measure(figure, rounds)
        if len({result["answer"] for result in results}) > 1:
            sys.exit(f"{figure.name}: the contestants disagree: {[result['answer'] for result in results]}")
        shown = {result["label"]: f"{figure.show(result)} ({duration(result['seconds'])})" for result in results}
        row = {
            "name": figure.name,
            "reach": figure.reach,
            "shown": shown,
            "ratios": ratios(results),
            "results": results,
        }
        rows.append(row)
        print(f"{figure.name} ({figure.reach}): {row['ratios']} {shown}", flush=True)
    if options.quick:
        return
    machine = f"{platform.machine()}, Python {platform.python_version()}, one core, median of {rounds} rounds"
    (BENCH / "results").mkdir(exist_ok=True)
    text = json.dumps({"machine": machine, "figures": rows}, indent=1)
    (BENCH / "results" / "exact.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
