"""Names are promises: the golden vectors, and the tool that writes them but never changes one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tombola.order import Permutation
from tools import write_vectors as tool

FILES = sorted(tool.FILES)


def cases(name: str) -> list[tool.Case]:
    return tool.load(tool.FOLDER / name)


@pytest.mark.parametrize("name", FILES)
def test_nothing_has_changed(name: str) -> None:
    there = cases(name)
    assert len(there) > 10
    for case in there:
        question = tool.question_of(case)
        assert tool.answered(question) == case, question


def test_permutations_are_found_again() -> None:
    for case in cases("permutation.json"):
        permutation = Permutation(case["n"], case["seed"], *case["purpose"])
        assert permutation.find(np.array(case["outputs"])).tolist() == case["inputs"]
        assert [permutation.at(i) for i in case["inputs"]] == case["outputs"]


@pytest.mark.parametrize(
    "name", [name for name in FILES if name not in ("arrays.json", "permutation.json", "pipeline.json")]
)
def test_records_are_found_again(name: str) -> None:
    for case in cases(name):
        order, epoch = tool.order_of(case), case["epoch"]
        inputs = case["inputs"] if "inputs" in case else list(range(len(order)))
        outputs = case.get("outputs", case.get("records"))
        positions, starts = order.find_all(outputs, epoch)
        for i, place in enumerate(inputs):
            assert place in positions[starts[i] : starts[i + 1]].tolist()
        assert np.array_equal(order.at(positions, epoch), np.repeat(outputs, np.diff(starts)))
        if "records" in case:
            assert order.slice(0, len(order), epoch).tolist() == outputs


def test_the_tool_adds_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "FILES", {"permutation.json": tool.FILES["permutation.json"]})
    path = tmp_path / "permutation.json"
    every = cases("permutation.json")
    tool.dump(path, every[:-2])
    before = path.read_text().splitlines()
    assert tool.main(["--check", "--folder", str(tmp_path)]) == 1
    assert path.read_text().splitlines() == before
    assert tool.main(["--folder", str(tmp_path)]) == 0
    assert tool.load(path) == every
    assert path.read_text().splitlines()[: len(every) - 1] == [*before[:-2], before[-2] + ","]
    assert tool.main(["--check", "--folder", str(tmp_path)]) == 0


def test_the_tool_refuses_a_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FILES:
        (tmp_path / name).write_text((tool.FOLDER / name).read_text())
    path = tmp_path / "lanes.json"
    text = path.read_text()
    case = cases("lanes.json")[3]
    swapped = case | {"records": [case["records"][1], case["records"][0], *case["records"][2:]]}
    changed = text.replace(json.dumps(case, separators=(",", ":")), json.dumps(swapped, separators=(",", ":")))
    assert changed != text
    path.write_text(changed)
    assert tool.main(["--folder", str(tmp_path)]) == 1
    assert path.read_text() == changed
    assert "this case would change" in capsys.readouterr().err
