"""The laws of a format, as a pytest class that a user subclasses."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tombola.errors import DataError, InputError
from tombola.formats import Ragged, Shard, gather, gather_slow

Records = Sequence[Mapping[str, Any]]


class FormatTests:
    """What every format of shards promises. Give `records`, `files` and `open`; pytest does the rest.

    records
        Dicts of equal keys, all different, eight at least, as the format gives them back.

    `files` turns records into the bytes of a shard's files, `open` those into a `Shard`. The suite also opens
    damaged ones: whatever the bytes, a `DataError` or a value, and never anything else.

    >>> from tombola.formats import MdsShard, encode_mds
    >>> class TestMyFormat(FormatTests):
    ...     records = [{"n": n} for n in range(8)]
    ...     def files(self, records):
    ...         return [encode_mds(records, {"n": "int"})]
    ...     def open(self, files):
    ...         return MdsShard(files[0])
    """

    records: ClassVar[Records] = ()

    # ---- what a subclass overrides

    def files(self, records: Records) -> list[bytes]:
        """The bytes of the files of a shard with these records."""
        raise InputError(f"{type(self).__name__} has no files method; give it one")

    def open(self, files: Sequence[bytes]) -> Shard:
        """The shard in these files. It may refuse them with a DataError."""
        raise InputError(f"{type(self).__name__} has no open method; give it one")

    # ---- the laws

    def test_records_come_back(self) -> None:
        """As they were, in their order, in any order, some columns alone."""
        shard = self.open(self.files(self.records))
        assert len(shard) == shard.records == len(self.records)
        names = set(self.records[0])
        assert set(shard.columns) == names
        for number in (*range(len(self.records)), 0, len(self.records) - 1):
            _same(shard.read(number), self.records[number], f"record {number}")
            for name in names:
                _same(shard.read(number, [name]), {name: self.records[number][name]}, f"record {number}, {name}")
        for found, wanted in zip(shard, self.records, strict=True):
            _same(found, wanted, "while iterating")

    def test_counts(self) -> None:
        """One record, and none."""
        _same(self.open(self.files(self.records[:1])).read(0), self.records[0], "the only record")
        assert list(self.open(self.files([]))) == []

    def test_outside(self) -> None:
        """There is no record before the first or after the last, and no column of another name."""
        shard = self.open(self.files(self.records))
        for number in (-1, len(self.records), 1 << 40):
            for call in (shard.read, shard.payloads, lambda n: gather([shard], [0], [n])):
                try:
                    call(number)
                except InputError as error:
                    assert str(number) in str(error)
                else:
                    raise AssertionError(f"record {number} was not refused")
        try:
            shard.read(0, ["no such column"])
        except InputError as error:
            assert "no such column" in str(error)
        else:
            raise AssertionError("a column that is not there was not refused")

    def test_gather_equals_its_slow_twin(self) -> None:
        """Batches of any rows, with repeats, from several shards, with any threads."""
        shards = {5: self.open(self.files(self.records)), 9: self.open(self.files(self.records[::-1]))}
        rng = np.random.default_rng(0)
        for rows in (0, 1, 2, 64, 700):
            numbers = rng.choice([5, 9], rows)
            places = rng.integers(0, len(self.records), rows)
            slow = gather_slow(shards, numbers, places)
            for threads in (1, 3):
                _same_batches(gather(shards, numbers, places, threads=threads), slow)
            name = sorted(self.records[0])[-1]
            _same_batches(gather(shards, numbers, places, [name]), {name: slow[name]})
            for row in range(min(rows, 20)):
                wanted = shards[int(numbers[row])].read(int(places[row]))
                _same({name: column[row] for name, column in slow.items()}, wanted, f"row {row}")

    def test_cut_short(self) -> None:
        """Every file, cut anywhere: a DataError, on opening or at the latest on reading."""
        files = self.files(self.records)
        for place, data in enumerate(files):
            for size in {*range(0, len(data), max(1, len(data) // 150)), len(data) - 1}:
                damaged = [data[:size] if place == each else file for each, file in enumerate(files)]
                error = self._read_all(damaged)
                # A second file may be longer than what is read of it.
                assert error is not None or place > 0, f"file {place} of {len(data)} bytes, cut to {size}: no error"

    def test_damaged(self) -> None:
        """Any byte another: a DataError or other values, and nothing else. Gather and its twin agree on which."""
        files = self.files(self.records)
        rng = np.random.default_rng(0)
        for _ in range(300):
            place = int(rng.integers(len(files)))
            damaged = bytearray(files[place])
            # Headers are short: half of the damage is done to the first bytes.
            end = len(damaged) if rng.random() < 0.5 else min(len(damaged), 4 * len(self.records) + 8)
            damaged[int(rng.integers(end))] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
            self._read_all([bytes(damaged) if place == each else file for each, file in enumerate(files)])

    def _read_all(self, files: Sequence[bytes]) -> DataError | None:
        """Reads everything in every way; the first error, which must be the same each way."""
        try:
            shard = self.open(files)
        except DataError as error:
            _check_error(error, None)
            return error
        first = None
        for number in range(len(shard)):
            errors: list[str] = []
            for function in (gather, gather_slow):
                try:
                    function([shard], [0], [number])
                    errors.append("")
                except DataError as error:
                    _check_error(error, number)
                    errors.append(str(error))
                    first = first or error
            assert errors[0] == errors[1], f"record {number}: gather says {errors[0]!r}, its slow twin {errors[1]!r}"
            try:
                shard.read(number)
            except DataError as error:
                _check_error(error, number)
                first = first or error
        return first


def _check_error(error: DataError, record: int | None) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
    assert error.uri and error.uri in str(error)
    assert error.record == record, f"the error names record {error.record}, not {record}: {error}"


def _same(found: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    assert found.keys() == wanted.keys(), f"{where}: columns {sorted(found)}, not {sorted(wanted)}"
    for name, value in wanted.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype and np.array_equal(found[name], value), f"{where}, {name}"
        else:
            assert found[name] == value, f"{where}, {name}: {found[name]!r}, not {value!r}"


def _same_batches(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, column in wanted.items():
        other = found[name]
        assert type(other) is type(column)
        pairs = [(other, column)]
        if isinstance(column, Ragged):
            assert other.encoding == column.encoding
            pairs = [(other.data, column.data), (other.offsets, column.offsets)]
        for left, right in pairs:
            assert left.dtype == right.dtype and np.array_equal(left, right), name
