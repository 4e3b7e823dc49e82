"""The figures of the exact MosaicML orders for bench/order.py: beside mosaicml-streaming itself, and NumPy's kernels.

Both sides have to say the same. Memory is the peak above what the process held after its imports.
"""

from __future__ import annotations

from functools import partial

from _figures import MILLION, Figure, mosaic, ours, rate, start

NAMES = ("py1e", "py1s", "py2s")
here = partial(ours, file="exact")
there = partial(mosaic, file="exact")


def figures(*, quick: bool) -> list[Figure]:
    """The rows. The canonical nodes are the peer's defaults for 8 nodes of 8 ranks with 8 workers, batches of 32."""
    records = (5 if quick else 50) * MILLION
    table = [
        Figure(
            f"MosaicML's whole epoch, {NAMES[which]}, {records // MILLION} M records in shards of 5,000, "
            f"{nodes} canonical nodes",
            "≥ 5 times as fast, ≤ 1/3 of the memory",
            start,
            (here("epoch", which, records, 5000, nodes, 8), there("epoch", which, records, 5000, nodes, 8)),
            same=True,
        )
        for which, nodes in ((0, 8), (0, 64), (1, 512), (1, 8))
    ]
    table += [
        Figure(
            f"py1s, the shuffle of spans of {span:,}",
            "≥ 1.5 times as fast",
            rate,
            (
                here("spans", span, 32, label="tombola, in 32 bits as py1s has them", repeats=3),
                here("spans_numpy", span, label="NumPy", repeats=3),
                here("spans", span, 64, label="tombola, in 64 bits", repeats=3),
            ),
            same=True,
        )
        for span in (10**3, 10**4, 10**5, 3 * 10**5)
    ]
    large = (2 if quick else 20) * MILLION
    table.append(
        Figure(
            f"naive, {large // MILLION} M records, in 64 bits",
            "≥ 2.5 times as fast",
            start,
            (here("naive", large, repeats=2), here("naive_numpy", large, label="NumPy", repeats=2)),
            same=True,
        )
    )
    both = (5 if quick else 100) * MILLION
    table.append(
        Figure(
            f"py2s, the shuffle alone, {both // MILLION} M records in shards of 5,000, 512 canonical nodes",
            "",
            start,
            (here("py2s", both, 5000, 512), there("py2s", both, 5000, 512)),
            same=True,
        )
    )
    if not quick:
        name = "py2s, the same with 1,000 M records: more than the peer has memory for here"
        table.append(Figure(name, "", start, (here("py2s", 1000 * MILLION, 5000, 512),)))
    return table
