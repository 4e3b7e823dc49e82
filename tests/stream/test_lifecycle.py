"""What a stream opens, when, and that it lets go: threads, descriptors, memory, forks, pickles."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.stream.datasets import of_sizes, on_disk, one_by_one
from tombola import Lanes, Stream, Writer
from tombola.errors import (
    CursorError,
    FormatError,
    InputError,
    ManifestError,
    MissingError,
    PlanError,
    StreamError,
)
from tombola.plan import World
from tombola.stores import FaultyStore, LocalStore, MemoryStore
from tombola.stream import Reading


@pytest.fixture
def store() -> MemoryStore:
    return of_sizes([30, 25, 40], ("label", "text"))


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tombola")]


def soon(condition: object, seconds: float = 20.0) -> bool:
    """True once a condition holds; a bound on patience, not a measurement."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Threads of the tests before this one have ended: they stop when their stream is collected, a moment later."""
    gc.collect()
    assert soon(lambda: our_threads() == []), our_threads()


# ---- opening


def test_a_constructor_touches_nothing() -> None:
    store = FaultyStore(MemoryStore({}))
    stream = Stream(store, batch_size=4)
    repr(stream)
    assert store.calls == []
    assert our_threads() == [], our_threads()
    Stream("a/folder/that/is/not/there", batch_size=4)


def test_no_thread_before_the_first_batch(store: MemoryStore) -> None:
    stream = Stream(store, batch_size=4, reading=Reading(ahead_bytes_max=0))
    iterator = iter(stream)
    assert our_threads() == [], our_threads()
    next(iterator)
    assert "tombola-ahead" in our_threads()
    stream.close()
    assert soon(lambda: our_threads() == []), our_threads()


