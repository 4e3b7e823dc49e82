"""
The C++ core of tombola. Private: call it through tombola's rooms, which check their input.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


def child(key: int, i: int) -> int:
    """The i-th child of a 64-bit key."""

class Permutation:
    """A keyed bijection on 0…n−1."""

    def __init__(self, n: int, key: int) -> None: ...

    def at_one(self, i: int) -> int: ...

    def find_one(self, j: int) -> int: ...

    def at(self, indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def find(self, values: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def run(self, first: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

class Line:
    """Shards end to end in a keyed order, cut into lanes."""

    def __init__(self, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lanes: int, home_key: int, threads: int) -> None: ...

    @property
    def parts(self) -> int: ...

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

def digest(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[int, int]:
    """A digest of bytes as two 64-bit words, against accidents."""

class MdsShard:
    """
    The bytes of an MDS shard and the sizes of its columns, -1 for variable ones.
    """

    def __init__(self, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Sequence[int], schema: int) -> None: ...

    @property
    def records(self) -> int: ...

def gather(shards: object, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], wanted: Sequence[int], threads: int) -> tuple[int, int, list[tuple[object, object]]]:
    """
    (fault, row, [(bytes, offsets or None), …]): the wanted columns of records of the shards by number.
    """

def map_file(descriptor: int, bytes: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
    """
    An open file as read-only memory; the descriptor may be closed at once.
    """

def filesystem_magic(descriptor: int) -> int:
    """
    The kernel's magic number of the file system an open file is on; 0 where there is none.
    """
