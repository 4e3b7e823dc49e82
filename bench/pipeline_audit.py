"""What resumes lose: random chains of steps, cut at random places and resumed, counted against the uninterrupted run.

Run in tombola's environment or in that of Hugging Face's datasets; the chains are of steps that both have. tombola's
chains also change ranks and workers at each cut, which datasets leave to the user to forbid.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

Chain = list[tuple[str, dict[str, Any]]]
Counts = dict[str, int]


def chain_of(draw: random.Random) -> Chain:
    """One to five steps, a shuffle among them."""
    kinds = ["map", "filter", "take", "skip", "batch", "repeat"]
    names = [draw.choice(kinds) for _ in range(draw.randint(0, 4))]
    names.insert(draw.randint(0, len(names)), "shuffle")
    return [(name, _options(name, draw)) for name in names]


def _options(name: str, draw: random.Random) -> dict[str, Any]:
    if name == "shuffle":
        return {"seed": draw.randrange(1000), "buffer_size": draw.randint(2, 60)}
    if name in ("take", "skip"):
        return {"n": draw.randint(1, 150)}
    return {"batch_size": draw.randint(2, 7)} if name == "batch" else {"num_times": 2} if name == "repeat" else {}


def rows(shards: list[list[int]]) -> Iterator[dict[str, Any]]:
    """The records of some shards."""
    for shard in shards:
        for number in shard:
            yield {"n": number}


def changed(row: dict[str, Any]) -> dict[str, Any]:
    """A map that keeps what is needed to compare."""
    return {**row, "seen": 1}


def wanted(row: dict[str, Any]) -> bool:
    """A filter."""
    return len(str(row["n"])) % 5 != 2


def audited(seed: int, make: Any, run: Any) -> Counts:
    """One chain: the run in pieces against the run as a whole."""
    draw = random.Random(seed)
    chain = chain_of(draw)
    sizes = [draw.randint(0, 40) for _ in range(draw.randint(1, 8))]
    shards = [list(range(sum(sizes[:at]), sum(sizes[: at + 1]))) for at in range(len(sizes))]
    whole, pieces = run(make, shards, chain, draw)
    before, after = Counter(map(str, whole)), Counter(map(str, pieces))
    lost, twice = sum((before - after).values()), sum((after - before).values())
    return {
        "lost": lost,
        "twice": twice,
        "moved": 0 if lost or twice else sum(a != b for a, b in zip(whole, pieces, strict=True)),
    }


# ---- tombola


def tombola_make(shards: list[list[int]], chain: Chain) -> Any:
    pipeline = importlib.import_module("tombola").Pipeline.from_generator(_one, shards=shards)
    for name, options in chain:
        if name == "map":
            pipeline = pipeline.map(changed)
        elif name == "filter":
            pipeline = pipeline.filter(wanted)
        elif name in ("take", "skip", "repeat"):
            pipeline = getattr(pipeline, name)(*options.values())
        else:
            pipeline = getattr(pipeline, name)(**options)
    return pipeline


def _one(shard: list[int]) -> Iterator[dict[str, Any]]:
    yield from rows([shard])


def tombola_run(make: Any, shards: Any, chain: Chain, draw: random.Random) -> tuple[list[Any], list[Any]]:
    """Three cuts; ranks and workers change at each, and what each of them reads must be in the order of the whole."""
    world = importlib.import_module("tombola").World
    merge = importlib.import_module("tombola.pipeline").merge_states
    readers = draw.randint(1, 4)
    whole = list(make(shards, chain).with_readers(readers))
    given: list[Any] = []
    state, orderly = None, True
    for last in (False, False, False, True):
        # A change of them deals the records anew; the order of all is seen when one reads alone at the end.
        ranks, workers = (1, 1) if last else (draw.randint(1, 3), draw.randint(1, 3))
        states = []
        for rank, worker in itertools.product(range(ranks), range(workers)):
            where = world(rank=rank, ranks=ranks, worker=worker, workers=workers)
            one = make(shards, chain).with_readers(readers).in_world(where)
            if state is not None:
                one.load_state_dict(state)
            epoch, reading = one.epoch, iter(one)
            head = list(reading) if last else list(islice(reading, draw.randint(1, 30)))
            head = head if one.epoch == epoch == 0 else []
            given += head
            orderly &= in_order(head, whole)
            states.append(json.loads(json.dumps(one.state_dict())))
        state = merge(states)
        if state["epoch"]:
            break
    found, planned = Counter(map(str, given)), Counter(map(str, whole))
    if found != planned or not orderly:
        return whole, given
    return in_pieces(make, shards, chain, draw)


# ---- both


def in_order(some: list[Any], whole: list[Any]) -> bool:
    """Whether some records come in the order of the whole."""
    left = iter(whole)
    return all(any(one == record for record in left) for one in some)


def in_pieces(make: Any, shards: Any, chain: Chain, draw: random.Random) -> tuple[list[Any], list[Any]]:
    """One process that is cut three times: the whole, and the pieces."""
    whole = list(make(shards, chain))
    given: list[Any] = []
    reader = make(shards, chain)
    for _ in range(3):
        given += islice(iter(reader), draw.randint(0, max(0, len(whole) - len(given))))
        state = copy.deepcopy(reader.state_dict())
        reader = make(shards, chain)
        reader.load_state_dict(state)
    return whole, given + (list(reader) if len(given) < len(whole) else [])


# ---- datasets


def datasets_make(shards: list[list[int]], chain: Chain) -> Any:
    dataset = importlib.import_module("datasets").IterableDataset.from_generator(rows, gen_kwargs={"shards": shards})
    for name, options in chain:
        if name in ("map", "filter"):
            dataset = getattr(dataset, name)(changed if name == "map" else wanted)
        else:
            dataset = getattr(dataset, name)(**options)
    return dataset


def main() -> None:
    """Prints one line of JSON."""
    who, chains = sys.argv[1].removesuffix("_audit"), int(sys.argv[3])
    make, run = {"tombola": (tombola_make, tombola_run), "datasets": (datasets_make, in_pieces)}[who]
    total = Counter({"lost": 0, "twice": 0, "moved": 0, "wrong": 0})
    for seed in range(chains):
        counts = audited(seed, make, run)
        total.update(counts)
        total["wrong"] += any(counts.values())
    print(json.dumps({"seconds": [0], "count": chains, "said": {**total, "chains": chains}}))


if __name__ == "__main__":
    main()
