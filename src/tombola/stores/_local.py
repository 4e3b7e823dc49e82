"""A folder of files: mapped, or read where mapping is slow."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tombola import _core
from tombola._ints import integer
from tombola.errors import InputError, MissingError, StoreError
from tombola.stores._keys import check_key
from tombola.stores._store import Bytes, Store, check_range, missing

# Where every page fault is a trip over a network, one large read is many times faster than touching pages.
# The numbers are the kernel's (statfs(2), linux/magic.h, and the clients' own headers).
SLOW_TO_MAP = {
    0x0BD00BD0: "lustre",
    0x6969: "nfs",
    0x47504653: "gpfs",
    0x00C36400: "ceph",
    0x19830326: "beegfs",
    0xFE534D42: "smb2",
    0xFF534D42: "cifs",
    0x65735546: "fuse",
    0x01021997: "9p",
    0x5346414F: "afs",
}
_READS = ("auto", "mmap", "pread")
_TEMPORARY = ".tmp"
# Files smaller than this are mapped anew each time: it costs less than keeping account of them.
_KEPT_BYTES_MIN = 1 << 20


def choose_read(magic: int) -> str:
    """How to read from the file system with this magic number."""
    return "pread" if magic in SLOW_TO_MAP else "mmap"


class LocalStore(Store):
    """The files of a folder. Keys are their paths below it.

    read
        "mmap" gives views of the mapped file and copies nothing. "pread" reads into fresh memory: choose it
        where mapping is slow. "auto" maps, except on Lustre, NFS, GPFS and their like.
    sync
        Write so that a file survives a power failure before `write` returns. Turn off for scratch data.
    mapped_bytes_max
        Files stay mapped after use, up to so many bytes together: mapping them anew in each epoch takes about as long
        as copying them. It costs address space only; the system may take the memory at any time. A file that was
        replaced is mapped anew.

    A file that is replaced by a rename, or removed, while a view of it is held stays readable. A mapped file
    that someone cuts short in place does not: the process is stopped by the system (SIGBUS). Where that can
    happen use "pread", which raises instead.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = LocalStore(folder)
    ...     store.write("train/a", b"some bytes")
    ...     bytes(store.read("train/a")), list(store.list("train/"))
    (b'some bytes', ['train/a'])
    """

    def __init__(
        self, root: str | os.PathLike[str], *, read: str = "auto", sync: bool = True, mapped_bytes_max: int = 1 << 30
    ) -> None:
        if read not in _READS:
            raise InputError(f"read={read!r} is not known; give one of {', '.join(_READS)}")
        self._root = Path(root)
        self._read = read
        self._sync = sync
        self._mapped_bytes_max = integer(mapped_bytes_max, "mapped_bytes_max", 0, None, InputError)
        self._mapped: dict[str, tuple[tuple[int, ...], memoryview]] = {}

    @property
    def root(self) -> Path:
        """The folder."""
        return self._root

    @property
    def uri(self) -> str:
        """The folder's path."""
        return str(self._root)

    @property
    def mode(self) -> str:
        """How files are read: "mmap" or "pread". "auto" is settled by the file system of the folder."""
        if self._read == "auto":
            try:
                descriptor = os.open(self._root, os.O_RDONLY)
            except OSError as error:
                raise self._error("", error) from error
            try:
                self._read = choose_read(_core.filesystem_magic(descriptor))
            finally:
                os.close(descriptor)
        return self._read

    def read(self, key: str) -> memoryview:
        """All bytes of a file: a view of the mapped file, or fresh memory."""
        return self._open_and_read(key, 0, None)

    def read_range(self, key: str, start: int, stop: int) -> memoryview:
        """The bytes start…stop−1 of a file."""
        return self._open_and_read(key, start, stop)

    def size(self, key: str) -> int:
        """How many bytes a file has."""
        try:
            found = os.stat(self._path(key))
        except OSError as error:
            raise self._error(key, error) from error
        if not _is_file(found):
            raise missing(self, key)
        return found.st_size

    def list(self, prefix: str = "") -> Iterator[str]:
        """The files below the folder whose keys begin with a prefix, in sorted order."""
        # Only the folder that the prefix names is walked, not the whole tree.
        head = prefix.rpartition("/")[0]
        top = self._root / head if head else self._root
        found = []
        for folder, _, names in os.walk(top):
            below = Path(folder).relative_to(self._root).as_posix()
            for name in names:
                key = name if below == "." else f"{below}/{name}"
                if key.startswith(prefix) and not _is_temporary(name):
                    found.append(key)
        return iter(sorted(found))

    def prefetch(self, key: str, start: int = 0, stop: int | None = None) -> None:
        """Asks the system to read ahead into its page cache."""
        # Of a cached file the system looks up every page; one that stayed mapped is most likely cached.
        if not hasattr(os, "posix_fadvise") or key in self._mapped:
            return
        with suppress(OSError):
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, start, 0 if stop is None else stop - start, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)

    def write(self, key: str, data: Bytes) -> None:
        """Writes aside, then renames: a reader sees the old file, or the new one whole."""
        path = self._path(key)
        aside = path.with_name(f".{path.name}.{os.urandom(8).hex()}{_TEMPORARY}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._write_aside(aside, memoryview(data).cast("B"))
                os.replace(aside, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(aside)
                raise
            if self._sync:
                _sync_folder(path.parent)
        except OSError as error:
            raise self._error(key, error) from error

    def delete(self, key: str) -> None:
        """Removes a file; its folder stays."""
        try:
            os.unlink(self._path(key))
        except OSError as error:
            raise self._error(key, error) from error

    def _open_and_read(self, key: str, start: int, stop: int | None) -> memoryview:
        mode = self.mode
        try:
            kept = self._mapped.get(key)
            if kept is not None and stop is None and _identity(os.stat(self._path(key))) == kept[0]:
                return kept[1]
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
            try:
                found = os.fstat(descriptor)
                if not _is_file(found):
                    raise missing(self, key)
                end = found.st_size if stop is None else stop
                check_range(self, key, start, end, found.st_size)
                if mode == "mmap":
                    return self._map(key, descriptor, found)[start:end]
                return self._pread(key, descriptor, start, end)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._error(key, error) from error

    def _map(self, key: str, descriptor: int, found: os.stat_result) -> memoryview:
        view = _core.map_file(descriptor, found.st_size).data.toreadonly()
        self._mapped.pop(key, None)
        if found.st_size >= _KEPT_BYTES_MIN:
            # The first to come stay: epoch after epoch in new orders, whatever is dropped for another is missed later.
            # No lock, for one that is held in a fork is held for ever; two threads may keep a file too many.
            kept = sum(one.nbytes for _, one in tuple(self._mapped.values()))
            if kept + found.st_size <= self._mapped_bytes_max:
                self._mapped[key] = _identity(found), view
        return view

    def close(self) -> None:
        """Lets go of the files that stayed mapped."""
        self._mapped = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_mapped": {}}

    def _pread(self, key: str, descriptor: int, start: int, stop: int) -> memoryview:
        # NumPy's memory is not cleared first, as a bytearray's would be.
        memory = np.empty(stop - start, np.uint8).data
        done = 0
        while done < len(memory):
            got = os.preadv(descriptor, [memory[done:]], start + done)
            if got == 0:
                check_range(self, key, start, stop, start + done)
            done += got
        return memory.toreadonly()

    def _write_aside(self, aside: Path, data: memoryview) -> None:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            done = 0
            while done < len(data):
                # Linux writes at most 2 GiB at a time.
                done += os.write(descriptor, data[done : done + (1 << 30)])
            if self._sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _error(self, key: str, error: OSError) -> StoreError:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return missing(self, key) if key else MissingError(f"the folder {self.uri} is not there", uri=self.uri)
        uri = self.uri_of(key)
        if error.errno == errno.ENOSPC:
            return StoreError(f"{uri} could not be written: no space is left; free some, or write elsewhere", uri=uri)
        return StoreError(f"{uri} could not be read or written: {error.strerror or error}", uri=uri)


def _is_file(found: os.stat_result) -> bool:
    return (found.st_mode & 0o170000) == 0o100000


def _identity(found: os.stat_result) -> tuple[int, ...]:
    """Changes when a file is replaced, or written to."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(_TEMPORARY)


def _sync_folder(folder: Path) -> None:
    # Without it a rename may be forgotten in a power failure. Some file systems refuse: then it is not needed.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
