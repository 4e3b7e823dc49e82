"""What a step is, and a chain of steps at work in one reader."""

from __future__ import annotations

import copy
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from tombola.errors import MapError, StateError, TombolaError
from tombola.order import derive_key

#: Plain JSON values; records too, where a step keeps them.
State = Any

#: The steps that name themselves and the record in their errors.
_OURS = "tombola.pipeline."


@dataclass(frozen=True)
class Permute:
    """The shards below come in a keyed order."""

    seed: int
    level: int


@dataclass(frozen=True)
class Deal:
    """Of what is below, this share alone: number `number` of `count`."""

    number: int
    count: int


@dataclass(frozen=True)
class Context:
    """Where in a run a step stands: which reader, epoch and pass, and what the steps above ask of the source.

    ops
        What becomes of the source's shards, in the order it is done.
    branches
        Which input of each step that has several leads here.
    passes
        How often each `repeat` or `interleave` above has begun anew, the uppermost first.
    in_order
        Whether records are read more than once, by someone who knows them by their numbers: they must come in the same
        order each time.
    sharers
        How many readers there are of the whole run, of which several may be in this process.
    """

    reader: int = 0
    readers: int = 1
    epoch: int = 0
    passes: tuple[int, ...] = ()
    branches: tuple[int, ...] = ()
    ops: tuple[Permute | Deal, ...] = ()
    input_shards: int = 1
    in_order: bool = False
    sharers: int = 1

    def words(self) -> tuple[str, int]:
        """What tells this epoch and pass of this branch from every other, for a key."""
        branches = ".".join(map(str, self.branches))
        # The first pass of everything is what it would be without a `repeat`.
        last = max((at for at, number in enumerate(self.passes) if number), default=-1)
        passes = ".".join(map(str, self.passes[: last + 1]))
        return f"branch {branches} pass {passes}", self.epoch


class Step:
    """A step of a pipeline, as a value with options, and as a copy of it at work in a reader. Subclass it.

    A step of your own implements `iterate`, a generator over `self.source`, and, where it remembers anything from one
    record to the next, `begin`, `state` and `load`. What it remembers must be up to date at every `yield`: a state may
    be taken there. Options are attributes without a leading underscore; they are compared when a state is loaded.

    Records come from `self.source`. A step with several inputs finds all of them in `self.sources`.
    `tombola.testing.StepTests` checks a step.

    >>> from tombola.pipeline import Pipeline, Step
    >>> class Every(Step):
    ...     def __init__(self, nth):
    ...         self.nth = nth
    ...     def begin(self):
    ...         self._seen = 0
    ...     def iterate(self):
    ...         for record in self.source:
    ...             self._seen += 1
    ...             if self._seen % self.nth == 0:
    ...                 yield record
    ...     def state(self):
    ...         return self._seen
    ...     def load(self, state):
    ...         self._seen = state
    >>> list(Pipeline.from_iterable(range(10)).step(Every(3)))
    [2, 5, 8]
    """

    #: Its records depend on all of its input in one order: it runs undivided in every reader; what it gives is dealt.
    whole: ClassVar[bool] = False
    #: It draws random numbers: `self.key` gives it a stream of its own in each reader, epoch and pass.
    seeded: ClassVar[bool] = False
    #: `state` holds the places of the inputs too, and `load` sets them: a step that reads ahead of what it gives.
    keeps_inputs: ClassVar[bool] = False
    #: Its state names records of its input by their numbers: they must come in the same order when they are read again.
    reads_again: ClassVar[bool] = False
    #: False for a source that cannot be read again.
    replayable: bool = True
    #: False for a source whose `load` reads everything before a place once more.
    seeks: bool = True

    # Set on the copy that is at work.
    inputs: tuple[Run, ...] = ()
    context: Context = Context()
    level: int = 0

    def begin(self) -> None:
        """Forget everything: an input begins. Also called before each `load`."""

    def iterate(self) -> Iterator[Any]:
        """The records that come out, from where `begin` or `load` left off."""
        raise NotImplementedError(f"{type(self).__name__} has no iterate; a step is a generator over self.source")

    def state(self) -> State:
        """What it remembers, as plain JSON values."""
        return None

    def load(self, state: State) -> None:
        """Go on from a state."""

    def close(self) -> None:
        """End threads and processes."""

    def held(self) -> int:
        """Records it holds, about: what a state of it costs."""
        return 0

    def length(self, inputs: Sequence[int | None]) -> int | None:
        """How many records come out, where that is known from how many go in."""
        return None

    def below(self, context: Context) -> Context:
        """The context of its inputs."""
        return context

    def describe(self) -> str:
        """Its name and options, as states compare them."""
        words = [
            f"{name}={describe_value(value)}"
            for name, value in vars(self).items()
            if not name.startswith("_") and name not in _AT_WORK
        ]
        return f"{type(self).__name__}({', '.join(words)})"

    @property
    def source(self) -> Iterator[Any]:
        """The records of its input."""
        return self.inputs[0].iterator

    @property
    def sources(self) -> tuple[Iterator[Any], ...]:
        """The records of each of its inputs."""
        return tuple(run.iterator for run in self.inputs)

    def key(self, seed: int, purpose: str) -> int:
        """The key of a seed here: unlike that of any other reader, epoch, pass or step."""
        context = self.context
        words = context.words()
        return derive_key(seed, f"pipeline/{purpose}", self.level, *words, context.reader, context.readers)


