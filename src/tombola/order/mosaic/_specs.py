"""The exact MosaicML orders as orders: an epoch of the peer's "random" batching in the order it is read."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import Ints, integer
from tombola.errors import OrderError
from tombola.order._layout import Layout
from tombola.order._order import Order, OrderSpec, register
from tombola.order.mosaic._deal import deal
from tombola.order.mosaic._draws import SEED_END, check_seed, width
from tombola.order.mosaic._sampling import SAMPLINGS, is_list, sample, stream_records
from tombola.order.mosaic._shuffle import BLOCK_RECORDS, check_block, check_canonical_nodes, shuffle

CANONICAL_NODES_DEFAULT = 64
_RECORDS_MAX = 2**40  # of an epoch; each takes four bytes or eight
_EPOCHS_KEPT = 2  # the one being read and the one being prepared


@dataclass(frozen=True)
class _MosaicSpec(OrderSpec):
    canonical_nodes: int | None = None
    choose: tuple[int, ...] | None = None
    sampling: str = "balanced"
    granularity: int = 1

    shuffle_name: ClassVar[str]

    def __post_init__(self) -> None:
        if self.canonical_nodes is not None:
            object.__setattr__(self, "canonical_nodes", check_canonical_nodes(self.canonical_nodes))
        if self.choose is not None:
            if not is_list(self.choose):
                raise OrderError(f"choose is {self.choose!r}; give a list with a number of records for each stream")
            counts = tuple(integer(count, "choose", 0, 2**61, OrderError) for count in self.choose)
            if not any(counts):
                raise OrderError("no record is chosen of any stream; an epoch needs at least one")
            object.__setattr__(self, "choose", counts)
        if self.sampling not in SAMPLINGS:
            raise OrderError(f"sampling is {self.sampling!r}; it must be one of {', '.join(SAMPLINGS)}")
        object.__setattr__(self, "granularity", integer(self.granularity, "granularity", 1, 2**61, OrderError))
        check_block(self.shuffle_name, self.block)

    @property
    def block(self) -> int:
        return BLOCK_RECORDS

    def options(self) -> dict[str, Any]:
        """The options as plain JSON."""
        return super().options() | {"choose": None if self.choose is None else list(self.choose)}

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout with a seed from 0 on; the canonical nodes and counts become plain integers."""
        return _MosaicOrder(self, layout, check_seed(seed))


@dataclass(frozen=True)
class _BlockSpec(_MosaicSpec):
    block_records: int = BLOCK_RECORDS

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "block_records", check_block(self.shuffle_name, self.block_records))

    @property
    def block(self) -> int:
        return self.block_records


@register("mosaic/naive")
@dataclass(frozen=True)
class Naive(_MosaicSpec):
    """MosaicML's naive: one permutation of all records, new each epoch.

    canonical_nodes
        Lanes of the epoch; 64, or the number of records if that is smaller. The peer's default depends on the world.
    choose
        Records of an epoch, per stream: `mosaic.weigh` makes them. None: every record once.
    sampling, granularity
        See `mosaic.sample`.

    Kept as it is: the seed of an epoch is seed + epoch, so that epoch 1 of seed 7 is epoch 0 of seed 8.

    Unlike the orders of tombola's own it keeps the epoch in memory, four or eight bytes a record, for two epochs, and
    as much again and a half for the first `find`. Its length is a multiple of the canonical nodes: short ones repeat
    their last record. A plan over it reads the same global batches as the peer, as long as those are full.

    >>> order = Naive(canonical_nodes=2).over(Layout([3, 2]), seed=1)
    >>> order.slice(0, len(order)).tolist()
    [4, 1, 0, 2, 0, 3]
    >>> order.find(0).tolist()
    [2, 4]
    """

    shuffle_name = "naive"


@register("mosaic/py1s")
@dataclass(frozen=True)
class Py1s(_MosaicSpec):
    """MosaicML's py1s: whole shards in a shuffled order, the records of each shuffled. Options as `Naive`.

    Kept as it is: each lane reads one shard to its end, so a batch holds records of no more shards than there are
    lanes; and in epoch 0 the shuffle of the run and that of the epoch draw the same numbers (as in all but naive).

    >>> Py1s(canonical_nodes=1).over(Layout([4, 4]), seed=8).slice(0, 8).tolist()
    [3, 0, 1, 2, 7, 6, 4, 5]
    """

    shuffle_name = "py1s"


@register("mosaic/py2s")
@dataclass(frozen=True)
class Py2s(_MosaicSpec):
    """MosaicML's py2s: as py1s, and the records of each shard are shuffled before shards are cut. Options as `Naive`.

    Kept as it is: as in py1s; and it shuffles every record twice where once would do.

    >>> Py2s(canonical_nodes=1).over(Layout([4, 4]), seed=8).slice(0, 8).tolist()
    [1, 3, 2, 0, 6, 5, 7, 4]
    """

    shuffle_name = "py2s"


@register("mosaic/py1b")
@dataclass(frozen=True)
class Py1b(_BlockSpec):
    """MosaicML's py1b, which its release 0.11 dropped: fixed blocks of each lane are shuffled. Options as `Naive`.

    block_records
        The peer's shuffle_block_size.

    Kept as it is: blocks do not overlap, so nothing moves from one to the next, and a lane's last one may be short.

    >>> Py1b(canonical_nodes=1, block_records=2).over(Layout([4, 4]), seed=8).slice(0, 8).tolist()
    [1, 0, 2, 3, 5, 4, 6, 7]
    """

    shuffle_name = "py1b"


