"""Imports go one way between the rooms, from top to bottom."""

from __future__ import annotations

import pytest

from tests.project._sources import imported, modules, room

# A room may import rooms of later lines only; rooms of one line never each other.
LAYERS = [
    {"cli", "testing"},
    {"torch", "jax", "mosaic", "jobs"},
    {"stream", "arrays", "quality", "capacity"},
    {"pipeline"},
    {"plan", "formats"},
    {"order", "stores"},
    {"_hands"},
    {"_ints", "_threads"},
    {"errors", "_core"},
]
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}


def breaches(module: str, source: str, *, package: bool = False) -> list[str]:
    """What a module's text imports against the rule."""
    here = room(module)
    found = []
    for name in sorted(imported(source, module if package else module.rpartition(".")[0])):
        there = room(name)
        if there == here:
            continue
        if there not in DEPTH:
            found.append(f"{module} imports {name}, which is no room: import from the room that holds the name")
        elif any(part.startswith("_") for part in name.split(".")[2:]):
            found.append(f"{module} imports {name}, which is private to {there}: its __init__ says what is public")
        elif here and DEPTH[there] <= DEPTH[here]:
            found.append(f"{module} imports {name}, but {there} is not below {here}")
    return found


@pytest.mark.parametrize("module", modules())
def test_imports_go_down(module: str) -> None:
    path = modules()[module]
    assert not room(module) or room(module) in DEPTH, f"{module} is in no layer: add its room to LAYERS"
    assert breaches(module, path.read_text(), package=path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tombola.order._x", "from tombola.plan import Plan"),
        ("tombola.order._x", "import tombola.stores"),
        ("tombola.order._x", "def f():\n    from tombola import cli"),
        ("tombola.order._x", "import tombola"),
        ("tombola.order._x", "from ..plan import Plan"),
        ("tombola.quality._x", "from tombola.capacity import cost"),
        ("tombola.errors", "from tombola import _core"),
        ("tombola.plan._x", "from tombola.order._lanes import Lanes"),
        ("tombola.plan._x", "from tombola.order import _lanes"),
        ("tombola.plan._x", "from tombola import __version__"),
    ],
)
def test_the_rule_finds_a_breach(module: str, source: str) -> None:
    assert breaches(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tombola.plan._x", "from tombola.order import Order\nfrom tombola import _core"),
        ("tombola.plan._x", "from tombola.plan._y import z\nfrom ._w import v"),
        ("tombola.cli._x", "from tombola.errors import TombolaError\nimport json, numpy"),
        ("tombola", "from tombola.order import Lanes"),
    ],
)
def test_the_rule_lets_the_rest_be(module: str, source: str) -> None:
    assert breaches(module, source) == []
