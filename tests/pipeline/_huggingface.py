"""Run by test_peer in the environment of Hugging Face's datasets: its streams as sources of a pipeline."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tombola.errors import InputError
from tombola.pipeline import Pipeline, merge_states

_SHARDS = 5


def _records(shards: list[int]) -> Iterator[dict[str, Any]]:
    for shard in shards:
        for number in range(50 + shard):
            yield {"n": 1000 * shard + number, "text": f"shard {shard}"}


def _dataset(datasets: Any) -> Any:
    return datasets.IterableDataset.from_generator(_records, gen_kwargs={"shards": list(range(_SHARDS))})


def _number(record: dict[str, Any]) -> int:
    return int(record["n"])


def _chain(dataset: Any) -> Pipeline:
    return Pipeline.from_huggingface(dataset).shuffle(30, seed=3, input_shards=2).map(_number).with_readers(2).batch(4)


def _refused(make: Callable[[], Any]) -> str:
    try:
        list(Pipeline.from_huggingface(make()))
    except InputError as error:
        return str(error)
    return "nothing was refused"


def _resumed(datasets: Any, cut: int) -> list[Any]:
    pipeline = _chain(_dataset(datasets))
    head = list(islice(pipeline, cut))
    state = json.loads(json.dumps(pipeline.state_dict()))
    again = _chain(_dataset(datasets))
    again.load_state_dict(state)
    return head + list(again)


def _on_ranks(datasets: Any, ranks: int, later: int) -> list[Any]:
    given, states = [], []
    for rank in range(ranks):
        one = _chain(_dataset(datasets)).split_by_node(rank, ranks)
        given += list(islice(one, 7))
        states.append(one.state_dict())
    for rank in range(later):
        one = _chain(_dataset(datasets)).split_by_node(rank, later)
        one.load_state_dict(merge_states(states))
        given += list(one)
    return given


def main() -> None:
    """Prints what comes out as JSON."""
    datasets = importlib.import_module("datasets")
    distributed = importlib.import_module("datasets.distributed")
    whole = list(_chain(_dataset(datasets)))
    listed = datasets.Dataset.from_list([{"n": number} for number in range(10)])
    found = {
        "direct": [record["n"] for record in _dataset(datasets)],
        "plain": [record["n"] for record in Pipeline.from_huggingface(_dataset(datasets))],
        "whole": whole,
        "resumed": all(_resumed(datasets, cut) == whole for cut in range(1, len(whole), 9)),
        "ranks": [_on_ranks(datasets, ranks, later) for ranks, later in ((2, 2), (2, 3), (2, 1))],
        "listed": len(list(Pipeline.from_huggingface(listed.to_iterable_dataset(num_shards=3)))),
        "distributed": _refused(lambda: distributed.split_dataset_by_node(_dataset(datasets), 0, 2)),
        "map-style": _refused(lambda: listed),
        "arrow": _refused(lambda: _dataset(datasets).with_format("arrow")),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
