"""tombola's side of bench/order.py, and NumPy's: both run in our own environment, on one core."""

from __future__ import annotations

import os
import sys
from typing import Any

if hasattr(os, "sched_setaffinity") and "--all-cores" not in sys.argv:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the import: threads are counted then

import numpy as np
from _contestant import Prepared, contest

from tombola import Lanes, Layout, Permutation, Plan, World
from tombola.order import derive_key
from tombola.order._slow import SlowPermutation


def permutation(n: int, count: int) -> Prepared:
    positions = np.random.default_rng(0).integers(0, n, count)
    p = Permutation(n, 7)
    return (lambda: p.at(positions)), count


def numpy_feistel(n: int, count: int) -> Prepared:
    positions = np.random.default_rng(0).integers(0, n, count)
    p = SlowPermutation(n, derive_key(7, "permutation"))
    return (lambda: p.at(positions)), count


def numpy_permutation(n: int) -> Prepared:
    rng = np.random.default_rng(7)
    return (lambda: rng.permutation(n)), n


def first_batch(records: int, shards: int, lanes: int, percent: int) -> Prepared:
    """From the sizes of the shards to the first batch of a plan that starts, or resumes, at a percentage."""
    sizes = np.full(shards, records // shards, np.int64)

    def start() -> Any:
        order = Lanes(lanes=lanes).over(Layout(sizes), seed=7)
        world = World(ranks=8, nodes=1)
        plan = Plan(order, world, 1024)
        if percent:
            cursor = plan.cursor(plan.steps() * percent // 100)
            plan = Plan(order, world, 1024, cursor=cursor)
        return plan.batch(plan.start[1])

    return start, records


def run_of_positions(records: int, shards: int, count: int, window: int) -> Prepared:
    order = Lanes(lanes=64, window=window or None).over(Layout.equal(shards, records // shards), seed=7)
    order.slice(0, 1)
    begin = records // 3
    return (lambda: order.slice(begin, begin + count)), count


def fetched(shards: int, lanes: int, nodes: int, later: int) -> Prepared:
    """Shards fetched, summed over nodes, ÷ shards: a first epoch, or a later one with a warm cache."""
    layout = Layout(np.random.default_rng(1).integers(500, 1500, shards))  # equal ones might fit the lanes by chance
    plan = Plan(Lanes(lanes=lanes).over(layout, seed=7), World(ranks=8 * nodes, nodes=nodes), 256)
    return (lambda: plan.locality().later if later else plan.locality().first), shards


def switches(shards: int, size: int, lanes: int, places: int) -> Prepared:
    """The most lanes that change shard within any so many consecutive places, over several seeds and epochs."""

    def most() -> int:
        worst = 0
        for seed in range(10):
            order = Lanes(lanes=lanes).over(Layout.equal(shards, size), seed=seed)
            for epoch in range(5):
                begins = np.sort(order.visits(epoch).first // lanes)
                begins = begins[begins > 0]
                inside = np.searchsorted(begins, begins + places) - np.arange(begins.size)
                worst = max(worst, int(inside.max()))
        return worst

    return most, shards


if __name__ == "__main__":
    contest(
        {
            "permutation": permutation,
            "numpy_feistel": numpy_feistel,
            "numpy_permutation": numpy_permutation,
            "first_batch": first_batch,
            "run_of_positions": run_of_positions,
            "fetched": fetched,
            "switches": switches,
        }
    )
