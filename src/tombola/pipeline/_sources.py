"""Where records come from: shards, each of which is read from its beginning or from a place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np

from tombola import _core
from tombola._ints import integer
from tombola.errors import DataError, InputError, StateError, TombolaError
from tombola.order import Permutation
from tombola.pipeline._step import Context, Deal, Permute, State, Step, deals, describe_value


class Source(Step):
    """Records in shards. Subclass it for a source of your own: `shards` and `open`, and `lengths` where they are known.

    >>> from tombola.pipeline import Pipeline, Source
    >>> class Squares(Source):
    ...     def shards(self):
    ...         return 2
    ...     def open(self, shard, place):
    ...         return (n * n for n in range(shard * 4 + place, shard * 4 + 4))
    >>> list(Pipeline(Squares()))
    [0, 1, 4, 9, 16, 25, 36, 49]
    """

    def shards(self) -> int:
        """How many shards there are."""
        raise NotImplementedError(f"{type(self).__name__} has no shards method")

    def open(self, shard: int, place: Any) -> Iterator[Any]:
        """The records of a shard: from its beginning where the place is 0, else from a place that `place` gave."""
        raise NotImplementedError(f"{type(self).__name__} has no open method")

    def place(self, records: Iterator[Any], count: int) -> Any:
        """Where in its shard an opened iterator stands, as plain JSON; `count` records were read from the shard."""
        return count

    def lengths(self) -> Sequence[int] | None:
        """Records per shard, where known."""
        return None

    def name(self, shard: int) -> str:
        """A shard, for a message."""
        return f"shard {shard}"

    # ---- the reading

    def begin(self) -> None:
        self._list, self._stride = _dealt_shards(self.shards(), self.context)
        self._width = max(1, self.context.input_shards)
        self._next = 0
        self._turn = 0
        self._open: list[_Shard] = []

    def _fill(self) -> None:
        while len(self._open) < self._width and self._next < len(self._list):
            self._open.append(_Shard(self._next, self._list[self._next], 0, self._opened(self._list[self._next], 0)))
            self._next += 1

    def _opened(self, shard: int, place: Any) -> Iterator[Any]:
        try:
            records = self.open(shard, place)
            # What is an iterator is kept as it is: it may know its place.
            return records if hasattr(records, "__next__") else iter(records)
        except TombolaError:
            raise
        except Exception as error:
            raise self._failed(shard, 0, error) from error

    def _failed(self, shard: int, record: int, error: Exception) -> DataError:
        said = f"{self.describe()}, {self.name(shard)}, record {record}: {type(error).__name__}: {error}"
        return DataError(said, shard=shard, record=record)

    def iterate(self) -> Iterator[Any]:
        self._fill()
        number, stride = self._stride
        while self._open:
            if len(self._open) == 1:
                yield from self._one(self._open[0], number, stride)
            else:
                yield from self._several(number, stride)

    def _one(self, slot: _Shard, number: int, stride: int) -> Iterator[Any]:
        """The rest of the only open shard."""
        counted = slot.counted
        mine = (number - slot.shard) % stride
        try:
            if stride == 1:
                yield from counted
            else:
                for record in counted:
                    if (counted.count - 1) % stride == mine:
                        yield record
        except TombolaError:
            raise
        except Exception as error:
            raise self._failed(slot.shard, slot.count, error) from error
        self._ended(0)

    def _several(self, number: int, stride: int) -> Iterator[Any]:
        """A record of each open shard in turn, until fewer are open."""
        while len(self._open) > 1:
            slot = self._open[self._turn]
            record = self._next_of(slot, (number - slot.shard) % stride, stride)
            if record is _END:
                self._ended(self._turn)
                continue
            self._turn = (self._turn + 1) % len(self._open)
            yield record

    def _next_of(self, slot: _Shard, mine: int, stride: int) -> Any:
        while True:
            try:
                record = next(slot.counted, _END)
            except TombolaError:
                raise
            except Exception as error:
                raise self._failed(slot.shard, slot.count, error) from error
            if record is _END:
                return record
            if (slot.count - 1) % stride == mine:
                return record

    def _ended(self, turn: int) -> None:
        """The next shard takes the place of one that has ended."""
        gone = self._open.pop(turn)
        _close(gone.records)
        if self._next < len(self._list):
            shard = self._list[self._next]
            self._open.insert(turn, _Shard(self._next, shard, 0, self._opened(shard, 0)))
            self._next += 1
        self._turn = turn % max(1, len(self._open))

    def state(self) -> State:
        places = [[slot.rank, slot.count, self.place(slot.records, slot.count)] for slot in self._open]
        return [self._next, self._turn, places]

    def load(self, state: State) -> None:
        self._next, self._turn, places = state
        for rank, count, place in places:
            shard = self._list[rank]
            self._open.append(_Shard(rank, shard, count, self._opened(shard, place)))

    def close(self) -> None:
        for slot in self._open:
            _close(slot.records)

    def length(self, inputs: Sequence[int | None]) -> int | None:
        lengths = self.lengths()
        if lengths is None:
            return None
        shards, (number, stride) = _dealt_shards(self.shards(), self.context)
        return sum(max(0, -(-(lengths[shard] - (number - shard) % stride) // stride)) for shard in shards)


_END = object()


class _Shard:
    """A shard that is being read."""

    __slots__ = ("counted", "rank", "records", "shard")

    def __init__(self, rank: int, shard: int, count: int, records: Iterator[Any]) -> None:
        self.rank = rank
        self.shard = shard
        self.records = records
        self.counted = _core.Counted(records, count)

    @property
    def count(self) -> int:
        """How many records were read from it."""
        return self.counted.count


def _close(records: Iterator[Any]) -> None:
    end = getattr(records, "close", None)
    if end is not None:
        # A thread that reads ahead may be stuck in the midst of this generator: it ends with the thread.
        with suppress(ValueError):
            end()


def _dealt_shards(shards: int, context: Context) -> tuple[list[int], tuple[int, int]]:
    """The shards that are read, in their order, and of each every how-manieth record from which one on.

    Shares are dealt by shards as long as they divide. What is left is dealt by records, shard by shard and turned by
    the shard's number: so it does not depend on the order of the shards.
    """
    mine = np.arange(shards)
    by_records: list[Deal] = []
    for op in context.ops:
        if isinstance(op, Permute):
            words = context.words()
            order = Permutation(mine.size, op.seed, "pipeline/shards", op.level, *words) if mine.size else None
            mine = mine if order is None else mine[order.at(np.arange(mine.size))]
        elif by_records or mine.size % op.count:
            by_records.append(op)
        else:
            mine = mine[op.number :: op.count]
    return mine.tolist(), deals(by_records)


class FromSequence(Source):
    """What has a length and is read by number."""

    def __init__(self, records: Sequence[Any]) -> None:
        self.records = records

    def shards(self) -> int:
        return 1

    def lengths(self) -> Sequence[int]:
        return (len(self.records),)

    def open(self, shard: int, place: Any) -> Iterator[Any]:
        records = self.records
        return iter(records) if place == 0 else (records[at] for at in range(place, len(records)))

    def describe(self) -> str:
        return f"from_iterable({type(self.records).__qualname__} of {len(self.records)})"


class FromIterable(Source):
    """What can be iterated over anew."""

    seeks = False

    def __init__(self, records: Iterable[Any]) -> None:
        self.records = records

    def shards(self) -> int:
        return 1

    def open(self, shard: int, place: Any) -> Iterator[Any]:
        return passed(iter(self.records), place)

    def describe(self) -> str:
        return f"from_iterable({type(self.records).__qualname__})"


class FromIterator(Source):
    """What gives each record once: a generator, a socket.

    With `goes_on` a state says only how many were read, and what is given at a resume has to go on from there.
    """

    replayable = False
    seeks = False

    def __init__(self, records: Iterator[Any], *, goes_on: bool) -> None:
        self._records = records
        self.goes_on = goes_on
        self._used: list[bool] = [False]

    def shards(self) -> int:
        return 1

    def open(self, shard: int, place: Any) -> Iterator[Any]:
        if self._used[0] and not self.goes_on:
            raise StateError(
                f"{self.describe()} was read already, and gives each record once: give from_generator the function "
                f"that makes it, or an iterable that can be iterated over anew"
            )
        if self.context.sharers > 1:
            raise StateError(
                f"{self.describe()} gives each record once, and {self.context.sharers} readers cannot share it: read "
                f"it in one process and with readers=1, or give from_generator the function that makes it"
            )
        self._used[0] = True
        return self._records

    def state(self) -> State:
        if not self.goes_on:
            raise StateError(
                f"{self.describe()} gives each record once, so no state can tell how to read it again. Give "
                f"from_generator the function that makes it. Or say from_iterable(…, goes_on=True), with "
                f"keep='records' in a shuffle, if what you give at a resume goes on where this one stopped"
            )
        return super().state()

    def close(self) -> None:
        """Leaves the iterator open: it is the user's, and what has not been read is still theirs to read."""

    def describe(self) -> str:
        return f"from_iterable({type(self._records).__qualname__}, goes_on={self.goes_on})"


