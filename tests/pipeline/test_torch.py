"""Pipelines through torch's loaders and over ranks of torch.distributed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.pipeline._functions import double, odd
from tombola.errors import InputError, StateError
from tombola.pipeline import Pipeline, merge_states
from tombola.torch import PipelineDataset, pipeline_states

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
RECORDS = 61


def numbers() -> Pipeline:
    return Pipeline.from_generator(_shard, shards=range(4)).shuffle(7, seed=3).filter(odd).map(double).with_readers(2)


def _shard(shard: int) -> Iterator[int]:
    yield from range(shard, RECORDS, 4)


def _loader(workers: int, **options: Any) -> StatefulDataLoader:
    return StatefulDataLoader(PipelineDataset(numbers()), batch_size=None, num_workers=workers, **options)


def _epochs(count: int) -> list[list[int]]:
    pipeline = numbers()
    return [list(pipeline) for _ in range(count)]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_through_a_loader(workers: int, persistent: bool) -> None:
    loader = DataLoader(
        PipelineDataset(numbers()), batch_size=None, num_workers=workers, persistent_workers=persistent and workers > 0
    )
    assert [list(loader) for _ in range(3)] == _epochs(3)


@pytest.mark.parametrize("workers", [3, 5])
def test_more_workers_than_readers_and_shards(workers: int) -> None:
    loader = DataLoader(PipelineDataset(numbers()), batch_size=None, num_workers=workers)
    assert sorted(loader) == sorted(_epochs(1)[0])


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_however_workers_are_started(context: str) -> None:
    loader = DataLoader(PipelineDataset(numbers()), batch_size=None, num_workers=2, multiprocessing_context=context)
    assert list(loader) == _epochs(1)[0]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("cut", [0, 1, 9, 29, 30, 31])
def test_a_stateful_loader_resumes(workers: int, cut: int) -> None:
    first, second = _epochs(2)
    loader = _loader(workers)
    head = list(islice(iter(loader), cut))
    state = loader.state_dict()
    resumed = _loader(workers)
    resumed.load_state_dict(state)
    # Several workers cannot know at the last record that it is the last.
    if cut < len(first) or (cut == len(first) and workers > 1):
        assert head + list(resumed) == first
    assert list(resumed) == second


def test_a_stateful_loader_resumes_twice() -> None:
    first = _epochs(1)[0]
    got: list[int] = []
    state = None
    while len(got) < len(first):
        loader = _loader(2)
        if state is not None:
            loader.load_state_dict(state)
        got += list(islice(iter(loader), min(4, len(first) - len(got))))
        state = loader.state_dict()
    assert got == first


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 3), (4, 2)])
def test_workers_may_change_at_a_resume(before: int, after: int) -> None:
    first, second = _epochs(2)
    loader = _loader(before)
    head = list(islice(iter(loader), 12))
    merged = merge_states(pipeline_states(loader.state_dict()))
    pipeline = numbers()
    pipeline.load_state_dict(merged)
    resumed = DataLoader(PipelineDataset(pipeline), batch_size=None, num_workers=after)
    assert sorted(head + list(resumed)) == sorted(first)
    assert sorted(resumed) == sorted(second)


def test_a_stale_snapshot_is_refused() -> None:
    loader = _loader(2, snapshot_every_n_steps=10)
    list(islice(iter(loader), 4))
    with pytest.raises(StateError, match="4 steps old"):
        pipeline_states(loader.state_dict())
    with pytest.raises(StateError, match="no state of a pipeline"):
        pipeline_states({"a": 1})


class Counting(IterableDataset[int]):
    """A dataset of torch without a state."""

    def __iter__(self) -> Iterator[int]:
        yield from range(20)


class Stateful(Counting):
    """And one with a state."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        while self.at < 20:
            self.at += 1
            yield self.at - 1
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


@pytest.mark.parametrize("dataset", [Counting, Stateful])
@pytest.mark.parametrize("cut", [0, 1, 7, 19])
def test_datasets_of_torch_are_sources(dataset: type[Counting], cut: int) -> None:
    whole = list(Pipeline.from_torch(dataset()).shuffle(6, seed=1))
    assert sorted(whole) == list(range(20))
    pipeline = Pipeline.from_torch(dataset()).shuffle(6, seed=1)
    head = list(islice(iter(pipeline), cut))
    again = Pipeline.from_torch(dataset()).shuffle(6, seed=1)
    again.load_state_dict(pipeline.state_dict())
    assert head + list(again) == whole


def test_bad_input() -> None:
    with pytest.raises(InputError, match="is no pipeline"):
        PipelineDataset([1, 2])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot be iterated over"):
        Pipeline.from_torch(3)


def _rank(rank: int, ranks: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    group = torch.distributed.group.WORLD
    # Of the odd ones rank 0 has more: without a word between them one would wait for ever.
    pipeline = Pipeline.from_iterable([*range(0, 20, 2), 1, 3, 5, 6, 7, 8, 9, 10]).filter(odd).in_world(group=group)
    counts = []
    for _ in range(2):
        records = list(pipeline)
        total = torch.tensor(len(records))
        torch.distributed.all_reduce(total, op=torch.distributed.ReduceOp.MAX)
        counts.append((len(records), int(total)))
    failing = Pipeline.from_iterable(range(8)).map(_fails_at_3).in_world(group=group)
    try:
        list(failing)
        error = "none"
    except Exception as problem:  # noqa: BLE001  its name is the result
        error = type(problem).__name__
    torch.save((counts, error), f"{folder}/{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def _fails_at_3(record: int) -> int:
    if record == 3:
        raise ValueError("three")
    return record


def test_ranks_of_a_group_stop_together(tmp_path: Any) -> None:
    torch.multiprocessing.spawn(_rank, (2, str(tmp_path)), nprocs=2)
    (counts, error), (counts_1, error_1) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert counts == counts_1
    assert all(count == most for count, most in counts)
    assert counts[0][0] >= 1
    assert {error, error_1} == {"MapError", "StreamError"}
