"""An epoch of a pipeline being read by one consumer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tombola.errors import InputError, StateError
from tombola.pipeline._even import Count, Even, counted, together
from tombola.pipeline._share import Share, lengths_of, records_given, records_left
from tombola.pipeline._state import state_head
from tombola.pipeline._step import Node
from tombola.plan import World

_END = object()


@dataclass(frozen=True)
class Dealing:
    """Who reads how much: the same for a whole chain."""

    readers: int | None = None
    world: World | None = None
    even: Even = False
    group: Any = None


class Reading:
    """The records of an epoch, from its beginning or a state on, and the state after each of them.

    consumer
        Its number, and how many there are.
    begun
        Whether anything was asked for: only then is the next iteration another epoch.
    """

    def __init__(
        self,
        node: Node,
        dealing: Dealing,
        consumer: tuple[int, int],
        readers: int,
        epoch: int,
        loaded: Mapping[str, Any] | None,
    ) -> None:
        self.epoch = epoch
        self.begun = False
        self._node = node
        self._dealing = dealing
        self._consumer = consumer
        self._readers = readers
        self._loaded = loaded
        self._done = False
        self._failed: BaseException | None = None
        self._share: Share | None = None
        self._count: Count | None = None

    def records(self) -> Iterator[Any]:
        """The records, once. Not kept here: when whoever reads lets go of them, files are closed and threads end."""
        self.begun = True
        try:
            records = self._epoch_records()
            resumed = self._loaded is not None and self._consumer[1] == 1
            first = next(records, _END) if resumed else _END
            if first is not _END:
                resumed = False
                yield first
            yield from records
            if resumed:
                # The state was taken after the last record, before anyone could know that it was the last.
                self._close()
                self.epoch, self._loaded = self.epoch + 1, None
                yield from self._epoch_records()
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failed = error
            raise
        finally:
            self._close()
        self._done = True

    def _epoch_records(self) -> Iterator[Any]:
        share = Share(self._node, self.epoch, self._readers, *self._consumer)
        if self._loaded is not None:
            share.load(self._loaded["parts"])
        self._count = None if self._dealing.even is False else Count(self._agreed())
        self._share = share
        records = iter(share)
        if self._dealing.group is not None:
            return together(records, self._dealing.group)
        return records if self._count is None else counted(records, self._count)

    def _close(self) -> None:
        if self._share is not None:
            self._share.close()

    def _agreed(self) -> int:
        """How many records each consumer has to come."""
        loaded, count = self._loaded, self._consumer[1]
        if loaded is not None and not loaded["merged"] and loaded["left"] is not None:
            return int(loaded["left"])
        parts = None if loaded is None else loaded["parts"]
        if self._dealing.even is not True:
            # What others had given out before the world changed counts for all.
            return max(0, (int(self._dealing.even) * count - records_given(parts)) // count)
        lengths = lengths_of(self._node, self.epoch, self._readers)
        if lengths is None:
            raise InputError(
                f"even=True, but how many records come out of {self._node.describe()[-1]} is not known before they are "
                f"read: give the lengths of the source, even=COUNT if you know how many each rank and worker can give, "
                f"or group=, a process group of torch"
            )
        return min(records_left(parts, lengths, one, count) for one in range(count))

    def state(self) -> dict[str, Any]:
        """The place after the last record that came out."""
        if self._failed is not None:
            raise StateError(
                f"this iteration ended with an error, {type(self._failed).__name__}, in the midst of a record: there "
                f"is no place after it. Go on from a state that was taken before"
            )
        if self._share is None:
            return dict(self._loaded or state_head(self._node, self.epoch, self._readers))
        if self._done and self._consumer[1] == 1:
            return state_head(self._node, self.epoch + 1, self._readers)
        return {
            **state_head(self._node, self.epoch, self._readers),
            "consumer": list(self._consumer),
            "left": None if self._count is None else self._count.left,
            "done": self._done,
            "parts": self._share.parts(),
        }
