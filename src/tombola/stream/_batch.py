"""A batch: columns by name, and where it stands in the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import Ints
from tombola.errors import DataError, FormatError, InputError
from tombola.formats import Ragged
from tombola.plan import Cursor, Plan

Column = npt.NDArray[Any] | Ragged
_LARGE = frozenset(("pil", "jpeg", "png", "jpeg_array", "jpegarray", "list[pil]", "list[jpeg]", "list[png]"))


class Batch:
    """The rows of one step that fell to this rank.

    columns
        Name → values: one array where all values have one dtype and shape, a `Ragged` (bytes and offsets) otherwise.
        Arrays of neighbouring batches may share a few megabytes of memory: copy what you keep for long.
    records, positions
        The number in the dataset of each row's record, and the position of the epoch it comes from.
    epoch, step
        Which batch it is.

    `batch["name"]` is a column, `batch[3]` a record, `batch[8:16]` a batch of those rows, `len(batch)` their number;
    iterating gives records, `dict(batch)` the columns.
    """

    __slots__ = ("_cursor", "_mask", "columns", "epoch", "positions", "records", "step")

    def __init__(
        self,
        columns: dict[str, Column],
        records: Ints,
        positions: Ints,
        epoch: int,
        step: int,
        mask: npt.NDArray[np.bool_] | None,
        cursor: Cursor | Callable[[int, int], Cursor],
    ) -> None:
        self.columns = columns
        self.records = records
        self.positions = positions
        self.epoch = epoch
        self.step = step
        self._mask = mask
        self._cursor = cursor

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """False for rows that only pad the last batch of an epoch (tail="pad")."""
        if self._mask is None:
            self._mask = np.ones(self.records.size, np.bool_)
        return self._mask

    @property
    def cursor(self) -> Cursor:
        """Where to go on after this batch, on any rank of any world."""
        if not isinstance(self._cursor, Cursor):
            self._cursor = self._cursor(self.step + 1, self.epoch)
        return self._cursor

    def __len__(self) -> int:
        return self.records.size

    def keys(self) -> KeysView[str]:
        """The names of the columns."""
        return self.columns.keys()

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            try:
                return self.columns[key]
            except KeyError:
                raise FormatError(f"there is no column {key!r}; there are {', '.join(self.columns)}") from None
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                raise InputError(f"a batch is cut with step 1, not {step}; cut its columns")
            return self.rows(start, max(start, stop))
        if not -len(self) <= key < len(self):
            raise IndexError(f"row {key} of {len(self)}")
        return {name: _value(column, key) for name, column in self.columns.items()}

    def rows(self, start: int, stop: int) -> Batch:
        """The rows start…stop−1 as a batch that shares the memory."""
        cut = slice(start, stop)
        columns: dict[str, Column] = {name: column[cut] for name, column in self.columns.items()}
        mask = None if self._mask is None else self._mask[cut]
        return Batch(columns, self.records[cut], self.positions[cut], self.epoch, self.step, mask, self._cursor)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return rows_of(self.columns, self.records)

    def __repr__(self) -> str:
        return f"<Batch {self.step} of epoch {self.epoch}: {len(self)} rows of {', '.join(self.columns)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.columns, self.records, self.positions, self.epoch, self.step, self._mask, self.cursor)


def _value(column: Column, row: int) -> Any:
    value = column[row]
    return int(value) if isinstance(value, np.int64) else value


def values_of(column: Column) -> list[Any]:
    """All values of a column as Python objects: what reading a record at a time gives."""
    if isinstance(column, Ragged):
        return column.tolist()
    # 64-bit integers become Python's own, an array of other numbers its scalars, one of arrays its rows.
    return list(column) if column.ndim > 1 or column.dtype != np.int64 else column.tolist()


def rows_of(columns: Mapping[str, Column], records: Ints) -> Iterator[dict[str, Any]]:
    """The records of a batch, one dict each. Images are decoded one by one: together they may take much memory."""
    if any(isinstance(column, Ragged) and column.encoding.name in _LARGE for column in columns.values()):
        return _rows_one_by_one(columns, records)
    try:
        values = [values_of(column) for column in columns.values()]
    except DataError:
        return _rows_one_by_one(columns, records)
    rows: list[dict[str, Any]] = _core.rows(tuple(columns), values, records.size)
    return iter(rows)


def _rows_one_by_one(columns: Mapping[str, Column], records: Ints) -> Iterator[dict[str, Any]]:
    """The slow twin: every record before the one that cannot be decoded still comes, and the error names it."""
    for row, record in enumerate(records.tolist()):
        out = {}
        for name, column in columns.items():
            try:
                out[name] = _value(column, row)
            except DataError as error:
                raise DataError(f"record {record}, column {name!r}: {error}", record=record) from error
        yield out


class Slab:
    """The gathered rows of a stretch: one piece of memory a column, cut into batches without a copy."""

    __slots__ = ("_arrays", "bounds", "columns", "epoch", "mask", "nbytes", "positions", "records", "steps")

    def __init__(
        self,
        columns: dict[str, Column],
        records: Ints,
        positions: Ints,
        mask: npt.NDArray[np.bool_] | None,
        epoch: int,
        steps: range,
        bounds: tuple[int, ...],
    ) -> None:
        self.columns = columns
        self.records = records
        self.positions = positions
        self.mask = mask
        self.epoch = epoch
        self.steps = steps
        self.bounds = bounds
        # Arrays that say their own shape: stacked batch by batch, where those of a batch agree.
        self._arrays = [
            name
            for name, column in columns.items()
            if isinstance(column, Ragged) and column.encoding.name.startswith("ndarray")
        ]
        self.nbytes = sum(map(_nbytes, columns.values())) + records.nbytes + positions.nbytes

    def batch(self, number: int, cursor: Callable[[int, int], Cursor]) -> Batch:
        """The batch of one of its steps."""
        start, stop = self.bounds[number], self.bounds[number + 1]
        cut = slice(start, stop)
        columns: dict[str, Column] = {name: column[cut] for name, column in self.columns.items()}
        for name in self._arrays:
            ragged = columns[name]
            stacked = ragged.stacked() if isinstance(ragged, Ragged) else None
            if stacked is not None:
                columns[name] = stacked
        mask = None if self.mask is None else self.mask[cut]
        return Batch(
            columns,
            self.records[cut],
            self.positions[cut],
            self.epoch,
            self.steps[number],
            mask,
            cursor,
        )


def _nbytes(column: Column) -> int:
    return column.data.nbytes + column.offsets.nbytes if isinstance(column, Ragged) else column.nbytes


class Cursors:
    """The cursors of a plan, with the digest of the dataset's manifest in their fingerprint."""

    def __init__(self, plan: Plan, digest: str) -> None:
        self._plan = plan
        self._fingerprint = {**plan.fingerprint, "manifest": digest}

    def __call__(self, step: int, epoch: int) -> Cursor:
        return replace(self._plan.cursor(step, epoch), fingerprint=self._fingerprint)
