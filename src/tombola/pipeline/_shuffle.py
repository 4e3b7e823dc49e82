"""The shuffle buffer: a bounded window of records from which one comes out at random."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from tombola import _core
from tombola._ints import Ints, integer
from tombola.errors import InputError, StateError
from tombola.order import check_seed
from tombola.pipeline._step import Context, Permute, State, Step
from tombola.pipeline._trail import Trail, require_replayable

Keep = Literal["positions", "records"]
_PRUNE = 64
# Bytes of what CPython keeps: about, and for ever.
_OBJECT, _NUMBER, _ENTRY = 56, 32, 100


class Shuffle(Step):
    """One of the buffered records comes out at random, and the next of the input takes its place."""

    seeded = True
    keeps_inputs = True

    def __init__(
        self,
        buffer_size: int | None,
        buffer_bytes: int | None,
        seed: int,
        initial: int | None,
        input_shards: int,
        keep: Keep,
    ) -> None:
        if buffer_size is None and buffer_bytes is None:
            raise InputError("a shuffle needs a buffer_size in records, or buffer_bytes")
        self.buffer_size = None if buffer_size is None else integer(buffer_size, "buffer_size", 1, 2**40, InputError)
        self.buffer_bytes = (
            None if buffer_bytes is None else integer(buffer_bytes, "buffer_bytes", 1, 2**60, InputError)
        )
        self.seed = check_seed(seed)
        self.initial = None if initial is None else integer(initial, "initial", 1, self.buffer_size, InputError)
        self.input_shards = integer(input_shards, "input_shards", 1, 2**20, InputError)
        if keep not in get_args(Keep):
            raise InputError(f"keep is {keep!r}; a state keeps 'positions' (and reads again) or 'records'")
        self.keep: Keep = keep
        self._make: Callable[..., Any] = _core.ShuffleBuffer

    def below(self, context: Context) -> Context:
        ops = (Permute(self.seed, self.level), *context.ops)
        width = max(context.input_shards, self.input_shards)
        return replace(context, ops=ops, input_shards=width, in_order=context.in_order or self.keep == "positions")

    def begin(self) -> None:
        self._trail = Trail(self.inputs[0])
        self._live = 0
        self._buffer: Any = None
        self._keeps = self.keep

    def iterate(self) -> Iterator[Any]:
        self._buffer = self._buffer or self._new()
        made: Iterator[Any] = self._buffer
        return made

    def _new(self) -> Any:
        run = self.inputs[0]
        mark = self._mark if self._keeps == "positions" and run.replayable else None
        size_of = None if self.buffer_bytes is None else size_in_bytes
        key = self.key(self.seed, "shuffle")
        bounds = (self.buffer_size or 0, self.buffer_bytes or 0, self.initial or 0)
        return self._make(run.iterator, key, *bounds, size_of, mark)

    def _mark(self, number: int) -> int:
        trail = self._trail
        if len(trail.marks) > 2 * self._live + _PRUNE:
            self._prune()
        return trail.mark(number)

    def _prune(self) -> None:
        """Forgets the marks whose stretches have no record left in the buffer."""
        trail = self._trail
        kept = _live_marks([mark[0] for mark in trail.marks], self._buffer.ordinals())
        marks = [trail.marks[at] for at in kept]
        trail.marks.clear()
        trail.marks.extend(marks)
        self._live = len(marks)

    def state(self) -> State:
        buffer, run = self._buffer, self.inputs[0]
        if buffer is None:
            return {"input": run.state()}
        counts = [buffer.emitted, buffer.pulled, buffer.done]
        if self._keeps == "records":
            return {"counts": counts, "records": buffer.records(), "input": run.state()}
        require_replayable(run)
        ordinals: Ints = buffer.ordinals()
        marks = list(self._trail.marks)
        steps = [mark[0] for mark in marks]
        live = [list(marks[at]) for at in _live_marks(steps, ordinals)]
        return {"counts": counts, "buffered": pack_numbers(ordinals), "marks": live, "input": run.state()}

    def load(self, state: State) -> None:
        run = self.inputs[0]
        counts = state.get("counts")
        if counts is None:
            run.load(state["input"])
            self._trail.start()
            return
        emitted, pulled, done = counts
        if "records" in state:
            # Nobody knows where these are: as long as this buffer lives, its states hold records.
            self._keeps = "records"
            run.load(state["input"])
            records, ordinals = list(state["records"]), np.arange(len(state["records"]), dtype=np.int64)
            self._trail.start(pulled)
        else:
            ordinals = unpack_numbers(state["buffered"])
            records, marks = self._read_again(state, ordinals, pulled)
            self._trail.marks.extend(marks)
        self._buffer = self._new()
        self._buffer.load(records, ordinals, emitted, pulled, done, pulled)

    def _read_again(self, state: State, ordinals: Ints, pulled: int) -> tuple[list[Any], list[tuple[int, State]]]:
        """The buffered records, by slot, and the marks to find them again."""
        require_replayable(self.inputs[0])
        marks = [(int(number), below) for number, below in state["marks"]]
        if ordinals.size and (not marks or marks[0][0] > ordinals.min() or int(ordinals.max()) >= pulled):
            raise StateError(f"the state of {self.describe()} is damaged: records of its buffer have no place")
        slots = np.argsort(ordinals)
        found = self._trail.find(ordinals[slots].tolist(), marks, (pulled, state["input"]))
        records: list[Any] = [None] * ordinals.size
        for slot, record in zip(slots.tolist(), found, strict=True):
            records[slot] = record
        return records, marks

    def held(self) -> int:
        return 0 if self._buffer is None else self._buffer.pulled - self._buffer.emitted

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return inputs[0]

    def describe(self) -> str:
        # What a state keeps may change between a save and a resume: it changes no order.
        options = ("buffer_size", "buffer_bytes", "seed", "initial", "input_shards")
        given = [f"{name}={getattr(self, name)}" for name in options if getattr(self, name) is not None]
        return f"shuffle({', '.join(given)})"


def _live_marks(steps: list[int], ordinals: Ints) -> list[int]:
    """Which marks have a record in the buffer before the next one."""
    if not steps or not ordinals.size:
        return []
    found: list[int] = np.unique(np.searchsorted(np.array(steps), ordinals, side="right") - 1).tolist()
    return found


def pack_numbers(numbers: Ints) -> list[Any]:
    """Numbers as text: the least of them, and what each adds to it, in base64 of four or eight little-endian bytes.

    >>> pack_numbers(np.array([7, 9, 8]))
    [7, 4, 'AAAAAAIAAAABAAAA']
    """
    least = int(numbers.min()) if numbers.size else 0
    rest = numbers - least
    width = 4 if not rest.size or int(rest.max()) < 2**32 else 8
    return [least, width, base64.b64encode(rest.astype(f"<u{width}").tobytes()).decode("ascii")]


def unpack_numbers(packed: Sequence[Any]) -> Ints:
    """The numbers again."""
    least, width, text = packed
    if width not in (4, 8):
        raise StateError(f"the state of a shuffle is damaged: numbers of {width} bytes")
    numbers: Ints = np.frombuffer(base64.b64decode(text), f"<u{width}").astype(np.int64) + least
    return numbers


def size_in_bytes(record: Any) -> int:
    """About how much memory a record takes: the data of arrays and tensors, texts and bytes, and what holds them.

    The same number with every version of Python, for the usual kinds of values: the order of a buffer bounded in bytes
    depends on it.

    >>> size_in_bytes({"image": np.zeros((8, 8), np.float32), "label": 3}), size_in_bytes("text")
    (656, 60)
    """
    total, todo = 0, [record]
    while todo:
        value = todo.pop()
        if value is None or isinstance(value, (bool, int, float)):
            total += _NUMBER
        elif isinstance(value, str):
            total += _OBJECT + len(value) * (1 if value.isascii() else 2)
        elif isinstance(value, (bytes, bytearray)):
            total += _OBJECT + len(value)
        elif isinstance(value, dict):
            total += _OBJECT + _ENTRY * len(value)
            todo.extend(value.values())
        elif isinstance(value, (list, tuple, set, frozenset)):
            total += _OBJECT + 8 * len(value)
            todo.extend(value)
        elif isinstance(data := getattr(value, "nbytes", None), int):
            total += 2 * _OBJECT + data
        else:
            total += sys.getsizeof(value)
    return total
