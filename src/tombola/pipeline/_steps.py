"""The plain steps: functions over records, and what takes, repeats, gathers and cuts them."""

from __future__ import annotations

import reprlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from tombola import _core
from tombola._ints import integer
from tombola.errors import InputError, MapError
from tombola.pipeline._step import Context, Deal, State, Step, describe_value
from tombola.pipeline._trail import Trail

_END = object()


def check_function(function: Any, what: str) -> Callable[..., Any]:
    """Refuses what cannot be called."""
    if not callable(function):
        raise InputError(f"{what} was given {function!r}; give it a function")
    checked: Callable[..., Any] = function
    return checked


def function_failed(what: str, number: int, record: Any, error: Exception) -> MapError:
    """The error of a user's function, which names the step and the record."""
    said = f"{what} failed at record {number} of this run, {reprlib.repr(record)}: {type(error).__name__}: {error}"
    return MapError(said, record=number)


def gave_nothing(what: str, number: int, record: Any) -> MapError:
    """The error of a function that returns None."""
    return MapError(
        f"{what} returned None for record {number} of this run, {reprlib.repr(record)}: return the record, changed or "
        f"not; filter leaves records out",
        record=number,
    )


def check_names(names: Any) -> tuple[str, ...]:
    """Names of columns to leave out."""
    found = (names,) if isinstance(names, str) else tuple(names or ())
    if not all(isinstance(name, str) for name in found):
        raise InputError(f"remove_columns is {names!r}; give the names of columns")
    return found


def merged(record: Any, out: Any, without: Sequence[str]) -> Any:
    """What a function made of a record: where both are dicts, what it returned is put into the record.

    >>> merged({"a": 1, "b": 2}, {"b": 3, "c": 4}, ("a",))
    {'b': 3, 'c': 4}
    """
    if type(record) is not dict or type(out) is not dict or (out is record and not without):
        return out
    whole = dict(record)
    for name in without:
        del whole[name]
    if out is not record:
        whole.update(out)
    return whole


class Map(Step):
    """A function over each record."""

    def __init__(self, function: Callable[[Any], Any], remove_columns: Any = None) -> None:
        self._function = check_function(function, "map")
        self._without = check_names(remove_columns)

    def iterate(self) -> Iterator[Any]:
        # The native iterator itself: a generator around it would cost each record as much as its loop.
        mapped: Iterator[Any] = _core.Mapped(self.source, self._function, self._without, self._fail)
        return mapped

    def _fail(self, number: int, record: Any, error: Exception | None) -> None:
        if error is None:
            raise gave_nothing(self.describe(), number, record)
        raise function_failed(self.describe(), number, record, error) from error

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return inputs[0]

    def describe(self) -> str:
        return f"map({describe_value(self._function)}{describe_names(self._without)})"


def describe_names(names: Sequence[str]) -> str:
    """The option in words, where it is given."""
    return f", remove_columns={describe_value(tuple(names))}" if names else ""


