"""Mapping: order kept whatever the threads, errors that name the record, a state that knows what was handed out."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from tests.stream.datasets import of_sizes
from tombola import Batch, Stream
from tombola.errors import InputError, MapError, MissingError
from tombola.stores import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return of_sizes([30, 25, 40], ("label", "text"))


def slowly(record: dict[str, Any]) -> int:
    time.sleep((record["label"] * 7 % 5) / 10_000)
    return -record["label"]


@pytest.mark.parametrize("threads", [0, 1, 4, None])
def test_per_record_in_order(store: MemoryStore, threads: int | None) -> None:
    mapped = Stream(store, batch_size=8, seed=1, tail="pad").map(slowly, threads=threads)
    plain = Stream(store, batch_size=8, seed=1, tail="pad")
    for _ in range(2):
        for found, batch in zip(mapped, plain, strict=True):
            assert found.values == (-batch["label"]).tolist() == list(found)
            assert found.records.tolist() == batch.records.tolist()
            assert found.mask.tolist() == batch.mask.tolist()
            assert (found.cursor, found.step, found.epoch) == (batch.cursor, batch.step, batch.epoch)
    assert sorted(Stream(store, batch_size=8, tail="pad").map(slowly, threads=threads).records()) == list(range(-94, 1))


@pytest.mark.parametrize("threads", [0, 3])
def test_per_batch_in_order(store: MemoryStore, threads: int) -> None:
    def total(batch: Batch) -> int:
        time.sleep((batch.step * 3 % 4) / 5000)
        return int(batch["label"].sum())

    sums = [int(batch["label"].sum()) for batch in Stream(store, batch_size=8)]
    assert list(Stream(store, batch_size=8).map(total, per="batch", threads=threads)) == sums


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize("taken", [0, 1, 5, 11])
def test_the_state_is_of_what_was_handed_out(store: MemoryStore, threads: int, taken: int) -> None:
    plain = [batch.records.tolist() for batch in Stream(store, batch_size=8)]
    mapped = Stream(store, batch_size=8).map(slowly, threads=threads)
    iterator = iter(mapped)
    for _ in range(taken):
        next(iterator)
    resumed = Stream(store, batch_size=8).map(slowly, threads=threads)
    resumed.load_state_dict(mapped.state_dict())
    expected = plain[taken:] if taken < len(plain) else [b.records.tolist() for b in _second(store)]
    assert [batch.records.tolist() for batch in resumed] == expected


def _second(store: MemoryStore) -> Stream:
    stream = Stream(store, batch_size=8)
    stream.set_epoch(1)
    return stream


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_an_error_comes_in_its_turn_and_names_the_record(store: MemoryStore, threads: int) -> None:
    plain = [batch.records.tolist() for batch in Stream(store, batch_size=8)]
    bad = plain[4][3]

    def fails(record: dict[str, Any]) -> int:
        if record["label"] == bad:
            raise ZeroDivisionError("by this record")
        return record["label"]

    mapped = Stream(store, batch_size=8).map(fails, threads=threads)
    found = []
    with pytest.raises(MapError, match=f"fails failed at record {bad}: ZeroDivisionError: by this record") as raised:
        found.extend(batch.records.tolist() for batch in mapped)
    assert raised.value.record == bad
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert found == plain[:4]
    # The state stands before the batch that failed.
    resumed = Stream(store, batch_size=8, cursor=mapped.cursor)
    assert [batch.records.tolist() for batch in resumed] == plain[4:]


def test_an_error_of_the_stream_comes_through(store: MemoryStore) -> None:
    store.delete("shard.00001.mds")
    with pytest.raises(MissingError):
        list(Stream(store, batch_size=8).map(slowly))


def test_threads_run_side_by_side(store: MemoryStore) -> None:
    """Both threads must be inside the function at once for either to get out of it."""
    barrier = threading.Barrier(2, timeout=30)

    def meet(record: dict[str, Any]) -> int:
        barrier.wait()
        return record["label"]

    mapped = Stream(store, batch_size=8).map(meet, threads=2)
    assert len([batch for batch, _ in zip(mapped, range(3), strict=False)]) == 3


def test_a_name_of_arguments() -> None:
    stream = Stream(of_sizes([3], ("label",)), batch_size=1)
    with pytest.raises(InputError, match="cannot be called"):
        stream.map(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'record' or 'batch'"):
        stream.map(len, per="row")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="per='record'"):
        next(stream.map(len, per="batch").records())


def test_values_are_of_any_kind(store: MemoryStore) -> None:
    batch = next(iter(Stream(store, batch_size=4).map(lambda record: np.full(2, record["label"]))))
    assert np.stack(batch.values).tolist() == [[number, number] for number in batch.records.tolist()]
