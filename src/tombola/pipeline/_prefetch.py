"""A thread that reads ahead of what is asked for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tombola._hands import Hands
from tombola._ints import integer
from tombola.errors import InputError, StreamError
from tombola.pipeline._step import State, Step
from tombola.pipeline._trail import Trail

_JOIN_SECONDS, _CLOSE_SECONDS = 60.0, 1.0
_END = object()


@dataclass(frozen=True)
class _Pulled:
    records: list[Any]
    error: Exception | None


class _Pulling:
    """What the thread of a prefetch does. The lock is held for a record at a time: a state need not wait for more."""

    def __init__(self, trail: Trail, records: int) -> None:
        # One thread, so one pull at a time.
        self.hands = Hands(1, "tombola-prefetch")
        self.lock = threading.Lock()
        self.ended = False
        self.stopped = False
        self._trail = trail
        self._records = records

    def pull(self, given: int) -> _Pulled:
        """The next records; those before `given` are given out."""
        records: list[Any] = []
        try:
            with self.lock:
                self._trail.forget(given)
            while len(records) < self._records and not self.stopped and not self.ended:
                with self.lock:
                    record = next(self._trail, _END)
                if record is _END:
                    self.ended = True
                else:
                    records.append(record)
        except Exception as error:  # noqa: BLE001  raised by whoever takes the records
            self.ended = True
            return _Pulled(records, error)
        return _Pulled(records, None)

    def stop(self, wait_seconds: float = 0.0) -> bool:
        """Ends the thread after the record it is at; returns whether it has ended."""
        self.stopped = True
        return self.hands.stop(wait_seconds)


class Prefetch(Step):
    """A thread reads ahead."""

    keeps_inputs = True
    reads_again = True
    _pulling: _Pulling | None = None

    def __init__(self, records: int) -> None:
        self.records = integer(records, "prefetch", 1, None, InputError)

    def begin(self) -> None:
        if self._pulling is not None and not self._pulling.stop(_JOIN_SECONDS):
            # Who goes on with the input must be alone with it.
            raise StreamError(
                f"prefetch: the record before was not read to its end within {_JOIN_SECONDS:g} s, so that nothing else "
                f"can be read; something below is stuck"
            )
        self._trail = Trail(self.inputs[0])
        self._first = 0
        self._pulling = _Pulling(self._trail, max(1, self.records // 2))

    def iterate(self) -> Iterator[Any]:
        pulling = self._begun()
        # Two pulls are in the queue so that the thread need not wait for us.
        waiting: deque[Future[_Pulled]] = deque()
        try:
            while True:
                while not pulling.ended and len(waiting) < 2:
                    waiting.append(pulling.hands.submit(pulling.pull, self._first))
                if not waiting:
                    return
                pulled = waiting.popleft().result()
                for record in pulled.records:
                    self._first += 1
                    yield record
                if pulled.error is not None:
                    raise pulled.error
        finally:
            pulling.stop()

    def close(self) -> None:
        # Not for long: a source may be stuck in a read that nothing can break off, and Ctrl-C must end the program.
        if self._pulling is not None:
            self._pulling.stop(_CLOSE_SECONDS)

    def _begun(self) -> _Pulling:
        if self._pulling is None:
            raise StreamError("prefetch was not begun; a step is begun by the chain it is part of")
        return self._pulling

    def state(self) -> State:
        with self._begun().lock:
            return self._trail.at(self._first)

    def load(self, state: State) -> None:
        self._trail.go(state)
        self._first = self._trail.number

    def held(self) -> int:
        return self.records

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return inputs[0]

    def describe(self) -> str:
        return "prefetch"  # how far ahead changes no order
