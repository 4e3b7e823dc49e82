"""Grain's side of bench/order.py: the permutation its shuffles call for every record, called as they do."""

from __future__ import annotations

import os

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import random

from _contestant import Prepared, contest
from grain._src.python.experimental.index_shuffle.python import index_shuffle_module


def permutation(n: int, count: int) -> Prepared:
    rng = random.Random(0)
    positions = [rng.randrange(n) for _ in range(count)]
    shuffle = index_shuffle_module.index_shuffle

    def run() -> list[int]:
        # Its dataset's own call: 4 rounds, one position at a time.
        return [shuffle(t, max_index=n - 1, seed=7, rounds=4) for t in positions]

    return run, count


if __name__ == "__main__":
    contest({"permutation": permutation})