#: Attributes that are no options.
_AT_WORK = {"inputs", "context", "level", "replayable", "seeks"}


def describe_value(value: Any) -> str:
    """An option in a word that is the same in every process."""
    if callable(value):
        inner = getattr(value, "func", None)  # of functools.partial
        name = getattr(value if inner is None else inner, "__qualname__", None)
        return name or type(value).__qualname__
    if value is None or isinstance(value, (bool, int, float, str)):
        return reprlib.repr(value)
    if isinstance(value, (tuple, list)) and len(value) <= 16:
        return f"({', '.join(map(describe_value, value))})"
    size = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"{type(value).__qualname__}{size}"


@dataclass(frozen=True)
class Node:
    """A step and the chains it reads from."""

    step: Step
    inputs: tuple[Node, ...] = ()
    #: How many seeded steps are below, on the longest way down.
    level: int = field(init=False)

    def __post_init__(self) -> None:
        level = max((node.level + node.step.seeded for node in self.inputs), default=0)
        object.__setattr__(self, "level", level)

    def describe(self) -> list[Any]:
        """The chain from the sources up: what two states must agree in."""
        below: list[Any] = []
        if len(self.inputs) == 1:
            below = self.inputs[0].describe()
        elif self.inputs:
            below = [[node.describe() for node in self.inputs]]
        return [*below, self.step.describe()]

    def length(self, context: Context) -> int | None:
        """Records that come out under a context, where known."""
        if self.step.whole and context.ops:
            return dealt_length(self.length(_undivided(context)), context.ops)
        lower = self.step.below(context)
        lengths = [node.length(_branch(lower, at, len(self.inputs))) for at, node in enumerate(self.inputs)]
        step = self.step
        if not self.inputs:
            step = copy.copy(step)
            step.context = context
        return step.length(lengths)


def _branch(context: Context, at: int, inputs: int) -> Context:
    return context if inputs < 2 else replace(context, branches=(*context.branches, at))


def _undivided(context: Context) -> Context:
    # Every reader reads it all, and counts the records that are its own.
    return replace(context, ops=(), input_shards=1, reader=0, readers=1, in_order=True)


def deals(ops: Sequence[Permute | Deal]) -> tuple[int, int]:
    """The shares of shares as one: every `count`-th record from number `number`."""
    number, count = 0, 1
    for op in ops:
        if isinstance(op, Deal):
            number, count = number + count * op.number, count * op.count
    return number, count