def test_missing_dataset() -> None:
    with pytest.raises(MissingError, match="nowhere"):
        next(iter(Stream("nowhere", batch_size=2)))
    with pytest.raises(MissingError):
        len(Stream(MemoryStore({}), batch_size=2))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"order": "lanes"}, InputError, "give the options of an order"),
        ({"on_error": "ignore"}, InputError, "on_error is 'ignore'"),
        ({"columns": "text"}, InputError, "give a list"),
        ({"cursor": 7}, CursorError, "is no cursor"),
        ({"source": []}, InputError, "no dataset"),
        ({"source": 7}, InputError, "give the path of a folder"),
        ({"source": "s3://bucket/data"}, InputError, "a store that reads s3"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    store: MemoryStore, arguments: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        Stream(**{"source": store, "batch_size": 2} | arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"batch_size": None}, PlanError, "batch_size is missing"),
        ({"batch_size": 3, "world": World(ranks=2)}, PlanError, "nearest sizes that can are 2 and 4"),
        ({"columns": ["txet"]}, FormatError, "there is no column 'txet'"),
        ({"tail": "wrap"}, PlanError, "tail is 'wrap'"),
    ],
)
def test_wrong_arguments_are_refused_at_the_first_use(
    store: MemoryStore, arguments: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        iter(Stream(store, **{"batch_size": 2} | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"read": "fast"}, "read is 'fast'"),
        ({"threads": 0}, "threads is 0"),
        ({"ahead_bytes_max": -1}, "ahead_bytes_max is -1"),
        ({"open_shards_max": 0}, "open_shards_max is 0"),
        ({"verify": "sha1"}, "verify is 'sha1'"),
        ({"wait_seconds_max": 0}, "wait_seconds_max is 0"),
    ],
)
def test_wrong_options_of_reading(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Reading(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("use", [list, len, lambda stream: stream.read([]), lambda stream: stream.plan])
def test_an_empty_dataset_says_which(use: Any, tmp_path: Path) -> None:
    with Writer(tmp_path / "empty", columns={"n": "int"}):
        pass
    with pytest.raises(PlanError, match="empty holds no records"):
        use(Stream(tmp_path / "empty", batch_size=4))


def test_two_datasets_of_other_columns() -> None:
    with pytest.raises(FormatError, match="only datasets of the same columns"):
        len(Stream([of_sizes([3], ("label",)), of_sizes([3], ("text",))], batch_size=1))


def test_a_pickled_column_is_refused() -> None:
    import tombola

    store = MemoryStore()
    with tombola.Writer(store, columns={"x": "pkl"}, allow_unsafe=True) as writer:
        writer.write({"x": {1, 2}})
    with pytest.raises(ManifestError, match="allow_unsafe=True"):
        len(Stream(store, batch_size=1))
    assert Stream(store, batch_size=1, allow_unsafe=True)[0] == {"x": {1, 2}}


# ---- epochs


def test_epochs_follow_one_another(store: MemoryStore) -> None:
    stream = Stream(store, batch_size=8)
    first, second = ([batch.records.tolist() for batch in stream] for _ in range(2))
    assert first != second
    stream.set_epoch(0)
    assert stream.epoch == 0
    assert [batch.records.tolist() for batch in stream] == first
    assert [batch.records.tolist() for batch in stream] == second
    for _ in stream:
        break
    assert stream.epoch == 2
    assert next(iter(stream)).epoch == 3, "an iteration that was left is not taken up again"
    stream.set_epoch(3)
    assert next(iter(stream)).step == 0
    with pytest.raises(PlanError, match="epoch is -1"):
        stream.set_epoch(-1)


def test_set_epoch_keeps_the_place_of_a_cursor(store: MemoryStore) -> None:
    stream = Stream(store, batch_size=8)
    cursor = [batch.cursor for batch in stream][4]
    resumed = Stream(store, batch_size=8, cursor=cursor.to_json())
    resumed.set_epoch(0)
    assert next(iter(resumed)).step == 5
    resumed.set_epoch(0)
    assert next(iter(resumed)).step == 0


def test_a_second_iteration_ends_the_first(store: MemoryStore) -> None:
    stream = Stream(store, batch_size=8)
    first = iter(stream)
    next(first)
    second = iter(stream)
    next(second)
    with pytest.raises(StreamError, match="iterated over anew"):
        next(first)
    assert len(list(second)) == len(stream) - 1


@pytest.mark.parametrize("mapped", [False, True])
def test_threads_share_an_iterator(store: MemoryStore, mapped: bool) -> None:
    """Each batch goes to one of them, whole."""
    stream = Stream(store, batch_size=2, tail="short")
    iterator = iter(stream.map(lambda record: record["label"])) if mapped else iter(stream)
    found: list[list[int]] = []
    failed: list[BaseException] = []

    def take() -> None:
        try:
            for batch in iterator:
                assert (batch.values if mapped else batch["label"].tolist()) == batch.records.tolist()
                found.append(batch.records.tolist())
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    stream.set_epoch(0)
    assert sorted(found) == sorted(batch.records.tolist() for batch in stream)


@pytest.mark.parametrize("bytes_max", [0, 2000, 64 << 20])
def test_memory_that_is_used_again_is_nobodys(store: MemoryStore, bytes_max: int) -> None:
    """Whatever is kept of a batch, the whole or a view of a column, stays as it was while later ones come and go."""
    truth = one_by_one(store)
    stream = Stream(store, batch_size=4, reading=Reading(ahead_bytes_max=bytes_max))
    kept, views = [], []
    for _ in range(4):
        for batch in stream:
            if batch.step % 5 == 0:
                kept.append(batch)
            elif batch.step % 5 == 1:
                views.append((batch.records, batch["label"][1:3], batch["text"][2:]))
    assert all(list(batch) == [truth[record] for record in batch.records.tolist()] for batch in kept)
    for records, labels, texts in views:
        assert labels.tolist() == records[1:3].tolist()
        assert texts.tolist() == [truth[record]["text"] for record in records[2:].tolist()]


def test_a_batch_is_cut_like_a_list(store: MemoryStore) -> None:
    batch = next(iter(Stream(store, batch_size=8)))
    rows = list(batch)
    for cut in (slice(2, 5), slice(None, -3), slice(-2, None), slice(6, 2), slice(0, 100)):
        part = batch[cut]
        assert list(part) == rows[cut]
        assert part.records.tolist() == batch.records[cut].tolist()
        assert part.cursor == batch.cursor
    with pytest.raises(InputError, match="step 1"):
        batch[::2]
    with pytest.raises(IndexError):
        batch[8]


def test_a_cursor_of_other_data_is_refused(store: MemoryStore) -> None:
    cursor = Stream(store, batch_size=8, seed=1).cursor
    with pytest.raises(CursorError, match=r"seed \(1 then, 2 now\)"):
        len(Stream(store, batch_size=8, seed=2, cursor=cursor))
    # The same counts, but other bytes.
    other = of_sizes([30, 25, 40], ("label",))
    with pytest.raises(CursorError, match="manifest"):
        Stream(other, batch_size=8, seed=1).load_state_dict(cursor.to_dict())


def test_at_random(store: MemoryStore) -> None:
    truth = one_by_one(store)
    stream = Stream(store)
    assert stream[7] == truth[7]
    assert stream[-1] == truth[-1]
    with pytest.raises(IndexError):
        stream[95]
    with pytest.raises(InputError):
        stream[-96]
    assert stream.read([94, 3])["label"].tolist() == [94, 3]
    assert len(stream.read([])["text"]) == 0
    with pytest.raises(InputError, match="record 95 is outside"):
        stream.read([95])
    stream.close()


# ---- letting go


def test_close_ends_everything(store: MemoryStore) -> None:
    with Stream(store, batch_size=8) as stream:
        iterator = iter(stream)
        next(iterator)
    with pytest.raises(StreamError, match="was closed"):
        next(iter(stream))
    with pytest.raises(StreamError, match="closed"):
        list(iterator)
    assert soon(lambda: our_threads() == []), our_threads()
    stream.close()


def test_dropping_it_ends_its_threads(store: MemoryStore) -> None:
    stream = Stream(store, batch_size=2, reading=Reading(ahead_bytes_max=0))
    iterator = iter(stream)
    next(iterator)
    gone = weakref.ref(iterator)
    del stream, iterator
    gc.collect()
    assert gone() is None
    assert soon(lambda: our_threads() == []), our_threads()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("read", ["mmap", "pread"])
def test_nothing_grows(tmp_path: Path, read: str) -> None:
    """Descriptors, threads, mappings and memory over 20 epochs and 40 streams that are dropped in mid-epoch."""
    folder = on_disk(tmp_path / "data", records=2000, shards=20)
    reading = Reading(read=read)  # type: ignore[arg-type]

    def held() -> tuple[int, int, int]:
        gc.collect()
        assert soon(lambda: our_threads() == [])
        maps = sum("shard" in line for line in Path("/proc/self/maps").read_text().splitlines())
        return len(os.listdir("/proc/self/fd")), threading.active_count(), maps

    def epochs(count: int) -> None:
        stream = Stream(folder, order=Lanes(lanes=8), batch_size=32, reading=reading)
        for _ in range(count):
            assert sum(len(batch) for batch in stream) == 1984
        stream.close()

    def dropped(count: int) -> None:
        for seed in range(count):
            iterator = iter(Stream(folder, seed=seed, batch_size=32, reading=reading))
            next(iterator)

    epochs(2)
    dropped(2)
    before = held()
    epochs(20)
    dropped(40)
    assert held() == before


def test_open_shards_are_bounded(tmp_path: Path) -> None:
    """At any moment about one shard a lane is open, besides those that come next."""
    folder = on_disk(tmp_path, records=4000, shards=80)
    reading = Reading(ahead_bytes_max=0)
    stream = Stream(folder, order=Lanes(lanes=4, phase="none"), batch_size=4, reading=reading)
    most = max(stream.stats().shards_open for _ in stream)
    # Lanes begin in the middle of a shard and are cut across shards, and a slab reaches past the end of one.
    assert 4 <= most <= 16
    assert stream.stats().shards_opened >= stream.layout.shards
    assert stream.stats().shards_open == 0
    few = Stream(folder, batch_size=4, shuffle=True, order=Lanes(lanes=40), reading=Reading(open_shards_max=2))
    assert sum(len(batch) for batch in few) == 4000


def test_the_bound_in_bytes(store: MemoryStore) -> None:
    stream = Stream(store, batch_size=1, reading=Reading(ahead_bytes_max=3000))
    largest = 0
    for _ in stream:
        time.sleep(0.0005)
        largest = max(largest, stream.stats().ahead_bytes)
    assert 0 < largest <= 3000


def test_stats(store: MemoryStore) -> None:
    stream = Stream(store, batch_size=8)
    list(stream)
    stats = stream.stats()
    assert (stats.batches, stats.records, stats.skipped, stats.ahead_bytes) == (11, 88, 0, 0)
    assert stats.bytes > 88 * 8
    assert stats.shards_opened == 3
    assert stats.stopped_by is None


# ---- other processes


def test_a_pickle_goes_on_where_it_stands(store: MemoryStore) -> None:
    stream = Stream(store, batch_size=8, seed=3)
    whole = [batch.records.tolist() for batch in stream]
    stream.set_epoch(0)
    for batch in stream:
        if batch.step == 6:
            break
    copy = pickle.loads(pickle.dumps(stream))
    assert [found.records.tolist() for found in copy] == whole[7:]
    same = pickle.loads(pickle.dumps(batch))
    assert (same.cursor, same.records.tolist(), list(same)) == (batch.cursor, batch.records.tolist(), list(batch))


FORKED = """
import os, sys, warnings
from tombola import Stream
from tombola.errors import StreamError
warnings.simplefilter("ignore", DeprecationWarning)
stream = Stream(sys.argv[1], batch_size=8, seed=3)
iterator = iter(stream)
first = [next(iterator).records.tolist() for _ in range(3)]
child = os.fork()
if child == 0:
    try:
        while True:
            next(iterator)
    except StreamError as error:
        pass
    rest = [batch.records.tolist() for batch in stream]
    other = Stream(sys.argv[1], batch_size=8, seed=3)
    whole = [batch.records.tolist() for batch in other]
    os._exit(0 if first + rest == whole and stream[5] == other[5] else 3)
_, status = os.waitpid(child, 0)
rest = [batch.records.tolist() for batch in iterator]
print(os.waitstatus_to_exitcode(status), len(first + rest))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_in_mid_epoch(tmp_path: Path) -> None:
    folder = on_disk(tmp_path, records=300)
    run = subprocess.run([sys.executable, "-c", FORKED, folder], capture_output=True, text=True, timeout=60)
    assert run.stdout.split() == ["0", "37"], run.stdout + run.stderr


ENDS = """
import sys
from tombola import Stream
iterator = iter(Stream(sys.argv[1], batch_size=2))
next(iterator)
mapped = iter(Stream(sys.argv[1], batch_size=2).map(lambda record: record))
next(mapped)
"""


def test_the_interpreter_ends_in_mid_epoch(tmp_path: Path) -> None:
    folder = on_disk(tmp_path, records=3000)
    for _ in range(5):
        run = subprocess.run([sys.executable, "-c", ENDS, folder], capture_output=True, text=True, timeout=60)
        assert (run.returncode, run.stderr) == (0, "")


def test_a_manifest_cache(tmp_path: Path) -> None:
    folder, cache = on_disk(tmp_path / "data"), tmp_path / "cache"
    for _ in range(2):
        assert len(Stream(folder, batch_size=600, reading=Reading(cache=cache))) == 1
    assert [path.suffix for path in cache.iterdir()] == [".tombola"]
    assert len(Stream(folder, batch_size=600, reading=Reading(cache=LocalStore(cache)))) == 1
