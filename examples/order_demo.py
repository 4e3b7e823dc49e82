"""What an order does, in half a minute: batches that mix shards, a resume under another world, a picture.

    python examples/order_demo.py

Everything printed is computed from a few integers; no data is read.
"""

from __future__ import annotations

import string
import sys
import time

import numpy as np
import numpy.typing as npt

from tombola import Cursor, Lanes, Layout, Plan, World
from tombola.order import Order

SEED = 7
LETTERS = string.ascii_letters + string.digits


def main() -> int:
    """Prints the demonstration; 1 if the resumed run differs from the uninterrupted one."""
    sizes = np.random.default_rng(1).integers(600, 1400, 48)
    layout = Layout(sizes)
    order = Lanes(lanes=16).over(layout, seed=SEED)
    print(f"A dataset of {layout.records:,} records in {layout.shards} shards, read in 16 lanes with seed {SEED}.\n")

    show_batches(order)
    same = show_resume(order)
    show_provenance(order)
    show_open_shards(order)
    show_scale()
    return 0 if same else 1


def show_batches(order: Order) -> None:
    """The first batches: which records, from how many shards."""
    print("The first batches of 64 (stored sequentially each would hold records of one shard):")
    plan = Plan(order, batch_size=64)
    for step in range(3):
        records = plan.batch(step).records
        shards = np.unique(order.layout.locate(records)[0])
        head = ", ".join(str(record) for record in records[:6])
        print(f"  batch {step}: records {head}, …  from {shards.size} shards")
    print()


def read(plan: Plan, world: dict[str, int], steps: range) -> tuple[npt.NDArray[np.int64], Cursor]:
    """What all ranks of a world read in some steps, in the order of positions, and the cursor after them."""
    rows = []
    for rank in range(world["ranks"]):
        mine = Plan(
            plan.order, World(rank=rank, **world), plan.batch_size, tail=plan.tail, cursor=plan.cursor(steps.start)
        )
        rows += [mine.batch(step) for step in steps]
    by_position = np.argsort(np.concatenate([part.positions for part in rows]))
    return np.concatenate([part.records for part in rows])[by_position], plan.cursor(steps.stop)


def show_resume(order: Order) -> bool:
    """Cut the epoch under one world, go on under another with another batch size, and compare."""
    before, after = {"ranks": 8, "nodes": 2}, {"ranks": 3, "nodes": 1}
    plan = Plan(order, World(**before), batch_size=256, tail="short")
    cut = plan.steps() * 2 // 5
    prefix, cursor = read(plan, before, range(cut))
    text = cursor.to_json()
    print(
        f"Cut after {cut} of {plan.steps()} batches of 256 on {before['ranks']} ranks. The cursor is {len(text)} bytes:"
    )
    print(f"  epoch {cursor.epoch}, position {cursor.position:,}, and a fingerprint of what decides the order")

    began = time.perf_counter()
    resumed = Plan(order, World(**after), batch_size=96, tail="short", cursor=Cursor.from_json(text))
    took = time.perf_counter() - began
    suffix, _ = read(resumed, after, range(resumed.start[1], resumed.steps()))
    whole = order.slice(0, len(order))
    same = np.array_equal(np.concatenate([prefix, suffix]), whole)
    print(f"Resumed on {after['ranks']} ranks with batches of 96, in {took * 1e3:.1f} ms and without a replay:")
    print(f"  prefix {prefix.size:,} + suffix {suffix.size:,} records == uninterrupted run: {same}\n")
    return same


def show_provenance(order: Order) -> None:
    """Both directions: what a step read, and when a record is read."""
    plan = Plan(order, World(ranks=8, nodes=2), batch_size=256)
    record = int(plan.what(31)[0])
    place = plan.where(record)[0]
    print("Asked of the order, without reading anything:")
    print(f"  what was in batch 31?      {len(plan.what(31))} records, the first is {record}")
    print(f"  when is {record} read?      step {place.step}, rank {place.rank}, row {place.row}")
    print(f"  and in the next epoch?     step {plan.where(record, epoch=1)[0].step}\n")


def show_open_shards(order: Order, width: int = 96) -> None:
    """One line a lane, one letter a shard: which are open over the epoch."""
    visits = order.visits(0)
    print("Shards open over the epoch, one line a lane, a letter for each shard (time runs to the right):")
    for lane in range(order.lanes):
        mine = np.flatnonzero(visits.lane == lane)
        line = [" "] * width
        for visit in mine:
            first, last = (int(edge[visit]) * width // len(order) for edge in (visits.first, visits.last))
            line[first : last + 1] = LETTERS[int(visits.shard[visit]) % len(LETTERS)] * (last + 1 - first)
        print(f"  {lane:2d} {''.join(line)}")
    now = len(order) // 2
    open_now = np.unique(visits.shard[(visits.first <= now) & (now <= visits.last)])
    print(f"  in the middle of the epoch {open_now.size} of {order.layout.shards} shards are open\n")


def show_scale() -> None:
    """The same at the size of a large run."""
    began = time.perf_counter()
    order = Lanes(lanes=1024).over(Layout.equal(100_000, 10_000), seed=SEED)
    batch = order.slice(0, 1024)
    took = time.perf_counter() - began
    middle = len(order) * 4 // 5
    record = order.at(middle, epoch=3)
    found = order.find(record, epoch=3).tolist() == [middle]
    print(f"{len(order):,} records in {order.layout.shards:,} shards, 1,024 lanes:")
    print(f"  layout, order and the first batch of {batch.size} took {took * 1e3:.0f} ms")
    print(f"  position {middle:,} of epoch 3 is record {record:,}; find leads back: {found}")


if __name__ == "__main__":
    sys.exit(main())
