"""A whole epoch for a whole world: sampled, shuffled, dealt, in each of the peer's four batching methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tombola._ints import THREADS, Ints, integer
from tombola.errors import OrderError
from tombola.order._layout import Layout
from tombola.order._order import check_epoch
from tombola.order.mosaic._deal import RULES, deal, in_shape, traversal
from tombola.order.mosaic._draws import Draws, check_seed
from tombola.order.mosaic._sampling import SAMPLINGS, Weights, sample, stream_records, weigh
from tombola.order.mosaic._shuffle import BLOCK_RECORDS, NAMES, check_block, check_canonical_nodes, shuffle

BATCHINGS = ("random", "stratified", "per_stream", "device_per_stream")


@dataclass(frozen=True)
class Options:
    """Everything besides layout, weights and world that decides what a run of the peer reads.

    shuffle
        "naive", "py1b", "py1s", "py2s", "py1br" or "py1e" (see `mosaic.shuffle`), or None for the stored order.
    canonical_nodes
        The peer's num_canonical_nodes. Its default is 64 a node for py1s and py2s and 1 a node otherwise; a world has
        no say here, so give the number.
    seed
        The peer's shuffle_seed.
    batching
        "random": batches of whatever comes. "stratified": each batch holds each stream's share. "per_stream": each
        batch is of one stream. "device_per_stream": each device's batch is.
    rule, first_nodes
        How positions are dealt; see `deal`. `first_nodes` is the peer's initial_physical_nodes.

    >>> Options(canonical_nodes=4).shuffle
    'py1e'
    """

    canonical_nodes: int
    shuffle: str | None = "py1e"
    seed: int = 9176
    block_records: int = BLOCK_RECORDS
    sampling: str = "balanced"
    granularity: int = 1
    batching: str = "random"
    rule: str = "relaxed"
    first_nodes: int | None = None

    def __post_init__(self) -> None:
        check_canonical_nodes(self.canonical_nodes)
        check_seed(self.seed)
        for what, value, known in (
            ("shuffle", self.shuffle, (*NAMES, None)),
            ("sampling", self.sampling, SAMPLINGS),
            ("batching", self.batching, BATCHINGS),
            ("rule", self.rule, RULES),
        ):
            if value not in known:
                raise OrderError(f"{what} is {value!r}; it must be one of {', '.join(map(str, known))}")
        integer(self.granularity, "granularity", 1, 2**61, OrderError)
        if self.shuffle is not None:
            check_block(self.shuffle, self.block_records)
        if self.first_nodes is not None:
            integer(self.first_nodes, "first_nodes", 1, 2**31 - 1, OrderError)

    @property
    def fresh(self) -> bool:
        """Whether draws per shard and of the streams' turns are new each epoch: the peer's epoch_seed_change."""
        return self.shuffle is not None and self.sampling == "balanced"


@dataclass(frozen=True)
class _Epoch:
    layout: Layout
    options: Options
    weights: Weights
    nodes: int
    ranks: int
    workers: int
    batch: int
    epoch: int
    drop_first: int
    threads: int

    @property
    def global_batch(self) -> int:
        return self.nodes * self.ranks * self.batch

    def dealt(self, *, nodes: int, batch: int, stream: int | None = None, drop_first: int = 0) -> Ints:
        """All streams, or one, sampled, shuffled and dealt."""
        options, choose = self.options, self.weights.choose
        sampled = sample(
            self.layout,
            choose,
            seed=options.seed,
            epoch=self.epoch,
            sampling=options.sampling,
            granularity=options.granularity,
            fresh=options.fresh,
            stream=stream,
        )
        ids = None
        if options.shuffle is not None:
            share = 1.0 if stream is None else self.weights.proportion[stream]
            ids = shuffle(
                options.shuffle,
                sampled.units,
                canonical_nodes=options.canonical_nodes,
                seed=options.seed,
                epoch=self.epoch,
                block_records=int(options.block_records * share),
                compact=True,
            )
        return deal(
            int(sampled.units.sum()),
            canonical_nodes=options.canonical_nodes,
            nodes=nodes,
            ranks_per_node=self.ranks,
            workers_per_rank=self.workers,
            device_batch=batch,
            drop_first=drop_first,
            first_nodes=options.first_nodes,
            rule=options.rule,
            ids=ids,
            records_of=sampled.records,
            threads=self.threads,
        )

    def turns(self) -> Draws:
        """What draws the turns of the streams; with the epoch's own seed, like everything in it."""
        return Draws(self.options.seed + (self.epoch if self.options.fresh else 0))

    def finished(self, batches: Ints) -> Ints:
        """Global batches, those read already dropped, filled up with empty ones and given their shape."""
        left = batches[self.drop_first // self.global_batch :]
        empty = np.full((-len(left) % self.workers, self.global_batch), -1, np.int64)
        return in_shape(np.concatenate([left, empty]), self.nodes, self.ranks, self.workers, self.batch)


def work(
    layout: Layout,
    options: Options,
    *,
    nodes: int = 1,
    ranks_per_node: int = 1,
    workers_per_rank: int = 1,
    device_batch: int,
    epoch: int = 0,
    drop_first: int = 0,
    weights: Weights | None = None,
    threads: int = THREADS,
) -> Ints:
    """The records every worker of a world reads in an epoch: the peer's generate_work, bit for bit.

    The shape is (nodes, ranks, workers, batches, batch); −1 stands for no record. `drop_first` is the number of records
    of the epoch that the whole world has read: the peer's sample_in_epoch. `weights` come from `weigh`; without them
    each stream is read once.

    Kept as they are, because the order depends on them:

    - "random" is the only method that resumes at any position; the others drop whole global batches;
    - "stratified", "per_stream" and "device_per_stream" drop what does not fill the common number of batches, each
      epoch, without a word;
    - "stratified" and "device_per_stream" spread each shard over several nodes;
    - "stratified" sorts the streams' remainders with no rule for equal ones: which of them gives one record more
      depends on the processor there, and is the later one here;
    - streams are sampled and shuffled with the same seed, so streams of equal layout come in the same order;
    - only "random", "stratified" and "per_stream" read the same set of records per global batch in any world, and only
      while no padding comes into it.

    >>> work(Layout([6]), Options(canonical_nodes=1, shuffle="naive", seed=1), device_batch=3).tolist()
    [[[[[4, 0, 2], [1, 5, 3]]]]]
    """
    if not isinstance(options, Options):
        raise OrderError(f"options is {options!r}; give mosaic.Options(canonical_nodes=…)")
    if weights is not None and not isinstance(weights, Weights):
        raise OrderError(f"weights is {weights!r}; give what mosaic.weigh makes")
    weights = weigh(stream_records(layout), seed=options.seed) if weights is None else weights
    todo = _Epoch(
        layout,
        options,
        weights,
        integer(nodes, "nodes", 1, 2**31 - 1, OrderError),
        integer(ranks_per_node, "ranks_per_node", 1, 2**31 - 1, OrderError),
        integer(workers_per_rank, "workers_per_rank", 1, 2**31 - 1, OrderError),
        integer(device_batch, "device_batch", 1, 2**31 - 1, OrderError),
        check_epoch(epoch),
        integer(drop_first, "drop_first", 0, None, OrderError),
        threads,
    )
    return _METHODS[options.batching](todo)


def _random(todo: _Epoch) -> Ints:
    return todo.dealt(nodes=todo.nodes, batch=todo.batch, drop_first=todo.drop_first)


def _full_rows(flat: Ints, length: int, *, always: bool = False) -> Ints:
    """Rows of the given length in which nothing is missing. `always`: as if a row were missing even when none is."""
    pad = length - flat.size % length if always else -flat.size % length
    rows = np.concatenate([flat, np.full(pad, -1, np.int64)]).reshape(-1, length)
    return rows[(rows >= 0).all(axis=1)]


def _stratified(todo: _Epoch) -> Ints:
    wanted = [share * todo.global_batch for share in todo.weights.proportion]
    counts = [int(want) for want in wanted]
    # The peer's sort leaves the order of equal remainders to the processor; the stable one is that of its scalar sort.
    by_remainder = np.argsort([want - int(want) for want in wanted], kind="stable")[::-1]
    for stream in by_remainder[: todo.global_batch - sum(counts)].tolist():
        counts[stream] += 1
    for stream, count in enumerate(counts):
        if count == 0:
            raise OrderError(
                f"stream {stream} has no record in a stratified batch of {todo.global_batch}: its share is "
                f"{todo.weights.proportion[stream]:.3g}; use a larger batch or another batching"
            )
    rows = [
        _full_rows(traversal(todo.dealt(nodes=1, batch=1, stream=stream)), count) for stream, count in enumerate(counts)
    ]
    common = min(map(len, rows))
    return todo.finished(np.concatenate([of_stream[:common] for of_stream in rows], axis=1))


def _per_stream(todo: _Epoch) -> Ints:
    batches = []
    for stream in range(len(todo.weights.choose)):
        flat = traversal(todo.dealt(nodes=todo.nodes, batch=todo.batch, stream=stream))
        rows = _full_rows(flat, todo.global_batch)
        if len(rows) == 0:
            raise OrderError(
                f"stream {stream} has fewer records than a global batch of {todo.global_batch}, and each batch is of "
                f"one stream; use a smaller batch, more of the stream, or another batching"
            )
        batches.append(rows)
    return todo.finished(_in_turns(batches, todo.turns(), todo.global_batch))


def _in_turns(rows: list[Ints], draws: Draws, length: int) -> Ints:
    """The rows of all streams, each stream's in order, the streams' turns shuffled."""
    turns = np.repeat(np.arange(len(rows), dtype=np.int64), [len(of_stream) for of_stream in rows])
    draws.shuffle(turns)
    out = np.empty((turns.size, length), np.int64)
    for stream, of_stream in enumerate(rows):
        out[turns == stream] = of_stream
    return out


def _device_per_stream(todo: _Epoch) -> Ints:
    canonical = todo.options.canonical_nodes
    if canonical % todo.nodes:
        raise OrderError(
            f"device_per_stream needs canonical nodes that the nodes divide, but there are {canonical} canonical nodes "
            f"and {todo.nodes} nodes; use a multiple"
        )
    own = canonical // todo.nodes
    rows: list[list[Ints]] = [[] for _ in range(todo.nodes)]
    for stream, share in enumerate(todo.weights.proportion):
        if todo.options.shuffle is not None and int(todo.options.block_records * share) == 0:
            raise OrderError(
                f"block_records is {todo.options.block_records}, of which stream {stream} with its share of "
                f"{share:.3g} has none; use a larger block"
            )
        dealt = todo.dealt(nodes=canonical, batch=1, stream=stream)
        for node in range(todo.nodes):
            flat = traversal(dealt[node * own : (node + 1) * own])
            rows[node].append(_full_rows(flat, todo.batch, always=True))
            if len(rows[node][-1]) == 0:
                raise OrderError(
                    f"stream {stream} has fewer records on node {node} than a device's batch of {todo.batch}, and each "
                    f"is of one stream; use a smaller batch, more of the stream, or another batching"
                )
    draws = todo.turns()
    batches = [_in_turns(of_node, draws, todo.batch) for of_node in rows]
    devices = todo.nodes * todo.ranks
    longest = max(map(len, batches))
    longest += devices - longest % devices
    filled = [np.concatenate([b, np.full((longest - len(b), todo.batch), -1, np.int64)]) for b in batches]
    return todo.finished(np.stack(filled, axis=1).reshape(-1, todo.global_batch))


_METHODS: dict[str, Callable[[_Epoch], Ints]] = {
    "random": _random,
    "stratified": _stratified,
    "per_stream": _per_stream,
    "device_per_stream": _device_per_stream,
}