class Filter(Step):
    """The records for which a function is true."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = check_function(function, "filter")

    def iterate(self) -> Iterator[Any]:
        function = self._function
        for number, record in enumerate(self.source):
            try:
                wanted = function(record)
            except Exception as error:
                raise function_failed(self.describe(), number, record, error) from error
            if wanted:
                yield record

    def describe(self) -> str:
        return f"filter({describe_value(self._function)})"


class Take(Step):
    """The first records."""

    whole = True

    def __init__(self, count: int) -> None:
        self.count = integer(count, "take", 0, None, InputError)

    def begin(self) -> None:
        self._left = self.count

    def iterate(self) -> Iterator[Any]:
        source = self.source
        while self._left:
            record = next(source, _END)
            if record is _END:
                return
            self._left -= 1
            yield record

    def state(self) -> State:
        return self._left

    def load(self, state: State) -> None:
        self._left = state

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return None if inputs[0] is None else min(inputs[0], self.count)


class Skip(Step):
    """All but the first records."""

    whole = True

    def __init__(self, count: int) -> None:
        self.count = integer(count, "skip", 0, None, InputError)

    def begin(self) -> None:
        self._left = self.count

    def iterate(self) -> Iterator[Any]:
        source = self.source
        while self._left:
            if next(source, _END) is _END:
                return
            self._left -= 1
        yield from source

    def state(self) -> State:
        return self._left

    def load(self, state: State) -> None:
        self._left = state

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return None if inputs[0] is None else max(0, inputs[0] - self.count)


class Shard(Step):
    """A share of it all."""

    def __init__(self, count: int, number: int) -> None:
        self.count = integer(count, "the number of shards", 1, 2**31, InputError)
        self.number = integer(number, f"the shard (of {count})", 0, self.count - 1, InputError)

    def below(self, context: Context) -> Context:
        return replace(context, ops=(Deal(self.number, self.count), *context.ops))

    def iterate(self) -> Iterator[Any]:
        return self.source

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return inputs[0]


class Batch(Step):
    """So many records at a time: of dicts a dict of lists, of anything else a list."""

    def __init__(self, batch_size: int, drop_last_batch: bool) -> None:
        self.batch_size = integer(batch_size, "batch_size", 1, None, InputError)
        self.drop_last_batch = bool(drop_last_batch)

    def iterate(self) -> Iterator[Any]:
        source, size, number = self.source, self.batch_size, 0
        while rows := list(islice(source, size)):
            if len(rows) < size and self.drop_last_batch:
                return
            yield as_columns(rows, f"batch({size})", number)
            number += size

    def length(self, inputs: Sequence[int | None]) -> int | None:
        if inputs[0] is None:
            return None
        return inputs[0] // self.batch_size if self.drop_last_batch else -(-inputs[0] // self.batch_size)


def as_columns(rows: list[Any], what: str, first_number: int) -> Any:
    """Dicts as one dict of lists; other records as the list they are.

    >>> as_columns([{"n": 1, "t": "a"}, {"n": 2, "t": "b"}], "batch", 0)
    {'n': [1, 2], 't': ['a', 'b']}
    """
    first = rows[0]
    if not isinstance(first, Mapping):
        return rows
    names = first.keys()
    try:
        out = {name: list(map(itemgetter(name), rows)) for name in names}
        # All have these keys by now, so none may have more.
        same = sum(map(len, rows)) == len(out) * len(rows)
    except (KeyError, TypeError, IndexError):
        same = False
    if not same:
        at, odd = next((at, row) for at, row in enumerate(rows) if not isinstance(row, Mapping) or row.keys() != names)
        keys = sorted(map(str, odd)) if isinstance(odd, Mapping) else type(odd).__name__
        raise InputError(
            f"{what}, record {first_number + at} of this run: records of one batch differ: one has "
            f"{', '.join(map(str, names))}, another {keys}; give all the same keys with a map"
        )
    return out


def as_rows(batch: Any, what: str, number: int | None) -> list[Any]:
    """A batch as the records it is made of: the inverse of `as_columns`.

    >>> as_rows({"n": [1, 2], "t": ["a", "b"]}, "batch", None)
    [{'n': 1, 't': 'a'}, {'n': 2, 't': 'b'}]
    """
    if not isinstance(batch, Mapping):
        return list(batch)
    try:
        sizes = {name: len(column) for name, column in batch.items()}
    except TypeError:
        sizes = {}
    if len(set(sizes.values())) > 1 or len(sizes) < len(batch):
        said = ", ".join(f"{name!r}: {sizes.get(name, type(column).__name__)}" for name, column in batch.items())
        raise MapError(f"{what}: the columns of a batch must be lists of one length, not {said}", record=number)
    names = list(batch)
    return [dict(zip(names, row, strict=True)) for row in zip(*batch.values(), strict=True)]


class Repeat(Step):
    """The whole again and again; each pass is shuffled anew."""

    keeps_inputs = True

    def __init__(self, times: int | None) -> None:
        self.times = None if times is None else integer(times, "repeat", 0, None, InputError)

    def below(self, context: Context) -> Context:
        return replace(context, passes=(*context.passes, 0))

    def begin(self) -> None:
        self._pass = 0
        self._given = False

    def iterate(self) -> Iterator[Any]:
        run = self.inputs[0]
        while self.times is None or self._pass < self.times:
            for record in run.iterator:
                self._given = True
                yield record
            if not self._given:
                return  # an empty pass: the next would be empty too
            self._pass, self._given = self._pass + 1, False
            if self.times is None or self._pass < self.times:
                run.again(self._pass)

    def state(self) -> State:
        return [self._pass, self._given, self.inputs[0].state()]

    def load(self, state: State) -> None:
        self._pass, self._given, below = state
        self.inputs[0].go_to(self._pass)
        if self.times is None or self._pass < self.times:
            self.inputs[0].load(below)

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return None if inputs[0] is None or self.times is None else inputs[0] * self.times


class Flatten(Step):
    """The items of each record, which is a list or another iterable, one by one."""

    keeps_inputs = True
    reads_again = True

    def begin(self) -> None:
        self._trail = Trail(self.inputs[0])
        self._record = 0  # whose items come out
        self._item = 0

    def iterate(self) -> Iterator[Any]:
        trail = self._trail
        while True:
            trail.forget(self._record)
            items = next(trail, _END)
            if items is _END:
                return
            for item in islice(self._items(items), self._item, None):
                self._item += 1
                yield item
            self._record, self._item = trail.number, 0

    def _items(self, record: Any) -> Iterator[Any]:
        if isinstance(record, (str, bytes, Mapping)) or not isinstance(record, Iterable):
            raise MapError(
                f"flatten was given {reprlib.repr(record)}, record {self._record} of this run, which is no list of "
                f"records; make it one with a map",
                record=self._record,
            )
        return iter(record)

    def state(self) -> State:
        return [self._item, self._trail.at(self._record)]

    def load(self, state: State) -> None:
        self._item, place = state
        self._trail.go(place)
        self._record = self._trail.number


class Unbatch(Flatten):
    """Batches as single records again: the inverse of `batch`."""

    def _items(self, record: Any) -> Iterator[Any]:
        if isinstance(record, Mapping):
            return iter(as_rows(record, f"unbatch, record {self._record} of this run", self._record))
        return super()._items(record)


class Pack(Step):
    """Token lists end to end, cut into sequences of one length."""

    keeps_inputs = True
    reads_again = True

    def __init__(self, tokens: int, column: str | None, end: int | None, drop_last: bool) -> None:
        self.tokens = integer(tokens, "tokens", 1, None, InputError)
        self.column = column
        self.end = None if end is None else integer(end, "end", -(2**63), 2**63 - 1, InputError)
        self.drop_last = bool(drop_last)

    def begin(self) -> None:
        self._trail = Trail(self.inputs[0])
        self._record = 0  # the first whose tokens have not all come out
        self._offset = 0  # of the first of them that has not

    def iterate(self) -> Iterator[Any]:
        trail, size = self._trail, self.tokens
        waiting: deque[tuple[int, Any]] = deque()  # numbers and tokens of the records that are begun
        ready = -self._offset
        while True:
            while ready < size:
                number = trail.number
                record = next(trail, _END)
                if record is _END:
                    break
                waiting.append((number, self._tokens_of(record, number)))
                ready += waiting[-1][1].size
            if ready <= 0 or (ready < size and self.drop_last):
                return
            pieces = self._cut(waiting, min(size, ready))
            ready -= min(size, ready)
            self._record = waiting[0][0] if waiting else trail.number
            trail.forget(self._record)
            yield self._packed(pieces)

    def _cut(self, waiting: deque[tuple[int, Any]], need: int) -> list[Any]:
        """The next tokens, a piece for each record they come from."""
        pieces = []
        while need:
            tokens = waiting[0][1]
            piece = tokens[self._offset : self._offset + need]
            if piece.size:
                pieces.append(piece)
            need -= piece.size
            self._offset += piece.size
            if self._offset == tokens.size:
                waiting.popleft()
                self._offset = 0
        return pieces

    def _packed(self, pieces: list[Any]) -> Any:
        tokens = np.concatenate(pieces)
        if self.column is None:
            return tokens
        segments = np.repeat(np.arange(len(pieces), dtype=np.int32), [piece.size for piece in pieces])
        return {self.column: tokens, "segments": segments}

    def _tokens_of(self, record: Any, number: int) -> Any:
        try:
            given = record if self.column is None else record[self.column]
            tokens = np.asarray(given)
            if tokens.size == 0:
                tokens = tokens.astype(np.int64).reshape(0)
            if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
                raise TypeError(f"{tokens.ndim}-d {tokens.dtype}")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            what = "" if self.column is None else f" in column {self.column!r}"
            raise MapError(
                f"{self.describe()}: record {number} of this run, {reprlib.repr(record)}, has no list of tokens{what} "
                f"({type(error).__name__}: {error})",
                record=number,
            ) from error
        return tokens if self.end is None else np.append(tokens, np.array(self.end, tokens.dtype))

    def state(self) -> State:
        return [self._offset, self._trail.at(self._record)]

    def load(self, state: State) -> None:
        self._offset, place = state
        self._trail.go(place)
        self._record = self._trail.number
