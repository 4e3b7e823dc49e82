"""The laws of formats, run on ours."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tombola.errors import FormatError, ShardError
from tombola.formats import Columns, MdsShard, Shard, TextShard, encode_mds
from tombola.testing import FormatTests

Records = Sequence[Mapping[str, Any]]


class TestMds(FormatTests):
    columns = {  # noqa: RUF012
        "bytes": "bytes",
        "fixed": "ndarray:int32:2,2",
        "free": "ndarray",
        "int": "int",
        "json": "json",
        "half": "float16",
        "str": "str",
        "big": "str_int",
        "exact": "str_decimal",
    }
    records = [  # noqa: RUF012
        {
            "bytes": bytes([n]) * (n % 4),
            "fixed": np.full((2, 2), n, np.int32),
            "free": np.full(1 + n % 3, n, np.float64),
            "int": n - 3,
            "json": [n, {"a": None}],
            "half": np.float16(n / 2),
            "str": "é" * n,
            "big": 10 ** (20 + n),
            "exact": Decimal(n) / 7,
        }
        for n in range(9)
    ]

    def files(self, records: Records) -> list[bytes]:
        return [encode_mds(records, self.columns)]

    def open(self, files: Sequence[bytes]) -> Shard:
        # As from a manifest: the columns are known, whatever the header says.
        return MdsShard(files[0], Columns(dict(sorted(self.columns.items()))), uri="some.mds")


class TestMdsOfFixedSize(FormatTests):
    records = [{"a": np.int8(n), "b": np.float64(n)} for n in range(20)]  # noqa: RUF012

    def files(self, records: Records) -> list[bytes]:
        return [encode_mds(records, {"a": "int8", "b": "float64"})]

    def open(self, files: Sequence[bytes]) -> Shard:
        return MdsShard(files[0], Columns({"a": "int8", "b": "float64"}), uri="some.mds")


def with_meta(lines: Iterable[str], header: str = "") -> list[bytes]:
    """The two files of a text shard."""
    parts = [header.encode(), *(line.encode() for line in lines)]
    ends = np.cumsum([len(part) for part in parts]).tolist()
    return [b"".join(parts), struct.pack(f"<{len(ends) + 1}I", len(ends) - 1, *ends)]


class TestJson(FormatTests):
    records = [{"f": n / 4, "i": n * n, "s": "wé\n" * n} for n in range(12)]  # noqa: RUF012

    def files(self, records: Records) -> list[bytes]:
        return with_meta(json.dumps(record, sort_keys=True) + "\n" for record in records)

    def open(self, files: Sequence[bytes]) -> Shard:
        return TextShard(files[0], files[1], Columns({"f": "float64", "i": "int", "s": "str"}), uri="some.json")


class TestXsv(FormatTests):
    records = [{"f": n / 4, "i": n * n, "s": "wé" * n} for n in range(12)]  # noqa: RUF012

    def files(self, records: Records) -> list[bytes]:
        rows = ("||".join(str(record[name]) for name in "fis") + "\r\n" for record in records)
        return with_meta(rows, "f||i||s\r\n")

    def open(self, files: Sequence[bytes]) -> Shard:
        columns = Columns({"f": "float64", "i": "int", "s": "str"})
        return TextShard(files[0], files[1], columns, separator="||", newline="\r\n", uri="some.xsv")


def test_the_suite_finds_a_format_that_loses_a_record() -> None:
    class Lossy(TestMdsOfFixedSize):
        def files(self, records: Records) -> list[bytes]:
            return super().files([*records[:-1], *records[-2:-1]])

    with pytest.raises(AssertionError, match="record 19"):
        Lossy().test_records_come_back()


# ---- a header that lies


def test_a_header_with_other_columns() -> None:
    data = encode_mds([{"a": 1}], {"a": "int"})
    assert MdsShard(data).columns == Columns({"a": "int"})
    with pytest.raises(ShardError, match="another's"):
        MdsShard(data, Columns({"b": "int"}))


def test_a_header_with_another_number_of_records() -> None:
    data = encode_mds([{"a": 1}], {"a": "int"})
    with pytest.raises(ShardError, match="says 1 records, the manifest 2") as caught:
        MdsShard(data, records=2, uri="x/y.mds", number=7)
    assert (caught.value.uri, caught.value.shard, caught.value.record) == ("x/y.mds", 7, None)
    with pytest.raises(ShardError, match="4294967295 records, for which"):
        MdsShard(b"\xff\xff\xff\xff" + data[4:])


def test_offsets_outside_the_shard_name_the_record() -> None:
    data = bytearray(encode_mds([{"a": b"x" * n} for n in range(5)], {"a": "bytes"}))
    data[4 + 4 * 3 : 4 + 4 * 4] = struct.pack("<I", 0xFFFFFFF0)
    shard = MdsShard(bytes(data), uri="x/y.mds", number=7)
    for record in (2, 3):
        with pytest.raises(ShardError, match=f"x/y.mds, record {record}: its offsets lie outside") as caught:
            shard.read(record)
        assert (caught.value.uri, caught.value.shard, caught.value.record) == ("x/y.mds", 7, record)
    assert shard.read(1) == {"a": b"x"}


def test_a_lost_manifest() -> None:
    """The header's own columns are enough to read a shard; without them, it says so."""
    data = encode_mds([{"a": 1}], {"a": "int"})
    begin = data.index(b"{")
    assert MdsShard(data).read(0) == {"a": 1}
    broken = data[:begin] + b"[" + data[begin + 1 :]
    assert MdsShard(broken, Columns({"a": "int"})).read(0) == {"a": 1}
    with pytest.raises(ShardError, match="names no columns"):
        MdsShard(broken)


