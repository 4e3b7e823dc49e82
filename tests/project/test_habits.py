"""Habits that this project does not have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project._sources import PACKAGE, ROOT, modules, room

NATIVE = sorted(path for end in ("hpp", "cpp") for path in (ROOT / "native").rglob(f"*.{end}"))
STUBS = sorted(PACKAGE.rglob("*.pyi"))

ENVIRONMENT = {"tombola.plan._world"}
# The only files that may import inside a function: the doors to optional dependencies.
DOORS = {"tombola.arrays._gpu", "tombola.plan._world", "tombola.cli._table", "tombola.quality._table"}
# A name that users bring along from elsewhere, for what they know by it.
KNOWN = {"split_by_node"}
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
            if TABOO.search(name) and name not in KNOWN:
                yield f"{where} the name {name}"


def native_words(text: str) -> Iterator[str]:
    """The taboo identifiers in a text of C++; those of the standard library and of nanobind are not ours."""
    # First the comments and strings, in one pass: each may hold what looks like the other. "name"_a is a name.
    code = re.sub(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"(_a\b)?',
        lambda found: found[0] if found[2] else " ",
        text,
        flags=re.DOTALL,
    )
    code = re.sub(r"\b(std|nb|nanobind)(::\w+)+", " ", code)
    for name in re.findall(r"[A-Za-z_]\w*", code):
        if TABOO.search(name):
            yield f"the name {name}"


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


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: str(path.relative_to(ROOT)))
def test_native_names(path: Path) -> None:
    assert list(native_words(path.read_text())) == []


@pytest.mark.parametrize("path", STUBS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_stubs(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    assert sum(isinstance(node, ast.FunctionDef) for node in nodes) > 10
    assert [name for node in nodes for name in defined(node) if TABOO.search(name)] == []


def test_there_are_native_files_and_stubs() -> None:
    assert {path.parent.name for path in NATIVE} == {"bindings", "src", "tests"}
    assert [path.name for path in STUBS] == ["_core.pyi"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int index = 0; // chunk", ["index"]),
        ("for (int i = 0;; ++i) f(part_index, i);", ["part_index"]),
        ("struct ChunkStore {};", ["ChunkStore"]),
        ('m.def("at", &at, "indices"_a, "out"_a);', ["indices"]),
        ('f("x"_a, chunk, "y"_a);', ["chunk"]),
        ("template <class T> void split(T) {}", ["split"]),
        ('f("// no comment"); int chunks;', ["chunks"]),
        ('/* a " in here */ int chunk; /* " */', ["chunk"]),
        ("std::make_index_sequence<3>{}; nb::detail::index_of(x); sum += std::size(index_);", ["index_"]),
        ("// the index of a chunk", []),
        ("/* split\n partition */ int x;", []),
        ('throw std::invalid_argument("no \\" such index");', []),
        ('auto text = R"(the index "of" a chunk)";', []),
        ("reindexed(indexer, splitting);", []),
    ],
)
def test_each_native_word_is_found(text: str, found: list[str]) -> None:
    assert list(native_words(text)) == [f"the name {name}" for name in found]


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
