"""What an import brings: NumPy and the standard library, nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import tombola

PROGRAM = """
import importlib, json, sys
before = set(sys.modules)
importlib.import_module({room!r})
new = {{name.split('.')[0] for name in set(sys.modules) - before}}
print(json.dumps(sorted(name for name in new if name not in sys.stdlib_module_names)))
"""


def third_party(room: str) -> set[str]:
    """The packages that a fresh process has after an import of a room, the standard library left out."""
    run = subprocess.run([sys.executable, "-c", PROGRAM.format(room=room)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    # An editable install's own hook, as of pip and scikit-build-core, is not the package's doing.
    return {name for name in json.loads(run.stdout) if not name.startswith("_") and not name.startswith("scikit")}


@pytest.mark.parametrize(
    "room",
    ["tombola", "tombola.errors", "tombola.order", "tombola.plan", "tombola.arrays", "tombola.cli", "tombola.testing"],
)
def test_brings_only_numpy(room: str) -> None:
    assert third_party(room) <= {"tombola", "numpy"}


def test_the_measure_works() -> None:
    assert "pytest" in third_party("pytest")


def test_the_version_is_the_installed_one() -> None:
    assert tombola.__version__ == version("tombola")
