"""The stream: a plan being read."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from typing import Any, Literal, Self, get_args

import numpy as np

from tombola import _core
from tombola._ints import Ints, IntsLike, integer, integers
from tombola.errors import CursorError, DataError, InputError, PlanError, StreamError
from tombola.formats import Columns
from tombola.order import Lanes, Layout, Order, OrderSpec, Sequential
from tombola.plan import Cursor, Place, Plan, World
from tombola.stream._ahead import Ahead
from tombola.stream._batch import Batch, Column, Cursors, Slab, rows_of
from tombola.stream._dataset import Dataset, Source, check_sources
from tombola.stream._map import Mapped, Per
from tombola.stream._options import OnError, Reading
from tombola.stream._read import Reader
from tombola.stream._stats import Counters, Stats
from tombola.stream._stretch import stretches

_log = logging.getLogger("tombola.stream")
# A hand-over between threads costs about as much as copying a few hundred kilobytes.
_SLAB_BYTES = 8 << 20
_PIECE_ROWS = 256
_MANIFEST = "manifest"
BatchSize = int | Sequence[tuple[int, int, int]]
Tail = Literal["drop", "pad", "short"]
State = Mapping[str, Any]


@dataclass(frozen=True)
class _Opened:
    """What the first use makes of the arguments."""

    dataset: Dataset
    order: Order
    plan: Plan
    cursors: Cursors
    #: False where no batch size was given: then each step is one record a rank.
    batched: bool


class Stream:
    """A dataset, read in an order, dealt to this rank in batches.

    source
        The folder of a dataset, or a store; or a list of several, which are read as one.
    order
        `Lanes()`, `Global()`, … `shuffle=False` reads the records as they are stored.
    batch_size
        The global batch, over all ranks. Without one, `records()` and `read` work.
    world
        Which rank this is; found by `World.detect()` unless given.
    tail
        What becomes of a last batch that is not full: "drop", "pad" (rows repeat under a mask) or "short".
    columns
        Which columns are read; all unless given.
    on_error
        What becomes of a record that cannot be read: "raise" an error from `next`, "skip" it (another one of the
        same round of lanes takes its place, the same in any world; it is logged and counted), or "stop" the epoch
        there, on this rank alone.
    cursor
        Where to go on: the `cursor` of a batch, or its JSON. World and batch size may differ from then.
    reading
        How bytes are fetched and how far ahead; changes nothing of what comes.
    allow_unsafe
        Let pickled columns be. Reading one runs whatever code is in the data.

    Nothing is opened before the first use. Each `for batch in stream` is an epoch, the next time the next one; an
    iteration that was left in the middle is not taken up again, except after an error or from a cursor.

    >>> import tempfile
    >>> from tombola import Stream, Writer
    >>> folder = tempfile.mkdtemp()
    >>> with Writer(folder, columns={"text": "str", "label": "int"}) as writer:
    ...     for number in range(100):
    ...         writer.write({"text": f"record {number}", "label": number})
    >>> stream = Stream(folder, batch_size=8, seed=7)
    >>> batches = list(stream)
    >>> len(batches), batches[0]["label"].shape, len(batches[0]["text"])
    (12, (8,), 8)
    >>> batches[0]["text"][0] == f"record {batches[0].records[0]}"
    True
    >>> resumed = Stream(folder, batch_size=8, seed=7, cursor=batches[4].cursor)
    >>> next(iter(resumed)).records.tolist() == batches[5].records.tolist()
    True
    """

    def __init__(
        self,
        source: Source | Sequence[Source],
        *,
        order: OrderSpec | None = None,
        shuffle: bool = True,
        seed: int = 0,
        batch_size: BatchSize | None = None,
        world: World | None = None,
        tail: Tail = "drop",
        columns: Iterable[str] | None = None,
        on_error: OnError = "raise",
        cursor: Cursor | State | str | None = None,
        reading: Reading | None = None,
        allow_unsafe: bool = False,
    ) -> None:
        self._sources = check_sources(source)
        if order is not None and not isinstance(order, OrderSpec):
            raise InputError(f"order is {order!r}; give the options of an order, such as Lanes(lanes=64)")
        self._spec: OrderSpec = (Lanes() if order is None else order) if shuffle else Sequential()
        if on_error not in get_args(OnError):
            raise InputError(f"on_error is {on_error!r}; it must be one of {', '.join(get_args(OnError))}")
        if isinstance(columns, str):
            raise InputError(f"columns={columns!r} is one string: give a list, [{columns!r}]")
        self._seed = seed
        self._batch_size = batch_size
        self._world = world
        self._surroundings: World | None = None
        self._tail: Tail = tail
        self._columns = None if columns is None else tuple(columns)
        self._on_error: OnError = on_error
        self._reading = Reading() if reading is None else reading
        self._allow_unsafe = allow_unsafe
        self._cursor = _as_cursor(cursor)
        self._closed = False
        self._fresh()

    def _fresh(self) -> None:
        """What belongs to one process."""
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._opened_now: _Opened | None = None
        self._at_random: Reader | None = None
        self._counters = Counters()
        # As many bytes as may wait: then each batch finds memory that an earlier one let go.
        self._pool = _core.Pool(self._reading.ahead_bytes_max)
        # (epoch, step) that comes next, and whether an iteration is in the middle of that epoch.
        self._next: tuple[int, int] | None = None
        self._begun = False
        self._running: weakref.ref[Batches] | None = None

    # ---- opening

    def _open(self) -> _Opened:
        if self._pid != os.getpid():
            # Threads do not live on in a forked process, and a lock may be held for ever by one that is not there.
            self._cursor = self._place_cursor()
            self._fresh()
        with self._lock:
            if self._closed:
                raise StreamError("the stream was closed; make a new one to read again")
            if self._opened_now is None:
                dataset = Dataset(self._sources, self._reading, allow_unsafe=self._allow_unsafe)
                dataset.columns.places(self._columns)  # names that do not exist are refused here
                self._opened_now = self._planned(dataset, self._cursor)
                self._next = self._opened_now.plan.start
            return self._opened_now

    def _planned(self, dataset: Dataset, cursor: Cursor | None) -> _Opened:
        if not dataset.layout.records:
            raise PlanError(f"{dataset.uri} holds no records: there is nothing to stream")
        order = self._spec.over(dataset.layout, seed=self._seed)
        world = self._find_world()
        size = self._batch_size
        if size is None and cursor is None:
            size = world.readers * order.run
        if cursor is not None:
            known = {**order.fingerprint, "tail": self._tail}
            if _MANIFEST in cursor.fingerprint:
                known[_MANIFEST] = dataset.digest
            # A cursor keeps its fingerprint read-only, with tuples for lists: only the like compares equal.
            cursor.check(replace(cursor, fingerprint=known).fingerprint)
            rest = {key: value for key, value in cursor.fingerprint.items() if key != _MANIFEST}
            cursor = replace(cursor, fingerprint=rest)
        plan = Plan(order, world, size, tail=self._tail, cursor=cursor)
        batched = self._batch_size is not None or cursor is not None
        return _Opened(dataset, order, plan, Cursors(plan, dataset.digest), batched)

    def _find_world(self) -> World:
        if self._world is not None:
            return self._world
        found, before = World.detect(), self._surroundings
        # A stream that was sent to a worker process keeps its rank, of which that process may know nothing.
        return found if before is None else replace(before, worker=found.worker, workers=found.workers)

    def _place_cursor(self) -> Cursor | None:
        """The cursor of what comes next, without opening anything."""
        opened, place = self._opened_now, self._next
        if opened is None or place is None:
            return self._cursor
        return opened.cursors(place[1], place[0])

    @property
    def plan(self) -> Plan:
        """What is read: the order, dealt to this rank."""
        return self._open().plan

    @property
    def digest(self) -> str:
        """What tells this dataset from every other: a hash of its manifests."""
        return self._open().dataset.digest

    @property
    def layout(self) -> Layout:
        """Records per shard."""
        return self._open().dataset.layout

    @property
    def columns(self) -> Columns:
        """Names and encodings of the columns that are read."""
        found = self._open().dataset.columns
        return Columns({found.names[at]: found.encodings[at].name for at in found.places(self._columns)})

    # ---- batches

    def __iter__(self) -> Batches:
        opened = self._batched()
        with self._lock:
            epoch, step = self._take_up()
            world = opened.plan.world
            return self._run(opened, epoch, step, step + world.worker, world.workers)

    def _batched(self) -> _Opened:
        opened = self._open()
        if not opened.batched:
            raise PlanError("batch_size is missing: give the global batch, over all ranks, or iterate over records()")
        return opened

    def steps_from(self, epoch: int, step: int, stride: int = 1) -> Batches:
        """The batches of steps step, step + stride, … of an epoch: what a worker of a loader reads."""
        opened = self._batched()
        integer(step, "step", 0, opened.plan.steps(epoch), PlanError)
        integer(stride, "stride", 1, None, PlanError)
        with self._lock:
            return self._run(opened, epoch, step, step, stride)

    def _run(self, opened: _Opened, epoch: int, step: int, first: int, stride: int) -> Batches:
        self._stop_running()
        self._next, self._begun = (epoch, step), False
        batches = Batches(self, opened, epoch, first, stride)
        self._running = weakref.ref(batches)
        return batches

    def _take_up(self) -> tuple[int, int]:
        """Where an iteration begins."""
        epoch, step = self._next or (0, 0)
        return (epoch + 1, 0) if self._begun else (epoch, step)

    def _stop_running(self) -> None:
        running = self._running() if self._running is not None else None
        if running is not None:
            running.close(replaced=True)
        self._running = None

    def records(self) -> Iterator[dict[str, Any]]:
        """The records of an epoch one by one, as dicts of Python values, without padding.

        A state taken in the middle of a batch goes on at its beginning; without a batch size, at the next record.
        """
        opened = self._open()
        with self._lock:
            epoch, step = self._take_up()
            world = opened.plan.world
            batches = self._run(opened, epoch, step, step + world.worker, world.workers)
        return batches.records()

    def __len__(self) -> int:
        """Batches in an epoch."""
        opened = self._batched()
        epoch, _ = self._next or (0, 0)
        return opened.plan.steps(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration. In an epoch that a cursor stands in, it keeps its place."""
        epoch = integer(epoch, "epoch", 0, None, PlanError)
        self._open()
        with self._lock:
            self._stop_running()
            if self._begun or self._next is None or self._next[0] != epoch:
                self._next = (epoch, 0)
            self._begun = False

    @property
    def epoch(self) -> int:
        """The epoch of the iteration that runs, or of the next one."""
        self._open()
        return (self._next or (0, 0))[0]

    # ---- state

    @property
    def cursor(self) -> Cursor:
        """Where to go on after the last batch that was handed out."""
        opened = self._open()
        with self._lock:
            epoch, step = self._next or opened.plan.start
            return opened.cursors(step, epoch)

    def cursor_at(self, step: int, epoch: int) -> Cursor:
        """The place before a step of an epoch."""
        return self._open().cursors(step, epoch)

    def state_dict(self) -> dict[str, Any]:
        """The cursor as plain JSON values: the same on every rank, and good for every rank."""
        return self.cursor.to_dict()

    def load_state_dict(self, state: State) -> None:
        """Go on from a state, or from the cursor of a batch as a dict, under this world and batch size."""
        self._load(Cursor.from_dict(state))

    def _load(self, cursor: Cursor) -> None:
        opened = self._open()
        with self._lock:
            planned = self._planned(opened.dataset, cursor)
            self._stop_running()
            self._cursor, self._opened_now = cursor, planned
            self._next, self._begun = planned.plan.start, False

    # ---- at random

    def __getitem__(self, record: int) -> dict[str, Any]:
        """A record by its number in the dataset."""
        opened = self._open()
        total = opened.dataset.layout.records
        place = integer(record, "record", -total, None, InputError)
        if place >= total:
            raise IndexError(f"record {record} of {total}")
        starts = opened.dataset.layout.starts
        place = place + total if place < 0 else place
        shard = int(np.searchsorted(starts, place, side="right")) - 1
        with self._lock:
            shelf = self._reader(opened).shelf
            shelf.forget_failures()
            for error in shelf.need([shard]).values():
                raise error
            return shelf.shards[shard].read(place - int(starts[shard]), self._columns)

    def read(self, records: IntsLike) -> dict[str, Column]:
        """The columns of any records, by their numbers in the dataset, in the order asked for."""
        opened = self._open()
        wanted = integers(records, "record", opened.dataset.layout.records, InputError).reshape(-1)
        with self._lock:
            reader = self._reader(opened)
            reader.shelf.forget_failures()
            return reader.columns(wanted)

    def rows(self, records: IntsLike) -> list[dict[str, Any]]:
        """Any records, by their numbers in the dataset, as dicts of Python values."""
        wanted = integers(records, "record", self._open().dataset.layout.records, InputError).reshape(-1)
        return list(rows_of(self.read(wanted), wanted))

    def _reader(self, opened: _Opened) -> Reader:
        if self._at_random is None:
            self._at_random = self._new_reader(opened, "raise")
        return self._at_random

    def _new_reader(self, opened: _Opened, on_error: OnError) -> Reader:
        return Reader(opened.dataset, opened.order, self._columns, self._reading, on_error, self._counters, self._pool)

    # ---- functions

    def map(self, function: Callable[[Any], Any], *, per: Per = "record", threads: int | None = None) -> Mapped:
        """This stream with a function over each record, a dict of Python values, or over each `Batch`.

        The function runs in threads, as many as there are cores unless given, 0 for none; the order is kept. Per
        record each batch comes as a `MappedBatch` of what the function returned, per batch it is what it returned.

        >>> from tombola import Stream, Writer
        >>> from tombola.stores import MemoryStore
        >>> with Writer(store := MemoryStore(), columns={"n": "int"}) as writer:
        ...     for n in range(4):
        ...         writer.write({"n": n})
        >>> stream = Stream(store, batch_size=2, shuffle=False)
        >>> [batch.values for batch in stream.map(lambda record: record["n"] * 10)]
        [[0, 10], [20, 30]]
        """
        return Mapped(self, function, per, threads)

    # ---- provenance

    def where(self, record: int, epoch: int | None = None) -> list[Place]:
        """Every place an epoch reads a record at: position, step, rank and row."""
        return self._open().plan.where(record, self._epoch_or(epoch))

    def what(self, step: int, epoch: int | None = None) -> Ints:
        """The records of a batch, of all ranks, without padding."""
        return self._open().plan.what(step, self._epoch_or(epoch))

    def _epoch_or(self, epoch: int | None) -> int:
        return self.epoch if epoch is None else epoch

    # ---- the end

    def stats(self) -> Stats:
        """What was read so far, in this process."""
        running = self._running() if self._running is not None else None
        return self._counters.stats(running.ahead_bytes if running is not None else 0)

    def close(self) -> None:
        """Ends the reading and its threads. A stream that is dropped does so by itself."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._stop_running()
            if self._at_random is not None:
                self._at_random.close()
                self._at_random = None
            if self._opened_now is not None:
                self._opened_now.dataset.close()
                self._cursor = self._place_cursor()
            self._opened_now, self._closed = None, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = ", ".join(str(getattr(source, "uri", source)) for source in self._sources)
        return f"<Stream of {where}, {self._spec!r}, seed={self._seed}, batch_size={self._batch_size}>"

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name in _KEPT}
        return kept | {"_surroundings": self._find_world(), "_cursor": self._place_cursor()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._fresh()


_KEPT = frozenset(
    (
        *("_sources", "_spec", "_seed", "_batch_size", "_tail", "_columns", "_on_error", "_reading"),
        *("_allow_unsafe", "_closed", "_world"),
    )
)


class Batches(Iterator[Batch]):
    """The batches of one epoch, read ahead by a thread that ends with this iterator."""

    def __init__(self, stream: Stream, opened: _Opened, epoch: int, first: int, stride: int) -> None:
        self._stream = stream
        self._counters = stream._counters
        self._pid = os.getpid()
        self._cursors = opened.cursors
        self.epoch = epoch
        self._reading = stream._reading
        self._stop_on_error = stream._on_error == "stop"
        self._slab: Slab | None = None
        self._number = 0
        #: False when a reader of this iterator says itself what it handed out.
        self.tells = True
        self._over = False
        self._replaced = False
        self._ahead: Ahead[Slab] | None = None
        self._produce = _producer(stream, opened, epoch, first, stride)
        # Threads may share an iterator: each batch goes to one of them.
        self._turn = threading.Lock()

    def __next__(self) -> Batch:
        self._check_process()  # a lock may be held for ever by a thread that a fork left behind
        with self._turn:
            return self._next()

    def _next(self) -> Batch:
        slab = self._slab
        if slab is None or self._number == len(slab.steps):
            slab = self._fetch()
            if slab is None:
                raise StopIteration
        number = self._number
        self._number = number + 1
        batch = slab.batch(number, self._cursors)
        if self.tells:
            self.handed(slab.steps[number])
        return batch

    def records(self) -> Iterator[dict[str, Any]]:
        """The records one by one, without padding."""
        while (slab := self._slab if self._slab is not None else self._fetch()) is not None:
            for first, last in _pieces(slab):
                begin = slab.bounds[first]
                cut = slice(begin, slab.bounds[last])
                rows = rows_of({name: column[cut] for name, column in slab.columns.items()}, slab.records[cut])
                for number in range(first, last):
                    count = slab.bounds[number + 1] - slab.bounds[number]
                    mine = islice(rows, max(0, count - 1))
                    if slab.mask is None:
                        yield from mine
                    else:
                        yield from compress(mine, slab.mask[slab.bounds[number] :].tolist())
                    # The state moves past a step with its last record.
                    final = next(rows) if count else None
                    self.handed(slab.steps[number])
                    if final is not None and (slab.mask is None or slab.mask[slab.bounds[number + 1] - 1]):
                        yield final
            self._slab = None

    def handed(self, step: int) -> None:
        """The stream's state moves past a step."""
        stream = self._stream
        stream._next, stream._begun = (self.epoch, step + 1), True

    def _fetch(self) -> Slab | None:
        """The next slab; None at the end of the epoch."""
        if self._replaced:
            raise StreamError(
                "this iteration has ended: its stream was closed, set to another place, or iterated over anew"
            )
        if self._over:
            return None
        self._check_process()
        if self._ahead is None:
            self._ahead = Ahead(self._produce, self._reading.ahead_bytes_max, self._reading.wait_seconds_max)
            # Not the bound method: it would keep what it is to watch alive.
            weakref.finalize(self, self._ahead.stop, 0.0)
        began = time.perf_counter()
        try:
            slab = self._ahead.take()
        except DataError as error:
            self.failed()
            if not self._stop_on_error:
                raise
            self._counters.stopped_by = error
            _log.error("epoch %d ends early, after an error: %s", self.epoch, error)
            if self.tells:
                self.finished()
            return None
        except BaseException:
            self.failed()
            raise
        self._counters.add(wait_seconds=time.perf_counter() - began)
        if slab is None:
            self._over = True
            self.close()
            if self.tells:
                self.finished()
            return None
        self._counters.add(batches=len(slab.steps), records=len(slab.records), bytes=slab.nbytes)
        self._slab, self._number = slab, 0
        return slab

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise StreamError("this iteration began in another process; iterate over the stream anew in this one")

    def finished(self) -> None:
        """The stream's state moves to the next epoch."""
        self._stream._next, self._stream._begun = (self.epoch + 1, 0), False

    def failed(self) -> None:
        """After an error the next iteration begins with the batch that failed."""
        self.close()
        self._stream._begun = False

    @property
    def ahead_bytes(self) -> int:
        """Bytes of the batches that are ready."""
        return self._ahead.nbytes if self._ahead is not None else 0

    def close(self, *, replaced: bool = False) -> None:
        """Ends this iteration."""
        if not self._over:
            self._over, self._replaced = True, replaced
            self._slab = None
        if self._ahead is not None and self._pid == os.getpid():
            self._ahead.stop()


