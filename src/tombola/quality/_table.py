"""The table of a score: the one file of this room that needs rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tombola.errors import MissingExtra

if TYPE_CHECKING:  # the result shows itself through this file
    from tombola.quality._result import Number, Score

_BARS = "▁▂▃▄▅▆▇█"
_COLOURS = {"perfect": "green", "stratified": "green", "local": "yellow", "flawed": "red"}


def table(score: Score) -> Any:
    """A score as something rich can print."""
    try:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        raise MissingExtra(
            "the table of a score needs the package rich, which is not installed; use to_json(), or "
            "pip install 'tombola[cli]'"
        ) from None
    head = Text.assemble((score.verdict, f"bold {_COLOURS[score.verdict]}"), "  ", score.subject)
    ranks = f", {score.readers} ranks" if score.readers > 1 else ""
    share = "" if score.positions_read == score.positions else f" ({score.positions_read:,} read)"
    what = Text(
        f"{score.records:,} records in {score.shards:,} shards, {score.positions:,} positions{share}, "
        f"batches of {score.batch_size}{ranks}, ends over {score.epochs} epochs",
        style="dim",
    )
    lines = [Text(("flaw: " if f.flaw else "• ") + f.what, style="red" if f.flaw else "") for f in score.findings]
    lines += [Text("note: " + n, style="dim") for n in score.notes]
    grid = Table(box=None, pad_edge=False)
    grid.add_column("number", no_wrap=True)
    for title in ("beginning", "middle", "end", "whole", "perfect"):
        grid.add_column(title, justify="right")
    names = dict.fromkeys(n.name for n in score.numbers)
    for name in names:
        found = {n.zone: n for n in score.numbers if n.name == name}
        whole = found.get("epoch", found.get("run"))
        cells = [
            Text(*_cell(n, score.threshold))
            for n in (found.get("first"), found.get("middle"), found.get("last"), whole)
        ]
        perfect = next((f"{n.perfect:.4g}" for n in found.values() if n.perfect is not None), "")
        grid.add_row(name.replace("_", " "), *cells, perfect)
    note = Text("± is a 95 % interval; yellow differs from a perfect shuffle beyond its sampling error", style="dim")
    return Group(head, what, *lines, Text(""), grid, *_over_time(score, Text), note)


def _over_time(score: Score, text: Any) -> list[Any]:
    """Open shards over the epoch as a row of bars, each as high as its share of the most."""
    values = [span.open_shards for span in score.over_time]
    if len(values) < 2:
        return []
    most = max(values)
    bars = "".join(_BARS[min(len(_BARS) - 1, int(value / most * len(_BARS)))] for value in values)
    return [text(f"open shards over the epoch, {min(values):.4g} to {most:.4g}: {bars}")]


def _cell(n: Number | None, threshold: float) -> tuple[str, str]:
    """Text and style."""
    if n is None:
        return "", ""
    low, high = n.interval
    span = f" ±{(high - low) / 2:.2g}" if n.error else ""
    differs = n.perfect is not None and n.perfect_error > 0 and abs(n.z_perfect) > threshold
    return f"{n.value:.4g}{span}", "yellow" if differs else ""
