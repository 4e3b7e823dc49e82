"""The records of a batch from wherever they lie in the shards, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import THREADS
from tombola.errors import FormatError, InputError
from tombola.formats._columns import Columns
from tombola.formats._encodings import Encoding
from tombola.formats._mds import NO_RECORD, fault_error
from tombola.formats._ragged import Ragged
from tombola.formats._shard import Shard

Column = npt.NDArray[Any] | Ragged
Shards = Mapping[int, Shard] | Sequence[Shard]

_NOT_NATIVE = -1


def gather(
    shards: Shards,
    shard_numbers: npt.ArrayLike,
    records_in_shard: npt.ArrayLike,
    columns: Iterable[str] | None = None,
    *,
    threads: int | None = None,
    pool: _core.Pool | None = None,
) -> dict[str, Column]:
    """Row i of every column is from record ``records_in_shard[i]`` of ``shards[shard_numbers[i]]``.

    shards
        Open shards by number, all of the same columns: a dict, a list, or any mapping.
    columns
        Which of them; all, unless given.
    threads
        How many at most; small batches take one. The result is the same.
    pool
        Memory to use again, for whoever gathers one batch after the other.

    A column of numbers or of arrays of one size comes as one array, any other as a `Ragged`. MDS shards are read
    natively, with the GIL released; a damaged one raises a `ShardError` that names the shard and the record. One
    call for several batches costs less than one each: rows of the result can be cut without a copy.

    >>> from tombola.formats import MdsShard, encode_mds
    >>> data = encode_mds([{"n": n, "s": "x" * n} for n in range(4)], {"n": "int", "s": "str"})
    >>> batch = gather({7: MdsShard(data)}, [7, 7], [3, 1])
    >>> batch["n"].tolist(), batch["s"].tolist()
    ([3, 1], ['xxx', 'x'])
    """
    numbers, records = _rows(shard_numbers, records_in_shard)
    first = _first(shards, numbers)
    wanted = first.columns.places(columns)
    if not numbers.size:
        return gather_slow(shards, numbers, records, columns)
    found: Any
    try:
        fault, row, found = _core.gather(shards, numbers, records, wanted, threads or THREADS, pool)
    except (KeyError, IndexError):
        raise _no_shard(shards, numbers) from None
    if fault == _NOT_NATIVE:
        return gather_slow(shards, numbers, records, columns)
    if fault:
        shard = _get(shards, int(numbers[row]))
        if fault == NO_RECORD:
            shard._within(int(records[row]))
        raise fault_error(shard, int(records[row]), fault)
    out: dict[str, Column] = {}
    for place, (data, offsets) in zip(wanted, found, strict=True):
        kind = first.columns.encodings[place]
        if offsets is not None:
            out[first.columns.names[place]] = Ragged(data, offsets, kind)
        else:
            out[first.columns.names[place]] = data.view(_dtype(kind)).reshape(numbers.size, *kind.shape)
    return out


def gather_slow(
    shards: Shards,
    shard_numbers: npt.ArrayLike,
    records_in_shard: npt.ArrayLike,
    columns: Iterable[str] | None = None,
) -> dict[str, Column]:
    """The slow twin of `gather`, a record at a time, for every kind of shard."""
    numbers, records = _rows(shard_numbers, records_in_shard)
    kinds: Columns = _first(shards, numbers).columns
    wanted = kinds.places(columns)
    parts: list[list[memoryview]] = [[] for _ in wanted]
    for number, record in zip(numbers.tolist(), records.tolist(), strict=True):
        shard = _get(shards, number)
        if shard.columns != kinds:
            raise FormatError(f"the shards' columns differ: {kinds.spec()} and, in {shard.uri}, {shard.columns.spec()}")
        payloads = shard.payloads(record)
        for part, place in zip(parts, wanted, strict=True):
            part.append(payloads[place])
    out: dict[str, Column] = {}
    for place, part in zip(wanted, parts, strict=True):
        kind = kinds.encodings[place]
        data = np.frombuffer(bytearray(b"".join(part)), np.uint8)
        if kind.size is None:
            offsets = np.zeros(len(part) + 1, np.int64)
            np.cumsum([len(payload) for payload in part], out=offsets[1:])
            out[kinds.names[place]] = Ragged(data, offsets, kind)
        else:
            out[kinds.names[place]] = data.view(_dtype(kind)).reshape(len(part), *kind.shape)
    return out


def _dtype(kind: Encoding) -> np.dtype[Any]:
    if kind.dtype is None:
        raise FormatError(f"{kind.name} has a size but no dtype")
    return kind.dtype


def _rows(shard_numbers: npt.ArrayLike, records: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    pair = []
    for given, what in ((shard_numbers, "shard_numbers"), (records, "records_in_shard")):
        array = np.asarray(given)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise InputError(f"{what} must be a flat list of whole numbers, not {array.ndim}-d {array.dtype}")
        pair.append(np.ascontiguousarray(array, np.int64))
    if pair[0].size != pair[1].size:
        raise InputError(f"{pair[0].size} shard_numbers but {pair[1].size} records_in_shard: give one of each a row")
    return pair[0], pair[1]


def _first(shards: Shards, numbers: npt.NDArray[np.int64]) -> Shard:
    if numbers.size:
        return _get(shards, int(numbers[0]))
    if not len(shards):
        raise InputError("no shards and no rows: nothing says what the columns are")
    return next(iter(shards.values())) if isinstance(shards, Mapping) else shards[0]


def _get(shards: Shards, number: int) -> Shard:
    try:
        if number < 0:
            raise IndexError
        return shards[number]
    except (KeyError, IndexError):
        raise InputError(f"shard {number} is not among the {len(shards)} shards that were given") from None


def _no_shard(shards: Shards, numbers: npt.NDArray[np.int64]) -> InputError:
    for number in numbers.tolist():
        try:
            _get(shards, number)
        except InputError as error:
            return error
    return InputError("the shards changed while they were read")
