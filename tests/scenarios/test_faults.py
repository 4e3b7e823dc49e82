"""What happens to a stream when its data goes wrong: the right records or a prompt, named error, and never a hang."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stream.datasets import of_sizes, on_disk, one_by_one
from tombola import Global, Lanes, Stream
from tombola.errors import DataError, HashError, MissingError, ShardError, StoreError, StreamError
from tombola.plan import World
from tombola.stores import FaultyStore, MemoryStore, Store
from tombola.stream import Reading

SIZES = [40, 35, 50, 20, 45]
BAD = 2
RECORDS = sum(SIZES)
BAD_RECORDS = set(range(75, 125))


def missing(files: dict[str, bytes]) -> None:
    del files[f"shard.{BAD:05d}.mds"]


def cut_short(files: dict[str, bytes]) -> None:
    name = f"shard.{BAD:05d}.mds"
    files[name] = files[name][:-7]


def other_shard(files: dict[str, bytes]) -> None:
    files[f"shard.{BAD:05d}.mds"] = files["shard.00001.mds"]


def empty(files: dict[str, bytes]) -> None:
    files[f"shard.{BAD:05d}.mds"] = b""


def lying_header(files: dict[str, bytes]) -> None:
    name = f"shard.{BAD:05d}.mds"
    files[name] = struct.pack("<I", 1 << 30) + files[name][4:]


WHOLE_SHARD = {missing: MissingError, cut_short: ShardError, other_shard: ShardError, empty: ShardError}
WHOLE_SHARD |= {lying_header: ShardError}


def offset_outside(files: dict[str, bytes]) -> None:
    """Record 9 of the shard is said to end behind the shard's end, so record 10 begins there."""
    name = f"shard.{BAD:05d}.mds"
    data = bytearray(files[name])
    struct.pack_into("<I", data, 4 + 4 * 10, 0x7FFFFFF0)
    files[name] = bytes(data)


def length_too_large(files: dict[str, bytes]) -> None:
    """The text of record 9 is said to be longer than the record."""
    name = f"shard.{BAD:05d}.mds"
    data = bytearray(files[name])
    (begin,) = struct.unpack_from("<I", data, 4 + 4 * 9)
    struct.pack_into("<I", data, begin, 99_999)
    files[name] = bytes(data)


ONE_RECORD = {offset_outside: {84, 85}, length_too_large: {84}}


def spoiled(harm: Callable[[dict[str, bytes]], None]) -> MemoryStore:
    whole = of_sizes(SIZES, ("label", "text"))
    files = {key: bytes(whole.read(key)) for key in whole.list()}
    harm(files)
    return MemoryStore(files)


def stream_of(store: Store, **options: Any) -> Stream:
    return Stream(store, **{"order": Lanes(lanes=3), "batch_size": 8, "seed": 4, "tail": "short"} | options)


def whole_epoch(**options: Any) -> list[list[int]]:
    with stream_of(of_sizes(SIZES, ("label", "text")), **options) as stream:
        return [batch.records.tolist() for batch in stream]


@pytest.mark.parametrize("ahead", [0, 1 << 20])
@pytest.mark.parametrize("harm", [*WHOLE_SHARD, *ONE_RECORD], ids=lambda harm: harm.__name__)
def test_raise_comes_with_the_batch_and_says_where(harm: Any, ahead: int) -> None:
    bad = ONE_RECORD.get(harm, BAD_RECORDS)
    expected = whole_epoch()
    stream = stream_of(spoiled(harm), reading=Reading(ahead_bytes_max=ahead))
    found: list[list[int]] = []
    with pytest.raises(WHOLE_SHARD.get(harm, ShardError)) as raised:
        found.extend(batch["label"].tolist() for batch in stream)
    error = raised.value
    assert isinstance(error, DataError)
    assert f"shard.{BAD:05d}.mds" in str(error)
    assert error.uri is not None
    assert f"shard.{BAD:05d}.mds" in error.uri
    assert error.shard == BAD
    assert error.record is not None
    # Every batch before it came, the batch that holds the record did not.
    assert found == expected[: len(found)]
    failed = expected[len(found)]
    assert sum(SIZES[:BAD]) + error.record == next(record for record in failed if record in bad)
    # The state stands before it: with the data mended the epoch goes on.
    mended = stream_of(of_sizes(SIZES, ("label", "text")), cursor=stream.cursor)
    assert [batch.records.tolist() for batch in mended] == expected[len(found) :]
    # And the same stream tries again.
    with pytest.raises(DataError):
        next(iter(stream))


@pytest.mark.parametrize("harm", [*WHOLE_SHARD, *ONE_RECORD], ids=lambda harm: harm.__name__)
def test_skip_substitutes_the_same_in_any_world(harm: Any, caplog: pytest.LogCaptureFixture) -> None:
    bad = ONE_RECORD.get(harm, BAD_RECORDS)
    truth = one_by_one(of_sizes(SIZES, ("label", "text")))
    expected = [record for records in whole_epoch() for record in records]
    alike = []
    for ranks, size, ahead in ((1, 8, 1 << 20), (1, 24, 0), (3, 24, 1 << 20)):
        given: dict[int, int] = {}
        skipped = 0
        for rank in range(ranks):
            stream = stream_of(
                spoiled(harm),
                batch_size=size,
                on_error="skip",
                world=World(rank=rank, ranks=ranks),
                reading=Reading(ahead_bytes_max=ahead),
            )
            with caplog.at_level(logging.WARNING, "tombola.stream"):
                for batch in stream:
                    assert list(batch) == [truth[record] for record in batch.records.tolist()]
                    given |= dict(zip(batch.positions.tolist(), batch.records.tolist(), strict=True))
            stats = stream.stats()
            skipped += stats.skipped
            for one in stats.substitutions:
                assert given[one.position] == one.substitute
                assert expected[one.position] == one.record
                assert one.reason
        assert skipped == len(bad)
        alike.append([given[position] for position in range(RECORDS)])
        changed = {position for position in range(RECORDS) if given[position] != expected[position]}
        assert {expected[position] for position in changed} == bad
        assert not bad & set(given.values())
        # From the same round of lanes: 64 positions, or the last 64.
        for position in changed:
            substitute_at = expected.index(given[position])
            assert abs(substitute_at - position) < 64 + 64
    assert alike[0] == alike[1] == alike[2]
    assert len([entry for entry in caplog.records if "comes in its place" in entry.message]) == 3 * len(bad)


