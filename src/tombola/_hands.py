"""A few threads that open shards or run a user's function."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tombola._threads import start

_Result = TypeVar("_Result")
_Task = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Hands:
    """Threads and a queue. Unlike an executor's, they never keep the interpreter from ending."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads_max = threads
        self._name = name
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stopped = False

    def submit(self, call: Callable[..., _Result], *arguments: Any) -> Future[_Result]:
        """Puts a call in the queue."""
        future: Future[Any] = Future()
        with self._lock:
            if self._stopped:
                future.cancel()
                return future
            if len(self._threads) < self._threads_max:
                tasks = self._tasks
                # The thread knows only the queue, so that it ends with whoever dropped this without a `stop`.
                weakref.finalize(self, _end, tasks, 1).atexit = False
                self._threads.append(start(self._name, lambda: _end(tasks, 1), _work, tasks))
        self._tasks.put((future, call, arguments))
        return future

    def stop(self, wait_seconds: float = 0.0) -> bool:
        """What has not begun is cancelled; the threads end after what they are at. Returns whether they have."""
        with self._lock:
            stopped, self._stopped = self._stopped, True
        if not stopped:
            _end(self._tasks, len(self._threads))
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        for thread in others:
            if wait_seconds:
                thread.join(wait_seconds)
        return not any(thread.is_alive() for thread in others)


def _end(tasks: queue.SimpleQueue[_Task | None], threads: int) -> None:
    """Cancels what has not begun and tells so many threads to end."""
    ended = 0
    try:
        while True:
            task = tasks.get_nowait()
            if task is None:
                ended += 1
            else:
                task[0].cancel()
    except queue.Empty:
        pass
    for _ in range(threads + ended):
        tasks.put(None)


def _work(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        future, call, arguments = task
        if not future.set_running_or_notify_cancel():
            continue
        try:
            result = call(*arguments)
        except BaseException as error:  # noqa: BLE001  handed to whoever waits, whatever it is
            future.set_exception(error)
            del error
        else:
            future.set_result(result)
            del result
        del task, future, call, arguments
