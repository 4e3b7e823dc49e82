"""Files of rows, also larger than memory, shuffled as the arrays in them would be."""

from __future__ import annotations

import math
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import THREADS, integer
from tombola.arrays._seeds import key_of
from tombola.arrays._shuffle import shuffle
from tombola.errors import ArrayError
from tombola.order import seed_of

_MEMORY = 1 << 30
_MEMORY_MIN = 1 << 20
_FOLLOW_FROM = 128  # bytes of a row from which to follow the permutation takes less time than to scatter
_FOLLOWED = range(128, 1 << 16)  # bytes of rows that a shuffle in memory moves one by one, with copies of some
_COPIES_MAX = 32 << 20
_OTHER_BYTES = 512 << 10

_NAME_MAX = 220  # bytes of a name, so that there is room for what is added to it
_HEADER_MAX = 1 << 24
_VERSIONS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}

_Bytes = npt.NDArray[np.uint8]


class Rows(NamedTuple):
    """Where the rows of a file are."""

    skip: int
    length: int
    row_bytes: int


def shuffle_file(
    path: str | os.PathLike[str],
    *,
    seed: Any = None,
    memory_bytes_max: int = _MEMORY,
    threads: int | None = None,
    row_bytes: int | None = None,
) -> None:
    """Shuffles the rows of a .npy file, or with `row_bytes` of a file that is nothing but rows of that size.

    The rows come out as `shuffle` would leave them for the same seed. A file that does not fit the memory allowed is
    read and written twice, in long runs. The new file is written beside the old one, which it replaces when it is
    complete and on disk: whatever happens before, the old one stays as it was. So there has to be room for a second
    copy. `memory_bytes_max` is what the process allocates; the system's page cache comes on top and is given back when
    others need it.

    >>> import numpy as np, pathlib, tempfile, tombola
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(5))
    >>> shuffle_file(path, seed=7)
    >>> bool((np.load(path) == tombola.permutation(5, seed=7)).all())
    True
    """
    memory = integer(memory_bytes_max, "memory_bytes_max", _MEMORY_MIN, 2**62, ArrayError)
    workers = THREADS if threads is None else integer(threads, "threads", 1, 1024, ArrayError)
    try:
        source = Path(os.fsdecode(path)).resolve()
        file = source.open("rb")
    except (OSError, RuntimeError, ValueError) as problem:
        raise ArrayError(f"{path!s} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    with file:
        rows = _rows_of(file, source, row_bytes)
        _check_writable(file, source)
        if rows.length < 2 or rows.row_bytes == 0:
            seed_of(seed)
            return
        way = _way(source, rows, memory)
        whole = seed_of(seed)
        key = key_of(whole, "exact", rows.length)
        with _replacement(source, file) as target:
            _write(target, _read(file, 0, rows.skip), 0)
            if way == "in memory":
                _in_memory(file, target, rows, whole, workers)
            else:
                os.ftruncate(target.fileno(), rows.skip + rows.length * rows.row_bytes)
                run = _core.exact_file_follow if way == "follow" else _core.exact_file
                run(file.fileno(), target.fileno(), *rows, memory, key, workers)


# ---- what the file holds


def _check_writable(file: BinaryIO, path: Path) -> None:
    # Replacing a file takes no right to write to it, and root has every right; whoever took it away meant something.
    if not (os.fstat(file.fileno()).st_mode & 0o222 and os.access(path, os.W_OK)):
        raise ArrayError(f"{path} is read-only; give the right to write to it, or shuffle a copy")


def _rows_of(file: BinaryIO, path: Path, row_bytes: int | None) -> Rows:
    size = os.fstat(file.fileno()).st_size
    if row_bytes is not None:
        bytes_ = integer(row_bytes, "row_bytes", 1, 2**40, ArrayError)
        if size % bytes_:
            raise ArrayError(
                f"{path} has {size} bytes, which is no multiple of row_bytes {bytes_}; give the right row size"
            )
        return Rows(0, size // bytes_, bytes_)
    try:
        version = np.lib.format.read_magic(file)
        if version not in _VERSIONS:
            raise ValueError(f"of version {version[0]}.{version[1]}")
        shape, fortran, dtype = _VERSIONS[version](file, max_header_size=_HEADER_MAX)
    except ValueError as problem:
        raise ArrayError(f"{path} is no .npy file ({problem}); for plain rows give their size as row_bytes") from None
    if dtype.hasobject:
        raise ArrayError(
            f"{path} holds pickled objects, which have no place of their own; load it, shuffle it, save it"
        )
    if not shape:
        raise ArrayError(f"{path} is 0-d, so it has no rows; an array needs at least one axis")
    if fortran and sum(size > 1 for size in shape) > 1:
        raise ArrayError(f"{path} is in Fortran order, its rows are not in one piece; save it in C order")
    if min(shape) < 0:
        raise ArrayError(f"{path} has the shape {shape} in its header, which no array has; write it again")
    count = shape[0]
    row = dtype.itemsize * math.prod(shape[1:])
    skip = file.tell()
    if size < skip + count * row:
        raise ArrayError(f"{path} ends after {size} bytes but its header promises {skip + count * row}; write it again")
    if size > skip + count * row:
        raise ArrayError(
            f"{path} goes on for {size - skip - count * row} bytes after its array, which would be lost; give each "
            "array a file of its own"
        )
    return Rows(skip, count, row)


def _way(path: Path, rows: Rows, memory: int) -> str:
    """How the file can be shuffled in so much memory, or an error that says how much it takes."""
    needs = {"in memory": _in_memory_bytes(rows)}
    if needs["in memory"] <= memory:
        return "in memory"
    needs |= {"follow": int(_core.exact_file_follow_memory(rows.length, rows.row_bytes))}
    if rows.row_bytes <= _core.DIRECT_MAX and (scatter := int(_core.exact_file_memory(rows.length, rows.row_bytes))):
        needs["scatter"] = scatter
    first = "follow" if rows.row_bytes >= _FOLLOW_FROM else "scatter"
    for way in sorted(needs, key=lambda way: way != first):
        if needs[way] <= memory:
            return way
    raise ArrayError(
        f"{path} has {rows.length} rows of {rows.row_bytes} bytes, which cannot be shuffled in {memory} bytes of "
        f"memory; allow {min(needs.values())}"
    )


def _in_memory_bytes(rows: Rows) -> int:
    """The rows, and what a shuffle in place takes beside them."""
    data = rows.length * rows.row_bytes
    if rows.row_bytes not in _FOLLOWED:
        return data * 23 // 20 + _OTHER_BYTES
    numbers = rows.length * (4 if rows.length < 2**32 else 8)
    return data + min(data // 2, _COPIES_MAX) + data // 32 + 2 * numbers + _OTHER_BYTES


@contextmanager
def _replacement(path: Path, file: BinaryIO) -> Iterator[BinaryIO]:
    """A new file beside the path, which replaces it when all went well and is gone when not."""
    # Named before it is made and removed by that name, so that a Ctrl-C between any two lines leaves nothing behind.
    stem = os.fsdecode(os.fsencode(path.name)[:_NAME_MAX])
    name = path.with_name(f".{stem}.{secrets.token_hex(8)}.tombola")
    before = os.fstat(file.fileno())
    try:
        with _created(name, path) as target:
            yield target
            target.flush()
            os.fsync(target.fileno())
        now = os.stat(path)
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
            raise ArrayError(f"{path} was changed while it was shuffled; it stays as it is now: shuffle it again")
        with suppress(PermissionError):
            os.chown(name, before.st_uid, before.st_gid)
        shutil.copystat(path, name)
        os.utime(name)
        os.replace(name, path)
    except OSError as problem:
        raise OSError(problem.errno, f"{problem.strerror}; the file stays as it was", str(path)) from problem
    finally:
        with suppress(OSError):  # or it would hide what went wrong
            name.unlink(missing_ok=True)
    with suppress(OSError):  # the file is in place by now, and some folders cannot be opened or flushed
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _created(name: Path, beside: Path) -> BinaryIO:
    try:
        # Only for the owner until it is complete: the old file may be private.
        return open(name, "x+b", opener=lambda path, flags: os.open(path, flags, 0o600))
    except OSError as problem:
        raise ArrayError(
            f"no file can be written beside {beside}: {problem.strerror}; the new rows are written there first"
        ) from None


# ---- the ways


def _in_memory(file: BinaryIO, target: BinaryIO, rows: Rows, seed: int, threads: int) -> None:
    data = _read(file, rows.skip, rows.length * rows.row_bytes)
    shuffle(data.reshape(rows.length, rows.row_bytes), seed=seed, threads=threads)
    _write(target, data, rows.skip)


def _read(file: BinaryIO, at: int, size: int) -> _Bytes:
    data = np.empty(size, np.uint8)
    view, done = data.data, 0
    while done < size:
        got = os.preadv(file.fileno(), [view[done:]], at + done)
        if got == 0:
            raise ArrayError(
                f"{file.name} ended after {at + done} bytes while it was read; is another program writing it?"
            )
        done += got
    return data


def _write(file: BinaryIO, data: _Bytes, at: int) -> None:
    view, done = np.ascontiguousarray(data).reshape(-1).data, 0
    while done < len(view):
        done += os.pwrite(file.fileno(), view[done:], at + done)