class FromGenerator(Source):
    """A function that gives an iterator, called for each shard."""

    seeks = False

    def __init__(
        self,
        function: Callable[..., Iterable[Any]],
        shards: Sequence[Any] | None,
        starts: bool,
        lengths: Sequence[int] | None,
    ) -> None:
        self._function = function
        self._shards = shards
        self._lengths = lengths
        self.starts = starts
        self.seeks = starts

    def shards(self) -> int:
        return 1 if self._shards is None else len(self._shards)

    def lengths(self) -> Sequence[int] | None:
        return self._lengths

    def open(self, shard: int, place: Any) -> Iterator[Any]:
        words = () if self._shards is None else (self._shards[shard],)
        if self.starts:
            return iter(self._function(*words, place))
        return passed(iter(self._function(*words)), place)

    def name(self, shard: int) -> str:
        return f"shard {shard}" if self._shards is None else f"shard {shard} ({self._shards[shard]!r:.80})"

    def describe(self) -> str:
        return f"from_generator({describe_value(self._function)}, shards={self.shards()})"


def passed(records: Iterator[Any], count: int) -> Iterator[Any]:
    """The iterator, after so many records."""
    for done in range(count):
        if next(records, _END) is _END:
            raise StateError(
                f"a state says that {count} records were read from a shard that now has {done}: the data has changed"
            )
    return records


