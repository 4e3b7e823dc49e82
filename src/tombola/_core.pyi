"""
The C++ core of tombola. Private: call it through tombola's rooms, which check their input.
"""

from collections.abc import Sequence
from typing import Annotated, Any, overload

import numpy
from numpy.typing import NDArray
from typing_extensions import CapsuleType


def child(key: int, i: int) -> int:
    """The i-th child of a 64-bit key."""

class Permutation:
    """A keyed bijection on 0…n−1."""

    def __init__(self, n: int, key: int) -> None: ...

    def at_one(self, i: int) -> int: ...

    def find_one(self, j: int) -> int: ...

    def at(self, inputs: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def find(self, values: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def run(self, first: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

class Line:
    """Shards end to end in a keyed order, cut into lanes."""

    def __init__(self, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lanes: int, home_key: int, threads: int) -> None: ...

class LaneEpoch:
    """One epoch of the lanes order."""

    def __init__(self, line: Line, parts_key: int, records_key: int, window_key: int, phase_key: int, window_shards: int, window_records: int, spread_phases: bool, threads: int) -> None: ...

    def at(self, positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def find(self, records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def slice(self, start: int, step: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def visits(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """
        (lane, unit, record begin, record end, first position, last position), one entry a visit.
        """

def deal_fractions(sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], total: int, granularity: int, key: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    How many records each shard gives to a fractional repeat of so many in all.
    """

class Units:
    """The line of all repeats of all shards, the fractional ones included."""

    def __init__(self, unit_start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], unit_shard: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], unit_whole: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], shard_start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], key: int) -> None: ...

    def at(self, on_line: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def find_in_fraction(self, shard: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def chairman(weights: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    A sequence of sum(weights) streams, each within one of its share in every prefix.
    """

def spread_phases(sequence: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lanes: int) -> tuple[int, int]:
    """
    (multiplier, bound of the error over all lanes × length) of the best way to start lanes along a sequence.
    """

def phases(multiplier: int, length: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class Weave:
    """Streams woven together lane by lane."""

    def __init__(self, lanes: int, run: int, block: int, epoch_records: int, lengths: Sequence[int]) -> None: ...

    def add_segment(self, grid: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: int, stride: int, start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], phase: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], column: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], key: int | None = None, carry: bool = False) -> None: ...

    def set_shards(self, stream: int, first_of: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], record_of: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], records: int) -> None: ...

    def map(self, positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], epoch: int, stream: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], pass_: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], at: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def unmap(self, stream: int, lane: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], place: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], epoch: int, positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def counts(self, epoch: int, position: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def to_records(self, stream: int, values: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def slice(self, start: int, step: int, epoch: int, sources: Sequence[tuple[Sequence[int], Sequence[LaneEpoch]]], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

class Bitmap:
    """A bitmap of records that counts and finds them."""

    def __init__(self, words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def count(self) -> int: ...

    def rank(self, places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None:
        """How many bits are set before each place."""

    def select(self, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None:
        """The places of the set bits with these numbers."""

def digest(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[int, int]:
    """A digest of bytes as two 64-bit words, against accidents."""

class MdsShard:
    """
    The bytes of an MDS shard and the sizes of its columns, -1 for variable ones.
    """

    def __init__(self, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Sequence[int], schema: int) -> None: ...

    @property
    def records(self) -> int: ...

class Pool:
    """
    Keeps so many bytes of memory of batches that were let go, for those to come.
    """

    def __init__(self, bytes_max: int) -> None: ...

    @property
    def nbytes(self) -> int: ...

def locate(starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[object, object, object]:
    """
    (shard of each record, its place in the shard, the distinct shards, ascending).
    """

def gather(shards: object, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], wanted: Sequence[int], threads: int, pool: Pool | None = None) -> tuple[int, int, list[tuple[object, object]]]:
    """
    (fault, row, [(bytes, offsets or None), …]): the wanted columns of records of the shards by number.
    """

def values(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], text: bool) -> list[Any]:
    """
    The values of a column of bytes, or of UTF-8 text, as a list; a UnicodeDecodeError where it is none.
    """

def rows(names: object, columns: object, count: int) -> list[Any]:
    """One dict a row, out of a list of values for each column."""

def map_file(descriptor: int, bytes: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
    """
    An open file as read-only memory; the descriptor may be closed at once.
    """

def filesystem_magic(descriptor: int) -> int:
    """
    The kernel's magic number of the file system an open file is on; 0 where there is none.
    """

class BatchTally:
    """What batches are made of, counted in one pass."""

    def __init__(self, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_size: int, readers: int, run: int, window_batches: int, gap: int) -> None: ...

    def add(self, first: int, records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
        """
        Rows of out: same-shard pairs, distinct shards, shards new in the window; pairs and distinct shards within ranks, summed over them; pairs within the worst rank.
        """

    def stretches(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]: ...

    def worst_gap(self, positions: int) -> int: ...

def label_batches(labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_size: int, classes: int, watched: int, entropy: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], out: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """
    Entropy in nats, pairs of equal labels and rows with the watched label, of each batch.
    """

class Pcg64:
    """The draws of NumPy's default_rng(seed), as NumPy 2.1.3 makes them."""

    def __init__(self, seed: int) -> None: ...

    def next64(self) -> int: ...

    def next32(self) -> int: ...

    def interval(self, most: int) -> int: ...

    def bounded(self, most: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def units(self, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    @overload
    def shuffle(self, out: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    @overload
    def shuffle(self, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def choose(self, n: int, k: int) -> list[int]: ...

def mosaic_sample_shards(sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], chosen: int, granularity: int, seed: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def mosaic_widen(out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Spread the 32-bit numbers in the upper half of an array over all of it.
    """

@overload
def mosaic_order(name: int, units: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], canonical_nodes: int, seed: int, epoch: int, block_records: int, block_low: int, block_high: int, out: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def mosaic_order(name: int, units: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], canonical_nodes: int, seed: int, epoch: int, block_records: int, block_low: int, block_high: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def mosaic_sample_records(starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, out: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> list[int]: ...

@overload
def mosaic_sample_records(starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> list[int]: ...

@overload
def mosaic_find_table(order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, starts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], found: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def mosaic_find_table(order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], found: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def mosaic_deal(records: int, canonical_nodes: int, nodes: int, ranks: int, workers: int, batch: int, drop_first: int, filled: int, pads: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tiled: bool, ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, records_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

@overload
def mosaic_deal(records: int, canonical_nodes: int, nodes: int, ranks: int, workers: int, batch: int, drop_first: int, filled: int, pads: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tiled: bool, ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, records_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

@overload
def mosaic_deal(records: int, canonical_nodes: int, nodes: int, ranks: int, workers: int, batch: int, drop_first: int, filled: int, pads: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tiled: bool, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, records_of: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

FOLLOW_FROM: int = 128

def threads_worth(n: int, row_bytes: int, threads: int) -> int:
    """How many threads are worth starting."""

TABLE_MAX: int = 128

DIRECT_MAX: int = 512

def exact_arrays(views: Sequence[tuple[int, int, int, Sequence[tuple[int, int]]]], n: int, key: int, threads: int, keep_gil: bool = False, follow_from: int = 128, limits: Sequence[int] = [0, 0, 0, 0, 0, 0, 0]) -> None:
    """
    Shuffles arrays of n rows in unison, in place. keep_gil for object pointers, which no other thread must see halfway. Rows of follow_from bytes and more are moved once along the permutation.
    """

def exact_array(array_struct: CapsuleType, key: int, threads: int, keep_gil: bool) -> bool:
    """
    exact_arrays for one NumPy array; false, and nothing is done, when it is not one to shuffle.
    """

def rows_of(array_struct: CapsuleType) -> tuple[int, int, int, list[tuple[int, int]]] | None:
    """
    Where the rows of a NumPy array are: address, bytes from row to row, bytes of a run, inner axes as (size, step). None when elements of it overlap.
    """

def exact_file_memory(rows: int, row_bytes: int, limits: Sequence[int] = [0, 0, 0, 0, 0, 0, 0]) -> int:
    """Bytes of memory that exact_file needs at least; 0: it cannot."""

def exact_file_follow_memory(rows: int, row_bytes: int) -> int:
    """Bytes of memory that exact_file_follow needs at least."""

def exact_file(source: int, target: int, skip: int, rows: int, row_bytes: int, memory_bytes_max: int, key: int, threads: int, limits: Sequence[int] = [0, 0, 0, 0, 0, 0, 0]) -> None:
    """
    Writes the rows of a file to another, shuffled as exact_arrays would, by scattering them.
    """

def exact_file_follow(source: int, target: int, skip: int, rows: int, row_bytes: int, memory_bytes_max: int, key: int, threads: int, limits: Sequence[int] = [0, 0, 0, 0, 0, 0, 0]) -> None:
    """
    Writes the rows of a file to another, shuffled as exact_arrays would, along the permutation.
    """

def gpu1_arrays(views: Sequence[tuple[int, int, int, Sequence[tuple[int, int]]]], n: int, key: int, threads: int, keep_gil: bool = False) -> None:
    """The permutation of the GPU kernels, on the CPU."""

def gpu1_permutation(out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], key: int) -> None: ...

def pov_arrays(views: Sequence[tuple[int, int, int, Sequence[tuple[int, int]]]], n: int, key: int, iterations: int, virtual_block_size: int, physical_block_size: int, offsets: Sequence[int], threads: int, keep_gil: bool = False) -> None:
    """
    The parallel offset virtual-block shuffle of arrays in unison, in place.
    """

def exact_permutation(out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], key: int, threads: int, limits: Sequence[int] = [0, 0, 0, 0, 0, 0, 0]) -> None:
    """out[i] becomes the row that comes to place i."""

class Counted:
    """The records of an iterator, counted."""

    def __iter__(self, /):
        """Implement iter(self)."""

    def __next__(self, /):
        """Implement next(self)."""

    def __init__(self, source: object, count: int) -> None: ...

    @property
    def count(self) -> int:
        """How many came out, from the count that was given on."""

class Mapped:
    """A function over the records of an iterator."""

    def __iter__(self, /):
        """Implement iter(self)."""

    def __next__(self, /):
        """Implement next(self)."""

    def __init__(self, source: object, function: object, without: tuple[str, ...], fail: object) -> None: ...

class ShuffleBuffer:
    """
    Records of an iterator, in an order shuffled within a buffer. Bounds of 0 are none.
    """

    def __iter__(self, /):
        """Implement iter(self)."""

    def __next__(self, /):
        """Implement next(self)."""

    def __init__(self, source: object, key: int, records_max: int, bytes_max: int, initial: int, size_of: object | None, mark: object | None) -> None: ...

    def load(self, records: list[Any], ordinals: NDArray[numpy.int64], emitted: int, pulled: int, done: bool, next_mark: int) -> None:
        """Sets what is in the buffer and how far it is."""

    def ordinals(self) -> NDArray[numpy.int64]:
        """By slot: the number of the record in the source."""

    def records(self) -> list[Any]:
        """By slot: the record."""

    @property
    def emitted(self) -> int:
        """Records given out."""

    @property
    def pulled(self) -> int:
        """Records taken in."""

    @property
    def done(self) -> bool:
        """Whether the source has ended."""
