"""`tombola score`: the numbers of `score`, an exit code for the verdict, one line when input is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tombola.cli import main
from tombola.order import Lanes, Layout
from tombola.plan import Plan, World
from tombola.quality import score

LAYOUT = Layout.equal(64, 250)


def test_json_is_the_score_of_the_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    labels = np.arange(LAYOUT.records) % 7
    np.save(tmp_path / "labels.npy", labels)
    words = ["--lanes", "8", "--seed", "3", "--ranks", "4", "--batch-size", "32", "--epochs", "4", "--epoch", "2"]
    assert main(["score", "64x250", *words, "--label", str(tmp_path / "labels.npy"), "--json"]) == 0
    plan = Plan(Lanes(lanes=8).over(LAYOUT, seed=3), World(ranks=4), 32)
    wanted = score(plan, feature=labels, epochs=4, epoch=2)
    assert json.loads(capsys.readouterr().out) == json.loads(wanted.to_json())


def test_an_order_brings_its_own_batch_size(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["score", "8x500+8x500", "--order", "per_stream", "--option", "batch_size=32", "--json"]
    words += ["--worst", "flawed"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["batch_size"] == 32
    assert main([*words, "--batch-size", "64"]) == 2
    assert "leave batch_size out" in capsys.readouterr().err


def test_recorded_ids(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = np.stack([np.random.default_rng(e).permutation(LAYOUT.records) for e in range(3)])
    np.save(tmp_path / "ids.npy", rows)
    assert main(["score", "64x250", "--ids", str(tmp_path / "ids.npy"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["epochs"]) == ("perfect", 3)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "64x250", "--lanes", "32", "--batch-size", "32"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("stratified")
    assert "every 32 positions" in " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--order", "sequential"], 1),
        (["--order", "sequential", "--worst", "flawed"], 0),
        (["--lanes", "4"], 0),
        (["--lanes", "4", "--worst", "stratified"], 1),
        (["--order", "global", "--worst", "perfect"], 0),
    ],
)
def test_exit_code(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "64x250", *words, "--json"]) == code
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "missing.npy"], "--label file missing.npy cannot be read"),
        (["--ids", "wrong.npy"], "cannot be read"),
        (["--ids", "several.npz"], "several arrays"),
        (["--label", "wrong.npy"], "numpy.save"),
        (["--ids", "ids.npy", "--lanes", "3"], "--lanes describes an order"),
        (["--ids", "ids.npy", "--seed", "0"], "--seed describes an order"),
        (["--ids", "ids.npy", "--epochs", "2"], "--epochs describes an order"),
        (["--lanes", "4", "--option", "lanes=8"], "--lanes 4 and --option lanes=8 both set it"),
        (["--label", "constant.npy"], "constant.npy: the feature is the same"),
        (["--batch-size", "10000"], "at least 8"),
        (["--order", "lane"], "no order named 'lane'"),
    ],
)
def test_what_is_wrong_leaves_one_line(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.npy").write_bytes(b"no array")
    np.save("constant.npy", np.zeros(16_000))
    np.savez("several.npz", a=np.arange(3), b=np.arange(3))
    assert main(["score", "64x250", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tombola: error: ")
    assert message in err
    assert err.count("\n") == 1
