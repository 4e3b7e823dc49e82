"""The options of the parallel offset virtual-block shuffle: what a user may choose, and what is chosen otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tombola._ints import integer
from tombola.errors import ArrayError

_VIRTUAL = 32
_PHYSICAL = 32
_OFFSETS = 16
#: Rows of a virtual block at most: what one worker, a thread or a GPU's thread block, sorts in local memory.
VIRTUAL_ROWS_MAX = 1 << 13
_ITERATIONS_MAX = 1 << 20
#: Rows at most → iterations with the default options: one or two more than the fewest at which no measure of bias
#: differs from that of a uniform shuffle. Measured by bench/arrays_bias.py; docs/explanation/arrays.md has the table.
#: It never changes, being part of what the method's name promises.
ITERATIONS = ((1 << 10, 2), (1 << 20, 4), (1 << 62, 5))


@dataclass(frozen=True)
class Options:
    """The sizes of a parallel offset virtual-block shuffle; what is None is chosen from the number of rows.

    >>> Options(virtual_block_size=2).physical_block_size is None
    True
    """

    virtual_block_size: int | None = None  #: physical blocks that are shuffled together
    physical_block_size: int | None = None  #: rows that stand side by side in a physical block
    offsets: Sequence[int] | None = None  #: where the first block may begin; each is 0 or no multiple of the block
    gpu_thread_block_size: int | None = None  #: threads that shuffle a virtual block on a GPU; changes only the speed


class PovSteps(NamedTuple):
    """What the C++ core and the GPU kernels are given."""

    iterations: int
    virtual_block_size: int
    physical_block_size: int
    offsets: list[int]


class BuildParams(NamedTuple):
    """What kernels there are.

    >>> get_build_params().virtual_rows_max
    8192
    """

    virtual_rows_max: int  #: rows of a virtual block at most
    gpu_backend: str  #: what compiles the GPU kernels, for any size, when they are first used
    word_bytes_max: int  #: bytes that a GPU thread moves at once where alignment allows
    gpu_thread_block_sizes: tuple[int, ...]


def get_build_params() -> BuildParams:
    """What kernels exist. None is built for certain shapes only, so there is no list of them.

    >>> get_build_params().gpu_backend
    'triton'
    """
    return BuildParams(VIRTUAL_ROWS_MAX, "triton", 16, (32, 64, 128, 256, 512, 1024))


def optim_options_for_dataset(x: Any, options: Options | None = None) -> Options:
    """The options with what is None chosen from the number of rows alone.

    x is an array, or a spec of one: a shape, or the number of rows.

    >>> optim_options_for_dataset(1000, Options(physical_block_size=10)).offsets
    (1, 2, 3, 4, 5, 6, 7, 8, 9)
    >>> optim_options_for_dataset((50_000, 3, 224, 224)).virtual_block_size
    32
    """
    n = _rows_of_spec(x)
    given = options if options is not None else Options()
    if not isinstance(given, Options):
        raise ArrayError(f"options is a {type(given).__name__}; it must be a tombola.Options")
    block = _size(given.physical_block_size, "physical_block_size", 2, _PHYSICAL)
    virtual = _size(given.virtual_block_size, "virtual_block_size", 1, min(_VIRTUAL, max(VIRTUAL_ROWS_MAX // block, 1)))
    if block * virtual > VIRTUAL_ROWS_MAX:
        raise ArrayError(
            f"{virtual} physical blocks of {block} rows make a virtual block of {block * virtual} rows; "
            f"at most {VIRTUAL_ROWS_MAX} fit into a worker's local memory: make one of the two smaller"
        )
    threads = _size(given.gpu_thread_block_size, "gpu_thread_block_size", 32, 512)
    if threads not in get_build_params().gpu_thread_block_sizes:
        raise ArrayError(f"gpu_thread_block_size is {threads}; it must be a power of two from 32 to 1024")
    return replace(
        given,
        virtual_block_size=virtual,
        physical_block_size=block,
        offsets=_default_offsets(n, block) if given.offsets is None else _offsets(given.offsets, n, block),
        gpu_thread_block_size=threads,
    )


def steps_of(n: int, iterations: int | None, options: Options | None) -> PovSteps:
    """The steps for n rows, checked."""
    full = optim_options_for_dataset(n, options)
    if iterations is None:
        iterations = next(count for rows, count in ITERATIONS if n <= rows)
    else:
        iterations = integer(iterations, "iterations", 1, _ITERATIONS_MAX, ArrayError)
    return PovSteps(iterations, full.virtual_block_size or 0, full.physical_block_size or 0, list(full.offsets or ()))


def _rows_of_spec(x: Any) -> int:
    shape = getattr(x, "shape", x)
    if isinstance(shape, Sequence) and not isinstance(shape, str):
        if not shape:
            raise ArrayError("x is 0-d, so it has no rows; an array needs at least one axis")
        shape = shape[0]
    return integer(shape, "the number of rows", 0, 2**62, ArrayError)


def _size(value: Any, name: str, low: int, default: int) -> int:
    return default if value is None else integer(value, name, low, 2**31, ArrayError)


def _default_offsets(n: int, block: int) -> tuple[int, ...]:
    """Up to 16 offsets, spread over the places of a block other than its first."""
    count = min(_OFFSETS, block - 1)
    spread = (1 + (block - 1) * k // count for k in range(count))
    return tuple(offset for offset in spread if offset < n) or (0,)


def _offsets(given: Any, n: int, block: int) -> tuple[int, ...]:
    try:
        offsets = tuple(given)
    except TypeError:
        raise ArrayError(f"offsets is {given!r}; it must be a sequence of whole numbers") from None
    if not offsets:
        raise ArrayError("offsets is empty; give at least one")
    for offset in offsets:
        integer(offset, "an offset", 0, max(n - 1, 0), ArrayError)
        if offset and offset % block == 0:
            raise ArrayError(
                f"the offset {offset} is a multiple of the physical block size {block}; give one that is not, or 0"
            )
    return tuple(int(offset) for offset in offsets)
