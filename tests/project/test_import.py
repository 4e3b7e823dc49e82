"""What an import brings: NumPy and the standard library, nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import tombola.errors
import tombola.order

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
    [
        "tombola",
        "tombola.errors",
        "tombola.order",
        "tombola.stores",
        "tombola.formats",
        "tombola.plan",
        "tombola.arrays",
        "tombola.cli",
        "tombola.testing",
    ],
)
def test_brings_only_numpy(room: str) -> None:
    assert third_party(room) <= {"tombola", "numpy"}


def test_the_measure_works() -> None:
    assert "pytest" in third_party("pytest")


ANEW = """
import importlib, sys, tombola
def write(store):
    with tombola.Writer(store, columns={"n": "int"}) as writer:
        for n in range(50):
            writer.write({"n": n})
from tombola.stores import MemoryStore
write(old := MemoryStore())
iterator = iter(tombola.Stream(old, batch_size=10))
first = next(iterator)
for name in [name for name in sys.modules if name.startswith("tombola")]:
    del sys.modules[name]
import tombola
from tombola.stores import MemoryStore
write(new := MemoryStore())
print(len(list(tombola.Stream(new, batch_size=10))), len(list(iterator)), len(first["n"]))
importlib.reload(tombola)
importlib.reload(tombola.stream)
print(len(list(tombola.Stream(new, batch_size=10))))
"""


def test_imported_anew_as_notebooks_do() -> None:
    run = subprocess.run([sys.executable, "-W", "error", "-c", ANEW], capture_output=True, text=True, timeout=60)
    assert (run.stdout.split(), run.stderr) == (["5", "4", "10", "5"], "")


def test_the_version_is_the_installed_one() -> None:
    assert tombola.__version__ == version("tombola")


LATER = """
import json, sys
import tombola.order as order
from tombola.order import _order
early = sorted(name for name in sys.modules if name.startswith("tombola.order._"))
missing = [name for name in order.order_names() if name not in _order._REGISTRY]
for name in order.__all__:
    getattr(order, name)
for name in set(_order._LATER.values()):
    __import__(name)
print(json.dumps([early, sorted(missing), sorted(_order._LATER), sorted(_order._REGISTRY), list(order.order_names())]))
"""


def test_orders_that_few_programs_use_are_loaded_when_asked_for() -> None:
    run = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, timeout=60, check=True)
    early, missing, later, registered, names = json.loads(run.stdout)
    assert "tombola.order._mixture" not in early
    assert missing == later  # what is promised by name but not loaded is exactly what loads later …
    assert registered == names  # … and after that every name is there, and none besides


def test_a_name_that_loads_later_is_taken_all_the_same() -> None:
    with pytest.raises(tombola.errors.OrderError, match="belongs to tombola already"):
        tombola.order.register("mixture")(tombola.order.Global)
