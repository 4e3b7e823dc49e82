"""Exceptions: one tree, as drawn, and each survives a trip to another process."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re

import pytest

from tests.project._sources import modules
from tombola import errors


def raised() -> list[type[BaseException]]:
    """Every exception class the package defines, in whatever module."""
    found = set()
    for name in modules():
        if name.endswith("__main__"):
            continue
        for thing in vars(importlib.import_module(name)).values():
            if inspect.isclass(thing) and issubclass(thing, BaseException) and thing.__module__.startswith("tombola"):
                found.add(thing)
    return sorted(found, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", raised())
def test_survives_pickling(cls: type[BaseException]) -> None:
    error = cls("shard 3 of the layout has -1 records; a size cannot be negative")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_all_live_in_the_errors_room() -> None:
    assert [cls.__name__ for cls in raised()] == sorted(errors.__all__)


def test_the_tree_is_as_drawn() -> None:
    path: list[type[BaseException]] = []
    drawn = set()
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^( {4}[│ ├└─]*)([A-Z]\w+)(?: \((\w+)\))?(?:\s|$)", line)
        if not match:
            continue
        depth = (len(match[1]) - 4) // 4
        cls = getattr(errors, match[2])
        bases = {base.__name__ for base in cls.__bases__}
        assert (path[depth - 1].__name__ if depth else "Exception") in bases, f"{match[2]} is drawn in the wrong place"
        if match[3]:
            assert match[3] in bases
        path[depth:] = [cls]
        drawn.add(match[2])
    assert drawn == set(errors.__all__)
