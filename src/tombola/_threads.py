"""Threads that never keep the interpreter from ending, and are ended before it does."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from typing import Any

_END_SECONDS = 5.0
_running: dict[threading.Thread, Callable[[], object]] = {}


def start(name: str, stop: Callable[[], object], target: Callable[..., object], *arguments: Any) -> threading.Thread:
    """Starts a thread that runs `target`; `stop` is called at the interpreter's end to make it return.

    A daemon: a thread that is stuck in a network file system must not turn Ctrl-C into a hang. But one that comes back
    from native code into an interpreter that is being taken down is killed there in the middle of anything, so at
    the end threads are asked to return, and waited for a while.
    """
    thread = threading.Thread(target=_run, args=(target, arguments), name=name, daemon=True)
    _running[thread] = stop
    try:
        thread.start()
    except RuntimeError:  # the system gives no more threads
        del _running[thread]
        raise
    return thread


def _run(target: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    try:
        target(*arguments)
    finally:
        del arguments
        _running.pop(threading.current_thread(), None)


@atexit.register
def _end_all() -> None:
    running = list(_running.items())
    for _, stop in running:
        stop()
    until = time.monotonic() + _END_SECONDS
    for thread, _ in running:
        thread.join(max(0.0, until - time.monotonic()))


if hasattr(os, "register_at_fork"):
    # In a child none of them exists.
    os.register_at_fork(after_in_child=_running.clear)