def test_skip_with_nothing_left_to_take() -> None:
    whole = of_sizes([5], ("label",))
    store = MemoryStore({"index.json": bytes(whole.read("index.json"))})
    with pytest.raises(MissingError):
        list(Stream(store, batch_size=2, on_error="skip"))


@pytest.mark.parametrize("harm", [missing, offset_outside], ids=lambda harm: harm.__name__)
def test_stop_ends_the_epoch_and_says_why(harm: Any, caplog: pytest.LogCaptureFixture) -> None:
    expected = whole_epoch()
    stream = stream_of(spoiled(harm), on_error="stop")
    found = [batch.records.tolist() for batch in stream]
    bad = ONE_RECORD.get(harm, BAD_RECORDS)
    assert found == expected[: next(step for step, records in enumerate(expected) if bad & set(records))]
    assert isinstance(stream.stats().stopped_by, DataError)
    assert "epoch 0 ends early" in caplog.text
    assert iter(stream).epoch == 1


def test_a_flipped_bit_is_found_where_there_are_hashes(tmp_path: Path) -> None:
    folder = on_disk(tmp_path, records=200, shards=4, hashes=["sha1"])
    path = folder / "shard.00002.mds"
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    with pytest.raises(HashError, match=r"shard.00002.mds is damaged") as raised:
        list(Stream(folder, batch_size=10, reading=Reading(verify=True)))
    assert raised.value.shard == 2
    with pytest.raises(HashError):
        Stream(folder, reading=Reading(verify=("sha1",))).read(range(200))
    stream = Stream(folder, batch_size=10, reading=Reading(verify=True), on_error="skip")
    bad = range(*stream.layout.starts[2:4].tolist())
    assert not {record for batch in stream for record in batch.records.tolist()} & set(bad)
    assert stream.stats().skipped == len(bad)


@pytest.mark.parametrize("read", ["mmap", "pread"])
def test_a_shard_deleted_while_running(tmp_path: Path, read: Any) -> None:
    """What is open stays readable; what is not is an error that names it, in the batch that needs it."""
    folder = on_disk(tmp_path, records=1000, shards=20)
    reading = Reading(read=read, ahead_bytes_max=0)
    stream = Stream(folder, order=Lanes(lanes=2), batch_size=4, reading=reading)
    expected = [batch.records.tolist() for batch in stream]
    stream.set_epoch(0)
    iterator = iter(stream)
    found = [next(iterator).records.tolist() for _ in range(3)]
    for path in folder.glob("*.mds"):
        path.unlink()
    with pytest.raises(MissingError) as raised:
        found.extend(batch.records.tolist() for batch in iterator)
    assert raised.value.uri is not None
    assert str(folder) in raised.value.uri
    assert found == expected[: len(found)]


def test_a_shard_replaced_while_running(tmp_path: Path) -> None:
    """By a rename, as every writer should: what was open stays as it was."""
    folder = on_disk(tmp_path, records=100, shards=2)
    stream = Stream(folder, order=Global(), batch_size=10, reading=Reading(ahead_bytes_max=0))
    iterator = iter(stream)
    found = [*next(iterator)["text"].tolist()]
    for path in folder.glob("*.mds"):
        aside = path.with_suffix(".new")
        aside.write_bytes(b"\0" * path.stat().st_size)
        aside.rename(path)
    found += [text for batch in iterator for text in batch["text"].tolist()]
    assert sorted(found) == [f"record {number:06d}" for number in range(100)]


def test_every_call_to_the_store_may_fail() -> None:
    """The n-th call fails, for every n: an error that says so, and the stream can be read when it is over."""
    whole = of_sizes([9, 4, 7], ("label",))
    expected = [batch["label"].tolist() for batch in Stream(whole, batch_size=4, seed=2)]
    for number in range(1, 50):
        store = FaultyStore(whole, fail_at=number)
        stream = Stream(store, batch_size=4, seed=2)
        found: list[list[int]] = []
        failed: list[str] = []
        try:
            for batch in stream:
                found.append(batch["label"].tolist())
        except StoreError as error:
            failed.append(str(error))
        assert found == expected[: len(found)]
        if failed:
            assert f"as call {number}" in failed[0]
            found += [batch["label"].tolist() for batch in stream]
        assert found == expected
        if len(store.calls) < number:
            break
    else:
        pytest.fail("the operation never came through")


class StuckStore(MemoryStore):
    """A store whose shards never come, as of a network file system that is gone."""

    def __init__(self, store: Store) -> None:
        import threading

        super().__init__({key: bytes(store.read(key)) for key in store.list()})
        self.mend = threading.Event()

    def read(self, key: str) -> memoryview:
        if key.endswith(".mds"):
            self.mend.wait(60)
        return super().read(key)


def test_a_store_that_never_answers() -> None:
    store = StuckStore(of_sizes(SIZES, ("label",)))
    stream = Stream(store, batch_size=8, reading=Reading(wait_seconds_max=0.2))
    with pytest.raises(StreamError, match=r"within 0.2 s"):
        next(iter(stream))
    store.mend.set()
    stream.close()
