"""A few threads that open shards or run a user's function."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_Task = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Hands:
    """Daemon threads and a queue. Unlike an executor's, they never keep the interpreter from ending: a thread that is
    stuck in a network file system must not turn Ctrl-C into a hang.
    """

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
                # The thread knows only the queue: it must not keep alive who waits for it.
                thread = threading.Thread(target=_work, args=(self._tasks,), name=self._name, daemon=True)
                thread.start()
                self._threads.append(thread)
        self._tasks.put((future, call, arguments))
        return future

    def stop(self, wait_seconds: float = 0.0) -> None:
        """What has not begun is cancelled; the threads end after what they are at."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        try:
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    task[0].cancel()
        except queue.Empty:
            pass
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            if wait_seconds and thread is not threading.current_thread():
                thread.join(wait_seconds)


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
