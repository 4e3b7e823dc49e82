"""Some of the records only: a stored bitmap, and any order over what it keeps."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import THREADS, Ints, IntsLike, flat_array, integer, integers
from tombola.errors import OrderError
from tombola.order._lanes import Lanes
from tombola.order._layout import Layout
from tombola.order._nested import spec_of, spec_to_json
from tombola.order._order import Order, OrderSpec, Visits, register

_WORD = 64
_AT_ONCE = 2**20  # records a predicate is asked about at a time
Predicate = Callable[[Ints], npt.ArrayLike]


class Kept:
    """Which of so many records are kept: one bit a record, and an eighth of that to count and find them in O(1).

    >>> kept = Kept.of([1, 5, 8], records=10)
    >>> kept.count, kept.records, kept.ids().tolist(), (~kept).count
    (3, 10, [1, 5, 8], 7)
    """

    def __init__(self, words: npt.NDArray[np.uint64], records: int) -> None:
        self.records = integer(records, "records", 0, 2**48, OrderError)
        given = np.asarray(words)
        if given.dtype != np.uint64 or given.shape != (-(-self.records // _WORD),):
            raise OrderError(f"a bitmap of {records} records is {-(-self.records // _WORD)} words of 64 bits")
        if self.records % _WORD and int(given[-1]) >> self.records % _WORD:
            raise OrderError(f"the bitmap has bits set beyond its {self.records} records")
        self._words = np.ascontiguousarray(given).copy()
        self._words.flags.writeable = False

    @classmethod
    def of(cls, ids: IntsLike, *, records: int) -> Kept:
        """Those with the given numbers, in any order, none of them twice."""
        count = integer(records, "records", 0, 2**48, OrderError)
        given = integers(ids, "record", count, OrderError).reshape(-1)
        mask = np.zeros(count, np.bool_)
        mask[given] = True
        if int(mask.sum()) != given.size:
            values, times = np.unique(given, return_counts=True)
            raise OrderError(f"record {values[times > 1][0]} is listed {times.max()} times; list each once")
        return cls.mask(mask)

    @classmethod
    def mask(cls, mask: npt.ArrayLike) -> Kept:
        """Those whose entry of a list of booleans, one for each record, is true.

        >>> Kept.mask([True, False, True]).ids().tolist()
        [0, 2]
        """
        given = np.asarray(mask)
        if given.ndim != 1 or given.dtype != np.bool_:
            raise OrderError(f"a mask is a flat list of booleans, not {given.ndim} dimensions of {given.dtype}")
        return cls(_packed(given), given.size)

    @classmethod
    def where(cls, predicate: Predicate, *, records: int) -> Kept:
        """Those of which a predicate is true: asked once, now, for one stretch of record numbers after the other.

        >>> Kept.where(lambda ids: ids % 3 == 0, records=8).ids().tolist()
        [0, 3, 6]
        """
        if not callable(predicate):
            raise OrderError(
                f"the predicate is {predicate!r}; give a function of an array of record numbers, or use Kept.of"
            )
        count = integer(records, "records", 0, 2**48, OrderError)
        words = np.zeros(-(-count // _WORD), np.uint64)
        for start in range(0, count, _AT_ONCE):
            ids = np.arange(start, min(count, start + _AT_ONCE), dtype=np.int64)
            answer = np.asarray(predicate(ids))
            if answer.shape != ids.shape or answer.dtype != np.bool_:
                raise OrderError(
                    f"the predicate answered {ids.size} records with {answer.shape} values of {answer.dtype}; "
                    f"it must give one boolean for each"
                )
            words[start // _WORD : -(-(start + ids.size) // _WORD)] = _packed(answer)
        return cls(words, count)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Kept:
        """What `save` wrote."""
        try:
            with open(path, "rb") as file:
                stored = np.load(file, allow_pickle=False)
                if not isinstance(stored, np.lib.npyio.NpzFile):
                    raise ValueError("it is a single array")
                return cls(stored["words"], int(stored["records"]))
        except OSError as problem:
            raise OrderError(f"the bitmap {os.fspath(path)} cannot be read: {problem.strerror or problem}") from None
        # NumPy takes what it does not know for a pickle, and its advice is to allow them.
        except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
            raise OrderError(f"{os.fspath(path)} holds no bitmap of records; write one with Kept.save") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the bitmap to an .npz file."""
        try:
            with open(path, "wb") as file:
                np.savez(file, words=self._words, records=np.int64(self.records))
        except OSError as problem:
            raise OrderError(f"the bitmap {os.fspath(path)} cannot be written: {problem.strerror or problem}") from None

    @cached_property
    def native(self) -> _core.Bitmap:
        """The bitmap with its counts."""
        return _core.Bitmap(self._words)

    @cached_property
    def count(self) -> int:
        """How many records are kept."""
        return int(self.native.count)

    @cached_property
    def digest(self) -> str:
        """A hash of what is kept: equal bitmaps have equal digests."""
        state = hashlib.blake2b(b"tombola:kept:1:" + self.records.to_bytes(8, "little"), digest_size=16)
        state.update(np.ascontiguousarray(self._words, "<u8").data)
        return state.hexdigest()

    def before(self, records: Ints) -> Ints:
        """How many are kept before each record."""
        out = np.empty_like(records)
        self.native.rank(np.ascontiguousarray(records), out, THREADS)
        return out

    def select(self, numbers: Ints) -> Ints:
        """The records with these numbers among the kept ones."""
        out = np.empty_like(numbers)
        self.native.select(np.ascontiguousarray(numbers), out, THREADS)
        return out

    def has(self, records: Ints) -> npt.NDArray[np.bool_]:
        """Whether each record is kept."""
        bits = self._words[records >> 6] >> (records & 63).astype(np.uint64)
        return np.asarray(bits & np.uint64(1), np.bool_)

    def ids(self) -> Ints:
        """The records that are kept, rising."""
        return self.select(np.arange(self.count, dtype=np.int64))

    def __and__(self, other: Kept) -> Kept:
        return Kept(self._words & self._fitting(other), self.records)

    def __or__(self, other: Kept) -> Kept:
        return Kept(self._words | self._fitting(other), self.records)

    def __invert__(self) -> Kept:
        words = ~self._words
        if self.records % _WORD:
            words[-1] &= np.uint64(2 ** (self.records % _WORD) - 1)
        return Kept(words, self.records)

    def _fitting(self, other: Kept) -> npt.NDArray[np.uint64]:
        if not isinstance(other, Kept) or other.records != self.records:
            raise OrderError(f"{self!r} cannot be combined with {other!r}: they must be of the same records")
        return other._words

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Kept: {self.count} of {self.records} records>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Kept, (self._words, self.records))


