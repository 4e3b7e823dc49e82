"""Batches made ahead of their use by a thread, and handed over within a bound of bytes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Generic, Protocol, TypeVar

from tombola._threads import start
from tombola.errors import StreamError

# How long a wait lasts before it looks round: only a net under the wake-ups.
_LOOK_SECONDS = 1.0
_JOIN_SECONDS = 5.0


class Sized(Protocol):
    """What has a number of bytes."""

    nbytes: int


_Item = TypeVar("_Item", bound=Sized)


class Ahead(Generic[_Item]):
    """One thread makes items, one takes them. The maker waits while `bytes_max` bytes are waiting, one item apart.

    An error of the maker comes out of `take`, after the items before it. Whoever drops the last reference to the taking
    side must call `stop`.
    """

    def __init__(self, make: Callable[[], Iterator[_Item]], bytes_max: int, wait_seconds_max: float) -> None:
        self._state = _State[_Item](bytes_max)
        self._wait_seconds_max = wait_seconds_max
        self._thread = start("tombola-ahead", self._state.stop, _make, self._state, make)

    @property
    def nbytes(self) -> int:
        """Bytes of the items that wait."""
        return self._state.nbytes

    def take(self) -> _Item | None:
        """The next item; None when there are no more."""
        state = self._state
        with state.changed:
            if not state.items and not state.done:
                self._wait()
            if state.items:
                item = state.items.popleft()
                state.nbytes -= item.nbytes
                state.changed.notify_all()
                return item
            if state.error is not None:
                error, state.error = state.error, None
                raise error
            if state.stopped:
                raise StreamError("the stream was closed while it was read")
            return None

    def _wait(self) -> None:
        state, until = self._state, time.monotonic() + self._wait_seconds_max
        while not state.items and not state.done and not state.stopped:
            left = until - time.monotonic()
            if left <= 0:
                raise StreamError(
                    f"no batch came within {self._wait_seconds_max:g} s: is the file system there? "
                    f"Raise wait_seconds_max if batches may take longer"
                )
            state.changed.wait(min(left, _LOOK_SECONDS))
            if not self._thread.is_alive() and not state.done and not state.items:
                raise StreamError("the thread that reads ahead is gone: the stream is used in a forked process")

    def stop(self, wait_seconds: float = _JOIN_SECONDS) -> None:
        """Ends the thread; it is waited for, but not for ever."""
        self._state.stop()
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(wait_seconds)


class _State(Generic[_Item]):
    """What both sides share. The thread knows only this, so that dropping the taking side can stop it."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.changed = threading.Condition()
        self.items: deque[_Item] = deque()
        self.nbytes = 0
        self.done = False
        self.stopped = False
        self.error: BaseException | None = None

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.items.clear()
            self.nbytes = 0
            self.changed.notify_all()

    def put(self, item: _Item) -> bool:
        """Hands an item over; False when nobody wants it any more."""
        with self.changed:
            while self.items and self.nbytes + item.nbytes > self.bytes_max and not self.stopped:
                self.changed.wait(_LOOK_SECONDS)
            if self.stopped:
                return False
            self.items.append(item)
            self.nbytes += item.nbytes
            self.changed.notify_all()
            return True

    def end(self, error: BaseException | None) -> None:
        with self.changed:
            self.done = True
            self.error = error
            self.changed.notify_all()


def _make(state: _State[_Item], make: Callable[[], Iterator[_Item]]) -> None:
    try:
        with closing(make()) as items:  # type: ignore[type-var]
            for item in items:
                if not state.put(item):
                    break
    except BaseException as error:  # noqa: BLE001  handed to the thread that waits, whatever it is
        state.end(error)
    else:
        state.end(None)