def test_pickles_are_refused_in_a_shard() -> None:
    with pytest.raises(ShardError, match="allow_unsafe=True"):
        MdsShard(encode_mds([{"a": 1}], {"a": "pkl"}))
    assert MdsShard(encode_mds([{"a": {1, 2}}], {"a": "pkl"}), allow_unsafe=True).read(0) == {"a": {1, 2}}


def test_shards_of_other_columns_do_not_mix() -> None:
    from tombola.formats import gather

    first = MdsShard(encode_mds([{"a": 1, "b": 2}], {"a": "int", "b": "int"}))
    renamed = MdsShard(encode_mds([{"c": 1, "b": 2}], {"c": "int", "b": "int"}))
    retyped = MdsShard(encode_mds([{"a": 1.0, "b": 2}], {"a": "float64", "b": "int"}))
    assert gather([first, first], [0, 1], [0, 0])["a"].tolist() == [1, 1]
    for other in (renamed, retyped):
        with pytest.raises(FormatError, match="differ"):
            gather([first, other], [0, 1], [0, 0])


def test_gather_refuses_what_makes_no_sense() -> None:
    from tombola.errors import InputError
    from tombola.formats import gather

    shard = MdsShard(encode_mds([{"a": 1}], {"a": "int"}))
    cases: list[tuple[Any, Any, Any, str]] = [
        ({3: shard}, [3, 4], [0, 0], "shard 4 is not among the 1"),
        ([shard], [-1], [0], "shard -1"),
        ([shard], [0, -1], [0, 0], "shard -1"),
        ([shard], [0], [0, 0], "1 shard_numbers but 2"),
        ([shard], [0.0], [0], "whole numbers"),
        ([shard], [[0]], [0], "flat list"),
        ([shard], [0], [1], "record 1 is outside"),
        ([shard], [0], [-1], "record -1 is outside"),
        ([], [], [], "no shards and no rows"),
    ]
    for shards, numbers, records, message in cases:
        with pytest.raises(InputError, match=message):
            gather(shards, numbers, records)
    with pytest.raises(InputError, match="one string"):
        gather([shard], [0], [0], "a")


def test_gathered_arrays_are_their_own() -> None:
    """They outlive the shards, can be written, and a Ragged's parts share its memory."""
    from tombola.formats import Ragged, gather

    data = encode_mds([{"a": n, "s": "x" * n} for n in range(5)], {"a": "int", "s": "str"})
    batch = gather([MdsShard(data)], [0] * 5, [4, 3, 2, 1, 0])
    numbers, words = batch["a"], batch["s"]
    assert isinstance(words, Ragged)
    numbers += 1
    words.data[:] = ord("y")
    assert numbers.tolist() == [5, 4, 3, 2, 1]
    assert words.tolist() == ["yyyy", "yyy", "yy", "y", ""]
    assert words[1:3].tolist() == list(words)[1:3] == ["yyy", "yy"]
    assert np.shares_memory(words[1:3].data, words.data)
    assert (words[-2], len(words[4:2]), words.lengths.tolist()) == ("y", 0, [4, 3, 2, 1, 0])
    with pytest.raises(IndexError):
        words[5]


def test_stacked() -> None:
    from tombola.formats import Ragged, gather

    def column(encoding: str, arrays: Sequence[np.ndarray[Any, Any]]) -> Ragged:
        shard = MdsShard(encode_mds([{"a": array} for array in arrays], {"a": encoding}))
        found = gather([shard], [0] * len(arrays), range(len(arrays)))["a"]
        assert isinstance(found, Ragged)
        return found

    same = [np.full((2, 3), n, np.int16) for n in range(4)]
    for encoding in ("ndarray", "ndarray:int16"):
        found = column(encoding, same)
        assert np.array_equal(found.stacked(), np.stack(same))
        assert np.array_equal(found[1:3].stacked(), np.stack(same[1:3]))
        assert found.stacked().dtype == np.int16
        assert found[1:1].stacked() is None
        assert column(encoding, [same[0], same[1].reshape(3, 2)]).stacked() is None
        assert column(encoding, [same[0], same[1][:1]]).stacked() is None
    assert column("ndarray", [same[0], same[0].view(np.uint16)]).stacked() is None