def _pieces(slab: Slab) -> Iterator[tuple[int, int]]:
    """Whole steps of a slab, first…last − 1, in pieces of a few hundred rows: their objects stay in the cache."""
    first = 0
    for last in range(1, len(slab.steps) + 1):
        if last == len(slab.steps) or slab.bounds[last] - slab.bounds[first] >= _PIECE_ROWS:
            yield first, last
            first = last


def _producer(stream: Stream, opened: _Opened, epoch: int, first: int, stride: int) -> Callable[[], Iterator[Slab]]:
    """What the thread runs. It must not know the stream or the iterator, or they would live as long as it."""
    reader = stream._new_reader(opened, stream._on_error)
    plan, record_bytes = opened.plan, opened.dataset.record_bytes
    slab_bytes = min(_SLAB_BYTES, max(1, stream._reading.ahead_bytes_max // 4))
    rows_max = max(1, int(slab_bytes / record_bytes))

    def produce() -> Iterator[Slab]:
        try:
            if first < plan.steps(epoch):
                reader.shelf.begin(plan, epoch, plan.cursor(first, epoch).position)
            coming = stretches(plan, epoch, first, stride, rows_max)
            stretch = next(coming, None)
            while stretch is not None:
                slabs = reader.read(stretch)
                slab = next(slabs)
                # Asked of the order before the slab is handed over: the loop that takes it needs the GIL for its
                # batches, and shall have it while the next rows are copied, not between here and there.
                stretch = next(coming, None)
                yield slab
                yield from slabs
        finally:
            reader.close()

    return produce


def _as_cursor(given: Cursor | State | str | None) -> Cursor | None:
    if given is None or isinstance(given, Cursor):
        return given
    if isinstance(given, str):
        return Cursor.from_json(given)
    if isinstance(given, Mapping):
        return Cursor.from_dict(given)
    raise CursorError(f"{given!r} is no cursor: give the cursor of a batch, its dict or its JSON")
