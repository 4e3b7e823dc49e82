"""Every example is executed: docstrings, the README, the documentation."""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project._sources import ROOT, modules

CHECKER = doctest.OutputChecker()
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PAGES = [
    path
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "ARCHITECTURE.md",
        *sorted(ROOT.glob("docs/**/*.md")),
    ]
    if path.exists()
]


@pytest.mark.parametrize("name", [name for name in modules() if not name.endswith("__main__")])
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0, "see the captured output"


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: (language, text)."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_python(text: str, names: dict[str, object]) -> list[str]:
    """What is wrong with a block of Python: a session with prompts is compared, a plain one has to run."""
    if ">>>" not in text:
        exec(compile(text, "<page>", "exec"), names)
        return []
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(text, names, "page", None, 0)
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    return said


def run_console(text: str, folder: Path) -> list[str]:
    """What is wrong with a block of commands and their output. Only tombola's own commands may be shown."""
    wrong = []
    for entry in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, wanted = entry.partition("\n")
        words = shlex.split(command)
        if words[0] != "tombola":
            wrong.append(f"not a command of tombola, use a block of sh for it: {command}")
            continue
        run = subprocess.run(
            [sys.executable, "-m", "tombola.cli", *words[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if not CHECKER.check_output(wanted, run.stdout + run.stderr, OPTIONS):
            wrong.append(f"$ {command}\n{run.stdout}{run.stderr}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    wrong = []
    for language, text in blocks(page.read_text()):
        if language == "python":
            wrong += run_python(text, names)
        elif language == "console":
            wrong += run_console(text, tmp_path)
    assert not wrong, "\n".join(wrong)


def test_a_wrong_example_is_found(tmp_path: Path) -> None:
    page = "```python\n>>> 1 + 1\n3\n```\n```console\n$ tombola order 10x0\nfine\n$ rm x\n```\n"
    (_, python), (_, console) = blocks(page)
    assert "Expected" in "".join(run_python(python, {}))
    assert len(run_console(console, tmp_path)) == 2


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.name)
def test_example_scripts(path: Path, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
