"""How often `tombola.quality.score` finds fault with a perfect shuffle, and which bad orders it lets pass.

    python bench/score_alarms.py [--shuffles N] [--first SEED]

Perfect shuffles of several layouts, batch sizes, ranks, epochs and features: by our own `Global`, by NumPy's generator
as recorded ids, and of arrays in memory. The verdict promises at most one alarm in a thousand. Then some orders that
real loaders give, with the verdict on each.

Writes bench/results/score_alarms.json and the text in docs/explanation/quality.md. A run that begins with the number
at which the last one ended adds to it, so that many shuffles can be tried piece by piece.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from _page import DOCS, keep, kept, machine, put, table

from tombola.order import Global, Layout
from tombola.quality import Score, score

Ids = npt.NDArray[np.int64]
Order = Callable[[np.random.Generator], Ids]

LAYOUTS = (
    Layout.equal(64, 50),
    Layout.equal(1000, 3),
    Layout([1, 500, 20, 3, 800, 9, 77, 1200, 5, 5]),
    Layout.equal(4, 700),
    Layout([3000]),
    Layout.equal(300, 20),
)
BAD = Layout.equal(200, 100)
EPOCHS = 4


def features(rng: np.random.Generator, m: int) -> tuple[Any, ...]:
    """None, labels stored one after the other, a skewed value, a vector, a frequent and a rare label."""
    record = np.arange(m)
    skewed = np.exp(2 * rng.normal(size=m))
    return None, record * 10 // m, skewed, rng.normal(size=(m, 3)), record % 7 == 0, record == 5


def perfect(number: int) -> Score:
    """The score of one perfect shuffle, of its own kind."""
    rng = np.random.default_rng(number)
    layout = LAYOUTS[number % len(LAYOUTS)]
    m, size, ranks = layout.records, (8, 16, 32, 64)[number % 4], (1, 2, 4)[number // 4 % 3]
    feature = features(rng, m)[number // 6 % 6]
    common: dict[str, Any] = {"feature": feature, "batch_size": size, "seed": number}
    match number // 36 % 3:
        case 0:
            order = Global().over(layout, seed=number)
            return score(order, epochs=(1, 2, 16)[number % 3], ranks=ranks, **common)
        case 1:
            ids = np.array([rng.permutation(m) for _ in range((1, 2, 5)[number % 3])])
            return score(ids, layout=layout, ranks=ranks, **common)
        case _:
            before = rng.permutation(3 * m)[:m]
            return score(rng.permutation(before), before=before, **common)


def buffered(size: int) -> Order:
    """A shuffle buffer over records as they are stored."""

    def order(rng: np.random.Generator) -> Ids:
        held: list[int] = []
        out = []
        for record in range(BAD.records):
            held.append(record)
            if len(held) > size:
                place = int(rng.integers(len(held)))
                held[place], held[-1] = held[-1], held[place]
                out.append(held.pop())
        return np.array([*out, *rng.permutation(held)], np.int64)

    return order


def riffled(times: int) -> Order:
    """Cut in two and interleaved, so many times."""

    def order(rng: np.random.Generator) -> Ids:
        line = np.arange(BAD.records)
        for _ in range(times):
            right = rng.random(line.size) < 0.5
            cut, out = int((~right).sum()), np.empty_like(line)
            out[~right], out[right] = line[:cut], line[cut:]
            line = out
        return line

    return order


def sorted_head(rng: np.random.Generator) -> Ids:
    """A perfect shuffle whose first tenth is sorted."""
    line = rng.permutation(BAD.records)
    line[: line.size // 10].sort()
    return line


def same_batches(rng: np.random.Generator) -> Ids:
    """The same batches in every epoch, in a new order."""
    batches = np.random.default_rng(99).permutation(BAD.records).reshape(-1, 50)
    return batches[rng.permutation(len(batches))].reshape(-1)


def rotated(rng: np.random.Generator) -> Ids:
    """One permutation, begun elsewhere in every epoch."""
    return np.roll(np.random.default_rng(99).permutation(BAD.records), int(rng.integers(BAD.records)))


def one_lost(rng: np.random.Generator) -> Ids:
    """One record twice and another never."""
    line = rng.permutation(BAD.records)
    line[5] = line[6]
    return line


def early_label(rng: np.random.Generator) -> Ids:
    """Records of one label come a little early."""
    weight = rng.random(BAD.records)
    weight[np.arange(BAD.records) * 10 // BAD.records == 3] **= 1.2
    return np.argsort(weight)


BAD_ORDERS: dict[str, Order] = {
    "as stored": lambda _: np.arange(BAD.records),
    "buffer of 100": buffered(100),
    "buffer of 1,000": buffered(1000),
    "buffer of 10,000": buffered(10_000),
    "one riffle": riffled(1),
    "four riffles": riffled(4),
    "first tenth sorted": sorted_head,
    "same order each epoch": lambda _: np.random.default_rng(99).permutation(BAD.records),
    "same batches each epoch": same_batches,
    "rotated each epoch": rotated,
    "one record lost": one_lost,
    "one label early": early_label,
}


def alarms_in(first: int, end: int) -> list[dict[str, Any]]:
    """Every shuffle of these numbers that was not called perfect, with what was found."""
    found = []
    for number in range(first, end):
        result = perfect(number)
        if result.verdict != "perfect":
            found.append({"number": number, "verdict": result.verdict, "said": [f.what for f in result.findings]})
    return found


def verdicts() -> dict[str, str]:
    """The verdict on each bad order."""
    label = np.arange(BAD.records) * 10 // BAD.records
    found = {}
    for name, order in BAD_ORDERS.items():
        ids = np.array([order(np.random.default_rng(epoch)) for epoch in range(EPOCHS)])
        found[name] = score(ids, layout=BAD, feature=label, batch_size=50).verdict
    return found


def main() -> None:
    """Try both, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shuffles", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    before = kept("score_alarms") if options.first else {}
    if options.first != before.get("shuffles", 0):
        parser.error(f"--first {options.first}: the shuffles tried so far end at {before.get('shuffles', 0)}")
    end = options.first + options.shuffles
    alarms = before.get("alarms", []) + alarms_in(options.first, end)
    bad = verdicts()
    where = machine("fixed seeds")
    keep("score_alarms", {"machine": where, "shuffles": end, "alarms": alarms, "bad orders": bad})
    said = (
        f"Of {end:,} perfect shuffles of different shapes, features, batches, ranks and epochs, {len(alarms)} were not "
        f"called perfect ({len(alarms) / end:.2%}; promised is 0.10 %). Some orders that loaders give, on 200 shards "
        f"of 100 records with batches of 50 and {EPOCHS} epochs:"
    )
    text = f"{said}\n\n{table(['order', 'verdict'], [[name, verdict] for name, verdict in bad.items()])}"
    print(text)
    put(DOCS / "explanation" / "quality.md", "score_alarms", text)


if __name__ == "__main__":
    main()
