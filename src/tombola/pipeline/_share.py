"""What one consumer reads of all logical readers, and the state of that.

Record j of logical reader r, of L, has the number g = j·L + r. Consumer q of Q (rank + ranks · worker) is given the
records with g ≡ q (mod Q), the lowest first: every stride-th record, stride = Q ÷ gcd(L, Q), of every gcd(L, Q)-th
reader. Where Q divides L, as at the first run, these are whole readers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from tombola import _core
from tombola.errors import StateError, TombolaError
from tombola.pipeline._step import Context, Deal, Node, Run

_END = object()


class Line:
    """What a consumer takes of one reader: the records first, first + stride, …

    upto
        The next of them; all before it are given out.
    beyond
        Those from `upto` on that other consumers had given out before a change of the world.
    pulled
        How many records have come out of the chain.
    """

    __slots__ = ("beyond", "ended", "first", "pulled", "reader", "run", "stride", "upto", "whole")

    def __init__(self, node: Node, epoch: int, reader: int, readers: int, first: int, stride: int) -> None:
        self.reader = reader
        self.first = first
        self.stride = stride
        self.upto = first
        self.beyond: frozenset[int] = frozenset()
        self.pulled = 0
        self.ended = False
        #: Where all records of the reader are given out as they come.
        self.whole: _core.Counted | None = None
        # With a stride others read it too, and each must count the same records.
        self.run = Run(node, replace(reader_context(reader, readers, epoch), in_order=stride > 1))

    def take(self) -> Any:
        """The next record that is mine."""
        iterator = self.run.iterator
        while self.pulled < self.upto:
            if next(iterator, _END) is _END:
                return self._end()
            self.pulled += 1
        record = next(iterator, _END)
        if record is _END:
            return self._end()
        self.pulled += 1
        self.go_on()
        return record

    def go_on(self) -> None:
        """The record at `upto` is given out."""
        self.upto += self.stride
        while self.upto in self.beyond:
            self.upto += self.stride

    def _end(self) -> Any:
        self.ended = True
        return _END

    def part(self) -> dict[str, Any]:
        """The state."""
        if self.whole is not None:
            self.upto = self.pulled = self.whole.count
        return {
            "reader": self.reader,
            "own": [self.stride, self.first],
            "upto": self.upto,
            "beyond": sorted(one for one in self.beyond if one >= self.upto),
            "pulled": self.pulled,
            "ended": self.ended,
            "chain": None if self.ended else self.run.state(),
        }

    def load(self, part: Mapping[str, Any]) -> None:
        """Go on from a state that covers what is mine."""
        stride, first = part["own"]
        if self.stride % stride or self.first % stride != first:
            raise StateError(
                "the state is that of one rank or worker of several, and there are others now: give the states of all "
                "of them to tombola.pipeline.merge_states, and load what it returns"
            )
        self.beyond = frozenset(part["beyond"])
        self.upto = part["upto"] + (self.first - part["upto"]) % self.stride
        while self.upto in self.beyond:
            self.upto += self.stride
        self.ended = part["ended"]
        self.pulled = part["pulled"]
        if not self.ended:
            self.run.load(part["chain"])


def reader_context(reader: int, readers: int, epoch: int) -> Context:
    """The place of a logical reader."""
    ops = (Deal(reader, readers),) if readers > 1 else ()
    return Context(reader=reader, readers=readers, epoch=epoch, ops=ops, sharers=readers)


def claims(readers: int, number: int, count: int) -> list[tuple[int, int, int]]:
    """(reader, first, stride) of what a consumer of `count` takes of each reader.

    >>> claims(4, 1, 2)
    [(1, 0, 1), (3, 0, 1)]
    >>> claims(2, 1, 4), claims(2, 3, 4)
    ([(1, 0, 2)], [(1, 1, 2)])
    """
    shared = gcd(readers, count)
    stride = count // shared
    turn = pow(readers // shared, -1, stride) if stride > 1 else 0
    mine = range(number % shared, readers, shared)
    return [(reader, (number - reader) // shared * turn % stride, stride) for reader in mine]


class Share:
    """A consumer's records of an epoch, and its place there."""

    def __init__(self, node: Node, epoch: int, readers: int, number: int, count: int) -> None:
        self.readers = readers
        self.lines = [
            Line(node, epoch, reader, readers, first, stride)
            for reader, first, stride in claims(readers, number, count)
        ]

    def load(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Go on from a state, which may be damaged."""
        try:
            self._load(parts)
        except TombolaError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"the state is damaged, or a step cannot go on from it: {error!r}") from error

    def _load(self, parts: Sequence[Mapping[str, Any]]) -> None:
        by_reader = {part["reader"]: part for part in parts}
        for line in self.lines:
            if line.reader not in by_reader:
                raise StateError(
                    f"the state has no word of reader {line.reader} of {self.readers}, which is read here now: give "
                    f"the states of all ranks and workers to tombola.pipeline.merge_states, and load what it returns"
                )
            line.load(by_reader[line.reader])

    def parts(self) -> list[dict[str, Any]]:
        """The state."""
        return [line.part() for line in self.lines]

    def __iter__(self) -> Iterator[Any]:
        live = [line for line in self.lines if not line.ended]
        if len(live) == 1 and live[0].stride == 1 and not live[0].beyond and live[0].pulled == live[0].upto:
            return self._whole(live[0])
        return self._by_turns(live)

    def _whole(self, line: Line) -> Iterator[Any]:
        """The fast way of the common case: all records of one reader."""
        line.whole = _core.Counted(line.run.iterator, line.upto)
        yield from line.whole
        line.ended = True

    def _by_turns(self, live: list[Line]) -> Iterator[Any]:
        """The slow twin: the lowest number next."""
        readers = self.readers
        queue = [(line.upto * readers + line.reader, line) for line in live]
        heapq.heapify(queue)
        while queue:
            line = queue[0][1]
            record = line.take()
            if record is _END:
                heapq.heappop(queue)
                continue
            # Numbers are all different, so lines are never compared.
            heapq.heapreplace(queue, (line.upto * readers + line.reader, line))
            yield record

    def close(self) -> None:
        """End threads and processes."""
        for line in self.lines:
            line.run.close()


def lengths_of(node: Node, epoch: int, readers: int) -> list[int] | None:
    """How many records each reader has, where that is known of all of them."""
    lengths = [node.length(reader_context(reader, readers, epoch)) for reader in range(readers)]
    known = [one for one in lengths if one is not None]
    return known if len(known) == readers else None


def records_given(parts: Sequence[Mapping[str, Any]] | None) -> int:
    """How many records all consumers have had, by a state of all of them."""
    return sum(part["upto"] + len(part["beyond"]) for part in parts or ())


def records_left(parts: Sequence[Mapping[str, Any]] | None, lengths: Sequence[int], number: int, count: int) -> int:
    """How many records a consumer has to come, by a state of all of them; None for the beginning."""
    by_reader = {part["reader"]: part for part in parts or ()}
    left = 0
    for reader, first, stride in claims(len(lengths), number, count):
        part = by_reader.get(reader, {"upto": 0, "beyond": ()})
        start = part["upto"] + (first - part["upto"]) % stride
        left += len(range(start, lengths[reader], stride))
        left -= sum(1 for one in part["beyond"] if one >= start and one % stride == first)
    return left


def merged_parts(parts: Sequence[Mapping[str, Any]], readers: int) -> list[dict[str, Any]]:
    """The parts of all consumers as one of each reader."""
    by_reader: dict[int, list[Mapping[str, Any]]] = {}
    for part in parts:
        by_reader.setdefault(part["reader"], []).append(part)
    return [_merged(reader, by_reader.get(reader, [])) for reader in range(readers)]


def _merged(reader: int, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    owned = {tuple(part["own"]): part for part in parts}
    strides = {stride for stride, _ in owned}
    if len(owned) != len(parts):
        raise StateError(f"reader {reader} is in two of the states: give the state of each rank and worker once")
    if len(strides) != 1 or len(owned) != next(iter(strides), 0):
        raise StateError(
            f"the states say of reader {reader} only {len(owned)} of {max(strides, default=1)} shares: give the states "
            f"of all ranks and workers, taken at the same step"
        )
    # The least of what is given out is known to all; what others are ahead is noted one by one.
    upto = min(part["upto"] for part in parts)
    beyond: set[int] = set()
    for (stride, first), part in owned.items():
        beyond.update(one for one in part["beyond"] if one >= upto)
        beyond.update(range(upto + (first - upto) % stride, part["upto"], stride))
    ended = all(part["ended"] for part in parts)
    least = min((part for part in parts if not part["ended"]), key=lambda part: part["pulled"], default=parts[0])
    return {
        "reader": reader,
        "own": [1, 0],
        "upto": upto,
        "beyond": sorted(beyond),
        "pulled": least["pulled"],
        "ended": ended,
        "chain": None if ended else least["chain"],
    }
