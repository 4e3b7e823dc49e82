"""
The C++ core of tombola. Private: call it through tombola's rooms, which check their input.
"""

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

def deal_fractions(sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], total: int, granularity: int, key: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    How many records each shard gives to a fractional repeat of so many in all.
    """

class Units:
    """The line of all repeats of all shards, the fractional ones included."""

    def __init__(self, unit_start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], unit_shard: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], unit_whole: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], shard_start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], key: int) -> None: ...

    def at(self, on_line: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def find_in_fraction(self, shard: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...
