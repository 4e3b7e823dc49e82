"""tombola's side of bench/pipeline.py."""

from __future__ import annotations

import collections
import gc
import importlib
import time
from typing import Any

from _contestant import Prepared, contest
from pipeline_data import BATCH, FILES, SEED, changed, numbers, spread

from tombola import Pipeline


def buffer(records: int, size: int) -> Prepared:
    """The buffer shuffle alone."""
    rows = [{"n": n} for n in range(records)]
    pipeline = Pipeline.from_generator(numbers, shards=[rows]).shuffle(size, seed=SEED)
    return lambda: collections.deque(pipeline, 0) and None, records


def lines(size: int, files: int) -> Pipeline:
    """Files of JSON Lines, map, shuffle, batch; so many files at once."""
    read = Pipeline.from_files("part-*.jsonl", "jsonl").map(changed)
    return read.shuffle(size, seed=SEED, input_shards=files).batch(BATCH)


def jsonl(records: int, size: int, files: int = 1) -> Prepared:
    """The speed."""
    importlib.import_module("msgspec")  # as WebDataset's import: not part of what is measured
    pipeline = lines(size, files)
    return lambda: collections.deque(pipeline, 0) and None, records


def mixing(records: int, size: int, files: int = 1) -> Prepared:
    """Files per batch, on the mean."""
    pipeline = lines(size, files)
    return lambda: spread(batch["file"] for batch in pipeline), records


def resume(records: int, size: int, percent: int, from_file: int) -> Prepared:
    """Seconds from the loading of a state to the next record; 0 % is a start."""
    rows: Any = range(records)

    def make() -> Pipeline:
        source = Pipeline.from_files("part-*.jsonl", "jsonl") if from_file else Pipeline.from_iterable(rows)
        return source.shuffle(size, seed=SEED)

    pipeline = make()
    reading = iter(pipeline)
    for _ in range(records * percent // 100):
        next(reading)
    state = pipeline.state_dict()
    again = make()
    gc.collect()

    def measured() -> float:
        began = time.perf_counter()
        again.load_state_dict(state)
        next(iter(again))
        return time.perf_counter() - began

    return measured, 1


if __name__ == "__main__":
    every = {
        "jsonl_all": lambda *numbers: jsonl(*numbers, FILES),
        "mixing_all": lambda *numbers: mixing(*numbers, FILES),
    }
    contest({"buffer": buffer, "jsonl": jsonl, "mixing": mixing, "resume": resume, **every})
