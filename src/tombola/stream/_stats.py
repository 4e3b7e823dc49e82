"""What a stream has done so far."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Substitution:
    """A record that could not be read, and the one that was given in its place (on_error="skip")."""

    epoch: int
    position: int
    record: int
    substitute: int
    reason: str


@dataclass(frozen=True)
class Stats:
    """Counters since the stream was made, in this process."""

    #: Batches, rows and bytes of columns that were handed out.
    batches: int
    records: int
    bytes: int
    #: Shards opened so far, and held open now.
    shards_opened: int
    shards_open: int
    #: Seconds that `next` had to wait for a batch.
    wait_seconds: float
    #: Bytes of batches that are ready.
    ahead_bytes: int
    #: Records that could not be read and were replaced.
    skipped: int
    #: The last of them, 100 at most.
    substitutions: tuple[Substitution, ...]
    #: What ended an epoch early with on_error="stop".
    stopped_by: BaseException | None


class Counters:
    """Numbers that several threads add to."""

    _KEPT = 100

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = {}
        self._substitutions: list[Substitution] = []
        self.stopped_by: BaseException | None = None

    def add(self, **amounts: float) -> None:
        """Adds to counters by name."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] = self._values.get(name, 0) + amount

    def substituted(self, substitution: Substitution) -> None:
        """Counts a substitution and keeps it among the last."""
        with self._lock:
            self._values["skipped"] = self._values.get("skipped", 0) + 1
            self._substitutions = [*self._substitutions[-self._KEPT + 1 :], substitution]

    def stats(self, ahead_bytes: int) -> Stats:
        """The counters as they stand."""
        with self._lock:
            values: dict[str, Any] = dict(self._values)
            kept = tuple(self._substitutions)
        whole = ("batches", "records", "bytes", "shards_opened", "shards_open", "skipped")
        numbers = {name: int(values.get(name, 0)) for name in whole}
        return Stats(
            **numbers,
            wait_seconds=float(values.get("wait_seconds", 0.0)),
            ahead_bytes=ahead_bytes,
            substitutions=kept,
            stopped_by=self.stopped_by,
        )
