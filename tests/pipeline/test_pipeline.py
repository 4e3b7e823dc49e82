"""The façade: what each method does, and what it says to bad input."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch

from tests.pipeline._functions import double, pairs
from tombola.errors import DataError, InputError, MapError, OrderError, StateError, StreamError
from tombola.formats import Writer
from tombola.order import Lanes
from tombola.pipeline import Pipeline, Step, merge_states
from tombola.plan import World
from tombola.stores import MemoryStore
from tombola.stream import Stream


def numbers(count: int = 10) -> Pipeline:
    return Pipeline.from_iterable(range(count))


def test_steps_do_what_they_say() -> None:
    assert list(numbers().map(double)) == list(range(0, 20, 2))
    assert list(numbers().filter(lambda n: n % 3 == 0)) == [0, 3, 6, 9]
    assert list(numbers().take(3)) == [0, 1, 2]
    assert list(numbers().skip(8)) == [8, 9]
    assert list(numbers(5).batch(2)) == [[0, 1], [2, 3], [4]]
    assert list(numbers(5).batch(2, drop_last_batch=True)) == [[0, 1], [2, 3]]
    assert list(numbers(2).repeat(2)) == [0, 1, 0, 1]
    assert list(islice(iter(numbers(2).repeat()), 5)) == [0, 1, 0, 1, 0]
    assert list(numbers(0).repeat()) == []
    assert list(numbers().shard(3, 1)) == [1, 4, 7]
    assert list(numbers(3).map(pairs).flatten()) == [1, 2, 2]
    assert list(numbers().prefetch(4)) == list(range(10))
    rows = Pipeline.from_iterable([{"n": n, "t": str(n)} for n in range(3)])
    assert list(rows.batch(2)) == [{"n": [0, 1], "t": ["0", "1"]}, {"n": [2], "t": ["2"]}]
    assert list(rows.batch(2).unbatch()) == list(rows)
    more = {"batched": True, "batch_size": 2, "remove_columns": ["n", "t"]}
    assert list(rows.map(lambda batch: {"m": [n + 1 for n in batch["n"]] * 2}, **more)) == [
        {"m": 1}, {"m": 2}, {"m": 1}, {"m": 2}, {"m": 3}, {"m": 3},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{}, {"threads": 2}, {"processes": 1}, {"batched": True, "batch_size": 2}],
    ids=lambda options: str(options),
)
def test_what_a_function_returns_is_put_into_the_record(options: dict[str, Any]) -> None:
    rows = Pipeline.from_iterable([{"n": [n], "t": str(n)} for n in range(3)])
    assert list(rows.map(_lengths, **options)) == [{"n": [n], "t": str(n), "m": 1} for n in range(3)]
    assert list(rows.map(_lengths, remove_columns="n", **options)) == [{"t": str(n), "m": 1} for n in range(3)]
    assert list(rows.map(_itself, **options)) == list(rows)
    assert list(rows.map(_itself, remove_columns=["t"], **options)) == [{"n": [n]} for n in range(3)]
    with pytest.raises(MapError, match=r"map\(_itself.*remove_columns=\('x'\).* failed at record 0 .*KeyError: 'x'"):
        list(rows.map(_itself, remove_columns=["x"], **options))
    with pytest.raises(InputError, match="remove_columns is"):
        rows.map(_itself, remove_columns=[3], **options)  # type: ignore[list-item]


def _lengths(row: dict[str, Any]) -> dict[str, Any]:
    return {"m": [1] * len(row["t"])} if isinstance(row["t"], list) else {"m": len(row["n"])}


def _itself(row: Any) -> Any:
    return row


def test_a_batch_of_another_size_says_which_columns_are_in_the_way() -> None:
    rows = Pipeline.from_iterable([{"n": n} for n in range(3)])
    with pytest.raises(MapError, match="must be lists of one length, not 'n': 3, 'm': 6"):
        list(rows.map(lambda batch: {"m": batch["n"] * 2}, batched=True))


def test_pipelines_are_combined() -> None:
    letters = Pipeline.from_iterable(["a", "b", "c"])
    assert list(Pipeline.concatenate([numbers(2), letters])) == [0, 1, "a", "b", "c"]
    assert list(Pipeline.zip([numbers(2), letters])) == [(0, "a"), (1, "b")]
    assert list(Pipeline.interleave([numbers(2), letters])) == [0, "a", 1, "b"]
    assert list(Pipeline.interleave([numbers(2), letters], stop="all_exhausted")) == [0, "a", 1, "b", 0, "c", 1]
    left_out = Pipeline.interleave([numbers(2), letters], stop="all_exhausted_without_replacement")
    assert list(left_out) == [0, "a", 1, "b", "c"]
    drawn = list(islice(iter(Pipeline.mix([numbers(4000), letters.repeat()], [3, 1], seed=1)), 2000))
    assert 0.70 < sum(isinstance(one, int) for one in drawn) / 2000 < 0.80
    assert list(Pipeline.mix([numbers(3), letters], [1, 0], stop="all_exhausted_without_replacement"))[:3] == [0, 1, 2]


def test_pack_marks_what_meets_in_a_sequence() -> None:
    documents = [{"ids": [1, 2, 3]}, {"ids": []}, {"ids": [4]}, {"ids": [5, 6]}]
    packed = list(Pipeline.from_iterable(documents).pack(4, column="ids"))
    assert [one["ids"].tolist() for one in packed] == [[1, 2, 3, 4], [5, 6]]
    assert [one["segments"].tolist() for one in packed] == [[0, 0, 0, 1], [0, 0]]
    short = list(Pipeline.from_iterable(documents).pack(4, column="ids", drop_last=True))
    assert [one["ids"].tolist() for one in short] == [[1, 2, 3, 4]]


def test_formats() -> None:
    rows = Pipeline.from_iterable([{"n": n, "t": str(n), "v": [n, n + 0.5], "r": [[1], [1, 2]]} for n in range(4)])
    first = next(iter(rows.with_format("numpy")))
    assert first["n"] == 0
    assert first["v"].dtype == np.float64
    assert (first["t"], first["r"]) == ("0", [[1], [1, 2]])
    tensors = next(iter(rows.batch(3).with_format("torch")))
    assert tensors["v"].shape == (3, 2)
    assert isinstance(tensors["n"], torch.Tensor)
    assert tensors["t"] == ["0", "1", "2"]
    arrow = next(iter(rows.batch(3).with_format("arrow")))
    assert isinstance(arrow, pyarrow.RecordBatch)
    assert arrow.to_pydict()["n"] == [0, 1, 2]
    assert next(iter(rows.with_format("arrow"))).to_pydict()["v"] == [[0.0, 0.5]]
    with pytest.raises(MapError, match=r"with_format.'arrow'. failed at record 0 .* arrow needs dicts"):
        list(numbers().with_format("arrow"))


def test_nothing_is_read_before_iteration() -> None:
    def never() -> Iterator[int]:
        raise AssertionError

    pipeline = Pipeline.from_generator(never).shuffle(3).map(double).batch(2).prefetch(2).split_by_node(0, 1)
    assert "shuffle(buffer_size=3, seed=0, input_shards=1)" in repr(pipeline)
    assert pipeline.state_dict()["parts"] is None


def test_a_method_leaves_the_pipeline_as_it_was() -> None:
    base = numbers(6)
    other = base.shuffle(6, seed=1)
    assert list(base) == list(range(6))
    assert sorted(other) == list(base)


def test_epochs() -> None:
    pipeline = numbers(30).shuffle(30, seed=2)
    epochs = [list(pipeline) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    pipeline.set_epoch(1)
    assert pipeline.epoch == 1
    assert list(pipeline) == epochs[1]
    assert list(pipeline) == epochs[2]
    iter(pipeline)  # an iteration of which nothing is asked is none
    pipeline.set_epoch(0)
    assert list(pipeline) == epochs[0]
    with pytest.raises(InputError, match="epoch is -1"):
        pipeline.set_epoch(-1)


def test_a_state_survives_its_iteration() -> None:
    pipeline = numbers(30).shuffle(8, seed=2).prefetch(3).map(double, threads=2)
    whole = list(pipeline)
    pipeline.set_epoch(0)
    for place, _ in enumerate(pipeline):
        if place == 11:
            break
    state = pipeline.state_dict()
    again = numbers(30).shuffle(8, seed=2).prefetch(3).map(double, threads=2)
    again.load_state_dict(state)
    assert list(again) == whole[12:]
    # The epoch of a state keeps its place when it is chosen; another one begins anew.
    again.load_state_dict(state)
    again.set_epoch(0)
    assert list(again) == whole[12:]
    again.load_state_dict(state)
    again.set_epoch(1)
    assert len(list(again)) == 30


def test_what_a_state_keeps_may_change() -> None:
    whole = list(numbers(40).shuffle(9, seed=2))
    before = numbers(40).shuffle(9, seed=2, keep="positions")
    assert list(islice(iter(before), 17)) == whole[:17]
    middle = numbers(40).shuffle(9, seed=2, keep="records")
    middle.load_state_dict(before.state_dict())
    assert list(islice(iter(middle), 8)) == whole[17:25]
    after = numbers(40).shuffle(9, seed=2)
    after.load_state_dict(middle.state_dict())
    assert list(after) == whole[25:]


@pytest.mark.parametrize("change", [lambda one: one, lambda one: one.shuffle(500, seed=1), lambda one: one.repeat(3)])
def test_a_resume_reads_about_the_buffer_again(change: Callable[[Pipeline], Pipeline]) -> None:
    """However far the run had come."""

    class Counted(list):  # type: ignore[type-arg]
        reads = 0

        def __getitem__(self, at: Any) -> Any:
            Counted.reads += 1
            return super().__getitem__(at)

    records = Counted(range(100_000))
    for cut in (2_000, 50_000, 90_000):
        pipeline = change(Pipeline.from_iterable(records).shuffle(1_000, seed=4))
        list(islice(iter(pipeline), cut))
        state = pipeline.state_dict()
        again = change(Pipeline.from_iterable(records).shuffle(1_000, seed=4))
        again.load_state_dict(state)
        Counted.reads = 0
        next(iter(again))
        assert Counted.reads < 40_000


def test_the_size_of_a_state_is_that_of_the_buffer() -> None:
    sizes = {}
    for buffer in (100, 1_000, 10_000):
        pipeline = numbers(200_000).shuffle(buffer, seed=4)
        list(islice(iter(pipeline), 100_000))
        sizes[buffer] = len(pickle.dumps(pipeline.state_dict()))
    assert sizes[10_000] < 14 * sizes[1_000]
    assert sizes[10_000] < 400_000


# ---- several readers


def test_more_readers_than_shards_and_fewer() -> None:
    for shards in (1, 2, 5):
        base = Pipeline.from_generator(_shard, shards=shards)
        for ranks in (1, 2, 3, 7):
            found = [list(base.shuffle(3, seed=1).split_by_node(rank, ranks)) for rank in range(ranks)]
            assert sorted(chain.from_iterable(found)) == sorted(base)


def _shard(shard: int) -> Iterator[int]:
    yield from range(shard * 10, shard * 10 + 7)


def test_a_world_is_found_or_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(numbers().in_world(World(rank=1, ranks=2))) == [1, 3, 5, 7, 9]
    # Replicas read the same.
    assert list(numbers().in_world(World(rank=3, ranks=4, replication=2))) == [1, 3, 5, 7, 9]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(numbers()) == [1, 3, 5, 7, 9]
    assert list(numbers().split_by_node(0, 1)) == list(range(10))


def test_even() -> None:
    assert [len(list(numbers(11).split_by_node(rank, 3, even=True))) for rank in range(3)] == [3, 3, 3]
    assert [len(list(numbers(11).filter(bool).split_by_node(rank, 3, even=2))) for rank in range(3)] == [2, 2, 2]
    with pytest.raises(StreamError, match="1 of the records that all ranks agreed on are not there"):
        list(numbers(11).filter(bool).split_by_node(0, 3, even=4))
    with pytest.raises(InputError, match=r"even=True, but how many records come out of filter\(bool\) is not known"):
        list(numbers(11).filter(bool).split_by_node(0, 3, even=True))
    with pytest.raises(InputError, match="even and group are two ways"):
        numbers().split_by_node(0, 3, even=True, group=object())
    with pytest.raises(InputError, match="no process group in this process"):
        list(numbers().split_by_node(0, 3, group=object()))
    with pytest.raises(InputError, match="even is -1"):
        numbers().split_by_node(0, 3, even=-1)
    with pytest.raises(InputError, match=r"split_by_node: rank \(of 3\) is 3"):
        numbers().split_by_node(3, 3)


def test_lengths() -> None:
    assert numbers(11).length() == 11
    assert numbers(11).shuffle(3).batch(2).length() == 6
    assert numbers(11).take(4).repeat(3).length() == 12
    assert numbers(11).filter(bool).length() is None
    assert numbers(11).repeat().length() is None
    assert Pipeline.concatenate([numbers(3), numbers(4)]).length() == 7
    assert Pipeline.interleave([numbers(3), numbers(4)]).length() == len(
        list(Pipeline.interleave([numbers(3), numbers(4)]))
    )
    assert Pipeline.interleave([numbers(4), numbers(3)]).length() == len(
        list(Pipeline.interleave([numbers(4), numbers(3)]))
    )
    assert Pipeline.from_generator(_shard, shards=3).length() is None
    assert Pipeline.from_generator(_shard, shards=3, lengths=[7, 7, 7]).length() == 21


# ---- other streams as sources


def _dataset() -> MemoryStore:
    store = MemoryStore()
    with Writer(store, columns={"n": "int", "t": "str"}, size_limit=200) as writer:
        for n in range(40):
            writer.write({"n": n, "t": f"text {n}"})
    return store


def test_a_stream_is_a_source() -> None:
    store = _dataset()
    stream = Stream(store, order=Lanes(lanes=4), seed=3)
    pipeline = Pipeline.from_stream(stream)
    first, second = [record["n"] for record in pipeline], [record["n"] for record in pipeline]
    assert first == stream.plan.order.slice(0, 40, 0).tolist()
    assert second == stream.plan.order.slice(0, 40, 1).tolist()
    ranks = [Stream(store, order=Lanes(lanes=4), seed=3, world=World(rank=rank, ranks=2)) for rank in range(2)]
    dealt = [[record["n"] for record in Pipeline.from_stream(rank)] for rank in ranks]
    assert dealt == [first[0::2], first[1::2]]
    resumed = Pipeline.from_stream(Stream(store, order=Lanes(lanes=4), seed=3)).shuffle(5)
    head = list(islice(iter(resumed), 13))
    again = Pipeline.from_stream(Stream(store, order=Lanes(lanes=4), seed=3)).shuffle(5)
    again.load_state_dict(resumed.state_dict())
    assert sorted(record["n"] for record in head + list(again)) == list(range(40))
    other = Pipeline.from_stream(Stream(store, order=Lanes(lanes=4), seed=4)).shuffle(5)
    other.load_state_dict(resumed.state_dict())
    with pytest.raises(StateError, match="another dataset, order or seed"):
        next(iter(other))
    with pytest.raises(InputError, match=r"is no tombola\.Stream"):
        Pipeline.from_stream([1])


# ---- one-shot iterators


def test_an_iterator_that_gives_each_record_once() -> None:
    pipeline = Pipeline.from_iterable(iter(range(10))).shuffle(3)
    reading = iter(pipeline)
    next(reading)
    with pytest.raises(StateError, match=r"gives each record once, so that no state can tell .*goes_on=True"):
        pipeline.state_dict()
    assert len([*reading]) == 9
    with pytest.raises(StateError, match="was read already"):
        list(pipeline)
    with pytest.raises(StateError, match="2 readers cannot share it"):
        list(Pipeline.from_iterable(iter(range(10))).with_readers(2))


def test_an_iterator_that_goes_on() -> None:
    whole = list(numbers(40).shuffle(6, seed=1).batch(3))
    source = iter(range(40))

    def make() -> Pipeline:
        return Pipeline.from_iterable(source, goes_on=True).shuffle(6, seed=1, keep="records").batch(3)

    got, state = [], None
    while len(got) < len(whole):
        pipeline = make()
        if state is not None:
            pipeline.load_state_dict(state)
        got += list(islice(iter(pipeline), 2))
        state = pipeline.state_dict()
    assert got == whole
    kept = Pipeline.from_iterable(iter(range(40)), goes_on=True).shuffle(6, keep="positions")
    next(iter(kept))
    with pytest.raises(StateError, match="keep='records'"):
        kept.state_dict()
    with pytest.raises(InputError, match="goes_on is for iterators"):
        Pipeline.from_iterable([1, 2], goes_on=True)


# ---- errors


def _fails_at(record: int) -> int:
    if record == 7:
        raise ValueError("no sevens")
    return record


def _none_at(record: int) -> int | None:
    return None if record == 7 else record


def _dies_at(record: int) -> int:
    if record == 7:
        os._exit(9)
    return record


async def _fails_later(record: int) -> int:
    return _fails_at(record)


@pytest.mark.parametrize(
    "options",
    [{}, {"threads": 2}, {"processes": 2}, {"threads": 2, "ordered": False}, {"batched": True, "batch_size": 1}],
)
def test_a_failed_function_names_step_and_record(options: dict[str, Any]) -> None:
    function = (lambda batch: [_fails_at(batch[0])]) if "batched" in options else _fails_at
    pipeline = numbers(20).map(function, **options)
    with pytest.raises(
        MapError, match=r"map\(.*\) failed at record 7 of this run, .*7.*: ValueError: no sevens"
    ) as caught:
        list(pipeline)
    assert caught.value.record == 7
    with pytest.raises(StateError, match="ended with an error, MapError"):
        pipeline.state_dict()


def test_a_failed_async_function() -> None:
    with pytest.raises(MapError, match="failed at record 7"):
        list(numbers(20).map(_fails_later))


@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"processes": 1}])
def test_none_is_no_record(options: dict[str, Any]) -> None:
    with pytest.raises(MapError, match=r"map\(_none_at.*\) returned None for record 7"):
        list(numbers(20).map(_none_at, **options))


def test_a_dead_worker_is_an_error_and_no_hang() -> None:
    began = time.monotonic()
    with pytest.raises(MapError, match=r"map\(_dies_at\): a worker process died at one of the records \d+ to \d+"):
        list(numbers(200).map(_dies_at, processes=2))
    assert time.monotonic() - began < 60


def test_processes() -> None:
    pipeline = numbers(100).map(double, processes=2)
    whole = list(pipeline)
    assert whole == list(range(0, 200, 2))
    head = list(islice(iter(pipeline), 33))
    again = numbers(100).map(double, processes=2)
    again.load_state_dict(pipeline.state_dict())
    assert head + list(again) == whole
    with pytest.raises(InputError, match="neither a lambda nor one made inside a function"):
        numbers().map(lambda n: n, processes=2)


def test_other_errors_of_steps() -> None:
    with pytest.raises(MapError, match=r"filter\(.*<lambda>\) failed at record 0 of this run, 0: ZeroDivisionError"):
        list(numbers().filter(lambda n: 1 / n))
    with pytest.raises(MapError, match="flatten was given 0, record 0 of this run, which is no list"):
        list(numbers().flatten())
    with pytest.raises(MapError, match=r"drop_last=False\): record 0 .* has no list of tokens"):
        list(Pipeline.from_iterable(["a"]).pack(3))
    with pytest.raises(InputError, match="records of one batch differ: one has a, another"):
        list(Pipeline.from_iterable([{"a": 1}, {"b": 1}]).batch(2))
    with pytest.raises(MapError, match="returned 3 for the batch that begins at record 0"):
        list(numbers().map(lambda batch: 3, batched=True))
    with pytest.raises(MapError, match="must be lists of one length, not 'a': 1, 'b': 2"):
        list(numbers().map(lambda batch: {"a": [1], "b": [1, 2]}, batched=True))

    def broken(shard: int) -> Iterator[int]:
        yield 1
        if shard:
            raise OSError("gone")

    with pytest.raises(DataError, match=r"from_generator\(.*\), shard 1 \(1\), record 1: OSError: gone") as caught:
        list(Pipeline.from_generator(broken, shards=[0, 1]))
    assert (caught.value.shard, caught.value.record) == (1, 1)


def test_errors_come_through_a_prefetch_after_what_was_read() -> None:
    got: list[int] = []
    with pytest.raises(MapError, match="failed at record 7"):
        got.extend(numbers(20).map(_fails_at).prefetch(4))
    assert got == list(range(7))


def test_threads_end_with_their_iteration() -> None:
    before = threading.active_count()
    for _ in range(20):
        reading = iter(numbers(100).map(double, threads=3).prefetch(8))
        next(reading)
        del reading
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before


def _state(pipeline: Pipeline, count: int = 2) -> dict[str, Any]:
    list(islice(iter(pipeline), count))
    return pipeline.state_dict()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (numbers().shuffle(5).batch(2), r"step 2 is shuffle\(buffer_size=5.*here and shuffle\(buffer_size=4"),
        (numbers().shuffle(4, seed=1).batch(2), "step 2 is shuffle"),
        (numbers().shuffle(4).batch(2).map(str), "this pipeline has one more step, map"),
        (numbers().shuffle(4), r"the state has one more step, Batch\(batch_size=2"),
        (numbers(11).shuffle(4).batch(2), "step 1 is from_iterable"),
        (Pipeline.concatenate([numbers(), numbers()]).shuffle(4).batch(2), "step 1 is"),
    ],
)
def test_a_state_of_another_pipeline(other: Pipeline, said: str) -> None:
    with pytest.raises(StateError, match=said):
        other.load_state_dict(_state(numbers().shuffle(4).batch(2)))


def test_states_that_make_no_sense() -> None:
    state = _state(numbers())
    for bad in (None, 3, {}, {"format": "tombola.pipeline"}, {**state, "schema": 99}):
        with pytest.raises(StateError):
            numbers().load_state_dict(bad)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="damaged: epoch missing"):
        numbers().load_state_dict({key: value for key, value in state.items() if key != "epoch"})
    with pytest.raises(StateError, match="2 logical readers, and this pipeline is fixed to 3"):
        numbers().with_readers(3).load_state_dict(_state(numbers().with_readers(2)))


def test_states_of_a_part_of_the_ranks() -> None:
    ranks = [numbers(20).split_by_node(rank, 2) for rank in range(2)]
    states = [_state(rank) for rank in ranks]
    alone = numbers(20).split_by_node(0, 1)
    alone.load_state_dict(states[0])
    with pytest.raises(StateError, match="no word of reader 1 of 2"):
        next(iter(alone))
    with pytest.raises(StateError, match="only 0 of 1 shares"):
        merge_states(states[:1])
    with pytest.raises(StateError, match="in two of the states"):
        merge_states([states[0], *states])
    with pytest.raises(StateError, match="no states"):
        merge_states([])
    with pytest.raises(StateError, match="epoch is 0 in one and 1"):
        merge_states([states[0], {**states[1], "epoch": 1}])
    with pytest.raises(StateError, match="have begun to read, others have not"):
        merge_states([states[0], numbers(20).split_by_node(1, 2).with_readers(2).state_dict()])
    fewer = [numbers(20).with_readers(2).split_by_node(rank, 4) for rank in range(4)]
    quarter = [_state(rank, 1) for rank in fewer]
    whole = numbers(20)
    whole.load_state_dict(quarter[0])
    with pytest.raises(StateError, match="one rank or worker of several"):
        next(iter(whole))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Pipeline.from_iterable(3), "int cannot be iterated over"),
        (lambda: Pipeline.from_iterable(numbers()), "is a pipeline already"),
        (
            lambda: Pipeline.from_iterable(Stream(_dataset())),
            "Stream, which shares its records out itself: use from_stream",
        ),
        (lambda: Pipeline.from_iterable("abc"), "was given str"),
        (lambda: Pipeline.from_generator(iter([1])), "give the function that makes the generator"),
        (lambda: Pipeline.from_generator(iter, shards=[]), "shards is empty"),
        (lambda: Pipeline.from_generator(iter, shards=0), "shards is 0"),
        (lambda: Pipeline.from_generator(iter, shards=2.5), "shards is 2.5"),
        (lambda: Pipeline.from_generator(iter, shards=2, lengths=[1]), "1 lengths for 2 shards"),
        (lambda: Pipeline.from_huggingface([1]), "is no IterableDataset of Hugging Face"),
        (lambda: Pipeline(3), "neither a source nor a step"),
        (lambda: numbers().step(3), "is no step"),
        (lambda: numbers().map(3), "map was given 3"),
        (lambda: numbers().filter(None), "filter was given None"),
        (lambda: numbers().map(double, threads=-1), "threads is -1"),
        (lambda: numbers().map(double, threads=1, processes=1), "choose one of them"),
        (lambda: numbers().map(_fails_later, threads=1), "runs in an event loop"),
        (lambda: numbers().map(double, batched=True, batch_size=0), "batch_size is 0"),
        (lambda: numbers().take(-1), "take is -1"),
        (lambda: numbers().skip(1.5), "skip is 1.5"),
        (lambda: numbers().batch(0), "batch_size is 0"),
        (lambda: numbers().repeat(-1), "repeat is -1"),
        (lambda: numbers().shard(2, 2), r"the shard \(of 2\) is 2"),
        (lambda: numbers().pack(0), "tokens is 0"),
        (lambda: numbers().prefetch(0), "prefetch is 0"),
        (lambda: numbers().with_format("jax"), "the format is 'jax'"),
        (lambda: numbers().with_readers(0), "readers is 0"),
        (lambda: Pipeline.concatenate([]), "number of pipelines is 0"),
        (lambda: Pipeline.concatenate([numbers(), 3]), "is no list of pipelines"),
        (lambda: Pipeline.zip(numbers()), "is no list of pipelines"),
        (lambda: Pipeline.mix([numbers()], [1, 2]), "2 weights for 1 pipelines"),
        (lambda: Pipeline.mix([numbers()], [-1]), r"weights are \(-1.0,\)"),
        (lambda: Pipeline.mix([numbers()], ["a"]), "give a number for each"),
        (lambda: Pipeline.interleave([numbers()], stop="never"), "stop is 'never'"),
        (lambda: Pipeline.zip([numbers().with_readers(2), numbers()]), "dealt out in different ways"),
    ],
)
def test_bad_input(make: Callable[[], Any], said: str) -> None:
    with pytest.raises((InputError, OrderError), match=said):
        make()


def test_a_step_without_iterate_says_so() -> None:
    class Nothing(Step):
        pass

    with pytest.raises(NotImplementedError, match="Nothing has no iterate"):
        list(numbers().step(Nothing()))


def test_states_that_hold_arrays_are_merged() -> None:
    def make(rank: int, ranks: int) -> Pipeline:
        rows = Pipeline.from_iterable([np.arange(3) + n for n in range(20)])
        return rows.shuffle(5, keep="records").split_by_node(rank, ranks)

    states = [_state(make(rank, 2)) for rank in range(2)]
    loaded = [make(rank, 2) for rank in range(2)]
    for one in loaded:
        one.load_state_dict(merge_states(states))
    again = make(0, 1)
    again.load_state_dict(merge_states(one.state_dict() for one in loaded))  # nothing was read in between
    assert len(list(again)) == 16
