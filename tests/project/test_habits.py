"""Habits that this project does not have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.project._sources import modules, room

ENVIRONMENT = {"tombola.plan._world"}
# The only files that may import inside a function: the doors to optional dependencies.
DOORS = {"tombola.arrays._gpu", "tombola.plan._world", "tombola.cli._table"}
GENERATORS = {"BitGenerator", "Generator", "PCG64", "Philox", "SeedSequence", "default_rng"}
# Each of these means two things in this field already.
TABOO = re.compile(r"(^|_)(index|indexes|indices|chunks?|splits?|partitions?)(_|$)|(Index|Chunk|Split|Partition)")


def habits(module: str, source: str) -> Iterator[str]:
    """The bad habits in a module's text, one line each."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        where = f"{module}:{getattr(node, 'lineno', 0)}"
        match node:
            case ast.ExceptHandler(type=None):
                yield f"{where} bare except"
            case ast.Assert() if room(module) != "testing":
                yield f"{where} assert"
            case ast.Attribute(attr="environ" | "environb" | "getenv" | "putenv") if module not in ENVIRONMENT:
                yield f"{where} reads the environment"
            case ast.ImportFrom(module="os", names=names) if module not in ENVIRONMENT:
                if {alias.name for alias in names} & {"environ", "environb", "getenv", "putenv"}:
                    yield f"{where} reads the environment"
            case ast.Attribute(value=ast.Attribute(attr="random"), attr=name) if name not in GENERATORS:
                yield f"{where} NumPy's global random state: {name}"
            case ast.FunctionDef() | ast.AsyncFunctionDef() if module not in DOORS:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Import | ast.ImportFrom):
                        yield f"{where} import inside a function"
            case _:
                pass
        for name in defined(node):
            if TABOO.search(name):
                yield f"{where} the name {name}"


def defined(node: ast.AST) -> Iterator[str]:
    """The names that a node gives to something."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case _:
            pass


@pytest.mark.parametrize("module", modules())
def test_no_bad_habits(module: str) -> None:
    assert list(habits(module, modules()[module].read_text())) == []


@pytest.mark.parametrize(
    ("source", "habit"),
    [
        ("try:\n    f()\nexcept:\n    pass", "bare except"),
        ("assert x > 0", "assert"),
        ("import os\nos.environ['RANK']", "reads the environment"),
        ("import os\nos.getenv('RANK')", "reads the environment"),
        ("from os import environ", "reads the environment"),
        ("import numpy as np\nnp.random.shuffle(x)", "global random state"),
        ("def f():\n    import torch", "import inside a function"),
        ("def split_it(x): pass", "the name split_it"),
        ("def f(chunk): pass", "the name chunk"),
        ("self.index = 1", "the name index"),
        ("class SplitStore: pass", "the name SplitStore"),
    ],
)
def test_each_habit_is_found(source: str, habit: str) -> None:
    found = list(habits("tombola.order._x", source))
    assert len(found) == 1
    assert habit in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tombola.plan._world", "import os\nrank = os.environ['RANK']"),
        ("tombola.testing._orders", "assert 1 + 1 == 2"),
        ("tombola.cli._table", "def f():\n    import rich"),
        (
            "tombola.order._x",
            "rng = np.random.default_rng(0)\nwords = text.split(',')\nreindexed = operator.index(3)",
        ),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    assert list(habits(module, source)) == []
