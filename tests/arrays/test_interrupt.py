"""Ctrl-C in the middle of a shuffle: the rows are all there, and none is torn."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

import tombola


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raises KeyboardInterrupt once so much processor time has been used, as a signal handler does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def holds_every_row(numbers: np.ndarray) -> bool:
    seen = np.zeros(len(numbers), bool)
    seen[numbers] = True
    return bool(seen.all())


@pytest.mark.parametrize(("method", "threads"), [("exact", 1), ("exact", 2), ("exact_gpu1", 2), ("pov", 2)])
def test_every_row_is_there(method: str, threads: int) -> None:
    n = 12_000_000
    x = np.repeat(np.arange(n, dtype=np.uint32)[:, None], 2, axis=1)
    with interrupted_after(0.12):
        for seed in range(100):
            tombola.shuffle(x, seed=seed, method=method, threads=threads)
    assert np.array_equal(x[:, 0], x[:, 1])
    assert holds_every_row(x[:, 0])


def test_unison_stays_in_step() -> None:
    n = 3_000_000
    x, y = np.arange(n, dtype=np.uint32), np.arange(n, dtype=np.uint64)
    with interrupted_after(0.15):
        for seed in range(100):
            tombola.shuffle((x, y), seed=seed)
    assert np.array_equal(x, y)
    assert holds_every_row(x)
