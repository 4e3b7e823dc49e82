"""The door to torch: a `Dataset` for its DataLoader, with any number of workers, and a `Loader` of threads.

>>> from tombola import Stream, Writer
>>> from tombola.stores import MemoryStore
>>> from tombola.torch import Loader
>>> with Writer(store := MemoryStore(), columns={"n": "int"}) as writer:
...     for n in range(8):
...         writer.write({"n": n})
>>> [batch["n"].tolist() for batch in Loader(Stream(store, batch_size=4, shuffle=False))]
[[0, 1, 2, 3], [4, 5, 6, 7]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola._ints import integer
from tombola.errors import FormatError, InputError, MissingExtra, PlanError, StateError
from tombola.formats import Encoding, Ragged, encoding
from tombola.pipeline import Pipeline, is_state
from tombola.plan import Cursor
from tombola.stream import Batch, Mapped, MappedBatch, Stream

try:
    import torch
    import torch.utils.data
except ImportError as problem:
    raise MissingExtra("tombola.torch needs torch: pip install 'tombola[torch]'") from problem

__all__ = ["Dataset", "Loader", "PipelineDataset", "RaggedTensor", "TensorBatch", "pipeline_states"]

_WORKERS_MAX = 256
_STATE = "tombola_worker"


class RaggedTensor:
    """Values of a variable-size column: the bytes of value i are ``data[offsets[i]:offsets[i + 1]]``.

    data, offsets
        uint8 and int64 tensors.
    """

    __slots__ = ("data", "encoding", "offsets")

    def __init__(self, data: torch.Tensor, offsets: torch.Tensor, kind: Encoding | str) -> None:
        self.data = data
        self.offsets = offsets
        self.encoding = encoding(kind) if isinstance(kind, str) else kind

    @classmethod
    def of(cls, column: Ragged) -> RaggedTensor:
        """The same memory as tensors. Offsets begin at 0."""
        first, last = int(column.offsets[0]), int(column.offsets[-1])
        offsets = column.offsets - first if first else column.offsets
        return cls(torch.from_numpy(column.data[first:last]), torch.from_numpy(offsets), column.encoding)

    def numpy(self) -> Ragged:
        """The same memory as a `tombola.formats.Ragged`."""
        return Ragged(self.data.cpu().numpy(), self.offsets.cpu().numpy(), self.encoding)

    def tolist(self) -> list[Any]:
        """All values, decoded."""
        return self.numpy().tolist()

    def __len__(self) -> int:
        return int(self.offsets.numel()) - 1

    def __getitem__(self, place: int) -> Any:
        return self.numpy()[place]

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> RaggedTensor:
        return RaggedTensor(change(self.data), change(self.offsets), self.encoding)

    def __repr__(self) -> str:
        return f"<RaggedTensor of {len(self)} {self.encoding.name} on {self.data.device}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return RaggedTensor, (self.data, self.offsets, self.encoding.name)


Tensors = dict[str, Any]
_WHOLE = "batches come whole: give the DataLoader batch_size=None, and the size of a batch to the Stream"


class TensorBatch:
    """A `Batch` whose columns are tensors: `batch["name"]` is a tensor or a `RaggedTensor`, `dict(batch)` all of them.

    It has the batch's `epoch`, `step` and `cursor`. `pin_memory` and `to` make another one; DataLoader's own
    `pin_memory=True` finds the first of them.
    """

    __slots__ = ("_cursor", "_mask", "_records", "columns", "epoch", "step")

    def __init__(
        self,
        columns: Tensors,
        records: npt.NDArray[np.int64],
        mask: npt.NDArray[np.bool_],
        epoch: int,
        step: int,
        cursor: Cursor | Batch | MappedBatch,
    ) -> None:
        self.columns = columns
        self._records = records
        self._mask = mask
        self.epoch = epoch
        self.step = step
        self._cursor = cursor

    @classmethod
    def of(cls, batch: Batch) -> TensorBatch:
        """The columns of a batch as tensors that share its memory."""
        columns = {name: _tensor(column) for name, column in batch.columns.items()}
        return cls(columns, batch.records, batch.mask, batch.epoch, batch.step, batch)

    @property
    def records(self) -> torch.Tensor:
        """The number in the dataset of each row's record."""
        return torch.from_numpy(self._records)

    @property
    def mask(self) -> torch.Tensor:
        """False for rows that only pad."""
        return torch.from_numpy(self._mask)

    @property
    def cursor(self) -> Cursor:
        """Where to go on after this batch, on any rank of any world, with any number of workers."""
        if not isinstance(self._cursor, Cursor):
            self._cursor = self._cursor.cursor
        return self._cursor

    def __len__(self) -> int:
        return int(self._records.size)

    def keys(self) -> KeysView[str]:
        """The names of the columns."""
        return self.columns.keys()

    def __getitem__(self, name: str) -> Any:
        try:
            return self.columns[name]
        except (KeyError, TypeError):
            raise FormatError(f"there is no column {name!r}; there are {', '.join(self.columns)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def pin_memory(self, device: Any = None) -> TensorBatch:
        """A copy in page-locked memory, from which a GPU takes it without waiting."""
        return self._each(lambda tensor: tensor.pin_memory())

    def to(self, device: Any, *, non_blocking: bool = False) -> TensorBatch:
        """A copy on a device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> TensorBatch:
        columns = {name: _changed(value, change) for name, value in self.columns.items()}
        return TensorBatch(columns, self._records, self._mask, self.epoch, self.step, self._cursor)

    def __repr__(self) -> str:
        return f"<TensorBatch {self.step} of epoch {self.epoch}: {len(self)} rows of {', '.join(self.columns)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorBatch, (self.columns, self._records, self._mask, self.epoch, self.step, self.cursor)


def _tensor(column: Any) -> Any:
    return RaggedTensor.of(column) if isinstance(column, Ragged) else torch.from_numpy(column)


def _changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, RaggedTensor):
        return value._each(change)
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _changed(one, change) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_changed(one, change) for one in value)
    return value


def _collated(*_: Any, **__: Any) -> Any:
    raise PlanError(_WHOLE)


# A DataLoader that was given no batch_size=None puts batches of batches together, and would complain of a type.
torch.utils.data._utils.collate.default_collate_fn_map[TensorBatch] = _collated


class _Convert:
    """What a stream hands out, as tensors."""

    def __init__(self, collate: Callable[[list[Any]], Any] | None) -> None:
        self._collate = collate or torch.utils.data.default_collate

    def __call__(self, found: Any) -> Any:
        if isinstance(found, Batch):
            return TensorBatch.of(found)
        if not isinstance(found, MappedBatch):
            return found
        values = self._collate(found.values) if found.values else {}
        columns = dict(values) if isinstance(values, Mapping) else {"value": values}
        return TensorBatch(columns, found.records, found.mask, found.epoch, found.step, found)


def _check(stream: Stream | Mapped, collate: Any) -> None:
    if not isinstance(stream, (Stream, Mapped)):
        raise InputError(f"{stream!r} is no stream; give a tombola.Stream, or what its map returns")
    if collate is not None and not callable(collate):
        raise InputError(f"collate is {collate!r}; it must be a function of a list of values")


class Dataset(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """A stream for torch's DataLoader, which must leave the batches as they are:
    ``DataLoader(Dataset(stream), batch_size=None, num_workers=4)``.

    Worker w of W reads steps w, w + W, … and the DataLoader takes the workers in turn, so the batches and their order
    are the same for any number of workers, also when it changes between a save and a resume. Workers may be forked or
    spawned, and may persist. Each new iteration is the next epoch; `set_epoch` chooses one.

    Save `batch.cursor` of the last batch you used: the DataLoader is ahead of you, so nothing else knows. torchdata's
    StatefulDataLoader keeps account itself; its state is for as many workers as it was taken with.

    One iteration at a time: two loaders that run side by side take a `Dataset` each.

    stream
        A `Stream`, or a mapped one. Mapped records are put together by `collate` (torch's default_collate unless
        given): a dict becomes the columns, anything else is the column "value".

    >>> from tombola import Stream, Writer
    >>> from tombola.stores import MemoryStore
    >>> with Writer(store := MemoryStore(), columns={"n": "int"}) as writer:
    ...     for n in range(8):
    ...         writer.write({"n": n})
    >>> loader = torch.utils.data.DataLoader(Dataset(Stream(store, batch_size=4, shuffle=False)), batch_size=None)
    >>> [batch["n"].tolist() for batch in loader]
    [[0, 1, 2, 3], [4, 5, 6, 7]]
    """

    def __init__(self, stream: Stream | Mapped, *, collate: Callable[[list[Any]], Any] | None = None) -> None:
        super().__init__()
        _check(stream, collate)
        self.stream = stream
        self._convert = _Convert(collate)
        self._epochs = _Epochs()
        self._here: _Here | None = None
        self._loaded: _Here | None = None

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        if info is None:
            self._here = None
            return self._in_this_process()
        return self._in_worker(info.id, info.num_workers, info.seed - info.id)

    def _in_this_process(self) -> Iterator[Any]:
        epoch = self._epochs.after_workers()
        if epoch is not None:
            self.stream.set_epoch(epoch)
        batches = self.stream.__iter__()  # iter() would hide its epoch from mypy
        self._epochs.start_at(batches.epoch + 1, 0)
        return map(self._convert, batches)

    def _in_worker(self, worker: int, workers: int, seed: int) -> Iterator[Any]:
        plan = _plan_of(self.stream)
        if self._loaded is not None:
            here, self._loaded = self._loaded, None
            self._epochs.join(worker, seed, here.epoch)
        else:
            epoch, step = self._epochs.begin(worker, seed, plan.start)
            here = _Here(worker, workers, epoch, step + worker)
        self._here = here
        if here.step >= plan.steps(here.epoch):
            return iter(())
        return self._from(here)

    def _from(self, here: _Here) -> Iterator[Any]:
        for batch in self.stream.steps_from(here.epoch, here.step, here.workers):
            here.step += here.workers
            yield self._convert(batch)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.stream)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration, whoever reads it."""
        self.stream.set_epoch(epoch)
        self._start()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the cursor of a batch, as a dict, or from what `state_dict` gave.

        Workers that persist from an earlier iteration keep their batch size.
        """
        rest = {key: value for key, value in state.items() if key != _STATE}
        self.stream.load_state_dict(rest)
        info = torch.utils.data.get_worker_info()
        if info is None:
            self._start()
            return
        epoch, step = _plan_of(self.stream).start
        own = state.get(_STATE)
        if own is None:
            self._loaded = _Here(info.id, info.num_workers, epoch, step + info.id)
            return
        if (own["worker"], own["workers"]) != (info.id, info.num_workers):
            raise PlanError(
                f"this is the state of worker {own['worker']} of {own['workers']}, not of worker {info.id} of "
                f"{info.num_workers}; with another number of workers resume from the cursor of a batch"
            )
        if own["ended"]:
            epoch, step = own["epoch"], _plan_of(self.stream).steps(own["epoch"])
        self._loaded = _Here(info.id, info.num_workers, epoch, step)

    def _start(self) -> None:
        cursor = self.stream.cursor
        start = _plan_of(self.stream).start
        # The place is the plan's own start, or the start of the epoch that was chosen.
        self._epochs.start_at(cursor.epoch, start[1] if cursor.epoch == start[0] and cursor.position else 0)

    def state_dict(self) -> dict[str, Any]:
        """Where this process stands: in a worker, at the next of its own steps."""
        here = self._here
        if here is None:
            return self.stream.state_dict()
        stream = self.stream.stream if isinstance(self.stream, Mapped) else self.stream
        steps = _plan_of(stream).steps(here.epoch)
        own = {"worker": here.worker, "workers": here.workers, "epoch": here.epoch, "ended": here.step >= steps}
        return {**stream.cursor_at(min(here.step, steps), here.epoch).to_dict(), _STATE: own}


class _Here:
    """The next step that a worker reads."""

    def __init__(self, worker: int, workers: int, epoch: int, step: int) -> None:
        self.worker = worker
        self.workers = workers
        self.epoch = epoch
        self.step = step


def _plan_of(stream: Stream | Mapped) -> Any:
    return (stream.stream if isinstance(stream, Mapped) else stream).plan


class _Epochs:
    """How workers that come and go agree on the epoch: a few integers in shared memory without a name.

    A DataLoader makes new workers for each iteration, from a dataset of which nothing in the main process says how
    often it was iterated over. So each worker leaves a mark in a place of its own: which iteration it is in, by the
    seed that the DataLoader draws for all workers alike, and which epoch that is. Whoever comes and finds a mark of its
    own iteration joins it; the first to come takes the epoch after the last. Marks are written whole, eight bytes at
    once, so there is nothing to lock.
    """

    _EPOCH, _GENERATION, _KEY = 19, 20, 24  # bits

    def __init__(self) -> None:
        # Entries 0 and 1: the epoch and step that come when there is no mark; −1 for the start of the plan.
        self._marks = torch.zeros(2 + _WORKERS_MAX, dtype=torch.int64)
        self._marks[:2] = -1
        self._marks.share_memory_()

    def start_at(self, epoch: int, step: int) -> None:
        """The next iteration begins here."""
        self._marks[2:] = 0
        self._marks[0], self._marks[1] = epoch, step

    def after_workers(self) -> int | None:
        """The epoch after the last that workers read; None when they read none since `start_at`."""
        read = [self._epoch(mark) for mark in self._marks[2:].tolist() if mark]
        return max(read) + 1 if read else None

    def begin(self, worker: int, seed: int, start: tuple[int, int]) -> tuple[int, int]:
        """Where a worker begins its iteration."""
        integer(worker, "worker", 0, _WORKERS_MAX - 1, InputError)
        base_epoch, base_step, *marks = self._marks.tolist()
        if base_epoch < 0:
            base_epoch, base_step = start
        name = self._iteration(marks[worker], seed)
        joined = [self._epoch(mark) for mark in marks if mark and mark >> self._EPOCH == name]
        done = [self._epoch(mark) for mark in marks if mark]
        epoch = joined[0] if joined else max(done) + 1 if done else base_epoch
        self._mark(worker, name, epoch)
        return epoch, base_step if epoch == base_epoch else 0

    def join(self, worker: int, seed: int, epoch: int) -> None:
        """A worker begins in an epoch that it knows."""
        self._mark(worker, self._iteration(int(self._marks[2 + worker]), seed), epoch)

    def _iteration(self, mark: int, seed: int) -> int:
        """The name of a worker's next iteration: the seed, and how often it came with the same seed before."""
        key = seed & ((1 << self._KEY) - 1)
        generations = 1 << self._GENERATION
        before = mark >> self._EPOCH
        generation = (before + 1) % generations if mark and before >> self._GENERATION == key else 0
        return key << self._GENERATION | generation

    def _mark(self, worker: int, name: int, epoch: int) -> None:
        self._marks[2 + worker] = name << self._EPOCH | (epoch + 1) % (1 << self._EPOCH)

    def _epoch(self, mark: int) -> int:
        return mark % (1 << self._EPOCH) - 1


class PipelineDataset(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """A pipeline for torch's DataLoader, with any number of workers. Each new iteration is the next epoch.

    Records are dealt to the workers, and the DataLoader takes the workers in turn. torchdata's StatefulDataLoader saves
    and resumes it exactly; `pipeline_states` gets the states of the workers out of its state, for a resume with
    another number of them.

    >>> from tombola.pipeline import Pipeline
    >>> numbers = Pipeline.from_iterable(range(8)).shuffle(4, seed=1)
    >>> loader = torch.utils.data.DataLoader(PipelineDataset(numbers), batch_size=4)
    >>> [batch.tolist() for batch in loader]
    [[3, 2, 5, 0], [1, 4, 6, 7]]
    """

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        if not isinstance(pipeline, Pipeline):
            raise InputError(f"{pipeline!r} is no pipeline; give a tombola.Pipeline")
        self.pipeline = pipeline
        self._epochs = _Epochs()
        self._begins_loaded = False
        # The state of a worker whose share of the epoch had ended when the others' had not, until its next iteration.
        self._ended: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        if info is None:
            epoch = self._epochs.after_workers()
            if epoch is not None:
                self.pipeline.set_epoch(epoch)
            reading = iter(self.pipeline)
            self._epochs.start_at(self.pipeline.epoch + 1, 0)
            return reading
        worker, seed = info.id, info.seed - info.id
        if self._begins_loaded:
            self._begins_loaded = False
            if self._ended is not None:
                self._epochs.join(worker, seed, self._ended["epoch"])
                return iter(())
            self._epochs.join(worker, seed, self.pipeline.epoch)
        else:
            self._ended = None
            self.pipeline.set_epoch(self._epochs.begin(worker, seed, (self.pipeline.epoch, 0))[0])
        return iter(self.pipeline)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration, whoever reads it."""
        self.pipeline.set_epoch(epoch)
        self._epochs.start_at(epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """The state of the pipeline in this process."""
        return self.pipeline.state_dict() if self._ended is None else self._ended

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._ended = None
        self.pipeline.load_state_dict(state)
        if torch.utils.data.get_worker_info() is None:
            self._epochs.start_at(self.pipeline.epoch, 0)
            return
        self._begins_loaded = True
        if state["done"]:
            self._ended = dict(state)


def pipeline_states(loader_state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The states of all workers' pipelines in the state of a StatefulDataLoader, for `tombola.pipeline.merge_states`.

    The loader must have taken a snapshot at the step that is saved: with `snapshot_every_n_steps=1` it does at all.
    """
    found: list[dict[str, Any]] = []
    todo: list[Any] = [loader_state]
    while todo:
        value = todo.pop()
        if not isinstance(value, Mapping):
            continue
        if is_state(value):
            found.append(dict(value))
            continue
        behind = value.get("_steps_since_snapshot") or 0
        if behind:
            raise StateError(
                f"the loader's last snapshot of its workers is {behind} steps old; save at a step at which one is "
                f"due, or make the loader with snapshot_every_n_steps=1"
            )
        todo.extend(value.values())
    if not found:
        raise StateError(
            "there is no state of a pipeline in this; give what the state_dict of a StatefulDataLoader returned"
        )
    return found


class Loader:
    """A stream as tensors, without worker processes: threads read ahead, and tensors share the batch's memory.

    stream
        A `Stream`, or a mapped one; see `Dataset` for `collate`.
    pin_memory
        Copy the tensors to page-locked memory. Without a GPU nothing is pinned.
    device
        Copy the tensors there.

    `state_dict` and `load_state_dict` follow torch's contract for stateful loaders; the state of one rank is good for
    all of them. Iterating again is the next epoch.
    """

    def __init__(
        self,
        stream: Stream | Mapped,
        *,
        pin_memory: bool = False,
        device: Any = None,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        _check(stream, collate)
        self.stream = stream
        self._convert = _Convert(collate)
        self._pin_memory = pin_memory
        self._device = device

    def __iter__(self) -> Iterator[Any]:
        for found in self.stream:
            yield self._moved(self._convert(found))

    def _moved(self, batch: Any) -> Any:
        if not isinstance(batch, TensorBatch):
            return batch
        if self._pin_memory and torch.cuda.is_available():
            batch = batch.pin_memory()
        return batch if self._device is None else batch.to(self._device, non_blocking=self._pin_memory)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.stream)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self.stream.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on after the last batch that was handed out."""
        return self.stream.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, or from the cursor of a batch as a dict."""
        self.stream.load_state_dict(state)

    def close(self) -> None:
        """Closes the stream."""
        self.stream.close()
