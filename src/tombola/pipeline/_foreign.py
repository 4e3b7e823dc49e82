"""Streams of tombola, of torch and of Hugging Face as sources. None of them is imported: what is given knows itself."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tombola.errors import InputError, StateError
from tombola.pipeline._sources import Source, passed
from tombola.pipeline._step import State, deals, dealt_length
from tombola.pipeline._steps import as_rows

_ROWS = 256


class FromStream(Source):
    """The records of a `tombola.Stream`, in its order: of each epoch the order of that epoch."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def world(self) -> Any:
        """The world the stream was given."""
        return self._stream.plan.world

    def shards(self) -> int:
        return 1

    def begin(self) -> None:
        self._at = 0

    def iterate(self) -> Iterator[Any]:
        # The order knows the record of any position: a share is computed, nothing is read and left out.
        stream, order, epoch = self._stream, self._stream.plan.order, self.context.epoch
        number, stride = deals(self.context.ops)
        total = len(order)
        while (first := number + self._at * stride) < total:
            last = min(total, first + _ROWS * stride)
            for record in stream.rows(order.slice(first, last, epoch)[::stride]):
                self._at += 1
                yield record

    def state(self) -> State:
        return [self._at, self._name()]

    def load(self, state: State) -> None:
        self._at, name = state
        if name != self._name():
            raise StateError("the state was taken of a stream with another dataset, order or seed than this one")

    def _name(self) -> str:
        words = json.dumps([self._stream.plan.order.fingerprint, self._stream.digest], sort_keys=True, default=list)
        return hashlib.blake2b(words.encode(), digest_size=8).hexdigest()

    def close(self) -> None:
        pass

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return dealt_length(len(self._stream.plan.order), self.context.ops)

    def describe(self) -> str:
        return "from_stream"


class FromTorch(Source):
    """A torch IterableDataset, or anything else with its methods: a state of its own is used where it has one."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.seeks = _is_stateful(dataset)

    def begin(self) -> None:
        super().begin()
        self._own: Any = None

    def shards(self) -> int:
        return 1

    def open(self, shard: int, place: Any) -> Iterator[Any]:
        self._opened_at = place
        self._own = dataset = self._mine()
        if not isinstance(place, dict):
            return passed(iter(dataset), place)
        # It may make what it was given its own, and go on writing into it.
        dataset.load_state_dict(copy.deepcopy(place["state"]))
        return iter(dataset)

    def _mine(self) -> Any:
        """The dataset; for each of several readers a copy, since it knows but one place."""
        if not self.seeks or self.context.sharers == 1:
            return self._dataset
        try:
            return copy.deepcopy(self._dataset)
        except Exception as error:
            raise InputError(
                f"{self.describe()} has a state_dict, and there are {self.context.sharers} readers, each of which "
                f"needs a copy of it, which cannot be made ({type(error).__name__}: {error}): use with_readers(1), or "
                f"a dataset without a state"
            ) from error

    def place(self, records: Iterator[Any], count: int) -> Any:
        opened = self._opened_at
        if not self.seeks or not count:
            return count
        if isinstance(opened, dict) and opened["read"] == count:
            # A dataset that was given a state may not say so before its next record was asked for.
            return opened
        return {"state": copy.deepcopy(self._own.state_dict()), "read": count}

    def describe(self) -> str:
        return f"from_torch({type(self._dataset).__qualname__})"


def _is_stateful(dataset: Any) -> bool:
    return callable(getattr(dataset, "state_dict", None)) and callable(getattr(dataset, "load_state_dict", None))


class FromHuggingFace(Source):
    """An `IterableDataset` of Hugging Face's datasets, shard by shard."""

    seeks = False

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def shards(self) -> int:
        count = getattr(self._dataset, "num_shards", None)
        return int(self._dataset.n_shards if count is None else count)

    def open(self, shard: int, place: Any) -> Iterator[Any]:
        one = self._dataset.shard(num_shards=self.shards(), index=shard)
        # `iter` gives a worker of a loader the whole; iterating would deal the shard out to the workers once more.
        batches = one.iter(batch_size=_ROWS)
        return passed((row for batch in batches for row in self._rows(batch)), place)

    def _rows(self, batch: Any) -> list[Any]:
        if not isinstance(batch, Mapping):
            raise InputError(
                f"{self.describe()}: the dataset's own format gives {type(batch).__qualname__} instead of dicts: call "
                f"with_format of the pipeline, not of the dataset"
            )
        return as_rows(batch, self.describe(), None)

    def describe(self) -> str:
        return "from_huggingface"


def check_huggingface(dataset: Any) -> FromHuggingFace:
    """The source of an IterableDataset that nobody has dealt out yet."""
    if not (callable(getattr(dataset, "shard", None)) and callable(getattr(dataset, "iter", None))):
        raise InputError(
            f"{type(dataset).__qualname__} is no IterableDataset of Hugging Face: it has no shard or no iter"
        )
    if not (hasattr(dataset, "num_shards") or hasattr(dataset, "n_shards")):
        raise InputError(
            f"{type(dataset).__qualname__} has no shards of its own; give its to_iterable_dataset(num_shards=…)"
        )
    if getattr(dataset, "_distributed", None) is not None:
        raise InputError(
            "this dataset was given to split_by_node of Hugging Face already: give it before that, and call "
            "split_by_node of the pipeline"
        )
    return FromHuggingFace(dataset)


def check_torch(dataset: Any) -> FromTorch:
    """The source of a torch IterableDataset."""
    if not hasattr(dataset, "__iter__"):
        raise InputError(f"{type(dataset).__qualname__} cannot be iterated over; give an IterableDataset of torch")
    if hasattr(dataset, "__next__"):  # an iterator has nothing to begin anew
        raise InputError(
            f"{type(dataset).__qualname__} gives each record once; give a dataset, or from_iterable an iterator"
        )
    return FromTorch(dataset)


def check_stream(stream: Any) -> FromStream:
    """The source of a stream of tombola."""
    if not all(hasattr(stream, name) for name in ("plan", "rows", "digest")):
        raise InputError(f"{type(stream).__qualname__} is no tombola.Stream")
    return FromStream(stream)
