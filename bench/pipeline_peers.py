"""The peers' side of bench/pipeline.py, each in its own environment: cases are named PEER_what."""

from __future__ import annotations

import collections
import glob
import importlib
import itertools
import random
import time
from collections.abc import Iterable, Iterator
from typing import Any

from _contestant import Prepared, contest
from pipeline_data import BATCH, SEED, changed, lines, numbers, spread


def exhausted(records: Iterable[Any]) -> None:
    """Reads all."""
    collections.deque(records, 0)


# ---- Hugging Face datasets


def datasets_buffer(records: int, size: int) -> Prepared:
    hf = importlib.import_module("datasets")
    rows = [{"n": n} for n in range(records)]
    # One shard: the list is a value of its own, so that nothing is dealt.
    dataset = hf.IterableDataset.from_generator(numbers, gen_kwargs={"rows": tuple(rows)})
    shuffled = dataset.shuffle(seed=SEED, buffer_size=size)
    return lambda: exhausted(shuffled), records


def _datasets_jsonl(size: int) -> Any:
    hf = importlib.import_module("datasets")
    files = sorted(glob.glob("part-*.jsonl"))
    dataset = hf.load_dataset("json", data_files=files, split="train", streaming=True)
    return dataset.map(changed).shuffle(seed=SEED, buffer_size=size).batch(BATCH)


def datasets_jsonl(records: int, size: int) -> Prepared:
    dataset = _datasets_jsonl(size)
    return lambda: exhausted(dataset), records


def datasets_mixing(records: int, size: int) -> Prepared:
    dataset = _datasets_jsonl(size)
    return lambda: spread(batch["file"] for batch in dataset), records


def datasets_resume(records: int, size: int, percent: int, from_file: int) -> Prepared:
    hf = importlib.import_module("datasets")
    files = sorted(glob.glob("part-*.jsonl"))

    def make() -> Any:
        dataset = hf.load_dataset("json", data_files=files, split="train", streaming=True)
        return dataset.shuffle(seed=SEED, buffer_size=size)

    dataset = make()
    reading = iter(dataset)
    for _ in range(records * percent // 100):
        next(reading)
    state = dataset.state_dict()

    def measured() -> float:
        again = make()
        began = time.perf_counter()
        again.load_state_dict(state)
        next(iter(again))
        return time.perf_counter() - began

    return measured, 1


# ---- WebDataset: it has no reader of JSON Lines, so it is fed by a loop of Python


def webdataset_buffer(records: int, size: int) -> Prepared:
    wds = importlib.import_module("webdataset")
    rows = [{"n": n} for n in range(records)]

    def read() -> None:
        exhausted(wds.DataPipeline(lambda: numbers(rows), wds.shuffle(size, initial=size, rng=random.Random(SEED))))

    return read, records


def _webdataset_jsonl(size: int) -> Any:
    wds = importlib.import_module("webdataset")
    files = sorted(glob.glob("part-*.jsonl"))
    random.Random(SEED).shuffle(files)

    def rows() -> Iterator[Any]:
        return itertools.chain.from_iterable(map(lines, files))

    return wds.DataPipeline(
        rows,
        wds.map(changed),
        wds.shuffle(size, initial=size, rng=random.Random(SEED)),
        wds.batched(BATCH, collation_fn=_columns),
    )


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def webdataset_jsonl(records: int, size: int) -> Prepared:
    importlib.import_module("webdataset")  # not part of what is measured
    return lambda: exhausted(_webdataset_jsonl(size)), records


def webdataset_mixing(records: int, size: int) -> Prepared:
    return lambda: spread(batch["file"] for batch in _webdataset_jsonl(size)), records


# ---- torchdata's nodes: they have no shuffle and no reader, so this is what they do without


def _nodes_jsonl() -> Any:
    nodes = importlib.import_module("torchdata.nodes")
    files = sorted(glob.glob("part-*.jsonl"))
    rows = list(files)
    source = nodes.IterableWrapper(_Lines(rows))
    return nodes.Loader(nodes.Mapper(nodes.Batcher(nodes.Mapper(source, changed), BATCH), _columns))


class _Lines:
    def __init__(self, files: list[str]) -> None:
        self._files = files

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(map(lines, self._files))


def nodes_jsonl(records: int, size: int) -> Prepared:
    loader = _nodes_jsonl()
    return lambda: exhausted(loader), records


def nodes_mixing(records: int, size: int) -> Prepared:
    loader = _nodes_jsonl()
    return lambda: spread(batch["file"] for batch in loader), records


if __name__ == "__main__":
    contest({name: case for name, case in globals().items() if "_" in name and callable(case) and name[0] != "_"})