@register("mosaic/py1br")
@dataclass(frozen=True)
class Py1br(_BlockSpec):
    """MosaicML's py1br: blocks of random size with a random stagger. Options as `Py1b`.

    Kept as it is: up to three quarters of a block at the end of a lane can stay in stored order.

    >>> Py1br(canonical_nodes=1, block_records=4).over(Layout([4, 4]), seed=8).slice(0, 8).tolist()
    [1, 2, 0, 6, 3, 4, 5, 7]
    """

    shuffle_name = "py1br"


@register("mosaic/py1e")
@dataclass(frozen=True)
class Py1e(_BlockSpec):
    """MosaicML's py1e, its default: each record moves by up to half a block. Options as `Py1b`.

    Kept as it is: both ends of an epoch mix about half as many shards as its middle. It sorts floating-point keys;
    equal ones stay here in the order they came in, and there in one that depends on the processor.

    >>> Py1e(canonical_nodes=1, block_records=12).over(Layout([4, 4]), seed=8).slice(0, 8).tolist()
    [0, 7, 6, 3, 1, 4, 2, 5]
    """

    shuffle_name = "py1e"


class _Epoch:
    """The records of an epoch, and where each is read, made when first asked."""

    def __init__(self, records: npt.NDArray[Any]) -> None:
        self.records = records
        self.table: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None


class _MosaicOrder(Order):
    _spec: _MosaicSpec

    def __init__(self, spec: _MosaicSpec, layout: Layout, seed: int) -> None:
        super().__init__(spec, layout, seed)
        streams = stream_records(layout)
        choose = tuple(streams.tolist()) if spec.choose is None else spec.choose
        if len(choose) != streams.size:
            raise OrderError(f"choose has {len(choose)} entries for {streams.size} streams; give one for each")
        for stream, (count, has) in enumerate(zip(choose, streams.tolist(), strict=True)):
            if count and not has:
                raise OrderError(f"stream {stream} holds no records, but {count} are chosen of it; choose 0")
        total = sum(choose)
        lanes = min(CANONICAL_NODES_DEFAULT, total) if spec.canonical_nodes is None else spec.canonical_nodes
        if lanes > total:
            raise OrderError(
                f"canonical_nodes is {lanes}, but an epoch has only {total} records and a canonical node needs one; "
                f"use {total} or fewer"
            )
        if total > _RECORDS_MAX:
            raise OrderError(
                f"an epoch has {total} records, and an exact MosaicML order keeps all of them in memory: "
                f"more than 2^{_RECORDS_MAX.bit_length() - 1} are refused; use Lanes for what does not fit"
            )
        values = vars(spec) | {"canonical_nodes": lanes, "choose": choose}
        self._spec = type(spec)(**values)
        self._choose = choose
        self._length = lanes * -(-total // lanes)
        self.lanes = lanes
        self._process, self._lock = os.getpid(), threading.Lock()
        self._epochs: dict[int, _Epoch] = {}

    def __len__(self) -> int:
        return self._length

    def _epoch(self, epoch: int) -> _Epoch:
        if self._seed + epoch >= SEED_END:
            raise OrderError(
                f"seed + epoch is {self._seed + epoch}; an exact MosaicML order adds them, to less than 2^63"
            )
        with self._guard():
            made = self._epochs.pop(epoch, None)
            if made is None:
                while len(self._epochs) >= _EPOCHS_KEPT:  # before the new one is made: an epoch is large
                    del self._epochs[next(iter(self._epochs))]
                made = _Epoch(self._records(epoch))
            self._epochs[epoch] = made
            return made

    def _records(self, epoch: int) -> npt.NDArray[Any]:
        spec, seed = self._spec, self._seed
        sampled = sample(
            self._layout,
            self._choose,
            seed=seed,
            epoch=epoch,
            sampling=spec.sampling,
            granularity=spec.granularity,
            fresh=spec.sampling == "balanced",
        )
        ids = shuffle(
            spec.shuffle_name,
            sampled.units,
            canonical_nodes=self.lanes,
            seed=seed,
            epoch=epoch,
            block_records=spec.block,
            compact=True,
        )
        dealt = deal(
            ids.size,
            canonical_nodes=self.lanes,
            nodes=1,
            ranks_per_node=1,
            workers_per_rank=1,
            device_batch=self._length,
            ids=ids,
            records_of=sampled.records,
            compact=True,
        )
        return dealt.reshape(-1)

    def _at(self, positions: Ints, epoch: int) -> Ints:
        return self._epoch(epoch).records[positions].astype(np.int64, copy=False)

    def _slice(self, start: int, stop: int, step: int, epoch: int) -> Ints:
        return self._epoch(epoch).records[start:stop:step].astype(np.int64)

    def _find_all(self, records: Ints, epoch: int) -> tuple[Ints, Ints]:
        starts, found = self._find_table(self._epoch(epoch))
        first = starts[records].astype(np.int64)
        counts = starts[records + 1] - first
        ends = np.zeros(records.size + 1, np.int64)
        np.cumsum(counts, out=ends[1:])
        places = np.arange(ends[-1]) + np.repeat(first - ends[:-1], counts)
        return found[places].astype(np.int64), ends

    def _guard(self) -> threading.Lock:
        """The lock: an epoch is large, and two threads must not both make it.

        Of this process alone: a thread that held it when the process forked does not live on to let it go.
        """
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        return self._lock

    def _find_table(self, epoch: _Epoch) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        with self._guard():
            if epoch.table is None:
                narrow = epoch.records.dtype == np.int32 and width(self._length + 1) == np.int32
                dtype = np.int32 if narrow else np.int64
                starts: npt.NDArray[Any] = np.empty(self._layout.records + 1, dtype)
                found: npt.NDArray[Any] = np.empty(self._length, dtype)
                _core.mosaic_find_table(epoch.records.astype(dtype, copy=False), starts, found)
                epoch.table = (starts, found)
            return epoch.table
