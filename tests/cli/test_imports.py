"""`--import`: an order that a user wrote is named on the command line; what goes wrong in it leaves one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.project._sources import ROOT
from tombola.cli import main
from tombola.order import Permutation

PAGE = (ROOT / "docs" / "how-to" / "own-order.md").read_text()
#: The order that the page shows, as a reader would save it.
SOURCE = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
TOMBOLA = [str(Path(sys.executable).with_name("tombola"))]


def order(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The installed command: unlike `python -m`, it does not look for modules in the folder it runs in."""
    return subprocess.run([*TOMBOLA, "order", *words], cwd=folder, capture_output=True, text=True, timeout=60)


def printed(folder: Path, *words: str) -> Any:
    run = order(folder, *words, "--json")
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return json.loads(run.stdout)


def rotated(t: int, seed: int, epoch: int) -> int:
    return (t + Permutation(60, seed, "my/rotated").at(epoch % 60)) % 60


@pytest.mark.parametrize("word", ["my_order.py", "../orders/my_order.py", "my_order", "{folder}/my_order.py"])
def test_a_users_order(tmp_path: Path, word: str) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "my_order.py").write_text(SOURCE)
    words = ["3x20", "--import", word.format(folder=folder), "--order", "my/rotated", "--seed", "3", "--epoch", "2"]
    found = printed(folder, *words, "--at", "0", "59", "17")["positions"]
    assert [entry["record"] for entry in found] == [rotated(t, 3, 2) for t in (0, 59, 17)]
    assert printed(folder, *words, "--find", *(str(entry["record"]) for entry in found))["positions"] == found
    summary = printed(folder, *words, "--batch-size", "7")
    assert summary["order"] == "my/rotated"
    assert summary["first_batch"]["records"] == [rotated(t, 3, 2) for t in range(7)]


def test_a_page_says_how(tmp_path: Path) -> None:
    (tmp_path / "my_order.py").write_text(SOURCE)
    (command,) = re.findall(r"^tombola order (.*)$", PAGE, re.MULTILINE)
    run = order(tmp_path, *command.split())
    assert run.returncode == 0, run.stderr
    assert "my/rotated" in run.stdout


def test_without_the_import_the_name_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "my_order.py").write_text(SOURCE)
    run = order(tmp_path, "3x20", "--order", "my/rotated")
    assert run.returncode == 2
    assert "there is no order named 'my/rotated'" in run.stderr


def test_several_files_and_their_neighbours(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first" / "beside.py").write_text("NAME = 'first/rotated'\n")
    start = "from __future__ import annotations\nfrom beside import NAME\n"
    (tmp_path / "first" / "mine.py").write_text(start + SOURCE.replace('"my/rotated")\n', "NAME)\n", 1))
    # The same name in another folder, with an option; annotations are texts, so the class looks up its module.
    other = SOURCE.replace('"my/rotated")\n', '"second/rotated")\n', 1)
    other = other.replace('    """Records', '    times: int = 1\n\n    """Records', 1)
    (tmp_path / "second" / "mine.py").write_text("from __future__ import annotations\n" + other)
    words = ["3x20", "--import", "first/mine.py", "--import", "second/mine.py", "--import", "first/mine.py"]
    assert printed(tmp_path, *words, "--order", "first/rotated")["order"] == "first/rotated"
    summary = printed(tmp_path, *words, "--order", "second/rotated", "--option", "times=4")
    assert summary["options"] == {"times": 4}


def test_a_file_does_not_hide_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(SOURCE)
    (tmp_path / "argparse.py").write_text("raise RuntimeError('not the library')\n")
    for word in ("json.py", "json"):
        run = order(tmp_path, "3x20", "--import", word, "--head", "1", "--json")
        assert run.returncode == 0, run.stderr
        assert len(json.loads(run.stdout)["positions"]) == 1


@pytest.mark.parametrize(
    ("word", "source", "named"),
    [
        ("nowhere.py", None, "there is no such file"),
        ("nowhere", None, "there is no module of this name"),
        ("nowhere.inside", None, "there is no module of this name"),
        ("json.inside", None, "there is no module of this name"),
        ("some/where", None, "neither a module's name nor a path"),
        ("", None, "neither a module's name nor a path"),
        ("{name}.py", "x = (1,\n", "SyntaxError"),
        ("{name}", "x = 1\ny = z\n", "NameError: name 'z' is not defined ({path}, line 2)"),
        ("{name}.py", "x = 1\ny = z\n", "NameError: name 'z' is not defined ({path}, line 2)"),
        ("{name}", "import not_there_at_all\n", "No module named 'not_there_at_all' ({path}, line 1)"),
        ("{name}.py", "import sys\nsys.exit(0)\n", "SystemExit: 0 ({path}, line 2)"),
        ("{name}.py", "raise ValueError('two\\nlines')\n", "ValueError: two lines"),
        ("{name}.py", "from tombola.errors import OrderError\nraise OrderError('mine')\n", "mine"),
        ("{name}.py", SOURCE.replace('"my/rotated")\n', '"lanes")\n', 1), "'lanes' belongs to Lanes already"),
    ],
)
def test_what_goes_wrong_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    word: str,
    source: str | None,
    named: str,
) -> None:
    name = "broken_" + re.sub(r"\W", "_", request.node.name)
    path = tmp_path / f"{name}.py"
    if source is not None:
        path.write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    word = word.format(name=name)
    for _ in range(2):  # what failed once has left nothing behind that would let it pass
        assert main(["order", "3x20", "--import", word, "--json"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"tombola: error: --import {word}: ")
        assert err.count("\n") == 1
        assert named.format(path=path) in err


def test_a_users_order_is_scored_too(tmp_path: Path) -> None:
    (tmp_path / "rotated.py").write_text(SOURCE)
    words = ["score", "3x200", "--import", "rotated.py", "--order", "my/rotated", "--epochs", "2", "--json"]
    run = subprocess.run([*TOMBOLA, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.stderr == ""
    found = json.loads(run.stdout)
    assert (found["records"], found["verdict"]) == (600, "local" if run.returncode == 0 else "flawed")
