"""What trying to break pipelines has found: each was wrong once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from tests.pipeline._functions import fails_in_two_words, returns_a_function
from tombola.errors import InputError, MapError, StateError
from tombola.pipeline import Pipeline, Step, merge_states

Make = Callable[[], Pipeline]


def _cut(make: Make, cut: int, *, resumed: Make | None = None) -> list[Any]:
    pipeline = make()
    reading = iter(pipeline)
    head = list(islice(reading, cut))
    state = json.loads(json.dumps(pipeline.state_dict()))
    again = (resumed or make)()
    again.load_state_dict(state)
    return head + list(again)


# ---- order


def _uneven(number: int) -> int:
    time.sleep(0.002 * (number % 3 == 0))
    return number


def _unordered(ahead: int | None = None) -> Pipeline:
    return Pipeline.from_iterable(range(60)).map(_uneven, threads=4, ordered=False, ahead=ahead)


@pytest.mark.parametrize(
    "above",
    [
        lambda one: one.shuffle(10),
        lambda one: one.shuffle(10, keep="records"),
        lambda one: one.prefetch(5),
        lambda one: one.batch(3).unbatch(),
        lambda one: one.map(abs, threads=3),
    ],
)
def test_an_unordered_map_below_a_step_that_reads_again(above: Callable[[Pipeline], Pipeline]) -> None:
    for cut in (5, 17, 40):
        assert sorted(_cut(lambda: above(_unordered()), cut)) == list(range(60))


def test_an_unordered_map_that_several_count() -> None:
    for readers, steps in ((2, lambda one: one.take(60)), (1, lambda one: one)):
        ranks = [steps(_unordered()).with_readers(readers).split_by_node(rank, 2) for rank in range(2)]
        assert sorted(number for one in ranks for number in one) == list(range(60))


def _first_is_slow(number: int) -> int:
    time.sleep(0.3 * (number == 0))
    return number


def test_an_unordered_map_resumes_with_less_ahead() -> None:
    def make(ahead: int) -> Pipeline:
        return Pipeline.from_iterable(range(40)).map(_first_is_slow, threads=4, ordered=False, ahead=ahead)

    pipeline = make(20)
    reading = iter(pipeline)
    head = list(islice(reading, 10))
    state = pipeline.state_dict()
    [part] = state["parts"]
    at, _, given, place = part["chain"]
    # As if the last to come out had not been the last of those that were done.
    assert 0 not in head
    part["chain"] = [0, 0, sorted({*given, at}), place]
    again = make(1)
    again.load_state_dict(state)
    assert sorted(head + list(again)) == list(range(40))


@pytest.mark.parametrize("repeated", [True, False])
def test_passes_are_set_back_below_two_shuffles(repeated: bool) -> None:
    def shard(number: int, start: int) -> Iterator[int]:
        yield from range(10 * number + start, 10 * number + 7)

    def make() -> Pipeline:
        # What can be read from any place is set to several places, one after the other.
        base = Pipeline.from_generator(shard, shards=4, starts=True)
        once = Pipeline.from_iterable(range(60))
        passes = base.repeat(3) if repeated else Pipeline.interleave([once, base], stop="all_exhausted")
        return passes.shuffle(20, seed=9).shuffle(12, seed=6)

    whole = list(make())
    assert all(_cut(make, cut) == whole for cut in range(0, len(whole), 3))


def test_what_a_state_keeps_may_change_between_resumes() -> None:
    def make(keep: Any) -> Make:
        return lambda: Pipeline.from_iterable(range(40)).shuffle(10, seed=1, keep=keep)

    whole = list(make("positions")())
    for one, other in (("records", "positions"), ("positions", "records")):
        first = make(one)()
        head = list(islice(first, 7))
        second = make(other)()
        second.load_state_dict(first.state_dict())
        head += islice(second, 5)
        third = make(one)()
        third.load_state_dict(json.loads(json.dumps(second.state_dict())))
        assert head + list(third) == whole


# ---- a dataset with a state of its own


class _Stateful:
    def __init__(self, records: int) -> None:
        self.records = records
        self.place = {"next": 0}
        self._loaded: dict[str, int] | None = None

    def __iter__(self) -> Iterator[int]:
        self.place["next"], self._loaded = (self._loaded or {"next": 0})["next"], None
        while self.place["next"] < self.records:
            self.place["next"] += 1
            yield self.place["next"] - 1

    def state_dict(self) -> dict[str, int]:
        return self.place

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._loaded = state


def test_the_state_of_a_dataset_is_copied() -> None:
    pipeline = Pipeline.from_torch(_Stateful(20))
    reading = iter(pipeline)
    assert list(islice(reading, 4)) == [0, 1, 2, 3]
    state = pipeline.state_dict()
    text = json.dumps(state)
    assert list(islice(reading, 4)) == [4, 5, 6, 7]
    assert json.dumps(state) == text
    again = Pipeline.from_torch(_Stateful(20))
    again.load_state_dict(state)
    assert next(iter(again)) == 4
    assert json.dumps(state) == text


def test_a_state_right_after_a_resume_from_a_dataset() -> None:
    def make() -> Pipeline:
        return Pipeline.from_torch(_Stateful(20)).batch(2).unbatch()

    assert all(_cut(make, cut) == list(range(20)) for cut in range(20))


@pytest.mark.parametrize("steps", [lambda one: one, lambda one: one.skip(2), lambda one: one.shuffle(4).prefetch(3)])
def test_readers_do_not_share_the_place_of_a_dataset(steps: Callable[[Pipeline], Pipeline]) -> None:
    def make() -> Pipeline:
        return steps(Pipeline.from_torch(_Stateful(20))).with_readers(3)

    whole = list(make())
    assert len(set(whole)) == len(whole) >= 18
    assert all(_cut(make, cut) == whole for cut in range(0, len(whole), 2))


def test_a_dataset_that_cannot_be_copied_for_readers() -> None:
    dataset: Any = _Stateful(20)
    dataset.lock = threading.Lock()
    assert list(Pipeline.from_torch(dataset)) == list(range(20))
    with pytest.raises(InputError, match=r"there are 2 readers, each of which needs a copy .*use with_readers\(1\)"):
        list(Pipeline.from_torch(dataset).with_readers(2))


# ---- errors


def _ends(number: int) -> int:
    if number == 3:
        raise StopIteration
    return number


def test_a_function_that_raises_stop_iteration_ends_nothing_silently() -> None:
    with pytest.raises(MapError, match=r"map\(_ends\) failed at record 3 of this run, 3: StopIteration"):
        list(Pipeline.from_iterable(range(10)).map(_ends))


class _Fails(Step):
    def iterate(self) -> Iterator[Any]:
        for record in self.source:
            if record == 3:
                raise KeyError("three")
            yield record


def test_an_error_of_a_step_of_ones_own_names_it() -> None:
    with pytest.raises(MapError, match=r"_Fails\(\) failed after 3 records .*KeyError: 'three'") as caught:
        list(Pipeline.from_iterable(range(10)).step(_Fails()).batch(2))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_batch_of_different_records_names_the_record() -> None:
    mixed = Pipeline.from_iterable([{"a": 1}] * 5 + [{"b": 1}])
    with pytest.raises(InputError, match=r"batch\(4\), record 5 of this run: records of one batch differ"):
        list(mixed.batch(4))
    with pytest.raises(InputError, match="record 5 of this run: records of one batch differ"):
        list(mixed.map(dict, batched=True, batch_size=4))


def test_what_cannot_be_sent_from_a_process_says_so() -> None:
    records = Pipeline.from_iterable(range(10))
    with pytest.raises(MapError, match=r"failed at record 3 of this run, 3: RuntimeError: TwoWords: no luck"):
        list(records.map(fails_in_two_words, processes=1))
    with pytest.raises(
        MapError, match="one of the records 0 to 9 of this run, or what became of it, could not be sent"
    ):
        list(records.map(returns_a_function, processes=1))


def test_weights_that_are_none() -> None:
    with pytest.raises(InputError, match="weights are 5"):
        Pipeline.interleave([Pipeline.from_iterable(range(3))], 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"parts": [{}]},
        {"parts": 5},
        {"epoch": "x"},
        {"done": 7},
        {"parts": [{"reader": 0, "own": [1, 0], "upto": 1, "beyond": [], "pulled": 1, "ended": False, "chain": None}]},
        {"parts": [{"reader": 0, "own": [1, 0], "upto": 1, "beyond": [], "pulled": 1, "ended": False, "chain": {}}]},
    ],
)
def test_a_damaged_state(change: dict[str, Any]) -> None:
    pipeline = Pipeline.from_iterable(range(10)).shuffle(3)
    next(iter(pipeline))
    state = {**pipeline.state_dict(), **change}
    with pytest.raises(StateError, match="damaged"):
        _load_and_read(pipeline, state)


def _load_and_read(pipeline: Pipeline, state: dict[str, Any]) -> None:
    pipeline.load_state_dict(state)
    list(pipeline)


def test_states_with_arrays_that_were_kept_merge_again() -> None:
    def make(rank: int) -> Pipeline:
        rows = Pipeline.from_iterable(np.arange(40).reshape(20, 2)).shuffle(4, keep="records")
        return rows.with_readers(2).split_by_node(rank, 2)

    ranks = [make(rank) for rank in range(2)]
    given = [record.tolist() for one in ranks for record in islice(one, 3)]
    merged = merge_states([one.state_dict() for one in ranks])
    ranks = [make(rank) for rank in range(2)]
    for one in ranks:
        one.load_state_dict(merged)
    merged = merge_states([one.state_dict() for one in ranks])
    for one in ranks:
        one.load_state_dict(merged)
        given += [record.tolist() for record in one]
    assert Counter(map(tuple, given)) == Counter((2 * at, 2 * at + 1) for at in range(20))


# ---- Ctrl-C


_CHAINS = {
    "prefetch": "Pipeline.from_generator(stuck).shuffle(4).prefetch(4)",
    "prefetched threads": "Pipeline.from_iterable(range(99)).map(slow, threads=2).prefetch(3)",
    "processes": "Pipeline.from_iterable(range(99)).map(time.sleep, processes=2).prefetch(3)",
    "async": "Pipeline.from_iterable(range(99)).map(waits).batch(2)",
}
_PROGRAM = """
import asyncio, time
from tombola.pipeline import Pipeline
def stuck():
    yield 1
    time.sleep(50)
def slow(record):
    time.sleep(50)
async def waits(record):
    await asyncio.sleep(50)
if __name__ == "__main__":
    pipeline = {chain}
    print("begins", flush=True)
    list(pipeline)
"""


@pytest.mark.parametrize("chain", _CHAINS.values(), ids=_CHAINS.keys())
def test_an_interrupt_ends_the_program(chain: str, tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(chain=chain))
    run = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        assert run.stdout.readline() == "begins\n"
        time.sleep(1.5)
        os.kill(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=25)
    finally:
        run.kill()
    assert "KeyboardInterrupt" in said
    assert run.returncode != 0
