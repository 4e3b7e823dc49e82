"""The façade: a lazy chain of steps that is iterated over, saved and resumed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from tombola._ints import integer
from tombola.errors import InputError, WorldError
from tombola.order import seed_of
from tombola.pipeline._combine import Concatenate, Interleave, Stop, Zip, check_inputs
from tombola.pipeline._convert import Convert, Format
from tombola.pipeline._even import Even, check_even, check_group
from tombola.pipeline._files import FromFiles, Reader
from tombola.pipeline._foreign import check_huggingface, check_stream, check_torch
from tombola.pipeline._map import MapMany
from tombola.pipeline._prefetch import Prefetch
from tombola.pipeline._reading import Dealing, Reading
from tombola.pipeline._share import lengths_of
from tombola.pipeline._shuffle import Keep, Shuffle
from tombola.pipeline._sources import check_generator, source_of
from tombola.pipeline._state import check_state, state_head
from tombola.pipeline._step import Node, Step
from tombola.pipeline._steps import Batch, Filter, Flatten, Map, Pack, Repeat, Shard, Skip, Take, Unbatch
from tombola.plan import World

State = Mapping[str, Any]


class Pipeline:
    """A lazy chain of steps over records of any kind, with a state that is exact at every record.

    Begin with `from_iterable`, `from_generator`, `from_files`, `from_stream`, `from_torch` or `from_huggingface`. Each
    method returns a new pipeline; nothing is read before it is iterated over. Iterating again is the next epoch, in
    which every shuffle is another one.

    Ranks and the workers of a loader share the records out between them: each is read by one of them. The order is that
    of L logical readers, each with buffers of its own, taken in turn. L is part of a state, so a resume under any other
    ranks and workers goes on with the same order.

    >>> from tombola.pipeline import Pipeline
    >>> pipeline = Pipeline.from_iterable(range(100)).shuffle(buffer_size=20, seed=7).map(str).batch(4)
    >>> batches = iter(pipeline)
    >>> head = [next(batches) for _ in range(3)]
    >>> state = pipeline.state_dict()
    >>> rest = list(batches)
    >>> pipeline.load_state_dict(state)
    >>> list(pipeline) == rest
    True
    """

    def __init__(self, source: Step, *inputs: Pipeline) -> None:
        if not isinstance(source, Step):
            raise InputError(
                f"{source!r} is neither a source nor a step; use Pipeline.from_iterable and the like, or subclass "
                f"tombola.pipeline.Source"
            )
        self._set(Node(source, tuple(one._node for one in inputs)), _dealing_of(inputs))

    def _set(self, node: Node, dealing: Dealing) -> None:
        self._node = node
        self._dealing = dealing
        self._epoch = 0  # of the next iteration
        self._readers = dealing.readers
        self._loaded: State | None = None
        self._reading: Reading | None = None

    def _over(self, step: Step) -> Pipeline:
        return self._with(Node(step, (self._node,)), self._dealing)

    def _with(self, node: Node, dealing: Dealing) -> Pipeline:
        made = object.__new__(type(self))
        made._set(node, dealing)
        return made

    # ---- sources

    @classmethod
    def from_iterable(cls, records: Iterable[Any], *, goes_on: bool = False) -> Self:
        """The records of anything that can be iterated over: best a sequence, which is read from any place.

        goes_on
            For an iterator that gives each record once. Then a state says how many were read, and what you give at a
            resume has to go on from there. Give `keep="records"` to a shuffle.
        """
        if isinstance(records, Pipeline):
            raise InputError("this is a pipeline already: go on with its methods, or combine several with concatenate")
        return cls(source_of(records, bool(goes_on)))

    @classmethod
    def from_generator(
        cls,
        function: Callable[..., Iterable[Any]],
        *,
        shards: int | Sequence[Any] | None = None,
        starts: bool = False,
        lengths: Sequence[int] | None = None,
    ) -> Self:
        """The records that a function yields; with `shards`, of one call for each of them.

        starts
            The function takes one more argument, how many records to leave out: then a resume calls it with that
            instead of reading them all once more.
        lengths
            How many records each shard has, if you know.

        >>> def count(shard):
        ...     yield from range(10 * shard, 10 * shard + 3)
        >>> list(Pipeline.from_generator(count, shards=[0, 1]))
        [0, 1, 2, 10, 11, 12]
        """
        return cls(check_generator(function, shards, starts, lengths))

    @classmethod
    def from_files(
        cls, pattern: str | Sequence[str], format: str | Reader = "text", *, encoding: str = "utf-8"
    ) -> Self:
        """The records of files, each a shard: `text` (dicts with the line as "text"), `jsonl` or `csv`, or a function.

        Files whose names end in .gz, .bz2, .xz or .zst are unpacked on the way.

        pattern
            With *, ?, [] and ** for folders in folders; or a list of paths.
        format
            A function is called with each path and gives its records.
        """
        return cls(FromFiles(pattern, format, encoding))

    @classmethod
    def from_stream(cls, stream: Any) -> Self:
        """The records of a `tombola.Stream`, in its order, dealt to its world."""
        return cls(check_stream(stream))

    @classmethod
    def from_torch(cls, dataset: Any) -> Self:
        """The records of a torch IterableDataset, resumed by its own state where it has `state_dict`.

        It must give all its records to everyone: it is shared out here.
        """
        return cls(check_torch(dataset))

    @classmethod
    def from_huggingface(cls, dataset: Any) -> Self:
        """The records of an IterableDataset of Hugging Face's datasets, shard by shard.

        A `take`, `skip` or `batch` of the dataset itself is done by it in each shard by itself: call those of the
        pipeline instead.
        """
        return cls(check_huggingface(dataset))

    # ---- steps

    def shuffle(
        self,
        buffer_size: int | None = None,
        *,
        seed: int = 0,
        generator: Any = None,
        buffer_bytes: int | None = None,
        initial: int | None = None,
        input_shards: int = 1,
        readers: int | None = None,
        keep: Keep = "positions",
    ) -> Pipeline:
        """Records in an order shuffled within a buffer, and the shards of the source in a shuffled order.

        One of the buffered records comes out at random, and the next one takes its place: none comes out more than
        `buffer_size` − 1 places too early. The order of the shards stays as it is where a `take`, `skip` or `zip`
        below depends on it. Each epoch, each pass of a `repeat` and each reader has its own order.

        buffer_size
            In records, 1000 unless `buffer_bytes` is given.
        generator
            Of NumPy or torch: the seed is drawn from it, now.
        buffer_bytes
            A bound of the memory of the buffered records instead, or besides.
        initial
            So many records are enough to begin with; the buffer fills while they come out.
        input_shards
            How many shards are read in turn.
        readers
            How many logical readers there are; see `with_readers`.
        keep
            What a state holds: "positions" of the buffered records, which are read again, or the "records"
            themselves, which then must be of plain values.

        >>> list(Pipeline.from_iterable(range(8)).shuffle(4, seed=1))
        [3, 2, 5, 0, 1, 4, 6, 7]
        """
        if generator is not None:
            seed = seed_of(generator)
        if buffer_size is None and buffer_bytes is None:
            buffer_size = 1000
        made = self._over(Shuffle(buffer_size, buffer_bytes, seed, initial, input_shards, keep))
        return made if readers is None else made.with_readers(readers)

    def map(
        self,
        function: Callable[[Any], Any],
        *,
        batched: bool = False,
        batch_size: int = 1000,
        drop_last_batch: bool = False,
        threads: int = 0,
        processes: int = 0,
        ahead: int | None = None,
        ordered: bool = True,
        remove_columns: str | Sequence[str] | None = None,
    ) -> Pipeline:
        """A function over each record, or over batches of them; an async function runs many at a time.

        Where a record is a dict and the function returns another, what it returns is put into the record, as Hugging
        Face does it: return what is new or changed. Anything else that it returns is the new record.

        batched
            The function takes `batch_size` records, dicts as one dict of lists, and returns as many as it likes.
        threads, processes
            Who runs it; here and now unless given.
        ahead
            How many records may be at work or wait: twice what the threads or processes take unless given, 64 batches
            or records for an async function.
        ordered
            False lets records come as they are ready. A resume then loses and repeats none, but their order is no
            longer a promise. It has no effect where the order is needed: below what reads records again at a resume (a
            shuffle that keeps positions, flatten, unbatch, pack, prefetch, another map with threads or batches), and
            where ranks or workers count the records of one reader (more of them than readers, or a take, skip or zip
            above).

        remove_columns
            Of dicts: names that are left out, unless the function returns them anew. A batch of which more or fewer
            records are made must leave out all columns that stay as they are.

        >>> list(Pipeline.from_iterable(range(4)).map(lambda n: n * n, threads=2))
        [0, 1, 4, 9]
        >>> list(Pipeline.from_iterable([{"n": 3, "t": "a"}]).map(lambda row: {"n": row["n"] + 1}))
        [{'n': 4, 't': 'a'}]
        """
        if not batched and not threads and not processes and not inspect.iscoroutinefunction(function):
            return self._over(Map(function, remove_columns))
        return self._over(
            MapMany(
                function,
                batched=batched,
                batch_size=batch_size,
                drop_last_batch=drop_last_batch,
                threads=threads,
                processes=processes,
                ahead=ahead,
                ordered=ordered,
                remove_columns=remove_columns,
            )
        )

    def filter(self, function: Callable[[Any], Any]) -> Pipeline:
        """Only the records for which the function is true."""
        return self._over(Filter(function))

    def take(self, count: int) -> Pipeline:
        """Only the first records, of all together."""
        return self._over(Take(count))

    def skip(self, count: int) -> Pipeline:
        """All but the first records, of all together."""
        return self._over(Skip(count))

    def batch(self, batch_size: int, *, drop_last_batch: bool = False) -> Pipeline:
        """So many records at a time: of dicts a dict of lists, of anything else a list.

        Each reader has batches, and a last one, of its own.
        """
        return self._over(Batch(batch_size, drop_last_batch))

    def unbatch(self) -> Pipeline:
        """Batches as single records again."""
        return self._over(Unbatch())

    def flatten(self) -> Pipeline:
        """The items of records that are lists or other iterables."""
        return self._over(Flatten())

    def pack(
        self, tokens: int, *, column: str | None = None, end: int | None = None, drop_last: bool = False
    ) -> Pipeline:
        """Lists of tokens end to end, cut into arrays of one length.

        column
            Of dicts: the list is there. Then dicts come out, and "segments" numbers the lists that meet in one.
        end
            A token put after each list.

        >>> [one.tolist() for one in Pipeline.from_iterable([[1, 2, 3], [4], [5, 6]]).pack(3, end=0)]
        [[1, 2, 3], [0, 4, 0], [5, 6, 0]]
        """
        return self._over(Pack(tokens, column, end, drop_last))

    def repeat(self, times: int | None = None) -> Pipeline:
        """All of it so many times, or for ever; each pass is shuffled anew."""
        return self._over(Repeat(times))

    def shard(self, count: int, number: int) -> Pipeline:
        """Only share `number` of `count`: of the shards where they divide evenly, else of the records."""
        return self._over(Shard(count, number))

    def prefetch(self, records: int) -> Pipeline:
        """A thread reads so many records ahead."""
        return self._over(Prefetch(records))

    def with_format(self, kind: Format) -> Pipeline:
        """What comes out as arrays of "numpy", tensors of "torch" or record batches of "arrow"."""
        return self._over(Convert(kind))

    def step(self, step: Step) -> Pipeline:
        """A step of your own; see `Step`."""
        if not isinstance(step, Step):
            raise InputError(f"{step!r} is no step; subclass tombola.pipeline.Step, or use map")
        return self._over(step)

    # ---- several pipelines

    @classmethod
    def concatenate(cls, pipelines: Sequence[Pipeline]) -> Pipeline:
        """One after the other."""
        return cls(Concatenate(), *_checked(pipelines, None))

    @classmethod
    def zip(cls, pipelines: Sequence[Pipeline]) -> Pipeline:
        """Side by side, as tuples, until the shortest ends."""
        return cls(Zip(), *_checked(pipelines, None))

    @classmethod
    def interleave(
        cls,
        pipelines: Sequence[Pipeline],
        weights: Sequence[float] | None = None,
        *,
        seed: int = 0,
        stop: Stop = "first_exhausted",
    ) -> Pipeline:
        """In turn, or drawn by weights.

        stop
            When it ends: "first_exhausted"; "all_exhausted", where those that have ended begin anew; or
            "all_exhausted_without_replacement", where they are left out.

        >>> letters, numbers = Pipeline.from_iterable("abc".split()), Pipeline.from_iterable([1, 2])
        >>> list(Pipeline.interleave([letters, numbers], stop="all_exhausted_without_replacement"))
        ['abc', 1, 2]
        """
        checked = _checked(pipelines, weights)
        return cls(Interleave(weights, seed, stop), *checked)

    @classmethod
    def mix(
        cls, pipelines: Sequence[Pipeline], weights: Sequence[float], *, seed: int = 0, stop: Stop = "first_exhausted"
    ) -> Pipeline:
        """`interleave` by weights."""
        return cls.interleave(pipelines, weights, seed=seed, stop=stop)

    # ---- who reads what

    def with_readers(self, readers: int) -> Pipeline:
        """Fixes the number of logical readers, and with it the order, whatever the ranks and workers of the first run.

        Best a multiple of ranks × workers, and of which the number of shards is one.
        """
        return self._with(self._node, replace(self._dealing, readers=integer(readers, "readers", 1, 2**20, InputError)))

    def split_by_node(self, rank: int, world: int, *, even: Even = False, group: Any = None) -> Pipeline:
        """Which of how many ranks this is; without it `World.detect()` finds out.

        even
            Every rank and worker gives the same number of records, so that none waits for another one for ever. True
            where the number is known from the steps; or that number, if you know it.
        group
            A process group of torch instead: the ranks agree at each record.
        """
        try:
            where = World(rank=rank, ranks=world)
        except WorldError as error:
            raise InputError(f"split_by_node: {error}") from None
        return self.in_world(where, even=even, group=group)

    def in_world(self, world: World | None = None, *, even: Even = False, group: Any = None) -> Pipeline:
        """As `split_by_node`, for a `World`; None leaves it to be found out."""
        dealing = replace(self._dealing, world=world, even=check_even(even), group=check_group(group, even))
        return self._with(self._node, dealing)

    # ---- reading

    def __iter__(self) -> Iterator[Any]:
        consumer = self._consumer()
        self._readers = self._readers or consumer[1]
        if self._reading is not None and self._reading.begun:
            self._epoch, self._loaded = self._reading.epoch + 1, None
        self._reading = Reading(self._node, self._dealing, consumer, self._readers, self._epoch, self._loaded)
        return self._reading.records()

    def _consumer(self) -> tuple[int, int]:
        """Which of how many consumers this is."""
        world = self._dealing.world or self._own_world() or World.detect()
        # A worker of a loader knows that it is one.
        found = World.detect(environ={}) if world.workers == 1 else world
        return world.reader + world.readers * found.worker, world.readers * found.workers

    def _own_world(self) -> World | None:
        node = self._node
        while len(node.inputs) == 1:
            node = node.inputs[0]
        own = getattr(node.step, "world", None)
        found: World | None = own() if callable(own) else None
        return found

    def length(self) -> int | None:
        """How many records all ranks and workers give in an epoch, where that is known without reading."""
        lengths = lengths_of(self._node, self.epoch, self._readers or self._consumer()[1])
        return None if lengths is None else sum(lengths)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self._epoch = integer(epoch, "epoch", 0, 2**53, InputError)
        self._reading = None
        if self._loaded is not None and self._loaded["epoch"] != self._epoch:
            self._loaded = None  # in the epoch of a state that was loaded, its place is kept

    @property
    def epoch(self) -> int:
        """The epoch of the iteration that runs, or of the last one."""
        return self._epoch if self._reading is None else self._reading.epoch

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """The place after the last record that came out, as plain JSON values, to go on from exactly.

        With several ranks or workers it is the state of this one alone; see `merge_states` for a change of their
        number.
        """
        if self._reading is not None:
            return self._reading.state()
        return dict(self._loaded) if self._loaded is not None else state_head(self._node, self._epoch, self._readers)

    def load_state_dict(self, state: State) -> None:
        """Go on from a state, in the next iteration."""
        loaded = check_state(state, self._node, self._dealing.readers)
        self._epoch = loaded["epoch"] + loaded["done"]
        self._readers = loaded["readers"]
        self._loaded = None if loaded["done"] or loaded["parts"] is None else loaded
        self._reading = None

    def __getstate__(self) -> dict[str, Any]:
        # In another process an iteration begins where the next one would here.
        epoch = self._epoch
        if self._reading is not None and self._reading.begun:
            epoch = self._reading.epoch + 1
        return {**self.__dict__, "_reading": None, "_epoch": epoch}

    def describe(self) -> list[Any]:
        """The steps from the sources up, as states compare them."""
        return self._node.describe()

    def __repr__(self) -> str:
        return f"<Pipeline {' → '.join(map(str, self.describe()))}>"


def _dealing_of(inputs: Sequence[Pipeline]) -> Dealing:
    dealings = {repr(one._dealing): one._dealing for one in inputs}
    if len(dealings) > 1:
        raise InputError(
            "the pipelines to combine are dealt out in different ways; call split_by_node and with_readers on what "
            "comes of them instead"
        )
    return next(iter(dealings.values()), Dealing())


def _checked(pipelines: Sequence[Pipeline], weights: Sequence[float] | None) -> list[Pipeline]:
    try:
        found = list(pipelines)
    except TypeError:
        found = []
    if isinstance(pipelines, Pipeline) or not all(isinstance(one, Pipeline) for one in found):
        raise InputError(f"{pipelines!r} is no list of pipelines")
    check_inputs(len(found), weights)
    return found
