"""A function over the records or the batches of a stream, run by threads, in order."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tombola._hands import Hands
from tombola._ints import THREADS, Ints, integer
from tombola.errors import InputError, MapError, StreamError
from tombola.plan import Cursor
from tombola.stream._batch import Batch

if TYPE_CHECKING:
    from tombola.stream._stream import Batches, Stream

Per = Literal["record", "batch"]


class MappedBatch:
    """What a function made of the records of a batch: `values`, one for each row, and where the batch stands.

    Iterating, `len` and `[row]` are those of `values`.
    """

    __slots__ = ("_batch", "values")

    def __init__(self, values: list[Any], batch: Batch) -> None:
        self.values = values
        self._batch = batch

    @property
    def records(self) -> Ints:
        """The number in the dataset of each row's record."""
        return self._batch.records

    @property
    def positions(self) -> Ints:
        """The position of the epoch each row comes from."""
        return self._batch.positions

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """False for rows that only pad."""
        return self._batch.mask

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self._batch.epoch

    @property
    def step(self) -> int:
        """The step within the epoch."""
        return self._batch.step

    @property
    def cursor(self) -> Cursor:
        """Where to go on after this batch."""
        return self._batch.cursor

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Any:
        return self.values[row]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __repr__(self) -> str:
        return f"<MappedBatch {self.step} of epoch {self.epoch}: {len(self)} values>"

    def __reduce__(self) -> tuple[Any, ...]:
        # The columns stay behind: what the function made of them is what is wanted.
        bare = Batch({}, self.records, self.positions, self.epoch, self.step, self.mask, self.cursor)
        return MappedBatch, (self.values, bare)


class Mapped:
    """A stream whose records or batches go through a function; made by `Stream.map`.

    Iterating, `records()`, `state_dict`, `load_state_dict`, `set_epoch`, `cursor` and `close` are as those of the
    stream, which must not be iterated over besides.
    """

    def __init__(self, stream: Stream, function: Callable[[Any], Any], per: Per, threads: int | None) -> None:
        if not callable(function):
            raise InputError(f"{function!r} cannot be called; map takes a function")
        if per not in ("record", "batch"):
            raise InputError(f"per is {per!r}; it must be 'record' or 'batch'")
        self.stream = stream
        self._function = function
        self._per: Per = per
        self._threads = THREADS if threads is None else integer(threads, "threads", 0, 1024, InputError)

    def __iter__(self) -> MappedBatches:
        return self._over(iter(self.stream))

    def steps_from(self, epoch: int, step: int, stride: int = 1) -> MappedBatches:
        """The batches of steps step, step + stride, … of an epoch."""
        return self._over(self.stream.steps_from(epoch, step, stride))

    def _over(self, batches: Batches) -> MappedBatches:
        wait = self.stream._reading.wait_seconds_max
        return MappedBatches(batches, self._function, self._per, self._threads, wait)

    def records(self) -> Iterator[Any]:
        """What the function makes of each record of an epoch, without padding."""
        if self._per != "record":
            raise InputError("this stream is mapped per batch; records() needs per='record'")
        for batch in self:
            yield from (value for value, real in zip(batch.values, batch.mask.tolist(), strict=True) if real)

    def __len__(self) -> int:
        return len(self.stream)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self.stream.set_epoch(epoch)

    @property
    def cursor(self) -> Cursor:
        """Where to go on after the last batch that was handed out."""
        return self.stream.cursor

    def state_dict(self) -> dict[str, Any]:
        """The cursor as plain JSON values."""
        return self.stream.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.stream.load_state_dict(state)

    def close(self) -> None:
        """Closes the stream."""
        self.stream.close()

    def __repr__(self) -> str:
        return f"{self.stream!r}.map({_name(self._function)}, per={self._per!r})"


class MappedBatches(Iterator[Any]):
    """The mapped batches of one epoch."""

    def __init__(
        self, batches: Batches, function: Callable[[Any], Any], per: Per, threads: int, wait_seconds_max: float
    ) -> None:
        self._batches = batches
        self._call = _whole if per == "batch" else _each
        self._function = function
        self._wait_seconds_max = wait_seconds_max
        # A batch for each thread, and one more each while their results are being used.
        self._pending_max = 2 * threads
        self._pending: deque[tuple[Batch, list[Future[Any]]]] = deque()
        self._per_record = per == "record"
        self._hands = Hands(threads, "tombola-map") if threads else None
        self._pieces = max(1, threads)
        self._error: BaseException | None = None
        self._turn = threading.Lock()
        batches.tells = False
        if self._hands is not None:
            weakref.finalize(self, self._hands.stop)

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self._batches.epoch

    def __next__(self) -> Any:
        self._batches._check_process()
        with self._turn:
            return self._next()

    def _next(self) -> Any:
        try:
            return self._take()
        except StopIteration:
            self.close()
            raise
        except BaseException:
            self.close()
            self._batches.failed()
            raise

    def _take(self) -> Any:
        if self._hands is None:
            batch = next(self._batches, None)
            if batch is None:
                self._batches.finished()
                raise StopIteration
            result = self._call(self._function, batch)
        else:
            self._fill(self._hands)
            if not self._pending:
                if self._error is not None:
                    raise self._error
                self._batches.finished()
                raise StopIteration
            batch, futures = self._pending.popleft()
            try:
                results = [future.result(self._wait_seconds_max) for future in futures]
            except Late:
                raise StreamError(
                    f"the mapped function did not return within {self._wait_seconds_max:g} s, in batch {batch.step}"
                ) from None
            result = results[0] if not self._per_record else [value for part in results for value in part]
        self._batches.handed(batch.step)
        return MappedBatch(result, batch) if self._per_record else result

    def _fill(self, hands: Hands) -> None:
        while len(self._pending) < self._pending_max and self._error is None:
            try:
                batch = next(self._batches, None)
            except BaseException as error:  # noqa: BLE001  raised in its turn, after the batches before it
                self._error = error
                return
            if batch is None:
                return
            self._pending.append((batch, self._submit(hands, batch)))

    def _submit(self, hands: Hands, batch: Batch) -> list[Future[Any]]:
        if not self._per_record:
            return [hands.submit(_whole, self._function, batch)]
        rows = len(batch)
        cuts = [rows * piece // self._pieces for piece in range(self._pieces + 1)]
        return [
            hands.submit(_each, self._function, batch, start, stop) for start, stop in pairwise(cuts) if stop > start
        ]

    def close(self) -> None:
        """Ends this iteration."""
        if self._hands is not None:
            self._hands.stop()
        self._pending.clear()
        self._batches.close()


def _whole(function: Callable[[Any], Any], batch: Batch) -> Any:
    try:
        return function(batch)
    except Exception as error:
        raise MapError(
            f"{_name(function)} failed in batch {batch.step} of epoch {batch.epoch}: {_said(error)}"
        ) from error


def _each(function: Callable[[Any], Any], batch: Batch, start: int = 0, stop: int | None = None) -> list[Any]:
    out = []
    part = batch if start == 0 and stop is None else batch.rows(start, len(batch) if stop is None else stop)
    for record, row in zip(part.records.tolist(), part, strict=True):
        try:
            out.append(function(row))
        except Exception as error:
            raise MapError(f"{_name(function)} failed at record {record}: {_said(error)}", record=record) from error
    return out


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
