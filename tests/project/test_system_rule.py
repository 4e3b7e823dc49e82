"""The rule for system packages, tried on a real run of pytest with a package that does not exist."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

SUITE = """
import pytest

@pytest.mark.system("no-such-package")
def test_needs_it():
    raise SystemError("must not run")

@pytest.mark.system("a-shell")
def test_has_it():
    pass
"""


def run_suite(folder: Path, suite: str, **environ: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "system-packages.txt").write_text("# a comment\nno-such-package no-such-program\na-shell sh\n")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = system: …\naddopts = -ra -p no:cacheprovider\n")
    (folder / "test_it.py").write_text(suite)
    rest = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [sys.executable, "-m", "pytest", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=rest | environ, cwd=folder, timeout=120)


def test_a_missing_package_is_a_counted_skip(tmp_path: Path) -> None:
    run = run_suite(tmp_path, SUITE)
    assert run.returncode == 0, run.stdout
    assert "1 passed, 1 skipped" in run.stdout
    assert "system: no-such-package is missing (no-such-program not found)" in run.stdout
    assert "1 skipped, system: no-such-package is missing" in run.stdout


def test_in_ci_it_fails_the_run(tmp_path: Path) -> None:
    run = run_suite(tmp_path, SUITE, CI="true")
    assert run.returncode == 1, run.stdout
    assert "in CI that is a failure" in run.stdout


def test_in_ci_a_run_without_such_skips_passes(tmp_path: Path) -> None:
    run = run_suite(tmp_path, "def test_it(): pass", CI="true")
    assert run.returncode == 0, run.stdout


def test_a_package_that_is_not_listed_is_an_error(tmp_path: Path) -> None:
    run = run_suite(tmp_path, SUITE.replace("no-such-package", "unlisted"))
    assert run.returncode == 1, run.stdout
    assert "unlisted is not in system-packages.txt" in run.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_installer_never_fails(tmp_path: Path) -> None:
    """With an apt-get and a dpkg-query that always fail, and root in the script's eyes."""
    for name, body in {
        "apt-get": 'echo "$@" >> calls; exit 100',
        "dpkg-query": "exit 1",
        "id": "echo 0",
    }.items():
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)
    (tmp_path / "list").write_text("# comment\n\nsome-package  prog\n")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    script = TESTS.parent / "tools" / "system_packages"
    run = subprocess.run(
        ["bash", str(script), "list"],
        cwd=tmp_path,
        env={"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0
    assert "could not install some-package" in run.stdout
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sum("update" in call for call in calls) == 1
    assert sum(call.endswith("some-package") for call in calls) == 2
