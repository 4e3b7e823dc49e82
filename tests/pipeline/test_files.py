"""Files as sources."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tombola.errors import DataError, InputError, StateError
from tombola.pipeline import Pipeline, _files, _trail

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.compress(data[: len(data) // 2]) + zstandard.compress(data[len(data) // 2 :]),
}
RECORDS = [{"n": n, "text": "é" * (n % 7), "list": [n, None, 0.5]} for n in range(200)]


def _written(folder: Path, ending: str, text: Callable[[list[dict[str, Any]]], str]) -> str:
    for shard in range(4):
        data = text(RECORDS[shard * 50 : shard * 50 + 50]).encode()
        (folder / f"part-{shard}{ending}").write_bytes(
            PACKERS[Path(f"x{ending}").suffixes[-1] if ending.count(".") > 1 else ""](data)
        )
    return str(folder / f"*{ending}")


def _jsonl(records: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(record) for record in records)  # the last line has no end


def _resumes(make: Callable[[], Pipeline], cuts: list[int]) -> None:
    whole = list(make())
    for cut in cuts:
        pipeline = make()
        head = list(islice(iter(pipeline), cut))
        again = make()
        again.load_state_dict(json.loads(json.dumps(pipeline.state_dict())))
        assert head + list(again) == whole


@pytest.mark.parametrize("packed", list(PACKERS))
def test_json_lines(tmp_path: Path, packed: str) -> None:
    pattern = _written(tmp_path, f".jsonl{packed}", _jsonl)
    assert list(Pipeline.from_files(pattern, "jsonl")) == RECORDS
    _resumes(lambda: Pipeline.from_files(pattern, "jsonl").shuffle(30, seed=1), [0, 1, 49, 50, 120, 199])
    _resumes(lambda: Pipeline.from_files(pattern, "jsonl"), [0, 1, 49, 50, 51, 120, 199])


@pytest.mark.parametrize("packed", list(PACKERS))
def test_text(tmp_path: Path, packed: str) -> None:
    pattern = _written(tmp_path, f".txt{packed}", lambda records: "".join(f"{one['text']}\r\n" for one in records))
    assert [one["text"] for one in Pipeline.from_files(pattern)] == [one["text"] for one in RECORDS]
    _resumes(lambda: Pipeline.from_files(pattern).shuffle(30, seed=1, input_shards=2), [0, 33, 150])


def test_csv_with_newlines_in_its_fields(tmp_path: Path) -> None:
    rows = [{"a": f"{n}\nnew, line", "b": '"quoted"' * (n % 3)} for n in range(60)]
    for shard in range(2):
        with open(tmp_path / f"{shard}.csv", "w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, ["a", "b"])
            writer.writeheader()
            writer.writerows(rows[shard * 30 : shard * 30 + 30])
    pattern = str(tmp_path / "*.csv")
    assert list(Pipeline.from_files(pattern, "csv")) == rows
    _resumes(lambda: Pipeline.from_files(pattern, "csv").shuffle(9, seed=1), [0, 1, 17, 31, 59])


def test_a_function_reads_a_path(tmp_path: Path) -> None:
    pattern = _written(tmp_path, ".jsonl", _jsonl)
    seen = list(Pipeline.from_files(pattern, lambda path: [path, 1]))
    assert seen[1::2] == [1] * 4
    assert [Path(one).name for one in seen[::2]] == [f"part-{shard}.jsonl" for shard in range(4)]
    assert list(Pipeline.from_files(["http://host/a", "http://host/b"], lambda path: [path]))[1] == "http://host/b"


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=8)),
    st.integers(0, 40),
)
def test_any_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[str], cut: int) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert [one["text"] for one in Pipeline.from_files(str(path))] == [
        one.removeprefix("\ufeff") if not at else one for at, one in enumerate(lines)
    ]
    if lines:
        _resumes(lambda: Pipeline.from_files(str(path)), [min(cut, len(lines) - 1)])


def test_what_the_fast_reader_refuses_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"a": 1}\n\n   \n{"a": NaN}\n{"a": 123456789012345678901234567890}\n"\\ud800"\n\n')
    records = list(Pipeline.from_files(str(path), "jsonl"))
    assert str(records) == "[{'a': 1}, {'a': nan}, {'a': 123456789012345678901234567890}, '\\ud800']"


def test_errors_name_the_file_and_the_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(DataError, match=r"bad\.jsonl, the line at byte 9 is no JSON") as caught:
        list(Pipeline.from_files(str(path), "jsonl"))
    assert caught.value.uri == str(path)
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(DataError, match="has 3 fields, the first row has 2"):
        list(Pipeline.from_files(str(tmp_path / "bad.csv"), "csv"))
    (tmp_path / "none.csv").write_text("a,a\n")
    with pytest.raises(DataError, match="must name the columns, each once"):
        list(Pipeline.from_files(str(tmp_path / "none.csv"), "csv"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(DataError, match=r"latin\.txt, record 0: UnicodeDecodeError"):
        list(Pipeline.from_files(str(tmp_path / "latin.txt")))
    assert list(Pipeline.from_files(str(tmp_path / "latin.txt"), encoding="latin-1")) == [{"text": "café"}]
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-20])
    with pytest.raises(DataError, match=r"cut\.jsonl\.gz, record \d+: EOFError"):
        list(Pipeline.from_files(str(tmp_path / "cut.jsonl.gz"), "jsonl"))


@pytest.mark.parametrize(
    ("pattern", "form", "said"),
    [
        ("nowhere/*.jsonl", "jsonl", "no file is there by 'nowhere/"),
        ([], "text", "empty list"),
        (3, "text", "give a pattern"),
        ("a", "parquet", "the format is 'parquet'; from_files reads 'text', 'jsonl', 'csv'"),
    ],
)
def test_bad_input(pattern: Any, form: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        list(Pipeline.from_files(pattern, form))
    with pytest.raises(InputError, match="encoding is 'utf-16'"):
        Pipeline.from_files("a", encoding="utf-16")
    with pytest.raises(InputError, match="encoding is 'no such'"):
        Pipeline.from_files("a", encoding="no such")


def test_nothing_is_read_before_iteration() -> None:
    pipeline = Pipeline.from_files("nowhere/*.txt").shuffle(4).map(len)
    assert "from_files" in repr(pipeline)


def test_more_files_than_in_the_state(tmp_path: Path) -> None:
    pattern = _written(tmp_path, ".txt", lambda records: "a\nb\n")
    pipeline = Pipeline.from_files(pattern)
    next(iter(pipeline))
    state = pipeline.state_dict()
    (tmp_path / "part-9.txt").write_text("c\n")
    again = Pipeline.from_files(pattern)
    again.load_state_dict(state)
    with pytest.raises(StateError, match=r"taken with 4 files, and .* are 5"):
        next(iter(again))


def test_a_shorter_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"line\n" * 100))
    pipeline = Pipeline.from_files(str(path))
    list(islice(iter(pipeline), 90))
    state = pipeline.state_dict()
    path.write_bytes(gzip.compress(b"line\n" * 10))
    again = Pipeline.from_files(str(path))
    again.load_state_dict(state)
    with pytest.raises(DataError, match="ends before byte 450"):
        list(again)


def test_compressed_files_of_any_pattern_are_read_once_more_and_not_from_each_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(tmp_path, ".jsonl.gz", _jsonl)

    def make() -> Pipeline:
        return Pipeline.from_files(str(tmp_path / "*"), "jsonl").shuffle(16, seed=1, input_shards=4)

    opened: list[str] = []
    real = _files._opened
    monkeypatch.setattr(_files, "_opened", lambda path: opened.append(path) or real(path))
    monkeypatch.setattr(_trail, "EVERY", 1)
    pipeline = make()
    head = list(islice(iter(pipeline), 150))
    again = make()
    again.load_state_dict(pipeline.state_dict())
    opened.clear()
    assert len(head + list(again)) == 200
    assert len(opened) <= 8
