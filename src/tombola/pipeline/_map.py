"""Functions over records by threads, processes or an event loop, and over batches of them."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import os
import pickle
import reprlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import wait as wait_for
from typing import Any, Protocol

from tombola._hands import Hands
from tombola._ints import integer
from tombola._threads import start
from tombola.errors import InputError, MapError
from tombola.pipeline._step import State, Step, describe_value
from tombola.pipeline._steps import (
    as_columns,
    as_rows,
    check_function,
    check_names,
    describe_names,
    function_failed,
    gave_nothing,
    merged,
)
from tombola.pipeline._trail import Trail

#: Records that go to a process at once, where the function takes single ones: a hand-over costs about 0.1 ms.
_TOGETHER = 16
_ASYNC_AT_ONCE = 64


@dataclass(frozen=True)
class _Work:
    """A function, and which columns of a record are left out of what it makes of it."""

    function: Callable[[Any], Any]
    without: tuple[str, ...]


class Doer(Protocol):
    """Whoever runs the function over a few units."""

    def submit(self, work: _Work, rows: list[Any]) -> Future[Any]:
        """Begins."""

    def stop(self) -> None:
        """Ends threads and processes."""


class _Here:
    """Nobody else: the function runs when it is submitted."""

    def submit(self, work: _Work, rows: list[Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(_run(work, rows))
        return future

    def stop(self) -> None:
        pass


class _Threads:
    def __init__(self, threads: int) -> None:
        self._hands = Hands(threads, "tombola-map")

    def submit(self, work: _Work, rows: list[Any]) -> Future[Any]:
        return self._hands.submit(_run, work, rows)

    def stop(self) -> None:
        self._hands.stop()


class _Processes:
    def __init__(self, processes: int) -> None:
        # Not forked: a fork copies locks that other threads hold at that moment, for ever.
        way = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._pool = ProcessPoolExecutor(processes, multiprocessing.get_context(way), initializer=_begin_process)
        self._last: deque[Future[Any]] = deque()

    def submit(self, work: _Work, rows: list[Any]) -> Future[Any]:
        try:
            future = self._pool.submit(_run_there, work, rows)
        except (BrokenProcessPool, RuntimeError) as error:  # of a pool that was stopped
            future = Future()
            future.set_exception(error)
            return future
        while self._last and self._last[0].done():
            self._last.popleft()
        self._last.append(future)
        return future

    def stop(self) -> None:
        if not all(future.done() for future in self._last):
            # Nobody wants what they are at: waiting for it would keep the interpreter from ending.
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=False)


def _begin_process() -> None:
    """Ctrl-C goes to every process of a terminal: the one that reads ends the others. So does its death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), name="tombola-parent", daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = loop = asyncio.new_event_loop()
        self._stopped = False
        start("tombola-async", lambda: loop.call_soon_threadsafe(loop.stop), _run_loop, loop)

    def submit(self, work: _Work, rows: list[Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(_run_async(work, rows), self._loop)

    def stop(self) -> None:
        # Once: a second stop would break off the ending of what is at work.
        if not self._stopped and not self._loop.is_closed():
            self._stopped = True
            self._loop.call_soon_threadsafe(self._loop.stop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()


@dataclass
class _Failed:
    """Where in the rows a function failed."""

    at: int
    error: Exception


def _run(work: _Work, rows: list[Any]) -> tuple[list[Any], _Failed | None]:
    out: list[Any] = []
    try:
        for row in rows:
            out.append(merged(row, work.function(row), work.without))
    except Exception as error:  # noqa: BLE001  handed to whoever waits, with the record's number
        return out, _Failed(len(out), error)
    return out, None


def _run_there(work: _Work, rows: list[Any]) -> tuple[list[Any], _Failed | None]:
    """In another process, from where not every error can be sent: one that breaks on the way would break the pool."""
    out, failed = _run(work, rows)
    if failed is not None:
        try:
            pickle.loads(pickle.dumps(failed.error))
        except Exception:  # noqa: BLE001  whatever an error's own code raises
            failed = _Failed(failed.at, RuntimeError(f"{type(failed.error).__name__}: {failed.error}"))
    return out, failed


async def _run_async(work: _Work, rows: list[Any]) -> tuple[list[Any], _Failed | None]:
    out: list[Any] = []
    try:
        for row in rows:
            out.append(merged(row, await work.function(row), work.without))
    except Exception as error:  # noqa: BLE001  handed to whoever waits, with the record's number
        return out, _Failed(len(out), error)
    return out, None


@dataclass(eq=False)
class _Unit:
    """Some records of the input, at work or done."""

    number: int  # of the first of them
    records: int
    rows: list[Any]  # what the function is called with, one by one
    future: Future[Any] = field(default_factory=Future)


class MapMany(Step):
    """A function over records or batches, some at a time."""

    keeps_inputs = True
    reads_again = True
    _doer: Doer | None = None

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        batched: bool,
        batch_size: int,
        drop_last_batch: bool,
        threads: int,
        processes: int,
        ahead: int | None,
        ordered: bool,
        remove_columns: Any,
    ) -> None:
        self._function = check_function(function, "map")
        self._without = check_names(remove_columns)
        self.batched = bool(batched)
        self.batch_size = integer(batch_size, "batch_size", 1, None, InputError) if batched else None
        self.drop_last_batch = bool(drop_last_batch)
        self._threads = integer(threads, "threads", 0, 1024, InputError)
        self._processes = integer(processes, "processes", 0, 1024, InputError)
        self.ordered = bool(ordered)
        self._async = inspect.iscoroutinefunction(function)
        if self._threads and self._processes:
            raise InputError("map was given threads and processes; choose one of them")
        if self._async and (self._threads or self._processes):
            raise InputError(
                "an async function runs in an event loop: give map neither threads nor processes, but ahead"
            )
        if self._processes:
            _check_sendable(function)
        # The records of a unit: where they begin is part of a state taken out of order.
        self._unit = self.batch_size or (_TOGETHER if self._processes else 1)
        workers = self._threads or self._processes
        usual = 2 * workers * self._unit if workers else _ASYNC_AT_ONCE * self._unit if self._async else self._unit
        self._ahead = usual if ahead is None else integer(ahead, "ahead", 1, None, InputError)

    def begin(self) -> None:
        self._trail = Trail(self.inputs[0])
        self._first = 0  # the number of the first record of the first unit that is not all given out
        self._item = 0  # how many results of the unit at work are given out
        self._at = 0  # the number of that unit
        self._given: set[int] = set()  # out of order: units after the first that are given out

    def iterate(self) -> Iterator[Any]:
        self._doer = doer = self._hire()
        try:
            yield from self._iterate(doer)
        finally:
            doer.stop()

    def close(self) -> None:
        # A prefetch above may be waiting in another thread for what is at work here.
        if self._doer is not None:
            self._doer.stop()

    def _iterate(self, doer: Doer) -> Iterator[Any]:
        work = _Work(self._function, self._without)
        window: deque[_Unit] = deque()
        units = max(1, self._ahead // self._unit)
        ended = False
        while True:
            while not ended and (len(window) < units or self._is_missing(window)):
                unit = self._next_unit()
                ended = unit is None
                if unit is None:
                    break
                if unit.number in self._given:
                    self._pass_by(unit)
                    continue
                unit.future = doer.submit(work, unit.rows)
                window.append(unit)
            if not window:
                return
            unit = self._finished(window)
            yield from self._results(unit)
            window.remove(unit)
            self._done(unit, window)

    def _pass_by(self, unit: _Unit) -> None:
        """Notes that a unit is read whose results were given out before the state was taken."""
        if unit.number == self._first:
            self._given.discard(unit.number)
            self._first = self._at = self._trail.number

    def _is_missing(self, window: deque[_Unit]) -> bool:
        """Whether the unit that is half given out, by a state, is not yet at work again."""
        return bool(self._item) and all(unit.number != self._at for unit in window)

    def _hire(self) -> Doer:
        if self._processes and multiprocessing.current_process().daemon:
            raise InputError(
                "map(processes=…) cannot start processes here: this is a worker process of a loader itself. Use "
                "threads, or a loader without workers"
            )
        if self._threads:
            return _Threads(self._threads)
        if self._processes:
            return _Processes(self._processes)
        return _Loop() if self._async else _Here()

    def _next_unit(self) -> _Unit | None:
        trail = self._trail
        number = trail.number
        rows = list(islice(trail, self._unit))
        if not rows or (self.drop_last_batch and len(rows) < self._unit):
            return None
        return _Unit(number, len(rows), [as_columns(rows, self.describe(), number)] if self.batched else rows)

    def _finished(self, window: deque[_Unit]) -> _Unit:
        """The next unit whose results come out."""
        if not self.ordered and not self.context.in_order and self._item == 0:
            wait([unit.future for unit in window], return_when=FIRST_COMPLETED)
            unit = next(unit for unit in window if unit.future.done())
        else:
            unit = next((unit for unit in window if unit.number == self._at), window[0])
        self._at = unit.number
        return unit

    def _results(self, unit: _Unit) -> Iterator[Any]:
        try:
            out, failed = unit.future.result()
        except BrokenProcessPool as error:
            raise MapError(
                f"{self.describe()}: a worker process died at one of the records {unit.number} to "
                f"{unit.number + unit.records - 1} of this run, or shortly before ({error}); it may have been killed "
                f"for want of memory: use fewer processes",
                record=unit.number,
            ) from error
        except Exception as error:
            # Not of the function, whose errors come as results: records that cannot be sent.
            raise MapError(
                f"{self.describe()}: one of the records {unit.number} to {unit.number + unit.records - 1} of this run, "
                f"or what became of it, could not be sent to or from a worker ({type(error).__name__}: {error})",
                record=unit.number,
            ) from error
        rows = self._rows(unit, out)
        for row in islice(rows, self._item, None):
            self._item += 1
            yield row
        if failed is not None:
            number = unit.number + failed.at
            raise function_failed(self.describe(), number, unit.rows[failed.at], failed.error) from failed.error

    def _rows(self, unit: _Unit, out: list[Any]) -> Iterator[Any]:
        for at, value in enumerate(out):
            if value is None:
                raise gave_nothing(self.describe(), unit.number + at, unit.rows[at])
            if not self.batched:
                yield value
            elif isinstance(value, (str, bytes)) or not isinstance(value, (Mapping, Sequence)):
                raise MapError(
                    f"{self.describe()} returned {reprlib.repr(value)} for the batch that begins at record "
                    f"{unit.number} of this run; return a dict of lists, or a list of records",
                    record=unit.number,
                )
            else:
                yield from as_rows(
                    value, f"{self.describe()}, the batch that begins at record {unit.number}", unit.number
                )

    def _done(self, unit: _Unit, window: deque[_Unit]) -> None:
        """Notes that all results of a unit are given out."""
        self._item = 0
        if unit.number != self._first:
            self._given.add(unit.number)
            return
        waiting = {one.number for one in window}
        self._first = min(waiting, default=self._trail.number)
        self._given = {number for number in self._given if number >= self._first}
        self._at = self._first
        self._trail.forget(self._first)

    def state(self) -> State:
        given = sorted(number - self._first for number in self._given)
        return [self._at - self._first, self._item, given, self._trail.at(self._first)]

    def load(self, state: State) -> None:
        at, self._item, given, place = state
        self._trail.go(place)
        self._first = self._trail.number
        self._at = self._first + at
        self._given = {self._first + number for number in given}

    def held(self) -> int:
        return self._ahead

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return None if self.batched else inputs[0]

    def describe(self) -> str:
        words = [describe_value(self._function) + describe_names(self._without)]
        if self.batched:
            words.append(f"batched=True, batch_size={self.batch_size}")
            words += ["drop_last_batch=True"] if self.drop_last_batch else []
        if not self.ordered:
            # Where the units begin is part of such a state.
            words.append(f"ordered=False, unit={self._unit}")
        return f"map({', '.join(words)})"


def _check_sendable(function: Callable[..., Any]) -> None:
    try:
        pickle.dumps(function)
    except Exception as error:
        raise InputError(
            f"map(processes=…) cannot send {describe_value(function)} to another process ({error}): give a function of "
            f"a module, neither a lambda nor one made inside a function"
        ) from error
