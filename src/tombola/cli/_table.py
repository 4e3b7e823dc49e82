"""Tables on a terminal: the only file that needs rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tombola.errors import MissingExtra


def print_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Names on the left, values on the right."""
    _print([("", "left"), ("", "left")], [(name, _text(value)) for name, value in pairs], header=False)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table with a heading; numbers stand on the right."""
    _print([(name, "right") for name in columns], [[_text(value) for value in row] for row in rows], header=True)


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print(columns: Sequence[tuple[str, Any]], rows: Sequence[Sequence[str]], *, header: bool) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        raise MissingExtra(
            "tables need the package rich, which is not installed; use --json, or pip install 'tombola[cli]'"
        ) from None
    table = Table(box=None, show_header=header, pad_edge=False, padding=(0, 3, 0, 0))
    for number, (name, justify) in enumerate(columns):
        # Only the last column may be folded: a number broken in two would mislead.
        last = number == len(columns) - 1
        table.add_column(name, justify=justify, no_wrap=not last, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def print_plain(thing: object) -> None:
    """Something that knows how rich should show it."""
    try:
        from rich.console import Console
    except ImportError:
        raise MissingExtra(
            "tables need the package rich, which is not installed; use --json, or pip install 'tombola[cli]'"
        ) from None
    Console(highlight=False).print(thing)