def _packed(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """A bit for each entry, the first in the lowest bit of the first word."""
    packed = np.packbits(mask, bitorder="little")
    words = np.zeros(-(-mask.size // _WORD) * 8, np.uint8)
    words[: packed.size] = packed
    return words.view("<u8").astype(np.uint64)


@register("subset")
@dataclass(frozen=True)
class Subset(OrderSpec):
    """An order over some of the records; the shards stay as they are.

    kept
        A `Kept`, a list of record numbers, or the path of a file that `Kept.save` wrote. The fingerprint of the order
        holds a digest of it, so that a run is not resumed with other records.
    base
        The order of what is left.

    >>> order = Subset(kept=range(0, 30, 3), base=Lanes(lanes=2)).over(Layout([10, 10, 10]), seed=7)
    >>> sorted(order.slice(0, len(order)).tolist()) == list(range(0, 30, 3))
    True
    >>> order.find(1).tolist()
    []
    """

    kept: Kept | Sequence[int] | str | os.PathLike[str]
    base: OrderSpec = field(default_factory=Lanes)
    _path: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", spec_of(self.base, "base"))
        if isinstance(self.kept, Mapping):
            self._read_again(self.kept)
        if isinstance(self.kept, (Kept, str, os.PathLike)):
            return
        binary = isinstance(self.kept, (bytes, bytearray, memoryview))
        if binary or not isinstance(self.kept, (Sequence, np.ndarray)):
            raise OrderError(f"kept is {self.kept!r}; give a Kept, a list of record numbers, or the path of a file")
        first: Any = next(iter(np.ravel(self.kept) if isinstance(self.kept, np.ndarray) else self.kept), None)
        if isinstance(first, (bool, np.bool_)):
            raise OrderError("kept is a list of booleans; for one boolean a record, give Kept.mask(kept)")
        given = flat_array(self.kept, "record", OrderError)
        object.__setattr__(self, "kept", tuple(given.reshape(-1).tolist()))

    def _read_again(self, said: Mapping[str, Any]) -> None:
        """Takes what `options` says of a bitmap that has a file: the file, as long as it still holds that."""
        path, digest = said.get("path"), said.get("digest")
        if not isinstance(path, str):
            raise OrderError(
                "kept says which records there were by a digest, which does not hold them; give the Kept itself, or "
                "save it and give the path of the file, which is then kept with the digest"
            )
        kept = Kept.load(path)
        if kept.digest != digest:
            raise OrderError(f"{path} holds other records than those of the digest {digest}; give the file as it was")
        object.__setattr__(self, "kept", kept)
        object.__setattr__(self, "_path", path)

    def options(self) -> dict[str, Any]:
        """The options as plain JSON: of a bitmap the counts, a digest and, where one was given, the path of its file.

        With a path, `make_spec` makes the order of them again, and checks the digest; without one it is refused.
        """
        kept: Any = self.kept
        if isinstance(kept, Kept):
            kept = {"count": kept.count, "records": kept.records, "digest": kept.digest}
            if self._path is not None:
                kept["path"] = self._path
        elif isinstance(kept, os.PathLike):
            kept = os.fspath(kept)
        return {"kept": list(kept) if isinstance(kept, tuple) else kept, "base": spec_to_json(self.base)}

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout with a seed."""
        return _SubsetOrder(self._resolved(self._kept(layout.records), self.base), layout, seed)

    def _resolved(self, kept: Kept, base: OrderSpec) -> Subset:
        """The same of a bitmap at hand, which remembers its file."""
        made = Subset(kept, base)
        path = os.fspath(self.kept) if isinstance(self.kept, (str, os.PathLike)) else self._path
        object.__setattr__(made, "_path", path)
        return made

    def _kept(self, records: int) -> Kept:
        kept = self.kept
        if isinstance(kept, (str, os.PathLike)):
            kept = Kept.load(kept)
        elif not isinstance(kept, Kept):
            kept = Kept.of(list(kept), records=records)
        if kept.records != records:
            raise OrderError(f"the bitmap is of {kept.records} records and the layout has {records}; make it anew")
        if not kept.count:
            raise OrderError(f"none of the {records} records is kept; an order needs at least one")
        return kept


class _SubsetOrder(Order):
    def __init__(self, spec: Subset, layout: Layout, seed: int) -> None:
        super().__init__(spec, layout, seed)
        self._kept = spec._kept(layout.records)
        left = np.diff(self._kept.before(layout.starts))
        self._base = spec.base.over(Layout(left, streams=layout.streams), seed=seed)
        self._spec = spec._resolved(self._kept, self._base.spec)
        self.lanes, self.run, self.batch_size = self._base.lanes, self._base.run, self._base.batch_size

    def __len__(self) -> int:
        return len(self._base)

    def _at(self, positions: Ints, epoch: int) -> Ints:
        return self._kept.select(self._base._at(positions, epoch))

    def _slice(self, start: int, stop: int, step: int, epoch: int) -> Ints:
        return self._kept.select(self._base._slice(start, stop, step, epoch))

    def _find_all(self, records: Ints, epoch: int) -> tuple[Ints, Ints]:
        has = self._kept.has(records)
        positions, starts = self._base.find_all(self._kept.before(records[has]), epoch)
        counts = np.zeros(records.size, np.int64)
        counts[has] = np.diff(starts)
        return positions, np.append(0, np.cumsum(counts))

    def visits(self, epoch: int = 0) -> Visits:
        """When each part of each shard is needed, from its first kept record to its last."""
        found = self._base.visits(epoch)
        start = self._kept.select(found.record_start)
        stop = self._kept.select(found.record_stop - 1) + 1
        return Visits(found.lane, found.shard, start, stop, found.first, found.last)