def dealt_length(records: int | None, ops: Sequence[Permute | Deal]) -> int | None:
    """How many of so many records a share has."""
    number, count = deals(ops)
    return None if records is None else max(0, -(-(records - number) // count))


class Dealt(Step):
    """Every `count`-th record: the share of a stream that cannot be dealt by shards."""

    def __init__(self, number: int, count: int) -> None:
        self.number = number
        self.count = count

    def begin(self) -> None:
        self._seen = 0

    def iterate(self) -> Iterator[Any]:
        for record in self.source:
            mine = self._seen % self.count == self.number
            self._seen += 1
            if mine:
                yield record

    def state(self) -> State:
        return self._seen

    def load(self, state: State) -> None:
        self._seen = state


def _named(step: Step) -> Iterator[Any]:
    """The records of a step of a user's own: its errors say which step and where."""
    given = 0
    try:
        for record in step.iterate():
            given += 1
            yield record
    except (TombolaError, NotImplementedError):
        raise
    except Exception as error:
        raise MapError(
            f"{step.describe()} failed after {given} records of this run had come out of it: "
            f"{type(error).__name__}: {error}",
            record=given,
        ) from error


class Run:
    """A chain at work in one reader: an iterator with a state that can be taken and set at any time."""

    __slots__ = ("_bare", "context", "inputs", "iterator", "node", "step")

    def __init__(self, node: Node, context: Context) -> None:
        self.node = node
        self.context = context
        self._start()

    def _start(self) -> None:
        node, context = self.node, self.context
        if node.step.whole and context.ops:
            number, count = deals(context.ops)
            if count > 1:
                node = Node(Dealt(number, count), (node,))
            context = _undivided(context)
        step = copy.copy(node.step)
        lower = step.below(context)
        if step.reads_again:
            lower = replace(lower, in_order=True)
        self.inputs = tuple(Run(one, _branch(lower, at, len(node.inputs))) for at, one in enumerate(node.inputs))
        step.inputs, step.context, step.level = self.inputs, context, node.level
        self.step = step
        self._bare = type(step).state is Step.state and len(self.inputs) == 1
        step.begin()
        self.iterator = self._iterate()

    def _iterate(self) -> Iterator[Any]:
        step = self.step
        return step.iterate() if type(step).__module__.startswith(_OURS) else _named(step)

    def again(self, number: int) -> None:
        """Begin anew, in another pass of the step above."""
        self.close()
        self.context = replace(self.context, passes=(*self.context.passes[:-1], number))
        self._start()

    def go_to(self, number: int) -> None:
        """Be in that pass of the step above, before a state of it is loaded."""
        # It may have gone on to a later one: a shuffle above sets its input to several places, one after the other.
        if self.context.passes[-1] != number:
            self.again(number)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self.iterator)

    def state(self) -> State:
        """The place after the last record that came out."""
        if self._bare:
            return self.inputs[0].state()
        own = self.step.state()
        if self.step.keeps_inputs or not self.inputs:
            return own
        return [own, *(run.state() for run in self.inputs)]

    def load(self, state: State) -> None:
        """Go on from a state of the same chain."""
        self._end_iterator()
        self.step.close()
        if self._bare:
            self.inputs[0].load(state)
            self.step.begin()
        elif self.step.keeps_inputs or not self.inputs:
            self.step.begin()
            self.step.load(state)
        else:
            if not isinstance(state, (list, tuple)) or len(state) != 1 + len(self.inputs):
                raise StateError(f"the state of {self.step.describe()} is damaged: {reprlib.repr(state)}")
            for run, below in zip(self.inputs, state[1:], strict=True):
                run.load(below)
            self.step.begin()
            self.step.load(state[0])
        self.iterator = self._iterate()

    def _end_iterator(self) -> None:
        end = getattr(self.iterator, "close", None)
        if end is not None:
            end()

    def close(self) -> None:
        """End the threads and processes of every step."""
        # The collector of garbage may come by in a thread that reads ahead, in the midst of this very iterator. The
        # thread has been told to end, and the iterator ends with it.
        with suppress(ValueError):
            self._end_iterator()
        self.step.close()
        for run in self.inputs:
            run.close()

    @property
    def held(self) -> int:
        """Records held here and below."""
        return self.step.held() + sum(run.held for run in self.inputs)

    @property
    def replayable(self) -> bool:
        """Whether all sources can be read again."""
        return self.step.replayable and all(run.replayable for run in self.inputs)

    @property
    def seeks(self) -> bool:
        """Whether `load` costs no more than what the state holds."""
        return self.step.seeks and all(run.seeks for run in self.inputs)
