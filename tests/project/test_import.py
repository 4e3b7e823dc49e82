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


LIGHT = """
import json, sys
import tombola
early = sorted(name for name in sys.modules if name.startswith("tombola.") or name == "numpy")
for name in tombola.__all__:
    getattr(tombola, name)
rooms = [getattr(tombola, room).__name__ for room in ("errors", "order", "plan", "quality", "stores")]
print(json.dumps([early, sorted(set(tombola.__all__) - set(dir(tombola))), rooms]))
"""


def test_names_and_rooms_are_loaded_when_asked_for() -> None:
    run = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60, check=True)
    early, hidden, rooms = json.loads(run.stdout)
    assert early == []
    assert hidden == []
    assert rooms == [f"tombola.{name}" for name in ("errors", "order", "plan", "quality", "stores")]


@pytest.mark.parametrize("name", ["nothing", "_nothing", "__path_of_nothing__"])
def test_a_name_that_is_not_there_is_an_attribute_error(name: str) -> None:
    assert not hasattr(tombola, name)
    with pytest.raises(AttributeError, match=f"module 'tombola' has no attribute '{name}'"):
        getattr(tombola, name)


def test_a_room_that_fails_to_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a room itself needs and does not find is no missing attribute."""
    monkeypatch.setitem(sys.modules, "numpy.typing", None)
    for name in [key for key in sys.modules if key.startswith("tombola.plan")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(tombola), "plan", raising=False)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        tombola.plan  # noqa: B018


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
