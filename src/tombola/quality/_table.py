"""The table of a score: the one file of this room that needs rich."""

from __future__ import annotations

from tombola.errors import MissingExtra
from tombola.quality._result import Number, Score

try:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise MissingExtra("the table of a score needs rich; pip install 'tombola[cli]', or use to_json()") from error

_COLOURS = {"perfect": "green", "stratified": "green", "local": "yellow", "flawed": "red"}


def table(score: Score) -> Group:
    """A score as something rich can print."""
    head = Text.assemble((score.verdict, f"bold {_COLOURS[score.verdict]}"), "  ", score.subject)
    ranks = f", {score.readers} ranks" if score.readers > 1 else ""
    share = "" if score.positions_read == score.positions else f" ({score.positions_read:,} read)"
    what = Text(
        f"{score.records:,} records in {score.shards:,} shards, {score.positions:,} positions{share}, "
        f"batches of {score.batch_size}{ranks}, ends over {score.epochs} epochs",
        style="dim",
    )
    lines = [Text(("flaw: " if f.flaw else "• ") + f.what, style="red" if f.flaw else "") for f in score.findings]
    grid = Table(box=None, pad_edge=False)
    for title in ("number", "where"):
        grid.add_column(title)
    for title in ("value", "95 % interval", "perfect", "z"):
        grid.add_column(title, justify="right")
    for n in score.numbers:
        grid.add_row(*_cells(n))
    return Group(head, what, *lines, Text(""), grid)


def _cells(n: Number) -> tuple[str, ...]:
    low, high = n.interval
    span = f"{low:.4g} … {high:.4g}" if n.error else ""
    if n.perfect is None:
        return n.name, n.zone, f"{n.value:.4g}", span, "", ""
    z = f"{n.z_perfect:+.1f}" if n.perfect_error else ""
    return n.name, n.zone, f"{n.value:.4g}", span, f"{n.perfect:.4g}", z
