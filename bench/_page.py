"""Where figures are put down: bench/results as JSON, and a page of the documentation between two marks."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
DOCS = BENCH.parent / "docs"
END = "<!-- end of the table -->"


def machine(more: str) -> str:
    """Where it was measured, and how."""
    return f"{platform.machine()}, Python {platform.python_version()}, {more}"


def kept(name: str) -> dict[str, Any]:
    """What bench/results has of a script; empty before its first run."""
    path = BENCH / "results" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep(name: str, content: dict[str, Any]) -> None:
    """Writes bench/results/NAME.json."""
    path = BENCH / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def put(page: Path, name: str, text: str) -> None:
    """Puts a text between the marks of bench/NAME.py in a page; a page without them is an error."""
    begin = f"<!-- the table of bench/{name}.py -->"
    before, found, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"{page.relative_to(DOCS.parent)} has no {begin} with an {END} after it")
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{END}{after}")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
