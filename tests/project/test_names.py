"""Rooms are public and say what is in them; files inside are private."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from tests.project._sources import PACKAGE, modules, room

PUBLIC = [name for name in modules() if not any(part.startswith("_") for part in name.split("."))]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_room_lists_its_names(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    assert ">>>" in module.__doc__, f"{name}: the docstring shows no example"
    names = module.__all__
    assert list(names) == sorted(set(names)), f"{name}.__all__ is not sorted"
    for public in names:
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            assert inspect.getdoc(thing), f"{name}.{public} has no docstring"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_listed(name: str) -> None:
    module = importlib.import_module(name)
    own = {
        key
        for key, thing in vars(module).items()
        if not key.startswith("_")
        and (inspect.isclass(thing) or inspect.isroutine(thing))
        and (getattr(thing, "__module__", None) or "").split(".")[:2] == name.split(".")[:2]
    }
    assert own <= set(module.__all__), f"not in {name}.__all__: {sorted(own - set(module.__all__))}"


def test_files_inside_rooms_are_private() -> None:
    # A package inside a room is a room within it: public, its files private.
    inside = [name for name, path in modules().items() if name.count(".") >= 2 and path.name != "__init__.py"]
    assert [name for name in inside if not name.rpartition(".")[2].startswith("_")] == []


def test_no_room_of_leftovers() -> None:
    taboo = re.compile(r"^_?(utils?|common|core|helpers?|misc)$")
    stems = {path.stem for path in PACKAGE.rglob("*.py")} | {path.name for path in PACKAGE.rglob("*") if path.is_dir()}
    assert not [stem for stem in stems if taboo.match(stem)]
    assert {room(name) for name in modules()}
