"""The project's own files, as the tests about the project read them."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tombola"


def modules() -> dict[str, Path]:
    """Dotted name of every module of the package → its file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(module: str) -> str:
    """The room a module belongs to: its first name under tombola, "" for tombola itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imported(source: str, package: str) -> set[str]:
    """The modules of tombola that a source text imports; `package` anchors relative imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            # `from tombola import order` names a room only in its last word, `from tombola.order import _x` a file.
            names = {alias.name for alias in node.names}
            found |= {f"{name}.{word}" for word in names if name == "tombola" or word.startswith("_")}
            found |= {name} if name != "tombola" else set()
    return {name for name in found if name.split(".")[0] == "tombola"}