# What would be dealt out twice, or begin the next epoch at each reading: how it is known, and what is meant for it.
_OTHERS = {"from_stream": ("plan", "rows", "digest"), "from_huggingface": ("num_shards", "shard", "set_epoch")}


def source_of(records: Iterable[Any], goes_on: bool) -> Source:
    """The source for what a user gives."""
    if isinstance(records, (str, bytes, bytearray)):
        raise InputError(f"from_iterable was given {type(records).__name__}; give a list of records, or use from_files")
    for known, names in _OTHERS.items():
        if all(hasattr(records, name) for name in names):
            raise InputError(
                f"from_iterable was given {type(records).__name__}, which shares its records out itself: use {known}"
            )
    try:
        again = iter(records)
    except TypeError:
        raise InputError(
            f"{type(records).__name__} cannot be iterated over; give records, or a function to from_generator"
        ) from None
    if again is records:
        return FromIterator(again, goes_on=goes_on)
    if goes_on:
        raise InputError(
            f"goes_on is for iterators that give each record once; {type(records).__name__} can be iterated over anew"
        )
    if isinstance(records, (list, tuple, range, np.ndarray)) or (
        isinstance(records, Sequence) and hasattr(records, "__getitem__")
    ):
        return FromSequence(cast("Sequence[Any]", records))
    return FromIterable(records)


def check_generator(function: Any, shards: Any, starts: Any, lengths: Any) -> FromGenerator:
    """The source of a function, its arguments checked."""
    if not callable(function):
        raise InputError(
            f"from_generator was given {type(function).__name__}; give the function that makes the generator, "
            f"not what it returned"
        )
    if isinstance(shards, int):
        shards = range(integer(shards, "shards", 1, None, InputError))
    try:
        listed = None if shards is None else tuple(shards)
    except TypeError:
        raise InputError(f"shards is {shards!r}; give one argument for each shard, or how many there are") from None
    if listed is not None and not listed:
        raise InputError("shards is empty; give one argument for each shard")
    known = None
    if lengths is not None:
        known = tuple(integer(one, "a length", 0, None, InputError) for one in lengths)
        if len(known) != (1 if listed is None else len(listed)):
            raise InputError(f"there are {len(known)} lengths for {1 if listed is None else len(listed)} shards")
    return FromGenerator(function, listed, bool(starts), known)
