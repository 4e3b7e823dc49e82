"""info, head, cat, verify and where, on small real datasets."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.stream.datasets import COLUMNS, on_disk, record
from tombola import Lanes, Plan, Stream, World, Writer
from tombola.cli import main


def said(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> Any:
    assert main([*map(str, words), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def printed(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert main(list(map(str, words))) == code
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return on_disk(tmp_path / "data", records=120, shards=6, hashes=["sha1", "md5"])


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    with Writer(tmp_path / "mixed", columns=COLUMNS) as writer:
        for number in range(9):
            writer.write(record(number))
    return tmp_path / "mixed"


def test_info(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    found = said(capsys, "info", folder)
    with Stream(folder) as stream:
        assert (found["records"], found["shards"]) == (120, stream.layout.shards)
        assert found["columns"] == {"label": "int", "text": "str"}
    assert found["raw_bytes"] == found["stored_bytes"] == sum(path.stat().st_size for path in folder.glob("*.mds"))
    assert found["hashes"] == ["md5", "sha1"]
    text = printed(capsys, "info", folder)
    assert "120" in text
    assert "column text" in text


def test_head(capsys: pytest.CaptureFixture[str], folder: Path, mixed: Path) -> None:
    rows = said(capsys, "head", folder, "-n", 3)["records"]
    assert [row["values"] for row in rows] == [{"label": n, "text": f"record {n:06d}"} for n in range(3)]
    rows = said(capsys, "head", folder, "--shuffled", "--lanes", 4, "--seed", 9, "--epoch", 2, "--columns", "label")
    with Stream(folder, order=Lanes(lanes=4), seed=9) as stream:
        wanted = stream.plan.order.slice(0, 10, 2).tolist()
    assert [row["values"] for row in rows["records"]] == [{"label": number} for number in wanted]
    text = printed(capsys, "head", mixed)
    assert "int16[2" in text
    assert "record 8" in text
    assert main(["head", str(folder), "-n", "-1"]) == 2
    assert "at least 0" in capsys.readouterr().err


def test_cat(capsys: pytest.CaptureFixture[str], folder: Path, mixed: Path) -> None:
    lines = [json.loads(line) for line in printed(capsys, "cat", folder).splitlines()]
    assert lines == [{"label": n, "text": f"record {n:06d}"} for n in range(120)]
    lines = [json.loads(line) for line in printed(capsys, "cat", folder, "--shuffled", "--epoch", 1).splitlines()]
    with Stream(folder) as stream:
        assert [line["label"] for line in lines] == stream.plan.order.slice(0, 120, 1).tolist()
    (line,) = printed(capsys, "cat", mixed, "--records", 5).splitlines()
    found, wanted = json.loads(line), record(5)
    assert base64.b64decode(found["blob"]) == wanted["blob"]
    assert found["loose"] == wanted["loose"].tolist()
    assert found["vector"] == wanted["vector"].tolist()
    assert main(["cat", str(folder), "--columns", "txet"]) == 2
    assert "there is no column 'txet'" in capsys.readouterr().err


@pytest.mark.parametrize("record", [-1, 120])
def test_cat_of_a_record_that_is_not_there(capsys: pytest.CaptureFixture[str], folder: Path, record: int) -> None:
    assert main(["cat", str(folder), "--records", "5", str(record)]) == 2
    out, err = capsys.readouterr()
    assert out == ""  # nothing of a list that makes no sense
    assert f"record {record} is outside 0…119" in err


def test_verify_of_good_data(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    found = said(capsys, "verify", folder)
    shards = len(list(folder.glob("*.mds")))
    assert found == {"shards": shards, "records": 120, "hashes": 2 * shards, "records_read": 120, "problems": []}
    assert "problems" in printed(capsys, "verify", folder)


def test_verify_of_compressed_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = on_disk(tmp_path, records=120, shards=3, hashes=["sha1"], compression="gz")
    assert said(capsys, "verify", folder)["records_read"] == 120
    path = folder / "shard.00001.mds.gz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    (problem,) = said(capsys, "verify", folder, code=1)["problems"]
    assert problem["shard"] == 1
    assert "sha1" in problem["message"]


def test_verify_finds_every_kind_of_damage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without hashes: a missing shard, one cut short, and a text that is not UTF-8 in one record."""
    folder = on_disk(tmp_path, records=120, shards=6)
    (folder / "shard.00000.mds").unlink()
    path = folder / "shard.00002.mds"
    path.write_bytes(path.read_bytes()[:-1])
    path = folder / "shard.00004.mds"
    data = bytearray(path.read_bytes())
    data[-3] = 0xFF
    path.write_bytes(data)
    found = said(capsys, "verify", folder, code=1)
    assert [problem["shard"] for problem in found["problems"]] == [0, 2, 4]
    assert [problem["record"] is None for problem in found["problems"]] == [True, True, False]
    text = printed(capsys, "verify", folder, code=1)
    text = " ".join(text.split())
    assert "is not UTF-8" in text
    assert "is not there" in text


def test_where(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    words = ["where", folder, 7, 110, "--batch-size", 12, "--ranks", 3, "--lanes", 6, "--seed", 4, "--epochs", 2]
    found = said(capsys, *words)["places"]
    assert len(found) == 4
    for entry in found:
        with Stream(
            folder, order=Lanes(lanes=6), seed=4, batch_size=12, world=World(rank=entry["rank"], ranks=3)
        ) as stream:
            plan: Plan = stream.plan
            assert plan.batch(entry["step"], entry["epoch"]).records[entry["row"]] == entry["record"]
            assert stream.layout.starts[entry["shard"]] + entry["place"] == entry["record"]
    assert "position" in printed(capsys, *words)
    assert main(["where", str(folder), "120"]) == 2
    assert "record 120 is outside" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["info", "head", "cat", "verify"])
def test_a_dataset_that_is_not_there(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
